//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/object_fixture.hpp"

#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_log.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace test::objects_log {

// Tests logs through one connection. log_simulation_test.cpp tests many processes.

namespace {

struct metric
{
  std::array<char, 13> name;
  std::uint64_t value;

  friend bool operator==(const metric&, const metric&) = default;
};
using metric_log = rdma::remote_log<metric>;
using read_record = record<std::size_t, std::uint64_t>;

metric of(std::uint64_t value)
{
  metric result{};
  result.name[12] = static_cast<char>('a' + value % 26);
  result.value = value * 0x0001'0001'0001'0001;
  return result;
}

// Longer than a test: a slow append keeps its index.
constexpr auto no_skipping = std::chrono::hours(1);

struct shared_log : linked_pair
{
  explicit shared_log(const rdma::log_options& options = {.capacity = 8, .lease = no_skipping})
    : owner(io, far_context, options)
  {
    remote = open<metric_log>(*this, owner.remote());
  }

  template <class... Values>
  void end(record<Values...>& r)
  {
    CHECK_FALSE(r.done()); // not inside the initiating call
    REQUIRE(run_until(io, [&] { return r.done(); }));
  }

  error_code append(metric_log& to, std::uint64_t value, std::uint64_t& index)
  {
    value_record r;
    to.async_append(of(value), r.handler());
    end(r);
    index = r.value();
    return r.ec;
  }

  error_code trim(metric_log& of, std::uint64_t index)
  {
    plain_record r;
    of.async_trim(index, r.handler());
    end(r);
    return r.ec;
  }

  read_record read(const metric_log& from, std::uint64_t index, std::size_t count)
  {
    read_record r;
    values.assign(count, {});
    from.async_read(index, values, r.handler());
    end(r);
    values.resize(std::get<0>(r.values));
    return r;
  }

  rdma::owned<metric_log> owner;
  metric_log remote;
  std::vector<metric> values;
};

} // namespace

TEST_CASE("both sides append to a log and read it")
{
  shared_log s;
  for (std::uint64_t i = 0; i != 6; ++i)
  {
    std::uint64_t index = 0;
    REQUIRE_FALSE(s.append(i % 2 == 0 ? s.remote : s.owner, i, index));
    CHECK(index == i);
  }
  for (metric_log* side : {&s.remote, static_cast<metric_log*>(&s.owner)})
  {
    const auto r = s.read(*side, 2, 10);
    CHECK_FALSE(r.ec);
    CHECK(r.values == std::tuple(std::size_t{4}, std::uint64_t{6}));
    CHECK(s.values == std::vector{of(2), of(3), of(4), of(5)});
    CHECK(std::get<1>(s.read(*side, 2, 1).values) == 3);
    CHECK(s.values == std::vector{of(2)});
  }
}

TEST_CASE("a log continues over the end of its memory, many times")
{
  shared_log s;
  CHECK(s.remote.capacity() == 8);
  std::uint64_t position = 0;
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i != 100; ++i)
  {
    std::uint64_t index = 0;
    REQUIRE_FALSE(s.append(s.remote, i, index));
    CHECK(index == i);
    if (i % 5 != 4)
      continue;
    while (position != i + 1)
    {
      const auto r = s.read(s.owner, position, 8);
      REQUIRE_FALSE(r.ec);
      for (const metric& each : s.values)
        CHECK(each == of(expected++));
      position = std::get<1>(r.values);
      CHECK(position == expected);
    }
    REQUIRE_FALSE(s.trim(s.owner, position));
  }
}

TEST_CASE("a read of a log waits for an entry")
{
  shared_log s;
  read_record waiting;
  std::array<metric, 4> values{};
  s.owner.async_read(0, values, waiting.handler());
  std::uint64_t index = 0;
  // The first append ends after many looks of the reader.
  for (int turns = 0; turns != 50; ++turns)
    (void)s.io.run_one();
  CHECK_FALSE(waiting.done());
  REQUIRE_FALSE(s.append(s.remote, 7, index));
  REQUIRE(run_until(s.io, [&] { return waiting.done(); }));
  CHECK_FALSE(waiting.ec);
  CHECK(std::get<1>(waiting.values) == 1);
  CHECK(values[0] == of(7));
}

TEST_CASE("a log is full until entries are trimmed")
{
  shared_log s;
  std::uint64_t index = 0;
  for (std::uint64_t i = 0; i != 8; ++i)
    REQUIRE_FALSE(s.append(s.remote, i, index));
  CHECK(s.append(s.remote, 8, index) == rdma::error::object_full);
  CHECK(s.trim(s.remote, 9) == rdma::error::out_of_range);
  CHECK_FALSE(s.trim(s.remote, 3));
  CHECK_FALSE(s.trim(s.owner, 2)); // nothing remains to be done
  REQUIRE_FALSE(s.append(s.remote, 8, index));
  CHECK(index == 8);
  const auto early = s.read(s.owner, 2, 8);
  CHECK(early.ec == rdma::error::out_of_range);
  CHECK(early.values == std::tuple(std::size_t{0}, std::uint64_t{3}));
  CHECK_FALSE(s.read(s.owner, 3, 8).ec);
  CHECK(s.values.front() == of(3));
  CHECK(s.values.size() == 5); // to the end of the memory
}

TEST_CASE("concurrent appends have different indexes, and readers see them in one order")
{
  shared_log s({.capacity = 64, .lease = no_skipping});
  metric_log another = s.owner;
  std::array<value_record, 40> appends;
  for (std::uint64_t i = 0; i != appends.size(); ++i)
    (i % 2 == 0 ? s.remote : another).async_append(of(i), appends[i].handler());
  REQUIRE(run_until(
    s.io, [&] { return std::ranges::all_of(appends, [](auto& each) { return each.done(); }); }));
  std::vector<metric> read;
  std::uint64_t position = 0;
  while (read.size() != appends.size())
  {
    const auto r = s.read(s.remote, position, 64);
    REQUIRE_FALSE(r.ec);
    position = std::get<1>(r.values);
    read.resize(position);
    std::ranges::copy(s.values, read.end() - static_cast<std::ptrdiff_t>(s.values.size()));
  }
  for (std::uint64_t i = 0; i != appends.size(); ++i)
  {
    REQUIRE_FALSE(appends[i].ec);
    CHECK(read.at(appends[i].value()) == of(i));
  }
}

TEST_CASE("appends that have an index wait for room")
{
  shared_log s({.capacity = 2, .lease = no_skipping});
  std::array<value_record, 4> appends;
  for (std::uint64_t i = 0; i != appends.size(); ++i)
    s.remote.async_append(of(i), appends[i].handler());
  // All have looked before the first has taken its index, or some find the log full.
  std::set<std::uint64_t> seen;
  std::uint64_t position = 0;
  const auto done = [&]
  { return std::ranges::all_of(appends, [](auto& each) { return each.done(); }); };
  const auto appended = [&]
  { return std::ranges::count_if(appends, [](auto& each) { return !each.ec; }); };
  const auto all_read = [&] { return done() && std::ssize(seen) == appended(); };
  while (!all_read())
  {
    asio::cancellation_signal signal;
    read_record r;
    std::array<metric, 2> values{};
    s.owner.async_read(position, values, asio::bind_cancellation_slot(signal.slot(), r.handler()));
    // The last appends may fail meanwhile.
    REQUIRE(run_until(s.io, [&] { return r.done() || all_read(); }));
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    for (std::size_t i = 0; i != std::get<0>(r.values); ++i)
      CHECK(seen.insert(values[i].value).second);
    position = std::get<1>(r.values);
    REQUIRE_FALSE(s.trim(s.owner, position));
  }
  for (std::uint64_t i = 0; i != appends.size(); ++i)
  {
    CHECK((!appends[i].ec || appends[i].ec == rdma::error::object_full));
    CHECK(seen.contains(of(i).value) == !appends[i].ec);
  }
  CHECK(seen.size() >= 2);
}

TEST_CASE("a reader skips the index of a process that has died, if it may do atomics")
{
  shared_log s({.capacity = 8, .lease = std::chrono::milliseconds(1)});
  // The process has died after it took an index.
  value_record died;
  s.near.async_fetch_add(s.owner.remote().slice(64), 1, died.handler());
  s.end(died);
  REQUIRE_FALSE(died.ec);
  std::uint64_t index = 0;
  REQUIRE_FALSE(s.append(s.remote, 1, index));
  CHECK(index == 1);
  const auto only_reads = open<metric_log>(s,
    rdma::remote_buffer(s.owner.remote().address(), s.owner.remote().size(),
      s.owner.remote().keys(), rdma::access::remote_read));
  read_record waiting;
  std::array<metric, 2> values{};
  only_reads.async_read(0, values, waiting.handler());
  const auto r = s.read(s.remote, 0, 2);
  CHECK_FALSE(r.ec);
  CHECK(r.values == std::tuple(std::size_t{1}, std::uint64_t{2}));
  CHECK(s.values == std::vector{of(1)});
  REQUIRE(run_until(s.io, [&] { return waiting.done(); }));
  CHECK(waiting.values == r.values);
  CHECK(values[0] == of(1));
}

TEST_CASE("a read of a log into no room completes")
{
  shared_log s;
  const auto r = s.read(s.remote, 5, 0);
  CHECK_FALSE(r.ec);
  CHECK(r.values == std::tuple(std::size_t{0}, std::uint64_t{5}));
}

TEST_CASE("values of a few bytes and the largest values are appended and read")
{
  linked_pair l;
  const auto works = [&]<class T>(const T& value)
  {
    rdma::owned<rdma::remote_log<T>> owner(l.io, l.far_context, rdma::log_options{.capacity = 100});
    auto remote = open<rdma::remote_log<T>>(l, owner.remote());
    CHECK(remote.capacity() == 128);
    value_record appended;
    remote.async_append(value, appended.handler());
    REQUIRE(run_until(l.io, [&] { return appended.done(); }));
    REQUIRE_FALSE(appended.ec);
    read_record r;
    std::array<T, 2> values{};
    owner.async_read(appended.value(), values, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    REQUIRE_FALSE(r.ec);
    CHECK(std::get<0>(r.values) == 1);
    CHECK(std::memcmp(&values[0], &value, sizeof value) == 0);
  };
  works(std::uint8_t{200});
  works(std::uint32_t{0xffff'ffff});
  std::array<std::uint16_t, 512> large;
  for (std::size_t i = 0; i != large.size(); ++i)
    large[i] = static_cast<std::uint16_t>(i * 77);
  works(large);
}

TEST_CASE("async_open of a log fails for other memory")
{
  shared_log s;
  const auto fails = [&]<class Object>(
                       std::type_identity<Object>, const rdma::remote_buffer& memory)
  {
    record<Object> r;
    Object::async_open(s.near, memory, r.handler());
    s.end(r);
    return r.ec;
  };
  struct other
  {
    std::array<std::uint32_t, sizeof(metric) / 4> values; // the same size
  };
  using right = std::type_identity<metric_log>;
  CHECK(fails(std::type_identity<rdma::remote_log<other>>(), s.owner.remote())
    == rdma::error::object_mismatch);
  rdma::memory_region zeros(s.far_context, 4096, exposed);
  CHECK(fails(right(), zeros.remote()) == rdma::error::object_mismatch);
  const std::uint64_t size = metric_log::size_for({.capacity = 8});
  CHECK(fails(right(), s.owner.remote().first(size - 1)) == rdma::error::remote_range_too_small);
  CHECK(fails(right(), s.owner.remote().first(64)) == rdma::error::remote_range_too_small);
  CHECK(fails(right(), zeros.remote().slice(4)) == rdma::error::misaligned);
  CHECK_FALSE(fails(right(), s.owner.remote().first(size)));
}

TEST_CASE("a log is created in memory of the peer that contained another object")
{
  linked_pair l;
  const rdma::log_options options{.capacity = 10'000};
  rdma::memory_region memory(l.far_context, metric_log::size_for(options), exposed);
  std::memset(memory.data(), 0xff, memory.size());
  record<metric_log> r;
  metric_log::async_create(l.near, memory.remote(), options, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  CHECK(r.value().capacity() == 16'384);
  auto opened = open<metric_log>(l, memory.remote());
  CHECK(opened.capacity() == 16'384);
  value_record appended;
  opened.async_append(of(1), appended.handler());
  REQUIRE(run_until(l.io, [&] { return appended.done(); }));
  CHECK_FALSE(appended.ec);
  CHECK(appended.value() == 0);
  const auto words = memory.as_span<std::uint64_t>();
  CHECK(std::ranges::all_of(
    words.subspan((128 + 8 * 6) / 8), [](std::uint64_t word) { return word == 0; }));
  record<metric_log> small;
  metric_log::async_create(
    l.near, memory.remote().first(memory.size() - 1), options, small.handler());
  REQUIRE(run_until(l.io, [&] { return small.done(); }));
  CHECK(small.ec == rdma::error::remote_range_too_small);
}

TEST_CASE("appends and trims without the right to do atomics fail")
{
  shared_log s;
  auto reader = open<metric_log>(s,
    rdma::remote_buffer(s.owner.remote().address(), s.owner.remote().size(),
      s.owner.remote().keys(), rdma::access::remote_read));
  std::uint64_t index = 0;
  CHECK(s.append(reader, 1, index) == rdma::error::remote_right_missing);
  REQUIRE_FALSE(s.append(s.remote, 1, index));
  CHECK(index == 0); // no index was taken
  CHECK(s.trim(reader, 1) == rdma::error::remote_right_missing);
  CHECK_FALSE(s.read(reader, 0, 1).ec);
}

TEST_CASE("operations on a log without a queue pair complete with closed")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::memory_region memory(context, 4096, exposed);
  record<metric_log> opened;
  metric_log::async_open(
    rdma::queue_pair(io.get_executor(), nullptr), memory.remote(), opened.handler());
  CHECK_FALSE(opened.done());
  REQUIRE(run_until(io, [&] { return opened.done(); }));
  CHECK(opened.ec == rdma::error::closed);
  const auto closed = [&](auto& r)
  {
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::closed);
  };
  metric_log nothing = opened.value();
  value_record appended;
  nothing.async_append(of(1), appended.handler());
  closed(appended);
  read_record r;
  std::array<metric, 2> values{};
  nothing.async_read(0, values, r.handler());
  closed(r);
  plain_record trimmed;
  nothing.async_trim(1, trimmed.handler());
  closed(trimmed);
}

TEST_CASE("operations on a log fail when the queue pair is closed")
{
  shared_log s;
  read_record waiting;
  std::array<metric, 2> values{};
  s.remote.async_read(0, values, waiting.handler());
  for (int turns = 0; turns != 20; ++turns)
    (void)s.io.run_one();
  s.near.close();
  REQUIRE(run_until(s.io, [&] { return waiting.done(); }));
  CHECK(waiting.ec);
  CHECK(std::get<0>(waiting.values) == 0);
  std::uint64_t index = 0;
  CHECK(s.append(s.remote, 1, index));
  CHECK(s.trim(s.remote, 0));
}

TEST_CASE("a cancelled append of a log leaves an entry if it succeeds, and delays no reader")
{
  shared_log s({.capacity = 64, .lease = no_skipping});
  std::uint64_t position = 0;
  int aborted = 0;
  for (int i = 0; i != 40; ++i)
  {
    asio::cancellation_signal signal;
    value_record r;
    s.remote.async_append(of(100), asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i && !r.done(); ++turns)
      s.io.poll_one();
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    std::uint64_t last = 0;
    REQUIRE_FALSE(s.append(s.owner, 1, last));
    const auto first = s.read(s.owner, position, 1);
    REQUIRE_FALSE(first.ec);
    if (r.ec)
    {
      ++aborted;
      CHECK(r.ec == asio::error::operation_aborted);
      CHECK(s.values == std::vector{of(1)});
    }
    else
    {
      CHECK(s.values == std::vector{of(100)});
      CHECK(std::get<1>(first.values) == r.value() + 1);
    }
    position = last + 1;
    REQUIRE_FALSE(s.trim(s.owner, position));
  }
  CHECK(aborted > 0);
}

TEST_CASE("a read of a log that waits is cancelled")
{
  shared_log s;
  asio::cancellation_signal signal;
  read_record r;
  std::array<metric, 2> values{};
  s.remote.async_read(3, values, asio::bind_cancellation_slot(signal.slot(), r.handler()));
  for (int turns = 0; turns != 20; ++turns)
    (void)s.io.run_one();
  CHECK_FALSE(r.done());
  signal.emit(asio::cancellation_type::terminal);
  REQUIRE(run_until(s.io, [&] { return r.done(); }));
  CHECK(r.ec == asio::error::operation_aborted);
  CHECK(r.values == std::tuple(std::size_t{0}, std::uint64_t{3}));
}

} // namespace test::objects_log
