//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/endpoint_description.hpp"

#include <boost/algorithm/hex.hpp>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <iterator>

namespace rdma {
namespace {

constexpr std::uint32_t bits24 = 0xffffff;

std::string hex(const std::array<std::uint8_t, 16>& bytes)
{
  std::string out;
  boost::algorithm::hex_lower(bytes.begin(), bytes.end(), std::back_inserter(out));
  return out;
}

std::string hex(std::uint64_t bits)
{
  std::array<char, 16> digits{};
  const auto [end, problem] = std::to_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  return {digits.data(), end};
}

bool read(std::string_view text, std::array<std::uint8_t, 16>& out)
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
bool read(std::string_view text, Number& out, std::uint32_t most)
{
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value > most)
    return false;
  out = static_cast<Number>(value);
  return true;
}

bool read(std::string_view text, std::uint64_t& out)
{
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return problem == std::errc{} && end == text.data() + text.size();
}

bool read(std::string_view text, device_kind& out)
{
  out = text == "nic" ? device_kind::nic : device_kind::software;
  return text == "nic" || text == "software";
}

bool read_mtu(std::string_view text, std::uint32_t& out)
{
  // IBA 9.4.5: 256 to 4096, a power of two
  return read(text, out, 4096) && out >= 256 && (out & (out - 1)) == 0;
}

constexpr std::array<std::string_view, 6> wires{"", "infiniband", "roce1", "roce2", "iwarp", "tcp"};

bool read(std::string_view text, wire& out)
{
  // A wire of a later version counts as unknown: the kind of device must suffice.
  const auto found = std::find(wires.begin() + 1, wires.end(), text);
  out = found == wires.end() ? wire::unknown : static_cast<wire>(found - wires.begin());
  return !text.empty();
}

bool read(std::string_view text, std::string& out)
{
  constexpr std::string_view allowed =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
  if (text.empty() || text.size() > endpoint_description::device_name_max
    || text.find_first_not_of(allowed) != std::string_view::npos)
    return false;
  out = text;
  return true;
}

// Reads the value of a member; a number is at most Most.
template <auto Member, std::uint32_t... Most>
bool read_member(std::string_view value, endpoint_description& to)
{
  return read(value, to.*Member, Most...);
}

struct field
{
  std::string_view key;
  bool (*read)(std::string_view value, endpoint_description& to);
};

using description = endpoint_description;

// Version 1 of the text begins with these fields, all of which are required.
constexpr std::size_t fields_required = 9;
constexpr field fields[] = {
  {"v", [](std::string_view value, description&) { return value == "1"; }},
  {"device", read_member<&description::kind>},
  {"gid", read_member<&description::gid>},
  {"lid", read_member<&description::lid, 0xffff>},
  {"qpn", read_member<&description::queue_pair_number, bits24>},
  {"psn", read_member<&description::packet_sequence_number, bits24>},
  {"mtu", [](std::string_view value, description& to) { return read_mtu(value, to.path_mtu); }},
  {"reads", read_member<&description::read_atomic_depth, 0xff>},
  {"nonce", read_member<&description::nonce>},
  {"wire", read_member<&description::wire>},
  {"timeout", read_member<&description::timeout, 31>},
  {"receives", read_member<&description::receive_depth, bits24>},
  {"sends", read_member<&description::send_depth, bits24>},
  {"retries", read_member<&description::retry_count, 7>},
  {"rnr-retries", read_member<&description::rnr_retry_count, 7>},
  {"rnr-timer", read_member<&description::min_rnr_timer, 31>},
  {"features", read_member<&description::features>},
  {"name", read_member<&description::device>},
};

} // namespace

std::string endpoint_description::text() const
{
  std::string result;
  result.reserve(text_size_max / 2);
  const auto add = [&](std::string_view key, std::string_view value)
  {
    result += result.empty() ? "" : ";";
    result += key;
    result += '=';
    result += value;
  };
  add("v", "1");
  add("device", kind == device_kind::nic ? "nic" : "software");
  add("gid", hex(gid));
  add("lid", std::to_string(lid));
  add("qpn", std::to_string(queue_pair_number));
  add("psn", std::to_string(packet_sequence_number));
  add("mtu", std::to_string(path_mtu));
  add("reads", std::to_string(read_atomic_depth));
  add("nonce", hex(nonce));
  if (wire != rdma::wire::unknown)
    add("wire", wires[static_cast<std::size_t>(wire)]);
  add("timeout", std::to_string(timeout));
  if (receive_depth != 0)
    add("receives", std::to_string(receive_depth));
  if (send_depth != 0)
    add("sends", std::to_string(send_depth));
  add("retries", std::to_string(retry_count));
  add("rnr-retries", std::to_string(rnr_retry_count));
  add("rnr-timer", std::to_string(min_rnr_timer));
  if (features != device_features::unknown)
    add("features", hex(features));
  if (!device.empty())
    add("name", device);
  return result;
}

endpoint_description endpoint_description::parse(std::string_view text, error_code& ec)
{
  endpoint_description result;
  ec = error::malformed_description;
  if (text.size() > text_size_max)
    return {};

  std::bitset<std::size(fields)> seen;
  while (!text.empty())
  {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return {};
    const auto found = std::find_if(std::begin(fields), std::end(fields),
      [&](const field& each) { return each.key == part.substr(0, equals); });
    if (found == std::end(fields))
      continue; // of a later version
    const auto index = static_cast<std::size_t>(found - std::begin(fields));
    if (seen[index] || !found->read(part.substr(equals + 1), result))
      return {};
    seen.set(index);
  }
  for (std::size_t i = 0; i < fields_required; ++i)
    if (!seen[i])
      return {};
  ec = {};
  return result;
}

endpoint_description endpoint_description::parse(std::string_view text)
{
  return detail::or_throw(
    "endpoint_description::parse", [&](error_code& ec) { return parse(text, ec); });
}

} // namespace rdma
