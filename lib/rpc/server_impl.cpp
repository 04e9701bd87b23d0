//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/stream_acceptor_core.hpp"
#include "completion/late_tasks.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/log.hpp"
#include "rpc/server_connection.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using rdma::rpc::server_options;
using rdma::rpc::server_statistics;

namespace {

class server_impl final
  : public server_core
  , public late_task
{
public:
  server_impl(const io_executor& executor, alarm by, std::shared_ptr<stream_acceptor_core> acceptor,
    const server_options& options)
    : executor_(executor)
    , alarm_(std::move(by))
    , acceptor_(std::move(acceptor))
    , options_(options)
  {
  }

  void add(std::unique_ptr<method_handler> method) override
  {
    methods_->push_back(std::make_unique<served_method>(std::move(method), options_.tracer));
  }

  void start() override
  {
    acceptor_->accept(executor_,
      [self = self()](const error_code& ec, std::shared_ptr<stream_core> stream)
      { self->on_accepted(ec, std::move(stream)); });
  }

  void shut_down(const io_executor& executor, plain_handler handler) override
  {
    auto slot = asio::get_associated_cancellation_slot(handler);
    waiting_handler<> waiting(executor, std::move(handler));
    if (process_.foreign())
      return std::move(waiting).complete(error::forked);
    std::vector<std::shared_ptr<server_connection>> all;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || shutting_down_)
        return std::move(waiting).complete(error::closed);
      all = connections();
      on_cancellation(
        std::move(slot), std::weak_ptr(self()), [](server_impl& self) { self.close(); });
      shutting_down_.emplace(std::move(waiting));
    }
    acceptor_->close();
    for (const auto& each : all)
      each->leave();
    end_if_idle();
  }

  void close() override
  {
    if (process_.foreign())
      return; // the parent uses the connections
    std::map<server_connection*, std::weak_ptr<server_connection>> all;
    std::optional<waiting_handler<>> waiting;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      all.swap(connections_); // needs no memory: the destructor of the server closes, too
      waiting.swap(shutting_down_);
    }
    acceptor_->close();
    for (const auto& [key, each] : all)
      if (const auto found = each.lock())
        found->end(asio::error::operation_aborted);
    if (waiting)
      std::move(*waiting).complete(asio::error::operation_aborted);
  }

  [[nodiscard]] bool is_open() const override { return acceptor_->is_open(); }
  [[nodiscard]] endpoint_type local_endpoint() const override
  {
    return acceptor_->local_endpoint();
  }

  [[nodiscard]] server_statistics statistics() const override
  {
    server_statistics result;
    if (process_.foreign())
      return result; // a thread of the parent may have locked the mutex
    for (const auto& each : *methods_)
    {
      auto& method = result.methods.emplace_back();
      method.name = each->handler->description.name;
      each->counters.read(method);
    }
    const std::lock_guard lock(mutex_);
    result.clients = connections_.size();
    result.clients_total = clients_;
    result.clients_refused = clients_refused_;
    return result;
  }

private:
  [[nodiscard]] std::shared_ptr<server_impl> self()
  {
    return std::static_pointer_cast<server_impl>(shared_from_this());
  }

  void run() override
  {
    asio::post(executor_, [self = self()] { self->accept_again(); });
  }

  void accept_again()
  try
  {
    start();
  }
  catch (const std::bad_alloc&)
  {
    static_cast<void>(run_later(executor_, self())); // there is a thread: it has accepted
  }

  void on_accepted(const error_code& ec, std::shared_ptr<stream_core> stream)
  {
    if (ec && ec != asio::error::no_memory) // closed
      return;
    if (!ec)
      serve(stream);
    accept_again();
  }

  void serve(const std::shared_ptr<stream_core>& stream)
  try
  {
    const auto made =
      std::make_shared<server_connection>(stream, executor_, alarm_, methods_, options_,
        [server = std::weak_ptr(self())](server_connection& ended)
        {
          if (const auto self = server.lock())
            self->remove(ended);
        });
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || shutting_down_ || connections_.size() >= options_.clients)
      {
        ++clients_refused_;
        return stream->close();
      }
      connections_.emplace(made.get(), made);
      ++clients_;
    }
    made->open();
  }
  catch (const std::bad_alloc&)
  {
    log_line(spdlog::level::warn, "no memory for a client of methods");
    stream->close();
  }

  void remove(server_connection& ended)
  {
    {
      const std::lock_guard lock(mutex_);
      connections_.erase(&ended);
    }
    end_if_idle();
  }

  void end_if_idle()
  {
    std::optional<waiting_handler<>> waiting;
    {
      const std::lock_guard lock(mutex_);
      if (!shutting_down_ || !connections_.empty())
        return;
      closed_ = true;
      waiting.swap(shutting_down_);
    }
    std::move(*waiting).complete({});
  }

  // The caller has the mutex.
  [[nodiscard]] std::vector<std::shared_ptr<server_connection>> connections() const
  {
    std::vector<std::shared_ptr<server_connection>> result;
    for (const auto& [key, each] : connections_)
      if (auto found = each.lock())
        result.push_back(std::move(found));
    return result;
  }

  const io_executor executor_;
  const process_mark process_;
  const alarm alarm_;
  const std::shared_ptr<stream_acceptor_core> acceptor_;
  const server_options options_;
  const std::shared_ptr<method_table> methods_ = std::make_shared<method_table>();
  mutable std::mutex mutex_;
  std::map<server_connection*, std::weak_ptr<server_connection>> connections_;
  std::uint64_t clients_ = 0; // in all
  std::uint64_t clients_refused_ = 0;
  std::optional<waiting_handler<>> shutting_down_;
  bool closed_ = false;
};

} // namespace

std::shared_ptr<server_core> server_core::make(const io_executor& executor,
  const io_executor& inner, const protection_domain& domain, const endpoint_type& endpoint,
  const server_options& options)
{
  error_code ec;
  if (options.calls == 0 || options.clients == 0 || options.request_max > message::size_max
    || options.flow_bytes < flow::window_min || options.flow_bytes > message::size_max)
    ec = asio::error::invalid_argument;
  std::shared_ptr<stream_acceptor_core> acceptor;
  if (!ec)
    acceptor = stream_acceptor_core::make(executor, inner, domain, endpoint, options.acceptor, ec);
  if (ec)
    throw system_error(ec, "rpc::server");
  return std::make_shared<server_impl>(
    executor, alarm(connection_service::of(inner)), std::move(acceptor), options);
}

void start_shut_down(
  const server_core::io_executor& executor, server_core* core, server_core::plain_handler handler)
{
  start_or_refuse(core, executor, std::move(handler), &server_core::shut_down);
}

} // namespace rdma::detail::rpc
