//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/message.hpp"

#include "verbs/software/protocol/bytes.hpp"

#include <algorithm>

// The layout is written once, in visit(), for a writer and a reader of fields.

namespace rdma::software::cm {
namespace {

// The common header of management datagrams (IBA 13.4.3).
constexpr std::uint8_t base_version = 1;
constexpr std::uint8_t class_communication = 0x07;
constexpr std::uint8_t class_version = 2;
constexpr std::uint8_t method_send = 0x03;
constexpr std::size_t header_size = 24;

// The header of the application's data in a REQ and a SIDR_REQ (IBA annex A11).
constexpr std::size_t ip_header_size = 36;

struct data_place
{
  std::size_t offset;
  std::size_t size;
};

// Place of the application's private data, behind the common header.
data_place place_of(message_type type) noexcept
{
  switch (type)
  {
  case message_type::request:
    return {140 + ip_header_size, 92 - ip_header_size};
  case message_type::receipt:
    return {10, 222};
  case message_type::reject:
    return {84, 148};
  case message_type::reply:
    return {36, 196};
  case message_type::ready:
  case message_type::disconnected:
    return {8, 224};
  case message_type::disconnect:
    return {12, 220};
  case message_type::datagram_request:
    return {16 + ip_header_size, 216 - ip_header_size};
  case message_type::datagram_reply:
    return {96, 136};
  }
  return {};
}

// A field: `bits` bits from bit `bit` of byte `byte` on, most significant bit first. It lies within
// eight bytes.
class field_writer
{
public:
  explicit field_writer(std::byte* data) noexcept
    : data_(data)
  {
  }

  template <class T>
  void operator()(std::size_t byte, unsigned bit, unsigned bits, const T& value) noexcept
  {
    auto rest = static_cast<std::uint64_t>(value);
    for (unsigned i = bits; i-- != 0; rest >>= 1)
      if ((rest & 1) != 0)
        data_[byte + (bit + i) / 8] |= std::byte{0x80} >> (bit + i) % 8;
  }
  // An address; IPv4: its last four bytes.
  void operator()(std::size_t byte, const address_bytes& value, bool is_v4 = false) noexcept
  {
    const std::size_t first = is_v4 ? 12 : 0;
    std::transform(value.begin() + first, value.end(), data_ + byte + first,
      [](auto b) { return std::byte{b}; });
  }

private:
  std::byte* data_;
};

class field_reader
{
public:
  explicit field_reader(const std::byte* data) noexcept
    : data_(data)
  {
  }

  template <class T>
  void operator()(std::size_t byte, unsigned bit, unsigned bits, T& value) noexcept
  {
    std::uint64_t read = 0;
    for (unsigned i = 0; i != bits; ++i)
      read = read << 1
        | std::to_integer<unsigned>(
          data_[byte + (bit + i) / 8] >> (7 - (bit + i) % 8) & std::byte{1});
    value = static_cast<T>(read);
  }
  void operator()(std::size_t byte, address_bytes& value, bool is_v4 = false) noexcept
  {
    const std::size_t first = is_v4 ? 12 : 0;
    value = v4_any;
    std::transform(data_ + byte + first, data_ + byte + value.size(), value.begin() + first,
      [](auto b) { return std::uint8_t(b); });
  }

private:
  const std::byte* data_;
};

// The header of annex A11 at this place. An IPv4 address has twelve bytes of zero before it.
struct ip_header
{
  std::uint8_t version = 0;
  std::uint8_t ip_version = 0;
};

template <class Fields, class Message>
void visit_ip_header(Fields& at, std::size_t begin, Message& m, ip_header& ip)
{
  at(begin, 0, 8, ip.version);
  at(begin + 1, 0, 4, ip.ip_version);
  at(begin + 2, 0, 16, m.source_port);
  at(begin + 4, m.source, ip.ip_version == 4);
  at(begin + 20, m.destination, ip.ip_version == 4);
}

// The fields of a type. Offsets: behind the common header; tables 106 to 113, 119 and 120 of
// chapter 12. `Message` is const for the writer.
template <class Fields, class Message>
void visit(Fields& at, Message& m, ip_header& ip)
{
  at(0, 0, 32, m.local_id);
  switch (m.type)
  {
  case message_type::request:
    at(8, 0, 64, m.service_id);
    at(16, 0, 64, m.ca_guid);
    at(32, 0, 24, m.queue_pair);
    at(35, 0, 8, m.responder_resources);
    at(39, 0, 8, m.initiator_depth);
    at(43, 0, 5, m.response_timeout);
    at(43, 5, 2, m.service_type);
    at(43, 7, 1, m.flow_control);
    at(44, 0, 24, m.starting_psn);
    at(47, 5, 3, m.retry_count);
    at(50, 0, 4, m.path_mtu);
    at(50, 5, 3, m.rnr_retry_count);
    at(51, 4, 1, m.srq);
    at(56, m.source);
    at(72, m.destination);
    at(95, 0, 5, m.local_ack_timeout);
    return visit_ip_header(at, 140, m, ip);
  case message_type::receipt:
    at(4, 0, 32, m.remote_id);
    at(8, 0, 2, m.answered);
    return at(9, 0, 5, m.service_timeout);
  case message_type::reject:
    at(4, 0, 32, m.remote_id);
    at(8, 0, 2, m.answered);
    return at(10, 0, 16, m.status);
  case message_type::reply:
    at(4, 0, 32, m.remote_id);
    at(12, 0, 24, m.queue_pair);
    at(20, 0, 24, m.starting_psn);
    at(24, 0, 8, m.responder_resources);
    at(25, 0, 8, m.initiator_depth);
    at(26, 7, 1, m.flow_control);
    at(27, 0, 3, m.rnr_retry_count);
    at(27, 3, 1, m.srq);
    return at(28, 0, 64, m.ca_guid);
  case message_type::ready:
  case message_type::disconnected:
    return at(4, 0, 32, m.remote_id);
  case message_type::disconnect:
    at(4, 0, 32, m.remote_id);
    return at(8, 0, 24, m.queue_pair);
  case message_type::datagram_request:
    at(8, 0, 64, m.service_id);
    return visit_ip_header(at, 16, m, ip);
  case message_type::datagram_reply:
    at(4, 0, 8, m.status);
    at(8, 0, 24, m.queue_pair);
    at(12, 0, 64, m.service_id);
    return at(20, 0, 32, m.qkey);
  }
}

} // namespace

std::size_t private_data_max(message_type type) noexcept
{
  return place_of(type).size;
}

std::array<std::byte, message_size> encode(const message& from) noexcept
{
  std::array<std::byte, message_size> to{};
  protocol::byte_writer header(to.data());
  header.put(base_version, 1);
  header.put(class_communication, 1);
  header.put(class_version, 1);
  header.put(method_send, 1);
  header.put(0, 4); // status, class specific
  header.put(from.transaction, 8);
  header.put(static_cast<std::uint16_t>(from.type), 2);
  field_writer fields(to.data() + header_size);
  ip_header ip;
  ip.ip_version = from.is_ipv6 ? 6 : 4;
  visit(fields, from, ip);
  const data_place place = place_of(from.type);
  std::copy_n(from.private_data.begin(), std::min<std::size_t>(from.private_size, place.size),
    to.begin() + header_size + place.offset);
  return to;
}

std::optional<message> decode(std::span<const std::byte> bytes) noexcept
{
  if (bytes.size() != message_size)
    return {};
  protocol::byte_reader header(bytes.data());
  if (header.get(1) != base_version || header.get(1) != class_communication
    || header.get(1) != class_version || header.get(1) != method_send)
    return {};
  header.get(4);
  message m;
  m.transaction = header.get(8);
  m.type = static_cast<message_type>(header.get(2));
  const data_place place = place_of(m.type);
  if (place.size == 0)
    return {}; // of another type
  field_reader fields(bytes.data() + header_size);
  ip_header ip;
  visit(fields, m, ip);
  const bool asks = m.type == message_type::request || m.type == message_type::datagram_request;
  if (asks && (ip.version != 0 || (ip.ip_version != 4 && ip.ip_version != 6)))
    return {};
  m.is_ipv6 = ip.ip_version == 6;
  m.private_size = static_cast<std::uint8_t>(place.size);
  std::copy_n(bytes.begin() + header_size + place.offset, place.size, m.private_data.begin());
  return m;
}

} // namespace rdma::software::cm
