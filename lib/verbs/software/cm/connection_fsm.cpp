//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/connection_fsm.hpp"

#include <algorithm>
#include <utility>

namespace rdma::software::cm {
namespace {

using fsm = connection_fsm;

// The field "message MRAed" or "message rejected" (tables 107 and 108).
enum : std::uint8_t
{
  of_request = 0,
  of_reply = 1,
  of_neither = 2,
};

// Returns the time of a 5-bit field in nanoseconds (IBA 12.7.22).
constexpr std::int64_t time_of(unsigned code) noexcept
{
  return std::int64_t{4096} << code;
}

} // namespace

std::optional<message> answer_without_end(const message& to) noexcept
{
  message answer;
  answer.transaction = to.transaction;
  answer.local_id = to.remote_id;
  answer.remote_id = to.local_id;
  switch (to.type)
  {
  case message_type::disconnect:
    answer.type = message_type::disconnected;
    return answer;
  case message_type::reply:
  case message_type::ready:
  case message_type::receipt:
    answer.type = message_type::reject;
    answer.answered = to.type == message_type::reply ? of_reply : of_neither;
    answer.status = static_cast<std::uint16_t>(reject_reason::invalid_communication_id);
    return answer;
  default:
    return {};
  }
}

message fsm::make(message_type type) const noexcept
{
  message m;
  m.type = type;
  m.transaction = transaction_;
  m.local_id = local_id_;
  m.remote_id = remote_id_;
  return m;
}

// Sets the time of the next transmission.
void fsm::wait(std::int64_t now) noexcept
{
  deadline_ = now + time_of(std::min<unsigned>(first_timeout + retries_, last_timeout));
}

fsm::step fsm::repeat(const message& m, std::int64_t now) noexcept
{
  repeated_ = m;
  retries_ = 0;
  wait(now);
  return {.send = m};
}

fsm::step fsm::end(report_type report, std::uint16_t status) noexcept
{
  phase_ = phase::ended;
  deadline_ = 0;
  return {.send = {}, .report = report, .status = status};
}

// The connection is over without an exchange of messages.
fsm::step fsm::lose(std::int64_t now) noexcept
{
  phase_ = phase::time_wait;
  deadline_ = now + time_of(first_timeout + 1);
  return {.send = {}, .report = report_type::disconnected};
}

fsm::step fsm::connect(const message& request, std::uint64_t transaction, std::int64_t now) noexcept
{
  phase_ = phase::request_sent;
  datagram_ = request.type == message_type::datagram_request;
  transaction_ = transaction;
  message m = request;
  m.transaction = transaction;
  m.local_id = local_id_;
  m.response_timeout = last_timeout;
  return repeat(m, now);
}

void fsm::take_request(const message& request) noexcept
{
  phase_ = phase::requested;
  requested_ = true;
  datagram_ = request.type == message_type::datagram_request;
  transaction_ = request.transaction;
  remote_id_ = request.local_id;
  remote_queue_pair_ = request.queue_pair;
}

fsm::step fsm::accept(const message& reply, std::int64_t now) noexcept
{
  if (phase_ != phase::requested)
    return {};
  message m = reply;
  m.transaction = transaction_;
  m.local_id = local_id_;
  m.remote_id = remote_id_;
  if (!datagram_)
  {
    phase_ = phase::reply_sent;
    return repeat(m, now);
  }
  m.local_id = remote_id_; // a SIDR_REP has the ID of the request
  repeated_ = m;
  phase_ = phase::established;
  return {.send = m};
}

fsm::step fsm::reject(std::span<const std::byte> data) noexcept
{
  if (phase_ != phase::requested && phase_ != phase::reply_received)
    return {};
  step s = end(report_type::none);
  message m = make(datagram_ ? message_type::datagram_reply : message_type::reject);
  if (datagram_)
  {
    m.local_id = remote_id_;
    m.status = static_cast<std::uint16_t>(datagram_status::rejected);
  }
  else
  {
    m.answered = requested_ ? of_request : of_reply;
    m.status = static_cast<std::uint16_t>(reject_reason::consumer);
  }
  m.private_size = static_cast<std::uint8_t>(std::min(data.size(), private_data_max(m.type)));
  std::copy_n(data.begin(), m.private_size, m.private_data.begin());
  s.send = repeated_ = m;
  return s;
}

fsm::step fsm::establish() noexcept
{
  if (phase_ != phase::reply_received)
    return {};
  phase_ = phase::established;
  begin_probes();
  return {.send = make(message_type::ready)};
}

fsm::step fsm::communication_established() noexcept
{
  if (phase_ != phase::reply_sent)
    return {};
  phase_ = phase::established;
  begin_probes();
  return {.send = {}, .report = report_type::established};
}

fsm::step fsm::disconnect(std::int64_t now) noexcept
{
  if (phase_ == phase::disconnect_received)
  {
    phase_ = phase::time_wait;
    deadline_ = now + time_of(first_timeout + 1);
    return {.send = make(message_type::disconnected)};
  }
  // Before the RTU, the peer takes a DREQ, too (IBA 12.9.7, table 130).
  if (datagram_ || (phase_ != phase::established && phase_ != phase::reply_sent))
    return {};
  phase_ = phase::disconnect_sent;
  ++transaction_;
  message m = make(message_type::disconnect);
  m.queue_pair = remote_queue_pair_;
  return repeat(m, now);
}

fsm::step fsm::destroy() noexcept
{
  const phase before = phase_;
  if (before == phase::requested || before == phase::reply_received)
    return reject({});
  step s = end(report_type::none);
  if (datagram_)
    return s;
  switch (before)
  {
  case phase::request_sent:
  case phase::reply_sent:
    s.send = make(message_type::reject);
    s.send->answered = before == phase::reply_sent ? of_request : of_neither;
    s.send->status = static_cast<std::uint16_t>(
      before == phase::reply_sent ? reject_reason::consumer : reject_reason::timeout);
    break;
  case phase::established:
    ++transaction_;
    s.send = make(message_type::disconnect);
    s.send->queue_pair = remote_queue_pair_;
    break;
  case phase::disconnect_sent:
    s.send = repeated_;
    break;
  case phase::disconnect_received:
    s.send = make(message_type::disconnected);
    break;
  default:
    break;
  }
  return s;
}

// A duplicate of the request: the peer has not received an answer.
fsm::step fsm::answer_request() const noexcept
{
  message m;
  switch (phase_)
  {
  case phase::requested:
    if (datagram_)
      return {};
    m = make(message_type::receipt);
    m.answered = of_request;
    m.service_timeout = last_timeout;
    return {.send = m};
  case phase::reply_sent:
    return {.send = repeated_};
  case phase::established:
    return datagram_ ? step{.send = repeated_} : step{};
  case phase::disconnect_sent:
  case phase::time_wait:
  case phase::ended:
    if (repeated_.type == message_type::reject || repeated_.type == message_type::datagram_reply)
      return {.send = repeated_};
    if (datagram_)
      return {};
    m = make(message_type::reject);
    m.answered = of_request;
    m.status = static_cast<std::uint16_t>(reject_reason::stale_connection);
    return {.send = m};
  default:
    return {};
  }
}

fsm::step fsm::receive_receipt(const message& m, std::int64_t now) noexcept
{
  // The peer's program takes its time: the repetitions begin again afterwards.
  if ((phase_ == phase::request_sent && m.answered == of_request)
    || (phase_ == phase::reply_sent && m.answered == of_reply))
  {
    retries_ = 0;
    deadline_ = now + time_of(std::clamp(m.service_timeout, first_timeout, last_timeout));
  }
  return {};
}

fsm::step fsm::receive_reply(const message& m) noexcept
{
  if (phase_ == phase::request_sent)
  {
    remote_id_ = m.local_id;
    remote_queue_pair_ = m.queue_pair;
    phase_ = phase::reply_received;
    deadline_ = 0;
    return {.send = {}, .report = report_type::response};
  }
  if (requested_)
    return {};
  if (phase_ == phase::established)
    return {.send = make(message_type::ready)}; // the RTU was lost
  if (phase_ != phase::reply_received)
    return {};
  step s{.send = make(message_type::receipt)};
  s.send->answered = of_reply;
  s.send->service_timeout = last_timeout;
  return s;
}

fsm::step fsm::receive_rejection(const message& m, std::int64_t now) noexcept
{
  switch (phase_)
  {
  case phase::request_sent:
  case phase::reply_received:
  case phase::requested:
  case phase::reply_sent:
    return end(report_type::rejected, m.status);
  case phase::established: // the answer to suspect(), or the peer did not receive the RTU
  case phase::disconnect_sent:
    return lose(now);
  default:
    return {};
  }
}

fsm::step fsm::receive_disconnect(const message& m, std::int64_t now) noexcept
{
  switch (phase_)
  {
  case phase::reply_sent: // the RTU was lost, or overtaken
  case phase::established:
    phase_ = phase::disconnect_received;
    deadline_ = 0;
    transaction_ = m.transaction;
    return {.send = {}, .report = report_type::disconnected};
  case phase::disconnect_sent: // both ends disconnect
  {
    step s = lose(now);
    s.send = answer_without_end(m);
    return s;
  }
  default:
    return {};
  }
}

fsm::step fsm::receive(const message& m, std::int64_t now) noexcept
{
  const bool asks = m.type == message_type::request || m.type == message_type::datagram_request;
  if (asks)
    return requested_ ? answer_request() : step{};
  if (datagram_)
  {
    if (phase_ != phase::request_sent || m.type != message_type::datagram_reply)
      return {};
    if (m.status != static_cast<std::uint16_t>(datagram_status::success))
      return end(report_type::rejected, m.status);
    phase_ = phase::established;
    deadline_ = 0;
    return {.send = {}, .report = report_type::response};
  }
  // Only the answer to the request comes from an end whose ID is new.
  const bool answers = m.type == message_type::reply || m.type == message_type::reject
    || m.type == message_type::receipt;
  const bool is_own = phase_ == phase::request_sent ? answers : m.local_id == remote_id_;
  if (is_own && phase_ == phase::ended && m.type == message_type::reply
    && repeated_.type == message_type::reject)
    return {.send = repeated_}; // the rejection was lost
  if (!is_own || phase_ == phase::time_wait || phase_ == phase::ended)
    return {.send = answer_without_end(m)};
  switch (m.type)
  {
  case message_type::receipt:
    return receive_receipt(m, now);
  case message_type::reply:
    return receive_reply(m);
  case message_type::reject:
    return receive_rejection(m, now);
  case message_type::ready:
    return requested_ ? communication_established() : step{};
  case message_type::disconnect:
    return receive_disconnect(m, now);
  case message_type::disconnected:
    return phase_ == phase::disconnect_sent ? lose(now) : step{};
  default:
    return {};
  }
}

fsm::step fsm::refuse(std::int64_t now) noexcept
{
  switch (phase_)
  {
  case phase::request_sent:
    return end(report_type::rejected,
      datagram_ ? static_cast<std::uint16_t>(datagram_status::no_service)
                : static_cast<std::uint16_t>(reject_reason::invalid_service_id));
  case phase::reply_received:
  case phase::requested:
  case phase::reply_sent:
    return end(report_type::rejected, static_cast<std::uint16_t>(reject_reason::timeout));
  case phase::established:
    return datagram_ ? step{} : lose(now);
  case phase::disconnect_sent:
    return lose(now);
  default:
    return {};
  }
}

fsm::step fsm::expire(std::int64_t now) noexcept
{
  if (deadline_ == 0 || now < deadline_)
    return {};
  deadline_ = 0;
  if (phase_ == phase::time_wait)
    return end(report_type::time_wait_exit);
  if (retries_ == retries_max)
  {
    if (phase_ == phase::disconnect_sent)
      return lose(now);
    if (phase_ == phase::established)
      return {}; // probes: the peer still exists
    step s = destroy();
    if (s.send)
      s.send->status = static_cast<std::uint16_t>(reject_reason::timeout);
    s.report = report_type::unreachable;
    return s;
  }
  ++retries_;
  wait(now);
  return {.send = repeated_};
}

// Sets the first probe of the peer for a suspicion before the connection was established.
void fsm::begin_probes() noexcept
{
  deadline_ = suspected_;
  retries_ = 0;
  repeated_ = make(message_type::receipt);
  repeated_.answered = of_neither;
}

fsm::step fsm::suspect(std::int64_t now) noexcept
{
  if (phase_ == phase::reply_received || phase_ == phase::reply_sent)
    suspected_ = now;
  if (phase_ != phase::established || datagram_ || deadline_ != 0)
    return {};
  retries_ = 0;
  wait(now);
  return {.send = repeated_};
}

} // namespace rdma::software::cm
