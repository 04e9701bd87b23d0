//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"
#include "software/memory_pool_fixture.hpp"

#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/memory_window.hpp>
#include <boost_rdma/shared_receive_queue.hpp>

#include <boost/asio/buffer.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

// Windows, shared receive queues, batches, pools and cached registrations while some step fails.

namespace test::faults_memory {

namespace {

/// A peer that opens a part of its memory by a window, and receives by a shared queue.
struct windows
{
  void run(faulty_round& round)
  {
    if (!round.make([&] { make(); }))
      return;
    remote.reset();
    const auto bind_window = [&]() -> auto&
    {
      return round.start(
        [&](auto h)
        {
          far->async_bind_window(
            *window, rdma::mutable_buffer(*region).first(64), rdma::access::remote_write, h);
        },
        [&](const rdma::remote_buffer& bound) { remote = bound; });
    };
    const auto& bind = bind_window();
    const auto& receive = round.start([&](auto h) { shared->async_receive_message(received, h); });
    round.await(bind);
    if (!bind.succeeded())
      return;
    const auto& write = round.start([&](auto h) { near->async_write(local, *remote, h); });
    const auto& batch = round.start(
      [&](auto h)
      {
        near->async_submit(
          rdma::batch().write(local.first(8), remote->first(8)).send(local.slice(8)), h);
      });
    round.await(write, batch);
    if (!batch.succeeded())
      return; // a later message would arrive in this receive
    round.await(receive);
    const auto& last = round.start([&](auto h) { shared->async_receive_message(received, h); });
    const auto& send =
      round.start([&](auto h) { near->async_send_with_invalidate(local, window->key(), h); });
    round.await(send);
    if (send.succeeded())
      round.await(last);
    round.await(bind_window());
    const auto& invalidate = round.start([&](auto h) { far->async_invalidate(window->key(), h); });
    round.await(invalidate);
  }

  void end()
  {
    near.reset();
    far.reset();
    shared.reset();
    window.reset();
    region.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    make();
    bytes_record sent;
    message_record arrived;
    shared->async_receive_message(received, arrived.handler());
    near->async_send(local, sent.handler());
    const bool ended = run_until(io, [&] { return sent.done() && arrived.done(); });
    end();
    return ended && !sent.ec && !arrived.ec;
  }

  void make()
  {
    shared.emplace(io, far_context);
    rdma::queue_pair_options with_queue = of_depth(8);
    with_queue.receive_from(*shared);
    with_queue.retry_count = with_queue.rnr_retry_count = 1;
    rdma::queue_pair_options impatient = of_depth(8);
    impatient.retry_count = impatient.rnr_retry_count = 1;
    near.emplace(io, near_context, impatient);
    far.emplace(io, far_context, with_queue);
    region.emplace(far_context, 4096, rdma::access::local_write | rdma::access::window_bind);
    window.emplace(far_context);
    local = near_context.allocate(64);
    received = far_context.allocate(64);
    connect(*near, *far);
  }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  std::optional<rdma::shared_receive_queue> shared;
  std::optional<rdma::queue_pair> near;
  std::optional<rdma::queue_pair> far;
  std::optional<rdma::memory_region> region;
  std::optional<rdma::memory_window> window;
  std::optional<rdma::remote_buffer> remote;
  rdma::registered_buffer local;
  rdma::registered_buffer received;
};

/// A pool that grows and is trimmed, and plain memory whose registrations displace each other.
struct registrations
{
  static constexpr std::size_t block = 48 * 1024;       // one in each arena
  static constexpr std::size_t plain_size = 128 * 1024; // beyond what is copied

  registrations() { connect(link.near, link.far); }

  void run(faulty_round& round)
  {
    std::array<rdma::registered_buffer, 4> blocks;
    for (rdma::registered_buffer& each : blocks)
      if (!round.make([&] { each = pool.make_buffer(block); }))
        break;
    const rdma::remote_buffer target = region.remote();
    for (rdma::registered_buffer& each : blocks)
      if (each.size() != 0)
        round.await(
          round.start([&](auto h) { link.near.async_write(each, target.first(block), h); }));
    blocks = {};
    pool.trim();
    for (std::vector<std::byte>& each : plain)
      round.await(round.start(
        [&](auto h) { link.near.async_write(asio::buffer(each), target.first(each.size()), h); }));
  }

  void end() {}

  [[nodiscard]] bool serves_next()
  {
    return pool.statistics().buffers == 0 && code_of_allocation(pool, block, 64) == error_code();
  }

  static rdma::context_options of_small_cache()
  {
    rdma::context_options options;
    options.cache.entries_max = 2;
    return options;
  }

  struct pair
  {
    asio::io_context& io;
    rdma::context near_context = make_context(of_small_cache());
    rdma::context far_context = make_context();
    rdma::queue_pair near{io, near_context};
    rdma::queue_pair far{io, far_context};
  };

  asio::io_context io;
  pair link{io};
  rdma::memory_pool pool{link.near_context, small_arenas()};
  rdma::memory_region region{link.far_context, plain_size, exposed};
  std::vector<std::vector<std::byte>> plain{4, std::vector<std::byte>(plain_size)};
};

} // namespace

TEST_CASE("windows and shared receive queues that are made while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<windows>(false);
}

TEST_CASE("windows and shared receive queues that are made while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<windows>(false);
}

TEST_CASE("pools and registrations that change while allocations fail serve the next operation")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<registrations>(false);
}

TEST_CASE("pools and registrations that change while system calls fail serve the next operation")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<registrations>(false);
}

} // namespace test::faults_memory
