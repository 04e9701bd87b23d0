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
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

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
 * Not a std::initializer_list or a std::vector: with GCC 12, temporaries in an operand of co_await
 * cannot be the first, and may destroy the second twice. A list that has too many elements remains
 * so, and the call is refused.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class exposure_list
{
public:
  /// A list of these elements.
  template <std::same_as<exposure>... Exposures>
  exposure_list(const Exposures&... each) noexcept
  {
    (add(each), ...);
  }
  /// Copies the elements.
  exposure_list(const exposure_list& other) noexcept { *this = other; }
  /// Copies the elements.
  exposure_list& operator=(const exposure_list& other) noexcept
  {
    size_ = other.size_;
    std::memmove(memory_, other.memory_, size_ * sizeof(exposure));
    return *this;
  }
  /// Destroys the list. The memory remains.
  ~exposure_list() = default;

  /// Adds an element.
  void add(const exposure& what) noexcept
  {
    if (size_ != capacity)
      std::memcpy(memory_ + size_++ * sizeof what, &what, sizeof what);
  }

  /// Returns the elements.
  [[nodiscard]] std::span<const exposure> all() const noexcept
  {
    return {std::launder(reinterpret_cast<const exposure*>(memory_)), size_};
  }

private:
  static constexpr std::size_t capacity = 17; // one more than a call may expose
  static_assert(std::is_trivially_copyable_v<exposure>);

  std::size_t size_ = 0;
  alignas(exposure) std::byte memory_[capacity * sizeof(exposure)]; // only `size_` are copied
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
