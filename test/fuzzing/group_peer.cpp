//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "completion/inbox.hpp"
#include "fuzzing/common/require.hpp"
#include "rpc/group_barrier.hpp"
#include "rpc/group_call.hpp"
#include "rpc/group_content.hpp"
#include "rpc/group_history.hpp"
#include "rpc/group_message.hpp"
#include "rpc/swim.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// Fuzzes a member of a group whose other members are hostile: its failure detection, its part in
// calls with and without content, and its barriers. The input decides about the messages, which
// usually fit to those before, about what the program does, and when time passes.

namespace {

using namespace rdma::detail::rpc;
using namespace std::chrono_literals;
using rdma::error_code;
using rdma::rpc::missing_member;
using test::require;
using time_point = group_call::time_point;
namespace asio = boost::asio;

struct world
{
  explicit world(test::dice& by)
    : random(by)
    , members(static_cast<std::uint32_t>(by.any(2, 9)))
    , rank(by() % members)
  {
  }

  // Changes a byte of some messages, or their length.
  void damage(std::vector<std::byte>& message)
  {
    if (random.one_in(30))
      message[random() % message.size()] = random.byte();
    if (random.one_in(60))
      message.resize(random() % (message.size() + 20));
  }

  std::uint64_t number(std::uint64_t near)
  {
    static constexpr std::uint64_t bounds[] = {0, 1, UINT32_MAX, std::uint64_t{1} << 40,
      swim_report::incarnation_max, swim_report::incarnation_max + 1, UINT64_MAX};
    return random.one_in(12) ? bounds[random() % std::size(bounds)]
                             : near + random() % 5 - (random.one_in(2) ? 0 : 2);
  }

  error_code some_error()
  {
    static const error_code some[] = {
      asio::error::timed_out, rdma::error::peer_lost, rdma::error::call_failed};
    return some[random() % std::size(some)];
  }

  test::dice& random;
  const std::uint32_t members;
  const std::uint32_t rank;
  time_point now{1h};
};

// --- failure detection ---

class detection
{
public:
  explicit detection(world& in)
    : w(in)
    , state_({.members = in.members,
               .rank = in.rank,
               .incarnation = in.random() % 3,
               .period = 1s,
               .suspicion = in.random.one_in(2) ? 0s : 3s,
               .helpers = static_cast<std::uint32_t>(in.random.any(0, 4)),
               .seed = in.random()},
        in.now)
  {
  }

  // As group_gossip takes them.
  void take_message()
  {
    gossip_request r;
    r.members = w.random.one_in(30) ? w.random() : w.members;
    r.sender = some_rank();
    r.target = some_rank();
    r.incarnation = some_incarnation(r.sender);
    r.reports = some_reports();
    std::vector<std::byte> message;
    append_gossip_request(message, r);
    w.damage(message);
    const auto taken = decode_gossip_request(message, w.members);
    if (!taken || taken->sender == w.rank)
      return;
    for (const swim_report& each : taken->reports)
      state_.take(each, w.now);
    state_.take_contact(taken->sender, taken->incarnation, w.now);
    check_reports(taken->sender);
  }

  void take_answer()
  {
    if (pings_.empty())
      return;
    const auto at = pings_.begin() + static_cast<std::ptrdiff_t>(w.random() % pings_.size());
    const swim::ping asked = *at;
    pings_.erase(at);
    std::vector<std::byte> message;
    append_gossip_answer(message, {some_incarnation(asked.target), some_reports()});
    w.damage(message);
    const auto taken = decode_gossip_answer(message, w.members);
    if (!taken || w.now > asked.until)
      return;
    for (const swim_report& each : taken->reports)
      state_.take(each, w.now);
    state_.take_contact(asked.target, taken->incarnation, w.now);
  }

  void on_time()
  {
    const auto sent = state_.on_time(w.now);
    require(sent.size() <= 2 + std::size_t{4}, "a period has few pings");
    for (const swim::ping& each : sent)
    {
      require(each.to < w.members && each.target < w.members, "pings are for members");
      require(each.to != w.rank && each.target != w.rank, "a member does not ping itself");
      require(each.until > w.now, "an answer has time");
      check_reports(each.to);
      pings_.push_back(each);
    }
    if (pings_.size() > 32)
      pings_.erase(pings_.begin(), pings_.end() - 32);
    require(state_.alarm() > w.now, "time goes on");
  }

  [[nodiscard]] time_point alarm() const { return state_.alarm(); }

  void check()
  {
    const auto failed = state_.failed();
    require(std::ranges::is_sorted(failed), "failed members are in order");
    require(!std::ranges::binary_search(failed, w.rank), "a member does not find itself failed");
    require(failed == failed_ || state_.version() > version_, "a change has a new version");
    require(state_.version() >= version_, "versions do not go back");
    require(state_.incarnation() >= incarnation_, "incarnations do not go back");
    failed_ = failed;
    version_ = state_.version();
    incarnation_ = state_.incarnation();
  }

private:
  std::uint32_t some_rank() { return w.random.one_in(30) ? w.random() : w.random() % w.members; }
  std::uint64_t some_incarnation(std::uint32_t of)
  {
    return w.number(of == w.rank ? state_.incarnation() : 2);
  }
  std::vector<swim_report> some_reports()
  {
    std::vector<swim_report> result;
    for (std::size_t left = w.random.one_in(20) ? 70 : w.random() % 4; left != 0; --left)
    {
      const std::uint32_t of = some_rank();
      result.push_back({of, static_cast<swim_health>(w.random.one_in(20) ? 4 : 1 + w.random() % 3),
        some_incarnation(of)});
    }
    return result;
  }
  void check_reports(std::uint32_t to)
  {
    const auto reports = state_.take_reports(to);
    require(reports.size() <= swim::reports_max + 1, "a message has few reports");
    std::vector<std::byte> message;
    append_gossip_answer(message, {state_.incarnation(), reports});
    const auto again = decode_gossip_answer(message, w.members);
    require(again && again->reports == reports, "other members understand the reports");
  }

  world& w;
  swim state_;
  std::vector<swim::ping> pings_;
  std::vector<std::uint32_t> failed_;
  std::uint64_t version_ = 0;
  std::uint64_t incarnation_ = 0;
};

// --- calls ---

class calls
{
public:
  explicit calls(world& in)
    : w(in)
  {
  }

  void take_message()
  {
    group_request r;
    r.kind = static_cast<group_request_kind>(w.random.one_in(30) ? 5 : 1 + w.random() % 4);
    r.root = w.random.one_in(3) ? w.random() % w.members : (w.rank + 1) % w.members;
    r.members = w.members;
    r.range.first = (w.rank + w.members - r.root) % w.members;
    r.range.count = 1 + w.random() % w.members;
    r.fan_out = 1 + w.random() % 4;
    r.incarnation = w.random.one_in(8) ? w.number(incarnation_) : incarnation_;
    r.sequence = w.random.one_in(8) ? w.number(sequence_) : sequence_ + w.random() % 3;
    r.oldest = w.random.one_in(8) ? w.number(r.sequence) : std::max<std::uint64_t>(oldest_, 1);
    r.left = std::chrono::microseconds(w.random.one_in(8) ? w.number(1) : w.random() % 9'000'000);
    r.patience = std::chrono::microseconds(w.random.one_in(8) ? w.number(1) : 500'000);
    r.bytes = w.random.one_in(4) ? w.number(group_content::part_max) : w.random() % 4 * 1000;
    r.method.name = "m";
    std::vector<std::byte> message;
    append_group_request(message, r);
    w.damage(message);
    const auto taken = decode_group_request(message);
    if (taken && taken->members == w.members
      && (std::uint64_t{taken->root} + taken->range.first) % w.members == w.rank)
      take(*taken);
  }

  // The program calls the group.
  void call()
  {
    if (own_ >= 4)
      return;
    ++own_;
    group_request r;
    r.members = w.members;
    r.range = {0, w.members};
    r.fan_out = 1 + w.random() % 4;
    r.left = 5s;
    r.patience = 500ms;
    add(r, w.random.one_in(2) ? 1 + w.random() % 3 * group_content::part_max : 0, true);
  }

  // The handler of this member answers.
  void answer()
  {
    if (record* const of = some_record())
    {
      if (w.random.one_in(4))
        of->state.take_own_failure(w.some_error());
      else
        of->state.take_own({std::byte{1}});
      advance(*of);
    }
  }

  // A member below this one answers a call.
  void take_answer()
  {
    record* const of = some_record();
    if (of == nullptr || of->asked.empty())
      return;
    const auto at = w.random() % of->asked.size();
    const group_range range = of->asked[at];
    if (w.random.one_in(2))
      of->asked.erase(of->asked.begin() + static_cast<std::ptrdiff_t>(at));
    std::vector<std::byte> message;
    if (w.random.one_in(3))
    {
      append_pending(message);
    }
    else
    {
      group_part part;
      for (std::uint32_t i = 0; i != range.count; ++i)
        if (w.random.one_in(3))
          part.missing.push_back({range.first + i, w.some_error()});
      part.answered = range.count - static_cast<std::uint32_t>(part.missing.size());
      if (w.random.one_in(20))
        part.answered += w.random() % 3 - 1;
      append_part(message, part);
    }
    w.damage(message);
    auto taken = decode_group_answer(message, range);
    if (!taken || w.random.one_in(10))
      of->state.take_failure(range.first, w.some_error(), w.now);
    else if (taken->is_pending)
      of->state.take_pending(range.first, w.now);
    else
      of->state.take_part(range.first, std::move(taken->part));
    advance(*of);
  }

  // It answers the offer of a part.
  void take_progress()
  {
    record* const of = some_record();
    if (of == nullptr || !of->content || of->fed.empty())
      return;
    const auto found =
      std::next(of->fed.begin(), static_cast<std::ptrdiff_t>(w.random() % of->fed.size()));
    const auto [place, end] = *found;
    std::vector<std::byte> message;
    append_progress(message, w.random.one_in(4) ? w.number(end) : end);
    w.damage(message);
    const auto bytes = decode_progress(message);
    if (!bytes || !of->content->take_progress(place, *bytes))
    {
      of->content->remove_child(place);
      of->state.take_failure(place, rdma::error::malformed_message, w.now);
    }
    of->fed.erase(place);
    advance(*of);
  }

  // Bytes of a part have arrived, or cannot be pulled.
  void end_pull()
  {
    record* const of = some_record();
    if (of == nullptr || of->pulls.empty())
      return;
    const auto at = of->pulls.begin() + static_cast<std::ptrdiff_t>(w.random() % of->pulls.size());
    const auto [number, bytes] = *at;
    of->pulls.erase(at);
    static_cast<void>(of->content->take_pulled(number, w.random.one_in(4) ? 0 : bytes));
    advance(*of);
  }

  void on_time()
  {
    for (const auto& each : all_)
    {
      each->state.on_time(w.now);
      advance(*each);
      require(each->state.alarm() > w.now, "time goes on");
    }
  }

  [[nodiscard]] time_point alarm() const
  {
    time_point next = time_point::max();
    for (const auto& each : all_)
      next = std::min(next, each->state.alarm());
    return next;
  }

  void end()
  {
    w.now += 1'000'000'000s; // more than any call takes
    on_time();
    for (const auto& each : all_)
    {
      require(each->is_over, "a call ends with its time");
      require(each->waiting == 0, "each caller has an answer");
    }
  }

private:
  struct record
  {
    record(const group_request& r, time_point now)
      : range(r.range)
      , state({r.range, r.fan_out, now + r.left, r.patience}, now)
    {
    }
    const group_range range;
    group_call state;
    std::optional<group_content> content;
    std::vector<group_range> asked;
    std::map<std::uint32_t, std::uint64_t> fed; // by place: the end of the part
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pulls;
    std::uint64_t here = 0;
    std::uint64_t callers = 0;
    std::size_t waiting = 0;
    bool is_over = false;
  };
  static constexpr std::size_t records_max = 16;

  record* some_record() { return all_.empty() ? nullptr : all_[w.random() % all_.size()].get(); }

  std::shared_ptr<record> add(const group_request& r, std::uint64_t bytes, bool is_root)
  {
    auto made = std::make_shared<record>(r, w.now);
    if (bytes != 0)
      made->content.emplace(bytes, is_root);
    all_.push_back(made);
    if (is_root)
      advance(*made);
    return made;
  }

  // As group_impl::take().
  void take(const group_request& r)
  {
    sequence_ = r.sequence;
    oldest_ = r.oldest;
    incarnation_ = r.incarnation;
    std::vector<std::shared_ptr<record>> removed;
    auto found = history_.find(r, removed);
    using verdict = group_history<record>::verdict;
    if (found.is == verdict::ended)
      return;
    if (found.is == verdict::fresh)
    {
      if (r.kind == group_request_kind::inquiry || r.kind == group_request_kind::part
        || all_.size() == records_max)
        return;
      require(started_.emplace(r.root, r.incarnation, r.sequence).second, "a call starts once");
      found.record = add(r, r.kind == group_request_kind::bulk ? r.bytes : 0, false);
      history_.add(r, found.record);
    }
    record& of = *found.record;
    if (of.range != r.range)
      return;
    if (r.kind == group_request_kind::part)
      return take_part(of, r);
    of.state.add_caller(of.callers++, w.now);
    ++of.waiting;
    advance(of);
  }

  void take_part(record& of, const group_request& r)
  {
    if (!of.content)
      return;
    const std::uint64_t bytes =
      w.random.one_in(4) ? w.number(of.content->size() - of.content->here()) : 1000;
    const auto offer = of.content->take_offer(r.bytes, bytes);
    using verdict = group_content::verdict;
    if (offer.is == verdict::malformed || offer.is == verdict::not_next)
      return;
    require(bytes != 0 && r.bytes == of.content->here()
        && bytes <= of.content->size() - of.content->here(),
      "a part is pulled into the memory of the content");
    if (w.random.one_in(8))
      return of.content->refuse(offer);
    of.pulls.emplace_back(offer.number, bytes);
  }

  void advance(record& of)
  {
    for (const auto& each : of.state.take_tasks())
    {
      require(each.to.count > 0 && each.to.first > of.range.first
          && std::uint64_t{each.to.first} + each.to.count
            <= std::uint64_t{of.range.first} + of.range.count,
        "only members below this one are called");
      if (each.again)
        continue;
      of.asked.push_back(each.to);
      if (of.content && !of.is_over)
        of.content->add_child(each.to.first);
    }
    if (of.content)
      feed(of);
    if (of.state.done() && !std::exchange(of.is_over, true))
      check(of, of.state.take_outcome());
    of.waiting -= of.state.take_callers(w.now).size();
    require(of.waiting < SIZE_MAX / 2, "a caller has one answer");
  }

  static void feed(record& of)
  {
    group_content& content = *of.content;
    require(content.here() >= of.here && content.here() <= content.size(), "content only grows");
    of.here = content.here();
    for (const auto& each : content.take_parts())
    {
      require(each.bytes != 0 && each.bytes <= group_content::part_max
          && each.offset <= content.here() && each.bytes <= content.here() - each.offset,
        "only bytes that are here are offered");
      of.fed[each.place] = each.offset + each.bytes;
    }
  }

  void check(const record& of, const group_call::outcome& outcome) const
  {
    std::set<std::uint32_t> missing;
    for (const group_absence& each : outcome.missing)
    {
      require(each.place >= of.range.first && each.place - of.range.first < of.range.count,
        "only members that were called are missing");
      require(missing.insert(each.place).second, "a member is missing once");
      require(each.ec.failed(), "an absence has an error");
    }
    require(outcome.answered + missing.size() == of.range.count, "each member is counted or named");
  }

  world& w;
  std::deque<std::shared_ptr<record>> all_;
  group_history<record> history_;
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> started_;
  std::uint64_t incarnation_ = 1;
  std::uint64_t sequence_ = 1;
  std::uint64_t oldest_ = 1;
  unsigned own_ = 0;
};

// --- barriers ---

/// The group that barriers use: the input decides about the result of a broadcast.
class group final : public group_core
{
public:
  explicit group(world& in)
    : w(in)
  {
  }

  void add(std::unique_ptr<group_method> method) override { methods_.push_back(std::move(method)); }

  // A call of another member has arrived.
  void start(std::string_view method, std::vector<std::byte> content)
  {
    for (const auto& each : methods_)
      if (each->handler->description.name == method)
      {
        const auto running = std::make_shared<call>(*this);
        running->content = std::move(content);
        ++calls;
        arrival arrived(running);
        each->handler->start(arrived);
      }
  }

  void broadcast(const io_executor&, const rdma::rpc::detail::method_description& method,
    std::span<const std::byte> request, const rdma::rpc::group_call_options&,
    outcome_handler handler) override
  {
    sent_.push_back(
      {std::string(method.name), {request.begin(), request.end()}, std::move(handler)});
  }

  // A broadcast of this member ends.
  void end_broadcast()
  {
    if (sent_.empty())
      return;
    broadcast_call ended = std::move(sent_.front());
    sent_.pop_front();
    if (!w.random.one_in(8)) // it has reached this member as well
      start(ended.method, std::move(ended.request));
    group_outcome outcome;
    for (std::uint32_t i = 0; i != w.members; ++i)
      if (w.random.one_in(4))
        outcome.missing.push_back({i, w.some_error()});
    outcome.answered = w.members - static_cast<std::uint32_t>(outcome.missing.size());
    std::move(ended.handler)(w.random.one_in(8) ? w.some_error() : error_code(), outcome);
  }
  [[nodiscard]] bool broadcasts() const { return !sent_.empty(); }

  std::size_t calls = 0;
  std::size_t answers = 0;

private:
  class call final : public running_call
  {
  public:
    explicit call(group& of)
      : of_(of)
    {
    }
    ~call() override { require(is_answered_, "a call has an answer"); }
    void reply(const reply_source&) override { end(); }
    void fail(const error_code&) override { end(); }

  private:
    void end()
    {
      of_.answers += is_answered_ ? 0 : 1;
      is_answered_ = true;
    }

    group& of_;
    bool is_answered_ = false;
  };

  class arrival final : public arrived_call
  {
  public:
    explicit arrival(std::shared_ptr<call> of)
      : arrived_call(of->content, time_point::max(), {}, nullptr)
      , of_(std::move(of))
    {
    }
    void reply(const reply_source& what) override { of_->reply(what); }
    void fail(const error_code& ec) override { of_->fail(ec); }
    std::shared_ptr<running_call> keep() override { return of_; }

  private:
    const std::shared_ptr<call> of_;
  };

  struct broadcast_call
  {
    std::string method;
    std::vector<std::byte> request;
    outcome_handler handler;
  };

  // Barriers do not use the rest.
  void take(std::span<const std::byte>, const rdma::rpc::call_info&, answer) override {}
  void enter_barrier(
    const io_executor&, const rdma::rpc::group_call_options&, missing_handler) override
  {
  }
  void take_gossip(std::span<const std::byte>, rdma::rpc::responder<gossip_transport>) override {}
  [[nodiscard]] rdma::rpc::group_membership membership() const override { return {}; }
  void wait_change(const io_executor&, std::uint64_t, membership_handler) override {}
  void close() override {}
  [[nodiscard]] bool is_open() const override { return true; }

  world& w;
  std::vector<std::unique_ptr<group_method>> methods_;
  std::deque<broadcast_call> sent_;
};

class barriers
{
public:
  explicit barriers(world& in)
    : w(in)
    , barrier_(std::make_shared<group_barrier>(
        io_.get_executor(), rdma::detail::alarm(alarm_io_, inbox_), in.members, in.rank, epoch))
    , group_(std::make_shared<group>(in))
  {
    barrier_->add_methods(*group_);
  }

  void enter()
  {
    if (entered_ - ended_ == 8)
      return;
    ++entered_;
    signals_.emplace_back();
    group_barrier::handler_type handler(io_.get_executor(),
      [this, ended = std::make_unique<bool>(false)](
        const error_code& ec, const std::vector<missing_member>& missing)
      {
        require(!std::exchange(*ended, true), "a barrier ends once");
        ++ended_;
        for (const missing_member& each : missing)
        {
          require(each.rank < w.members, "missing members are of the group");
          require(ec.failed() || each.rank != w.rank, "a member that is missing has an error");
        }
      });
    barrier_->enter(group_, {.timeout = 1h}, std::move(handler), signals_.back().slot());
  }

  void cancel()
  {
    if (!signals_.empty())
      signals_[w.random() % signals_.size()].emit(asio::cancellation_type::terminal);
  }

  void take_message()
  {
    const std::uint64_t name[] = {w.random.one_in(4) ? w.number(epoch_) : epoch_,
      w.random.one_in(4) ? w.number(entered_) : entered_ + w.random() % 2};
    if (w.random.one_in(4))
      epoch_ = name[0];
    std::vector<std::byte> message(sizeof name);
    std::memcpy(message.data(), name, sizeof name);
    const bool leave = w.random.one_in(2);
    if (leave)
    {
      std::vector<group_absence> absences;
      for (std::uint32_t i = 0; i != w.members; ++i)
        if (w.random.one_in(5))
          absences.push_back({i, w.some_error()});
      append_absences(message, absences);
    }
    w.damage(message);
    group_->start(leave ? "rdma.leave/1" : "rdma.enter/1", std::move(message));
  }

  void end_broadcast() { group_->end_broadcast(); }
  void lose_root() { barrier_->lose_root(); }

  void run()
  {
    io_.poll();
    io_.restart();
    require(ended_ <= entered_, "a barrier ends once");
  }

  void end()
  {
    while (group_->broadcasts())
      group_->end_broadcast();
    barrier_->close();
    run();
    require(ended_ == entered_, "each barrier ends");
    require(group_->answers == group_->calls, "each call is answered");
  }

private:
  static constexpr std::uint64_t epoch = 5;

  world& w;
  asio::io_context io_;
  asio::io_context alarm_io_;
  const std::shared_ptr<rdma::detail::inbox> inbox_ =
    std::make_shared<rdma::detail::inbox>(alarm_io_);
  const std::shared_ptr<group_barrier> barrier_;
  const std::shared_ptr<group> group_;
  std::deque<asio::cancellation_signal> signals_;
  std::uint64_t epoch_ = epoch;
  std::uint64_t entered_ = 0;
  std::uint64_t ended_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  world w(random);
  detection found(w);
  calls all(w);
  barriers entered(w);
  while (!random.is_over())
  {
    switch (random() % 16)
    {
    case 0:
      found.take_message();
      break;
    case 1:
      found.take_answer();
      break;
    case 2:
    case 3:
      all.take_message();
      break;
    case 4:
      all.call();
      break;
    case 5:
      all.answer();
      break;
    case 6:
    case 7:
      all.take_answer();
      break;
    case 8:
      all.take_progress();
      break;
    case 9:
      all.end_pull();
      break;
    case 10:
      entered.enter();
      break;
    case 11:
    case 12:
      entered.take_message();
      break;
    case 13:
      entered.end_broadcast();
      break;
    case 14:
      if (random.one_in(4))
        entered.lose_root();
      else
        entered.cancel();
      break;
    default:
      w.now = random.one_in(2)
        ? w.now + std::chrono::milliseconds(random() % 2000)
        : std::max(w.now, std::min({found.alarm(), all.alarm(), w.now + 10s}));
      found.on_time();
      all.on_time();
    }
    found.check();
    entered.run();
  }
  all.end();
  entered.end();
  return 0;
}
