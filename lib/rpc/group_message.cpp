//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_message.hpp"

#include <boost/endian/conversion.hpp>

#include <type_traits>

namespace rdma::detail::rpc {

namespace {

constexpr std::size_t at_range = 12;
constexpr std::size_t at_left = 48;
constexpr std::size_t method_size = 20; // in front of the name
constexpr std::size_t answer_size = 12;
constexpr std::size_t progress_size = 12;
constexpr std::size_t absence_size = 12;
constexpr std::size_t gossip_request_size = 20; // in front of the reports
constexpr std::size_t gossip_answer_size = 8;
constexpr std::size_t report_size = 16;

unsigned char* characters(std::byte* at) noexcept
{
  return reinterpret_cast<unsigned char*>(at);
}

template <class T>
void append(std::vector<std::byte>& to, T value)
{
  const std::size_t at = to.size();
  to.resize(at + sizeof(T));
  boost::endian::endian_store<T, sizeof(T), boost::endian::order::big>(characters(&to[at]), value);
}

// Reads numbers one after another. The caller has checked the size.
class number_reader
{
public:
  explicit number_reader(std::span<const std::byte> from)
    : left_(from)
  {
  }

  template <class T>
  T get()
  {
    const auto* const at = reinterpret_cast<const unsigned char*>(left_.data());
    left_ = left_.subspan(sizeof(T));
    return boost::endian::endian_load<T, sizeof(T), boost::endian::order::big>(at);
  }
  [[nodiscard]] std::span<const std::byte> left() const { return left_; }

private:
  std::span<const std::byte> left_;
};

void append_reports(std::vector<std::byte>& to, std::span<const swim_report> what)
{
  for (const swim_report& each : what)
  {
    append(to, each.rank);
    append(to, static_cast<std::uint32_t>(each.health));
    append(to, each.incarnation);
  }
}

bool take_reports(number_reader& from, std::uint32_t members, std::vector<swim_report>& to)
{
  const std::size_t size = from.left().size();
  if (size % report_size != 0 || size / report_size > swim::reports_max + 1)
    return false;
  while (!from.left().empty())
  {
    swim_report& made = to.emplace_back();
    made.rank = from.get<std::uint32_t>();
    made.health = static_cast<swim_health>(from.get<std::uint32_t>());
    made.incarnation = from.get<std::uint64_t>();
    if (made.rank >= members || made.health < swim_health::alive
      || made.health > swim_health::failed || made.incarnation > swim_report::incarnation_max)
      return false;
  }
  return true;
}

enum class answer_state : std::uint32_t
{
  pending = 1,
  done = 2,
  progress = 3,
};

bool is_right(const group_request& r)
{
  return r.members > 1 && r.root < r.members && r.range.first > 0 && r.range.first < r.members
    && r.range.count > 0 && r.range.count <= r.members - r.range.first && r.fan_out > 0
    && r.sequence > 0 && r.oldest > 0 && r.oldest <= r.sequence
    && r.sequence - r.oldest < group_request::calls_max && r.left.count() > 0
    && r.left <= group_request::time_max && r.patience.count() > 0
    && r.patience <= group_request::time_max / (std::int64_t{height_of(r.members, r.fan_out)} + 1);
}

} // namespace

void append_group_request(std::vector<std::byte>& to, const group_request& what)
{
  append(to, static_cast<std::uint32_t>(what.kind));
  append(to, what.root);
  append(to, what.members);
  append(to, what.range.first);
  append(to, what.range.count);
  append(to, what.fan_out);
  append(to, what.incarnation);
  append(to, what.sequence);
  append(to, what.oldest);
  append(to, static_cast<std::uint64_t>(what.left.count()));
  append(to, static_cast<std::uint64_t>(what.patience.count()));
  if (what.kind == group_request_kind::bulk || what.kind == group_request_kind::part)
    append(to, what.bytes);
  if (what.kind == group_request_kind::inquiry || what.kind == group_request_kind::part)
    return;
  append(to, what.method.request);
  append(to, what.method.reply);
  append(to, static_cast<std::uint32_t>(what.method.name.size()));
  const auto name = std::as_bytes(std::span(what.method.name));
  to.insert(to.end(), name.begin(), name.end());
  to.insert(to.end(), what.content.begin(), what.content.end());
}

void set_group_callee(std::span<std::byte> request, group_request_kind kind, group_range range,
  std::chrono::microseconds left) noexcept
{
  boost::endian::store_big_u32(characters(&request[0]), static_cast<std::uint32_t>(kind));
  boost::endian::store_big_u32(characters(&request[at_range]), range.first);
  boost::endian::store_big_u32(characters(&request[at_range + 4]), range.count);
  boost::endian::store_big_u64(
    characters(&request[at_left]), static_cast<std::uint64_t>(left.count()));
}

std::optional<group_request> decode_group_request(std::span<const std::byte> from)
{
  if (from.size() < group_request::header_size)
    return std::nullopt;
  number_reader reader(from);
  group_request r;
  r.kind = static_cast<group_request_kind>(reader.get<std::uint32_t>());
  r.root = reader.get<std::uint32_t>();
  r.members = reader.get<std::uint32_t>();
  r.range.first = reader.get<std::uint32_t>();
  r.range.count = reader.get<std::uint32_t>();
  r.fan_out = reader.get<std::uint32_t>();
  r.incarnation = reader.get<std::uint64_t>();
  r.sequence = reader.get<std::uint64_t>();
  r.oldest = reader.get<std::uint64_t>();
  const auto left = reader.get<std::uint64_t>();
  const auto patience = reader.get<std::uint64_t>();
  const auto most = static_cast<std::uint64_t>(group_request::time_max.count());
  if (left > most || patience > most)
    return std::nullopt;
  r.left = std::chrono::microseconds(left);
  r.patience = std::chrono::microseconds(patience);
  if (!is_right(r))
    return std::nullopt;
  if (r.kind == group_request_kind::bulk || r.kind == group_request_kind::part)
  {
    if (reader.left().size() < sizeof r.bytes)
      return std::nullopt;
    r.bytes = reader.get<std::uint64_t>();
  }
  const std::size_t rest = reader.left().size();
  if (r.kind == group_request_kind::inquiry || r.kind == group_request_kind::part)
    return rest == 0 ? std::optional(r) : std::nullopt;
  if ((r.kind != group_request_kind::call && (r.kind != group_request_kind::bulk || r.bytes == 0))
    || rest < method_size)
    return std::nullopt;
  r.method.request = reader.get<std::uint64_t>();
  r.method.reply = reader.get<std::uint64_t>();
  const auto name_size = reader.get<std::uint32_t>();
  if (name_size > reader.left().size())
    return std::nullopt;
  r.method.name = {reinterpret_cast<const char*>(reader.left().data()), name_size};
  r.content = reader.left().subspan(name_size);
  return r;
}

void append_pending(std::vector<std::byte>& to)
{
  append(to, static_cast<std::uint32_t>(answer_state::pending));
}

void append_part(std::vector<std::byte>& to, const group_part& part)
{
  append(to, static_cast<std::uint32_t>(answer_state::done));
  append(to, part.answered);
  append(to, static_cast<std::uint32_t>(part.missing.size()));
  append_absences(to, part.missing);
  to.insert(to.end(), part.value.begin(), part.value.end());
}

std::optional<group_answer> decode_group_answer(std::span<const std::byte> from, group_range range)
{
  if (from.size() < sizeof(std::uint32_t))
    return std::nullopt;
  number_reader reader(from);
  group_answer answer;
  const auto state = static_cast<answer_state>(reader.get<std::uint32_t>());
  if (state == answer_state::pending)
  {
    answer.is_pending = true;
    return reader.left().empty() ? std::optional(answer) : std::nullopt;
  }
  if (state != answer_state::done || from.size() < answer_size)
    return std::nullopt;
  answer.part.answered = reader.get<std::uint32_t>();
  const auto missing = reader.get<std::uint32_t>();
  // Every place of the range is counted or named.
  if (answer.part.answered > range.count || missing != range.count - answer.part.answered
    || missing > reader.left().size() / absence_size)
    return std::nullopt;
  auto absences = decode_absences(reader.left().first(missing * absence_size), range);
  const auto value = reader.left().subspan(missing * absence_size);
  if (!absences || (answer.part.answered == 0 && !value.empty()))
    return std::nullopt;
  answer.part.missing = std::move(*absences);
  answer.part.value.assign(value.begin(), value.end());
  return answer;
}

void append_progress(std::vector<std::byte>& to, std::uint64_t bytes)
{
  append(to, static_cast<std::uint32_t>(answer_state::progress));
  append(to, bytes);
}

std::optional<std::uint64_t> decode_progress(std::span<const std::byte> from)
{
  if (from.size() != progress_size)
    return std::nullopt;
  number_reader reader(from);
  if (static_cast<answer_state>(reader.get<std::uint32_t>()) != answer_state::progress)
    return std::nullopt;
  return reader.get<std::uint64_t>();
}

void append_absences(std::vector<std::byte>& to, std::span<const group_absence> what)
{
  for (const group_absence& each : what)
  {
    const message failure = failure_message(0, each.ec);
    append(to, each.place);
    append(to, std::uint32_t{failure.selector});
    append(to, failure.detail);
  }
}

std::optional<std::vector<group_absence>> decode_absences(
  std::span<const std::byte> from, group_range range)
{
  if (from.size() % absence_size != 0)
    return std::nullopt;
  std::vector<group_absence> result;
  number_reader reader(from);
  std::uint64_t least = range.first;
  while (!reader.left().empty())
  {
    message failure;
    const auto place = reader.get<std::uint32_t>();
    const auto kind = reader.get<std::uint32_t>();
    failure.detail = reader.get<std::uint32_t>();
    if (place < least || place - range.first >= range.count || kind > UINT16_MAX
      || failure.detail == 0)
      return std::nullopt;
    failure.selector = static_cast<std::uint16_t>(kind);
    least = std::uint64_t{place} + 1;
    result.push_back({place, failure_of(failure)});
  }
  return result;
}

void append_gossip_request(std::vector<std::byte>& to, const gossip_request& what)
{
  append(to, what.members);
  append(to, what.sender);
  append(to, what.target);
  append(to, what.incarnation);
  append_reports(to, what.reports);
}

void append_gossip_answer(std::vector<std::byte>& to, const gossip_answer& what)
{
  append(to, what.incarnation);
  append_reports(to, what.reports);
}

std::optional<gossip_request> decode_gossip_request(
  std::span<const std::byte> from, std::uint32_t members)
{
  if (from.size() < gossip_request_size)
    return std::nullopt;
  number_reader reader(from);
  gossip_request r;
  r.members = reader.get<std::uint32_t>();
  r.sender = reader.get<std::uint32_t>();
  r.target = reader.get<std::uint32_t>();
  r.incarnation = reader.get<std::uint64_t>();
  if (r.members != members || r.sender >= members || r.target >= members || r.target == r.sender
    || r.incarnation > swim_report::incarnation_max || !take_reports(reader, members, r.reports))
    return std::nullopt;
  return r;
}

std::optional<gossip_answer> decode_gossip_answer(
  std::span<const std::byte> from, std::uint32_t members)
{
  if (from.size() < gossip_answer_size)
    return std::nullopt;
  number_reader reader(from);
  gossip_answer a;
  a.incarnation = reader.get<std::uint64_t>();
  if (a.incarnation > swim_report::incarnation_max || !take_reports(reader, members, a.reports))
    return std::nullopt;
  return a;
}

} // namespace rdma::detail::rpc
