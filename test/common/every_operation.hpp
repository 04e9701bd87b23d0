//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_EVERY_OPERATION_HPP
#define BOOST_RDMA_TEST_COMMON_EVERY_OPERATION_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <utility>
#include <variant>

// Each asynchronous operation as a type with: the preconditions, the peer's part of a successful
// operation, the start with any token or the default token, and the check of the result.

namespace test {

/// The objects that the operations use. `QueuePair` is the type whose operations are started.
template <class QueuePair>
struct operation_fixture : basic_link<QueuePair>
{
  explicit operation_fixture(
    const rdma::queue_pair_options& near_options = rdma::queue_pair_options())
    : basic_link<QueuePair>(near_options)
    , region(this->far_context, 64, exposed)
    , own_region(this->near_context, 64, rdma::access::local_write | rdma::access::window_bind)
    , local(this->near_context.allocate(16))
    , remote(region.remote())
    , peer_buffer(this->far_context.allocate(64))
    , send_depth(near_options.send_depth)
  {
    fill(local, "0123456789abcdef");
  }

  void peer_receives() { this->far.async_receive_message(peer_buffer, received.handler()); }
  void peer_sends(std::string_view text)
  {
    fill(peer_buffer, text);
    this->far.async_send(peer_buffer.first(text.size()), sent.handler());
  }
  [[nodiscard]] std::uint64_t& number() const { return *region.template as<std::uint64_t>(); }

  rdma::memory_region region;
  rdma::memory_region own_region;
  rdma::registered_buffer local;
  rdma::remote_buffer remote;
  rdma::registered_buffer peer_buffer;
  std::uint32_t send_depth;
  message_record received;
  bytes_record sent;
  rdma::shared_receive_queue_options shared_options;
  std::optional<rdma::basic_shared_receive_queue<typename QueuePair::executor_type>> shared;
  std::optional<rdma::queue_pair> sharing;
  std::optional<rdma::queue_pair> sharing_peer;
  std::optional<rdma::memory_region> peer_bindable;
  std::optional<rdma::memory_window> window;
  rdma::remote_buffer bound;
  rdma::batch batch;
};

/// Defaults of all operations.
struct any_operation
{
  template <class QueuePair>
  using fixture = operation_fixture<QueuePair>;

  /// Prepares the operation for any outcome.
  template <class Fixture>
  static void arrange(Fixture&)
  {
  }
};

struct send_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.peer_receives();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_send(f.local, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 16);
    REQUIRE(run_until(f.io, [&] { return f.received.done(); }));
    CHECK(text_of(f.peer_buffer.first(16)) == "0123456789abcdef");
  }
};

struct send_with_immediate_operation : send_operation
{
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_send_with_immediate(f.local, 0x01020304u, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    send_operation::check(f, n);
    CHECK(f.received.value().immediate == 0x01020304u);
    CHECK_FALSE(f.received.value().written);
  }
};

struct send_with_invalidate_operation : send_operation
{
  template <class Fixture>
  static void arrange(Fixture& f)
  {
    rdma::memory_region& bindable = f.peer_bindable.emplace(
      f.far_context, 64, rdma::access::local_write | rdma::access::window_bind);
    f.window.emplace(f.far_context);
    remote_record bound;
    f.far.async_bind_window(*f.window, bindable, rdma::access::remote_read, bound.handler());
    REQUIRE(run_until(f.io, [&] { return bound.done(); }));
    REQUIRE(bound.ec == error_code());
    f.bound = bound.value();
  }
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    arrange(f);
    f.peer_receives();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_send_with_invalidate(
      f.local, f.window->key(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    send_operation::check(f, n);
    if (has(feature::completion_details))
      CHECK(f.received.value().invalidated_key == f.window->key());
  }
};

struct receive_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.peer_sends("from afar");
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_receive(f.local, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 9);
    CHECK(text_of(f.local.first(9)) == "from afar");
  }
};

struct receive_message_operation : any_operation
{
  using result = rdma::message;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.peer_sends("from afar");
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_receive_message(f.local, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const rdma::message& m)
  {
    CHECK(m.size == 9);
    CHECK_FALSE(m.immediate);
    CHECK_FALSE(m.invalidated_key);
    CHECK(m.queue_pair_number == f.near.number());
    CHECK(text_of(f.local.first(9)) == "from afar");
  }
};

struct shared_receive_operation : any_operation
{
  using result = rdma::message;
  template <class Fixture>
  static void arrange(Fixture& f)
  {
    f.shared.emplace(f.io, f.near_context, f.shared_options);
    rdma::queue_pair_options options;
    options.receive_from(*f.shared);
    f.sharing.emplace(f.io, f.near_context, options);
    f.sharing_peer.emplace(f.io, f.far_context);
    connect(*f.sharing, *f.sharing_peer);
  }
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    arrange(f);
    fill(f.peer_buffer, "shared");
    f.sharing_peer->async_send(f.peer_buffer.first(6), f.sent.handler());
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.shared->async_receive_message(f.local, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const rdma::message& m)
  {
    CHECK(m.size == 6);
    CHECK(m.queue_pair_number == f.sharing->number());
    CHECK(text_of(f.local.first(6)) == "shared");
  }
};

struct write_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.number() = 0;
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_write(f.local, f.remote, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 16);
    CHECK(text_of(f.region.first(16)) == "0123456789abcdef");
  }
};

struct write_with_immediate_operation : write_operation
{
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.peer_receives();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_write_with_immediate(f.local, f.remote, 77u, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    write_operation::check(f, n);
    REQUIRE(run_until(f.io, [&] { return f.received.done(); }));
    CHECK(f.received.value().immediate == 77u);
    CHECK(f.received.value().written);
    CHECK(f.received.value().size == 16);
  }
};

struct read_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    fill(f.region, "exposed to read!");
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_read(f.local, f.remote, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 16);
    CHECK(text_of(f.local) == "exposed to read!");
  }
};

struct fetch_add_operation : any_operation
{
  using result = std::uint64_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.number() = 40;
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_fetch_add(f.remote, 2, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::uint64_t before)
  {
    CHECK(before == 40);
    CHECK(f.number() == 42);
  }
};

struct compare_exchange_operation : any_operation
{
  using result = std::uint64_t;
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    f.number() = 7;
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_compare_exchange(f.remote, 7, 8, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::uint64_t before)
  {
    CHECK(before == 7);
    CHECK(f.number() == 8);
  }
};

struct bind_window_operation : any_operation
{
  using result = rdma::remote_buffer;
  template <class Fixture>
  static void arrange(Fixture& f)
  {
    f.window.emplace(f.near_context);
  }
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    arrange(f);
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_bind_window(*f.window, f.own_region.slice(8, 16), rdma::access::remote_read,
      std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, const rdma::remote_buffer& bound)
  {
    CHECK(bound.size() == 16);
    fill(f.own_region.slice(8), "through a window");
    bytes_record read;
    f.far.async_read(f.peer_buffer.first(16), bound, read.handler());
    REQUIRE(run_until(f.io, [&] { return read.done(); }));
    CHECK(read.ec == error_code());
    CHECK(text_of(f.peer_buffer.first(16)) == "through a window");
  }
};

struct invalidate_operation : any_operation
{
  using result = std::monostate;
  template <class Fixture>
  static void arrange(Fixture& f)
  {
    f.window.emplace(f.near_context);
    remote_record bound;
    f.near.async_bind_window(*f.window, f.own_region, rdma::access::remote_read, bound.handler());
    REQUIRE(run_until(f.io, [&] { return bound.done(); }));
    REQUIRE(bound.ec == error_code());
    f.bound = bound.value();
  }
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    arrange(f);
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_invalidate(f.window->key(), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::monostate)
  {
    bytes_record read;
    f.far.async_read(f.peer_buffer.first(16), f.bound, read.handler());
    REQUIRE(run_until(f.io, [&] { return read.done(); }));
    CHECK(read.ec == rdma::wc_status::remote_access_error);
  }
};

struct submit_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void arrange(Fixture& f)
  {
    f.batch.write(f.local.first(8), f.remote)
      .read(f.own_region.first(8), f.remote)
      .send(f.local.slice(8));
  }
  template <class Fixture>
  static void prepare(Fixture& f)
  {
    arrange(f);
    f.peer_receives();
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    return f.near.async_submit(f.batch, std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 24);
    CHECK(text_of(f.region.first(8)) == "01234567");
    CHECK(text_of(f.own_region.first(8)) == "01234567");
    REQUIRE(run_until(f.io, [&] { return f.received.done(); }));
    CHECK(text_of(f.peer_buffer.first(8)) == "89abcdef");
  }
};

/// A batch that the operation takes, and that is larger than the send queue.
struct submit_in_parts_operation : any_operation
{
  using result = std::size_t;
  template <class Fixture>
  static void arrange(Fixture&)
  {
  }
  template <class Fixture>
  static void prepare(Fixture&)
  {
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    rdma::batch batch;
    for (std::uint32_t i = 0; i < 3 * f.send_depth; ++i)
      batch.write(f.local.slice(i % 16, 1), f.remote.slice(i % 16, 1));
    return f.near.async_submit(std::move(batch), std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture& f, std::size_t n)
  {
    CHECK(n == 3 * f.send_depth);
    CHECK(text_of(f.region.first(16)) == "0123456789abcdef");
  }
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_EVERY_OPERATION_HPP
