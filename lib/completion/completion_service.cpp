//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_service.hpp"

#include <algorithm>
#include <cstdint>

namespace rdma::detail {

namespace asio = boost::asio;

asio::execution_context::id completion_service::id;

completion_service::completion_service(asio::execution_context& owner)
  : asio::execution_context::service(owner)
{
}

completion_service& completion_service::of(const asio::any_io_executor& executor)
{
  return asio::use_service<completion_service>(asio::query(executor, asio::execution::context));
}

std::shared_ptr<completion_queue_impl> completion_service::shared_queue(
  const asio::any_io_executor& executor, const std::shared_ptr<device_set>& devices,
  std::size_t device_index)
{
  {
    std::lock_guard lock(mutex_);
    if (auto found = shared_.find({devices.get(), device_index}); found != shared_.end())
      if (auto queue = found->second.lock())
        return queue;
  }
  completion_queue_options options; // nobody chose this depth: a device that holds less will do
  options.depth = std::min(options.depth,
    static_cast<std::uint32_t>(devices->devices[device_index]->attributes().max_cqe));
  auto made = std::make_shared<completion_queue_impl>(executor, devices, device_index, options);
  std::lock_guard lock(mutex_);
  // Forget those that are gone, so that the map stays as small as what is in use.
  std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  auto [place, inserted] = shared_.try_emplace({devices.get(), device_index}, made);
  if (!inserted)
    if (auto other = place->second.lock())
      return other; // another thread was faster
  place->second = made;
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

void completion_service::shutdown()
{
  // Destroying handlers may destroy queue pairs and with them other queues, which then call remove().
  std::vector<std::shared_ptr<completion_queue_impl>> alive;
  {
    std::lock_guard lock(mutex_);
    for (completion_queue_impl* queue : queues_)
      if (auto held = queue->weak_from_this().lock())
      {
        queue->service_ = nullptr; // this service does not outlive the queue's other users
        alive.push_back(std::move(held));
      }
    queues_.clear();
  }
  for (const auto& queue : alive)
    queue->shutdown();
}

} // namespace rdma::detail
