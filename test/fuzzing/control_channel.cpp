//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "completion/connection_fsm.hpp"
#include "connect/control_channel_fsm.hpp"
#include "connect/control_frame.hpp"
#include "connect/endpoint_choice_fsm.hpp"
#include "connect/handshake_parameters.hpp"
#include "connect/path_fsm.hpp"
#include "fuzzing/common/require.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Fuzzes one side of a connection from the peer's handshake parameters on: the choice of endpoints,
// the path, heartbeats and the end. The input decides about the parameters, the bytes that the peer
// sends and when, the outcomes of actions, and what the program does.

using namespace rdma::detail;
using namespace std::chrono_literals;
using rdma::error;
using rdma::error_code;
using test::require;

namespace {

rdma::endpoint_description endpoint(test::dice& random)
{
  static constexpr rdma::wire wires[] = {
    rdma::wire::infiniband, rdma::wire::roce_v2, rdma::wire::tcp};
  rdma::endpoint_description result;
  result.wire = wires[random() % std::size(wires)];
  result.kind =
    result.wire == rdma::wire::tcp ? rdma::device_kind::software : rdma::device_kind::nic;
  result.path_mtu = 1024;
  result.queue_pair_number = random() & 0xffffff;
  return result;
}

handshake_parameters parameters(test::dice& random)
{
  handshake_parameters result;
  for (std::size_t i = random.any(0, handshake_parameters::endpoints_max); i != 0; --i)
    result.endpoints.push_back(endpoint(random));
  result.falls_back = random.one_in(2);
  result.software_next = random.one_in(4);
  result.confirms = !random.one_in(4);
  result.heartbeat_limit = bounded_heartbeat_limit(std::chrono::milliseconds(random() % 200 * 50));
  if (random.one_in(4))
    result.declined.push_back({"RoCE v2", "no address"});
  return result;
}

own_side some_side(test::dice& random)
{
  own_side own;
  own.on_nic = random.one_in(2);
  if (random.one_in(4))
    own.why_not_move = "it was made so";
  return own;
}

class side
{
public:
  explicit side(test::dice& random)
    : random_(random)
    , own_(some_side(random))
  {
    perform(control_.start(now_, 10s));
  }

  void run()
  {
    if (!handshake())
      perform(control_.stop(now_, error::path_not_confirmed));
    else
      live();
    // Time alone ends everything.
    perform(control_.stop(now_, boost::asio::error::operation_aborted));
    for (unsigned i = 0; control_.state() != phase::closed; ++i)
    {
      require(timer_.has_value(), "what has not ended waits for a time");
      require(i < 10'000, "a side ends in bounded time");
      expire(false);
    }
    require(closed_, "a side that has ended has closed its stream");
    require(control_.reason().failed(), "an end has a reason");
  }

private:
  using fsm = control_channel_fsm;
  using phase = fsm::phase;

  // --- handshake ---

  bool handshake()
  {
    const bool is_client = random_.one_in(2);
    const handshake_parameters peer = parameters(random_);
    if (is_client)
    {
      // See judge_answer() and connect.cpp: other answers are refused.
      if (peer.endpoints.size() != (peer.software_next ? 0 : 1))
        return false;
      return path(path_role::client, parameters(random_), peer, {}, {});
    }
    if (peer.endpoints.empty())
      return false; // see judge_request()
    endpoint_choice_fsm choice(peer);
    path_outcome outcome;
    for (unsigned i = 0;; ++i)
    {
      require(i < 100, "a choice ends");
      const path_action next = choice.resume(own_, outcome);
      if (next.type == path_action_type::done)
      {
        if (next.error)
          return false;
        break;
      }
      outcome = carry_out(next, peer.endpoints);
    }
    handshake_parameters chosen = choice.parameters();
    chosen.confirms = peer.confirms || random_.one_in(2);
    return path(path_role::server, chosen, peer, choice.transport(), choice.declined());
  }

  // Returns true if the path is usable.
  bool path(path_role role, const handshake_parameters& chosen, const handshake_parameters& peer,
    const std::string& transport, const declined_transports& declined)
  {
    const bool confirms =
      chosen.confirms || peer.confirms || chosen.software_next || peer.software_next;
    path_fsm machine(role, chosen, peer, transport, declined);
    bool connected = role == path_role::server && !chosen.software_next && !peer.software_next;
    std::vector<rdma::endpoint_description> offered = peer.endpoints;
    bool written = false;   // by RDMA, since it is connected
    bool confirmed = false; // by the peer, likewise
    bool linked = false;
    bool entered = false;
    path_outcome outcome;
    for (unsigned i = 0;; ++i)
    {
      require(i < 10'000, "a path is confirmed or refused");
      if (random_.one_in(60))
        outcome.stopped = boost::asio::error::operation_aborted;
      const path_action next = machine.resume(own_, outcome);
      if (next.type == path_action_type::done)
      {
        require(next.error || entered, "only a path that was entered is usable");
        require(machine.resume(own_, outcome).type == path_action_type::done, "an end is final");
        return !next.error;
      }
      require(!outcome.stopped, "a path that is stopped ends");
      if (next.type == path_action_type::receive)
      {
        outcome = receive();
        error_code malformed;
        if (outcome.frame == frame_type::endpoint)
          offered = {rdma::endpoint_description::parse(outcome.text, malformed)};
        confirmed = confirmed || outcome.frame == frame_type::confirmed;
        continue;
      }
      if (next.type == path_action_type::confirm)
        require(connected, "only a queue pair that is connected writes");
      if (next.type == path_action_type::enter)
      {
        require(connected, "only a queue pair that is connected is entered");
        require(!std::exchange(entered, true), "a path is entered once");
        require(confirms ? written && confirmed : role == path_role::server || written || linked,
          "a path that is entered was confirmed");
      }
      outcome = carry_out(next, offered);
      if (next.type == path_action_type::connect)
      {
        connected = !outcome.ec;
        linked = outcome.linked;
        written = confirmed = false;
      }
      if (next.type == path_action_type::confirm)
        written = !outcome.ec;
    }
  }

  path_outcome carry_out(
    const path_action& what, const std::vector<rdma::endpoint_description>& offered)
  {
    path_outcome outcome;
    if (random_.one_in(6))
    {
      outcome.ec = boost::asio::error::address_in_use;
      outcome.text = "no address";
    }
    switch (what.type)
    {
    case path_action_type::move:
      require(own_.on_nic && own_.why_not_move.empty(), "only what can move is moved");
      if (!outcome.ec)
        own_.on_nic = false;
      break;
    case path_action_type::connect:
      require(std::ranges::find(offered, what.remote) != offered.end(),
        "only endpoints that the peer has sent are used");
      outcome.linked = random_.one_in(2);
      [[fallthrough]];
    case path_action_type::describe:
      outcome.endpoint = endpoint(random_);
      outcome.transport = "RoCE v2";
      break;
    case path_action_type::send:
      require(what.text.size() <= frame_payload_max, "frames are bounded");
      control_.on_sent(now_);
      if (random_.one_in(2))
        perform(control_.on_written());
      outcome.ec = {};
      break;
    case path_action_type::enter:
    case path_action_type::confirm:
    case path_action_type::receive:
    case path_action_type::done:
      break;
    }
    return outcome;
  }

  // The next frame of the peer, or an error: the end, or the time limit.
  path_outcome receive()
  {
    path_outcome outcome;
    for (;;)
    {
      if (const auto type = next_frame())
      {
        outcome.frame = *type;
        outcome.text = frames_.payload();
        return outcome;
      }
      if (malformed_ || ended_ || random_.is_over())
      {
        outcome.ec = error::peer_lost;
        return outcome;
      }
      arrive();
    }
  }

  // --- the stream ---

  void arrive()
  {
    static constexpr frame_type types[] = {frame_type::heartbeat, frame_type::confirmed,
      frame_type::confirmed, frame_type::unconfirmed, frame_type::endpoint, frame_type::endpoint,
      frame_type::bye, frame_type::finished, frame_type::agent_channel, frame_type::channel_over};
    if (random_.one_in(50))
    {
      ended_ = true;
      return;
    }
    std::string bytes;
    if (random_.one_in(20))
      for (std::size_t i = random_.any(1, 20); i != 0; --i)
        bytes += static_cast<char>(random_.byte());
    else
    {
      const auto type = types[random_() % std::size(types)];
      std::string payload;
      if (type == frame_type::endpoint)
        payload = endpoint(random_).text();
      else if (random_.one_in(3))
        payload.assign(
          random_.one_in(4) ? random_() % (frame_payload_max + 1) : random_() % 40, 'x');
      bytes = encode_frame(type, payload);
      if (random_.one_in(10))
        bytes[random_() % bytes.size()] = static_cast<char>(random_.byte());
    }
    if (random_.one_in(8))
      bytes.resize(random_() % bytes.size()); // the rest never arrives: other bytes follow
    for (const char c : bytes)
      bytes_.push_back(static_cast<std::uint8_t>(c));
    has_news_ = true;
  }

  std::optional<frame_type> next_frame()
  {
    std::span<const std::uint8_t> input(bytes_);
    const frame_reader::result result = frames_.read(input);
    bytes_.erase(bytes_.begin(), bytes_.end() - static_cast<std::ptrdiff_t>(input.size()));
    malformed_ = result == frame_reader::result::malformed;
    require(frames_.payload().size() <= frame_payload_kept_max, "payloads are bounded");
    return result == frame_reader::result::frame
      ? std::optional(static_cast<frame_type>(frames_.type()))
      : std::nullopt;
  }

  // --- the connection, as connection.cpp ---

  void live()
  {
    connection_.apply(connection_event::established);
    connection_.apply(connection_event::connected);
    heartbeat_times times;
    times.limit = bounded_heartbeat_limit(std::chrono::milliseconds(random_() % 20 * 100));
    times.interval = std::chrono::milliseconds(random_() % 10 * 50);
    perform(control_.establish(now_, times, sends_));
    while (!random_.is_over() && control_.state() != phase::closed)
      step();
  }

  void step()
  {
    switch (random_() % 12)
    {
    case 0:
    case 1:
    case 2:
      arrive();
      return read();
    case 3:
    case 4:
      return expire(random_.one_in(4));
    case 5:
      now_ += std::chrono::milliseconds(random_() % 240 * 10);
      return;
    case 6:
      if (!std::exchange(sends_.outstanding, !sends_.outstanding))
        return;
      ++sends_.completed;
      return;
    case 7:
      return perform(control_.on_written());
    case 8:
      if (std::exchange(probes_, false))
        perform(random_.one_in(4) ? control_.on_probe_impossible()
                                  : control_.on_probe_answered(now_, sends_));
      return;
    case 9:
      if (random_.one_in(8))
        perform(control_.finish(now_));
      return;
    case 10:
      if (random_.one_in(20))
        perform(control_.stop(now_, boost::asio::error::operation_aborted));
      else if (random_.one_in(20))
        control_.on_write_failed();
      else if (random_.one_in(20))
        perform(control_.on_no_memory());
      return;
    default:
      if (!sends_.outstanding && random_.one_in(4))
        apply(connection_event::drained);
    }
  }

  void read()
  {
    if (std::exchange(has_news_, false))
      control_.on_bytes(now_);
    while (control_.state() != phase::closing && control_.state() != phase::closed)
    {
      const auto type = next_frame();
      if (malformed_)
        return perform(control_.on_stream_end(error::peer_lost));
      if (!type)
        break;
      has_finished_ = has_finished_ || *type == frame_type::finished;
      perform(control_.on_frame(now_, *type, sends_));
    }
    if (ended_)
      perform(control_.on_stream_end(error::peer_lost));
  }

  void expire(bool early)
  {
    if (!timer_)
      return;
    if (!early)
      now_ = std::max(now_, *std::exchange(timer_, std::nullopt));
    perform(control_.on_timer(now_, sends_));
  }

  void perform(const fsm::actions& list)
  {
    using type = fsm::action_type;
    for (const fsm::action& each : list)
    {
      require(!closed_, "a side that is closed does nothing");
      switch (each.type)
      {
      case type::send:
        require(each.frame == frame_type::bye || each.frame == frame_type::heartbeat
            || each.frame == frame_type::finished,
          "only these frames are sent");
        require(!said_bye_, "nothing is sent behind the end");
        said_bye_ = each.frame == frame_type::bye;
        break;
      case type::arm:
        timer_ = each.time;
        break;
      case type::disarm:
        timer_.reset();
        break;
      case type::probe:
        require(control_.times().limit != 0ms, "only a limit loses a peer");
        probes_ = true;
        break;
      case type::check_missing_receive:
        if (random_.one_in(2))
          control_.missing_receive_logged();
        break;
      case type::report_agent_frame:
        break;
      case type::report_peer_finished:
        require(has_finished_ && !std::exchange(reported_finished_, true),
          "the peer's end is reported once, and only if it has sent it");
        apply(connection_event::peer_finished);
        break;
      case type::report_orderly_end:
        require(reported_finished_, "an orderly end needs that of the peer");
        report();
        apply(connection_event::ended);
        break;
      case type::report_dead_peer:
        require(control_.times().limit != 0ms, "only a limit loses a peer");
        [[fallthrough]];
      case type::report_end:
        report();
        apply(connection_event::disconnected, each.error);
        break;
      case type::shut_down_send:
        break;
      case type::close:
        closed_ = true;
        timer_.reset();
        break;
      }
    }
  }

  void report() { require(!std::exchange(reported_, true), "the end is reported once"); }

  void apply(connection_event what, const error_code& reason = {})
  {
    const connection_actions actions = connection_.apply(what, reason);
    if ((actions & connection_action::report_end) != 0)
      require(!std::exchange(ended_here_, true), "a connection ends once");
  }

  test::dice& random_;
  own_side own_;
  fsm control_;
  connection_fsm connection_;
  fsm::time_point now_{24h};
  std::optional<fsm::time_point> timer_;
  send_progress sends_;
  frame_reader frames_;
  std::vector<std::uint8_t> bytes_; // that have arrived
  bool has_news_ = false;
  bool malformed_ = false;
  bool ended_ = false;
  bool probes_ = false;
  bool said_bye_ = false;
  bool closed_ = false;
  bool has_finished_ = false;
  bool reported_finished_ = false;
  bool reported_ = false;
  bool ended_here_ = false;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  side(random).run();
  return 0;
}
