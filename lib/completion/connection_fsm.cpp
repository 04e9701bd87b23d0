//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/connection_fsm.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rdma::detail {
namespace connection_table { // with its own names, because several files form one unit
namespace {

using enum connection_state;
using event = connection_event;
using namespace connection_action;
using states = std::uint16_t; // a set of states, one bit each

template <class... States>
constexpr states any_of(States... which)
{
  return static_cast<states>(((1u << static_cast<unsigned>(which)) | ...));
}

constexpr states before_connection = any_of(open, open_failed);
constexpr states confirming = any_of(unconfirmed, unconfirmed_failed);
constexpr states in_use = any_of(connected, draining, finished, failed);
constexpr states alive = before_connection | confirming | in_use;
constexpr states over = any_of(broken, closed);
constexpr states error_states = over | any_of(open_failed, unconfirmed_failed, failed);

// An event's transition from a set of states. Without `to` the state stays.
struct transition
{
  event what;
  states from;
  std::optional<connection_state> to;
  connection_actions actions = 0;
};

constexpr connection_actions end_all = report_end | end_waiting | move_to_error | start_flush_timer;
constexpr std::nullopt_t same = std::nullopt;

constexpr transition transitions[] = {
  {event::settled, alive, same, release_receives},
  {event::established, any_of(open), unconfirmed},
  {event::connected, any_of(open, unconfirmed), connected, release_receives},
  // The first completion of an iWARP device may precede the connection manager's event.
  {event::connected, any_of(open_failed), failed, release_receives},
  {event::moved, before_connection | confirming, open},

  {event::shut_down, any_of(connected, draining), draining},
  {event::shut_down, any_of(finished), same},
  {event::peer_finished, any_of(connected, draining), draining},
  {event::peer_finished, any_of(finished), same},
  {event::peer_finished, any_of(failed), same, close_channel},
  {event::drained, any_of(draining), finished, notify_peer},
  {event::ended, in_use, broken, end_all},

  {event::failed, before_connection, open_failed, report_end | start_flush_timer},
  // The connection may continue on another device: nothing is reported, and no timer runs.
  {event::failed, confirming, unconfirmed_failed},
  {event::failed, in_use, failed, report_end | start_flush_timer},
  {event::failed, over, same, start_flush_timer},
  {event::device_failed, before_connection, open_failed, move_to_error | start_flush_timer},
  {event::device_failed, confirming, unconfirmed_failed, move_to_error},
  {event::device_failed, in_use, failed, report_end | move_to_error | start_flush_timer},
  {event::device_failed, over, same, start_flush_timer},
  {event::terminated, before_connection, open_failed, move_to_error | start_flush_timer},
  {event::terminated, confirming, unconfirmed_failed, move_to_error},
  {event::terminated, in_use, failed, move_to_error | start_flush_timer},
  {event::terminated, over, same, start_flush_timer},

  {event::disconnected, alive, broken, end_all},
  {event::closed, alive | any_of(broken), closed, end_all},
  {event::lost, alive, broken, report_end | destroy},
  {event::lost, over, same, report_end | destroy},
  {event::timed_out, alive, broken, report_end | destroy},
  {event::timed_out, over, same, report_end | destroy},
  {event::forked, alive | over, same, report_end},
  {event::abandoned, alive | over, abandoned},
};

} // namespace
} // namespace connection_table

connection_actions connection_fsm::apply(connection_event event, const error_code& reason) noexcept
{
  using namespace connection_table;
  const auto row = std::find_if(std::begin(transitions), std::end(transitions),
    [&](const transition& each)
    { return each.what == event && (each.from & any_of(state_)) != 0; });
  if (row == std::end(transitions))
    return 0;
  unsigned actions = row->actions;
  if ((any_of(state_) & error_states) != 0)
    actions &= ~unsigned{move_to_error};
  if ((actions & release_receives) != 0 && std::exchange(device_final_, true))
    actions &= ~unsigned{release_receives};
  note_data(event, reason);
  state_ = row->to.value_or(state_);
  if (end_)
    actions &= ~unsigned{report_end};
  else if ((actions & report_end) != 0)
    note_end(event, reason_ ? reason_ : reason);
  return static_cast<connection_actions>(actions);
}

// Before the state changes.
void connection_fsm::note_data(connection_event event, const error_code& reason) noexcept
{
  namespace asio = boost::asio;
  switch (event)
  {
  case connection_event::established:
  case connection_event::connected:
    was_connected_ = true;
    break;
  case connection_event::moved:
    was_connected_ = device_failed_ = false;
    break;
  case connection_event::shut_down:
    shut_down_here_ = true;
    if (!send_refusal_)
      send_refusal_ = asio::error::shut_down;
    break;
  case connection_event::peer_finished:
    if (!send_refusal_ && is_connected())
      send_refusal_ = error::peer_closed;
    break;
  case connection_event::device_failed:
    device_failed_ = true;
    break;
  case connection_event::ended:
    reason_ =
      shut_down_here_ ? error_code(asio::error::operation_aborted) : error_code(error::peer_closed);
    break;
  case connection_event::closed:
    reason_ = asio::error::operation_aborted;
    break;
  case connection_event::timed_out:
    if (is_alive())
      reason_ =
        device_failed_ ? error_code(error::queue_pair_failed) : make_error_code(wc_status::flushed);
    break;
  case connection_event::disconnected:
  case connection_event::lost:
    if (is_alive())
      reason_ = reason;
    break;
  default:
    break;
  }
}

void connection_fsm::note_end(connection_event event, const error_code& reason) noexcept
{
  const bool orderly = event == connection_event::ended;
  const error_code cause =
    event == connection_event::device_failed ? error_code(error::queue_pair_failed) : reason;
  end_ = end_result{
    cause, orderly && shut_down_here_ ? error_code() : cause, orderly ? error_code() : cause};
}

error_code connection_fsm::submit_error(bool receive) const noexcept
{
  if (!is_alive())
    return is_open() ? reason_ : error_code(error::closed);
  if (receive)
    return {};
  return carries() ? send_refusal_ : error_code(error::not_connected);
}

error_code connection_fsm::connect_error() const noexcept
{
  if (is_initial())
    return {};
  return is_alive() ? error::already_connected : error::closed;
}

error_code connection_fsm::use_error() const noexcept
{
  if (!is_alive())
    return is_open() ? reason_ : error_code(error::closed);
  if (!carries())
    return error::not_connected;
  if (is_connected())
    return {};
  return device_failed_ ? error_code(error::queue_pair_failed) : flush_reason();
}

error_code connection_fsm::confirmation_error() const noexcept
{
  if (state_ == connection_state::unconfirmed)
    return {};
  if (is_alive())
    return error::path_not_confirmed;
  return reason_ ? reason_ : error_code(error::closed);
}

} // namespace rdma::detail
