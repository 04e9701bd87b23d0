//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_SHARED_BYTES_HPP
#define BOOST_RDMA_TEST_COMMON_SHARED_BYTES_HPP

#include "verbs/software/memory/shared_memory.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include <sys/mman.h>

namespace test {

/// Zeroed memory that peers on this host can map, as the library's pools have it. Peers access
/// other memory by frames only.
class shared_bytes
{
public:
  explicit shared_bytes(
    std::size_t size, rdma::software::writers who = rdma::software::writers::all)
    : shared_(rdma::software::shared_memory::map(size, size, 0, who))
  {
    if (shared_ == nullptr)
      throw std::bad_alloc();
  }
  ~shared_bytes()
  {
    shared_->withdraw();
    ::munmap(data(), size());
  }
  shared_bytes(const shared_bytes&) = delete;
  shared_bytes& operator=(const shared_bytes&) = delete;

  std::byte* data() const noexcept { return shared_->base(); }
  std::size_t size() const noexcept { return shared_->size(); }
  int fd() const noexcept { return shared_->fd(); }
  operator std::span<std::byte>() const noexcept { return {data(), size()}; }
  operator std::span<const std::byte>() const noexcept { return {data(), size()}; }

private:
  std::shared_ptr<rdma::software::shared_memory> shared_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_SHARED_BYTES_HPP
