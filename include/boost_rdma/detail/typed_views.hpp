//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_TYPED_VIEWS_HPP
#define BOOST_RDMA_DETAIL_TYPED_VIEWS_HPP

#include <boost_rdma/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace rdma::detail {

// An object type whose bytes a device may transfer.
template <class T>
concept viewable = std::is_object_v<T> && std::is_trivially_copyable_v<T>;

/// For the library itself.
// A separate namespace, because argument-dependent lookup searches the namespaces of base classes.
namespace typed {

/// Access to registered memory as objects, for buffers, views and regions.
// `Writable` is true if Buffer permits changes to the memory. A read-only buffer returns const
// objects.
template <class Buffer, bool Writable>
class typed_views
{
  template <class T>
  using object = std::conditional_t<Writable, T, const T>;

public:
  /// Returns the beginning of the buffer as a T; the remaining bytes are ignored.
  /**
   * No object is constructed, and the program is responsible for the byte order.
   *
   * @param ec Set to indicate the error, if any. The result is null then.
   * @li error::wrong_size: the buffer is smaller than a T.
   * @li error::misaligned: the address is not a multiple of alignof(T).
   * @li error::read_only: T is not const, and the memory was registered as const.
   * @returns T*, and const T* from a const_buffer.
   */
  template <viewable T>
  [[nodiscard]] object<T>* as(error_code& ec) const noexcept
  {
    ec = check<object<T>>(sizeof(T) <= self().size());
    return ec ? nullptr : at<object<T>>();
  }

  /// Returns the beginning of the buffer as a T; throws system_error.
  template <viewable T>
  [[nodiscard]] object<T>* as() const
  {
    return or_throw("as<T>() of registered memory", [&](error_code& ec) { return as<T>(ec); });
  }

  /// Returns the whole buffer as an array of T. For a part use slice() or elements().
  /**
   * An empty buffer gives an empty array.
   *
   * @param ec Set to indicate the error, if any. The result is empty then.
   * @li error::wrong_size: the size of the buffer is not a multiple of sizeof(T).
   * @li error::misaligned: the address is not a multiple of alignof(T).
   * @li error::read_only: T is not const, and the memory was registered as const.
   */
  template <viewable T>
  [[nodiscard]] std::span<object<T>> as_span(error_code& ec) const noexcept
  {
    ec = check<object<T>>(self().size() % sizeof(T) == 0);
    if (ec)
      return {};
    return {at<object<T>>(), self().size() / sizeof(T)};
  }

  /// Returns the whole buffer as an array of T; throws system_error.
  template <viewable T>
  [[nodiscard]] std::span<object<T>> as_span() const
  {
    return or_throw(
      "as_span<T>() of registered memory", [&](error_code& ec) { return as_span<T>(ec); });
  }

  /// Returns the part of the buffer that contains `count` objects T, beginning with number `first`.
  /**
   * The result is not clipped, unlike that of slice().
   *
   * @param first Index of the first object; 0 is the first object of the buffer.
   * @param count Number of objects.
   * @param ec error::out_of_range if the objects are not all inside the buffer. The result is empty
   * then.
   */
  template <viewable T>
  [[nodiscard]] auto elements(std::size_t first, std::size_t count, error_code& ec) const noexcept
  {
    const std::size_t there = self().size() / sizeof(T);
    ec = {};
    if (first > there || count > there - first)
      ec = error::out_of_range;
    return ec ? self().slice(0, 0) : self().slice(first * sizeof(T), count * sizeof(T));
  }

  /// Returns the part of the buffer that contains `count` objects T; throws system_error.
  template <viewable T>
  [[nodiscard]] auto elements(std::size_t first, std::size_t count = 1) const
  {
    return or_throw("elements<T>() of registered memory",
      [&](error_code& ec) { return elements<T>(first, count, ec); });
  }

private:
  [[nodiscard]] const Buffer& self() const noexcept { return static_cast<const Buffer&>(*this); }

  template <class T>
  [[nodiscard]] T* at() const noexcept
  {
    return reinterpret_cast<T*>(self().data());
  }

  template <class T>
  [[nodiscard]] error_code check(bool fits) const noexcept
  {
    if (!fits)
      return error::wrong_size;
    if (reinterpret_cast<std::uintptr_t>(self().data()) % alignof(T) != 0)
      return error::misaligned;
    if constexpr (!std::is_const_v<T>)
      if (self().registration() != nullptr && self().registration()->read_only)
        return error::read_only;
    return {};
  }
};

} // namespace typed

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_TYPED_VIEWS_HPP
