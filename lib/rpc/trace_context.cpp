//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/rpc/trace_context.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace rdma::rpc {
namespace {

constexpr std::string_view digits = "0123456789abcdef"; // capital letters are not permitted

// version "-" trace_id "-" parent_id "-" flags
constexpr std::size_t trace_id_at = 3;
constexpr std::size_t parent_id_at = trace_id_at + 2 * 16 + 1;
constexpr std::size_t flags_at = parent_id_at + 2 * 8 + 1;
constexpr std::size_t length = flags_at + 2;

bool read(std::string_view from, std::span<std::uint8_t> to) noexcept
{
  for (std::size_t i = 0; i != to.size(); ++i)
  {
    const std::size_t high = digits.find(from[2 * i]);
    const std::size_t low = digits.find(from[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos)
      return false;
    to[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

void append(std::string& to, std::span<const std::uint8_t> what)
{
  for (const std::uint8_t each : what)
  {
    to += digits[each >> 4];
    to += digits[each & 0xf];
  }
}

} // namespace

bool trace_context::is_valid() const noexcept
{
  constexpr auto is_set = [](std::uint8_t each) { return each != 0; };
  return std::ranges::any_of(trace_id, is_set) && std::ranges::any_of(parent_id, is_set);
}

std::string trace_context::text() const
{
  std::string result = "00-";
  result.reserve(length);
  append(result, trace_id);
  result += '-';
  append(result, parent_id);
  result += '-';
  append(result, {&flags, 1});
  return result;
}

std::optional<trace_context> trace_context::parse(std::string_view text) noexcept
{
  std::uint8_t version = 0;
  trace_context made;
  if (text.size() < length || !read(text, {&version, 1}) || version == 0xff
    || text[trace_id_at - 1] != '-' || text[parent_id_at - 1] != '-' || text[flags_at - 1] != '-'
    || !read(text.substr(trace_id_at), made.trace_id)
    || !read(text.substr(parent_id_at), made.parent_id)
    || !read(text.substr(flags_at), {&made.flags, 1}) || !made.is_valid())
    return std::nullopt;
  if (text.size() != length && (version == 0 || text[length] != '-'))
    return std::nullopt;
  return made;
}

} // namespace rdma::rpc
