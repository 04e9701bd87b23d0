//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/late_tasks.hpp"

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

class late_service final : public asio::execution_context::service
{
public:
  using key_type = late_service;
  static asio::execution_context::id id;

  explicit late_service(asio::execution_context& owner)
    : asio::execution_context::service(owner)
  {
  }

  void set(std::shared_ptr<late_tasks> tasks)
  {
    const std::lock_guard lock(mutex_);
    if (tasks)
      tasks_.swap(tasks);
  }

  [[nodiscard]] std::shared_ptr<late_tasks> tasks() const
  {
    const std::lock_guard lock(mutex_);
    return tasks_;
  }

private:
  void shutdown() override {}

  mutable std::mutex mutex_;
  std::shared_ptr<late_tasks> tasks_;
};

asio::execution_context::id late_service::id;

} // namespace

void run_late_by(asio::execution_context& context, std::shared_ptr<late_tasks> tasks)
{
  asio::use_service<late_service>(context).set(std::move(tasks));
}

bool run_later(
  const asio::any_io_executor& executor, const std::shared_ptr<late_task>& what) noexcept
{
  auto& context = asio::query(executor, asio::execution::context);
  if (!asio::has_service<late_service>(context))
    return false;
  const auto tasks = asio::use_service<late_service>(context).tasks();
  if (tasks)
    tasks->add(what);
  return tasks != nullptr;
}

} // namespace rdma::detail
