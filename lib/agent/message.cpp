//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/message.hpp"

#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <iterator>

namespace rdma::detail {
namespace {

constexpr std::uint8_t protocol_version = 1;

// Offsets of the fields, in bytes.
constexpr std::size_t at_version = 0;
constexpr std::size_t at_type = 1;
constexpr std::size_t at_status = 2;
constexpr std::size_t at_id = 4;
constexpr std::size_t at_lease = 8;
constexpr std::size_t at_lifetime = 16;
constexpr std::size_t at_alignment = 24;
constexpr std::size_t at_memory = 32;
static_assert(at_memory + remote_buffer::encoded_size == agent_message::encoded_size);

// The fields that a type has; all others are zero. The memory field holds nothing, size and rights,
// or the whole description.
enum class memory_form : std::uint8_t
{
  none,
  wanted,
  exposed,
};
struct form
{
  bool id;
  bool lease;
  bool lifetime;
  bool alignment;
  memory_form memory;
};

std::optional<form> form_of(message_type type) noexcept
{
  switch (type)
  {
  case message_type::allocate:
    return form{true, false, true, true, memory_form::wanted};
  case message_type::renew:
    return form{true, true, true, false, memory_form::none};
  case message_type::release: // with or without an id
  case message_type::hand_over:
    return form{true, true, false, false, memory_form::none};
  case message_type::lend:
    return form{true, true, true, false, memory_form::exposed};
  case message_type::recall:
    return form{false, true, false, false, memory_form::none};
  case message_type::done:
    return form{true, false, true, false, memory_form::none};
  case message_type::granted:
    return form{true, true, true, false, memory_form::exposed};
  case message_type::refused:
    return form{true, false, false, false, memory_form::none};
  }
  return std::nullopt;
}

bool has_form(const agent_message& m, const form& wanted) noexcept
{
  const bool silent = m.type == message_type::release && m.id == 0;
  if (wanted.id != (m.id != 0) && !silent)
    return false;
  if (wanted.lease != (m.lease != 0) || (!wanted.lifetime && m.lifetime != 0)
    || wanted.alignment != (m.alignment != 0))
    return false;
  if ((m.type == message_type::refused) != (m.status != refusal_status::none))
    return false;
  const bool named = m.memory.address() != 0 || m.memory.keys() != device_keys{};
  const bool something = m.memory.size() != 0;
  const bool rights = m.memory.rights() != access::local_read;
  switch (wanted.memory)
  {
  case memory_form::none:
    return !named && !something && !rights;
  case memory_form::wanted:
    return !named && something && rights;
  case memory_form::exposed:
    return something && rights && m.memory.keys() != device_keys{};
  }
  return false;
}

unsigned char* at(agent_message::encoded& bytes, std::size_t offset) noexcept
{
  return reinterpret_cast<unsigned char*>(&bytes[offset]);
}
const unsigned char* at(std::span<const std::byte> bytes, std::size_t offset) noexcept
{
  return reinterpret_cast<const unsigned char*>(&bytes[offset]);
}

} // namespace

agent_message::encoded agent_message::encode() const noexcept
{
  using namespace boost::endian;
  encoded out{};
  *at(out, at_version) = protocol_version;
  *at(out, at_type) = static_cast<std::uint8_t>(type);
  *at(out, at_status) = static_cast<std::uint8_t>(status);
  store_big_u32(at(out, at_id), id);
  store_big_u64(at(out, at_lease), lease);
  store_big_u64(at(out, at_lifetime), lifetime);
  store_big_u32(at(out, at_alignment), alignment);
  std::ranges::copy(memory.encode(), out.begin() + at_memory);
  return out;
}

std::optional<agent_message> agent_message::decode(std::span<const std::byte> bytes) noexcept
{
  using namespace boost::endian;
  if (bytes.size() != encoded_size || *at(bytes, at_version) != protocol_version)
    return std::nullopt;
  agent_message result;
  result.type = static_cast<message_type>(*at(bytes, at_type));
  result.status = static_cast<refusal_status>(*at(bytes, at_status));
  result.id = load_big_u32(at(bytes, at_id));
  result.lease = load_big_u64(at(bytes, at_lease));
  result.lifetime = load_big_u64(at(bytes, at_lifetime));
  result.alignment = load_big_u32(at(bytes, at_alignment));
  error_code ec;
  result.memory = remote_buffer::decode(bytes.subspan(at_memory), ec);
  const std::optional<form> wanted = form_of(result.type);
  const bool zeros =
    *at(bytes, at_status + 1) == 0 && load_big_u32(at(bytes, at_alignment + 4)) == 0;
  if (ec || !wanted || !zeros || result.status > refusal_status_last || !has_form(result, *wanted))
    return std::nullopt;
  return result;
}

error_code error_of(refusal_status status) noexcept
{
  static constexpr error errors[] = {error{}, error::no_lessor, error::quota_exceeded,
    error::pool_exhausted, error::bad_alignment, error::remote_right_missing, error::lease_ended,
    error::inbox_full, error::lease_failed};
  static_assert(std::size(errors) == static_cast<std::size_t>(refusal_status_last) + 1);
  return status == refusal_status::none ? error_code() : errors[static_cast<std::size_t>(status)];
}

std::uint64_t to_wire(std::chrono::milliseconds lifetime) noexcept
{
  return lifetime >= std::chrono::milliseconds::max()
    ? agent_message::no_limit
    : static_cast<std::uint64_t>(std::max<std::int64_t>(lifetime.count(), 0));
}

std::chrono::milliseconds from_wire(std::uint64_t lifetime) noexcept
{
  constexpr auto most = static_cast<std::uint64_t>(std::chrono::milliseconds::max().count());
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(lifetime, most)));
}

lease_clock::time_point end_of(
  lease_clock::time_point now, std::chrono::milliseconds lifetime) noexcept
{
  lifetime = std::max(lifetime, std::chrono::milliseconds::zero());
  const auto left =
    std::chrono::duration_cast<std::chrono::milliseconds>(lease_clock::time_point::max() - now);
  return lifetime >= left ? lease_clock::time_point::max() : now + lifetime;
}

agent_message answer_to(const agent_message& asked, refusal_status status) noexcept
{
  return {.type = status == refusal_status::none ? message_type::done : message_type::refused,
    .status = status,
    .id = asked.id};
}

} // namespace rdma::detail
