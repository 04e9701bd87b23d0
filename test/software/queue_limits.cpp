//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/verbs_fixture.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

// Tests queues at and above the limits of the device.

using namespace test;

namespace {

constexpr std::uint32_t absurd = std::numeric_limits<std::uint32_t>::max();

template <class Make>
error_code refusal_of(Make make)
{
  try
  {
    make();
  }
  catch (const rdma::system_error& e)
  {
    return e.code();
  }
  return {};
}

// A context with small completion queues; only the software device has a setting for this.
rdma::context small_context()
{
  rdma::context_options options;
  options.device = rdma::software::device_name;
  options.software.max_completions = 64;
  return rdma::context(options);
}

ibv_device_attr limits_of(const rdma::context& context)
{
  ibv_device_attr limits{};
  REQUIRE(api_under_test().query_device(context.default_device().native_handle(), &limits) == 0);
  return limits;
}

rdma::shared_receive_queue_options queue_of_depth(std::uint32_t depth)
{
  rdma::shared_receive_queue_options options;
  options.depth = depth;
  return options;
}

} // namespace

TEST_CASE("a completion queue is accepted at the limit of the device and refused above it")
{
  asio::io_context io;
  rdma::context context = small_context();
  const std::uint32_t most = context.default_device().max_completions();
  REQUIRE(most == 64);
  for (const std::uint32_t depth : {most + 1, absurd})
    CHECK(refusal_of([&] { rdma::completion_queue(io, context, {.depth = depth}); })
      == rdma::error::queue_too_deep);
  CHECK(refusal_of([&] { rdma::completion_queue(io, context, {.depth = most}); }) == error_code());
}

TEST_CASE("a shared receive queue is accepted at the limit of the device and refused above it")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  const ibv_device_attr limits = limits_of(context);
  const auto most = static_cast<std::uint32_t>(std::min(limits.max_srq_wr, limits.max_cqe));
  for (const std::uint32_t depth : {most + 1, absurd})
    CHECK(refusal_of([&] { rdma::shared_receive_queue(io, context, queue_of_depth(depth)); })
      == rdma::error::queue_too_deep);
  rdma::shared_receive_queue_options deepest = queue_of_depth(most);
  deepest.completions.emplace(io, context, rdma::completion_queue_options{.depth = most});
  CHECK(refusal_of([&] { rdma::shared_receive_queue(io, context, deepest); }) == error_code());
  REQUIRE(run_out(io));
}

TEST_CASE("a shared receive accepts SGEs up to the limit of the device")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  const auto most = static_cast<std::uint32_t>(limits_of(context).max_srq_sge);
  rdma::shared_receive_queue_options options;
  for (const std::uint32_t buffers : {most + 1, absurd})
  {
    options.max_sge = buffers;
    CHECK(refusal_of([&] { rdma::shared_receive_queue(io, context, options); })
      == rdma::error::queue_too_deep);
  }

  options.max_sge = most;
  rdma::shared_receive_queue queue(io, context, options);
  rdma::queue_pair_options sharing;
  sharing.receive_from(queue);
  rdma::queue_pair user(io, context, sharing);
  rdma::queue_pair peer(io, context);
  connect(user, peer);
  rdma::registered_buffer into = context.allocate(most + 1);
  std::vector<rdma::mutable_buffer> buffers;
  for (std::size_t i = 0; i < most; ++i)
    buffers.push_back(into.slice(i, 1));
  message_record received;
  queue.async_receive_message(buffers, received.handler());
  buffers.push_back(into.slice(most, 1));
  message_record refused;
  queue.async_receive_message(buffers, refused.handler());
  rdma::registered_buffer text = buffer_of(context, std::string(most, 'x'));
  peer.async_send(text, [](error_code, std::size_t) {});
  REQUIRE(run_until(io, [&] { return received.done() && refused.done(); }));
  CHECK(received.ec == error_code());
  CHECK(text_of(into.first(most)) == std::string(most, 'x'));
  CHECK(refused.ec == rdma::error::too_many_buffers);
}

TEST_CASE("queues are refused when their completion queue cannot hold their completions")
{
  asio::io_context io;
  rdma::context context = small_context();
  const std::uint32_t most = context.default_device().max_completions();
  REQUIRE(most == 64);
  const rdma::queue_pair_options all = of_depths(most / 2, most / 2);
  CHECK(refusal_of([&] { rdma::queue_pair(io, context, of_depths(most / 2, most / 2 + 1)); })
    == rdma::error::queue_too_deep);
  for (int i = 0; i < 3; ++i) // neither a refused nor a destroyed queue pair reserves completions
  {
    rdma::queue_pair first(io, context, all);
    CHECK(refusal_of([&] { rdma::queue_pair(io, context, of_depths(1, 1)); })
      == rdma::error::queue_too_deep);
    CHECK(first.is_open());
  }

  CHECK(refusal_of([&] { rdma::shared_receive_queue(io, context, queue_of_depth(most + 1)); })
    == rdma::error::queue_too_deep);
  for (int i = 0; i < 3; ++i)
  {
    rdma::shared_receive_queue first(io, context, queue_of_depth(most));
    CHECK(refusal_of([&] { rdma::shared_receive_queue(io, context, queue_of_depth(1)); })
      == rdma::error::queue_too_deep);
    CHECK(refusal_of([&] { rdma::queue_pair(io, context, of_depths(1, 1)); })
      == rdma::error::queue_too_deep);
  }
  CHECK(refusal_of([&] { rdma::queue_pair(io, context, all); }) == error_code());
}
