//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "call/values.hpp"

#include <boost_rdma/rpc/codec.hpp>
#include <boost_rdma/rpc/json.hpp>

#include <algorithm>
#include <bit>
#include <sstream>

namespace call {

namespace json = boost::json;
using json_codec = rdma::rpc::codec<json::value>;

namespace {

std::string measured(std::size_t size, std::size_t alignment)
{
  return std::to_string(size) + (size == 1 ? " byte" : " bytes") + ", alignment "
    + std::to_string(alignment);
}

} // namespace

// The numbers are those of doc/rpc_protocol.md. Numbers of codecs and of methods with items hardly
// ever look like a size and an alignment.
wire_type::wire_type(std::uint64_t number)
  : number_(number)
{
  using rdma::rpc::detail::shape;
  const auto form = static_cast<shape>(number & 0xff);
  size_ = number >> 16;
  alignment_ = number >> 8 & 0xff;
  if (number == json_codec::type)
    kind_ = kind::json;
  else if (size_ <= UINT32_MAX && std::has_single_bit(alignment_)
    && alignment_ <= alignof(std::max_align_t) && size_ % alignment_ == 0)
  {
    if (form == shape::value)
      kind_ = size_ == 0 ? kind::nothing : kind::value;
    else if (form == shape::sequence && size_ != 0)
      kind_ = kind::sequence;
  }
}

std::string wire_type::text() const
{
  switch (kind_)
  {
  case kind::nothing:
    return "nothing";
  case kind::value:
    return "value (" + measured(size_, alignment_) + ")";
  case kind::sequence:
    return is_text() ? "string" : "sequence of values (" + measured(size_, alignment_) + ")";
  case kind::json:
    return "JSON";
  case kind::other:
    break;
  }
  std::ostringstream text;
  text << "other (0x" << std::hex << number_ << ')';
  return text.str();
}

void wire_type::check(std::string_view what, const std::optional<layout>& members) const
{
  const std::string option = "--" + std::string(what);
  const std::string subject = "the " + std::string(what) + " of the method is: " + text() + ". ";
  const bool takes_layout = kind_ == kind::value || kind_ == kind::sequence;
  if (kind_ == kind::other)
    throw usage_error(subject
      + "It has a codec of the program, or the method has items. "
        "rdma_call cannot convert it.");
  if (members && !takes_layout)
    throw usage_error(subject + "It needs no " + option + ".");
  if (!members && takes_layout && !is_text())
    throw usage_error(subject + "Describe its members with " + option + ", as \"i32 a, i32 b\".");
  if (members && (members->size() != size_ || members->alignment() != alignment_))
    throw usage_error(
      subject + option + " describes " + measured(members->size(), members->alignment()) + ".");
}

std::vector<std::byte> wire_type::encode(
  const json::value& value, const std::optional<layout>& members) const
{
  std::vector<std::byte> bytes;
  rdma::rpc::output to(bytes);
  if (kind_ == kind::json)
    json_codec::encode(value, to);
  else if (kind_ == kind::nothing)
  {
    if (!value.is_null())
      throw usage_error("the method takes nothing: leave the request out, or pass null");
  }
  else if (kind_ == kind::value)
  {
    bytes.resize(size_);
    members->encode(value, bytes.data());
  }
  else if (!members)
  {
    if (!value.is_string())
      throw usage_error("the request is a string: pass it in quotes, as '\"text\"'");
    to.append(std::as_bytes(std::span(value.get_string())));
  }
  else
  {
    if (!value.is_array())
      throw usage_error("the request is a sequence: pass an array, as '[1, 2]'");
    bytes.resize(value.get_array().size() * size_);
    for (std::byte* at = bytes.data(); const json::value& each : value.get_array())
    {
      members->encode(each, at);
      at += size_;
    }
  }
  return bytes;
}

json::value wire_type::decode(
  std::span<const std::byte> from, const std::optional<layout>& members) const
{
  json::value result;
  if (kind_ == kind::json)
  {
    auto decoded = json_codec::decode(from);
    if (!decoded)
      throw std::runtime_error("the reply is no JSON");
    result = std::move(*decoded);
  }
  else if (kind_ == kind::sequence ? from.size() % size_ != 0 : from.size() != size_)
    throw std::runtime_error("the reply has " + std::to_string(from.size()) + " bytes");
  else if (kind_ == kind::value)
    result = members->decode(from.data());
  else if (kind_ == kind::sequence && !members)
    result = json::string_view(reinterpret_cast<const char*>(from.data()), from.size());
  else if (kind_ == kind::sequence)
    for (json::array& all = result.emplace_array(); !from.empty(); from = from.subspan(size_))
      all.push_back(members->decode(from.data()));
  // The parser examines strings; the serializer does not.
  rdma::error_code ec;
  (void)json::parse(json::serialize(result), ec);
  if (ec)
    throw std::runtime_error("a string of the reply is not UTF-8. Describe it as u8, for example "
                             "with --reply u8 or 'u8[16] name'.");
  return result;
}

} // namespace call
