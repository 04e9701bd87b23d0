//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/control_frame.hpp"

#include <boost/endian/conversion.hpp>

#include <algorithm>

namespace rdma::detail {

std::string encode_frame(frame_type type, std::string_view payload)
{
  std::array<std::uint8_t, frame_header_size> header{static_cast<std::uint8_t>(type)};
  payload = payload.substr(0, frame_payload_kept_max);
  boost::endian::store_big_u32(&header[4], static_cast<std::uint32_t>(payload.size()));
  std::string result(header.begin(), header.end());
  result += payload;
  return result;
}

bool frame_reader::keeps_payload() const noexcept
{
  switch (static_cast<frame_type>(header_[0]))
  {
  case frame_type::unconfirmed:
  case frame_type::endpoint:
  case frame_type::agent_channel:
  case frame_type::channel_over:
    return true;
  default:
    return false;
  }
}

frame_reader::result frame_reader::read(std::span<const std::uint8_t>& input)
{
  if (filled_ < frame_header_size)
  {
    const std::size_t count = std::min(frame_header_size - filled_, input.size());
    std::copy_n(input.begin(), count, header_.begin() + static_cast<std::ptrdiff_t>(filled_));
    input = input.subspan(count);
    filled_ += count;
    if (filled_ < frame_header_size)
      return result::need_more;
    to_come_ = boost::endian::load_big_u32(&header_[4]);
    payload_.clear();
  }
  if (to_come_ > frame_payload_max)
    return result::malformed; // also in later calls
  const std::size_t count = std::min<std::size_t>(to_come_, input.size());
  if (keeps_payload())
  {
    const auto kept = input.first(std::min(count, frame_payload_kept_max - payload_.size()));
    payload_.append(kept.begin(), kept.end());
  }
  input = input.subspan(count);
  to_come_ -= static_cast<std::uint32_t>(count);
  if (to_come_ != 0)
    return result::need_more;
  filled_ = 0;
  return result::frame;
}

} // namespace rdma::detail
