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

// Data, as opposed to buffers that describe data.
template <class T>
concept plain_data =
  std::is_trivially_copyable_v<T> && !std::convertible_to<const T&, const_buffer>;

} // namespace detail

/// A range of registered memory that operations may write to, with its keys; owns nothing.
/**
 * What asio::mutable_buffer is to a socket, with the registration beside it. An operation that is
 * given one keeps the memory registered until its handler is called, even when the owner goes
 * first. Between operations the view is valid for as long as its owner is.
 *
 * Operations take plain memory, too, which is then registered nowhere, or by the operation: a
 * boost::asio::mutable_buffer or a std::span. The operation copies what is small and registers what
 * is large (queue_pair_options::copy_max).
 *
 * @par Objects
 * as<T>() gives the beginning of the buffer as a T, as_span<T>() all of it as an array of T,
 * elements<T>(first, count) the part that so many of them take, as a buffer. T is trivially
 * copyable; nothing is constructed, and byte order is the program's matter. Each takes an
 * error_code& last, or throws system_error. as<T>(): error::wrong_size when there are fewer bytes
 * than a T has, error::misaligned when the address does not suit one, error::read_only for a T that
 * is not const in memory that was registered as const. as_span<T>(): likewise, with
 * error::wrong_size when it is no whole number of T. elements<T>(): error::out_of_range when they
 * do not all lie inside; nothing is clipped.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class mutable_buffer : public detail::typed::typed_views<mutable_buffer, true>
{
public:
  /// No bytes, registered nowhere.
  mutable_buffer() = default;

  /// For the library itself: a part of registered memory.
  mutable_buffer(void* data, std::size_t size, detail::registration* registration) noexcept
    : data_(static_cast<std::byte*>(data))
    , size_(size)
    , registration_(registration)
  {
  }

  /// Plain memory, for as long as it is there.
  mutable_buffer(const boost::asio::mutable_buffer& plain) noexcept
    : mutable_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// As above.
  template <detail::plain_data T, std::size_t Extent>
    requires(!std::is_const_v<T>)
  mutable_buffer(std::span<T, Extent> plain) noexcept
    : mutable_buffer(plain.data(), plain.size_bytes(), nullptr)
  {
  }

  /// Where it begins; null where there is nothing.
  [[nodiscard]] void* data() const noexcept { return data_; }

  /// Bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The first n bytes, or all where there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return {data_, std::min(n, size_), registration_};
  }

  /// n bytes from offset on, clipped to what there is.
  [[nodiscard]] mutable_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {data_ + offset, std::min(n, size_ - offset), registration_};
  }

  /// For the library itself; null of plain memory.
  detail::registration* registration() const noexcept { return registration_; }

private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  detail::registration* registration_ = nullptr;
};

/// A range of registered memory that operations only read; otherwise as mutable_buffer.
/**
 * as<T>() and as_span<T>() give const objects.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class const_buffer : public detail::typed::typed_views<const_buffer, false>
{
public:
  /// No bytes, registered nowhere.
  const_buffer() = default;

  /// The same memory, to be read only.
  const_buffer(const mutable_buffer& other) noexcept
    : data_(static_cast<const std::byte*>(other.data()))
    , size_(other.size())
    , registration_(other.registration())
  {
  }

  /// For the library itself: a part of registered memory.
  const_buffer(const void* data, std::size_t size, detail::registration* registration) noexcept
    : data_(static_cast<const std::byte*>(data))
    , size_(size)
    , registration_(registration)
  {
  }

  /// Plain memory, for as long as it is there.
  const_buffer(const boost::asio::const_buffer& plain) noexcept
    : const_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// As above.
  const_buffer(const boost::asio::mutable_buffer& plain) noexcept
    : const_buffer(plain.data(), plain.size(), nullptr)
  {
  }

  /// As above.
  template <detail::plain_data T, std::size_t Extent>
  const_buffer(std::span<T, Extent> plain) noexcept
    : const_buffer(plain.data(), plain.size_bytes(), nullptr)
  {
  }

  /// Where it begins; null where there is nothing.
  [[nodiscard]] const void* data() const noexcept { return data_; }

  /// Bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The first n bytes, or all where there are fewer.
  [[nodiscard]] const_buffer first(std::size_t n) const noexcept
  {
    return {data_, std::min(n, size_), registration_};
  }

  /// n bytes from offset on, clipped to what there is.
  [[nodiscard]] const_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    offset = std::min(offset, size_);
    return {data_ + offset, std::min(n, size_ - offset), registration_};
  }

  /// For the library itself; null of plain memory.
  detail::registration* registration() const noexcept { return registration_; }

private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  detail::registration* registration_ = nullptr;
};

/// The type of rdma::no_data.
struct no_data_t
{
  /// Explicit, so that `{}` is not taken for one.
  explicit no_data_t() = default;
};

/// Stands for a message without bytes, in async_send, async_receive and their relatives.
/** Buffers that happen to hold none are refused there with error::empty_buffer. */
inline constexpr no_data_t no_data{};

/// A single buffer, or a range of buffers, whose pieces are sent in order (gathered); or
/// rdma::no_data.
template <class T>
concept const_buffer_sequence =
  std::convertible_to<const T&, const_buffer> || std::same_as<std::remove_cvref_t<T>, no_data_t>
  || (std::ranges::forward_range<const T>
    && std::convertible_to<std::ranges::range_reference_t<const T>, const_buffer>);

/// A single buffer, or a range of buffers, whose pieces are filled in order (scattered); or
/// rdma::no_data.
template <class T>
concept mutable_buffer_sequence =
  std::convertible_to<const T&, mutable_buffer> || std::same_as<std::remove_cvref_t<T>, no_data_t>
  || (std::ranges::forward_range<const T>
    && std::convertible_to<std::ranges::range_reference_t<const T>, mutable_buffer>);

/// The number of bytes in a buffer sequence; 0 of rdma::no_data.
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
