//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_barrier.hpp"

#include "boost_rdma/detail/rpc/typed_handler.hpp"
#include "rpc/group_message.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using rdma::rpc::group_call_options;
using rdma::rpc::nothing;
using rdma::rpc::detail::description_of;

namespace {

constexpr std::size_t asked_max = 1024;

template <class Method, class Function>
std::unique_ptr<group_method> made(const group_core::io_executor& executor, Function function)
{
  const auto combine = [](const nothing&, const nothing&) { return nothing(); };
  return std::make_unique<typed_group_method<Method, decltype(combine)>>(
    std::make_unique<typed_handler<Method, group_core::io_executor, Function>>(
      executor, std::move(function)),
    combine);
}

} // namespace

void group_barrier::add_methods(group_core& group)
{
  group.add(made<enter_method>(executor_,
    [self = shared_from_this()](const name& of, rdma::rpc::responder<enter_method> answer)
    { self->on_asked(of, std::move(answer)); }));
  group.add(made<leave_method>(executor_,
    [self = shared_from_this()](std::span<const std::byte> content)
    {
      self->on_left(content);
      return nothing();
    }));
}

void group_barrier::enter(const std::shared_ptr<group_core>& group,
  const group_call_options& options, handler_type handler, asio::cancellation_slot slot)
{
  std::optional<rdma::rpc::responder<enter_method>> asked;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = entered_ + 1;
    if (number <= left_)
    {
      missing_list late{{rank_, asio::error::timed_out}};
      entered_ = number;
      return std::move(handler).complete(asio::error::timed_out, std::move(late));
    }
    const auto limit = std::chrono::steady_clock::now() + options.timeout;
    waiting_.try_emplace(number, limit, std::move(handler));
    try
    {
      on_cancellation(slot, weak_from_this(),
        [number](group_barrier& self) { self.end(number, asio::error::operation_aborted, {}); });
    }
    catch (...)
    {
      waiting_.erase(number);
      throw; // this member has not entered
    }
    entered_ = number;
    set_alarm();
    if (auto found = asked_.extract(number))
      asked.emplace(std::move(found.mapped()));
  }
  or_end(number,
    [&]
    {
      if (asked)
        asked->reply({});
      if (rank_ == 0)
        ask_all(group, number, options);
    });
}

// Without memory for a step, the barrier ends at this member; the others have a time limit.
template <class Step>
void group_barrier::or_end(std::uint64_t number, Step step)
try
{
  step();
}
catch (const std::bad_alloc&)
{
  end(number, asio::error::no_memory, {});
}

// The caller has the mutex. Returns the number of the barrier at this member, or 0 for one of a
// process that was rank 0 before.
std::uint64_t group_barrier::local_number(const name& of)
{
  if (of.epoch < epoch_)
    return 0;
  if (of.epoch > epoch_)
  {
    const bool is_first = epoch_ == 0;
    const std::uint64_t next = waiting_.empty() ? entered_ + 1 : waiting_.begin()->first;
    epoch_ = of.epoch;
    offset_ = of.number - (is_first ? 1 : next);
    asked_.clear();
  }
  return of.number - offset_;
}

void group_barrier::on_asked(const name& of, rdma::rpc::responder<enter_method> answer)
{
  std::unique_lock lock(mutex_);
  const std::uint64_t number = local_number(of);
  const bool is_known = number != 0;
  if (is_known && number > entered_ && asked_.size() < asked_max)
  {
    asked_.insert_or_assign(number, std::move(answer));
    return;
  }
  const bool is_here = is_known && number <= entered_;
  lock.unlock();
  if (is_here)
    answer.reply({});
  else
    answer.fail(is_known ? make_error_code(error::overloaded) : asio::error::timed_out);
}

// --- rank 0 ---

void group_barrier::ask_all(
  const std::shared_ptr<group_core>& group, std::uint64_t number, const group_call_options& options)
{
  const auto limit = std::chrono::steady_clock::now() + options.timeout;
  group_call_options part = options;
  part.timeout = options.timeout / 4 * 3;
  const name asked{epoch_, number};
  group->broadcast(executor_, description_of<enter_method>, std::as_bytes(std::span(&asked, 1)),
    part,
    [self = shared_from_this(), group, number, limit, options](
      const error_code& ec, const group_outcome& outcome)
    {
      if (ec)
        return self->end(number, ec, {});
      group_call_options rest = options;
      rest.timeout = limit - std::chrono::steady_clock::now();
      self->or_end(number, [&] { self->tell_all(group, number, rest, outcome.missing); });
    });
}

void group_barrier::tell_all(const std::shared_ptr<group_core>& group, std::uint64_t number,
  const group_call_options& options, const missing_list& missing)
{
  const name left{epoch_, number};
  const auto bytes_of_name = std::as_bytes(std::span(&left, 1));
  std::vector<std::byte> content(bytes_of_name.begin(), bytes_of_name.end());
  std::vector<group_absence> absences;
  for (const auto& each : missing)
    absences.push_back({each.rank, each.ec});
  append_absences(content, absences);
  // The handler of this member ends its operation.
  group->broadcast(executor_, description_of<leave_method>, content, options,
    [self = shared_from_this(), number](const error_code& ec, const group_outcome&)
    {
      if (ec)
        self->end(number, ec, {});
    });
}

// --- the end of a barrier ---

void group_barrier::on_left(std::span<const std::byte> content)
{
  name left;
  if (content.size() < sizeof left)
    throw system_error(error::malformed_message);
  std::memcpy(&left, content.data(), sizeof left);
  const auto absences = decode_absences(content.subspan(sizeof left), {0, members_});
  if (!absences)
    throw system_error(error::malformed_message);
  missing_list missing;
  error_code ec;
  for (const group_absence& each : *absences)
  {
    missing.push_back({each.place, each.ec});
    if (each.place == rank_)
      ec = asio::error::timed_out;
  }
  std::vector<std::uint64_t> before;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = local_number(left);
    if (number == 0)
      return;
    left_ = std::max(left_, number);
    for (const auto& [each, entered] : waiting_)
      if (each < number)
        before.push_back(each);
    asked_.erase(asked_.begin(), asked_.upper_bound(number));
  }
  for (const std::uint64_t each : before)
    end(each, asio::error::timed_out, {});
  end(number, ec, missing);
}

void group_barrier::end(std::uint64_t number, const error_code& ec, const missing_list& missing)
{
  std::map<std::uint64_t, entry>::node_type ended;
  {
    const std::lock_guard lock(mutex_);
    ended = waiting_.extract(number);
  }
  if (ended)
    complete_with_copy(std::move(ended.mapped().handler), ec, missing);
}

// The caller has the mutex.
void group_barrier::set_alarm() noexcept
{
  const auto first =
    std::ranges::min_element(waiting_, {}, [](const auto& each) { return each.second.limit; });
  if (first != waiting_.end())
    alarm_.set(first->second.limit, weak_from_this());
}

void group_barrier::on_alarm()
{
  for (;;)
  {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto over = std::ranges::find_if(waiting_,
        [now = std::chrono::steady_clock::now()](const auto& each)
        { return each.second.limit <= now; });
      if (over == waiting_.end())
        return set_alarm();
      number = over->first;
    }
    end(number, asio::error::timed_out, {});
  }
}

void group_barrier::end_all(const error_code& ec, const missing_list& missing)
{
  std::map<std::uint64_t, entry> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(waiting_);
  }
  for (auto& [number, each] : all)
    complete_with_copy(std::move(each.handler), ec, missing);
}

void group_barrier::lose_root()
{
  {
    // Rank 0 begins a new count, also if this member has had no barrier of it.
    const std::lock_guard lock(mutex_);
    epoch_ = std::max<std::uint64_t>(epoch_, 1);
  }
  end_all(error::peer_lost, {{0, error::peer_lost}});
}

void group_barrier::close()
{
  std::map<std::uint64_t, rdma::rpc::responder<enter_method>> asked;
  {
    const std::lock_guard lock(mutex_);
    asked.swap(asked_);
  }
  end_all(asio::error::operation_aborted, {});
}

} // namespace rdma::detail::rpc
