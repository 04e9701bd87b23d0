//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_REGISTERED_BUFFER_HPP
#define BOOST_RDMA_REGISTERED_BUFFER_HPP

#include <boost_rdma/buffer.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace rdma {

/// Memory from a context's pool, registered for local use; goes back to the pool when destroyed.
/**
 * An operation that was given this buffer, or a part of it, shares in its ownership: a buffer that
 * is destroyed while operations use it goes back to the pool when the last of them has completed.
 * The memory is not reachable from remote; see memory_region for memory that is.
 *
 * Views share in nothing. What data(), bytes(), as<T>() and as_span<T>() return, and first(),
 * slice() and elements<T>() until an operation is given it, is valid for as long as this buffer is
 * there, or an operation that uses it; also when it is moved. An operation that is given a
 * std::span of it keeps the memory registered, but not from being given out again.
 *
 * @par Objects
 * as<T>(), as_span<T>() and elements<T>() are mutable_buffer's.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class registered_buffer : public detail::typed::typed_views<registered_buffer, true>
{
public:
  /// No memory: data() is null.
  registered_buffer() = default;

  /// For the library itself: takes over a reference to the registration.
  registered_buffer(detail::registration* registration, std::size_t size) noexcept
    : registration_(registration)
    , size_(size)
  {
  }

  /// The one that was moved from has no memory then.
  registered_buffer(registered_buffer&& other) noexcept
    : registration_(std::exchange(other.registration_, nullptr))
    , size_(std::exchange(other.size_, 0))
  {
  }

  /// Lets go of the memory that it had, as destruction does.
  registered_buffer& operator=(registered_buffer&& other) noexcept
  {
    registered_buffer taken(std::move(other));
    std::swap(registration_, taken.registration_);
    std::swap(size_, taken.size_);
    return *this;
  }

  /// Gives the memory back: at once, or when the last operation that uses it has completed.
  ~registered_buffer()
  {
    if (registration_ != nullptr)
      registration_->release_owned();
  }

  /// Where it begins; null where there is none.
  [[nodiscard]] std::byte* data() const noexcept
  {
    return registration_ != nullptr ? registration_->base : nullptr;
  }
  /// Bytes, as many as were asked for.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// All of it.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size_}; }

  /// All of it, for operations.
  operator mutable_buffer() const noexcept { return {data(), size_, registration_}; }
  /// All of it, for operations that only read it.
  operator const_buffer() const noexcept { return mutable_buffer(*this); }

  /// The first n bytes, or all where there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return mutable_buffer(*this).first(n);
  }

  /// n bytes from offset on, clipped to what there is.
  [[nodiscard]] mutable_buffer slice(std::size_t offset, std::size_t n = SIZE_MAX) const noexcept
  {
    return mutable_buffer(*this).slice(offset, n);
  }

  /// For the library itself.
  detail::registration* registration() const noexcept { return registration_; }

private:
  detail::registration* registration_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace rdma

#endif // BOOST_RDMA_REGISTERED_BUFFER_HPP
