//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/message.hpp"

#include <boost/asio/error.hpp>
#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rdma::detail::rpc {
namespace {

constexpr std::size_t at_type = 0;
constexpr std::size_t at_zero = 1;
constexpr std::size_t at_selector = 2;
constexpr std::size_t at_number = 4;
constexpr std::size_t at_size = 8;
constexpr std::size_t at_detail = 12;

// The types of request and reply, and the size of the name, in front of the name.
constexpr std::size_t method_head = 8 + 8 + 1;

// A range has form, rights, six zeros, size, address, key and four zeros, and then content.
constexpr std::size_t range_head = 32;

unsigned char* bytes(std::byte* at) noexcept
{
  return reinterpret_cast<unsigned char*>(at);
}
const unsigned char* bytes(const std::byte* at) noexcept
{
  return reinterpret_cast<const unsigned char*>(at);
}

bool has_form(const message& m) noexcept
{
  using enum message_type;
  if (m.size > message::size_max)
    return false;
  switch (m.type)
  {
  case hello:
    return m.number == 0 && m.detail == 0;
  case call:
    return true;
  case reply:
    return m.selector == 0 && m.detail == 0;
  case failure:
    return m.size == 0 && m.detail != 0;
  case cancel:
    return m.selector == 0 && m.size == 0 && m.detail == 0;
  case goodbye:
    return m.selector == 0 && m.number == 0 && m.size == 0 && m.detail == 0;
  case expose:
    return m.selector == 0 && m.size != 0 && m.detail == 0;
  case pull:
    return m.size == exposed_part::encoded_size;
  case push:
    return m.size > exposed_part::encoded_size;
  case part:
    return m.selector <= 1 && m.detail == 0;
  case released:
  case end_of_items:
    return m.selector == 0 && m.size == 0 && m.detail == 0;
  case trace:
    return m.selector == 0 && m.size == trace_size && m.detail == 0;
  case item:
    return m.selector == 0 && m.detail == 0;
  case credit:
    return m.selector == 0 && m.size == 0 && m.detail != 0;
  }
  return false;
}

} // namespace

void message::encode(std::span<std::byte, header_size> to) const noexcept
{
  using namespace boost::endian;
  to[at_type] = static_cast<std::byte>(type);
  to[at_zero] = std::byte{0};
  store_big_u16(bytes(&to[at_selector]), selector);
  store_big_u32(bytes(&to[at_number]), number);
  store_big_u32(bytes(&to[at_size]), size);
  store_big_u32(bytes(&to[at_detail]), detail);
}

std::optional<message> message::decode(std::span<const std::byte, header_size> from) noexcept
{
  using namespace boost::endian;
  message m;
  m.type = static_cast<message_type>(from[at_type]);
  m.selector = load_big_u16(bytes(&from[at_selector]));
  m.number = load_big_u32(bytes(&from[at_number]));
  m.size = load_big_u32(bytes(&from[at_size]));
  m.detail = load_big_u32(bytes(&from[at_detail]));
  if (from[at_zero] != std::byte{0} || !has_form(m))
    return std::nullopt;
  return m;
}

std::size_t begin_message(std::vector<std::byte>& to, const message& what)
{
  const std::size_t at = to.size();
  to.resize(at + message::header_size);
  what.encode(std::span(to).subspan(at).first<message::header_size>());
  return at;
}

void end_message(std::vector<std::byte>& to, std::size_t at) noexcept
{
  boost::endian::store_big_u32(
    bytes(&to[at + at_size]), static_cast<std::uint32_t>(to.size() - at - message::header_size));
}

void append_first_credit(std::vector<std::byte>& to, std::uint32_t credit)
{
  const std::size_t at = to.size();
  to.resize(at + first_credit_size);
  boost::endian::store_big_u32(bytes(&to[at]), credit);
}

std::uint32_t decode_first_credit(std::span<const std::byte, first_credit_size> from) noexcept
{
  return boost::endian::load_big_u32(bytes(from.data()));
}

std::uint32_t encode_time(std::chrono::nanoseconds left) noexcept
{
  const auto us =
    std::max<std::int64_t>(std::chrono::ceil<std::chrono::microseconds>(left).count(), 1);
  return us <= UINT32_MAX ? static_cast<std::uint32_t>(us) : 0;
}

void set_time(std::span<std::byte> call, std::chrono::nanoseconds left) noexcept
{
  boost::endian::store_big_u32(bytes(&call[at_detail]), encode_time(left));
}

message failure_message(std::uint32_t number, const error_code& ec) noexcept
{
  message m;
  m.type = message_type::failure;
  m.number = number;
  failure_kind kind = failure_kind::library;
  error_code sent = ec;
  if (ec.category() == boost::system::system_category()
    || ec.category() == boost::system::generic_category())
    kind = failure_kind::system;
  else if (ec.category() != make_error_code(error::call_failed).category())
    sent = error::call_failed; // the peer may not have the category
  if (!sent)
  {
    kind = failure_kind::library;
    sent = error::call_failed;
  }
  m.selector = static_cast<std::uint16_t>(kind);
  m.detail = static_cast<std::uint32_t>(sent.value());
  return m;
}

message refusal_message(std::uint32_t number, error why) noexcept
{
  message m = failure_message(number, why);
  m.selector = static_cast<std::uint16_t>(failure_kind::refused);
  return m;
}

error_code failure_of(const message& m) noexcept
{
  switch (static_cast<failure_kind>(m.selector))
  {
  case failure_kind::system:
    return {static_cast<int>(m.detail), boost::system::system_category()};
  case failure_kind::library:
  case failure_kind::refused:
    if (m.detail >= static_cast<std::uint32_t>(error::no_device)
      && m.detail <= static_cast<std::uint32_t>(error::call_failed))
      return static_cast<error>(m.detail);
  }
  return error::call_failed;
}

void append_method(std::vector<std::byte>& to, const method_description& what)
{
  const std::size_t at = to.size();
  to.resize(at + method_head);
  boost::endian::store_big_u64(bytes(&to[at]), what.request);
  boost::endian::store_big_u64(bytes(&to[at + 8]), what.reply);
  to[at + method_head - 1] = static_cast<std::byte>(what.name.size());
  const auto name = std::as_bytes(std::span(what.name));
  to.insert(to.end(), name.begin(), name.end());
}

std::optional<std::vector<offered_method>> decode_methods(std::span<const std::byte> from)
{
  std::vector<offered_method> result;
  while (!from.empty())
  {
    if (from.size() < method_head)
      return std::nullopt;
    const auto size = static_cast<std::size_t>(from[method_head - 1]);
    if (size == 0 || from.size() - method_head < size)
      return std::nullopt;
    const auto* const name = reinterpret_cast<const char*>(from.data() + method_head);
    result.push_back({std::string(name, size), boost::endian::load_big_u64(bytes(from.data())),
      boost::endian::load_big_u64(bytes(from.data() + 8))});
    from = from.subspan(method_head + size);
  }
  return result;
}

// The rights of a peer in one byte, as libibverbs has them.
constexpr access exposed_rights = access::remote_read | access::remote_write;

void append_range(
  std::vector<std::byte>& to, const exposed_range& what, std::span<const std::byte> content)
{
  const std::size_t at = to.size();
  to.resize(at + range_head);
  to[at] = static_cast<std::byte>(what.form);
  to[at + 1] = static_cast<std::byte>(what.rights);
  boost::endian::store_big_u64(bytes(&to[at + 8]), what.size);
  boost::endian::store_big_u64(bytes(&to[at + 16]), what.address);
  boost::endian::store_big_u32(bytes(&to[at + 24]), what.key);
  to.insert(to.end(), content.begin(), content.end());
}

std::optional<std::vector<exposed_range>> decode_ranges(std::span<const std::byte> from)
{
  using form_type = exposed_range::form_type;
  constexpr auto zero = [](std::byte each) { return each == std::byte{0}; };
  std::vector<exposed_range> result;
  while (!from.empty())
  {
    if (from.size() < range_head || result.size() == exposed_range::most)
      return std::nullopt;
    exposed_range& made = result.emplace_back();
    made.form = static_cast<form_type>(from[0]);
    made.rights = static_cast<access>(from[1]);
    made.size = boost::endian::load_big_u64(bytes(from.data() + 8));
    made.address = boost::endian::load_big_u64(bytes(from.data() + 16));
    made.key = boost::endian::load_big_u32(bytes(from.data() + 24));
    const bool has_zeros = std::ranges::all_of(from.subspan(2, 6), zero)
      && std::ranges::all_of(from.subspan(28, 4), zero);
    from = from.subspan(range_head);
    if (!has_zeros || made.size == 0 || made.rights == access::local_read
      || !permits(exposed_rights, made.rights))
      return std::nullopt;
    switch (made.form)
    {
    case form_type::window:
      if (made.size > UINT64_MAX - made.address)
        return std::nullopt;
      continue;
    case form_type::message:
      if (made.address != 0 || made.key != 0)
        return std::nullopt;
      continue;
    case form_type::content:
      if (made.address != 0 || made.key != 0 || made.rights != access::remote_read
        || made.size > exposed_range::content_max || made.size > from.size())
        return std::nullopt;
      made.content.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(made.size));
      from = from.subspan(made.content.size());
      continue;
    }
    return std::nullopt;
  }
  return result;
}

void append_part(std::vector<std::byte>& to, const exposed_part& what)
{
  const std::size_t at = to.size();
  to.resize(at + exposed_part::encoded_size);
  boost::endian::store_big_u64(bytes(&to[at]), what.offset);
  boost::endian::store_big_u32(bytes(&to[at + 8]), what.size);
}

exposed_part decode_part(std::span<const std::byte, exposed_part::encoded_size> from) noexcept
{
  return {boost::endian::load_big_u64(bytes(from.data())),
    boost::endian::load_big_u32(bytes(from.data() + 8))};
}

void append_trace(std::vector<std::byte>& to, const rdma::rpc::trace_context& what)
{
  const auto append = [&to](const auto& bytes)
  {
    const auto all = std::as_bytes(std::span(bytes));
    to.insert(to.end(), all.begin(), all.end());
  };
  append(what.trace_id);
  append(what.parent_id);
  to.push_back(static_cast<std::byte>(what.flags));
}

rdma::rpc::trace_context decode_trace(std::span<const std::byte, trace_size> from) noexcept
{
  rdma::rpc::trace_context made;
  std::memcpy(made.trace_id.data(), from.data(), made.trace_id.size());
  std::memcpy(made.parent_id.data(), from.data() + made.trace_id.size(), made.parent_id.size());
  made.flags = static_cast<std::uint8_t>(from.back());
  return made;
}

} // namespace rdma::detail::rpc
