//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MAPPING_READER_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MAPPING_READER_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace rdma::software {

/// A memory mapping of this process: a line of /proc/self/maps (proc_pid_maps(5)).
struct mapping
{
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  int protection = 0; ///< PROT_READ, PROT_WRITE and PROT_EXEC
  bool is_private = false;
  std::uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;       ///< 0: anonymous
  std::string_view name; ///< valid until the next line is read
};

/// Reads the mappings of this process, in ascending order. Allocates no memory.
class mapping_reader
{
public:
  /// `fd`: of /proc/self/maps. Reading starts at its beginning.
  explicit mapping_reader(int fd) noexcept
    : fd_(fd)
  {
  }

  /// Returns the next mapping; nothing at the end and after an error.
  std::optional<mapping> next() noexcept;

private:
  static constexpr std::size_t buffer_size = 8192; // longer than a line: PATH_MAX is 4096

  const int fd_;
  off_t offset_ = 0; // of the bytes that are read next
  std::size_t line_ = 0;
  std::size_t used_ = 0;
  std::array<char, buffer_size> buffer_;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_MEMORY_MAPPING_READER_HPP
