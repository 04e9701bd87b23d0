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
 * A plain value that may be copied and sent; it does not keep the memory exposed. The size and the
 * rights are what the owner said. The peer's device checks each access against what it really
 * exposed, and answers wc_status::remote_access_error when they do not agree. What the handle
 * itself does not permit is refused here, without a message: error::remote_range_too_small,
 * error::remote_right_missing.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class remote_buffer
{
public:
  /// Bytes of the form that encode() writes.
  static constexpr std::size_t encoded_size = 32;
  /// What encode() returns.
  using encoded = std::array<std::byte, encoded_size>;

  /// No memory: operations refuse it with error::remote_range_too_small.
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

  /// Memory of a peer that is not of this library and told an address, a size and a key
  /// (ibv_mr::rkey).
  /**
   * @param kind What the queue pair that uses it belongs to.
   * @param address As the peer's processor has it.
   * @param size Bytes.
   * @param key ibv_mr::rkey; 0 is none.
   * @param rights What the peer said; only remote_ rights count.
   */
  remote_buffer(device_kind kind, std::uint64_t address, std::uint64_t size, std::uint32_t key,
    access rights = remote_access) noexcept
    : remote_buffer(address, size, {}, rights)
  {
    keys_[kind == device_kind::nic ? detail::nic_index : detail::software_index] = key;
  }

  /// As the owner's processor has it.
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  /// Bytes.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// What may be done with it, as the owner said.
  [[nodiscard]] access rights() const noexcept { return rights_; }

  /// For the library itself: as below, by the device's place in a context.
  [[nodiscard]] std::uint32_t key(std::size_t device_index) const noexcept
  {
    return keys_[device_index];
  }

  /// The remote key (ibv_mr::rkey) for a device of this kind; 0 where there is none.
  [[nodiscard]] std::uint32_t key(device_kind kind) const noexcept
  {
    return keys_[kind == device_kind::nic ? detail::nic_index : detail::software_index];
  }
  /// For the library itself: all keys.
  [[nodiscard]] const detail::device_keys& keys() const noexcept { return keys_; }

  /// The first n bytes, or all where there are fewer.
  [[nodiscard]] remote_buffer first(std::uint64_t n) const noexcept { return slice(0, n); }

  /// n bytes from offset on, clipped to what there is.
  [[nodiscard]] remote_buffer slice(
    std::uint64_t offset, std::uint64_t n = UINT64_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {address_ + offset, std::min(n, size_ - offset), keys_, rights_};
  }

  /// The part that `count` objects T take at the owner, from the one numbered `first` on.
  /**
   * Not clipped, unlike slice().
   *
   * @param first 0 is the first object of the buffer.
   * @param count May be 0.
   * @param ec error::out_of_range when they do not all lie inside; empty then.
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

  /// As above; throws system_error.
  template <detail::viewable T>
  [[nodiscard]] remote_buffer elements(std::uint64_t first, std::uint64_t count = 1) const
  {
    error_code ec;
    const remote_buffer result = elements<T>(first, count, ec);
    if (ec)
      throw system_error(ec, "remote_buffer::elements");
    return result;
  }

  /// A fixed form for the wire: version, rights, keys, address, size; big-endian.
  [[nodiscard]] encoded encode() const noexcept;

  /// Reads what encode() wrote. error::malformed_description for anything else.
  static remote_buffer decode(std::span<const std::byte> bytes, error_code& ec) noexcept;

  /// As above; throws system_error.
  static remote_buffer decode(std::span<const std::byte> bytes);

private:
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
  detail::device_keys keys_{};
  access rights_ = access::local_read;
};

} // namespace rdma

#endif // BOOST_RDMA_REMOTE_BUFFER_HPP
