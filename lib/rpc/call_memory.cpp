//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/call_memory.hpp"

#include "boost_rdma/detail/initiate.hpp"
#include "completion/queue_pair_core.hpp"
#include "rpc/server_connection.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using form_type = exposed_range::form_type;

namespace {

// A call that is cancelled waits for the parts that are under way.
constexpr std::size_t posted_part_max = 1024 * 1024;
constexpr std::size_t posted_parts = 2;

} // namespace

call_memory::call_memory(
  std::shared_ptr<server_connection> by, std::uint32_t number, std::vector<exposed_range> ranges)
  : by_(std::move(by))
  , number_(number)
  , ranges_(std::move(ranges))
{
}

call_memory::io_executor call_memory::executor() const noexcept
{
  return by_->executor_;
}

std::size_t call_memory::content_bytes() const noexcept
{
  std::size_t result = 0;
  for (const exposed_range& each : ranges_)
    result += each.content.size();
  return result;
}

void call_memory::transfer(const io_executor& executor, const part& what, size_handler handler)
{
  const auto slot = asio::get_associated_cancellation_slot(handler);
  const auto made = std::make_shared<bulk_transfer>(
    shared_from_this(), what, waiting_handler<std::size_t>(executor, std::move(handler)));
  if (by_->forked())
    return std::move(made->handler_).complete(error::forked, 0);
  on_cancellation(slot, std::weak_ptr(made), [](bulk_transfer& each) { each.cancel(); });
  const exposed_range& range = ranges_[what.index];
  const std::size_t bytes = what.local.size();
  const std::unique_lock lock(by_->mutex_);
  if (ended_ || by_->has_ended(lock))
    made->ec_ = asio::error::operation_aborted;
  else if (what.offset > range.size || bytes > range.size - what.offset)
    made->ec_ = error::out_of_range;
  else if (!permits(range.rights, what.pulls ? access::remote_read : access::remote_write))
    made->ec_ = error::remote_right_missing;
  ++active_;
  ++by_->transfers_;
  made->advance(lock);
}

bulk_transfer::bulk_transfer(std::shared_ptr<call_memory> of, const exposed_by_client::part& what,
  waiting_handler<std::size_t> handler)
  : of_(std::move(of))
  , what_(what)
  , handler_(std::move(handler))
{
}

void bulk_transfer::cancel()
{
  if (of_->by_->forked())
    return;
  const lock_type lock(of_->by_->mutex_);
  if (!ec_ && (under_way_ != 0 || started_ != what_.local.size()))
    abort(lock);
}

// Nothing uses the memory of this side for parts that travel in messages.
void bulk_transfer::abort(const lock_type& lock)
{
  ec_ = asio::error::operation_aborted;
  if (of_->ranges_[what_.index].form == form_type::message)
    under_way_ = 0;
  if (under_way_ == 0)
    of_->by_->end_transfer(lock, *this);
}

void bulk_transfer::advance(const lock_type& lock)
{
  server_connection& by = *of_->by_;
  if (of_->ended_ && !ec_ && started_ != what_.local.size())
    return abort(lock);
  while (!ec_ && started_ != what_.local.size())
    switch (of_->ranges_[what_.index].form)
    {
    case form_type::content:
      std::memcpy(const_cast<void*>(what_.local.data()),
        of_->ranges_[what_.index].content.data() + what_.offset, what_.local.size());
      started_ = what_.local.size();
      break;
    case form_type::window:
      if (under_way_ == posted_parts)
        return;
      post_part();
      break;
    case form_type::message:
      if (under_way_ != 0 || !send_part(lock))
        return;
      break;
    }
  if (under_way_ == 0)
    by.end_transfer(lock, *this);
}

// The handler of a one-sided operation. Not one that is called at once: plain memory may be copied.
struct bulk_transfer::posted
{
  void operator()(const error_code& ec, std::size_t)
  {
    if (of->of_->by_->forked())
      return;
    const lock_type lock(of->of_->by_->mutex_);
    of->on_part(lock, ec);
  }
  std::shared_ptr<bulk_transfer> of;
};

void bulk_transfer::post_part()
{
  const exposed_range& range = of_->ranges_[what_.index];
  const std::size_t bytes = std::min(what_.local.size() - started_, posted_part_max);
  queue_pair_core* const through = of_->by_->queue_pair_.get();
  device_keys keys{};
  keys[through->device_index()] = range.key;
  const remote_buffer remote(range.address + what_.offset + started_, bytes, keys, range.rights);
  try
  {
    start_operation<bytes_result>{through}(through->io_executor(), posted{shared_from_this()},
      rdma::detail::request{
        .kind = what_.pulls ? request_kind::read : request_kind::write, .remote = remote},
      const_buffer(static_cast<const std::byte*>(what_.local.data()) + started_, bytes,
        what_.local.registration()));
    ++under_way_; // its handler waits for the mutex
    started_ += bytes;
  }
  catch (const std::bad_alloc&)
  {
    ec_ = asio::error::no_memory;
  }
}

// Returns false if other transfers come first.
bool bulk_transfer::send_part(const lock_type& lock)
{
  server_connection& by = *of_->by_;
  const auto bytes = static_cast<std::uint32_t>(
    std::min<std::size_t>(what_.local.size() - started_, exposed_part::size_max));
  message m;
  m.type = what_.pulls ? message_type::pull : message_type::push;
  m.selector = static_cast<std::uint16_t>(what_.index);
  m.number = of_->number_;
  try
  {
    if (!by.has_turn(*this))
      return false;
    m.detail = number_ = by.next_transfer_;
    by.send_part(lock, m, {what_.offset + started_, bytes},
      std::span(
        static_cast<const std::byte*>(what_.local.data()) + started_, what_.pulls ? 0 : bytes));
  }
  catch (const std::bad_alloc&)
  {
    ec_ = asio::error::no_memory;
    return true;
  }
  ++under_way_;
  started_ += bytes;
  return true;
}

bool bulk_transfer::take_part(
  const lock_type& lock, bool refused, std::span<const std::byte> content)
{
  const std::size_t first = (started_ - 1) / exposed_part::size_max * exposed_part::size_max;
  const std::size_t bytes = started_ - first;
  if (content.size() != (refused || !what_.pulls ? 0 : bytes))
    return false;
  if (!content.empty())
    std::memcpy(static_cast<std::byte*>(const_cast<void*>(what_.local.data())) + first,
      content.data(), bytes);
  on_part(lock, refused ? make_error_code(asio::error::operation_aborted) : error_code());
  return true;
}

void bulk_transfer::on_part(const lock_type& lock, const error_code& ec)
{
  --under_way_;
  if (ec && !ec_)
    ec_ = ec;
  advance(lock);
}

} // namespace rdma::detail::rpc
