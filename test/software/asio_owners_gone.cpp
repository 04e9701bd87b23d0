//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests objects whose owner is destroyed while others still use them.

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/batch.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace test;

TEST_CASE("messages of a closed queue pair complete their shared receives")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  rdma::shared_receive_queue_options depth;
  depth.depth = 4;
  rdma::shared_receive_queue shared(io, far_context, depth);
  rdma::queue_pair near(io, near_context);
  rdma::queue_pair far(io, far_context, rdma::queue_pair_options().receive_from(shared));
  rdma::queue_pair other_near(io, near_context);
  rdma::queue_pair other_far(io, far_context, rdma::queue_pair_options().receive_from(shared));
  connect(near, far);
  connect(other_near, other_far);

  rdma::registered_buffer room = far_context.allocate(64);
  std::size_t received = 0;
  std::size_t ended = 0;
  for (int i = 0; i < 4; ++i)
    shared.async_receive_message(room,
      [&](error_code ec, const rdma::message& m)
      {
        ++ended;
        if (!ec && m.queue_pair_number == far.number())
          ++received;
        far.close(); // some of the other messages are in the completion queue
      });
  bytes_record sent[4];
  for (bytes_record& each : sent)
    near.async_send(buffer_of(near_context, "one of four"), each.handler());
  REQUIRE(run_until(io,
    [&]
    {
      return std::all_of(
        std::begin(sent), std::end(sent), [](const bytes_record& r) { return r.done(); });
    }));
  // Messages that the device had received are delivered; the remaining receives serve the other
  // queue pair.
  const auto taken = static_cast<std::size_t>(
    std::count_if(std::begin(sent), std::end(sent), [](const bytes_record& r) { return !r.ec; }));
  CHECK(taken != 0);
  bytes_record last[4];
  for (std::size_t i = taken; i < 4; ++i)
    other_near.async_send(buffer_of(near_context, "another"), last[i].handler());
  REQUIRE(run_until(io, [&] { return ended == 4; }));
  CHECK(received >= taken);
  other_near.close();
  other_far.close();
  shared.close();
  CHECK(run_out(io));
  CHECK(ended == 4);
}

TEST_CASE("a region stays registered while a window is bound to it")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  linked_pair l;
  std::vector<char> own(4096, '.');
  auto region = std::make_optional<rdma::memory_region>(
    l.far_context, own.data(), own.size(), rdma::access::local_write | rdma::access::window_bind);
  auto window = std::make_optional<rdma::memory_window>(l.far_context);
  remote_record bound;
  l.far.async_bind_window(*window, region->first(16), rdma::access::remote_write, bound.handler());
  REQUIRE(run_until(l.io, [&] { return bound.done(); }));
  REQUIRE(bound.ec == error_code());

  region.reset();
  bytes_record r;
  l.near.async_write(buffer_of(l.near_context, "still open"), bound.value(), r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK(std::string(own.data(), 11) == "still open.");

  window.reset();
  bytes_record late;
  l.near.async_write(buffer_of(l.near_context, "TOO LATE"), bound.value(), late.handler());
  REQUIRE(run_until(l.io, [&] { return late.done(); }));
  CHECK(late.ec == rdma::wc_status::remote_access_error);
  CHECK(std::string(own.data(), 11) == "still open.");
  // Nothing refers to the memory now, so it can be registered and exposed again.
  rdma::memory_region again(l.far_context, own.data(), own.size(), exposed);
  CHECK(again.remote().size() == own.size());
}

TEST_CASE("a region stays registered for a window whose bind failed")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  BOOST_RDMA_TEST_NEEDS(unbinds_on_destroy);
  linked_pair l;
  auto region = std::make_optional<rdma::memory_region>(
    l.near_context, 4096, rdma::access::local_write | rdma::access::window_bind);
  rdma::memory_window window(l.near_context);
  // The device has executed the bind but reports it only after the preceding send, which never
  // completes.
  bytes_record sent;
  l.near.async_send(rdma::no_data, sent.handler());
  remote_record bound;
  l.near.async_bind_window(window, region->first(16), rdma::access::remote_write, bound.handler());
  l.near.close();
  region.reset(); // leaves no window without its memory; the sanitizers check this
  REQUIRE(run_until(l.io, [&] { return sent.done() && bound.done(); }));
  CHECK(sent.ec == asio::error::operation_aborted);
  CHECK(bound.ec == asio::error::operation_aborted);
}

TEST_CASE("a submitted batch may be destroyed before its io_context")
{
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  auto alive = std::make_shared<int>();
  {
    asio::io_context io;
    rdma::queue_pair near(io, near_context);
    rdma::queue_pair far(io, far_context);
    connect(near, far);
    rdma::batch batch;
    {
      const rdma::registered_buffer buffers[] = {buffer_of(near_context, "none"),
        buffer_of(near_context, "is"), buffer_of(near_context, "received")};
      for (const rdma::registered_buffer& each : buffers)
        batch.send(each);
      near.async_submit(batch, [alive](error_code, std::size_t) { FAIL("called"); });
    }
    CHECK(alive.use_count() == 2);
    CHECK(near_context.pool_statistics().buffers == 3);
  }
  CHECK(alive.use_count() == 1);
  CHECK(near_context.pool_statistics().buffers == 0);
}
