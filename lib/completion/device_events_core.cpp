//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/device_events_core.hpp"

#include "completion/completion_service.hpp"
#include "completion/waiting_list.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// Events on their way from the reader's thread to handlers.
class device_events_impl final
  : public device_events_core
  , public device_listener
  , public abandonable
  , public std::enable_shared_from_this<device_events_impl>
{
public:
  device_events_impl(const rdma::context& context, device_impl& device, std::size_t capacity)
    : context_(context)
    , device_(device)
    , name_(device.name())
    , capacity_(std::max<std::size_t>(capacity, 1))
  {
  }

  void wait(const asio::any_io_executor& executor, handler_type handler) override;
  [[nodiscard]] bool is_open() const override;
  void cancel() override;
  void close() override;
  void on_device_event(const async_event& news) noexcept override;
  void abandon() noexcept override;
  void end_in_child() override;

private:
  using wait_list = waiting_list<device_event>;

  void withdraw(std::uint64_t id);
  void end_all(const error_code& ec);

  const rdma::context context_; // keeps the device open
  const device_impl& device_;
  const std::string name_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  bool open_ = true;
  bool ended_ = false; // device_fatal was delivered
  std::uint64_t last_id_ = 0;
  std::uint64_t lost_ = 0; // dropped before the first that is kept
  std::deque<device_event> kept_;
  wait_list waiting_; // only while nothing is kept
};

void device_events_impl::wait(const asio::any_io_executor& executor, handler_type handler)
{
  auto slot = asio::get_associated_cancellation_slot(handler);
  waiting_handler<device_event> waiting(executor, std::move(handler));
  if (device_.forked()) // a thread of the parent may have locked the mutex
    return std::move(waiting).complete(error::forked, {});
  std::unique_lock lock(mutex_);
  if (!open_ || (ended_ && kept_.empty()))
  {
    const error_code ec = open_ ? error::device_lost : error::closed;
    lock.unlock();
    return std::move(waiting).complete(ec, {});
  }
  if (!kept_.empty())
  {
    device_event next = std::move(kept_.front());
    kept_.pop_front();
    next.lost = std::exchange(lost_, 0);
    lock.unlock();
    return std::move(waiting).complete(error_code{}, std::move(next));
  }
  const std::uint64_t id = ++last_id_;
  on_cancellation(slot, weak_from_this(), [id](device_events_impl& self) { self.withdraw(id); });
  waiting_.add(id, std::move(waiting));
}

void device_events_impl::withdraw(std::uint64_t id)
{
  std::unique_lock lock(mutex_);
  auto ended = waiting_.take(id);
  lock.unlock();
  wait_list::fail(std::move(ended), asio::error::operation_aborted);
}

void device_events_impl::end_all(const error_code& ec)
{
  std::unique_lock lock(mutex_);
  auto ended = waiting_.take_all();
  lock.unlock();
  wait_list::fail(std::move(ended), ec);
}

bool device_events_impl::is_open() const
{
  const std::lock_guard lock(mutex_);
  return open_;
}

void device_events_impl::cancel()
{
  if (!device_.forked()) // otherwise the waits belong to the parent
    end_all(asio::error::operation_aborted);
}

void device_events_impl::close()
{
  if (device_.forked())
    return;
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    kept_.clear();
  }
  cancel();
}

void device_events_impl::on_device_event(const async_event& news) noexcept
{
  // Handlers are queued with the mutex held: after abandon() nothing is queued to the execution
  // context.
  const std::lock_guard lock(mutex_);
  if (!open_ || ended_)
    return;
  try
  {
    ended_ = news.type == device_event_type::device_fatal;
    device_event event;
    event.type = news.type;
    event.device = name_;
    event.port = news.port;
    event.queue_pair_number = news.queue_pair_number;
    if (waiting_.empty())
    {
      if (kept_.size() == capacity_)
      {
        kept_.pop_front();
        ++lost_;
      }
      kept_.push_back(std::move(event));
      return;
    }
    event.lost = lost_;
    auto first = waiting_.take_front();
    try
    {
      std::move(first.front().handler).complete(error_code{}, std::move(event));
    }
    catch (const std::bad_alloc&)
    {
      waiting_.put_back(std::move(first));
      throw;
    }
    lost_ = 0;
    if (ended_)
      wait_list::fail(waiting_.take_all(), error::device_lost);
  }
  catch (const std::bad_alloc&)
  {
    ++lost_; // reported with the next event
  }
}

void device_events_impl::abandon() noexcept
{
  wait_list::list_type dropped; // destroyed after the lock: their destructors may call this object
  const std::lock_guard lock(mutex_);
  open_ = false;
  dropped = waiting_.take_all();
}

void device_events_impl::end_in_child()
{
  end_all(error::forked);
}

} // namespace

std::shared_ptr<device_events_core> device_events_core::make(const asio::any_io_executor& inner,
  const rdma::context& context, const device_events_options& options)
{
  device_impl& device =
    context.impl()->find_device(options.device, "cannot subscribe to device events");
  auto made = std::make_shared<device_events_impl>(context, device, options.capacity);
  completion_service::of(inner).add(std::weak_ptr<abandonable>(made));
  device.events().subscribe(made);
  if (const error_code ec = device.state()) // between the first check and subscribe()
    throw system_error(ec, "cannot subscribe to device events");
  return made;
}

void start_wait(const asio::any_io_executor& executor, device_events_core* core,
  device_events_core::handler_type handler)
{
  start_or_refuse(core, executor, std::move(handler), &device_events_core::wait);
}

} // namespace rdma::detail
