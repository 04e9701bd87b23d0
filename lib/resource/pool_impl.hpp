//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP
#define BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP

#include "boost_rdma/error.hpp"
#include "boost_rdma/memory_pool.hpp"
#include "boost_rdma/registered_buffer.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace rdma::detail {

class domain_impl;

// Registered arenas, cut into blocks of one size class each: powers of two from 64 bytes to a quarter of
// an arena. A larger buffer is an arena of its own and is deregistered when it comes back; the
// blocks of shared arenas are kept for the next.
class pool_impl
{
public:
  pool_impl(domain_impl& domain, const memory_pool_options& options);
  ~pool_impl();
  pool_impl(const pool_impl&) = delete;
  pool_impl& operator=(const pool_impl&) = delete;

  [[nodiscard]] registered_buffer allocate(std::size_t size, error_code& ec);
  [[nodiscard]] memory_pool_statistics statistics() const;

  // Bytes that a buffer of this size makes the pool register when it has none left.
  [[nodiscard]] std::size_t growth(std::size_t size) const noexcept;

  // Deregisters all arenas. No buffer may be out.
  void clear() noexcept;

private:
  struct arena;
  struct block;

  static constexpr std::size_t smallest_class = 64;
  static constexpr std::size_t class_count = 32;

  static void give_back(registration* block) noexcept;
  arena* grow(std::size_t block_size, std::size_t blocks, error_code& ec);

  domain_impl& domain_;
  memory_pool_options options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<arena>> arenas_;
  std::array<block*, class_count> free_{};
  memory_pool_statistics statistics_;
  std::shared_ptr<domain_impl> keep_alive_; // while buffers are out
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_POOL_IMPL_HPP
