//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/rules.hpp"

#include "sockets/address.hpp"
#include "sockets/settings.hpp"
#include "sockets/system.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <fnmatch.h>
#include <unistd.h>

namespace rdma::sockets::rules {
namespace {

struct rule
{
  bool allows = false;
  std::string program = "*";
  std::optional<bool> is_server;
  ip_address network{};
  unsigned bits = 0;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0xffff;
};

template <class Number>
bool read_number(std::string_view text, Number most, Number& to)
{
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && to <= most;
}

bool read_address(std::string_view text, rule& to)
{
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  unsigned most = 32;
  unsigned before = 96; // IPv4 addresses are compared as IPv4-mapped ones
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1)
    to.network = mapped(v4);
  else if (::inet_pton(AF_INET6, address.c_str(), &v6) == 1)
  {
    std::memcpy(to.network.data(), &v6, sizeof v6);
    most = 128;
    before = 0;
  }
  else
    return false;
  unsigned bits = most;
  if (slash != std::string_view::npos && !read_number(text.substr(slash + 1), most, bits))
    return false;
  to.bits = before + bits;
  return true;
}

bool read_ports(std::string_view text, rule& to)
{
  const std::size_t dash = text.find('-');
  constexpr std::uint16_t most = 0xffff;
  if (!read_number(text.substr(0, dash), most, to.first_port))
    return false;
  to.last_port = to.first_port;
  return dash == std::string_view::npos
    || (read_number(text.substr(dash + 1), most, to.last_port) && to.first_port <= to.last_port);
}

bool read_condition(std::string_view text, rule& to)
{
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return false;
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (name == "program")
    to.program = value;
  else if (name == "side" && (value == "client" || value == "server"))
    to.is_server = value == "server";
  else if (name == "address")
    return read_address(value, to);
  else if (name == "port")
    return read_ports(value, to);
  else
    return false;
  return true;
}

bool read_rule(const std::string& line, std::vector<rule>& to)
{
  std::istringstream words(line.substr(0, line.find('#')));
  std::string word;
  if (!(words >> word))
    return true;
  if (word != "allow" && word != "deny")
    return false;
  rule r;
  r.allows = word == "allow";
  while (words >> word)
    if (!read_condition(word, r))
      return false;
  to.push_back(r);
  return true;
}

void complain(const std::string& what)
{
  const std::string line = "rdma_sockets: " + what + "; all connections remain TCP\n";
  [[maybe_unused]] const ssize_t written = original::write(STDERR_FILENO, line.data(), line.size());
}

std::vector<rule> read_all()
{
  const std::vector<rule> nothing_allowed(1);
  const std::string& path = the_settings().rules;
  if (path.empty())
    return {};
  std::ifstream file(path);
  if (!file)
  {
    complain("cannot read the rules in " + path);
    return nothing_allowed;
  }
  std::vector<rule> all;
  std::string line;
  for (unsigned number = 1; std::getline(file, line); ++number)
    if (!read_rule(line, all))
    {
      complain(path + ':' + std::to_string(number) + ": invalid rule: " + line);
      return nothing_allowed;
    }
  return all;
}

bool is_in(const ip_address& address, const rule& of) noexcept
{
  const unsigned bytes = of.bits / 8;
  if (!std::equal(address.begin(), address.begin() + bytes, of.network.begin()))
    return false;
  const unsigned left = of.bits % 8;
  return left == 0 || (address[bytes] ^ of.network[bytes]) >> (8 - left) == 0;
}

bool matches(const rule& r, bool is_server, const sockaddr* address) noexcept
{
  const std::uint16_t port = port_of(*address);
  return (!r.is_server || *r.is_server == is_server) && port >= r.first_port && port <= r.last_port
    && is_in(ip_of(*address), r)
    && ::fnmatch(r.program.c_str(), the_settings().program.c_str(), 0) == 0;
}

} // namespace

bool allow(bool is_server, const sockaddr* address) noexcept
{
  const internal_call here;
  const kept_errno kept;
  // Never destroyed: destructors of the program may connect.
  static const std::vector<rule>& all = *new std::vector<rule>(read_all());
  const auto found = std::find_if(
    all.begin(), all.end(), [&](const rule& each) { return matches(each, is_server, address); });
  return found == all.end() || found->allows;
}

} // namespace rdma::sockets::rules
