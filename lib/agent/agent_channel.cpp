//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "agent/agent_channel.hpp"

#include "boost_rdma/context.hpp"
#include "boost_rdma/detail/initiate.hpp"
#include "completion/completion_queue_impl.hpp"

#include <algorithm>
#include <utility>

namespace rdma::detail {
namespace {

constexpr std::uint32_t send_count = 32;

} // namespace

struct agent_channel::received
{
  void operator()(const error_code& ec, std::size_t size)
  {
    self->on_received(receive_index, ec, size);
  }

  std::shared_ptr<agent_channel> self;
  std::uint32_t receive_index;
};

struct agent_channel::sent
{
  void operator()(const error_code& ec, std::size_t) { self->on_sent(place, receive_index, ec); }

  std::shared_ptr<agent_channel> self;
  std::uint32_t place;
  std::uint32_t receive_index;
};

std::shared_ptr<agent_channel> agent_channel::open(
  queue_pair_core& beside, std::weak_ptr<agent_channel_listener> listener)
{
  queue_pair_options options = beside.options_of_sibling();
  options.send_depth = send_count;
  options.receive_depth = receive_count;
  options.max_send_sge = options.max_receive_sge = 1;
  options.max_inline_data = agent_message::encoded_size;
  const rdma::context context = beside.context();
  const auto executor = beside.io_executor();
  registered_buffer memory =
    context.allocate((receive_count + send_count) * agent_message::encoded_size);
  const auto core = queue_pair_core::make(executor, true, protection_domain(context), options);
  try
  {
    const auto result =
      std::make_shared<agent_channel>(core, std::move(memory), std::move(listener));
    error_code ec;
    result->description_ = beside.describe_sibling(*core, ec).text();
    if (ec)
      throw system_error(ec, "cannot create the agents' queue pair");
    core->count_as_work(false);
    for (std::uint32_t i = 0; i != receive_count; ++i)
      result->give_back(i);
    return result;
  }
  catch (...)
  {
    core->close(); // its completion queue would keep it alive
    throw;
  }
}

agent_channel::agent_channel(std::shared_ptr<queue_pair_core> core, registered_buffer memory,
  std::weak_ptr<agent_channel_listener> listener)
  : core_(std::move(core))
  , executor_(core_->io_executor())
  , memory_(std::move(memory))
  , listener_(std::move(listener))
{
  vacant_.reserve(send_count);
  for (std::uint32_t i = send_count; i-- > 0;)
    vacant_.push_back(i);
}

void agent_channel::connect(
  const queue_pair_core& beside, const endpoint_description& remote, error_code& ec)
{
  beside.connect_sibling(*core_, remote, ec);
}

mutable_buffer agent_channel::place_at(std::size_t index) const noexcept
{
  return memory_.slice(index * agent_message::encoded_size, agent_message::encoded_size);
}

void agent_channel::give_back(std::uint32_t receive_index)
{
  if (receive_index != no_receive)
    start_operation<receive_result>(core_.get())(executor_,
      received{shared_from_this(), receive_index}, {.kind = request_kind::receive},
      const_buffer(place_at(receive_index)));
}

void agent_channel::on_received(std::uint32_t receive_index, const error_code& ec, std::size_t size)
{
  if (ec)
    return fail(ec);
  const mutable_buffer place = place_at(receive_index);
  const auto message = agent_message::decode(
    {static_cast<const std::byte*>(place.data()), std::min(size, place.size())});
  const auto listener = listener_.lock();
  if (listener && message)
    listener->on_message(*message, receive_index);
  else if (listener)
    listener->on_malformed();
}

void agent_channel::send(const agent_message& message, std::uint32_t receive_index)
{
  std::uint32_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    if (failed_)
      return; // the listener has been notified
    if (vacant_.empty() || !waiting_.empty())
    {
      waiting_.push_back({message, receive_index});
      core_->count_as_work(true);
      return;
    }
    place = vacant_.back();
    vacant_.pop_back();
  }
  start_send({message, receive_index}, place);
}

void agent_channel::start_send(const outgoing& what, std::uint32_t place)
try
{
  const mutable_buffer bytes = place_at(receive_count + place);
  const agent_message::encoded encoded = what.message.encode();
  std::copy(encoded.begin(), encoded.end(), static_cast<std::byte*>(bytes.data()));
  start_operation<bytes_result>(core_.get())(executor_,
    sent{shared_from_this(), place, what.receive_index}, {.kind = request_kind::send},
    const_buffer(bytes));
}
catch (const std::bad_alloc&)
{
  {
    const std::lock_guard lock(mutex_);
    vacant_.push_back(place);
  }
  throw;
}

void agent_channel::on_sent(std::uint32_t place, std::uint32_t receive_index, const error_code& ec)
{
  if (ec)
    return fail(ec);
  if (receive_index != no_receive)
  {
    const auto listener = listener_.lock();
    if (listener)
      listener->on_answered(receive_index); // before the receive_index is reused
    if (core_->forked())
      return; // a handler called fork(): a thread of the parent may hold the mutex
  }
  try
  {
    give_back(receive_index);
    send_next(place);
  }
  catch (const std::bad_alloc&)
  {
    fail(boost::asio::error::no_memory);
  }
}

// Sends the oldest message that waits from this place.
void agent_channel::send_next(std::uint32_t place)
{
  outgoing next{};
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty())
    {
      vacant_.push_back(place);
      return;
    }
    next = waiting_.front();
    waiting_.pop_front();
    core_->count_as_work(counts_ || !waiting_.empty());
  }
  start_send(next, place);
}

void agent_channel::fail(const error_code& ec)
{
  if (core_->forked())
    return; // a thread of the parent may hold the mutexes
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(failed_, true))
      return;
    waiting_.clear();
  }
  if (const auto listener = listener_.lock())
    listener->on_channel_failed(*this, ec);
}

bool agent_channel::deliver_received()
{
  constexpr int rounds_max = 64; // bound: other threads may complete messages without end
  for (int i = 0; i != rounds_max; ++i)
  {
    const completion_queue_impl::round round = core_->completions().poll(true);
    if (round.busy)
      return false;
    if (round.quiet)
      break;
  }
  return true;
}

void agent_channel::count_as_work(bool counts) noexcept
{
  const std::lock_guard lock(mutex_);
  counts_ = counts;
  core_->count_as_work(counts_ || !waiting_.empty());
}

void agent_channel::close()
{
  core_->close();
  count_as_work(true); // so that the flushed operations are processed
}

} // namespace rdma::detail
