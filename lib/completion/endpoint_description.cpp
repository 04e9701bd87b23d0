//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/endpoint_description.hpp"

#include <boost/algorithm/hex.hpp>

#include <charconv>
#include <functional>
#include <map>

namespace rdma {
namespace {

constexpr std::uint32_t bits24 = 0xffffff;

std::string hex(const std::array<std::uint8_t, 16>& bytes)
{
  std::string out;
  boost::algorithm::hex_lower(bytes.begin(), bytes.end(), std::back_inserter(out));
  return out;
}

bool read_hex(std::string_view text, std::array<std::uint8_t, 16>& out)
{
  if (text.size() != 2 * out.size())
    return false;
  try
  {
    boost::algorithm::unhex(text.begin(), text.end(), out.begin());
    return true;
  }
  catch (const boost::algorithm::hex_decode_error&)
  {
    return false;
  }
}

template <class Number>
bool read_number(std::string_view text, Number& out, std::uint32_t most)
{
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value > most)
    return false;
  out = static_cast<Number>(value);
  return true;
}

bool read_kind(std::string_view text, device_kind& out)
{
  out = text == "nic" ? device_kind::nic : device_kind::software;
  return text == "nic" || text == "software";
}

bool read_mtu(std::string_view text, std::uint32_t& out)
{
  // IBA 9.4.5: 256 to 4096, a power of two
  return read_number(text, out, 4096) && out >= 256 && (out & (out - 1)) == 0;
}

} // namespace

std::string endpoint_description::text() const
{
  return std::string("v=1;device=") + (kind == device_kind::nic ? "nic" : "software") + ";gid=" + hex(gid)
    + ";lid=" + std::to_string(lid) + ";qpn=" + std::to_string(queue_pair_number)
    + ";psn=" + std::to_string(packet_sequence_number) + ";mtu=" + std::to_string(path_mtu)
    + ";reads=" + std::to_string(read_atomic_depth) + ";nonce=" + hex(nonce);
}

endpoint_description endpoint_description::parse(std::string_view text, error_code& ec)
{
  endpoint_description result;
  ec = error::malformed_description;
  if (text.size() > text_size_max)
    return {};

  std::uint32_t version = 0;
  using reader = std::function<bool(std::string_view)>;
  std::map<std::string_view, reader> fields{
    {"v", [&](auto value) { return read_number(value, version, 1) && version == 1; }},
    {"device", [&](auto value) { return read_kind(value, result.kind); }},
    {"gid", [&](auto value) { return read_hex(value, result.gid); }},
    {"lid", [&](auto value) { return read_number(value, result.lid, 0xffff); }},
    {"qpn", [&](auto value) { return read_number(value, result.queue_pair_number, bits24); }},
    {"psn", [&](auto value) { return read_number(value, result.packet_sequence_number, bits24); }},
    {"mtu", [&](auto value) { return read_mtu(value, result.path_mtu); }},
    {"reads", [&](auto value) { return read_number(value, result.read_atomic_depth, 0xff); }},
    {"nonce", [&](auto value) { return read_hex(value, result.nonce); }},
  };
  const std::size_t known = fields.size();
  std::map<std::string_view, bool> seen;
  while (!text.empty())
  {
    const std::string_view field = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos)
      return {};
    const auto found = fields.find(field.substr(0, equals));
    if (found == fields.end())
      continue; // of a later version
    if (!seen.try_emplace(found->first, true).second || !found->second(field.substr(equals + 1)))
      return {};
  }
  if (seen.size() != known)
    return {};
  ec = {};
  return result;
}

endpoint_description endpoint_description::parse(std::string_view text)
{
  error_code ec;
  endpoint_description result = parse(text, ec);
  if (ec)
    throw system_error(ec, "endpoint_description::parse");
  return result;
}

} // namespace rdma
