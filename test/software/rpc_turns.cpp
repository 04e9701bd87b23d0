//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/handlers.hpp"
#include "software/rpc_fixture.hpp"

#include "common/catch.hpp"

#include <boost_rdma/completion_queue.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace test::rpc_turns {

namespace asio = boost::asio;
namespace rpc = rdma::rpc;

TEST_CASE("a handler that the library posts does not wait until a thread stops polling")
{
  // The operations of these queue pairs are polled for a second before other handlers run. Each
  // side has a thread of its own, because both poll.
  rdma::completion_queue_options often;
  often.mode = rdma::completion_mode::busy_poll;
  often.spin_slice = std::chrono::seconds(1);
  asio::io_context near_io;
  asio::io_context far_io;
  const rdma::context near_context = make_context();
  const rdma::context far_context = make_context();
  rpc::server_options server_options;
  server_options.acceptor.queue_pair.completions.emplace(far_io, far_context, often);
  rpc::client_options client_options;
  client_options.queue_pair.completions.emplace(near_io, near_context, often);
  rpc::server server(far_io, far_context, {asio::ip::address_v4::loopback(), 0}, server_options);
  rpc::client client(near_io, near_context, client_options);
  const bool pulls = GENERATE(false, true);
  CAPTURE(pulls);
  const rdma::registered_buffer room = far_context.allocate(64 * 1024);
  const rdma::registered_buffer memory = near_context.allocate(64 * 1024);
  server.handle<add>(
    [&](numbers n, const rpc::call_info& call) -> asio::awaitable<std::int32_t>
    {
      if (call.exposed_count() != 0)
        co_await call.exposed(0).async_pull(0, room, asio::use_awaitable);
      co_return n.a + n.b; // without a wait, the coroutine's end is posted
    });
  server.start();
  std::thread far([&] { far_io.run(); });
  const auto stop = [&](asio::io_context*)
  {
    asio::post(far_io, [&] { server.close(); });
    far.join();
  };
  const std::unique_ptr<asio::io_context, decltype(stop)> stopped_at_end(&far_io, stop);
  plain_record connected;
  client.async_connect(server.local_endpoint(), connected.handler());
  REQUIRE(run_until(near_io, [&] { return connected.done(); }));
  REQUIRE(connected.ec == error_code());
  rpc::call_options options;
  if (pulls)
    options.exposed.add(rpc::expose(memory));
  int answered = 0;
  bool wrong = false;
  const std::function<void()> next = [&]
  {
    client.async_call<add>({answered, 1}, options,
      [&](const error_code& ec, std::int32_t sum)
      {
        wrong = wrong || ec || sum != answered + 1;
        if (++answered != 200)
          next();
      });
  };
  next();
  // 200 turns of a second are more than the time limit.
  REQUIRE(run_until(near_io, [&] { return answered == 200; }));
  CHECK_FALSE(wrong);
}

} // namespace test::rpc_turns
