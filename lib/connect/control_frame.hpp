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

// Frames of the control channel, which follow the HTTP upgrade (doc/upgrade_protocol.md).

namespace rdma::detail {

enum class frame_type : std::uint8_t
{
  bye = 1,           // the sender closes its queue pair
  heartbeat = 2,     // the sender is alive
  confirmed = 3,     // the sender's RDMA write was acknowledged
  unconfirmed = 4,   // it was not; the payload is the reason
  endpoint = 5,      // the payload describes the sender's queue pair on the software device
  finished = 6,      // all that the sender sent has arrived, and it sends no more
  agent_channel = 7, // the payload describes the sender's queue pair for agents
  channel_over = 8,  // the sender no longer uses that queue pair; the payload is the reason
};

// type, flags, two reserved bytes, bytes of payload (big-endian)
constexpr std::size_t frame_header_size = 8;
constexpr std::uint32_t frame_payload_max = 4096;

// A longer payload is truncated when it is read. Payloads of this version are not longer.
constexpr std::size_t frame_payload_kept_max = 512;

std::string encode_frame(frame_type type, std::string_view payload = {});

// Cuts a stream of bytes into frames.
class frame_reader
{
public:
  enum class result
  {
    need_more, // the input is consumed
    frame,     // type() and payload() are complete; there may be more input
    malformed, // the stream cannot be read any further
  };

  // Removes the bytes of at most one frame from the front of the input.
  result read(std::span<const std::uint8_t>& input);

  // As it was sent; it may not be in frame_type.
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
