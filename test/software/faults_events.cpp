//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_trouble.hpp"
#include "software/faults.hpp"

#include <boost_rdma/device_events.hpp>

#include <deque>
#include <optional>

// Device events while some step fails.

using namespace test;

namespace {

struct event_round
{
  void run(faulty_round& round)
  {
    if (!round.make([&] { events.emplace(io, context); }))
      return;
    const auto& heard = round.start([&](auto handler) { events->async_wait_event(handler); });
    raise();
    raise(); // the first one is lost without memory
    round.await(heard);
  }

  void end() { events.reset(); }

  [[nodiscard]] bool serves_next()
  {
    rdma::device_events next(io, context);
    event_record heard;
    next.async_wait_event(heard.handler());
    raise();
    return run_until(io, [&] { return heard.done(); }) && !heard.ec;
  }

  void raise()
  {
    const spared_faults own;
    failing.emplace_back(device_of(context)).overrun();
  }

  asio::io_context io;
  rdma::context context = make_context();
  std::deque<failing_queue_pair> failing;
  std::optional<rdma::device_events> events;
};

} // namespace

TEST_CASE("waits for device events end once while allocations fail")
{
  faulty_rounds<event_round>(fault::allocation, true).run();
}

TEST_CASE("waits for device events end once while system calls fail")
{
  with_failing_calls<event_round>();
}
