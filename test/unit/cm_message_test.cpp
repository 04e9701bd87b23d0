//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/message.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// Compares the messages of the communication manager with the tables of IBA chapter 12 and annex
// A11.

namespace rdma::software::cm::message_test {
namespace {

using message_bytes = std::array<std::byte, message_size>;

constexpr std::size_t header_size = 24; // IBA 13.4.3

struct type_name
{
  message_type type;
  const char* name;
  std::size_t data_offset; // of the application's private data, behind the common header
  std::size_t data_size;
};

constexpr type_name all_types[] = {
  {message_type::request, "REQ", 176, 56},
  {message_type::receipt, "MRA", 10, 222},
  {message_type::reject, "REJ", 84, 148},
  {message_type::reply, "REP", 36, 196},
  {message_type::ready, "RTU", 8, 224},
  {message_type::disconnect, "DREQ", 12, 220},
  {message_type::disconnected, "DREP", 8, 224},
  {message_type::datagram_request, "SIDR_REQ", 52, 180},
  {message_type::datagram_reply, "SIDR_REP", 96, 136},
};

// A field of a table: offset in bytes behind the common header, offset in bits, width in bits.
struct field
{
  message_type type;
  const char* name;
  std::size_t byte;
  unsigned bit;
  unsigned bits;
  std::function<void(message&)> fill; // sets all bits of the member
};

template <class T, class U>
std::function<void(message&)> all_ones(U T::*member)
{
  return [member](message& m)
  {
    if constexpr (std::is_same_v<U, address_bytes>)
      (m.*member).fill(0xff);
    else
      m.*member = static_cast<U>(~U{});
  };
}

std::vector<field> all_fields()
{
  using type = message_type;
  using m = message;
  std::vector<field> fields{
    // table 106
    {type::request, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::request, "service ID", 8, 0, 64, all_ones(&m::service_id)},
    {type::request, "local CA GUID", 16, 0, 64, all_ones(&m::ca_guid)},
    {type::request, "local QPN", 32, 0, 24, all_ones(&m::queue_pair)},
    {type::request, "responder resources", 35, 0, 8, all_ones(&m::responder_resources)},
    {type::request, "initiator depth", 39, 0, 8, all_ones(&m::initiator_depth)},
    {type::request, "remote CM response timeout", 43, 0, 5, all_ones(&m::response_timeout)},
    {type::request, "transport service type", 43, 5, 2, all_ones(&m::service_type)},
    {type::request, "starting PSN", 44, 0, 24, all_ones(&m::starting_psn)},
    {type::request, "retry count", 47, 5, 3, all_ones(&m::retry_count)},
    {type::request, "path packet payload MTU", 50, 0, 4, all_ones(&m::path_mtu)},
    {type::request, "RNR retry count", 50, 5, 3, all_ones(&m::rnr_retry_count)},
    {type::request, "primary local ACK timeout", 95, 0, 5, all_ones(&m::local_ack_timeout)},
    {type::request, "A11 source port", 142, 0, 16, all_ones(&m::source_port)},
    // table 107
    {type::receipt, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::receipt, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    {type::receipt, "message MRAed", 8, 0, 2, all_ones(&m::answered)},
    {type::receipt, "service timeout", 9, 0, 5, all_ones(&m::service_timeout)},
    // table 108
    {type::reject, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::reject, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    {type::reject, "message rejected", 8, 0, 2, all_ones(&m::answered)},
    {type::reject, "reason", 10, 0, 16, all_ones(&m::status)},
    // table 110
    {type::reply, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::reply, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    {type::reply, "local QPN", 12, 0, 24, all_ones(&m::queue_pair)},
    {type::reply, "starting PSN", 20, 0, 24, all_ones(&m::starting_psn)},
    {type::reply, "responder resources", 24, 0, 8, all_ones(&m::responder_resources)},
    {type::reply, "initiator depth", 25, 0, 8, all_ones(&m::initiator_depth)},
    {type::reply, "RNR retry count", 27, 0, 3, all_ones(&m::rnr_retry_count)},
    {type::reply, "local CA GUID", 28, 0, 64, all_ones(&m::ca_guid)},
    // tables 111 to 113
    {type::ready, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::ready, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    {type::disconnect, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::disconnect, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    {type::disconnect, "remote QPN/EECN", 8, 0, 24, all_ones(&m::queue_pair)},
    {type::disconnected, "local communication ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::disconnected, "remote communication ID", 4, 0, 32, all_ones(&m::remote_id)},
    // table 119
    {type::datagram_request, "request ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::datagram_request, "service ID", 8, 0, 64, all_ones(&m::service_id)},
    {type::datagram_request, "A11 source port", 18, 0, 16, all_ones(&m::source_port)},
    // table 120
    {type::datagram_reply, "request ID", 0, 0, 32, all_ones(&m::local_id)},
    {type::datagram_reply, "QPN", 8, 0, 24, all_ones(&m::queue_pair)},
    {type::datagram_reply, "service ID", 12, 0, 64, all_ones(&m::service_id)},
    {type::datagram_reply, "Q_Key", 20, 0, 32, all_ones(&m::qkey)},
  };
  const auto flag = [](bool message::*member)
  { return [member](message& to) { to.*member = true; }; };
  fields.push_back({type::request, "end-to-end flow control", 43, 7, 1, flag(&m::flow_control)});
  fields.push_back({type::request, "SRQ", 51, 4, 1, flag(&m::srq)});
  fields.push_back({type::reply, "end-to-end flow control", 26, 7, 1, flag(&m::flow_control)});
  fields.push_back({type::reply, "SRQ", 27, 3, 1, flag(&m::srq)});
  // Eight bits here, sixteen in a REJ.
  fields.push_back(
    {type::datagram_reply, "status", 4, 0, 8, [](message& to) { to.status = 0xff; }});
  for (const type each : {type::request, type::receipt, type::reject, type::reply, type::ready,
         type::disconnect, type::disconnected, type::datagram_request, type::datagram_reply})
    fields.push_back({each, "transaction ID", 0, 0, 64, all_ones(&m::transaction)});
  return fields;
}

message_bytes ones(std::size_t byte, unsigned bit, unsigned bits)
{
  message_bytes to{};
  for (std::size_t i = 8 * byte + bit; i != 8 * byte + bit + bits; ++i)
    to[i / 8] |= std::byte{0x80} >> i % 8;
  return to;
}

message_bytes differences(const message_bytes& left, const message_bytes& right)
{
  message_bytes to{};
  std::transform(left.begin(), left.end(), right.begin(), to.begin(), std::bit_xor<>());
  return to;
}

message of_type(message_type type)
{
  message m;
  m.type = type;
  return m;
}

// The message as decode() returns it.
message received(message m)
{
  m.private_size = static_cast<std::uint8_t>(private_data_max(m.type));
  return m;
}

// A message whose fields all differ from zero and from each other.
message example(message_type type)
{
  message m = of_type(type);
  m.is_ipv6 = type == message_type::request || type == message_type::datagram_request;
  std::uint8_t next = 1;
  for (const field& each : all_fields())
    if (each.type == type)
      each.fill(m);
  const auto number = [&](auto& member)
  {
    if (member != std::decay_t<decltype(member)>{})
      for (unsigned i = 0; i != sizeof member; ++i)
        member = static_cast<std::decay_t<decltype(member)>>(std::uint64_t{member} << 8 | ++next);
  };
  number(m.transaction);
  number(m.local_id);
  number(m.remote_id);
  number(m.service_id);
  number(m.source_port);
  number(m.ca_guid);
  number(m.queue_pair);
  number(m.starting_psn);
  number(m.qkey);
  number(m.responder_resources);
  number(m.initiator_depth);
  // Members that are wider than their fields.
  m.queue_pair &= 0xffffff;
  m.starting_psn &= 0xffffff;
  const auto cut = [](std::uint8_t& member, std::uint8_t value)
  { member = member != 0 ? value : std::uint8_t{0}; };
  cut(m.retry_count, 5);
  cut(m.rnr_retry_count, 6);
  cut(m.path_mtu, 4);
  cut(m.local_ack_timeout, 18);
  cut(m.response_timeout, 21);
  cut(m.service_type, 1);
  cut(m.service_timeout, 17);
  cut(m.answered, 1);
  if (type == message_type::request || type == message_type::datagram_request)
    for (std::size_t i = 0; i != m.source.size(); ++i)
    {
      m.source[i] = ++next;
      m.destination[i] = static_cast<std::uint8_t>(0xff - next);
    }
  m.private_size = static_cast<std::uint8_t>(private_data_max(type));
  for (std::size_t i = 0; i != m.private_size; ++i)
    m.private_data[i] = static_cast<std::byte>(i + 3);
  return m;
}

} // namespace

TEST_CASE("cm::message survives encoding and decoding with all its fields")
{
  for (const type_name& each : all_types)
  {
    CAPTURE(each.name);
    const message m = example(each.type);
    const auto read = decode(encode(m));
    REQUIRE(read);
    CHECK(*read == m);
  }
}

TEST_CASE("cm::message has each field at its place in the specification and no other bits")
{
  for (const field& each : all_fields())
  {
    CAPTURE(static_cast<int>(each.type), each.name);
    message m = of_type(each.type);
    const message_bytes before = encode(m);
    each.fill(m);
    const std::size_t begin =
      std::string_view(each.name) == "transaction ID" ? 8 : header_size + each.byte;
    CHECK(differences(encode(m), before) == ones(begin, each.bit, each.bits));
  }
}

TEST_CASE("cm::message has the addresses of a request twice: as GIDs and as in annex A11")
{
  const auto place = GENERATE(as<std::pair<message_type, std::vector<std::size_t>>>{},
    std::pair{message_type::request, std::vector<std::size_t>{56, 144}},
    std::pair{message_type::datagram_request, std::vector<std::size_t>{20}});
  const auto check = [&](address_bytes message::*member, std::size_t distance)
  {
    message m = of_type(place.first);
    m.is_ipv6 = true;
    const message_bytes before = encode(m);
    (m.*member).fill(0xff);
    message_bytes expected{};
    for (const std::size_t each : place.second)
      std::fill_n(expected.begin() + header_size + each + distance, 16, std::byte{0xff});
    CHECK(differences(encode(m), before) == expected);
  };
  check(&message::source, 0);
  check(&message::destination, 16);
}

TEST_CASE("cm::message has IPv4 addresses as in annex A11: twelve bytes of zero and the address")
{
  message m = of_type(message_type::datagram_request);
  m.source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  m.destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2};
  const message_bytes bytes = encode(m);
  constexpr std::array<std::uint8_t, 36> expected{0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2};
  CHECK(std::memcmp(bytes.data() + header_size + 16, expected.data(), expected.size()) == 0);
  CHECK(decode(bytes) == received(m));
  m.type = message_type::request;
  CHECK(decode(encode(m)) == received(m));
}

TEST_CASE("cm::message has the bytes of the specification")
{
  message m = of_type(message_type::disconnect);
  m.transaction = 0x1122334455667788;
  m.local_id = 0xa1a2a3a4;
  m.remote_id = 0xb1b2b3b4;
  m.queue_pair = 0xc1c2c3;
  m.private_size = 2;
  m.private_data = {std::byte{0xd1}, std::byte{0xd2}};
  constexpr std::uint8_t begin[] = {0x01, 0x07, 0x02, 0x03, 0, 0, 0,
    0, // base version, class, its version, Send; status
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, // transaction ID
    0x00, 0x15, 0, 0, 0, 0, 0, 0,                   // attribute ID, attribute modifier
    0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, // communication IDs
    0xc1, 0xc2, 0xc3, 0, 0xd1, 0xd2};
  message_bytes expected{};
  std::memcpy(expected.data(), begin, sizeof begin);
  CHECK(encode(m) == expected);
}

TEST_CASE("cm::message carries the private data that its type has room for, padded with zeros")
{
  for (const type_name& each : all_types)
  {
    CAPTURE(each.name);
    REQUIRE(private_data_max(each.type) == each.data_size);
    message m = of_type(each.type);
    m.private_data.fill(std::byte{0xff});
    const std::size_t most = m.private_data.size();
    const message_bytes before = encode(m);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, each.data_size - 1,
           each.data_size, std::min(each.data_size + 1, most), most})
    {
      CAPTURE(size);
      m.private_size = static_cast<std::uint8_t>(size);
      message_bytes expected{};
      std::fill_n(expected.begin() + header_size + each.data_offset, std::min(size, each.data_size),
        std::byte{0xff});
      const message_bytes bytes = encode(m);
      CHECK(differences(bytes, before) == expected);
      const auto read = decode(bytes);
      REQUIRE(read);
      CHECK(std::size_t{read->private_size} == each.data_size);
      const auto filled =
        std::find(read->private_data.begin(), read->private_data.end(), std::byte{0});
      CHECK(filled - read->private_data.begin()
        == static_cast<std::ptrdiff_t>(std::min(size, each.data_size)));
      CHECK(std::all_of(
        filled, read->private_data.end(), [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST_CASE("cm::decode refuses other sizes, versions, classes, methods and types")
{
  for (const type_name& each : all_types)
  {
    CAPTURE(each.name);
    const message_bytes good = encode(example(each.type));
    REQUIRE(decode(good));
    std::vector<std::byte> longer(good.begin(), good.end());
    longer.push_back(std::byte{0});
    CHECK_FALSE(decode(longer));
    for (std::size_t size = 0; size != good.size(); ++size)
    {
      // Memory of its own lets the address sanitizer see reads behind it.
      const std::vector<std::byte> shorter(good.begin(), good.begin() + size);
      CHECK_FALSE(decode(shorter));
    }
    for (std::size_t i = 0; i != 4; ++i)
      for (unsigned value = 0; value != 256; ++value)
      {
        message_bytes other = good;
        other[i] = static_cast<std::byte>(value);
        CHECK(decode(other).has_value() == (other == good));
      }
  }
  message_bytes other = encode(example(message_type::ready));
  for (unsigned type = 0; type != 0x10000; ++type)
  {
    other[16] = static_cast<std::byte>(type >> 8);
    other[17] = static_cast<std::byte>(type & 0xff);
    // 0x11 is MRA, and all between REQ and SIDR_REP are types. A REQ needs an IP version.
    const bool known = type >= 0x11 && type <= 0x18 && type != 0x17;
    if (decode(other).has_value() != known)
      FAIL("type " << type);
  }
}

TEST_CASE("cm::decode refuses requests with another version of annex A11 or of IP")
{
  const auto place =
    GENERATE(std::pair{message_type::request, 140}, std::pair{message_type::datagram_request, 16});
  const message_bytes good = encode(example(place.first));
  const std::size_t begin = header_size + static_cast<std::size_t>(place.second);
  for (unsigned value = 0; value != 256; ++value)
  {
    message_bytes other = good;
    other[begin] = static_cast<std::byte>(value);
    CHECK(decode(other).has_value() == (value == 0));
    other = good;
    other[begin + 1] = static_cast<std::byte>(value);
    const auto read = decode(other); // the lower half is reserved
    CHECK(read.has_value() == (value >> 4 == 4 || value >> 4 == 6));
    CHECK((!read || read->is_ipv6 == (value >> 4 == 6)));
  }
}

TEST_CASE("cm::decode takes any bytes, and encoding reproduces what it has taken")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::size_t taken = 0;
  for (unsigned i = 0; i != 20'000; ++i)
  {
    std::vector<std::byte> bytes(random() % 4 == 0 ? random() % 600 : message_size);
    for (std::byte& each : bytes)
      each = static_cast<std::byte>(random());
    if (random() % 8 != 0 && bytes.size() >= header_size)
    {
      // A correct header, and in most cases a correct type.
      const message_bytes header = encode(of_type(all_types[random() % std::size(all_types)].type));
      std::copy_n(header.begin(), header_size, bytes.begin());
    }
    const auto read = decode(bytes);
    if (!read)
      continue;
    ++taken;
    REQUIRE(bytes.size() == message_size);
    const auto again = decode(encode(*read));
    REQUIRE(again);
    REQUIRE(*again == *read);
  }
  CHECK(taken > 1000);
}

} // namespace rdma::software::cm::message_test
