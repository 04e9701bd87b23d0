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

std::array<std::uint8_t, frame_header_size> encode_frame(frame_type type) noexcept
{
  return {static_cast<std::uint8_t>(type)};
}

frame_reader::result frame_reader::read(std::span<const std::uint8_t>& input) noexcept
{
  if (filled_ < frame_header_size)
  {
    const std::size_t count = std::min(frame_header_size - filled_, input.size());
    std::copy_n(input.begin(), count, header_.begin() + static_cast<std::ptrdiff_t>(filled_));
    input = input.subspan(count);
    filled_ += count;
    if (filled_ < frame_header_size)
      return result::need_more;
    skip_ = boost::endian::load_big_u32(&header_[4]);
  }
  if (skip_ > frame_payload_max)
    return result::malformed; // and it stays so
  const std::size_t count = std::min<std::size_t>(skip_, input.size());
  input = input.subspan(count);
  skip_ -= static_cast<std::uint32_t>(count);
  if (skip_ != 0)
    return result::need_more;
  filled_ = 0;
  return result::frame;
}

} // namespace rdma::detail
