//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_EXPOSURE_HPP
#define BOOST_RDMA_RPC_EXPOSURE_HPP

#include <boost_rdma/access.hpp>
#include <boost_rdma/buffer.hpp>

#include <concepts>
#include <span>
#include <vector>

namespace rdma::rpc {

/// Memory of the client that the server may access while a call lasts (call_options::exposed).
/**
 * The memory belongs to the call until its handler runs; then the server can access it no more.
 *
 * Memory of a context's pool, and of a region with access::window_bind, is opened by a memory
 * window to the queue pair of the connection, if the device has windows that can be withdrawn at
 * any time. The server's transfers are one-sided operations then. The bytes of other memory, and
 * those of a connection by TCP, travel in messages. Up to 4 KiB that can only be read travel with
 * the call.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class exposure
{
public:
  /// Memory that the server may read.
  explicit exposure(const const_buffer& memory) noexcept
    : memory_(memory)
    , rights_(access::remote_read)
  {
  }
  /// Memory with access::remote_read, access::remote_write, or both.
  exposure(const mutable_buffer& memory, access rights) noexcept
    : memory_(memory)
    , rights_(rights)
  {
  }

  /// Returns the memory.
  [[nodiscard]] const const_buffer& memory() const noexcept { return memory_; }
  /// Returns what the server may do.
  [[nodiscard]] access rights() const noexcept { return rights_; }

private:
  const_buffer memory_;
  access rights_;
};

/// A list of what a call exposes. Write `expose(a)`, or `{expose(a), expose(b, rights)}`.
/**
 * Not a std::vector: GCC 12 accepts no std::initializer_list in an operand of co_await.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class exposure_list
{
public:
  /// A list of these elements.
  template <std::same_as<exposure>... Exposures>
  exposure_list(const Exposures&... each)
  {
    (add(each), ...);
  }

  /// Adds an element.
  void add(const exposure& what) { all_.push_back(what); }

  /// Returns the elements.
  [[nodiscard]] std::span<const exposure> all() const noexcept { return all_; }

private:
  std::vector<exposure> all_;
};

/// Exposes memory that the server may read.
[[nodiscard]] inline exposure expose(const const_buffer& memory) noexcept
{
  return exposure(memory);
}

/// Exposes memory with access::remote_read, access::remote_write, or both.
[[nodiscard]] inline exposure expose(const mutable_buffer& memory, access rights) noexcept
{
  return {memory, rights};
}

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_EXPOSURE_HPP
