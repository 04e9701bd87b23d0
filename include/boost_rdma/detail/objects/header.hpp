//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_HEADER_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_HEADER_HPP

#include <boost_rdma/detail/objects/step.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

// The first 64 bytes of every remote object. They describe it, and do not change.

namespace rdma {

/// Describes the layout of T to processes that share objects of that type.
/**
 * The default covers the size, the alignment and the kind of T. Specialize it for a class whose
 * members may change while its size does not, for instance with a version number.
 */
template <class T>
inline constexpr std::uint64_t object_layout =
  sizeof(T) | (std::uint64_t{alignof(T)} << 32) | (std::uint64_t{std::is_integral_v<T>} << 48)
  | (std::uint64_t{std::is_floating_point_v<T>} << 49) | (std::uint64_t{std::is_signed_v<T>} << 50);

namespace detail::objects {

enum class kind : std::uint32_t
{
  versioned = 1,
  counter = 2,
  flag = 3,
  mutex = 4,
  semaphore = 5,
  log = 6,
  published = 7,
  ring = 8,
  map = 9,
};

struct header
{
  // Also tells the byte order and the version of the format.
  static constexpr std::uint64_t signature_expected = 0x7264'6d61'6f62'6a01;

  std::uint64_t signature = signature_expected;
  objects::kind kind;
  std::uint32_t size = 0;                    // of a value in bytes
  std::uint64_t layout = 0;                  // of a value
  std::uint64_t capacity = 0;                // number of values
  std::uint64_t lease_ms = 0;                // of a lock
  std::array<std::uint64_t, 2> parameters{}; // of this kind
  std::uint64_t probe = 0;                   // for an atomic without effect

  friend bool operator==(const header&, const header&) = default;
};
static_assert(sizeof(header) == 64 && std::has_unique_object_representations_v<header>);

template <class T>
constexpr header header_of(objects::kind kind, std::uint64_t capacity = 1) noexcept
{
  return {.kind = kind, .size = sizeof(T), .layout = object_layout<T>, .capacity = capacity};
}

// Returns an error if an object of `size` bytes cannot be in the memory.
[[nodiscard]] error_code check_memory(const remote_buffer& memory, std::size_t size) noexcept;

// Compares the header in the object's memory with the one that this side expects, and tries an
// atomic operation if the object needs them.
class open_object
{
public:
  open_object(const header& expected, const error_code& memory, bool needs_atomics) noexcept
    : expected_(expected)
    , memory_(memory)
    , needs_atomics_(needs_atomics)
  {
  }

  step begin() noexcept { return memory_ ? step::finish(memory_) : step::access(1); }
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled) noexcept;

protected:
  // Valid in next(). A derived class may expect values that it has found.
  [[nodiscard]] const header& found() const noexcept { return found_; }
  [[nodiscard]] header& expected() noexcept { return expected_; }

private:
  header expected_;
  header found_{.kind = {}};
  error_code memory_;
  bool needs_atomics_;
  bool compared_ = false;
};

// Writes the first content of an object.
template <std::size_t Size>
class create_object
{
public:
  explicit create_object(const error_code& memory) noexcept
    : memory_(memory)
  {
  }

  [[nodiscard]] std::span<std::uint64_t> image() noexcept { return image_; }

  step begin() noexcept { return memory_ ? step::finish(memory_) : step::access(1); }
  access_request request(std::size_t) noexcept
  {
    return {
      .kind = request_kind::write, .offset = 0, .bytes = std::as_writable_bytes(std::span(image_))};
  }
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool) noexcept { return step::finish(); }

private:
  static_assert(Size % 8 == 0);

  std::array<std::uint64_t, Size / 8> image_{};
  error_code memory_;
};

} // namespace detail::objects
} // namespace rdma

#endif // BOOST_RDMA_DETAIL_OBJECTS_HEADER_HPP
