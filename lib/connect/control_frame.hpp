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
#include <string>
#include <string_view>

// What both sides say to each other on the control channel once HTTP is done
// (doc/upgrade_protocol.md).

namespace rdma::detail {

enum class frame_type : std::uint8_t
{
  bye = 1,         // either: I close
  heartbeat = 2,   // either: I am there
  confirmed = 3,   // either: my message got through by RDMA
  unconfirmed = 4, // either: it did not; the payload says why
  endpoint =
    5, // either: my queue pair on the device that we fall back to; the payload describes it
  finished = 6,      // either: all that I sent has arrived, and I send no more
  agent_channel = 7, // either: my queue pair for the agents' messages; the payload describes it
  channel_over = 8,  // either: the agents talk no more; the payload says why
};

// type, flags, two reserved bytes, bytes of payload (big-endian)
constexpr std::size_t frame_header_size = 8;
constexpr std::uint32_t frame_payload_max = 4096;

// What is longer is cut when it is read: no payload of this version is.
constexpr std::size_t frame_payload_kept_max = 512;

std::string encode_frame(frame_type type, std::string_view payload = {});

// Cuts a stream of bytes into frames.
class frame_reader
{
public:
  enum class result
  {
    need_more, // the input is used up
    frame,     // type() and payload() have been read whole; there may be more input
    malformed, // the stream is of no more use
  };

  // Takes what it needs off the front of the input.
  result read(std::span<const std::uint8_t>& input);

  // As it was sent; it may be none of frame_type.
  [[nodiscard]] std::uint8_t type() const noexcept { return header_[0]; }

  // The beginning of the payload of the frame that was read last; empty for types of later
  // versions.
  [[nodiscard]] const std::string& payload() const noexcept { return payload_; }

private:
  [[nodiscard]] bool keeps_payload() const noexcept;

  std::array<std::uint8_t, frame_header_size> header_{};
  std::size_t filled_ = 0;
  std::uint32_t to_come_ = 0; // bytes of payload
  std::string payload_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONTROL_FRAME_HPP
