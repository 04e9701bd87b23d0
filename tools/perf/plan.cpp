//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/plan.hpp"

#include "perf/transports.hpp"

#include <algorithm>

namespace perf {
namespace {

constexpr std::uint32_t small = 64;
constexpr std::uint32_t large = 1u << 20;
constexpr std::uint32_t large_depth = 8;
constexpr std::uint32_t region = 256u << 20;
constexpr std::uint32_t region_quick = 32u << 20;
constexpr std::uint32_t perftest_size = 65536;
constexpr std::uint32_t streams_at_once = 256;

// Deep enough that small messages do not wait for one another, but with a limit on the bytes in
// flight.
std::uint32_t depth_for(std::uint32_t size)
{
  return std::clamp((16u << 20) / size, large_depth, 64u);
}

class planner
{
public:
  explicit planner(const settings& how)
    : how_(how)
  {
  }

  // Adds a case for each transport, except those that the contender does not support.
  void each_transport(group& to, test_case what) const
  {
    for (std::size_t i = 0; i < transports().size(); ++i)
    {
      // UCX is configured by wire, which a NIC does not have.
      const bool nic = !transports()[i].software;
      if (what.contender == contender::ucx && nic)
        continue;
      what.transport = static_cast<std::uint8_t>(i);
      to.cases.push_back(what);
    }
  }

  [[nodiscard]] group send_latency() const
  {
    group to{"send_latency", size_text(small) + " send and receive, one way", measure::latency,
      group::axis::none, {}, {}};
    for (const auto mode : {adaptive, busy, event})
      for (const token how :
        {token::callback, token::deferred, token::future, token::awaitable, token::coroutine})
        each_transport(to, {.token = how, .mode = mode});
    each_transport(to, small_send_raw(0));
    to.cases.push_back(small_send_tcp());
    to.cases.push_back({.contender = contender::tcp, .token = token::awaitable, .mode = event});
    to.cases.push_back({.contender = contender::tcp, .mode = busy});
    each_transport(to, small_send_ucx(0));
    return to;
  }

  [[nodiscard]] group streams() const
  {
    group to{"streams", size_text(small) + " in a stream, one way", measure::latency,
      group::axis::none, {}, {}};
    for (const auto mode : {adaptive, busy, event})
      each_transport(to, small_stream(0, mode));
    to.cases.push_back(small_send_tcp());
    to.cases.push_back({.contender = contender::local_socket, .mode = event});
    return to;
  }

  [[nodiscard]] group many_streams() const
  {
    group to{"many_streams",
      size_text(small) + " there and back, " + std::to_string(streams_at_once) + " streams at once",
      measure::bandwidth, group::axis::none, {}, {}};
    each_transport(to, perf::many_streams(0));
    to.cases.push_back(many_sockets(contender::tcp));
    to.cases.push_back(many_sockets(contender::local_socket));
    return to;
  }

  [[nodiscard]] group operations() const
  {
    group to{"operations", "one-sided operations, until completed", measure::latency,
      group::axis::none, {}, {}};
    for (const operation what : {operation::write, operation::read, operation::fetch_add})
    {
      const std::uint32_t size = what == operation::fetch_add ? sizeof(std::uint64_t) : small;
      for (const auto mode : {adaptive, busy, event})
        each_transport(to, {.operation = what, .mode = mode, .size = size});
      each_transport(
        to, {.contender = contender::raw, .operation = what, .mode = busy, .size = size});
    }
    return to;
  }

  [[nodiscard]] group objects() const
  {
    group to{"objects", "remote objects of " + size_text(small) + ", until completed",
      measure::latency, group::axis::none, {}, {}};
    for (const operation what :
      {operation::read, operation::load, operation::store, operation::find, operation::call})
      each_transport(to, object(what, 0));
    each_transport(to, read_of_many(0));
    return to;
  }

  [[nodiscard]] group ring() const
  {
    group to{"ring", "records of 16 B in a remote ring, and as messages", measure::bandwidth,
      group::axis::none, {}, {}};
    each_transport(to, ring_records(0));
    each_transport(
      to, {.measure = measure::bandwidth, .size = ring_records(0).size, .depth = depth_for(small)});
    return to;
  }

  [[nodiscard]] group calls() const
  {
    group to{"calls", "empty calls of a method, and messages there and back", measure::latency,
      group::axis::none, {}, {}};
    for (const auto mode : {adaptive, busy})
      each_transport(to, empty_calls(0, mode));
    each_transport(to, object(operation::call, 0));
    return to;
  }

  [[nodiscard]] group many_calls() const
  {
    group to{"many_calls", "empty calls of a method, 64 in flight", measure::bandwidth,
      group::axis::none, {}, {}};
    for (const auto mode : {adaptive, busy})
      each_transport(to, many_empty_calls(0, mode));
    return to;
  }

  [[nodiscard]] group many_clients() const
  {
    group to{"many_clients",
      size_text(small) + " there and back, " + std::to_string(streams_at_once) + " clients at once",
      measure::bandwidth, group::axis::none, {}, {}};
    each_transport(to, perf::many_clients(0));
    to.cases.push_back(many_sockets(contender::tcp));
    return to;
  }

  [[nodiscard]] group deadlines() const
  {
    group to{"deadlines",
      "time after the deadline of calls that expose 64 KiB and are not answered", measure::latency,
      group::axis::none, {}, {}};
    each_transport(to, expired_calls(0));
    return to;
  }

  [[nodiscard]] group pulls() const
  {
    group to{"pulls", "calls whose handler pulls 1 MiB, and reads", measure::bandwidth,
      group::axis::none, {}, {}};
    for (const std::uint32_t pulls : {1U, 256U})
      each_transport(to, large_pull(0, contender::rpc, pulls));
    each_transport(to, large_pull(0, contender::library));
    return to;
  }

  [[nodiscard]] group latency_by_size() const
  {
    group to{"latency_by_size", "send and receive, one way, by size", measure::latency,
      group::axis::size, {}, {}};
    for (const std::uint32_t size : how_.sizes)
    {
      each_transport(to, {.size = size});
      each_transport(to, {.contender = contender::raw, .mode = busy, .size = size});
      to.cases.push_back({.contender = contender::tcp, .mode = event, .size = size});
      each_transport(to, {.contender = contender::ucx, .mode = busy, .size = size});
    }
    return to;
  }

  [[nodiscard]] group bandwidth_by_size() const
  {
    group to{"bandwidth_by_size", "bandwidth, many in flight, by size", measure::bandwidth,
      group::axis::size, {}, {}};
    for (const std::uint32_t size : how_.sizes)
    {
      const std::uint32_t depth = depth_for(size);
      for (const operation what : {operation::write, operation::send, operation::read})
        each_transport(
          to, {.measure = measure::bandwidth, .operation = what, .size = size, .depth = depth});
      each_transport(to,
        {.contender = contender::raw,
          .measure = measure::bandwidth,
          .operation = operation::write,
          .mode = busy,
          .size = size,
          .depth = depth});
      to.cases.push_back(
        {.contender = contender::tcp, .measure = measure::bandwidth, .mode = event, .size = size});
      to.cases.push_back(
        {.contender = contender::memory, .measure = measure::bandwidth, .size = size});
      for (const operation what : {operation::write, operation::send})
        each_transport(to,
          {.contender = contender::ucx,
            .measure = measure::bandwidth,
            .operation = what,
            .mode = busy,
            .size = size});
    }
    return to;
  }

  [[nodiscard]] group large_blocks() const
  {
    group to{"large", size_text(large) + " blocks", measure::bandwidth, group::axis::none, {}, {}};
    const auto add = [&](test_case what) { each_transport(to, what); };
    test_case write = large_write(0);
    for (const auto mode : {adaptive, busy, event})
    {
      write.mode = mode;
      add(write);
    }
    test_case send = large_send(0);
    for (const auto mode : {adaptive, busy, event})
    {
      send.mode = mode;
      add(send);
    }
    test_case read = large_send(0);
    read.operation = operation::read;
    add(read);
    for (const std::uint32_t queue_pairs : {2u, 4u})
    {
      test_case several = large_write(0);
      several.queue_pairs = queue_pairs;
      several.depth = large_depth / queue_pairs;
      add(several);
    }
    test_case raw = large_write(0);
    raw.contender = contender::raw;
    raw.mode = busy;
    add(raw);
    add(large_write(0, many_buffers));
    add(own_memory(large_write(0)));
    to.cases.push_back(large_memory(1));
    to.cases.push_back(large_memory(many_buffers));
    to.cases.push_back(own_memory(large_memory(1)));
    add(large_stream(0));
    to.cases.push_back(large_tcp());
    test_case unix_sockets = large_tcp();
    unix_sockets.contender = contender::local_socket;
    to.cases.push_back(unix_sockets);
    test_case connections = large_tcp();
    connections.queue_pairs = 4;
    to.cases.push_back(connections);
    add(large_ucx(0, operation::write));
    add(large_ucx(0, operation::send));
    return to;
  }

  [[nodiscard]] group first_writes() const
  {
    group to{"first_write", size_text(how_.quick ? region_quick : region) + " write to new memory",
      measure::bandwidth, group::axis::none, {}, {}};
    for (const std::uint32_t use : {1u, 2u})
    {
      test_case what = first_write(0, use);
      if (how_.quick)
        what.size = region_quick;
      each_transport(to, what);
    }
    return to;
  }

  [[nodiscard]] group small_blocks() const
  {
    group to{"small", size_text(small) + " writes", measure::bandwidth, group::axis::none, {}, {}};
    const auto add = [&](test_case what) { each_transport(to, what); };
    for (const contender who : {contender::library, contender::raw})
    {
      test_case one = small_writes(who, 0, 64, 1);
      one.mode = busy;
      add(one);
      test_case batches = small_writes(who, 0, 8, 32);
      batches.mode = busy;
      add(batches);
    }
    add(small_writes(contender::library, 0, 64, 1));
    add(small_writes(contender::library, 0, 8, 32));
    test_case several = small_writes(contender::library, 0, 16, 1);
    several.queue_pairs = 4;
    add(several);
    to.cases.push_back({.contender = contender::tcp, .measure = measure::bandwidth, .mode = event});
    to.cases.push_back(small_writes_tcp());
    add({.contender = contender::ucx,
      .measure = measure::bandwidth,
      .operation = operation::write,
      .mode = busy});
    return to;
  }

  [[nodiscard]] group scattered_reads() const
  {
    group to{"reads", "256 B reads from 10,000 places in turn", measure::bandwidth,
      group::axis::none, {}, {}};
    each_transport(to, perf::scattered_reads(0));
    each_transport(to, own_memory(perf::scattered_reads(0)));
    return to;
  }

  // Uses the first transport, because perftest chooses the best one like this library.
  [[nodiscard]] static group beside_perftest(measure what)
  {
    const bool latency = what == measure::latency;
    group to{latency ? "perftest_latency" : "perftest_bandwidth",
      latency ? size_text(small) + " send, one way, compared with perftest"
              : size_text(perftest_size) + " writes, 128 in flight, compared with perftest",
      what, group::axis::none, {}, {}};
    for (const contender who : {contender::library, contender::perftest})
      to.cases.push_back(latency ? perftest_send(who) : perftest_write(who));
    return to;
  }

private:
  const settings& how_;
};

} // namespace

test_case small_send(std::size_t transport, rdma::completion_mode mode, token how)
{
  return {.token = how, .mode = mode, .transport = static_cast<std::uint8_t>(transport)};
}

test_case small_send_raw(std::size_t transport)
{
  return {
    .contender = contender::raw, .mode = busy, .transport = static_cast<std::uint8_t>(transport)};
}

test_case small_send_tcp()
{
  return {.contender = contender::tcp, .mode = event};
}

test_case small_send_ucx(std::size_t transport)
{
  return {
    .contender = contender::ucx, .mode = busy, .transport = static_cast<std::uint8_t>(transport)};
}

test_case small_stream(std::size_t transport, rdma::completion_mode mode)
{
  return {.contender = contender::stream,
    .mode = mode,
    .transport = static_cast<std::uint8_t>(transport)};
}

test_case large_write(std::size_t transport, std::uint32_t buffers)
{
  return {.measure = measure::bandwidth,
    .operation = operation::write,
    .transport = static_cast<std::uint8_t>(transport),
    .size = large,
    .depth = large_depth,
    .buffers = buffers};
}

test_case large_send(std::size_t transport)
{
  test_case what = large_write(transport);
  what.operation = operation::send;
  return what;
}

test_case large_memory(std::uint32_t buffers)
{
  return {.contender = contender::memory,
    .measure = measure::bandwidth,
    .size = large,
    .buffers = buffers};
}

test_case first_write(std::size_t transport, std::uint32_t use)
{
  return {.measure = measure::bandwidth,
    .operation = operation::write,
    .transport = static_cast<std::uint8_t>(transport),
    .size = region,
    .use = use};
}

test_case large_tcp()
{
  return {.contender = contender::tcp, .measure = measure::bandwidth, .mode = event, .size = large};
}

test_case object(operation what, std::size_t transport)
{
  return {.contender = contender::object,
    .operation = what,
    .transport = static_cast<std::uint8_t>(transport)};
}

test_case read_of_many(std::size_t transport)
{
  test_case what = object(operation::read, transport);
  what.buffers = 16'384; // of 64 B: about the memory of the map that operation::find uses
  return what;
}

test_case ring_records(std::size_t transport)
{
  test_case what = object(operation::push, transport);
  what.measure = measure::bandwidth;
  what.size = 16;
  return what;
}

test_case empty_calls(std::size_t transport, rdma::completion_mode mode)
{
  test_case what = object(operation::call, transport);
  what.contender = contender::rpc;
  what.mode = mode;
  return what;
}

test_case many_empty_calls(std::size_t transport, rdma::completion_mode mode)
{
  test_case what = empty_calls(transport, mode);
  what.measure = measure::bandwidth;
  what.depth = 64;
  return what;
}

test_case many_clients(std::size_t transport)
{
  test_case what = many_empty_calls(transport, adaptive);
  what.depth = 1;
  what.queue_pairs = streams_at_once;
  return what;
}

test_case expired_calls(std::size_t transport)
{
  test_case what = empty_calls(transport, adaptive);
  what.operation = operation::expire;
  what.size = 64 * 1024;
  what.depth = 16;
  return what;
}

test_case large_pull(std::size_t transport, contender who, std::uint32_t pulls)
{
  return {.contender = who,
    .measure = measure::bandwidth,
    .operation = operation::read,
    .transport = static_cast<std::uint8_t>(transport),
    .size = large,
    .depth = 4,
    .batch = pulls,
    .buffers = 16}; // more than the caches of a processor
}

test_case large_stream(std::size_t transport)
{
  return {.contender = contender::stream,
    .measure = measure::bandwidth,
    .transport = static_cast<std::uint8_t>(transport),
    .size = large};
}

test_case many_streams(std::size_t transport)
{
  test_case what = many_sockets(contender::stream);
  what.mode = adaptive;
  what.transport = static_cast<std::uint8_t>(transport);
  return what;
}

test_case many_sockets(contender who)
{
  return {.contender = who,
    .measure = measure::bandwidth,
    .mode = event,
    .queue_pairs = streams_at_once,
    .answers = true};
}

test_case large_ucx(std::size_t transport, operation what)
{
  return {.contender = contender::ucx,
    .measure = measure::bandwidth,
    .operation = what,
    .mode = busy,
    .transport = static_cast<std::uint8_t>(transport),
    .size = large};
}

test_case small_writes(
  contender who, std::size_t transport, std::uint32_t depth, std::uint32_t batch)
{
  return {.contender = who,
    .measure = measure::bandwidth,
    .operation = operation::write,
    .transport = static_cast<std::uint8_t>(transport),
    .depth = depth,
    .batch = batch};
}

test_case small_writes_tcp()
{
  return {.contender = contender::tcp, .measure = measure::bandwidth, .mode = event, .batch = 32};
}

test_case scattered_reads(std::size_t transport)
{
  test_case what = small_writes(contender::library, transport, 2, 128);
  what.operation = operation::read;
  what.size = 256;
  what.buffers = 10'000;
  return what;
}

test_case own_memory(test_case what)
{
  what.own_memory = true;
  return what;
}

test_case perftest_send(contender who)
{
  return {.contender = who, .mode = busy};
}

test_case perftest_write(contender who)
{
  return {.contender = who,
    .measure = measure::bandwidth,
    .operation = operation::write,
    .mode = busy,
    .size = perftest_size,
    .depth = 128};
}

std::vector<group> plan(const settings& how)
{
  const planner make(how);
  std::vector<group> all{make.send_latency(), make.streams(), make.many_streams(),
    make.operations(), make.objects(), make.ring(), make.calls(), make.many_calls(),
    make.many_clients(), make.deadlines(), make.pulls(), make.latency_by_size(),
    make.bandwidth_by_size(), make.large_blocks(), make.first_writes(), make.small_blocks(),
    make.scattered_reads(), planner::beside_perftest(measure::latency),
    planner::beside_perftest(measure::bandwidth)};
  for (group& each : all)
    std::erase_if(each.cases,
      [&how](const test_case& what)
      { return name_of(what).find(how.only_case) == std::string::npos; });
  std::erase_if(all,
    [&how](const group& each)
    { return each.cases.empty() || each.key.find(how.only) == std::string::npos; });
  return all;
}

} // namespace perf
