//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/require.hpp"
#include "rpc/message.hpp"
#include "rpc/message_reader.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

// Fuzzes the messages of an RPC peer (doc/rpc_protocol.md). The input is a byte with the limit of
// contents, a byte that selects how the bytes are split, and the bytes of the peer.

using namespace rdma::detail::rpc;
using test::require;

namespace {

constexpr std::size_t limit_unit = 16;

std::array<std::byte, message::header_size> encoded(const message& m)
{
  std::array<std::byte, message::header_size> to{};
  m.encode(to);
  return to;
}

void require_form(const message& m)
{
  using enum message_type;
  require(m.type >= hello && m.type <= trace, "the type is known");
  require(m.size <= message::size_max, "content is at most 1 GiB");
  const bool is_transfer = m.type == pull || m.type == push;
  require(m.size == 0 || m.type == hello || m.type == call || m.type == reply || m.type == expose
      || m.type == part || m.type == trace || m.type == item || is_transfer,
    "other messages have no content");
  require(!is_transfer || m.size >= exposed_part::encoded_size, "a transfer names its part");
  require((m.type != hello && m.type != goodbye) || m.number == 0,
    "messages about no call have no number");
  require(m.selector == 0 || m.type == hello || m.type == call || m.type == failure || is_transfer
      || (m.type == part && m.selector == 1),
    "other messages have no selector");
  require(m.type != credit || m.detail != 0, "credit is not empty");
  require(m.detail == 0 || m.type == call || m.type == failure || m.type == credit || is_transfer,
    "other messages have no detail");
}

void require_failure(const message& m)
{
  const rdma::error_code ec = failure_of(m);
  require(ec.failed(), "a failure has an error");
  const message again = is_refusal(m)
    ? refusal_message(m.number, static_cast<rdma::error>(ec.value()))
    : failure_message(m.number, ec);
  require(again.number == m.number && message::decode(encoded(again)).has_value(),
    "a failure of an error that has arrived can be sent");
  require(failure_of(again) == ec, "an error that has arrived survives encoding and decoding");
  require(ec == rdma::error::call_failed || encoded(again) == encoded(m),
    "a failure with a known error encodes to the same bytes");
}

void require_methods(std::span<const std::byte> content)
{
  const auto methods = decode_methods(content);
  if (!methods)
    return;
  std::vector<std::byte> again;
  for (const offered_method& each : *methods)
  {
    require(!each.name.empty() && each.name.size() <= UINT8_MAX, "names are bounded");
    append_method(again, {each.name, each.request, each.reply});
  }
  require(std::ranges::equal(again, content), "decoded methods encode to the same bytes");
}

void require_ranges(std::span<const std::byte> content)
{
  const auto ranges = decode_ranges(content);
  if (!ranges)
    return;
  require(ranges->size() <= exposed_range::most, "a call exposes a limited number of ranges");
  std::vector<std::byte> again;
  for (const exposed_range& each : *ranges)
  {
    require(each.size != 0 && each.content.size() <= exposed_range::content_max,
      "ranges have bytes, and not many of them travel with the call");
    append_range(again, each, each.content);
  }
  require(std::ranges::equal(again, content), "decoded ranges encode to the same bytes");
}

struct result
{
  bool is_valid = true;
  std::vector<std::byte> taken; // as they were in the input
};

// Reads parts of at most `part_max` bytes.
result read(std::span<const std::byte> bytes, std::size_t content_max, std::size_t part_max,
  std::minstd_rand& random)
{
  result all;
  message_reader reader(content_max);
  const auto take = [&](const message& m, std::vector<std::byte>& content)
  {
    require_form(m);
    require(content.size() == m.size && m.size <= content_max, "the content has its size");
    if (m.type == message_type::hello)
      require_methods(content);
    else if (m.type == message_type::failure)
      require_failure(m);
    else if (m.type == message_type::expose)
      require_ranges(content);
    const auto head = encoded(m);
    all.taken.insert(all.taken.end(), head.begin(), head.end());
    all.taken.insert(all.taken.end(), content.begin(), content.end());
    if (random() % 2 == 0)
      const std::vector<std::byte> away = std::move(content);
    return random() % 2 == 0;
  };
  while (all.is_valid && !bytes.empty())
  {
    const std::size_t size = std::min<std::size_t>(1 + random() % part_max, bytes.size());
    // Exactly so many bytes, so that the address sanitizer detects reads beyond them.
    const std::vector<std::byte> part(
      bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    for (std::span<const std::byte> rest(part); all.is_valid && !rest.empty();)
    {
      const std::size_t before = rest.size();
      all.is_valid = reader.read(rest, take);
      require(!all.is_valid || rest.size() < before, "bytes are read");
    }
    bytes = bytes.subspan(size);
  }
  return all;
}

// Returns true if the bytes behind the messages are the first ones of a message.
bool is_unfinished(std::span<const std::byte> rest, std::size_t content_max)
{
  if (rest.size() < message::header_size)
    return true;
  const auto m = message::decode(rest.first<message::header_size>());
  return m && m->size <= content_max && rest.size() - message::header_size < m->size;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 2)
    return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const std::size_t content_max = data[0] * limit_unit;
  std::minstd_rand random(1u + data[1]);

  result whole;
  {
    message_reader reader(content_max);
    std::span<const std::byte> rest(bytes);
    whole.is_valid = reader.read(rest,
      [&](const message& m, const std::vector<std::byte>& content)
      {
        const auto head = encoded(m);
        whole.taken.insert(whole.taken.end(), head.begin(), head.end());
        whole.taken.insert(whole.taken.end(), content.begin(), content.end());
        return true;
      });
    require(!whole.is_valid || rest.empty(), "all bytes are read");
  }
  require(whole.taken.size() <= bytes.size()
      && std::ranges::equal(whole.taken, bytes.first(whole.taken.size())),
    "messages encode to the same bytes, without a gap");
  require(whole.is_valid == is_unfinished(bytes.subspan(whole.taken.size()), content_max),
    "all messages are taken, and only malformed ones are refused");

  for (const std::size_t part_max : {std::size_t{1}, std::size_t{1} + data[1] % 64})
  {
    const result split = read(bytes, content_max, part_max, random);
    require(split.is_valid == whole.is_valid && split.taken == whole.taken,
      "the result does not depend on how the bytes are split");
  }
  return 0;
}
