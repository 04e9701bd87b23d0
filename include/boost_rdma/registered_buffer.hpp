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

/// Memory from a context's pool, registered for local use. Its destruction returns it to the pool.
/**
 * An operation on this buffer, or on a part of it, shares its ownership. A buffer that is destroyed
 * while operations use it returns to the pool when the last of them has completed. Peers cannot
 * access the memory; see memory_region for memory that they can access.
 *
 * Views share no ownership. The results of data(), bytes(), as<T>() and as_span<T>() are valid as
 * long as this buffer, or an operation that uses it, exists. They remain valid if the buffer is
 * moved. The same applies to first(), slice() and elements<T>() until they are passed to an
 * operation. A std::span of the buffer that is passed to an operation keeps the memory registered,
 * but the pool may allocate it again.
 *
 * @par Objects
 * as<T>(), as_span<T>() and elements<T>() work as those of mutable_buffer.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class registered_buffer : public detail::typed::typed_views<registered_buffer, true>
{
public:
  /// Creates a buffer without memory: data() is null.
  registered_buffer() = default;

  /// For the library itself: takes ownership of a reference to the registration.
  registered_buffer(detail::registration* registration, std::size_t size) noexcept
    : registration_(registration)
    , size_(size)
  {
  }

  /// Moves a buffer. `other` has no memory afterwards.
  registered_buffer(registered_buffer&& other) noexcept
    : registration_(std::exchange(other.registration_, nullptr))
    , size_(std::exchange(other.size_, 0))
  {
  }

  /// Releases this object's memory, as the destructor does, and moves `other` into it.
  registered_buffer& operator=(registered_buffer&& other) noexcept
  {
    registered_buffer taken(std::move(other));
    std::swap(registration_, taken.registration_);
    std::swap(size_, taken.size_);
    return *this;
  }

  /// Returns the memory to the pool, at once or when the last operation that uses it has completed.
  ~registered_buffer()
  {
    if (registration_ != nullptr)
      registration_->release_owned();
  }

  /// Returns the address of the memory; null if there is none.
  [[nodiscard]] std::byte* data() const noexcept
  {
    return registration_ != nullptr ? registration_->base : nullptr;
  }
  /// Returns the requested size in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Returns the whole memory.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size_}; }

  /// Returns the whole memory as a buffer for operations.
  operator mutable_buffer() const noexcept { return {data(), size_, registration_}; }
  /// Returns the whole memory as a buffer for operations that only read it.
  operator const_buffer() const noexcept { return mutable_buffer(*this); }

  /// Returns the first n bytes, or all if there are fewer.
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept
  {
    return mutable_buffer(*this).first(n);
  }

  /// Returns n bytes from `offset`, clipped to the end of the buffer.
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
