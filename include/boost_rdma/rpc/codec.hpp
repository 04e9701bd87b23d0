//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_CODEC_HPP
#define BOOST_RDMA_RPC_CODEC_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rdma::rpc {

/// Bytes of a request or a reply, to which a codec appends.
class output
{
public:
  /// Appends bytes.
  void append(std::span<const std::byte> bytes)
  {
    bytes_->insert(bytes_->end(), bytes.begin(), bytes.end());
  }

  /// @cond
  explicit output(std::vector<std::byte>& bytes)
    : bytes_(&bytes)
  {
  }
  /// @endcond

private:
  std::vector<std::byte>* bytes_;
};

/// A request or a reply without content.
struct nothing
{
};

/// Describes how values of a type travel. Specialise it for types that are not trivially copyable.
/**
 * A specialisation has
 * @code
 * // The same number on both sides, and another one for another form of the bytes.
 * static constexpr std::uint64_t type = 0x1234;
 * static void encode(const T& value, rdma::rpc::output& to);
 * // Returns nothing for bytes that are no value. They come from the peer and can be any.
 * static std::optional<T> decode(std::span<const std::byte> from);
 * @endcode
 * Errors of encode() are exceptions, which the initiating function throws. encode() must not call
 * functions of the client or the server: a mutex is held meanwhile. Trivially copyable types
 * need no specialisation: they travel as they are in memory, so that both sides must have the same
 * layout and byte order. Their size and alignment are compared when a client connects. The same
 * holds for elements of a std::span<const T>, std::vector<T>, std::string and std::string_view.
 */
template <class T>
struct codec;

/// @cond
namespace detail {

enum class shape : std::uint8_t
{
  value = 1,
  sequence = 2,
};

constexpr std::uint64_t type_of(shape what, std::size_t size, std::size_t alignment)
{
  return std::uint64_t{size} << 16 | std::uint64_t{alignment} << 8
    | static_cast<std::uint8_t>(what);
}

template <class T>
concept plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::ranges::view<T>
  && std::is_same_v<T, std::remove_cvref_t<T>> && alignof(T) <= alignof(std::max_align_t);

// Encodes values as they are in memory.
template <plain T>
struct plain_codec
{
  static constexpr std::size_t size = std::is_empty_v<T> ? 0 : sizeof(T);
  static constexpr std::uint64_t type = type_of(shape::value, size, alignof(T));

  static void encode(const T& value, output& to)
  {
    if constexpr (size != 0)
      to.append(std::as_bytes(std::span(&value, 1)));
  }
  static std::optional<T> decode(std::span<const std::byte> from)
  {
    if (from.size() != size)
      return std::nullopt;
    std::optional<T> result;
    if constexpr (size == 0)
      result.emplace();
    else
    {
      alignas(T) std::byte copy[sizeof(T)];
      std::memcpy(copy, from.data(), sizeof copy);
      result.emplace(*reinterpret_cast<const T*>(copy));
    }
    return result;
  }
};

// Encodes sequences of such values. `Sequence` is made of two pointers.
template <class Sequence, class T>
struct sequence_codec
{
  static constexpr std::uint64_t type = type_of(shape::sequence, sizeof(T), alignof(T));

  static void encode(const Sequence& values, output& to)
  {
    to.append(std::as_bytes(std::span(values.data(), values.size())));
  }
  // A view refers to `from`, which is aligned for any type.
  static std::optional<Sequence> decode(std::span<const std::byte> from)
  {
    if (from.size() % sizeof(T) != 0)
      return std::nullopt;
    const auto* const first = reinterpret_cast<const T*>(from.data());
    return Sequence(first, first + from.size() / sizeof(T));
  }
};

template <class T>
struct codec_of : codec<T>
{
  using owned = T;
};
template <plain T>
  requires(!requires { codec<T>::type; })
struct codec_of<T> : plain_codec<T>
{
  using owned = T;
};
template <plain T>
struct codec_of<std::span<const T>> : sequence_codec<std::span<const T>, T>
{
  using owned = std::vector<T>;
};
template <plain T>
struct codec_of<std::vector<T>> : sequence_codec<std::vector<T>, T>
{
  using owned = std::vector<T>;
};
template <>
struct codec_of<std::string_view> : sequence_codec<std::string_view, char>
{
  using owned = std::string;
};
template <>
struct codec_of<std::string> : sequence_codec<std::string, char>
{
  using owned = std::string;
};

template <class T>
concept encodable = requires(const T& value, output& to, std::span<const std::byte> from) {
  {
    codec_of<T>::type
  } -> std::convertible_to<std::uint64_t>;
  codec_of<T>::encode(value, to);
  {
    codec_of<T>::decode(from)
  } -> std::same_as<std::optional<T>>;
};

} // namespace detail
/// @endcond

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_CODEC_HPP
