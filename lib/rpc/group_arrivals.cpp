//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include <boost/asio/error.hpp>

#include <utility>

// Calls that arrive at a member, and its own handlers.

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::steady_clock;

// The program's handler has not answered. Only its first answer has an effect, and only in time.
class group_impl::own_call final : public running_call
{
public:
  own_call(std::shared_ptr<group_impl> by, record_ptr of)
    : by_(std::move(by))
    , of_(std::move(of))
  {
    content.assign(of_->header.content.begin(), of_->header.content.end());
  }

  void reply(const reply_source& what) override
  {
    std::vector<std::byte> value;
    try
    {
      rdma::rpc::output to(value);
      what.encode(what.value, to);
    }
    catch (...)
    {
      return fail(error_of(std::current_exception()));
    }
    by_->take_own(of_, {}, std::move(value));
  }
  void fail(const error_code& ec) override
  {
    by_->take_own(of_, ec ? ec : make_error_code(error::call_failed), {});
  }

private:
  const std::shared_ptr<group_impl> by_;
  const record_ptr of_;
};

class group_impl::own_arrival final : public arrived_call
{
public:
  own_arrival(std::shared_ptr<own_call> of, time_point deadline, received_content content)
    : arrived_call(of->content, deadline, {}, nullptr)
    , of_(std::move(of))
  {
    received = std::move(content);
  }
  void reply(const reply_source& what) override { of_->reply(what); }
  void fail(const error_code& ec) override { of_->fail(ec); }
  std::shared_ptr<running_call> keep() override { return of_; }

private:
  const std::shared_ptr<own_call> of_;
};

void group_impl::take(
  std::span<const std::byte> request, const rdma::rpc::call_info& info, answer to)
{
  const auto r = decode_group_request(request);
  if (!r || r->members != endpoints_.size()
    || (std::uint64_t{r->root} + r->range.first) % r->members != rank_)
    return to.fail(error::malformed_message);
  record_ptr found;
  bool is_fresh = false;
  error_code ec;
  {
    const lock_type lock(mutex_);
    ec = accept(lock, *r, found, is_fresh);
    if (!ec && r->kind == group_request_kind::part)
      return take_part(lock, found, *r, info, std::move(to));
    if (!ec)
      or_end(lock, found,
        [&]
        {
          const std::uint64_t caller = found->next_caller++;
          found->callers.emplace(caller, std::move(to));
          found->state.add_caller(caller, steady_clock::now());
          advance(lock, found);
        });
  }
  if (ec)
    to.fail(ec);
  else if (is_fresh)
    start_own(found);
}

// Finds or makes the record of a call that has arrived.
error_code group_impl::accept(
  const lock_type& lock, const group_request& r, record_ptr& found, bool& is_fresh)
{
  if (closed_)
    return error::closed;
  std::vector<record_ptr> removed;
  const auto known = history_.find(r, removed);
  for (const record_ptr& each : removed)
  {
    each->removed = true;
    enqueue(lock, each);
  }
  using verdict = group_history<record>::verdict;
  found = known.record;
  if (known.is == verdict::ended)
    return asio::error::timed_out;
  if (known.is == verdict::known)
    return found->header.range == r.range && found->header.members == r.members
      ? error_code()
      : make_error_code(error::malformed_message);
  if (r.kind == group_request_kind::inquiry || r.kind == group_request_kind::part)
    return error::malformed_message;
  group_method* by = nullptr;
  if (const error_code ec = find(r.method, by))
    return ec;
  std::unique_ptr<bulk_content> bulk;
  if (r.kind == group_request_kind::bulk)
  {
    bulk = std::make_unique<bulk_content>(r.bytes, false);
    if (const error_code ec = make_room(lock, *bulk))
      return ec;
  }
  const auto now = steady_clock::now();
  found = std::make_shared<record>(
    *by, r, group_call::plan{r.range, r.fan_out, now + r.left, r.patience}, now);
  append_group_request(found->message, r);
  found->header.content = std::span(found->message).last(r.content.size());
  found->header.method = {};
  found->bulk = std::move(bulk);
  history_.add(r, found);
  is_fresh = true;
  return {};
}

void group_impl::start_own(const record_ptr& of)
{
  if (process_.foreign())
    return;
  std::shared_ptr<own_call> made;
  received_content content;
  {
    const lock_type lock(mutex_);
    if (of->bulk && of->ending) // the memory is the program's again
    {
      of->state.take_own_failure(asio::error::operation_aborted);
      return or_end(lock, of, [&] { advance(lock, of); });
    }
    if (!of->state.waits_for_own() || closed_ || of->finishing
      || (of->bulk && !of->bulk->state.is_complete()))
      return;
    or_end(lock, of, [&] { made = std::make_shared<own_call>(shared_from_this(), of); });
    if (!made)
      return;
    of->own = made;
    if (of->bulk)
      content = {{static_cast<const std::byte*>(of->bulk->memory.data()), of->bulk->memory.size()},
        of->bulk->owner};
  }
  own_arrival arrival(std::move(made), of->ends, std::move(content));
  of->method.handler->start(arrival);
}

void group_impl::take_own(const record_ptr& of, const error_code& ec, std::vector<std::byte> value)
{
  const lock_type lock(mutex_);
  or_end(lock, of,
    [&]
    {
      if (ec)
        of->state.take_own_failure(ec);
      else
        of->state.take_own(std::move(value));
      advance(lock, of);
    });
}

} // namespace rdma::detail::rpc
