//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/message.hpp"
#include "common/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

using rdma::access;
using rdma::remote_buffer;
using namespace rdma::detail;
using std::chrono::milliseconds;

namespace {

// Offsets of the fields that the tests change (doc/agent_protocol.md, "Messages").
constexpr std::size_t at_version = 0;
constexpr std::size_t at_type = 1;
constexpr std::size_t at_status = 2;
constexpr std::size_t at_alignment = 24;
constexpr std::size_t at_memory = 32;
constexpr std::size_t at_rights = at_memory + 2;
constexpr std::size_t at_nic_key = at_memory + 4;
constexpr std::size_t at_software_key = at_memory + 8;
constexpr std::size_t at_address = at_memory + 16;
constexpr std::size_t at_size = at_memory + 24;

const remote_buffer wanted(0, 4096, {0, 0}, access::remote_read | access::remote_write);
const remote_buffer exposed(
  0x1122334455667788, 4096, {0xaabbccdd, 0x01020304}, access::remote_read);

constexpr std::uint32_t id = 0x0a0b0c0d;
constexpr std::uint64_t lease = 0x2122232425262728;
constexpr std::uint64_t lifetime = 0x3132333435363738;

agent_message make(message_type type)
{
  agent_message m;
  m.type = type;
  return m;
}

// One message of each kind, with all fields that belong to it.
std::vector<agent_message> every_kind()
{
  std::vector<agent_message> all;
  const auto add = [&](message_type type, std::uint64_t of, std::uint64_t ms,
                     std::uint32_t alignment, const remote_buffer& memory,
                     std::uint32_t number = id)
  {
    agent_message m = make(type);
    m.id = number;
    m.lease = of;
    m.lifetime = ms;
    m.alignment = alignment;
    m.memory = memory;
    all.push_back(m);
  };
  add(message_type::allocate, 0, lifetime, 4096, wanted);
  add(message_type::renew, lease, lifetime, 0, {});
  add(message_type::release, lease, 0, 0, {});
  add(message_type::release, lease, 0, 0, {}, 0); // expects no answer
  add(message_type::hand_over, lease, 0, 0, {});
  add(message_type::lend, lease, lifetime, 0, exposed);
  add(message_type::recall, lease, 0, 0, {}, 0);
  add(message_type::done, 0, lifetime, 0, {});
  add(message_type::granted, lease, lifetime, 0, exposed);
  add(message_type::refused, 0, 0, 0, {});
  all.back().status = refusal_status::quota_exceeded;
  return all;
}

agent_message one(message_type type)
{
  const std::vector<agent_message> all = every_kind();
  return *std::ranges::find(all, type, &agent_message::type);
}

bool refused(std::span<const std::byte> bytes)
{
  return !agent_message::decode(bytes);
}
bool refused(const agent_message& m)
{
  return refused(m.encode());
}

agent_message::encoded changed(const agent_message& m, std::size_t at, int value)
{
  agent_message::encoded bytes = m.encode();
  bytes[at] = std::byte(static_cast<unsigned char>(value));
  return bytes;
}

} // namespace

TEST_CASE("every agent message survives encoding and decoding")
{
  for (const agent_message& m : every_kind())
  {
    CAPTURE(static_cast<int>(m.type), m.id);
    const agent_message::encoded bytes = m.encode();
    const std::optional<agent_message> read = agent_message::decode(bytes);
    REQUIRE(read);
    CHECK(read->type == m.type);
    CHECK(read->status == m.status);
    CHECK(read->id == m.id);
    CHECK(read->lease == m.lease);
    CHECK(read->lifetime == m.lifetime);
    CHECK(read->alignment == m.alignment);
    CHECK(read->memory.address() == m.memory.address());
    CHECK(read->memory.size() == m.memory.size());
    CHECK(read->memory.keys() == m.memory.keys());
    CHECK(read->memory.rights() == m.memory.rights());
    CHECK(read->encode() == bytes);
  }
}

TEST_CASE("an encoded agent message is big-endian and has its fields at the documented offsets")
{
  const unsigned char granted[agent_message::encoded_size] = {
    1, 8, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d,                         // version, type, status, id
    0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,             // lease
    0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,             // lifetime
    0, 0, 0, 0, 0, 0, 0, 0,                                     // alignment, zero
    0, 1, 0, 4, 0xaa, 0xbb, 0xcc, 0xdd, 1, 2, 3, 4, 0, 0, 0, 0, // remote_buffer
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0, 0, 0, 0x10, 0, // address, size
  };
  const agent_message::encoded bytes = one(message_type::granted).encode();
  for (std::size_t i = 0; i < sizeof granted; ++i)
  {
    CAPTURE(i);
    CHECK(bytes[i] == std::byte(granted[i]));
  }
  CHECK(one(message_type::allocate).encode()[at_alignment + 2] == std::byte(0x10));
  CHECK(one(message_type::refused).encode()[at_status] == std::byte(2));
  CHECK(one(message_type::lend).encode()[at_type] == std::byte(5));
}

TEST_CASE("agent message types and statuses have the documented numbers")
{
  int number = 0;
  for (const message_type type : {message_type::allocate, message_type::renew,
         message_type::release, message_type::hand_over, message_type::lend, message_type::recall,
         message_type::done, message_type::granted, message_type::refused})
    CHECK(static_cast<int>(type) == ++number);
  number = -1;
  for (const refusal_status status : {refusal_status::none, refusal_status::no_lessor,
         refusal_status::quota_exceeded, refusal_status::pool_exhausted,
         refusal_status::bad_alignment, refusal_status::right_not_granted,
         refusal_status::unknown_lease, refusal_status::inbox_full, refusal_status::failed})
    CHECK(static_cast<int>(status) == ++number);
  CHECK(static_cast<int>(refusal_status_last) == number);
}

TEST_CASE("decode refuses an agent message of another size, version or type")
{
  for (const agent_message& m : every_kind())
  {
    CAPTURE(static_cast<int>(m.type), m.id);
    const agent_message::encoded bytes = m.encode();
    for (std::size_t n = 0; n < bytes.size(); ++n)
    {
      const std::vector<std::byte> exact(
        bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      CHECK(refused(exact));
    }
    std::vector<std::byte> longer(bytes.begin(), bytes.end());
    longer.push_back(std::byte(0));
    CHECK(refused(longer));
    for (int version = 0; version < 256; ++version)
      CHECK(refused(changed(m, at_version, version)) == (version != 1));
    for (const int type : {0, 10, 11, 128, 255})
      CHECK(refused(changed(m, at_type, type)));
  }
}

TEST_CASE("decode refuses an agent message that lacks one of its fields")
{
  for (const agent_message& m : every_kind())
  {
    CAPTURE(static_cast<int>(m.type), m.id);
    agent_message lacking = m;
    lacking.id = 0;
    // A release without an id is valid.
    CHECK(refused(lacking) == (m.type != message_type::release && m.type != message_type::recall));
    lacking = m;
    lacking.lease = 0;
    CHECK(refused(lacking) == (m.lease != 0));
    lacking = m;
    lacking.lifetime = 0; // a lifetime of zero is valid: it ends at once
    CHECK_FALSE(refused(lacking));
    lacking = m;
    lacking.alignment = 0;
    CHECK(refused(lacking) == (m.alignment != 0));
    lacking = m;
    lacking.status = refusal_status::none;
    CHECK(refused(lacking) == (m.type == message_type::refused));
    const remote_buffer& memory = m.memory;
    const bool has_memory = memory.size() != 0;
    lacking.status = m.status;
    lacking.memory = {memory.address(), 0, memory.keys(), memory.rights()};
    CHECK(refused(lacking) == has_memory);
    lacking.memory = {memory.address(), memory.size(), memory.keys(), access::local_read};
    CHECK(refused(lacking) == has_memory);
    lacking.memory = {memory.address(), memory.size(), {0, 0}, memory.rights()};
    CHECK(refused(lacking) == (memory.keys() != device_keys{}));
  }
}

TEST_CASE("decode refuses an agent message with a field of another type")
{
  for (const agent_message& m : every_kind())
  {
    CAPTURE(static_cast<int>(m.type), m.id);
    const auto has = [&](std::initializer_list<message_type> types)
    { return std::ranges::count(types, m.type) != 0; };
    const bool takes_lifetime = has({message_type::allocate, message_type::renew,
      message_type::lend, message_type::done, message_type::granted});
    const bool is_exposed = has({message_type::lend, message_type::granted});

    agent_message more = m;
    more.id = 1;
    CHECK(refused(more) == has({message_type::recall}));
    more = m;
    more.lease = 1;
    CHECK(
      refused(more) == has({message_type::allocate, message_type::done, message_type::refused}));
    more = m;
    more.lifetime = 1;
    CHECK(refused(more) == !takes_lifetime);
    more = m;
    more.alignment = 1;
    CHECK(refused(more) == !has({message_type::allocate}));
    for (int status = 1; status < 256; ++status)
      CHECK(refused(changed(m, at_status, status))
        == (m.type != message_type::refused || status > static_cast<int>(refusal_status_last)));

    CHECK(refused(changed(m, at_rights + 1, 2)) == (!has({message_type::allocate}) && !is_exposed));
    CHECK(refused(changed(m, at_nic_key, 7)) == !is_exposed);
    CHECK(refused(changed(m, at_software_key, 7)) == !is_exposed);
    CHECK(refused(changed(m, at_address, 7)) == !is_exposed);
    CHECK(refused(changed(m, at_size, 7)) == (!has({message_type::allocate}) && !is_exposed));
  }
}

TEST_CASE("decode refuses an agent message with a reserved byte that is not zero")
{
  for (const agent_message& m : every_kind())
  {
    CAPTURE(static_cast<int>(m.type), m.id);
    for (const std::size_t reserved : {3, 28, 29, 30, 31, 44, 45, 46, 47})
      for (const int bit : {1, 128})
        CHECK(refused(changed(m, reserved, bit)));
  }
}

TEST_CASE("memory in an agent message is a remote buffer with remote rights only")
{
  for (const message_type type :
    {message_type::allocate, message_type::lend, message_type::granted})
  {
    const agent_message m = one(type);
    CAPTURE(static_cast<int>(type));
    CHECK(refused(changed(m, at_memory + 1, 2))); // another version
    CHECK(refused(changed(m, at_rights + 1, 1))); // access::local_write
    CHECK(refused(changed(m, at_rights + 1, 16)));
    CHECK(refused(changed(m, at_rights, 1)));
    agent_message all_rights = m;
    all_rights.memory = {m.memory.address(), m.memory.size(), m.memory.keys(), rdma::remote_access};
    CHECK_FALSE(refused(all_rights));
  }
  agent_message m = one(message_type::granted);
  m.memory = {UINT64_MAX - 7, 7, {1, 0}, access::remote_write};
  CHECK_FALSE(refused(m));
  m.memory = {
    UINT64_MAX - 7, 8, {1, 0}, access::remote_write}; // passes the end of the address space
  CHECK(refused(m));
  m.memory = {0, 1, {0, 1}, access::remote_write}; // address 0 is valid in zero-based regions
  CHECK_FALSE(refused(m));
}

TEST_CASE("random bytes are refused as an agent message or encode to themselves")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::vector<agent_message> all = every_kind();
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i)
  {
    auto bytes = all[random() % all.size()].encode();
    for (unsigned k = 1 + random() % 3; k != 0; --k)
      bytes[random() % bytes.size()] = std::byte(static_cast<unsigned char>(random()));
    const std::optional<agent_message> m = agent_message::decode(bytes);
    if (!m)
      continue;
    ++accepted;
    REQUIRE(m->encode() == bytes);
  }
  CHECK(accepted > 0);
}

TEST_CASE("lifetimes are transferred in milliseconds and very long ones become unlimited")
{
  constexpr milliseconds longest = milliseconds::max();
  CHECK(to_wire(milliseconds(0)) == 0);
  CHECK(to_wire(milliseconds(1)) == 1);
  CHECK(to_wire(std::chrono::hours(1)) == 3'600'000);
  CHECK(to_wire(milliseconds(-1)) == 0);
  CHECK(to_wire(milliseconds::min()) == 0);
  CHECK(to_wire(longest) == agent_message::no_limit);
  CHECK(from_wire(0) == milliseconds(0));
  CHECK(from_wire(3'600'000) == std::chrono::hours(1));
  CHECK(from_wire(agent_message::no_limit) == longest);
  CHECK(from_wire(agent_message::no_limit - 1) == longest);
  CHECK(from_wire(std::uint64_t{1} << 63) == longest);
  for (const std::uint64_t ms :
    {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{86'400'000}, agent_message::no_limit})
    CHECK(to_wire(from_wire(ms)) == ms);
}

TEST_CASE("every refusal status of an agent maps to its own error")
{
  using rdma::error;
  CHECK(error_of(refusal_status::none) == rdma::error_code());
  CHECK(error_of(refusal_status::no_lessor) == error::no_lessor);
  CHECK(error_of(refusal_status::quota_exceeded) == error::quota_exceeded);
  CHECK(error_of(refusal_status::pool_exhausted) == error::pool_exhausted);
  CHECK(error_of(refusal_status::bad_alignment) == error::bad_alignment);
  CHECK(error_of(refusal_status::right_not_granted) == error::remote_right_missing);
  CHECK(error_of(refusal_status::unknown_lease) == error::lease_ended);
  CHECK(error_of(refusal_status::inbox_full) == error::inbox_full);
  CHECK(error_of(refusal_status::failed) == error::lease_failed);
  std::set<int> values;
  for (int status = 1; status <= static_cast<int>(refusal_status_last); ++status)
    CHECK(values.insert(error_of(static_cast<refusal_status>(status)).value()).second);
}
