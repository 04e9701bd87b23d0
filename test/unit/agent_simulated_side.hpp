//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_SIDE_HPP
#define BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_SIDE_HPP

#include "agent/lease_tables.hpp"
#include "agent/request_table.hpp"
#include "unit/agent_simulated_channel.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// One side of a connection with agents: it uses the tables and messages of agents as agent_impl
// does, on simulated time, and checks what it sees. The program is a class derived from it.

namespace test::agent_simulation {

using rdma::error_code;
using rdma::remote_buffer;
namespace asio = boost::asio;

constexpr std::size_t device_index = 0;
constexpr duration no_limit = duration::max();

class side;

/// A program's lease of the peer's memory.
struct borrowed
{
  borrowed(side* agent, std::uint64_t number, const remote_buffer& buffer, time_point end);
  ~borrowed();
  borrowed(const borrowed&) = delete;
  borrowed& operator=(const borrowed&) = delete;

  side* const by;
  const std::uint64_t id;
  const remote_buffer memory;
  std::atomic<lease_clock::duration> expires;
  std::atomic<bool> ended{false};
};

/// A program's handle to memory that it has lent.
struct handle
{
  ~handle();

  side* const by;
  const std::uint64_t id;
  bool out = true;
};

struct operation
{
  time_point deadline;
  std::uint32_t id = 0;
  bool has_ended = false;
  error_code ec{};
};

struct memory
{
  bool is_open = false; // the peer may access it
  bool is_over = false;
};

struct owned : lease_terms
{
  void close() noexcept
  {
    block->is_open = false;
    if (const auto lent = loan.lock())
      lent->out = false;
  }

  memory* block = nullptr;
  std::weak_ptr<handle> loan{};
  std::vector<operation*> returns{};
};

/// An agent, which does with the tables what agent_impl does.
class side : public channel_listener
{
public:
  using handler = std::function<void(const error_code&, const agent_message&)>;

  explicit side(world& in)
    : w(in)
    , owned_(in.one_in(2) ? no_limit : 8 * in.delay)
    , ready_at_(in.now + in.any(in.one_in(10) ? 300ms : in.delay))
    , channel_(in, *this)
  {
    w.at(ready_at_ - w.now,
      [this]
      {
        is_ready_ = true;
        if (!is_over())
          ask_next();
      });
  }

  ~side() { is_dead_ = true; }
  side(const side&) = delete;
  side& operator=(const side&) = delete;

  void join(side& peer)
  {
    peer_ = &peer;
    channel_.join(peer.channel_);
  }
  [[nodiscard]] bool is_over() const { return ended_ || is_dead_; }

  // --- troubles ---

  void stop(duration how_long) { stopped_until_ = w.now + how_long; }
  void die()
  {
    is_dead_ = true;
    channel_.close();
    handing_over_.clear();
    for (auto& [number, each] : owned_.take_all())
      close(each);
    held_.end_all();
    static_cast<void>(requests_.take_all());
    leases_.clear();
    loans_.clear();
  }

  /// As agent_impl::end().
  void end(const error_code& reason)
  {
    if (is_over())
      return;
    ended_ = reason;
    channel_.close();
    handed_ += std::exchange(handing_over_, {}).size(); // the memory belongs to the program already
    deliver_handed();
    auto requests = requests_.take_all();
    auto owned = owned_.take_all();
    for (auto& [number, each] : owned)
      each.close();
    held_.end_all();
    for (auto& [id, each] : requests)
      if (each.waiting)
        (*each.waiting)(reason, {});
    for (auto& [number, each] : owned)
      conclude(each, reason);
    for (auto* const list : {&waits_remote_, &waits_local_})
      for (operation* const each : std::exchange(*list, {}))
        complete(each, reason);
  }

  [[nodiscard]] time_point stopped_until() const override { return stopped_until_; }

  void on_arrived() override
  {
    if (channel_.empty() || is_over())
      return;
    const time_point from = std::max(stopped_until_, ready_at_);
    if (w.now < from)
      return w.at(from - w.now, [this] { on_arrived(); });
    const channel::letter next = channel_.take();
    const auto message = agent_message::decode(next.bytes);
    if (message)
      on_message(*message, w.now - next.sent_at, next.receive);
    else
      refuse("a message is malformed");
  }

  void on_answered(receive_number receive) override
  {
    if (handing_over_.erase(receive) == 0)
      return;
    ++handed_;
    deliver_handed();
  }

  // --- the oracle ---

  /// The peer keeps a lease as long as this side believes, or a message tells otherwise.
  void check_beliefs() const
  {
    if (is_over() || peer_->is_over())
      return;
    for (const borrowed* const each : borrowed_)
    {
      const time_point expires(each->expires.load());
      if (each->ended || expires <= w.now || is_news_on_the_way(each->id))
        continue;
      const owned* const kept = peer_->owned_.find_exposed(each->id);
      w.require(kept && kept->block->is_open, "a lease has ended without a recall");
      if (!kept || kept->end == time_point::max())
        continue;
      const auto late = lent_later_.find(each->id);
      w.require(expires != time_point::max()
          && expires <= kept->end + (late == lent_later_.end() ? 0ms : late->second),
        "a holder believes in a longer lease than its owner");
    }
  }

  /// Returns true if the program has finished, and nothing that it began is under way.
  [[nodiscard]] bool is_at_rest() const
  {
    return is_finishing_ && is_ready_ && !is_over() && channel_.is_idle() && in_flight_.empty();
  }
  void check_rest()
  {
    w.require(held_.empty() && borrowed_.empty(), "a held lease is left");
    w.require(owned_.empty() && owned_.next_end() == time_point::max(), "an owned lease is left");
  }

  void check_end()
  {
    check_rest();
    for (const operation& each : operations_)
      w.require(each.has_ended || is_dead_, "an operation does not end");
    w.require(!requests_.is_waiting() && requests_.take_all().empty(), "a request is left");
    for (const auto& [address, each] : memory_)
      w.require(!each.is_open && each.is_over, "memory stays open");
    w.require(handing_over_.empty(), "memory is not handed over");
    if (!is_over())
      w.require(in_flight_.empty(), "a request is not answered");
    if (!is_over() && !peer_->is_over())
      w.require(channel_.is_idle(), "a message is left, or a receive is not given back");
  }

  std::size_t succeeded = 0;

protected:
  operation* begin(duration limit)
  {
    return &operations_.emplace_back(
      operation{.deadline = end_of(w.now, limit), .id = requests_.next_id()});
  }

  void complete(operation* op, const error_code& ec)
  {
    w.require(!op->has_ended, "an operation ends twice");
    w.require(w.now <= std::max(op->deadline, stopped_until_), "an operation ends too late");
    op->has_ended = true;
    op->ec = ec;
    succeeded += ec ? 0 : 1;
  }

  template <class Accept>
  void start(operation* op, const agent_message& question, Accept accept)
  {
    requests_.add(op->id, w.now, op->deadline,
      [this, op, accept](const error_code& ec, const agent_message& answer)
      {
        if (!ec)
          accept(answer);
        complete(op, ec);
      });
    ask(op->id, question);
  }

  void accept(std::shared_ptr<borrowed> lease)
  {
    if (!is_finishing_)
      leases_.push_back(std::move(lease));
  }

  void deliver_handed()
  {
    while (handed_ != 0 && !waits_local_.empty())
    {
      --handed_;
      complete(std::exchange(waits_local_.front(), nullptr), {});
      waits_local_.pop_front();
    }
  }

  void cancel(operation& op)
  {
    const auto take_from = [&](auto& list) { return std::erase(list, &op) != 0; };
    bool waits = take_from(waits_remote_) || take_from(waits_local_);
    for (auto& [number, each] : owned_.all())
      waits = take_from(each.returns) || waits;
    if (waits)
      complete(&op, asio::error::operation_aborted);
    give_up(op.id, asio::error::operation_aborted);
    update();
  }

  friend borrowed;
  friend handle;

  bool is_news_on_the_way(std::uint64_t lease) const
  {
    return channel_.any_on_the_way(
      [&](const channel::letter& each)
      {
        const auto message = agent_message::decode(each.bytes);
        if (message->type == message_type::recall)
          return message->lease == lease;
        const auto asked = in_flight_.find(message->id);
        return message->type == message_type::done && asked != in_flight_.end()
          && asked->second.type == message_type::renew && asked->second.lease == lease;
      });
  }

  // --- as agent_impl ---

  void send(const agent_message& message, receive_number receive = no_receive)
  {
    if (is_request(message))
    {
      w.require(in_flight_.emplace(message.id, message).second, "an id is used twice");
      w.require(in_flight_.size() <= 16, "more requests than the peer has receives for");
    }
    channel_.send(message.encode(), receive);
  }

  static bool is_request(const agent_message& message)
  {
    return message.id != 0 && message.type <= message_type::lend;
  }

  void ask(std::uint32_t id, const agent_message& question)
  {
    requests_.ask(id, question);
    ask_next();
  }

  void ask_next()
  {
    while (is_ready_)
    {
      const agent_message* const question = requests_.next();
      if (!question)
        break;
      if (question->type == message_type::lend)
        owned_.expose(question->lease, w.now);
      send(*question);
      requests_.on_sent();
    }
    update();
  }

  void give_up(std::uint32_t id, const error_code& ec)
  {
    if (auto waiting = requests_.give_up(id))
      (*waiting)(ec, {});
    update();
  }

  void update()
  {
    const time_point next = std::min(requests_.next_deadline(), owned_.next_end());
    if (is_over() || next >= alarm_at_)
      return;
    alarm_at_ = next;
    w.agenda.emplace(next, [this] { on_alarm(); });
  }

  void on_alarm()
  {
    if (w.now < stopped_until_)
      return w.at(stopped_until_ - w.now, [this] { on_alarm(); });
    alarm_at_ = time_point::max();
    while (!is_over())
      if (const auto request = requests_.overdue(w.now))
        give_up(*request, asio::error::timed_out);
      else if (const auto number = owned_.overdue(w.now))
      {
        const owned* const lease = owned_.find(*number);
        w.require(lease && lease->end <= w.now, "a lease ends too early");
        if (!lease)
          return;
        end_lease(*number);
      }
      else
        return update();
  }

  void on_message(const agent_message& message, lease_clock::duration age, receive_number receive)
  {
    switch (message.type)
    {
    case message_type::allocate:
      return on_allocate(message, receive);
    case message_type::renew:
      send(owned_.on_renew(message, w.now), receive);
      return update();
    case message_type::release:
      return on_release(message, receive);
    case message_type::hand_over:
      return on_hand_over(message, receive);
    case message_type::recall:
      channel_.give_back(receive);
      static_cast<void>(held_.recall(message.lease));
      return;
    case message_type::lend:
      return on_lend(message, age, receive);
    default:
      channel_.give_back(receive);
      return on_answer(message);
    }
  }

  /// The peer has violated the protocol.
  void refuse(const char* what)
  {
    w.require(w.is_hostile, what);
    end(rdma::error::agent_ended);
  }

  void on_answer(const agent_message& answer)
  {
    const auto* const asked = requests_.asked(answer.id);
    w.require((in_flight_.erase(answer.id) == 1) == (asked != nullptr), "a request is forgotten");
    if (!asked)
      return refuse("an answer without a request");
    if (!is_answer_to(asked->question, answer, device_index) || held_.contains(answer.lease))
      return refuse("an answer is invalid");
    if (const auto release = requests_.give_back(*asked, answer))
      send(*release);
    const auto renewed = held_.on_answer(*asked, answer);
    requests_.on_answered();
    ask_next();
    if (auto waiting = requests_.finish(answer.id))
      (*waiting)(error_of(answer.status), answer);
    update();
  }

  void on_allocate(const agent_message& asked, receive_number receive)
  {
    const std::uint64_t number = owned_.next_number();
    if (w.one_in(8))
      return send(answer_to(asked, refusal_status::quota_exceeded), receive);
    owned lease;
    lease.lifetime = from_wire(asked.lifetime);
    expose(number, lease,
      [this, asked, number, receive](bool fails) { on_granted(asked, number, receive, fails); });
  }

  /// Completes now or later, as a bind of a window does.
  template <class Told>
  void expose(std::uint64_t number, owned lease, Told told)
  {
    lease.block = &memory_[number];
    lease.block->is_open = true;
    owned_.add(number, std::move(lease));
    const bool fails = w.one_in(20);
    if (w.one_in(2))
      return told(fails);
    w.at(w.any(w.delay),
      [this, told, fails]
      {
        if (!is_over())
          told(fails);
      });
  }

  void on_granted(
    const agent_message& asked, std::uint64_t number, receive_number receive, bool fails)
  {
    if (fails)
    {
      if (auto lease = owned_.take(number))
        conclude(*lease, {});
      return send(answer_to(asked, refusal_status::failed), receive);
    }
    const owned& lease = owned_.expose(number, w.now);
    send({.type = message_type::granted,
           .id = asked.id,
           .lease = number,
           .lifetime = to_wire(lease.lifetime),
           .memory = remote_buffer(number * 64, 64, {7}, asked.memory.rights())},
      receive);
    update();
  }

  void on_lendable(std::uint32_t id, std::uint64_t number, bool fails)
  {
    if (fails || !requests_.contains(id))
    {
      if (auto lease = owned_.take(number))
        conclude(*lease, {});
      return give_up(id, rdma::error::lease_failed);
    }
    ask(id,
      {.type = message_type::lend,
        .lease = number,
        .lifetime = to_wire(owned_.find(number)->lifetime),
        .memory = remote_buffer(number * 64, 64, {7}, rdma::remote_access)});
  }

  void on_lend(const agent_message& message, lease_clock::duration age, receive_number receive)
  {
    if (held_.contains(message.lease) || message.memory.key(device_index) == 0)
      return refuse("invalid memory is lent");
    if (waits_remote_.empty() && (!held_.has_room_for_lent() || is_finishing_))
      return send(answer_to(message, refusal_status::inbox_full), receive);
    lent_later_[message.lease] = age;
    const auto lease = held_.hold(message, w.now, this);
    send(answer_to(message, refusal_status::none), receive);
    if (waits_remote_.empty())
      return held_.keep_lent(lease);
    accept(lease);
    complete(std::exchange(waits_remote_.front(), nullptr), {});
    waits_remote_.pop_front();
  }

  void on_release(const agent_message& message, receive_number receive)
  {
    std::optional<owned> taken;
    if (owned_.find_exposed(message.lease))
      taken = owned_.take(message.lease);
    if (taken)
      conclude(*taken, {});
    if (message.id == 0)
      channel_.give_back(receive);
    else
      send(
        answer_to(message, taken ? refusal_status::none : refusal_status::unknown_lease), receive);
    update();
  }

  void on_hand_over(const agent_message& message, receive_number receive)
  {
    if (!owned_.find_granted(message.lease))
      return send(answer_to(message, refusal_status::unknown_lease), receive);
    auto taken = owned_.take(message.lease);
    w.require(!taken->is_lent, "borrowed memory is handed over");
    conclude(*taken, {});
    handing_over_.insert(receive);
    send(answer_to(message, refusal_status::none), receive);
    update();
  }

  void end_lease(std::uint64_t number)
  {
    auto lease = owned_.take(number);
    if (!lease)
      return;
    if (lease->exposed)
      send({.type = message_type::recall, .lease = number});
    conclude(*lease, {});
  }

  void conclude(owned& over, const error_code& ec)
  {
    w.require(!over.block->is_open, "memory is used again while the peer can access it");
    w.require(!std::exchange(over.block->is_over, true), "a lease ends twice");
    for (operation* const each : std::exchange(over.returns, {}))
      complete(each, ec);
  }

  void drop(borrowed& lease)
  {
    if (is_over())
      return;
    if (const auto release = held_.give_back(lease))
      send(*release);
  }

  static void close(owned& lease)
  {
    lease.close();
    lease.block->is_over = true;
  }

  world& w;
  side* peer_ = nullptr;
  owned_leases<owned> owned_;
  const time_point ready_at_;
  bool is_ready_ = false;
  bool is_dead_ = false;
  bool is_finishing_ = false;
  time_point stopped_until_{};
  time_point alarm_at_ = time_point::max();
  std::optional<error_code> ended_;

  std::deque<operation> operations_;
  std::map<std::uint64_t, memory> memory_;
  std::set<const borrowed*> borrowed_;
  std::map<std::uint64_t, lease_clock::duration> lent_later_;
  std::map<std::uint32_t, agent_message> in_flight_; // sent, and no answer has arrived

  request_table<handler> requests_;
  held_leases<borrowed> held_;

  std::vector<std::shared_ptr<borrowed>> leases_;
  std::vector<std::shared_ptr<handle>> loans_;
  std::deque<operation*> waits_remote_;
  std::deque<operation*> waits_local_;
  std::size_t handed_ = 0;                // memory that the peer has handed over
  std::set<receive_number> handing_over_; // the same, until the peer has received the answer
  channel channel_;
};

inline borrowed::borrowed(
  side* agent, std::uint64_t number, const remote_buffer& buffer, time_point end)
  : by(agent)
  , id(number)
  , memory(buffer)
  , expires(end.time_since_epoch())
{
  by->borrowed_.insert(this);
}

inline borrowed::~borrowed()
{
  by->borrowed_.erase(this);
  by->drop(*this);
}

inline handle::~handle()
{
  if (out && !by->is_over())
    by->end_lease(id);
}

} // namespace test::agent_simulation

#endif // BOOST_RDMA_TEST_UNIT_AGENT_SIMULATED_SIDE_HPP
