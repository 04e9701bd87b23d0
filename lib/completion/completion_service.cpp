//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_service.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cstdint>

namespace rdma::detail {

namespace asio = boost::asio;

asio::execution_context::id completion_service::id;

namespace {

// Depth of a shared queue on a device that does not resize queues.
constexpr std::uint32_t fixed_depth = 8192;

} // namespace

completion_service::completion_service(asio::execution_context& owner)
  : asio::execution_context::service(owner)
{
}

completion_service& completion_service::of(const asio::any_io_executor& executor)
{
  auto& context = asio::query(executor, asio::execution::context);
  if (!asio::has_service<completion_service>(context))
  {
    // Services are shut down in the reverse order of their creation. The events' thread uses these
    // two: it cancels queue pairs' timers until this service's shutdown.
    asio::posix::stream_descriptor reactor_user(executor);
    asio::steady_timer timer_user(executor);
  }
  return asio::use_service<completion_service>(context);
}

std::shared_ptr<completion_queue_impl> completion_service::find_shared(
  device_set* devices, std::size_t device_index)
{
  std::lock_guard lock(mutex_);
  const auto found = shared_.find({devices, device_index});
  return found != shared_.end() ? found->second.lock() : nullptr;
}

std::shared_ptr<completion_queue_impl> completion_service::shared_queue(
  const asio::any_io_executor& executor, const std::shared_ptr<device_set>& devices,
  std::size_t device_index, std::uint32_t reserved)
{
  error_code ec;
  if (auto queue = find_shared(devices.get(), device_index))
  {
    queue->reserve(reserved, ec);
    if (!ec)
      return queue;
    // Another queue replaces one that failed, or that is full and cannot grow (siw).
    const bool full = ec == boost::system::errc::operation_not_supported
      || ec == boost::system::errc::function_not_supported;
    if (!full && ec != error::completion_queue_failed)
      throw system_error(ec, "cannot reserve completions");
  }
  const auto most =
    static_cast<std::uint32_t>(devices->devices[device_index]->attributes().max_cqe);
  completion_queue_options options; // no user chose this depth: a smaller one suffices
  options.depth = std::min(options.depth, most);
  auto made = std::make_shared<completion_queue_impl>(executor, devices, device_index, options);
  if (!made->can_grow())
  {
    options.depth = std::min(std::max(reserved, fixed_depth), most);
    made = std::make_shared<completion_queue_impl>(executor, devices, device_index, options);
  }
  made->reserve(reserved, ec);
  if (ec)
    throw system_error(ec, "cannot reserve completions");
  std::lock_guard lock(mutex_);
  // Removes destroyed queues, which bounds the map. If another thread was faster there are two
  // queues now, and the next queue pairs use this one.
  std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  shared_[{devices.get(), device_index}] = made;
  return made;
}

void completion_service::add(completion_queue_impl* queue)
{
  std::lock_guard lock(mutex_);
  queues_.push_back(queue);
}

void completion_service::remove(completion_queue_impl* queue) noexcept
{
  std::lock_guard lock(mutex_);
  std::erase(queues_, queue);
}

void completion_service::add(std::weak_ptr<abandonable> object)
{
  std::lock_guard lock(mutex_);
  // Removes destroyed objects, which bounds the list.
  std::erase_if(objects_, [](const auto& each) { return each.expired(); });
  objects_.push_back(std::move(object));
}

// Called by io_context::notify_fork(): the child uses the execution context. Its parent's
// operations must not complete there a second time.
void completion_service::notify_fork(asio::execution_context::fork_event event)
{
  if (event != asio::execution_context::fork_child)
    return;
  std::vector<std::shared_ptr<completion_queue_impl>> alive;
  std::vector<std::weak_ptr<abandonable>> objects;
  {
    std::lock_guard lock(mutex_);
    for (completion_queue_impl* queue : queues_)
      if (auto held = queue->weak_from_this().lock(); held && held->forked())
        alive.push_back(std::move(held));
    objects = objects_;
  }
  for (const auto& queue : alive)
    queue->end_in_child();
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->end_in_child();
}

void completion_service::shutdown()
{
  std::vector<std::weak_ptr<abandonable>> objects;
  {
    std::lock_guard lock(mutex_);
    objects.swap(objects_);
  }
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->abandon();
  // Destroying handlers may destroy queue pairs and with them other queues, which then call
  // remove().
  std::shared_ptr<completion_queue_impl> first;
  {
    std::lock_guard lock(mutex_);
    for (completion_queue_impl* queue : queues_)
      if (auto held = queue->weak_from_this().lock())
      {
        queue->service_ = nullptr; // this service does not outlive the queue's other users
        queue->next_ = std::exchange(first, std::move(held));
      }
    queues_.clear();
  }
  for (completion_queue_impl* each = first.get(); each != nullptr; each = each->next_.get())
    each->shutdown();
  while (first)
    first = std::exchange(first->next_, nullptr);
  // During a call the events' thread owns the listener, too, and may destroy it with its timers,
  // which belong to this execution context.
  wait_for_listeners();
}

} // namespace rdma::detail
