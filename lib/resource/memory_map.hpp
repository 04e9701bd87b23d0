//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_MEMORY_MAP_HPP
#define BOOST_RDMA_LIB_RESOURCE_MEMORY_MAP_HPP

#include "boost_rdma/error.hpp"
#include "resource/page_range.hpp"

namespace rdma::detail {

// What this process has mapped (proc_pid_maps(5)).
class memory_map
{
public:
  // Throws system_error where there is no /proc.
  memory_map();
  ~memory_map();
  memory_map(const memory_map&) = delete;
  memory_map& operator=(const memory_map&) = delete;

  // Whether all of it is private memory of no file. Only such memory cannot change behind the back
  // of the process: a file's pages go when somebody truncates it, wherever that is, also from
  // private mappings (mmap(2)).
  [[nodiscard]] bool is_private(const page_range& range) const noexcept;

private:
  int fd_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_MEMORY_MAP_HPP
