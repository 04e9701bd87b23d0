//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

// acceptor_options::authorise: where it is called, and decisions that come later, twice or never.

namespace {

using namespace test;
using namespace std::chrono_literals;

template <class Function>
rdma::acceptor_options options_with(
  Function function, std::chrono::milliseconds handshake_timeout = patience)
{
  rdma::acceptor_options result;
  result.authorise = std::move(function);
  result.handshake_timeout = handshake_timeout;
  return result;
}

// A client that connects to an acceptor.
struct client
{
  client(asio::io_context& io, const rdma::context& context, const tcp::endpoint& to)
    : queue_pair(io, context)
  {
    queue_pair.async_connect(to, connected.handler());
  }
  explicit client(connect_fixture& f)
    : client(f.io, f.client_context, f.acceptor.local_endpoint())
  {
  }

  // Runs io until it is connected, or refused.
  error_code outcome(asio::io_context& io)
  {
    REQUIRE(run_until(io, [&] { return connected.done(); }));
    return connected.ec;
  }

  rdma::queue_pair queue_pair;
  plain_record connected;
};

// Runs an io_context of its own on a thread of its own.
class running_context
{
public:
  ~running_context()
  {
    io.stop();
    thread_.join();
  }
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

  asio::io_context io;

private:
  asio::executor_work_guard<asio::io_context::executor_type> work_{io.get_executor()};
  std::thread thread_{[this] { io.run(); }};
};

// Returns when the library's thread and f.io have processed all that they were given before: a
// client of another acceptor connects after that.
void catch_up(connect_fixture& f)
{
  rdma::acceptor other(f.io, f.server_context, loopback());
  connect_fixture::accepted server;
  other.async_accept(server.handler());
  client next(f.io, f.client_context, other.local_endpoint());
  CHECK(next.outcome(f.io) == error_code());
  REQUIRE(run_until(f.io, [&] { return server.calls != 0; }));
}

} // namespace

TEST_CASE("authorise is called on the thread that runs the acceptor's io_context")
{
  std::thread::id caller;
  connect_fixture f(options_with(
    [&](const rdma::client_request&)
    {
      caller = std::this_thread::get_id();
      return rdma::authorisation::accept();
    }));
  CHECK(f.serves_a_good_client());
  CHECK(caller == std::this_thread::get_id());
}

TEST_CASE("authorise is called on the acceptor's strand")
{
  need(feature::endpoint_descriptions);
  asio::io_context io;
  const auto strand = asio::make_strand(io);
  bool in_strand = false;
  const rdma::context context = make_context();
  rdma::acceptor acceptor(strand, context, loopback(),
    options_with(
      [&](const rdma::client_request&)
      {
        in_strand = strand.running_in_this_thread();
        return rdma::authorisation::accept();
      }));
  connect_fixture::accepted server;
  acceptor.async_accept(server.handler());
  client c(io, context, acceptor.local_endpoint());
  CHECK(c.outcome(io) == error_code());
  CHECK(in_strand);
}

TEST_CASE("authorise is called on the thread of the acceptor's executor when another accepts")
{
  need(feature::endpoint_descriptions);
  const rdma::context context = make_context();
  std::atomic<std::thread::id> caller{};
  asio::io_context io;
  running_context other;
  std::optional<rdma::queue_pair> peer;
  std::promise<void> accepted;
  rdma::acceptor acceptor(other.io, context, loopback(),
    options_with(
      [&](const rdma::client_request&)
      {
        caller = std::this_thread::get_id();
        return rdma::authorisation::accept();
      }));
  acceptor.async_accept(
    [&](error_code, rdma::queue_pair made)
    {
      peer.emplace(std::move(made));
      accepted.set_value();
    });
  client c(io, context, acceptor.local_endpoint());
  CHECK(c.outcome(io) == error_code());
  accepted.get_future().wait();
  CHECK(caller.load() == other.id());
}

TEST_CASE("authorise admits or refuses a client by a handler after a timer")
{
  asio::any_io_executor executor;
  bool in_executor = false;
  connect_fixture f(options_with(
    [&](rdma::client_request request, rdma::authorisation_handler handler)
    {
      const auto timer = std::make_shared<asio::steady_timer>(executor, 20ms);
      timer->async_wait(
        [&, timer, request = std::move(request), handler = std::move(handler)](error_code) mutable
        {
          in_executor =
            asio::get_associated_executor(handler) == asio::any_completion_executor(executor);
          std::move(handler)(request.data() == "good" ? rdma::authorisation::accept("welcome")
                                                      : rdma::authorisation::refuse(401, "who?"));
        });
    }));
  executor = f.io.get_executor();
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());

  client bad(f);
  CHECK(bad.outcome(f.io) == error::refused);
  CHECK(bad.queue_pair.diagnose().reason.find("who?") != std::string::npos);
  CHECK(server.calls == 0);

  rdma::queue_pair good(f.io, f.client_context);
  plain_record connected;
  rdma::connect_options wishes;
  wishes.data = "good";
  good.async_connect(f.acceptor.local_endpoint(), wishes, connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  CHECK(connected.ec == error_code());
  CHECK(good.peer_data() == "welcome");
  CHECK(in_executor);
}

TEST_CASE("authorise as a coroutine runs on the acceptor's executor and decides when it returns")
{
  int calls = 0;
  std::thread::id caller;
  const auto own = std::make_shared<int>(7); // what the lambda captures outlives the coroutine
  connect_fixture f(options_with(
    [&calls, &caller, own](rdma::client_request request) -> asio::awaitable<rdma::authorisation>
    {
      asio::steady_timer timer(co_await asio::this_coro::executor, 5ms);
      co_await timer.async_wait(asio::use_awaitable);
      caller = std::this_thread::get_id();
      if (++calls == 1)
        throw std::runtime_error("no database");
      co_return rdma::authorisation::accept(std::to_string(*own + request.data().size()));
    }));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  client first(f);
  CHECK(first.outcome(f.io) == error::refused);
  CHECK(first.queue_pair.diagnose().reason.find("the server's authorisation failed")
    != std::string::npos);
  client second(f);
  CHECK(second.outcome(f.io) == error_code());
  CHECK(second.queue_pair.peer_data() == "7");
  CHECK(caller == std::this_thread::get_id());
}

TEST_CASE("a client is dropped after handshake_timeout when authorise does not decide")
{
  std::optional<rdma::authorisation_handler> kept;
  connect_fixture f(options_with([&](rdma::client_request, rdma::authorisation_handler handler)
    { kept.emplace(std::move(handler)); },
    100ms));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  client late(f);
  CHECK(late.outcome(f.io) == error::peer_lost);
  REQUIRE(kept);
  std::move (*kept)(rdma::authorisation::accept()); // has no effect any more
  catch_up(f);
  CHECK(server.calls == 0);
  CHECK_FALSE(late.queue_pair.is_connected());
}

TEST_CASE("a client is dropped after handshake_timeout when the acceptor's io_context does not run")
{
  need(feature::endpoint_descriptions);
  int calls = 0;
  const rdma::context context = make_context();
  asio::io_context idle;
  asio::io_context io;
  rdma::acceptor acceptor(idle, context, loopback(),
    options_with(
      [&](const rdma::client_request&)
      {
        ++calls;
        return rdma::authorisation::accept();
      },
      100ms));
  connect_fixture::accepted server;
  acceptor.async_accept(server.handler());
  client c(io, context, acceptor.local_endpoint());
  CHECK(c.outcome(io) == error::peer_lost);
  idle.poll();
  CHECK(calls == 0); // the client has gone
}

TEST_CASE("a client is refused with 500 when authorise drops the handler or throws")
{
  int calls = 0;
  connect_fixture f(options_with(
    [&](rdma::client_request, rdma::authorisation_handler handler)
    {
      switch (++calls)
      {
      case 1:
        return; // destroys the handler
      case 2:
        throw std::runtime_error("no database");
      case 3:
        throw 1;
      default:
        std::move(handler)(rdma::authorisation::accept());
        CHECK_THROWS(std::move(handler)(rdma::authorisation::refuse())); // called already
      }
    }));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  for (int i = 0; i != 3; ++i)
  {
    client c(f);
    CHECK(c.outcome(f.io) == error::refused);
    CHECK(c.queue_pair.diagnose().reason.find("the server's authorisation failed")
      != std::string::npos);
  }
  CHECK(f.serves_a_good_client(server));
}

TEST_CASE("authorise is not called after the acceptor is closed")
{
  int calls = 0;
  connect_fixture f(options_with(
    [&](const rdma::client_request&)
    {
      ++calls;
      return rdma::authorisation::accept();
    }));
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  // The library posts the call while this thread is busy.
  plain_peer peer = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  rdma::queue_pair own(f.io, f.client_context);
  peer.send(good_request(own.local_endpoint()));
  // When a client that came later is refused, the call for the first one has been posted.
  plain_peer later = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  later.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(later.read_header().starts_with("HTTP/1.1 426"));
  f.acceptor.close();
  CHECK(peer.read_end());
  catch_up(f);
  CHECK(calls == 0);
  CHECK(server.ec == asio::error::operation_aborted);
}

TEST_CASE("a decision is ignored when the acceptor was closed or destroyed meanwhile")
{
  std::optional<rdma::authorisation_handler> kept;
  auto f = std::make_unique<connect_fixture>(
    options_with([&](rdma::client_request, rdma::authorisation_handler handler)
      { kept.emplace(std::move(handler)); }));
  connect_fixture::accepted server;
  f->acceptor.async_accept(server.handler());
  {
    client c(*f);
    REQUIRE(run_until(f->io, [&] { return kept.has_value(); }));
    SECTION("closed")
    {
      f->acceptor.close();
      CHECK(c.outcome(f->io) == error::peer_lost);
      SECTION("called")
      {
        std::move (*kept)(rdma::authorisation::accept());
      }
      SECTION("destroyed")
      {
        kept.reset();
      }
      catch_up(*f);
    }
    SECTION("replaced")
    {
      f->acceptor = rdma::acceptor(f->io, f->server_context, loopback());
      CHECK(c.outcome(f->io) == error::peer_lost);
    }
    SECTION("with its io_context") {}
  }
  if (kept)
  {
    f.reset();
    SECTION("called after that")
    {
      std::move (*kept)(rdma::authorisation::accept());
    }
    SECTION("destroyed after that") {}
  }
  kept.reset();
}

TEST_CASE("a handshake in which authorise decides slowly does not give way to other clients")
{
  rdma::acceptor_options options;
  options.handshakes_max = 1;
  std::optional<rdma::authorisation_handler> kept;
  options.authorise = [&](rdma::client_request, rdma::authorisation_handler handler)
  { kept.emplace(std::move(handler)); };
  connect_fixture f(options);
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  client slow(f);
  REQUIRE(run_until(f.io, [&] { return kept.has_value(); }));
  const plain_peer waiting = plain_peer::connect(f.io, f.acceptor.local_endpoint());
  // Meanwhile, the silent client of another acceptor gives way.
  connect_fixture::accepted never;
  rdma::acceptor other(f.io, f.server_context, loopback(), options);
  other.async_accept(never.handler());
  plain_peer silent = plain_peer::connect(f.io, other.local_endpoint());
  const plain_peer next = plain_peer::connect(f.io, other.local_endpoint());
  CHECK(silent.read_end());
  std::move (*kept)(rdma::authorisation::accept());
  CHECK(slow.outcome(f.io) == error_code());
}

TEST_CASE("authorise admits every client when it holds no function")
{
  rdma::acceptor_options options;
  CHECK_FALSE(options.authorise);
  options.authorise = [](const rdma::client_request&) { return rdma::authorisation::refuse(); };
  CHECK(options.authorise);
  options.authorise = nullptr;
  CHECK_FALSE(options.authorise);
  options.authorise = std::function<rdma::authorisation(const rdma::client_request&)>();
  CHECK_FALSE(options.authorise);
  connect_fixture f(options);
  CHECK(f.serves_a_good_client());
}
