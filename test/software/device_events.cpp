//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_trouble.hpp"
#include "common/rdma_fixture.hpp"
#include "completion/queue_pair_core.hpp"
#include "completion/shared_receive_core.hpp"
#include "software/asio_tokens.hpp"

#include <boost_rdma/device_events.hpp>

#include <deque>
#include <thread>
#include <vector>

// Tests device_events and the library's reaction to asynchronous events.

using namespace test;
using rdma::device_event_type;

namespace {

struct wait_event_operation
{
  using result = rdma::device_event;

  template <class QueuePair>
  struct fixture
  {
    asio::io_context io;
    rdma::context context = make_context();
    rdma::basic_device_events<typename QueuePair::executor_type> events{io, context};
    failing_queue_pair trouble{device_of(context)};
  };

  template <class Fixture>
  static void prepare(Fixture&)
  {
  }
  template <class Fixture, class... Token>
  static auto start(Fixture& f, Token&&... token)
  {
    struct afterwards
    {
      Fixture& f;
      ~afterwards() { f.trouble.overrun(); }
    } guard{f};
    return f.events.async_wait_event(std::forward<Token>(token)...);
  }
  template <class Fixture>
  static void check(Fixture&, const rdma::device_event& event)
  {
    CHECK(event.type == device_event_type::completion_queue_error);
    CHECK(event.device == device_name());
    CHECK(event.lost == 0);
  }
};

} // namespace

TEST_CASE("async_wait_event accepts every kind of token")
{
  with_every_token<wait_event_operation>();
}

TEST_CASE("every device_events object receives every event in order")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::device_events first(io, context);
  rdma::device_events second(io, context);
  std::deque<failing_queue_pair> failing_pairs;
  for (int i = 0; i < 3; ++i)
    failing_pairs.emplace_back(device_of(context)).overrun();
  for (rdma::device_events* each : {&first, &second})
    for (int i = 0; i < 3; ++i)
    {
      event_record heard;
      each->async_wait_event(heard.handler());
      CHECK(heard.calls == 0); // handlers are never called inside the initiating call
      REQUIRE(run_until(io, [&] { return heard.done(); }));
      CHECK(heard.ec == error_code());
      CHECK(heard.value().type == device_event_type::completion_queue_error);
      CHECK(heard.value().lost == 0);
      CHECK(heard.value().text().find(device_name() + ": ") == 0);
    }
  plain_record never;
  first.async_wait_event([&](error_code ec, const rdma::device_event&) { never.handler()(ec); });
  io.restart();
  io.poll();
  CHECK(never.calls == 0);
  first.close();
  REQUIRE(run_until(io, [&] { return never.done(); }));
  CHECK(never.ec == asio::error::operation_aborted);
}

TEST_CASE("the oldest wait of a device_events object receives the next event")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::device_events events(io, context);
  event_record older;
  event_record newer;
  events.async_wait_event(older.handler());
  events.async_wait_event(newer.handler());
  failing_queue_pair one(device_of(context));
  one.overrun();
  REQUIRE(run_until(io, [&] { return older.done(); }));
  CHECK(newer.calls == 0);
  failing_queue_pair two(device_of(context));
  two.overrun();
  REQUIRE(run_until(io, [&] { return newer.done(); }));
  CHECK(older.calls == 1);
  CHECK(newer.ec == error_code());
}

TEST_CASE("a full device_events object keeps the newest events and counts the lost ones")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::device_events all(io, context);
  rdma::device_events_options little;
  little.capacity = 2;
  rdma::device_events few(io, context, little);
  std::deque<failing_queue_pair> failing_pairs;
  for (int i = 0; i < 5; ++i)
    failing_pairs.emplace_back(device_of(context)).overrun();
  // `all` was created first and receives events first. When it has received one more event, `few`
  // has received the previous ones.
  for (int i = 0; i < 5; ++i)
  {
    event_record heard;
    all.async_wait_event(heard.handler());
    REQUIRE(run_until(io, [&] { return heard.done(); }));
  }
  event_record sixth;
  all.async_wait_event(sixth.handler());
  failing_pairs.emplace_back(device_of(context)).overrun();
  REQUIRE(run_until(io, [&] { return sixth.done(); }));

  std::uint64_t kept = 0;
  std::uint64_t lost = 0;
  while (kept + lost < 6)
  {
    event_record heard;
    few.async_wait_event(heard.handler());
    REQUIRE(run_until(io, [&] { return heard.done(); }));
    ++kept;
    lost += heard.value().lost;
  }
  CHECK(kept >= 2);
  CHECK(kept <= 3); // two, and the sixth if it arrived while they were taken
  CHECK(kept + lost == 6);
}

TEST_CASE("every cancellation type withdraws a wait for events without losing an event")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::device_events events(io, context);
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
         asio::cancellation_type::total})
  {
    asio::cancellation_signal signal;
    event_record cancelled;
    events.async_wait_event(asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
    signal.emit(type);
    CHECK(cancelled.calls == 0);
    REQUIRE(run_out(io));
    CHECK(cancelled.calls == 1);
    CHECK(cancelled.ec == asio::error::operation_aborted);
    signal.emit(type); // has no effect
  }
  event_record cancelled;
  events.async_wait_event(cancelled.handler());
  events.cancel();
  REQUIRE(run_out(io));
  CHECK(cancelled.ec == asio::error::operation_aborted);
  CHECK(events.is_open());

  failing_queue_pair trouble(device_of(context));
  trouble.overrun();
  event_record heard;
  events.async_wait_event(heard.handler());
  REQUIRE(run_until(io, [&] { return heard.done(); }));
  CHECK(heard.ec == error_code());
}

TEST_CASE("waits end when their device_events object is closed, moved from or destroyed")
{
  asio::io_context io;
  rdma::context context = make_context();
  event_record destroyed;
  {
    rdma::device_events gone(io, context);
    gone.async_wait_event(destroyed.handler());
  }
  rdma::device_events from(io, context);
  event_record moved;
  from.async_wait_event(moved.handler());
  rdma::device_events to(std::move(from));
  event_record empty;
  from.async_wait_event(empty.handler());
  CHECK_FALSE(from.is_open());
  to.close();
  event_record closed;
  to.async_wait_event(closed.handler());
  REQUIRE(run_out(io));
  CHECK(destroyed.ec == asio::error::operation_aborted);
  CHECK(moved.ec == asio::error::operation_aborted);
  CHECK(empty.ec == rdma::error::closed);
  CHECK(closed.ec == rdma::error::closed);
  for (const event_record* each : {&destroyed, &moved, &empty, &closed})
    CHECK(each->calls == 1);

  rdma::device_events_options elsewhere;
  elsewhere.device = "no_such_device";
  try
  {
    rdma::device_events none(io, context, elsewhere);
    FAIL("the constructor did not fail");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == rdma::error::no_device);
    CHECK(std::string(e.what()).find(device_name()) != std::string::npos);
  }
}

TEST_CASE("waits for events are destroyed without a call with their io_context")
{
  rdma::context context = make_context();
  for (int i = 0; i < 20; ++i)
  {
    failing_queue_pair trouble(device_of(context));
    auto alive = std::make_shared<int>();
    {
      asio::io_context io;
      rdma::device_events events(io, context);
      events.async_wait_event([alive](error_code, const rdma::device_event&) { FAIL("called"); });
      std::thread other([&] { trouble.overrun(); });
      other.join();
    }
    CHECK(alive.use_count() == 1);
  }
}

TEST_CASE("a completion queue overrun ends all operations of its queue pairs with an error")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::completion_queue_options shallow;
  shallow.depth = 1;
  rdma::completion_queue queue(io, context, shallow);
  rdma::queue_pair_options options;
  options.send_depth = options.receive_depth = 2;
  options.completions = queue;
  rdma::queue_pair a(io, context, options);
  rdma::queue_pair b(io, context, options);
  rdma::queue_pair bystander(io, context);
  connect(a, b);
  rdma::registered_buffer buffer = context.allocate(64);
  std::vector<bytes_record> ended(6); // two are posted and one waits, on each queue pair
  for (std::size_t i = 0; i < 3; ++i)
  {
    a.async_receive(buffer, ended[i].handler());
    b.async_receive(buffer, ended[3 + i].handler());
  }
  bytes_record untouched;
  bystander.async_receive(buffer, untouched.handler());

  rdma::device_events events(io, context);
  event_record heard;
  events.async_wait_event(heard.handler());
  failing_queue_pair trouble(device_of(context), queue.impl(device_of(context).index())->native());
  trouble.overrun();
  REQUIRE(run_until(io, [&] { return heard.done(); }));
  CHECK(heard.value().type == device_event_type::completion_queue_error);
  REQUIRE(run_until(
    io, [&] { return std::all_of(ended.begin(), ended.end(), [](auto& r) { return r.done(); }); }));
  for (const bytes_record& each : ended)
  {
    CHECK(each.calls == 1);
    CHECK(each.ec == rdma::error::completion_queue_failed);
  }
  CHECK_FALSE(a.is_connected());
  CHECK(a.diagnose().code == rdma::error::completion_queue_failed);
  bytes_record late;
  a.async_send(buffer, late.handler());
  REQUIRE(run_until(io, [&] { return late.done(); }));
  CHECK(late.ec == rdma::error::completion_queue_failed);
  CHECK(untouched.calls == 0);
}

TEST_CASE("a failed shared receive queue ends only its receives and its queue pairs")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue shared(io, context);
  rdma::queue_pair_options on_it;
  on_it.receive_from(shared);
  rdma::queue_pair a(io, context, on_it);
  rdma::queue_pair b(io, context);
  connect(a, b);
  rdma::registered_buffer buffer = context.allocate(64);
  message_record received;
  shared.async_receive_message(buffer, received.handler());
  bytes_record other;
  b.async_receive(buffer, other.handler());
  // No device in the tests can be made to report this event.
  shared.core()->on_device_event({device_event_type::shared_receive_queue_error, 0, 0});
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(received.ec == rdma::error::shared_receive_queue_failed);
  CHECK_FALSE(a.is_connected());
  CHECK(other.calls == 0);
  message_record late;
  shared.async_receive_message(buffer, late.handler());
  bytes_record sent;
  a.async_send(buffer, sent.handler());
  REQUIRE(run_until(io, [&] { return late.done() && sent.done(); }));
  CHECK(late.ec == rdma::error::shared_receive_queue_failed);
  CHECK(sent.ec == rdma::error::shared_receive_queue_failed);
}

TEST_CASE("operations end when the device reports a fatal event of their queue pair")
{
  const auto type =
    GENERATE(device_event_type::queue_pair_fatal, device_event_type::queue_pair_request_error,
      device_event_type::queue_pair_access_error, device_event_type::path_migration_error);
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(64);
  bytes_record received;
  l.near.async_receive(buffer, received.handler());
  l.near.core()->on_device_event({type, 0, l.near.core()->number()});
  REQUIRE(run_until(l.io, [&] { return received.done(); }));
  CHECK(received.ec); // flushed, or queue_pair_failed if the device does not flush
  CHECK_FALSE(l.near.is_connected());
  CHECK(l.near.diagnose().code == rdma::error::queue_pair_failed);
  CHECK(l.near.diagnose().text().find(rdma::describe(type)) != std::string::npos);
}

TEST_CASE("receives end when the peer accesses memory without a right")
{
  linked_pair l;
  rdma::registered_buffer here = l.near_context.allocate(64);
  rdma::registered_buffer there = l.far_context.allocate(64);
  rdma::memory_region exposed_region(l.far_context, 64, exposed);
  rdma::remote_buffer wrong = exposed_region.remote();
  exposed_region = {}; // its key is invalid now
  bytes_record received;
  l.far.async_receive(there, received.handler());
  bytes_record written;
  l.near.async_write(here, wrong, written.handler());
  REQUIRE(run_until(l.io, [&] { return written.done() && received.done(); }));
  CHECK(written.ec == rdma::wc_status::remote_access_error);
  CHECK(received.ec);
}

TEST_CASE("a destroyed queue pair returns all receives to its shared receive queue")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  constexpr std::size_t receives = 64;
  // Many packets, so that a message is being received at the end.
  constexpr std::size_t size = 100'000;
  asio::io_context io;
  rdma::context context = make_context();
  rdma::context far_context = make_context();
  rdma::shared_receive_queue shared(io, context);
  rdma::queue_pair_options on_it;
  on_it.receive_from(shared);
  std::vector<rdma::registered_buffer> buffers;
  std::size_t ended = 0;
  std::size_t good = 0;
  for (std::size_t i = 0; i < receives; ++i)
  {
    buffers.push_back(context.allocate(size));
    shared.async_receive_message(buffers.back(),
      [&](error_code ec, const rdma::message&)
      {
        ++ended;
        good += ec ? 0 : 1;
      });
  }
  rdma::registered_buffer from = far_context.allocate(size);
  while (ended < receives)
  {
    rdma::queue_pair near(io, context, on_it);
    rdma::queue_pair far(io, far_context);
    connect(near, far);
    const std::size_t before = ended;
    for (int i = 0; i < 16; ++i)
      far.async_send(from, [](error_code, std::size_t) {});
    REQUIRE(run_until(io, [&] { return ended != before; }));
    // Closed in the middle of a message. If a receive were lost, the last round would time out.
  }
  CHECK(ended == receives);
  CHECK(good != 0);
}

TEST_CASE("objects can be created and destroyed while their events arrive")
{
  rdma::context context = make_context();
  std::atomic<int> failures{0};
  auto work = [&]
  {
    try
    {
      for (int i = 0; i < 30; ++i)
      {
        asio::io_context io;
        rdma::queue_pair pair(io, context);
        rdma::device_events events(io, context);
        failing_queue_pair trouble(device_of(context));
        plain_record heard;
        events.async_wait_event(
          [&](error_code ec, const rdma::device_event&) { heard.handler()(ec); });
        trouble.overrun();
        if (i % 2 == 0 && !run_until(io, [&] { return heard.done(); }))
          ++failures;
      }
    }
    catch (const std::exception&)
    {
      ++failures;
    }
  };
  std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work)};
  for (std::thread& each : threads)
    each.join();
  CHECK(failures == 0);
}
