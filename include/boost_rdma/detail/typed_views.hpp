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

// What bytes that a device moves may be looked at as.
template <class T>
concept viewable = std::is_object_v<T> && std::is_trivially_copyable_v<T>;

/// For the library itself.
// A namespace of its own: that of a base class is searched for functions of its descendants'
// arguments.
namespace typed {

/// Looking at registered memory as objects: what every buffer, view and region offers.
// `Writable` says whether Buffer gives access to change the memory; one that is const inside gives
// only const objects.
template <class Buffer, bool Writable>
class typed_views
{
  template <class T>
  using object = std::conditional_t<Writable, T, const T>;

public:
  /// The beginning of the buffer as a T; what lies behind it does not matter.
  /**
   * The bytes are taken for an object as they are: nothing is constructed, and byte order is the
   * program's own matter.
   *
   * @param ec error::wrong_size when the buffer is smaller than a T, error::misaligned when its
   * address does not suit one, error::read_only for a T that is not const in memory that was
   * registered as const; null then.
   * @returns T*, and const T* from a const_buffer.
   */
  template <viewable T>
  [[nodiscard]] object<T>* as(error_code& ec) const noexcept
  {
    ec = check<object<T>>(sizeof(T) <= self().size());
    return ec ? nullptr : at<object<T>>();
  }

  /// As above; throws system_error.
  template <viewable T>
  [[nodiscard]] object<T>* as() const
  {
    error_code ec;
    object<T>* result = as<T>(ec);
    if (ec)
      throw system_error(ec, "as<T>() of registered memory");
    return result;
  }

  /// The whole buffer as an array of T: take a slice, or elements(), for a part.
  /**
   * @param ec error::wrong_size when the buffer is no whole number of T, else as as(); empty then.
   * A buffer of no bytes is an array of none.
   */
  template <viewable T>
  [[nodiscard]] std::span<object<T>> as_span(error_code& ec) const noexcept
  {
    ec = check<object<T>>(self().size() % sizeof(T) == 0);
    if (ec)
      return {};
    return {at<object<T>>(), self().size() / sizeof(T)};
  }

  /// As above; throws system_error.
  template <viewable T>
  [[nodiscard]] std::span<object<T>> as_span() const
  {
    error_code ec;
    const std::span<object<T>> result = as_span<T>(ec);
    if (ec)
      throw system_error(ec, "as_span<T>() of registered memory");
    return result;
  }

  /// The part that `count` objects T take, from the one numbered `first` on (0 is the first of the
  /// buffer).
  /**
   * Not clipped, unlike slice().
   *
   * @param first Of the objects T that the buffer holds.
   * @param count Objects, not bytes.
   * @param ec error::out_of_range when they do not all lie inside; empty then.
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

  /// As above; throws system_error.
  template <viewable T>
  [[nodiscard]] auto elements(std::size_t first, std::size_t count = 1) const
  {
    error_code ec;
    auto result = elements<T>(first, count, ec);
    if (ec)
      throw system_error(ec, "elements<T>() of registered memory");
    return result;
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
