//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/accept_queue.hpp"

#include "boost_rdma/detail/acceptor_core.hpp"
#include "connect/unclaimed_client.hpp"

#include "common/catch.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <vector>

// Tests the queue of both acceptors without a network. The second list holds requests for a
// program, as in the acceptor for RDMA-CM.

namespace test::accepting {
namespace {

namespace asio = boost::asio;
using namespace rdma::detail;
using rdma::error;
using rdma::error_code;

using request = std::shared_ptr<int>;

class queue final : public accept_queue<acceptor_core, unclaimed_client, connected_peer, request>
{
public:
  queue()
    : accept_queue(1)
  {
    open_ = true;
  }

  template <class Result>
  void begin(asio::io_context& io, std::vector<error_code>& results,
    asio::cancellation_slot slot = asio::cancellation_slot())
  {
    start<Result>(io.get_executor(),
      asio::bind_cancellation_slot(
        slot, [&results](error_code ec, const Result&) { results.push_back(ec); }));
  }
  using accept_queue::accept;
  void accept(asio::io_context& io, std::vector<error_code>& results,
    asio::cancellation_slot slot = asio::cancellation_slot())
  {
    begin<accepted>(io, results, slot);
  }
  void get_request(asio::io_context& io, std::vector<error_code>& results)
  {
    begin<request>(io, results);
  }
  void deliver_one()
  {
    unclaimed_client none;
    deliver(lock_type(mutex_), none);
  }
  std::size_t ready_clients()
  {
    const lock_type lock(mutex_);
    return ready(lock);
  }
  void close() override
  {
    {
      const lock_type lock(mutex_);
      CHECK(close_queue(lock).empty());
    }
    cancel();
  }
  void abandon() noexcept override
  {
    contents dropped;
    const lock_type lock(mutex_);
    dropped = abandon_queue(lock);
  }

  std::vector<std::size_t> changes; // number of accepts after each change
  int additions = 0;

private:
  void on_adding(const lock_type&) override { ++additions; }
  void on_changed(const lock_type& lock) override { changes.push_back(waiting<accepted>(lock)); }
};

} // namespace

TEST_CASE("an accept queue completes each operation once and reports each change")
{
  asio::io_context io;
  const auto tested = std::make_shared<queue>();
  asio::cancellation_signal first;
  std::vector<error_code> accepts, requests;
  tested->accept(io, accepts, first.slot());
  tested->accept(io, accepts);
  tested->get_request(io, requests);
  CHECK(tested->additions == 3);
  CHECK(tested->changes == std::vector<std::size_t>{1, 2, 2});
  SECTION("a delivery completes the oldest accept")
  {
    tested->deliver_one();
    CHECK(accepts.empty());                        // not inside the call
    first.emit(asio::cancellation_type::terminal); // completed already
    io.poll();
    CHECK(accepts == std::vector<error_code>{error_code()});
    CHECK(requests.empty());
  }
  SECTION("a cancellation signal withdraws only its operation")
  {
    first.emit(asio::cancellation_type::none);
    first.emit(asio::cancellation_type::total);
    CHECK(tested->changes.back() == 1);
    io.poll();
    CHECK(accepts == std::vector<error_code>{asio::error::operation_aborted});
    CHECK(requests.empty());
  }
  SECTION("cancelling ends all operations of all lists and the queue stays open")
  {
    tested->cancel();
    tested->accept(io, accepts);
    io.poll();
    CHECK(accepts == std::vector<error_code>(2, asio::error::operation_aborted));
    CHECK(requests == std::vector<error_code>{asio::error::operation_aborted});
    CHECK(tested->changes.back() == 1);
  }
  SECTION("closing ends all operations and refuses others")
  {
    tested->close();
    tested->deliver_one();
    CHECK(tested->ready_clients() == 0);
    tested->get_request(io, requests);
    io.poll();
    CHECK(accepts == std::vector<error_code>(2, asio::error::operation_aborted));
    CHECK(requests == std::vector<error_code>{asio::error::operation_aborted, error::closed});
    CHECK(tested->additions == 3);
  }
  SECTION("a child process ends all operations with forked")
  {
    tested->end_in_child();
    io.poll();
    CHECK(accepts == std::vector<error_code>(2, error::forked));
    CHECK(requests == std::vector<error_code>{error::forked});
  }
  SECTION("abandoning destroys the handlers without a call")
  {
    tested->abandon();
    io.poll();
    CHECK(accepts.empty());
    CHECK(requests.empty());
  }
  tested->abandon();
}

TEST_CASE("an accept queue keeps a bounded number of clients and skips those that have left")
{
  asio::io_context io;
  const auto tested = std::make_shared<queue>();
  std::vector<error_code> accepts;
  tested->deliver_one();
  tested->deliver_one();
  CHECK(tested->ready_clients() == 1);
  tested->accept(io, accepts);
  io.poll();
  CHECK(accepts.empty()); // the client is not connected
  CHECK(tested->ready_clients() == 0);
  CHECK(tested->changes == std::vector<std::size_t>{1});
  tested->abandon();
}

} // namespace test::accepting
