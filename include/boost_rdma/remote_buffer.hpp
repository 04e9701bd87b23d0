//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_REMOTE_BUFFER_HPP
#define BOOST_RDMA_REMOTE_BUFFER_HPP

#include <boost_rdma/detail/registration.hpp>
#include <boost_rdma/detail/typed_views.hpp>
#include <boost_rdma/device.hpp>
#include <boost_rdma/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma {

/// A range of memory on another host, as its owner described it: address, size, keys and rights.
/**
 * A value that may be copied and sent. It does not keep the memory exposed. The size and the rights
 * are those that the owner stated. The peer's device checks each access against the memory that is
 * actually exposed, and answers wc_status::remote_access_error if they differ. Operations that the
 * handle does not permit fail on this side, without a message: error::remote_range_too_small,
 * error::remote_right_missing.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class remote_buffer
{
public:
  /// Size of the encoded form in bytes.
  static constexpr std::size_t encoded_size = 32;
  /// Result of encode().
  using encoded = std::array<std::byte, encoded_size>;

  /// Creates a handle without memory: operations fail with error::remote_range_too_small.
  remote_buffer() = default;

  /// For the library itself.
  remote_buffer(
    std::uint64_t address, std::uint64_t size, detail::device_keys keys, access rights) noexcept
    : address_(address)
    , size_(size)
    , keys_(keys)
    , rights_(rights)
  {
  }

  /// Creates a handle to memory of a peer that does not use this library, from address, size and
  /// key.
  /**
   * @param kind Kind of the device of the queue pair that uses the handle.
   * @param address Address in the peer's process.
   * @param size Size in bytes.
   * @param key ibv_mr::rkey; 0 means no key.
   * @param rights Rights that the peer stated; only remote_ rights are significant.
   */
  remote_buffer(device_kind kind, std::uint64_t address, std::uint64_t size, std::uint32_t key,
    access rights = remote_access) noexcept
    : remote_buffer(address, size, {}, rights)
  {
    keys_[kind == device_kind::nic ? detail::nic_index : detail::software_index] = key;
  }

  /// Returns the address in the owner's process.
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  /// Returns the size in bytes.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Returns the rights that the owner stated.
  [[nodiscard]] access rights() const noexcept { return rights_; }

  /// For the library itself: returns the remote key for a device, by its index in a context.
  [[nodiscard]] std::uint32_t key(std::size_t device_index) const noexcept
  {
    return keys_[device_index];
  }

  /// Returns the remote key (ibv_mr::rkey) for a device of this kind; 0 if there is none.
  [[nodiscard]] std::uint32_t key(device_kind kind) const noexcept
  {
    return keys_[kind == device_kind::nic ? detail::nic_index : detail::software_index];
  }
  /// For the library itself: all keys.
  [[nodiscard]] const detail::device_keys& keys() const noexcept { return keys_; }

  /// Returns the first n bytes, or all if there are fewer.
  [[nodiscard]] remote_buffer first(std::uint64_t n) const noexcept { return slice(0, n); }

  /// Returns n bytes from `offset`, clipped to the end of the buffer.
  [[nodiscard]] remote_buffer slice(
    std::uint64_t offset, std::uint64_t n = UINT64_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {address_ + offset, std::min(n, size_ - offset), keys_, rights_};
  }

  /// Returns the part of the buffer that contains `count` objects T, beginning with number `first`.
  /**
   * The result is not clipped, unlike that of slice().
   *
   * @param first Index of the first object; 0 is the first object of the buffer.
   * @param count Number of objects; may be 0.
   * @param ec error::out_of_range if the objects are not all inside the buffer. The result is empty
   * then.
   */
  template <detail::viewable T>
  [[nodiscard]] remote_buffer elements(
    std::uint64_t first, std::uint64_t count, error_code& ec) const noexcept
  {
    const std::uint64_t there = size_ / sizeof(T);
    ec = {};
    if (first > there || count > there - first)
      ec = error::out_of_range;
    return ec ? slice(0, 0) : slice(first * sizeof(T), count * sizeof(T));
  }

  /// Returns the part of the buffer that contains `count` objects T. Throws system_error.
  template <detail::viewable T>
  [[nodiscard]] remote_buffer elements(std::uint64_t first, std::uint64_t count = 1) const
  {
    return detail::or_throw(
      "remote_buffer::elements", [&](error_code& ec) { return elements<T>(first, count, ec); });
  }

  /// Returns a form of fixed size for transfer: version, rights, keys, address, size; big-endian.
  [[nodiscard]] encoded encode() const noexcept;

  /// Parses the result of encode(). Sets error::malformed_description for other input.
  static remote_buffer decode(std::span<const std::byte> bytes, error_code& ec) noexcept;

  /// Parses the result of encode(). Throws system_error.
  static remote_buffer decode(std::span<const std::byte> bytes);

private:
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
  detail::device_keys keys_{};
  access rights_ = access::local_read;
};

} // namespace rdma

#endif // BOOST_RDMA_REMOTE_BUFFER_HPP
