//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOFT_KERNEL_FILES_HPP
#define BOOST_RDMA_TOOLS_SOFT_KERNEL_FILES_HPP

#include <string>

namespace rdma::soft {

/// The path to open for a path of the program.
/**
 * The kernel's files of a device are /dev/infiniband/NAME and the directory /sys/class/infiniband.
 * The software device has /dev/null and a directory in TMPDIR in their places. All other paths are
 * unchanged.
 */
class file_path
{
public:
  explicit file_path(const char* path) noexcept; ///< keeps errno

  operator const char*() const noexcept { return chosen_; }

private:
  std::string text_;
  const char* chosen_;
};

} // namespace rdma::soft

#endif // BOOST_RDMA_TOOLS_SOFT_KERNEL_FILES_HPP
