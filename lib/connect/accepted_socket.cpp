//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/accepted_socket.hpp"

#include "boost_rdma/acceptor_options.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/connection_service.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <exception>
#include <new>
#include <utility>

#include <unistd.h>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

using waiting = waiting_handler<connected_peer>;

// The functions of the caller.
struct functions
{
  std::function<queue_pair_settings()> settings;
  std::function<bool()> goes_on;
};

service_awaitable<bool> asks(connection& link, discovery_server& asked, const functions& caller)
{
  const int fd = static_cast<tcp_control_stream&>(link.stream()).socket.native_handle();
  const acceptor_options defaults;
  bool is_asked = false;
  for (;;)
  {
    link.set_deadline(defaults.handshake_timeout);
    if (co_await takes_preamble(link, asked, is_asked, defaults.handshake_timeout / 2))
      co_return true;
    if (link.stopped() || look_at_first_bytes(fd) != first_bytes::none || caller.goes_on())
      co_return false;
    is_asked = true;
  }
}

service_awaitable<error_code> decide(connection& link, discovery_server& asked,
  const asio::any_io_executor& executor, const functions& caller, connected_peer& made)
{
  const acceptor_options defaults;
  if (!co_await asks(link, asked, caller))
  {
    made.why = "the client has not asked for RDMA";
    // The connection must not shut down the program's socket.
    const auto ended = std::move(static_cast<tcp_control_stream&>(link.stream()).socket);
    link.stop(error::refused);
    co_return error_code();
  }
  const client_admission admission(defaults.authorise, executor);
  admitted_client client;
  error_code ec = co_await read_request(link, defaults.target, admission, client);
  unclaimed_queue_pair queue_pair;
  heartbeat_times times;
  if (!ec)
    ec = co_await answer_request(link, caller.settings(), std::move(client), queue_pair, times);
  if (ec)
  {
    link.stop(ec);
    co_return ec;
  }
  link.establish(times);
  made.queue_pair = queue_pair.release();
  co_return ec;
}

service_awaitable<void> run(std::shared_ptr<connection> link,
  std::shared_ptr<discovery_server> asked, asio::any_io_executor executor, functions caller,
  waiting handler)
{
  connected_peer made{.queue_pair = {},
    .socket = std::nullopt,
    .why = {},
    .local = link->stream().local_endpoint(),
    .remote = link->stream().remote_endpoint()};
  error_code ec;
  try
  {
    ec = co_await decide(*link, *asked, executor, caller, made);
  }
  catch (const std::bad_alloc&)
  {
    ec = asio::error::no_memory;
  }
  catch (const system_error& e)
  {
    ec = e.code();
  }
  const bool is_connected = static_cast<bool>(made.queue_pair);
  std::move(handler).complete(ec, std::move(made));
  if (is_connected)
    co_await link->watch();
}

} // namespace

void decide_accepted(const asio::ip::tcp& protocol, int socket,
  std::shared_ptr<discovery_server> asked, const asio::any_io_executor& executor,
  std::function<queue_pair_settings()> settings, std::function<bool()> goes_on,
  asio::any_completion_handler<void(error_code, connected_peer)> handler)
{
  connection_service& service = connection_service::of(executor);
  asio::post(service.io(),
    [&service, protocol, socket, asked = std::move(asked), executor,
      caller = functions{std::move(settings), std::move(goes_on)},
      handler = waiting(executor, std::move(handler))]() mutable
    {
      tcp_control_stream::socket_type copy(service.io());
      error_code ec;
      copy.assign(protocol, socket, ec);
      if (ec)
      {
        ::close(socket);
        return std::move(handler).complete(ec, {});
      }
      auto stream = std::make_unique<tcp_control_stream>(std::move(copy));
      const auto link =
        std::make_shared<connection>(service.io(), service.service_inbox(), std::move(stream));
      asio::co_spawn(service_executor(service.io().get_executor()),
        run(link, std::move(asked), executor, std::move(caller), std::move(handler)),
        [link](const std::exception_ptr& problem)
        {
          if (problem)
            std::rethrow_exception(problem); // to the service, which logs it
        });
    });
}

} // namespace rdma::detail
