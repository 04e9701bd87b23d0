//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROTOCOL_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROTOCOL_HPP

#include <boost_rdma/remote_buffer.hpp>

#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

// The protocol between sender and receiver. Each frame is one message:
//
//   sender                            receiver
//   offer: size, chunk, slots,
//     whole                      -->
//                                <--  ring: a handle for `slots` slots of `chunk` bytes each
//   chunk i, written into slot
//   i % slots, immediate i       -->
//                                <--  an empty message: the oldest slot is free again
//   ...
//   digest: SHA-256 of the file  -->
//                                <--  verdict: SHA-256 of the stored file, and if it is kept
//
// If there is a slot for each chunk (`whole`), the chunks are written without immediates, and the
// receiver's program takes no part until the digest arrives.
//
// Either side may send `failure` instead, and then disconnects.

namespace bulk_transfer {

constexpr std::uint8_t protocol_version = 2;
constexpr std::size_t frame_size_max = 512;
constexpr std::uint32_t chunk_size_max = 256u << 20;
constexpr std::uint32_t slots_max = 1024;
constexpr std::uint64_t ring_size_max = std::uint64_t{1} << 30;

using digest = std::array<unsigned char, 32>;

struct offer_frame
{
  std::uint64_t file_size = 0;
  std::uint32_t chunk_size = 0;
  std::uint32_t slots = 0;
  bool whole = false;

  [[nodiscard]] std::uint64_t chunks() const
  {
    return file_size / chunk_size + (file_size % chunk_size != 0 ? 1 : 0);
  }
  [[nodiscard]] std::size_t bytes_of(std::uint64_t chunk) const
  {
    return static_cast<std::size_t>(
      std::min<std::uint64_t>(chunk_size, file_size - chunk * chunk_size));
  }
  [[nodiscard]] std::size_t ring_size() const { return std::size_t{chunk_size} * slots; }
};

struct ring_frame
{
  rdma::remote_buffer memory;
};

struct digest_frame
{
  digest value{};
};

struct verdict_frame
{
  digest value{};
  bool kept = false;
};

struct failure_frame
{
  std::string text; // from the peer: untrusted
};

using frame = std::variant<offer_frame, ring_frame, digest_frame, verdict_frame, failure_frame>;

/// The peer violated the protocol.
struct protocol_error : std::runtime_error
{
  explicit protocol_error(const std::string& what)
    : std::runtime_error("the peer violated the protocol: " + what)
  {
  }
};

// A frame is encoded as its index in the variant, followed by its fields in big-endian order.
inline std::vector<std::byte> encode(const frame& value)
{
  std::vector<std::byte> bytes;
  bytes.reserve(frame_size_max);
  const auto put = [&bytes](const auto& range)
  { std::ranges::copy(std::as_bytes(std::span(range)), std::back_inserter(bytes)); };
  const auto put_number = [&put](auto number)
  { put(std::array{boost::endian::native_to_big(number)}); };
  put_number(static_cast<std::uint8_t>(value.index()));
  std::visit(
    [&](const auto& each)
    {
      using type = std::decay_t<decltype(each)>;
      if constexpr (std::is_same_v<type, offer_frame>)
      {
        put_number(protocol_version);
        put_number(each.file_size);
        put_number(each.chunk_size);
        put_number(each.slots);
        put_number(static_cast<std::uint8_t>(each.whole));
      }
      else if constexpr (std::is_same_v<type, ring_frame>)
        put(each.memory.encode());
      else if constexpr (std::is_same_v<type, digest_frame>)
        put(each.value);
      else if constexpr (std::is_same_v<type, verdict_frame>)
      {
        put_number(static_cast<std::uint8_t>(each.kept));
        put(each.value);
      }
      else
        put(each.text.substr(0, frame_size_max - 1));
    },
    value);
  return bytes;
}

// Extracts the fields of a frame in order. done() checks that none is left.
class frame_reader
{
public:
  explicit frame_reader(std::span<const std::byte> bytes)
    : rest_(bytes)
  {
  }

  std::span<const std::byte> take(std::size_t n)
  {
    if (rest_.size() < n)
      throw protocol_error("a message is too short");
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }

  template <class Number>
  Number number()
  {
    Number value{};
    std::ranges::copy(take(sizeof(Number)), std::as_writable_bytes(std::span(&value, 1)).begin());
    return boost::endian::big_to_native(value);
  }

  digest take_digest()
  {
    digest value{};
    std::ranges::copy(take(value.size()), std::as_writable_bytes(std::span(value)).begin());
    return value;
  }

  // Keeps only printable characters, so that a peer cannot send control sequences to a terminal.
  std::string text()
  {
    std::string value;
    for (const std::byte each : take(rest_.size()))
    {
      const char c = static_cast<char>(each);
      value += (c >= ' ' && c <= '~') || c == '\n' ? c : '?';
    }
    return value;
  }

  void done() const
  {
    if (!rest_.empty())
      throw protocol_error("a message is too long");
  }

private:
  std::span<const std::byte> rest_;
};

/// Throws protocol_error for anything that encode() does not produce.
inline frame decode(std::span<const std::byte> bytes)
{
  frame_reader reader(bytes);
  frame value;
  switch (reader.number<std::uint8_t>())
  {
  case 0:
  {
    if (reader.number<std::uint8_t>() != protocol_version)
      throw protocol_error("it uses another version");
    offer_frame offer;
    offer.file_size = reader.number<std::uint64_t>();
    offer.chunk_size = reader.number<std::uint32_t>();
    offer.slots = reader.number<std::uint32_t>();
    offer.whole = reader.number<std::uint8_t>() != 0;
    if (offer.chunk_size == 0 || offer.chunk_size > chunk_size_max || offer.slots == 0
      || offer.slots > slots_max || offer.ring_size() > ring_size_max
      || offer.file_size > static_cast<std::uint64_t>(INT64_MAX)
      || (offer.whole && offer.slots < offer.chunks()))
      throw protocol_error("its chunks are too large or too many");
    value = offer;
    break;
  }
  case 1:
  {
    rdma::error_code ec;
    const auto memory =
      rdma::remote_buffer::decode(reader.take(rdma::remote_buffer::encoded_size), ec);
    if (ec)
      throw protocol_error(ec.message());
    value = ring_frame{memory};
    break;
  }
  case 2:
    value = digest_frame{reader.take_digest()};
    break;
  case 3:
  {
    const bool kept = reader.number<std::uint8_t>() != 0;
    value = verdict_frame{reader.take_digest(), kept};
    break;
  }
  case 4:
    value = failure_frame{reader.text()};
    break;
  default:
    throw protocol_error("a message of an unknown kind");
  }
  reader.done();
  return value;
}

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROTOCOL_HPP
