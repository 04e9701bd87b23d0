//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_MESSAGE_HPP
#define BOOST_RDMA_LIB_STREAM_MESSAGE_HPP

#include "boost_rdma/remote_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Messages between the two ends of a stream (doc/stream_protocol.md). No I/O.

namespace rdma::detail {

enum class stream_message_type : std::uint8_t
{
  hello = 1,   // the first one: this side's receives, and its first ring
  data = 2,    // bytes of the stream follow the header
  written = 3, // bytes of the stream have been written to the ring
  credit = 4,  // only the totals
  ring = 5,    // this side offers another ring
  finish = 6,  // no bytes follow
  reset = 7,   // this side has closed the stream without reading all bytes
};

struct stream_message
{
  static constexpr std::uint8_t version = 1;
  static constexpr std::size_t header_size = 16;
  static constexpr std::size_t size_max = 256;
  static constexpr std::size_t data_max = size_max - header_size;

  stream_message_type type{};
  bool odd_ring = false; // ring: the offered ring's number is odd; others: that of the peer's ring
                         // that the sender writes to
  std::uint32_t received = 0; // total of the peer's messages whose receives were posted again
  std::uint32_t read = 0;     // total of the bytes that were read from this side's rings
  std::uint32_t count = 0;    // hello: receives; data, written: bytes
  remote_buffer ring;         // hello, ring

  [[nodiscard]] bool has_ring() const noexcept
  {
    return type == stream_message_type::hello || type == stream_message_type::ring;
  }

  // Returns the size of the encoded message without data.
  [[nodiscard]] std::size_t size() const noexcept
  {
    return has_ring() ? header_size + remote_buffer::encoded_size : header_size;
  }

  // Stores size() bytes.
  void encode(std::span<std::byte> to) const noexcept;

  // Returns nothing for bytes that are no message. `bytes` is what the receive got.
  static std::optional<stream_message> decode(std::span<const std::byte> bytes) noexcept;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_MESSAGE_HPP
