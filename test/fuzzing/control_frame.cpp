//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/control_frame.hpp"
#include "fuzzing/common/require.hpp"

#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Fuzzes the control channel. The first byte of the input is the number of fragment sizes, the
// following bytes are these sizes, used in turn, and the rest is the byte stream of the peer.

namespace {

using namespace rdma::detail;
using bytes = std::span<const std::uint8_t>;
using test::require;

struct outcome
{
  std::vector<std::uint8_t> types; // types of the frames
  std::vector<std::string> payloads;
  bool malformed = false; // after these frames

  bool operator==(const outcome&) const = default;
};

// A reference decoder (doc/upgrade_protocol.md) that has the whole stream.
outcome expected(bytes stream)
{
  outcome result;
  while (stream.size() >= frame_header_size)
  {
    const std::uint32_t payload = boost::endian::load_big_u32(&stream[4]);
    if (payload > frame_payload_max)
    {
      result.malformed = true;
      break;
    }
    if (stream.size() < frame_header_size + payload)
      break;
    result.types.push_back(stream[0]);
    const bytes kept =
      stream.subspan(frame_header_size, std::min<std::size_t>(payload, frame_payload_kept_max));
    const auto type = static_cast<frame_type>(stream[0]);
    const bool keeps = type == frame_type::unconfirmed || type == frame_type::endpoint
      || type == frame_type::agent_channel || type == frame_type::channel_over;
    result.payloads.emplace_back(kept.begin(), keeps ? kept.end() : kept.begin());
    stream = stream.subspan(frame_header_size + payload);
  }
  return result;
}

outcome read_fragments(bytes stream, bytes cuts)
{
  outcome result;
  frame_reader reader;
  for (std::size_t turn = 0; !stream.empty() && !result.malformed; ++turn)
  {
    // Empty fragments are allowed, but not exclusively: the loop must make progress.
    const std::size_t cut = cuts.empty() ? stream.size() : cuts[turn % cuts.size()] + turn % 2;
    bytes buffer = stream.first(std::min(cut, stream.size()));
    stream = stream.subspan(buffer.size());
    auto next = frame_reader::result::frame;
    while ((next = reader.read(buffer)) == frame_reader::result::frame)
    {
      result.types.push_back(reader.type());
      result.payloads.push_back(reader.payload());
    }
    result.malformed = next == frame_reader::result::malformed;
    require(result.malformed || buffer.empty(), "the reader consumes its input");
  }
  if (result.malformed)
    require(
      reader.read(stream) == frame_reader::result::malformed, "a malformed stream stays malformed");
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  bytes input(data, size);
  if (input.empty())
    return 0;
  const std::size_t count = std::min<std::size_t>(input[0] % 8, size - 1);
  const bytes cuts = input.subspan(1, count);
  const bytes stream = input.subspan(1 + count);

  require(read_fragments(stream, cuts) == expected(stream),
    "the frames equal those of the reference decoder, for any fragments");
  return 0;
}
