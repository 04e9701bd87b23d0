//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BUFFER_HPP
#define BOOST_RDMA_BUFFER_HPP

#include <boost_rdma/detail/registration.hpp>
#include <boost_rdma/detail/typed_views.hpp>

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

namespace rdma {

class const_buffer;

namespace detail {

// Trivially copyable objects, except buffers that describe other memory.
template <class T>
concept plain_data =
  std::is_trivially_copyable_v<T> && !std::convertible_to<const T&, const_buffer>;

} // namespace detail

/// A non-owning view of registered memory that operations may write to, with its keys.
/**
 * Corresponds to asio::mutable_buffer, with the registration in addition. An operation keeps the
 * memory registered until its handler is called, even if the owner is destroyed before. Between
 * operations the view is valid as long as the owner is.
 *
 * Plain memory (a boost::asio::mutable_buffer or a std::span) converts to this type, too. It has no
 * registration. Operations copy small plain buffers and register large ones
 * (queue_pair_options::copy_max).
 *
 * @par Objects
 * These functions access the memory as objects:
 * @li as<T>() returns the beginning of the buffer as a T.
 * @li as_span<T>() returns the whole buffer as an array of T.
 * @li elements<T>(first, count) returns the part of the buffer that contains these elements.
 *
 * @par
 * T is trivially copyable. No object is constructed, and the program is responsible for the byte
 * order. Each function takes an error_code& as its last parameter, or throws system_error. Errors:
 * @li error::wrong_size: as<T>() on fewer bytes than sizeof(T), or as_span<T>() on a size that is
 *     not a multiple of sizeof(T).
 * @li error::misaligned: as<T>() or as_span<T>() at an address that is not a multiple of
 *     alignof(T).
 * @li error::read_only: as<T>() or as_span<T>() with a T that is not const, in memory that was
 *     registered as const.
 * @li error::out_of_range: elements<T>() of elements that are not all inside the buffer. They are
 *     not clipped.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class mutable_buffer : public detail::typed::typed_views<mutable_buffer, true>
{
public:
  /// Creates an empty buffer without a registration.
  mutable_buffer() = default;

  /// For the library itself: creates a view of a part of registered memory.
  mutable_buffer(void* data, std::size_t size, detail::registration* registration) noexcept
    : data_(static_cast<std::byte*>(data))
    , size_(size)
    , registration_(registration)
  {
  }

  /// Creates a view of plain memory. The memory must outlive the view.
  mutable_buffer(const boost::asio::mutable_buffer& plain) noexcept
    : mutable_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// Creates a view of plain memory. The memory must outlive the view.
  template <detail::plain_data T, std::size_t Extent>
    requires(!std::is_const_v<T>)
  mutable_buffer(std::span<T, Extent> plain) noexcept
    : mutable_buffer(plain.data(), plain.size_bytes(), nullptr)
  {
  }

  /// Returns the address of the first byte; null if the buffer is empty.
  [[nodiscard]] void* data() const noexcept { return data_; }

  /// Returns the size in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Returns the first n bytes, or all if there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return {data_, std::min(n, size_), registration_};
  }

  /// Returns n bytes from `offset`, clipped to the end of the buffer.
  [[nodiscard]] mutable_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {data_ + offset, std::min(n, size_ - offset), registration_};
  }

  /// For the library itself. Null for plain memory.
  detail::registration* registration() const noexcept { return registration_; }

private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  detail::registration* registration_ = nullptr;
};

/// A non-owning view of registered memory that operations only read; see mutable_buffer.
/**
 * as<T>() and as_span<T>() return const objects.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class const_buffer : public detail::typed::typed_views<const_buffer, false>
{
public:
  /// Creates an empty buffer without a registration.
  const_buffer() = default;

  /// Creates a read-only view of the same memory.
  const_buffer(const mutable_buffer& other) noexcept
    : data_(static_cast<const std::byte*>(other.data()))
    , size_(other.size())
    , registration_(other.registration())
  {
  }

  /// For the library itself: creates a view of a part of registered memory.
  const_buffer(const void* data, std::size_t size, detail::registration* registration) noexcept
    : data_(static_cast<const std::byte*>(data))
    , size_(size)
    , registration_(registration)
  {
  }

  /// Creates a view of plain memory. The memory must outlive the view.
  const_buffer(const boost::asio::const_buffer& plain) noexcept
    : const_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// Creates a view of plain memory. The memory must outlive the view.
  const_buffer(const boost::asio::mutable_buffer& plain) noexcept
    : const_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// Creates a view of plain memory. The memory must outlive the view.
  template <detail::plain_data T, std::size_t Extent>
  const_buffer(std::span<T, Extent> plain) noexcept
    : const_buffer(plain.data(), plain.size_bytes(), nullptr)
  {
  }

  /// Returns the address of the first byte; null if the buffer is empty.
  [[nodiscard]] const void* data() const noexcept { return data_; }

  /// Returns the size in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Returns the first n bytes, or all if there are fewer.
  [[nodiscard]] const_buffer first(std::size_t n) const noexcept
  {
    return {data_, std::min(n, size_), registration_};
  }

  /// Returns n bytes from `offset`, clipped to the end of the buffer.
  [[nodiscard]] const_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {data_ + offset, std::min(n, size_ - offset), registration_};
  }

  /// For the library itself. Null for plain memory.
  detail::registration* registration() const noexcept { return registration_; }

private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  detail::registration* registration_ = nullptr;
};

/// Type of rdma::no_data.
struct no_data_t
{
  /// Explicit so that `{}` does not convert to this type.
  explicit no_data_t() = default;
};

/// Denotes a message without bytes, in async_send(), async_receive() and related operations.
/** Buffer sequences that contain no bytes complete with error::empty_buffer instead. */
inline constexpr no_data_t no_data{};

/// A single buffer, a range of buffers that are sent in order (gathered), or rdma::no_data.
template <class T>
concept const_buffer_sequence =
  std::convertible_to<const T&, const_buffer> || std::same_as<std::remove_cvref_t<T>, no_data_t>
  || (std::ranges::forward_range<const T>
    && std::convertible_to<std::ranges::range_reference_t<const T>, const_buffer>);

/// A single buffer, a range of buffers that are filled in order (scattered), or rdma::no_data.
template <class T>
concept mutable_buffer_sequence =
  std::convertible_to<const T&, mutable_buffer> || std::same_as<std::remove_cvref_t<T>, no_data_t>
  || (std::ranges::forward_range<const T>
    && std::convertible_to<std::ranges::range_reference_t<const T>, mutable_buffer>);

/// Returns the number of bytes in a buffer sequence; 0 for rdma::no_data.
template <const_buffer_sequence Buffers>
[[nodiscard]] std::size_t buffer_size(const Buffers& buffers)
{
  if constexpr (std::same_as<Buffers, no_data_t>)
    return 0;
  else if constexpr (std::convertible_to<const Buffers&, const_buffer>)
    return static_cast<const_buffer>(buffers).size();
  else
  {
    std::size_t total = 0;
    for (const const_buffer buffer : buffers)
      total += buffer.size();
    return total;
  }
}

} // namespace rdma

#endif // BOOST_RDMA_BUFFER_HPP
