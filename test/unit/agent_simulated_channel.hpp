//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_CHANNEL_HPP
#define BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_CHANNEL_HPP

#include "agent/agent_channel.hpp"
#include "agent/lease_tables.hpp"
#include "common/dice.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

// Simulated time, and the channel between two agents.

namespace test::agent_simulation {

using namespace rdma::detail;
using namespace std::chrono_literals;
using duration = std::chrono::milliseconds;
using time_point = lease_clock::time_point;

class world
{
public:
  explicit world(const dice& decisions)
    : random(decisions)
    , delay(one_in(2) ? 2 : 60)
  {
  }

  bool one_in(unsigned n) { return random.one_in(n); }
  duration any(duration most)
  {
    return duration(random() % static_cast<unsigned>(most.count() + 1));
  }
  void at(lease_clock::duration wait, std::function<void()> action)
  {
    agenda.emplace(now + wait, std::move(action));
  }
  /// Does what is due next. Precondition: the agenda is not empty.
  void step()
  {
    const auto next = agenda.begin();
    now = next->first;
    const auto action = std::move(next->second);
    agenda.erase(next);
    action();
  }
  /// Destructors may call it: the next step reports the problem.
  void require(bool holds, const char* what)
  {
    if (!holds && problem.empty())
      problem = what;
  }

  dice random;
  duration delay;
  time_point now = time_point(1h);
  std::multimap<time_point, std::function<void()>> agenda;
  std::string problem;
  bool is_hostile = false; // the peer violates the protocol
};

/// The receive that holds a message, until it is given back.
using receive_number = std::uint64_t;
constexpr receive_number no_receive = 0;

class channel_listener
{
public:
  /// A message has arrived.
  virtual void on_arrived() = 0;
  /// The peer's device has received the message that was sent with this receive.
  virtual void on_answered(receive_number receive) = 0;
  /// Until then the process runs no handler.
  [[nodiscard]] virtual time_point stopped_until() const = 0;

protected:
  ~channel_listener() = default;
};

/// One end of the queue pairs between two agents, with the rules of agent_channel.
/**
 * Messages arrive in order, each in a receive. One for which there is none waits for it, as the RNR
 * retries of a device do. The device receives also while the process is stopped.
 */
class channel
{
public:
  struct letter
  {
    time_point sent_at;
    agent_message::encoded bytes;
    receive_number receive; ///< in which it is; before that the one which the sender gives back
  };

  channel(world& in, channel_listener& listener)
    : w(in)
    , listener_(listener)
    , send_places_(1 + in.random() % 32)
  {
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  void join(channel& peer) { peer_ = &peer; }
  /// No message arrives from now on.
  void close() { is_closed_ = true; }

  void send(const agent_message::encoded& bytes, receive_number receive)
  {
    outbox_.push_back({w.now, bytes, receive});
    transmit();
  }

  void give_back(receive_number receive)
  {
    w.require(taken_.erase(receive) == 1, "a receive is given back twice");
    if (arrived_ != 0)
      w.at(w.any(w.delay), [this] { accept(); });
  }

  [[nodiscard]] bool empty() const { return inbox_.empty(); }
  letter take()
  {
    const letter first = inbox_.front();
    inbox_.pop_front();
    return first;
  }

  /// Puts a message into a receive.
  void put(const agent_message::encoded& bytes, time_point sent_at)
  {
    taken_.insert(++last_receive_);
    inbox_.push_back({sent_at, bytes, last_receive_});
  }

  /// Returns true if this holds for any message that has been sent to this end and not been taken.
  template <class Predicate>
  [[nodiscard]] bool any_on_the_way(Predicate holds) const
  {
    const auto among = [&](const auto& list)
    { return std::any_of(list.begin(), list.end(), holds); };
    return among(inbox_) || among(wire_) || among(peer_->outbox_);
  }

  /// Returns true if it sends nothing, and all its receives are posted.
  [[nodiscard]] bool is_idle() const
  {
    return outbox_.empty() && wire_.empty() && inbox_.empty() && taken_.empty() && sending_ == 0;
  }

private:
  void transmit()
  {
    for (; sending_ != send_places_ && !outbox_.empty(); ++sending_)
    {
      peer_->wire_.push_back(outbox_.front());
      outbox_.pop_front();
      in_order(arrival_,
        [to = peer_]
        {
          ++to->arrived_;
          to->accept();
        });
    }
  }

  void accept()
  {
    while (arrived_ != 0 && taken_.size() != agent_channel::receive_count && !is_closed_)
    {
      --arrived_;
      const letter next = wire_.front();
      wire_.pop_front();
      put(next.bytes, next.sent_at);
      in_order(acknowledgement_, [to = peer_, back = next.receive] { to->on_sent(back); });
      w.at(0ms, [this] { listener_.on_arrived(); });
    }
  }

  void on_sent(receive_number receive)
  {
    if (w.now < listener_.stopped_until())
      return w.at(listener_.stopped_until() - w.now, [this, receive] { on_sent(receive); });
    if (is_closed_)
      return;
    if (receive != no_receive)
    {
      listener_.on_answered(receive); // before the receive is reused
      give_back(receive);
    }
    --sending_;
    transmit();
  }

  template <class Action>
  void in_order(time_point& last, Action action)
  {
    last = std::max(last, w.now + w.any(w.delay));
    w.agenda.emplace(last, action);
  }

  world& w;
  channel_listener& listener_;
  channel* peer_ = nullptr;
  bool is_closed_ = false;

  const std::size_t send_places_;
  std::size_t sending_ = 0;   // sent, and the completion has not been seen
  std::deque<letter> outbox_; // wait for a place
  time_point arrival_{};      // of the last one
  time_point acknowledgement_{};

  std::deque<letter> wire_;  // sent to this end
  std::size_t arrived_ = 0;  // of them: the first ones, which wait for a receive
  std::deque<letter> inbox_; // in receives
  std::set<receive_number> taken_;
  receive_number last_receive_ = no_receive;
};

} // namespace test::agent_simulation

#endif // BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_CHANNEL_HPP
