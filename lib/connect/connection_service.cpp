//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/connection_service.hpp"

#include "completion/completion_service.hpp"
#include "completion/late_tasks.hpp"
#include "connect/connection.hpp"
#include "connect/log.hpp"
#include "connect/service_executor.hpp"
#include "verbs/signals_blocked.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

asio::execution_context::id connection_service::id;

connection_service::connection_service(asio::execution_context& owner)
  : asio::execution_context::service(owner)
{
  start();
}

void connection_service::start()
{
  io_ = std::make_unique<asio::io_context>();
  inbox_ = std::make_shared<inbox>(*io_);
  late_ = std::make_shared<late_tasks>(inbox_);
  run_late_by(*io_, late_);
  work_ = std::make_unique<asio::executor_work_guard<asio::io_context::executor_type>>(
    io_->get_executor());
  process_ = process_mark();
  const signals_blocked blocked; // the new thread inherits the mask
  const auto without_thread = [this]
  {
    inbox_->close();
    work_.reset();
    io_.reset(); // of() checks it
  };
  try
  {
    asio::steady_timer reactor_user(*io_); // it throws here, not where a socket or timer is made
    thread_ = std::make_unique<std::thread>([this] { run(); });
  }
  catch (const std::system_error& e)
  {
    without_thread();
    throw system_error(error_code(e.code().value(), boost::system::system_category()),
      "cannot start a thread for connections");
  }
  catch (...)
  {
    without_thread();
    throw;
  }
}

connection_service::~connection_service()
{
  // If two threads connect first at the same time, each makes a service, and Asio destroys one.
  connection_service::shutdown();
}

connection_service& connection_service::of(const asio::any_io_executor& executor)
{
  auto& context = asio::query(executor, asio::execution::context);
  if (!asio::has_service<connection_service>(context))
  {
    run_late_by(context, nullptr); // makes the place, which may fail
    // Services are shut down in the reverse order of their creation. The thread uses these, because
    // it creates and destroys queue pairs with their completion queues, so it must end before them.
    completion_service::of(executor);
    asio::posix::stream_descriptor reactor_user(executor);
    asio::steady_timer timer_user(executor);
  }
  auto& service = asio::use_service<connection_service>(context);
  if (service.forked())
    throw system_error(error::forked, "connecting");
  if (!service.io_) // none could be started after fork()
    throw system_error(error_code(EAGAIN, boost::system::system_category()),
      "cannot start a thread for connections");
  run_late_by(context, service.late_);
  return service;
}

void connection_service::run() noexcept
{
  constexpr std::chrono::milliseconds pause{10};
  late_->run_by_this_thread();
  while (!io_->stopped())
  {
    try
    {
      late_->call_kept(); // also after an exception
      if (late_->empty())
        io_->run_one();
      else
      {
        io_->run_one_for(pause);
        late_->run();
      }
    }
    catch (const std::exception& e)
    {
      // Only a lack of memory throws here. That connection is lost, the others continue.
      log_line(spdlog::level::err, "cannot connect: {}", e.what());
    }
  }
  const context_end rest(*io_);
  late_->end();
}

void connection_service::add(std::weak_ptr<abandonable> object)
{
  std::lock_guard lock(mutex_);
  // Remove destroyed objects, so that the list has at most twice as many entries as needed.
  if (objects_.size() >= 2 * objects_at_sweep_)
  {
    std::erase_if(objects_, [](const auto& each) { return each.expired(); });
    objects_at_sweep_ = objects_.size() + 1;
  }
  objects_.push_back(std::move(object));
}

std::shared_ptr<connection> connection_service::make_connection(
  std::unique_ptr<control_stream> stream)
{
  auto made = std::make_shared<connection>(*io_, inbox_, std::move(stream));
  add(made);
  return made;
}

// Called by io_context::notify_fork(): a child that continues to use the execution context needs
// its own thread.
void connection_service::notify_fork(asio::execution_context::fork_event event)
{
  if (event != asio::execution_context::fork_child || !forked())
    return;
  std::vector<std::weak_ptr<abandonable>> objects;
  {
    std::lock_guard lock(mutex_);
    objects.swap(objects_);
  }
  static_cast<void>(thread_.release());
  static_cast<void>(work_.release());
  static_cast<void>(
    io_.release()); // with the parent's connections: its epoll set watches their sockets
  start();
  run_late_by(context(), late_);
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->end_in_child();
}

void connection_service::shutdown()
{
  // Called twice since Boost 1.82: by the destructors of io_context and of its base.
  if (!io_)
    return;
  if (forked())
  {
    // The thread and the connections belong to the parent process.
    static_cast<void>(thread_.release());
    static_cast<void>(work_.release());
    static_cast<void>(io_.release());
    return;
  }
  // Last in the queue, so that last frames which were posted before are sent.
  asio::post(*io_, asio::bind_allocator(slot_allocator<void>(stop_slot_), [this] { io_->stop(); }));
  thread_->join();
  thread_.reset();
  inbox_->close();
  const context_end rest(*io_);
  late_->end();

  std::vector<std::weak_ptr<abandonable>> objects;
  {
    std::lock_guard lock(mutex_);
    objects.swap(objects_);
  }
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->abandon();
  work_.reset();
  io_.reset(); // destroys the handlers that own connections
}

} // namespace rdma::detail
