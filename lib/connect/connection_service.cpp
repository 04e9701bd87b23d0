//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/connection_service.hpp"

#include "completion/completion_service.hpp"
#include "connect/connection.hpp"
#include "connect/log.hpp"
#include "verbs/signals_blocked.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

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
  words_ = std::make_shared<inbox>(*io_);
  work_ = std::make_unique<asio::executor_work_guard<asio::io_context::executor_type>>(
    io_->get_executor());
  process_ = process_mark();
  const signals_blocked blocked; // the new thread inherits the mask
  try
  {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  }
  catch (const std::system_error& e)
  {
    words_->close();
    work_.reset();
    io_.reset(); // by which of() sees it
    throw system_error(error_code(e.code().value(), boost::system::system_category()),
      "cannot start a thread for connections");
  }
}

connection_service::~connection_service()
{
  // Where two threads connect first at the same time, both make a service, and Asio destroys one at
  // once.
  connection_service::shutdown();
}

connection_service& connection_service::of(const asio::any_io_executor& executor)
{
  auto& context = asio::query(executor, asio::execution::context);
  if (!asio::has_service<connection_service>(context))
  {
    // Services are shut down in the reverse order of their making, and the thread uses these: it
    // makes queue pairs with their completion queues, and may be the one to destroy them. It must
    // have ended before they go.
    completion_service::of(executor);
    asio::posix::stream_descriptor reactor_user(executor);
    asio::steady_timer timer_user(executor);
    const auto strand_user =
      asio::make_strand(executor); // the thread posts to those of streams that were upgraded
  }
  auto& service = asio::use_service<connection_service>(context);
  if (service.forked())
    throw system_error(error::forked, "connecting");
  if (!service.io_) // none was to be had after fork()
    throw system_error(error_code(EAGAIN, boost::system::system_category()),
      "cannot start a thread for connections");
  return service;
}

void connection_service::run() noexcept
{
  for (;;)
  {
    try
    {
      io_->run();
      return;
    }
    catch (const std::exception& e)
    {
      // Nothing here throws but for want of memory: that connection is lost, the others go on.
      log_line(spdlog::level::err, "cannot connect: {}", e.what());
    }
  }
}

void connection_service::add(std::weak_ptr<abandonable> object)
{
  std::lock_guard lock(mutex_);
  // Forget those that are gone, so that the list is at most twice as long as what is in use.
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
  auto made = std::make_shared<connection>(*io_, words_, std::move(stream));
  add(made);
  return made;
}

// io_context::notify_fork(): the child goes on with the execution context, and needs a thread of
// its own.
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
    io_.release()); // with the parent's connections, whose sockets its epoll set watches
  start();
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->end_in_child();
}

void connection_service::shutdown()
{
  // Execution contexts may do this twice: from Boost 1.82 on io_context's destructor does, and then
  // its base's.
  if (!io_)
    return;
  if (forked())
  {
    // A child after fork() has no such thread, and the connections are its parent's: neither can be
    // ended here.
    static_cast<void>(thread_.release());
    static_cast<void>(work_.release());
    static_cast<void>(io_.release());
    return;
  }
  // Last in the queue, so that farewells which were posted before still go out.
  asio::post(*io_, [this] { io_->stop(); });
  thread_->join();
  thread_.reset();
  words_->close();

  std::vector<std::weak_ptr<abandonable>> objects;
  {
    std::lock_guard lock(mutex_);
    objects.swap(objects_);
  }
  for (const auto& each : objects)
    if (const auto object = each.lock())
      object->abandon();
  work_.reset();
  io_.reset(); // with the connections, whose only owners are handlers in there
}

} // namespace rdma::detail
