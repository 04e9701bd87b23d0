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

// The memory mappings of this process (proc_pid_maps(5)).
class memory_map
{
public:
  // Throws system_error if /proc is not mounted.
  memory_map();
  ~memory_map();
  memory_map(const memory_map&) = delete;
  memory_map& operator=(const memory_map&) = delete;

  // Returns true if the whole range is private anonymous memory. Only such memory cannot change
  // without an action of this process: the pages of a file disappear when any process truncates it,
  // even from private mappings (mmap(2)).
  [[nodiscard]] bool is_private(const page_range& range) const noexcept;

private:
  int fd_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_MEMORY_MAP_HPP
