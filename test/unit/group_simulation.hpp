//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_GROUP_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_GROUP_SIMULATION_HPP

#include "common/catch.hpp"
#include "rpc/group_call.hpp"
#include "rpc/group_content.hpp"
#include "rpc/group_history.hpp"
#include "rpc/group_message.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

// A group whose members die and stop, and whose messages are lost, late or repeated.

namespace test::group_simulation {

using namespace rdma::detail::rpc;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using time_point = group_call::time_point;
using duration = group_call::duration;

struct conditions
{
  std::uint32_t members = 1;
  std::uint32_t fan_out = 2;
  duration timeout = 10s;
  duration delay_max = 20ms;    // of a message
  duration handler_max = 100ms; // of a handler
  unsigned lost = 0;            // messages of a thousand
  unsigned repeated = 0;        // calls of a thousand
  std::set<std::uint32_t> dead; // places, from the beginning on
  std::set<std::uint32_t> stopped;
  unsigned fails = 0;        // members of a thousand that die or stop at any time
  std::uint64_t content = 0; // bytes of a bulk call; 0: none
};

// One call of place 0, with the messages that members would send.
class simulation
{
public:
  simulation(const conditions& c, unsigned seed)
    : conditions_(c)
    , random_(seed)
    , members_(c.members)
  {
    for (std::uint32_t i = 0; i != c.members; ++i)
    {
      members_[i].is_dead = c.dead.contains(i);
      members_[i].is_stopped = c.stopped.contains(i);
      if (i == 0 || !happens(c.fails))
        continue;
      const bool dies = happens(500);
      at(now_ + any(c.timeout),
        [this, i, dies] { (dies ? members_[i].is_dead : members_[i].is_stopped) = true; });
    }
    patience_ = c.timeout / (4 * (height_of(c.members, c.fan_out) + 1));
    root_ = std::make_shared<record>(
      group_call({{0, c.members}, c.fan_out, now_ + c.timeout, patience_}, now_));
    if (c.content != 0)
      root_->content.emplace(c.content, true);
    start_handler(0, root_);
    advance(0, root_);
    while (!result && !events_.empty())
    {
      auto next = events_.extract(events_.begin());
      now_ = next.key();
      next.mapped()();
    }
    if (result)
      ended = now_;
    // Late messages start nothing a second time.
    while (!events_.empty())
    {
      auto next = events_.extract(events_.begin());
      now_ = next.key();
      next.mapped()();
    }
  }

  std::optional<group_call::outcome> result;
  time_point ended;

  [[nodiscard]] int most_starts() const
  {
    int most = 0;
    for (const auto& each : members_)
      most = std::max(most, each.starts);
    return most;
  }

private:
  using caller = std::function<void(const std::vector<std::byte>&, const rdma::error_code&)>;

  struct record
  {
    explicit record(group_call of)
      : state(std::move(of))
    {
    }
    group_call state;
    std::optional<group_content> content;
    std::map<std::uint32_t, std::uint64_t> feeds; // by place: number of the part, or 0
    std::map<std::uint64_t, caller> callers;
    std::uint64_t next_caller = 0;
    std::optional<std::vector<std::byte>> answer;
    bool finished = false;
    time_point alarm = time_point::max();
  };
  using record_ptr = std::shared_ptr<record>;

  struct member
  {
    bool is_dead = false;
    bool is_stopped = false;
    int starts = 0;
    group_history<record> history;

    [[nodiscard]] bool works() const { return !is_dead && !is_stopped; }
  };

  void at(time_point time, std::function<void()> what)
  {
    events_.emplace(std::max(time, now_), std::move(what));
  }
  duration any(duration most)
  {
    return duration(std::uniform_int_distribution<duration::rep>(1, most.count())(random_));
  }
  // Requests arrive in the order in which they leave.
  time_point next_arrival(std::uint32_t from, std::uint32_t to)
  {
    time_point& last = arrivals_[{from, to}];
    return last = std::max(last, now_ + any(conditions_.delay_max));
  }
  bool happens(unsigned in_thousand) { return random_() % 1000 < in_thousand; }

  void start_handler(std::uint32_t place, const record_ptr& of)
  {
    ++members_[place].starts;
    at(now_ + any(conditions_.handler_max),
      [this, place, of]
      {
        if (!members_[place].works())
          return;
        of->state.take_own({static_cast<std::byte>(place)});
        advance(place, of);
      });
  }

  void advance(std::uint32_t place, const record_ptr& of)
  {
    for (const auto& each : of->state.take_tasks())
      send(place, of, each);
    if (of->content && !of->finished)
      feed(place, of);
    if (of->state.done() && !of->finished)
    {
      of->finished = true;
      of->feeds.clear();
      auto outcome = of->state.take_outcome();
      if (place == 0)
      {
        result = std::move(outcome);
        return;
      }
      group_part part{outcome.answered, std::move(outcome.missing), {}};
      for (const auto& each : outcome.values)
        part.value.insert(part.value.end(), each.begin(), each.end());
      append_part(of->answer.emplace(), part);
    }
    for (const std::uint64_t number : of->state.take_callers(now_))
    {
      std::vector<std::byte> pending;
      append_pending(pending);
      of->callers.extract(number).mapped()(of->answer ? *of->answer : pending, {});
    }
    if (const auto next = of->state.alarm(); next != time_point::max() && next != of->alarm)
    {
      of->alarm = next;
      at(next,
        [this, place, of]
        {
          of->alarm = time_point::max();
          if (!members_[place].works())
            return;
          of->state.on_time(now_);
          advance(place, of);
        });
    }
  }

  void send(std::uint32_t from, const record_ptr& of, const group_call::task& what)
  {
    group_request r;
    r.kind = what.again          ? group_request_kind::inquiry
      : conditions_.content == 0 ? group_request_kind::call
                                 : group_request_kind::bulk;
    r.bytes = conditions_.content;
    r.left = std::max(std::chrono::ceil<std::chrono::microseconds>(what.ends - now_), 1us);
    const std::vector<std::byte> bytes = encoded(std::move(r), what.to);
    if (of->content && !what.again)
    {
      of->content->add_child(what.to.first);
      of->feeds[what.to.first] = 0;
    }
    // A call that is repeated has one answer all the same.
    const auto answered = std::make_shared<bool>(false);
    const int copies = happens(conditions_.repeated) ? 2 : 1;
    for (int i = 0; i != copies; ++i)
      if (!happens(conditions_.lost))
        at(next_arrival(from, what.to.first),
          [this, from, of, what, bytes, answered]
          {
            arrive(what.to.first, bytes,
              [this, from, of, what, answered](
                const std::vector<std::byte>& content, const rdma::error_code& ec)
              {
                if (!std::exchange(*answered, true))
                  answer(from, of, what, content, ec);
              });
          });
  }

  [[nodiscard]] std::vector<std::byte> encoded(group_request r, group_range range) const
  {
    r.members = conditions_.members;
    r.range = range;
    r.fan_out = conditions_.fan_out;
    r.incarnation = r.sequence = r.oldest = 1;
    r.patience = std::chrono::ceil<std::chrono::microseconds>(patience_);
    std::vector<std::byte> bytes;
    append_group_request(bytes, r);
    return bytes;
  }

  // --- parts of the content ---

  struct exposed_part
  {
    std::uint32_t from;
    record_ptr of;
    group_content::part what;
    std::uint64_t number;
  };

  void feed(std::uint32_t place, const record_ptr& of);
  [[nodiscard]] static bool is_exposed(const exposed_part& part);
  void end_part(const exposed_part& part, std::optional<std::uint64_t> here, rdma::error_code ec);
  void answer_part(
    const exposed_part& part, std::optional<std::uint64_t> here, const rdma::error_code& ec);
  void arrive_part(const exposed_part& part);
  void end_pull(
    const exposed_part& part, const record_ptr& to, std::uint64_t number, bool succeeds);

  void arrive(std::uint32_t place, const std::vector<std::byte>& bytes, caller from)
  {
    member& to = members_[place];
    if (to.is_stopped)
      return;
    if (to.is_dead)
      return from({}, rdma::error::peer_lost);
    const auto r = decode_group_request(bytes);
    REQUIRE(r);
    std::vector<record_ptr> removed;
    auto found = to.history.find(*r, removed);
    using verdict = group_history<record>::verdict;
    REQUIRE(found.is != verdict::ended);
    if (found.is == verdict::fresh)
    {
      if (r->kind == group_request_kind::inquiry)
        return from({}, rdma::error::malformed_message);
      found.record = std::make_shared<record>(
        group_call({r->range, r->fan_out, now_ + r->left, r->patience}, now_));
      to.history.add(*r, found.record);
      if (r->kind == group_request_kind::bulk)
        found.record->content.emplace(r->bytes, false);
      else
        start_handler(place, found.record);
    }
    const std::uint64_t number = found.record->next_caller++;
    found.record->callers.emplace(number, std::move(from));
    found.record->state.add_caller(number, now_);
    advance(place, found.record);
  }

  void answer(std::uint32_t to, const record_ptr& of, const group_call::task& what,
    const std::vector<std::byte>& content, const rdma::error_code& ec)
  {
    if (happens(conditions_.lost))
      return;
    at(now_ + any(conditions_.delay_max),
      [this, to, of, what, content, ec]
      {
        if (!members_[to].works())
          return;
        const std::uint32_t place = what.to.first;
        if (ec)
          of->state.take_failure(place, ec, now_);
        else
        {
          auto decoded = decode_group_answer(content, what.to);
          REQUIRE(decoded);
          if (decoded->is_pending)
            of->state.take_pending(place, now_);
          else
            of->state.take_part(place, std::move(decoded->part));
        }
        advance(to, of);
      });
  }

  const conditions conditions_;
  std::mt19937 random_;
  time_point now_{};
  std::multimap<time_point, std::function<void()>> events_;
  std::deque<member> members_;
  duration patience_{};
  std::uint64_t last_part_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, time_point> arrivals_; // of the last requests
  record_ptr root_;
};

} // namespace test::group_simulation

#endif // BOOST_RDMA_TEST_UNIT_GROUP_SIMULATION_HPP
