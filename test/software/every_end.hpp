//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_EVERY_END_HPP
#define BOOST_RDMA_TEST_SOFTWARE_EVERY_END_HPP

#include "common/every_operation.hpp"
#include "common/handlers.hpp"
#include "software/connect_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

// Every operation in every state in which it can end without success.

namespace test {

// State of an operation when it is ended.
enum class place
{
  posted,   // posted to the device, behind a send for which the peer has no receive
  waiting,  // queued by the library because the send or receive queue is full
  unserved, // posted to the device, but the peer is not connected to this queue pair
};

inline rdma::queue_pair_options shallow()
{
  rdma::queue_pair_options options;
  options.send_depth = 4; // a batch of three, and one send before it
  options.receive_depth = 1;
  options.max_inline_data = 0; // so that the device needs the buffers until the end
  options.timeout = 0;         // no time-out for acknowledgements
  return options;
}

// Options with which the device detects the loss of its peer.
inline rdma::queue_pair_options attentive()
{
  rdma::queue_pair_options options = shallow();
  options.timeout = rdma::queue_pair_options().timeout;
  options.retry_count = 2;
  return options;
}

// True if the operation uses memory of the near context's pool: f.local, or the result buffer.
template <class Operation>
constexpr bool has_pool_memory = !std::is_same_v<Operation, bind_window_operation>
  && !std::is_same_v<Operation, invalidate_operation>;

// The result buffers of atomics exist as long as the queue pair.
template <class Operation>
constexpr bool is_atomic = std::is_same_v<Operation, fetch_add_operation>
  || std::is_same_v<Operation, compare_exchange_operation>;

// An operation that does not end by itself, and the state to observe its end.
template <class Operation>
struct outstanding
{
  using value = typename Operation::result;

  // Objects that can own the operation's queues and can be owned by its handler.
  struct queues
  {
    std::optional<rdma::queue_pair> near;
    std::optional<rdma::queue_pair> sharing;
    std::optional<rdma::shared_receive_queue> shared;
  };

  struct handler
  {
    outstanding* to;
    std::shared_ptr<int> handler_token;
    std::shared_ptr<queues> owned;

    template <class... Arguments>
    void operator()(Arguments... arguments)
    {
      to->buffers_when_called = to->near_context.pool_statistics().buffers;
      to->r.set(std::move(arguments)...);
    }
  };

  explicit outstanding(
    place where, bool by_handshake = false, const rdma::queue_pair_options& options = shallow())
    : f(std::in_place, options)
    , near_context(f->near_context)
    , far_context(f->far_context)
  {
    f->shared_options.depth = 1;
    if (by_handshake)
      shake_hands();
    exchange_a_message();
    Operation::arrange(*f);
    if (where == place::unserved)
      be_unknown_to_the_peer();

    for (std::uint32_t i = 0; i < (where == place::waiting ? shallow().send_depth : 1); ++i)
      f->near.async_send(rdma::no_data, other_handler());
    if (where == place::waiting)
    {
      f->near.async_receive(rdma::no_data, other_handler());
      if (f->shared)
        f->shared->async_receive_message(rdma::no_data, other_handler());
    }
    auto own = std::make_shared<queues>();
    owned = own;
    Operation::start(*f,
      asio::bind_cancellation_slot(signal.slot(), handler{this, handler_token, std::move(own)}));
    f->local = rdma::registered_buffer(); // now only the operation owns the buffer
    CHECK(near_context.pool_statistics().buffers == (has_pool_memory<Operation> ? 1 : 0));
  }

  // Connects with a control channel, which detects the peer's end by itself.
  void shake_hands()
  {
    rdma::acceptor acceptor(f->io, f->far_context, loopback());
    connect_fixture::accepted server;
    plain_record connected;
    rdma::queue_pair client(f->io, f->near_context, shallow());
    acceptor.async_accept(server.handler());
    client.async_connect(acceptor.local_endpoint(), connected.handler());
    REQUIRE(run_until(f->io, [&] { return connected.done() && server.calls == 1; }));
    REQUIRE(client.is_connected());
    f->near = std::move(client);
    f->far = std::move(*server.peer);
  }

  // After this exchange, the devices have completed the connection.
  void exchange_a_message()
  {
    bytes_record sent;
    bytes_record received;
    f->far.async_receive(rdma::no_data, received.handler());
    f->near.async_send(rdma::no_data, sent.handler());
    REQUIRE(run_until(f->io, [&] { return sent.done() && received.done(); }));
    REQUIRE(sent.ec == error_code());
  }

  void be_unknown_to_the_peer()
  {
    rdma::queue_pair lonely(f->io, f->near_context, shallow());
    rdma::queue_pair deaf(f->io, f->far_context);
    static_cast<void>(lonely.local_endpoint());
    lonely.connect(deaf.local_endpoint());
    f->near = std::move(lonely);
    f->far = std::move(deaf);
  }

  auto other_handler()
  {
    ++others_started;
    return [this](error_code ec, auto...) { other_errors.push_back(ec); };
  }
  [[nodiscard]] bool all_others_ended_with(const error_code& ec) const
  {
    return std::count(other_errors.begin(), other_errors.end(), ec) == others_started;
  }

  void close()
  {
    f->near.close();
    if (f->shared)
      f->shared->close();
    if (f->sharing)
      f->sharing->close();
  }

  // Moves the queues into `to`, which the handler owns, or which is destroyed at once.
  void hand_over(queues& to)
  {
    to.near.emplace(std::move(f->near));
    if (f->shared)
      to.shared.emplace(std::move(*f->shared));
    if (f->sharing)
      to.sharing.emplace(std::move(*f->sharing));
  }
  void destroy()
  {
    queues gone;
    hand_over(gone);
  }

  // Call it directly after the end: the handler has not been called yet, and is then called once
  // with one of these errors.
  void check_ends_with(std::initializer_list<error_code> errors)
  {
    CHECK(r.calls == 0);
    REQUIRE(run_until(f->io, [&] { return r.calls != 0; }));
    CAPTURE(r.ec);
    CHECK(std::find(errors.begin(), errors.end(), r.ec) != errors.end());
    if constexpr (std::is_same_v<value, std::size_t>)
      CHECK(r.value == 0);
    CHECK(buffers_when_called == (is_atomic<Operation> ? 1 : 0));
  }

  // Checks that run() returns, every handler was called once, and all memory is released.
  void check_nothing_is_left()
  {
    REQUIRE(run_out(f->io));
    CHECK(r.calls == 1);
    CHECK(static_cast<int>(other_errors.size()) == others_started);
    check_all_is_gone();
  }
  void check_all_is_gone()
  {
    const int calls = r.calls;
    f.reset();
    CHECK(r.calls == calls);
    CHECK(handler_token.use_count() == 1);
    CHECK(near_context.pool_statistics().buffers == 0);
    CHECK(near_context.pool_statistics().bytes_allocated == 0);
    CHECK(far_context.pool_statistics().buffers == 0);
  }

  asio::cancellation_signal signal;
  std::shared_ptr<int> handler_token = std::make_shared<int>();
  std::weak_ptr<queues> owned;
  result<value> r;
  std::size_t buffers_when_called = 0;
  int others_started = 0;
  std::vector<error_code> other_errors;
  std::optional<operation_fixture<rdma::queue_pair>> f;
  rdma::context near_context;
  rdma::context far_context;
};

template <class Operation, class Body>
void in_section(const char* name, Body& body)
{
  DYNAMIC_SECTION(name)
  {
    body.template operator()<Operation>();
  }
}

template <class Body>
void with_memory_windows(Body& body)
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  BOOST_RDMA_TEST_NEEDS(unbinds_on_destroy); // closing destroys the queue pair
  in_section<send_with_invalidate_operation>("send_with_invalidate", body);
  in_section<bind_window_operation>("bind_window", body);
  in_section<invalidate_operation>("invalidate", body);
}

template <class Body>
void with_atomics(Body& body)
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  in_section<fetch_add_operation>("fetch_add", body);
  in_section<compare_exchange_operation>("compare_exchange", body);
}

template <class Body>
void with_write_with_immediate(Body& body)
{
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  in_section<write_with_immediate_operation>("write_with_immediate", body);
}

template <class Body>
void with_shared_receive_queues(Body& body)
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  in_section<shared_receive_operation>("shared receive", body);
}

// Operations of a single connection.
template <class Body>
void for_every_operation_of_a_queue_pair(Body body)
{
  in_section<send_operation>("send", body);
  in_section<send_with_immediate_operation>("send_with_immediate", body);
  in_section<receive_operation>("receive", body);
  in_section<receive_message_operation>("receive_message", body);
  in_section<write_operation>("write", body);
  in_section<read_operation>("read", body);
  in_section<submit_operation>("submit", body);
  in_section<submit_in_parts_operation>("submit in parts", body);
  with_write_with_immediate(body);
  with_atomics(body);
  with_memory_windows(body);
}

template <class Body>
void for_every_operation(Body body)
{
  for_every_operation_of_a_queue_pair(body);
  with_shared_receive_queues(body);
}

inline const error_code aborted = asio::error::operation_aborted;

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_EVERY_END_HPP
