//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"
#include "connect/control_frame.hpp"
#include "unit/path_harness.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The client and the server of an upgrade, in one thread on simulated time: the choice of endpoints
// and the agreement on a path, over a stream that delays, splits, ends or goes silent. A seed
// decides about the stream, the hosts' devices, their failures, and the networks of RDMA that are
// cut. The real state machines and frames run; the queue pairs and the HTTP messages are models.

namespace test::path_simulation {
namespace {

using namespace paths;
using namespace std::chrono_literals;
using duration = std::chrono::microseconds;

constexpr duration time_limit = 10s;
constexpr duration confirm_time_max = 2s;

/// One end, its queue pair and its stream.
struct side
{
  path_role role = path_role::client;
  own_side own;
  std::optional<endpoint_choice_fsm> choice;
  std::optional<path_fsm> way;
  std::uint32_t queue_pair = 0; // a new number for each
  std::uint32_t remote = 0;     // with which it is connected
  wire by = wire::unknown;
  unsigned confirmations = 0; // of this queue pair's writes
  bool has_entered = false;

  std::vector<std::uint8_t> arrived;
  frame_reader frames;
  bool ends = false;  // the peer sends no more
  bool reads = false; // an action `receive` waits
  duration next_arrival{};

  std::optional<error_code> stopped; // the time limit is over, or the process was killed
  std::optional<error_code> result;
  bool is_closed = false;
};

class world
{
public:
  explicit world(unsigned seed)
    : random_(seed)
  {
    delay_ = one_in(2) ? 5ms : 400ms;
    failures_ = one_in(3) ? 10 : 0;
    cut_nics_ = one_in(3);
    cut_software_ = one_in(10);
    linked_ = one_in(2);
    for (side& each : sides_)
    {
      each.own.on_nic = !one_in(3);
      each.own.why_no_nic = each.own.on_nic ? "" : "there is none";
      each.own.why_not_move = !each.own.on_nic ? "it already uses the software device"
        : one_in(4)                            ? "it was made so"
                                               : "";
      each.queue_pair = ++last_queue_pair_;
    }
    sides_[1].role = path_role::server;
    is_mixed_ = sides_[0].own.on_nic != sides_[1].own.on_nic;
    can_move_ = std::all_of(sides_.begin(), sides_.end(),
      [](const side& each) { return !each.own.on_nic || each.own.why_not_move.empty(); });
    needs_software_ = is_mixed_ || (sides_[0].own.on_nic && cut_nics_);
  }

  /// Returns true if both sides are connected at the end.
  bool run()
  {
    for (side& each : sides_)
      at(time_limit, [this, &each] { stop(each, error::handshake_timeout); });
    if (one_in(4))
      at(random_delay(one_in(2) ? 4s : 100ms), [this] { make_trouble(); });
    begin();
    for (; !agenda_.empty(); ++steps_)
    {
      REQUIRE(steps_ < 1000);
      const auto next = agenda_.begin();
      now_ = next->first;
      const auto action = std::move(next->second);
      agenda_.erase(next);
      action();
    }
    check_end();
    return is_connected(sides_[0]) && is_connected(sides_[1]);
  }

  [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  duration random_delay(duration most)
  {
    return duration(random_() % static_cast<unsigned>(most.count() + 1));
  }
  side& peer_of(const side& which) { return &which == sides_.data() ? sides_[1] : sides_[0]; }
  void at(duration wait, std::function<void()> action)
  {
    agenda_.emplace(now_ + wait, std::move(action));
  }
  static bool is_connected(const side& one) { return one.result && !*one.result; }

  // --- the request and the answer ---

  void begin()
  {
    side& client = sides_[0];
    client.choice.emplace();
    if (const error_code ec = choose(client))
      return finish(client, ec);
    at(random_delay(delay_), [this] { answer(); });
  }

  void answer()
  {
    side& server = sides_[1];
    if (is_silent_ || server.result)
      return;
    server.choice.emplace(sides_[0].choice->parameters());
    if (const error_code ec = choose(server))
      return finish(server, ec); // a refusal; its text is not in the model
    server.next_arrival = now_ + random_delay(delay_);
    sides_[0].next_arrival = server.next_arrival;
    agenda_.emplace(server.next_arrival,
      [this]
      {
        if (!is_silent_)
          agree(sides_[0], sides_[1].choice->parameters());
      });
    agree(server, sides_[0].choice->parameters());
  }

  error_code choose(side& on)
  {
    path_action next = on.choice->resume(on.own, {});
    while (next.type != path_action_type::done)
    {
      const path_outcome result = perform(on, next);
      next = on.choice->resume(on.own, result);
    }
    return next.error;
  }

  void agree(side& on, const handshake_parameters& of_peer)
  {
    if (on.result)
      return;
    on.way.emplace(
      on.role, on.choice->parameters(), of_peer, on.choice->transport(), declined_transports());
    resume(on, {});
  }

  // --- as path::negotiate() ---

  void resume(side& on, path_outcome result)
  {
    for (;;)
    {
      result.stopped = on.stopped.value_or(error_code());
      const path_action next = on.way->resume(on.own, std::exchange(result, {}));
      switch (next.type)
      {
      case path_action_type::confirm:
        return confirm(on);
      case path_action_type::receive:
        on.reads = true;
        return read(on);
      case path_action_type::done:
        return finish(on, on.stopped.value_or(next.error));
      default:
        result = perform(on, next);
      }
    }
  }

  path_outcome perform(side& on, const path_action& what)
  {
    path_outcome result;
    const bool fails = random_() % 100 < failures_;
    if (fails && what.type != path_action_type::send)
    {
      has_failed_ = true;
      result.ec = boost::asio::error::address_in_use;
      result.text = "no address";
    }
    switch (what.type)
    {
    case path_action_type::describe:
      describe(on, what.wire, result);
      break;
    case path_action_type::move:
      REQUIRE(on.own.on_nic);
      REQUIRE(on.own.why_not_move.empty());
      if (result.ec)
        break;
      on.own = software;
      on.queue_pair = ++last_queue_pair_;
      on.remote = 0;
      on.confirmations = 0;
      break;
    case path_action_type::connect:
      REQUIRE((what.remote.wire == wire::tcp) != on.own.on_nic);
      describe(on, what.remote.wire, result);
      if (result.ec)
        break;
      on.remote = what.remote.queue_pair_number;
      on.by = what.remote.wire;
      result.linked = linked_ && on.by == wire::tcp && !one_in(10);
      break;
    case path_action_type::send:
      transmit(on, encode_frame(what.frame, what.text));
      break;
    case path_action_type::enter:
      check_entry(on);
      on.has_entered = !result.ec;
      break;
    default:
      FAIL("an action that does not end at once");
    }
    return result;
  }

  void describe(side& on, wire by, path_outcome& result)
  {
    REQUIRE((by == wire::tcp) != on.own.on_nic);
    if (by == wire::infiniband && !result.ec)
    {
      result.ec = boost::asio::error::address_in_use;
      result.text = "the port is Ethernet";
    }
    result.endpoint = endpoint(by);
    result.endpoint.queue_pair_number = on.queue_pair;
    result.transport = rdma::name_of(by);
  }

  /// An RDMA write. The peer's queue pair must be connected with this one, before or after it.
  void confirm(side& on)
  {
    const side& to = peer_of(on);
    const bool arrives = to.queue_pair == on.remote && to.remote == on.queue_pair && !to.is_closed
      && !(on.by == wire::tcp ? cut_software_ : cut_nics_);
    at(arrives ? random_delay(delay_) : confirm_time_max,
      [this, &on, arrives]
      {
        if (on.result)
          return;
        path_outcome result;
        on.confirmations += arrives ? 1 : 0;
        result.ec = arrives ? error_code() : error_code(error::path_not_confirmed);
        result.text = arrives ? "" : "no acknowledgement";
        resume(on, result);
      });
  }

  // --- the stream ---

  void transmit(side& from, const std::string& bytes)
  {
    const std::size_t first = random_() % (bytes.size() + 1);
    for (const std::string& part : {bytes.substr(0, first), bytes.substr(first)})
      if (!part.empty())
        carry(from, {part.begin(), part.end()});
  }

  /// Carries bytes or, without any, the end.
  void carry(side& from, std::vector<std::uint8_t> bytes)
  {
    side& to = peer_of(from);
    to.next_arrival = std::max(to.next_arrival, now_) + random_delay(delay_);
    agenda_.emplace(to.next_arrival,
      [this, &to, bytes = std::move(bytes)]
      {
        if (is_silent_)
          return;
        to.ends = to.ends || bytes.empty();
        to.arrived.insert(to.arrived.end(), bytes.begin(), bytes.end());
        read(to);
      });
  }

  void read(side& on)
  {
    if (on.result)
      return;
    if (!on.way && on.ends)
      return finish(on, error::refused);
    if (!on.reads)
      return;
    path_outcome result;
    std::span<const std::uint8_t> input(on.arrived);
    const frame_reader::result outcome = on.frames.read(input);
    on.arrived.erase(on.arrived.begin(), on.arrived.end() - static_cast<long>(input.size()));
    REQUIRE(outcome != frame_reader::result::malformed);
    if (outcome == frame_reader::result::frame)
    {
      result.frame = static_cast<frame_type>(on.frames.type());
      result.text = on.frames.payload();
    }
    else if (on.stopped || on.ends)
      result.ec = on.stopped.value_or(error::peer_lost);
    else
      return;
    on.reads = false;
    resume(on, result);
  }

  // --- troubles ---

  void make_trouble()
  {
    is_disturbed_ = true;
    switch (random_() % 4)
    {
    case 0:
      is_silent_ = true;
      break;
    case 1:
      cut_nics_ = true;
      break;
    case 2:
      cut_nics_ = cut_software_ = true;
      break;
    case 3:
      stop(sides_[random_() % 2], boost::asio::error::operation_aborted);
      break;
    }
  }

  void stop(side& on, const error_code& why)
  {
    if (on.result)
      return;
    on.stopped = why;
    if (on.way && on.reads)
      read(on);
    else if (!on.way)
      finish(on, why);
    else
      resume(on, {}); // a confirmation that is not waited for any more
  }

  void finish(side& on, const error_code& ec)
  {
    REQUIRE_FALSE(on.result);
    on.result = ec;
    REQUIRE(now_ <= time_limit);
    REQUIRE((ec || on.has_entered));
    if (!ec)
      return;
    on.is_closed = true;
    carry(on, {});
  }

  // --- the oracle ---

  /// A queue pair enters when its path is confirmed; the client's after the server's.
  void check_entry(const side& on)
  {
    const side& peer = peer_of(on);
    REQUIRE_FALSE(on.has_entered);
    REQUIRE(peer.queue_pair == on.remote);
    const bool confirms = on.by != wire::tcp || sides_[0].choice->parameters().confirms
      || sides_[1].choice->parameters().confirms || sides_[1].choice->parameters().software_next;
    if (!confirms)
      return;
    REQUIRE(peer.remote == on.queue_pair);
    REQUIRE(on.confirmations == 1);
    REQUIRE(peer.confirmations == 1);
    REQUIRE((on.role == path_role::server || peer.has_entered));
  }

  void check_end()
  {
    const side& client = sides_[0];
    const side& server = sides_[1];
    CAPTURE(client.own.on_nic, server.own.on_nic, can_move_, needs_software_);
    for (const side& each : sides_)
    {
      const side& peer = peer_of(each);
      REQUIRE((each.result || (each.role == path_role::server && !each.choice)));
      // The control channel ends the connection of a side whose peer failed.
      if (is_connected(each) && !is_connected(peer) && !is_silent_)
        REQUIRE(each.ends);
      if (!is_connected(each) || !is_connected(peer))
        continue;
      REQUIRE(each.by == peer.by);
      REQUIRE(each.remote == peer.queue_pair);
      REQUIRE(each.own.on_nic == (each.by != wire::tcp));
    }
    if (is_disturbed_ || has_failed_)
      return;
    const bool by_software = needs_software_ || !client.own.on_nic;
    if (by_software && cut_software_ && linked_)
      return; // without a confirmation, the device reports the end of a link later
    const bool possible = !by_software || (can_move_ && !cut_software_);
    REQUIRE(is_connected(client) == possible);
    REQUIRE(is_connected(server) == possible);
  }

  std::mt19937 random_;
  duration now_{};
  std::multimap<duration, std::function<void()>> agenda_;
  std::array<side, 2> sides_;
  std::uint32_t last_queue_pair_ = 0;
  duration delay_{};
  unsigned failures_ = 0; // percent
  bool cut_nics_ = false;
  bool cut_software_ = false;
  bool linked_ = false;
  bool is_mixed_ = false;
  bool can_move_ = false;
  bool needs_software_ = false;
  bool is_silent_ = false;
  bool is_disturbed_ = false;
  bool has_failed_ = false;
  std::uint64_t steps_ = 0;
};

} // namespace

TEST_CASE("both sides of an upgrade agree on the transport, or fail in their time limits")
{
  const unsigned count = exhaustive() ? 500'000 : 5000;
  std::uint64_t steps = 0;
  unsigned connected = 0;
  const bool all = run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      world w(seed);
      connected += w.run() ? 1 : 0;
      steps += w.steps();
    });
  if (!all)
    return;
  add_figure("steps", steps);
  CHECK(connected > count / 4);
  CHECK(connected < count);
}

} // namespace test::path_simulation
