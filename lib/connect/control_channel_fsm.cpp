//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/control_channel_fsm.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <utility>

namespace rdma::detail {
namespace {

// How long, and at which interval, the end waits for acknowledgements that are in transit.
constexpr std::chrono::milliseconds drain_time_max{250};
constexpr std::chrono::milliseconds drain_step{2};

// Time for the peer to read the last frame: closing a socket that has unread data sends a reset,
// which may overtake the frame.
constexpr std::chrono::seconds closing_time_max{1};

// How long a send waits for a receive of the peer before a line in the log.
constexpr std::chrono::seconds missing_receive_time{1};

} // namespace

void control_channel_fsm::send(actions& to, time_point now, frame_type type)
{
  to.push_back({.type = action_type::send, .frame = type});
  on_sent(now);
}

void control_channel_fsm::arm(actions& to, time_point time)
{
  due_ = time;
  to.push_back({.type = action_type::arm, .time = time});
}

auto control_channel_fsm::close(const error_code& why) -> actions
{
  phase_ = phase::closed;
  if (!reason_)
    reason_ = why;
  return {{.type = action_type::close}};
}

auto control_channel_fsm::end(action_type report, const error_code& why) -> actions
{
  close(why);
  return {{.type = report, .error = why}, {.type = action_type::close}};
}

auto control_channel_fsm::start(time_point now, std::chrono::steady_clock::duration time_limit)
  -> actions
{
  actions result;
  if (phase_ == phase::handshake)
    arm(result, now + time_limit);
  return result;
}

auto control_channel_fsm::establish(
  time_point now, const heartbeat_times& times, const send_progress& sends) -> actions
{
  if (phase_ != phase::handshake)
    return {};
  phase_ = phase::established;
  times_ = times;
  received_ = sent_ = due_ = now;
  return check_heartbeats(now, sends);
}

// Sends a heartbeat and checks that the peer sends its own.
auto control_channel_fsm::check_heartbeats(time_point now, const send_progress& sends) -> actions
{
  const bool limited = times_.limit != std::chrono::milliseconds::zero();
  const bool periodic = times_.interval != std::chrono::milliseconds::zero();
  if (!limited && !periodic)
    return {{.type = action_type::disarm}};
  if (limited && now - due_ > times_.limit / 2)
    received_ = now; // this process was stopped: what the peer sent meanwhile has not been read yet
  if (limited && now - received_ >= times_.limit)
  {
    // Users that read the stream themselves may be busy: the peer's frames then wait for them.
    if (!probed_)
    {
      probing_ = true;
      return {{.type = action_type::probe}};
    }
    return on_probe_impossible();
  }
  actions result;
  if (periodic && now - sent_ >= times_.interval)
  {
    if (!unwritten_ && !write_failed_)
      send(result, now, frame_type::heartbeat);
    sent_ = now; // a frame that is still to be written serves as a heartbeat
  }
  if (watch_sends(now, sends))
    result.push_back({.type = action_type::check_missing_receive});
  time_point next = time_point::max();
  if (sends_.outstanding && !sends_.logged)
    next = now + missing_receive_time;
  if (limited)
    next = std::min(next, received_ + times_.limit);
  if (periodic)
    next = std::min(next, sent_ + times_.interval);
  arm(result, next);
  return result;
}

// Returns true if no send has completed for missing_receive_time. With the default rnr_retry_count
// a send without a receive at the peer waits without limit and without an error.
bool control_channel_fsm::watch_sends(time_point now, const send_progress& sends)
{
  if (sends_.outstanding && sends.outstanding && sends.completed == sends_.completed)
    return !sends_.logged && now - sends_.since >= missing_receive_time;
  sends_ = {sends.outstanding, false, sends.completed, now};
  return false;
}

auto control_channel_fsm::stop(time_point now, const error_code& why) -> actions
{
  if (phase_ == phase::handshake || phase_ == phase::draining)
    return close(why); // nobody waits for a frame
  actions result;
  if (phase_ == phase::established)
  {
    send(result, now, frame_type::bye);
    start_closing(result, now, why);
  }
  return result;
}

void control_channel_fsm::start_closing(actions& to, time_point now, const error_code& why)
{
  phase_ = phase::closing;
  reason_ = why;
  if (!unwritten_)
    to.push_back({.type = action_type::shut_down_send});
  arm(to, now + closing_time_max);
}

auto control_channel_fsm::finish(time_point now) -> actions
{
  actions result;
  if (phase_ != phase::established || std::exchange(finished_, true))
    return result;
  send(result, now, frame_type::finished);
  if (peer_finished_)
    end_orderly(result, now);
  return result;
}

void control_channel_fsm::end_orderly(actions& to, time_point now)
{
  to.push_back({.type = action_type::report_orderly_end});
  start_closing(to, now, error::peer_closed);
}

auto control_channel_fsm::on_written() -> actions
{
  unwritten_ = false;
  return phase_ == phase::closing ? actions{{.type = action_type::shut_down_send}} : actions();
}

auto control_channel_fsm::on_frame(time_point now, frame_type type, const send_progress& sends)
  -> actions
{
  if (phase_ != phase::established)
    return {};
  actions result;
  switch (type)
  {
  case frame_type::bye:
    phase_ = phase::draining;
    drain_end_ = now + drain_time_max;
    return drain(now, sends);
  case frame_type::finished:
    if (std::exchange(peer_finished_, true))
      break;
    result.push_back({.type = action_type::report_peer_finished});
    if (finished_)
      end_orderly(result, now);
    break;
  case frame_type::agent_channel:
  case frame_type::channel_over:
    result.push_back({.type = action_type::report_agent_frame});
    break;
  default:
    break;
  }
  return result;
}

// The peer's `bye` overtakes acknowledgements of sends that the peer has received: these sends
// still succeed.
auto control_channel_fsm::drain(time_point now, const send_progress& sends) -> actions
{
  if (!sends.outstanding || now >= drain_end_)
    return end(action_type::report_end, error::peer_closed);
  actions result;
  arm(result, now + drain_step);
  return result;
}

auto control_channel_fsm::on_stream_end(const error_code& ec) -> actions
{
  if (phase_ == phase::established)
    return end(action_type::report_end, ec);
  if (phase_ == phase::closing)
    return close(ec);
  return {}; // a handshake reports it and calls stop()
}

auto control_channel_fsm::on_no_memory() -> actions
{
  switch (phase_)
  {
  case phase::established:
    return end(action_type::report_end, boost::asio::error::no_memory);
  case phase::draining:
    return end(action_type::report_end, error::peer_closed);
  case phase::handshake:
  case phase::closing:
    return close(boost::asio::error::no_memory);
  case phase::closed:
    break;
  }
  return {};
}

auto control_channel_fsm::on_timer(time_point now, const send_progress& sends) -> actions
{
  if (now < due_)
    return {}; // the timer expired before it was set to another time
  switch (phase_)
  {
  case phase::handshake:
    return close(error::handshake_timeout);
  case phase::established:
    return check_heartbeats(now, sends);
  case phase::draining:
    return drain(now, sends);
  case phase::closing:
    return close(reason_);
  case phase::closed:
    break;
  }
  return {};
}

auto control_channel_fsm::on_unread_bytes(time_point now, const send_progress& sends) -> actions
{
  if (phase_ != phase::established)
    return {};
  on_bytes(now);
  return check_heartbeats(now, sends);
}

auto control_channel_fsm::on_probe_answered(time_point now, const send_progress& sends) -> actions
{
  if (phase_ != phase::established)
    return {};
  probed_ = probed_ || std::exchange(probing_, false); // unless bytes have arrived since
  received_ = std::max(received_, now - times_.limit * 3 / 4);
  return check_heartbeats(now, sends);
}

auto control_channel_fsm::on_probe_impossible() -> actions
{
  return phase_ == phase::established ? end(action_type::report_dead_peer, error::peer_lost)
                                      : actions();
}

} // namespace rdma::detail
