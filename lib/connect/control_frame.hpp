//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONTROL_FRAME_HPP
#define BOOST_RDMA_LIB_CONNECT_CONTROL_FRAME_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// What both sides say to each other over TCP once they are connected (doc/upgrade_protocol.md).

namespace rdma::detail {

enum class frame_type : std::uint8_t
{
  ready = 1, // client: my queue pair is connected
  bye = 2,   // either: I close
};

// type, flags, two reserved bytes, bytes of payload (big-endian)
constexpr std::size_t frame_header_size = 8;
constexpr std::uint32_t frame_payload_max = 4096;

std::array<std::uint8_t, frame_header_size> encode_frame(frame_type type) noexcept;

// Cuts a stream of bytes into frames. Payloads are skipped: no frame of this version has one.
class frame_reader
{
public:
  enum class result
  {
    need_more, // the input is used up
    frame,     // type() has been read whole; there may be more input
    malformed, // the stream is of no more use
  };

  // Takes what it needs off the front of the input.
  result read(std::span<const std::uint8_t>& input) noexcept;

  // As it was sent; it may be none of frame_type.
  [[nodiscard]] std::uint8_t type() const noexcept { return header_[0]; }

private:
  std::array<std::uint8_t, frame_header_size> header_{};
  std::size_t filled_ = 0;
  std::uint32_t skip_ = 0; // bytes of payload to come
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONTROL_FRAME_HPP
