//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_RPC_SERIALIZATION_CODEC_HPP
#define BOOST_RDMA_EXAMPLE_RPC_SERIALIZATION_CODEC_HPP

#include <boost_rdma/rpc/codec.hpp>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/archive/impl/archive_serializer_map.ipp>
#include <boost/archive/impl/basic_binary_iarchive.ipp>
#include <boost/archive/impl/basic_binary_iprimitive.ipp>
#include <boost/serialization/collection_size_type.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <streambuf>
#include <string>

namespace example {

/// Reads a binary archive of a peer.
/**
 * Boost.Serialization throws archive_exception if an archive ends too early, but promises nothing
 * about bytes that somebody has chosen. This archive adds what types of numbers, strings, vectors
 * and structures need: a string or container does not get memory for more elements than there are
 * bytes, and a bool is 0 or 1. Do not use it for types with pointers: their archives choose
 * classes and objects. Containers of other kinds, for example hash tables and std::wstring, store
 * other sizes, which would need a check of their own.
 */
class bounded_iarchive
  : public boost::archive::binary_iarchive_impl<bounded_iarchive, char, std::char_traits<char>>
{
  using base = boost::archive::binary_iarchive_impl<bounded_iarchive, char, std::char_traits<char>>;
  friend class boost::archive::load_access;
  friend class boost::archive::detail::interface_iarchive<bounded_iarchive>;

public:
  explicit bounded_iarchive(std::streambuf& from)
    : base(from, boost::archive::no_header)
    , from_(from)
  {
  }

private:
  // Structures and containers.
  template <class T>
  void load_override(T& value)
  {
    base::load_override(value);
  }
  void load_override(boost::serialization::collection_size_type& count)
  {
    base::load_override(count);
    check(count <= remaining());
  }

  // Values without members.
  template <class T>
  void load(T& value)
  {
    base::load(value);
  }
  void load(std::string& text)
  {
    std::size_t size = 0;
    base::load(size);
    check(size <= remaining());
    text.resize(size);
    base::load_binary(text.data(), size);
  }
  void load(bool& value)
  {
    std::uint8_t byte = 0;
    base::load(byte);
    check(byte <= 1);
    value = byte != 0;
  }

  std::size_t remaining() { return static_cast<std::size_t>(from_.in_avail()); }

  static void check(bool right)
  {
    if (!right)
      throw boost::archive::archive_exception(
        boost::archive::archive_exception::input_stream_error);
  }

  std::streambuf& from_;
};

/// A type with a function `serialize` of Boost.Serialization, and a number for the form of its
/// bytes.
template <class T>
concept serialized = requires(T& value, bounded_iarchive& from) {
  value.serialize(from, 0U);
  {
    T::archive_type
  } -> std::convertible_to<std::uint64_t>;
};

} // namespace example

// Arrays of numbers are stored as they are in memory, as by binary_oarchive.
BOOST_SERIALIZATION_USE_ARRAY_OPTIMIZATION(example::bounded_iarchive)

/// Encodes such types as archives. Both hosts must have the same version of Boost.
template <example::serialized T>
struct rdma::rpc::codec<T>
{
  static constexpr std::uint64_t type = T::archive_type;

  static void encode(const T& value, output& to)
  {
    std::ostringstream stream;
    boost::archive::binary_oarchive(stream, boost::archive::no_header) << value;
    to.append(std::as_bytes(std::span(stream.view())));
  }

  static std::optional<T> decode(std::span<const std::byte> from)
  {
    std::istringstream stream(std::string(reinterpret_cast<const char*>(from.data()), from.size()));
    std::optional<T> value(std::in_place);
    try
    {
      example::bounded_iarchive(*stream.rdbuf()) >> *value;
    }
    catch (const boost::archive::archive_exception&)
    {
      return std::nullopt;
    }
    return stream.rdbuf()->in_avail() > 0 ? std::nullopt : std::move(value);
  }
};

#endif // BOOST_RDMA_EXAMPLE_RPC_SERIALIZATION_CODEC_HPP
