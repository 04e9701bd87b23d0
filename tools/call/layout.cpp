//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "call/values.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <regex>
#include <type_traits>
#include <utility>

namespace call {

namespace json = boost::json;

struct layout::scalar
{
  std::string_view name;
  std::size_t size; // and alignment
  // Throws usage_error.
  void (*encode)(const json::value& value, std::byte* to);
  json::value (*decode)(const std::byte* from);
};

namespace {

// The largest number of elements of an array in a layout.
constexpr std::size_t count_max = 1'000'000;

[[noreturn]] void refuse(const json::value& value, std::string_view expected)
{
  throw usage_error(json::serialize(value) + " is no " + std::string(expected));
}

template <class T>
void encode_number(const json::value& value, std::byte* to)
{
  boost::system::error_code ec;
  const T number = value.to_number<T>(ec);
  if (ec)
    refuse(value,
      std::is_floating_point_v<T> ? "number"
        : std::is_signed_v<T>     ? "integer that fits"
                                  : "unsigned integer that fits");
  std::memcpy(to, &number, sizeof number);
}

template <class T>
json::value decode_number(const std::byte* from)
{
  T number;
  std::memcpy(&number, from, sizeof number);
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(number)) // JSON has no such numbers
      return nullptr;
  return number;
}

void encode_bool(const json::value& value, std::byte* to)
{
  if (!value.is_bool())
    refuse(value, "boolean");
  *to = std::byte{value.get_bool()};
}

json::value decode_bool(const std::byte* from)
{
  return *from != std::byte{0};
}

template <class T>
constexpr layout::scalar number(std::string_view name)
{
  return {name, sizeof(T), &encode_number<T>, &decode_number<T>};
}

constexpr layout::scalar scalars[] = {
  number<std::int8_t>("i8"), number<std::int16_t>("i16"), number<std::int32_t>("i32"),
  number<std::int64_t>("i64"), number<std::uint8_t>("u8"), number<std::uint16_t>("u16"),
  number<std::uint32_t>("u32"), number<std::uint64_t>("u64"), number<float>("f32"),
  number<double>("f64"), {"bool", 1, &encode_bool, &decode_bool},
  {"char", 1, nullptr, nullptr}, // characters are text
};

const layout::scalar& scalar_named(const std::string& name)
{
  const auto* const found = std::ranges::find(scalars, name, &layout::scalar::name);
  if (found == std::end(scalars))
    throw usage_error("\"" + name
      + "\" is no type. The types are i8 to i64, u8 to u64, f32, f64, bool, char, and arrays of "
        "them, as char[16].");
  return *found;
}

std::size_t rounded_up(std::size_t size, std::size_t alignment)
{
  return (size + alignment - 1) / alignment * alignment;
}

// A field of characters that is padded with zeros.
void encode_text(const json::value& value, std::size_t size, std::byte* to)
{
  if (!value.is_string() || value.get_string().size() > size)
    refuse(value, "string of at most " + std::to_string(size) + " bytes");
  std::memset(to, 0, size);
  std::memcpy(to, value.get_string().data(), value.get_string().size());
}

json::value decode_text(const std::byte* from, std::size_t size)
{
  std::string_view text(reinterpret_cast<const char*>(from), size);
  return json::string(text.substr(0, text.find_last_not_of('\0') + 1));
}

const json::array& array_of(const json::value& value, std::optional<std::size_t> size)
{
  if (!value.is_array() || (size && value.get_array().size() != *size))
    refuse(value, size ? "array of " + std::to_string(*size) + " elements" : "array");
  return value.get_array();
}

} // namespace

// --- layout ---

layout::layout(std::string_view text)
{
  static const std::regex form(R"(\s*(\w+)\s*(?:\[(\d{1,7})\])?\s*(?:\s(\w+))?\s*)");
  for (std::size_t at = 0; at <= text.size();)
  {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part(text.substr(at, end - at));
    at = end + 1;
    std::smatch found;
    if (!std::regex_match(part, found, form))
      throw usage_error("\"" + part + "\" is no member: a type and a name, as \"i32 a\"");
    member next{&scalar_named(found[1]), found[3], 0, std::nullopt};
    if (found[2].matched)
      next.count = std::stoul(found[2]);
    if (next.count && (*next.count == 0 || *next.count > count_max))
      throw usage_error("\"" + part + "\": an array has 1 to 1000000 elements");
    if (!members_.empty() && has_names() != !next.name.empty())
      throw usage_error("either all members have a name, or none");
    if (!next.name.empty()
      && std::ranges::find(members_, next.name, &member::name) != members_.end())
      throw usage_error("two members have the name " + next.name);
    next.offset = rounded_up(size_, next.type->size);
    size_ = next.offset + next.type->size * next.count.value_or(1);
    alignment_ = std::max(alignment_, next.type->size);
    members_.push_back(std::move(next));
  }
  size_ = rounded_up(size_, alignment_);
}

void layout::encode(const json::value& value, std::byte* to) const
{
  const bool is_object = has_names();
  if (is_object && (!value.is_object() || value.get_object().size() != members_.size()))
    refuse(value, "object with the " + std::to_string(members_.size()) + " members of the layout");
  if (!is_object && members_.size() > 1)
    (void)array_of(value, members_.size());
  for (const member& each : members_)
  {
    const json::value* mine = &value;
    if (is_object)
      mine = value.get_object().if_contains(each.name);
    else if (members_.size() > 1)
      mine = &value.get_array()[static_cast<std::size_t>(&each - members_.data())];
    if (mine == nullptr)
      throw usage_error("the value has no member \"" + each.name + "\"");
    std::byte* const at = to + each.offset;
    if (each.type->encode == nullptr)
      encode_text(*mine, each.count.value_or(1), at);
    else if (!each.count)
      each.type->encode(*mine, at);
    else
    {
      const json::array& elements = array_of(*mine, each.count);
      for (std::size_t i = 0; i < elements.size(); ++i)
        each.type->encode(elements[i], at + i * each.type->size);
    }
  }
}

json::value layout::decode(const std::byte* from) const
{
  json::object named;
  json::array unnamed;
  for (const member& each : members_)
  {
    const std::byte* const at = from + each.offset;
    json::value mine;
    if (each.type->decode == nullptr)
      mine = decode_text(at, each.count.value_or(1));
    else if (!each.count)
      mine = each.type->decode(at);
    else
      for (std::size_t i = 0; i < *each.count; ++i)
        (i == 0 ? mine.emplace_array() : mine.get_array())
          .push_back(each.type->decode(at + i * each.type->size));
    if (has_names())
      named[each.name] = std::move(mine);
    else
      unnamed.push_back(std::move(mine));
  }
  if (has_names())
    return named;
  return unnamed.size() == 1 ? std::move(unnamed.front()) : json::value(std::move(unnamed));
}

} // namespace call
