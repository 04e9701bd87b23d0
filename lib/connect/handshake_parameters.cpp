//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/handshake_parameters.hpp"

#include "boost_rdma/connect_options.hpp"

#include <boost/algorithm/hex.hpp>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace rdma::detail {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr char endpoint_field[] = "Rdma-Endpoint";
constexpr char parameters_field[] = "Rdma-Parameters";
constexpr char declined_field[] = "Rdma-Declined";
constexpr char data_field[] = "Rdma-Data";
constexpr std::size_t parameters_size_max = 512;

constexpr std::chrono::milliseconds heartbeat_least{100};
constexpr std::chrono::milliseconds heartbeat_most{3'600'000};

std::string_view view(beast::string_view text)
{
  return {text.data(), text.size()};
}

// Calls visit with the value of each field of that name. Returns false if there are too many or
// visit returns false.
template <class Visitor>
bool for_each_value(
  const http::fields& fields, beast::string_view name, std::size_t most, Visitor visit)
{
  auto [line, end] = fields.equal_range(name);
  for (std::size_t count = 0; line != end; ++line)
    if (++count > most || !visit(view(line->value())))
      return false;
  return true;
}

bool read_flag(std::string_view text, bool& out)
{
  out = text == "1";
  return text == "0" || text == "1";
}

bool read_limit(std::string_view text, std::chrono::milliseconds& out)
{
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  out = std::chrono::milliseconds(value);
  return problem == std::errc{} && end == text.data() + text.size()
    && out == bounded_heartbeat_limit(out);
}

// "key=value;key=value"; keys of later versions are skipped.
bool read_parameters(std::string_view text, handshake_parameters& to)
{
  if (text.size() > parameters_size_max)
    return false;
  bool heartbeat = false;
  bool fall_back = false;
  bool next = false;
  bool confirm = false;
  while (!text.empty())
  {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return false;
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    bool good = true;
    if (key == "heartbeat")
      good = !std::exchange(heartbeat, true) && read_limit(value, to.heartbeat_limit);
    else if (key == "fall-back")
      good = !std::exchange(fall_back, true) && read_flag(value, to.falls_back);
    else if (key == "software-next")
      good = !std::exchange(next, true) && read_flag(value, to.software_next);
    else if (key == "confirm")
      good = !std::exchange(confirm, true) && read_flag(value, to.confirms);
    if (!good)
      return false;
  }
  return true;
}

bool read_declined(std::string_view text, handshake_parameters& to)
{
  const std::size_t colon = text.find(": ");
  if (text.size() > handshake_parameters::declined_size_max || colon == std::string_view::npos)
    return false;
  to.declined.push_back({std::string(text.substr(0, colon)), std::string(text.substr(colon + 2))});
  return true;
}

bool read_data(std::string_view text, std::string& to)
{
  if (text.size() > 2 * connect_options::data_size_max)
    return false;
  try
  {
    boost::algorithm::unhex(text.begin(), text.end(), std::back_inserter(to));
    return true;
  }
  catch (const boost::algorithm::hex_decode_error&)
  {
    return false;
  }
}

// Returns the value of a field without characters that a field cannot contain.
std::string line_of(const declined_transport& declined)
{
  std::string result = (declined.transport + ": " + declined.reason)
                         .substr(0, handshake_parameters::declined_size_max);
  std::replace_if(
    result.begin(), result.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return result;
}

} // namespace

std::chrono::milliseconds bounded_heartbeat_limit(std::chrono::milliseconds limit) noexcept
{
  if (limit <= std::chrono::milliseconds::zero())
    return std::chrono::milliseconds::zero();
  return std::clamp(limit, heartbeat_least, heartbeat_most);
}

void write_handshake_parameters(const handshake_parameters& self, http::fields& fields)
{
  for (const endpoint_description& each : self.endpoints)
    fields.insert(endpoint_field, each.text());
  std::string parameters = "heartbeat=" + std::to_string(self.heartbeat_limit.count());
  parameters += self.falls_back ? ";fall-back=1" : "";
  parameters += self.software_next ? ";software-next=1" : "";
  parameters += self.confirms ? "" : ";confirm=0";
  fields.insert(parameters_field, parameters);
  for (std::size_t i = 0; i < std::min(self.declined.size(), handshake_parameters::declined_max);
       ++i)
    fields.insert(declined_field, line_of(self.declined[i]));
  if (!self.data.empty())
  {
    std::string text;
    boost::algorithm::hex_lower(self.data, std::back_inserter(text));
    fields.insert(data_field, text);
  }
}

std::string read_program_data(const http::fields& fields, error_code& ec)
{
  std::string result;
  if (for_each_value(fields, data_field, 1, [&](auto value) { return read_data(value, result); }))
    return result;
  ec = error::malformed_description;
  return {};
}

handshake_parameters read_handshake_parameters(const http::fields& fields, error_code& ec)
{
  handshake_parameters result;
  const auto endpoint = [&](std::string_view value)
  {
    error_code malformed;
    result.endpoints.push_back(endpoint_description::parse(value, malformed));
    return !malformed;
  };
  error_code malformed_data;
  result.data = read_program_data(fields, malformed_data);
  const bool good = !malformed_data
    && for_each_value(fields, endpoint_field, handshake_parameters::endpoints_max, endpoint)
    && for_each_value(
      fields, parameters_field, 1, [&](auto value) { return read_parameters(value, result); })
    && for_each_value(fields, declined_field, handshake_parameters::declined_max,
      [&](auto value) { return read_declined(value, result); });
  if (good)
    return result;
  ec = error::malformed_description;
  return {};
}

} // namespace rdma::detail
