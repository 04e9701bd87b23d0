//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"

#include <boost_rdma/batch.hpp>

#include <boost/asio/buffer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Queue pairs, memory and operations while some step fails.

namespace {

using namespace test;

/// What a round makes, and its operations.
struct host_pair
{
  /// Makes the objects. Returns false if one of them cannot be made.
  bool make(faulty_round& round)
  {
    return round.make(
      [&]
      {
        near.emplace(io, near_context, impatient());
        far.emplace(io, far_context, impatient());
        region.emplace(far_context, 256 * 1024, exposed);
        own.emplace(near_context, 64 * 1024, rdma::access::local_write);
        local = near_context.allocate(64);
        received = far_context.allocate(64);
        connect(*near, *far);
      });
  }

  void operate(faulty_round& round)
  {
    const rdma::remote_buffer remote = region->remote().first(64);
    const auto& receive = round.start([&](auto h) { far->async_receive(received, h); });
    const auto& receive_plain =
      round.start([&](auto h) { far->async_receive(asio::buffer(plain_received), h); });
    const auto& write = round.start([&](auto h) { near->async_write(local, remote, h); });
    const auto& write_plain = round.start([&](auto h)
      { near->async_write(asio::buffer(plain), region->remote().first(plain.size()), h); });
    const auto& read = round.start(
      [&](auto h) { near->async_read(rdma::mutable_buffer(*own).first(64), remote, h); });
    const auto& read_plain = round.start([&](auto h)
      { near->async_read(asio::buffer(plain), region->remote().first(plain.size()), h); });
    const auto& add =
      round.start([&](auto h) { near->async_fetch_add(region->remote().first(8), 1, h); });
    const auto& exchange = round.start(
      [&](auto h) { near->async_compare_exchange(region->remote().first(8), 1, 2, h); });
    const auto& batch = round.start(
      [&](auto h)
      {
        rdma::batch beyond_depth;
        for (std::uint32_t i = 0; i != 2 * send_depth + 1; ++i)
          beyond_depth.write(local, remote);
        near->async_submit(std::move(beyond_depth), h);
      });
    round.await(write, write_plain, read, read_plain, add, exchange, batch);
    const auto& send = round.start([&](auto h) { near->async_send(local, h); });
    const auto& send_plain =
      round.start([&](auto h) { near->async_send(asio::buffer(plain_sent), h); });
    round.await(send, send_plain);
    if (!send.succeeded() || !send_plain.succeeded())
      return; // later messages would arrive in these receives
    round.await(receive, receive_plain);
    const auto& arrived = round.start([&](auto h) { far->async_receive_message(received, h); });
    const auto& arrived_plain =
      round.start([&](auto h) { far->async_receive_message(asio::buffer(plain_received), h); });
    const auto& notify =
      round.start([&](auto h) { near->async_write_with_immediate(local, remote, 1, h); });
    const auto& tell =
      round.start([&](auto h) { near->async_send_with_immediate(asio::buffer(plain_sent), 2, h); });
    round.await(notify, tell);
    if (notify.succeeded() && tell.succeeded())
      round.await(arrived, arrived_plain);
  }

  void run(faulty_round& round)
  {
    if (make(round))
      operate(round);
  }

  void end()
  {
    near.reset();
    far.reset();
    region.reset();
    own.reset();
  }

  [[nodiscard]] bool serves_next()
  {
    rdma::queue_pair from(io, near_context);
    rdma::queue_pair to(io, far_context);
    connect(from, to);
    const rdma::registered_buffer room = far_context.allocate(64);
    bytes_record sent;
    bytes_record arrived;
    to.async_receive(room, arrived.handler());
    from.async_send(buffer_of(near_context, "hello"), sent.handler());
    return run_until(io, [&] { return sent.done() && arrived.done(); }) && !sent.ec && !arrived.ec
      && text_of(room).starts_with("hello");
  }

  // Queue pairs that find out soon that their link, or a receive, could not be made.
  static rdma::queue_pair_options impatient()
  {
    rdma::queue_pair_options options = of_depth(send_depth);
    options.retry_count = 1;
    options.rnr_retry_count = 1;
    return options;
  }

  static constexpr std::uint32_t send_depth = 16;
  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  std::optional<rdma::queue_pair> near;
  std::optional<rdma::queue_pair> far;
  std::optional<rdma::memory_region> region;
  std::optional<rdma::memory_region> own;
  rdma::registered_buffer local;
  rdma::registered_buffer received;
  std::vector<std::byte> plain{200'000};
  std::array<std::byte, 64> plain_sent{};
  std::array<std::byte, 64> plain_received{};
};

} // namespace

TEST_CASE("operations of queue pairs that are made while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // rdma-core ends the process at some places
  with_failing_allocations<host_pair>(false);
}

TEST_CASE("operations of queue pairs that are made while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<host_pair>(false);
}

// A new io_context allocates memory for its first timer. Without memory it has none: an operation
// that only a time limit would end does not end.
TEST_CASE("a batch that is posted while all allocations fail ends once")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // rdma-core ends the process at some places
  const rdma::context near_context = make_context();
  const rdma::context far_context = make_context();
  const rdma::memory_region region(far_context, 64, exposed);
  const rdma::registered_buffer local = near_context.allocate(64);
  bool failed = true;
  for (std::size_t n = 0; failed; ++n)
  {
    CAPTURE(n);
    asio::io_context io;
    rdma::queue_pair near(io, near_context);
    rdma::queue_pair far(io, far_context);
    connect(near, far);
    faulty_round round(io, fault::allocations);
    for (int i = 0; i != 3; ++i)
      round.start([&](auto h) { near.async_write(local, region.remote(), h); });
    rdma::batch batch;
    for (int i = 0; i != 4; ++i) // a device may have room for some of it
      batch.write(local, region.remote());
    failing_allocations failures(n, true);
    const auto& submitted = round.start([&](auto h) { near.async_submit(batch, h); });
    round.await(submitted);
    failures.stop();
    failed = failures.failed() != 0;
    round.check();
  }
}

TEST_CASE("an io_context with pending operations is destroyed without memory")
{
  const auto mark = std::make_shared<int>();
  const rdma::context context = make_context();
  const rdma::registered_buffer memory = context.allocate(8);
  std::optional<asio::io_context> io(std::in_place);
  for (int i = 0; i != 3; ++i)
  {
    const auto pair = std::make_shared<rdma::queue_pair>(*io, context);
    pair->async_receive(memory, [mark, pair](error_code, std::size_t) {});
  }
  {
    failing_allocations failures(0, true);
    io.reset();
  }
  CHECK(mark.use_count() == 1);
}
