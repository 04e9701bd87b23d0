//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests device_settings::hostile_seed: what one-sided requests of the worst conforming NIC do.

#include "software/shared_region.hpp"
#include "software/verbs_fixture.hpp"

#include "boost_rdma/context.hpp"
#include "boost_rdma/device.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

using namespace test;

namespace {

enum class route
{
  direct, ///< the local wire, into memory that the initiator maps
  local,  ///< the local wire, in frames
  tcp,
  itself,
};

std::ostream& operator<<(std::ostream& to, route by)
{
  constexpr const char* names[] = {"direct", "local", "tcp", "itself"};
  return to << names[static_cast<unsigned>(by)];
}

rdma::software::device_settings with_seed(std::uint64_t seed, route by)
{
  rdma::software::device_settings result;
  result.hostile_seed = seed;
  if (by != route::itself)
    result.wires = {by == route::tcp ? "tcp" : "local"};
  return result;
}

constexpr std::size_t words = 512;

/// A queue pair of the initiator, and words of the peer.
struct hostile_target
{
  explicit hostile_target(route by, std::uint64_t near_seed = 1)
    : near(with_seed(by == route::itself ? 1 : near_seed, by))
    , far(with_seed(1, by))
    , by_(by)
    , a(near)
    , b(far)
    , into(near, 8 * words)
    , frames_(owner(), 8 * words)
    , mapped_(owner(), 8 * words)
  {
    if (by == route::itself)
      connect_to_itself();
    else
      connect(a, b);
    // Later requests use the peer's memory directly, if it permits that.
    for (unsigned i = 0; i != 8; ++i)
      read();
  }

  const verbs_device& owner() const noexcept { return by_ == route::itself ? near : far; }
  const endpoint& peer() const noexcept { return by_ == route::itself ? a : b; }
  std::uint64_t address() const noexcept
  {
    return by_ == route::direct ? mapped_.address() : frames_.address();
  }
  std::uint32_t key() const noexcept
  {
    return by_ == route::direct ? mapped_.mr()->rkey : frames_.key();
  }
  /// Words of the peer's memory, which the device accesses at the same time.
  std::uint64_t load(std::size_t i, int order = __ATOMIC_RELAXED) const noexcept
  {
    return __atomic_load_n(word(i), order);
  }
  std::uint64_t* word(std::size_t i) const noexcept
  {
    return reinterpret_cast<std::uint64_t*>(address()) + i;
  }

  void read()
  {
    must(a.read(1, into.sge(), address(), key()) == 0, "post a read");
    must(a.sent().next().status == IBV_WC_SUCCESS, "read");
  }

  /// Posts a write of `value` to all words.
  void post_write(std::uint64_t value)
  {
    std::fill_n(into.word(), words, value);
    must(a.write(2, into.sge(), address(), key()) == 0, "post a write");
  }

  std::uint64_t fetch_add()
  {
    request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {into.sge(0, 8)});
    must(a.post(add.atomic(address(), key(), 1).wr) == 0, "post an atomic");
    must(a.sent().next().status == IBV_WC_SUCCESS, "atomic");
    return *into.word();
  }

  verbs_device near;
  verbs_device far;

private:
  void connect_to_itself() const
  {
    must(a.to_init() == 0, "to_init");
    must(a.to_ready_to_receive(a) == 0, "to_ready_to_receive");
    must(a.to_ready_to_send() == 0, "to_ready_to_send");
  }

  const route by_;

public:
  endpoint a;
  endpoint b;
  memory into;

private:
  memory frames_;
  shared_region mapped_;
};

/// Runs a thread until the end of the scope.
template <class Step>
class repeated
{
public:
  explicit repeated(Step step)
    : thread_(
      [this, step]
      {
        while (!stop_)
          step();
      })
  {
  }
  ~repeated() { end(); }
  repeated(const repeated&) = delete;
  repeated& operator=(const repeated&) = delete;

  void end()
  {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }

private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A value whose halves agree, so that a torn word is found.
constexpr std::uint64_t doubled(std::uint64_t i)
{
  return (i << 32) | i;
}

ibv_atomic_cap atomics_of(const verbs_device& device)
{
  ibv_device_attr attributes{};
  must(device.api().query_device(device.context(), &attributes) == 0, "query_device");
  return attributes.atomic_cap;
}

} // namespace

TEST_CASE("a read in hostile mode sees the words of overlapping stores in any order")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  CAPTURE(by);
  hostile_target t(by);
  std::uint64_t round = 0;
  // The last word is stored first: a read in ascending order never finds an older value behind a
  // newer one.
  repeated writer(
    [&]
    {
      ++round;
      for (std::size_t i = words; i-- != 0;)
        __atomic_store_n(t.word(i), doubled(round), __ATOMIC_RELEASE);
    });
  unsigned torn = 0;
  CHECK(until(
    [&]
    {
      t.read();
      bool seen = false;
      for (std::size_t i = 0; i != words; ++i)
        torn += *t.into.word(i) >> 32 != (*t.into.word(i) & 0xffff'ffff);
      // A plain copy begins with the two ends.
      for (std::size_t i = words / 4; i != 3 * words / 4; ++i)
        seen = seen || *t.into.word(i) < *t.into.word(i - 1);
      return seen;
    }));
  CHECK(torn == 0);
}

TEST_CASE("a write in hostile mode may end with other words than the last")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  CAPTURE(by);
  hostile_target t(by);
  std::atomic<bool> early{false};
  std::uint64_t round = 0; // of the observer
  repeated observer(
    [&]
    {
      const std::uint64_t last = t.load(words - 1, __ATOMIC_ACQUIRE);
      for (std::size_t i = 0; last != round && i != words - 1; ++i)
        if (t.load(i) < last)
          early = true;
      round = last;
    });
  unsigned incomplete = 0;
  std::uint64_t value = 0;
  CHECK(until(
    [&]
    {
      t.post_write(doubled(++value));
      if (t.a.sent().next().status != IBV_WC_SUCCESS)
        return false;
      for (std::size_t i = 0; i != words; ++i)
        incomplete += t.load(i) != doubled(value);
      return early.load();
    }));
  CHECK(incomplete == 0); // a completion follows all bytes
}

TEST_CASE("a send in hostile mode arrives after the write before it")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  CAPTURE(by);
  hostile_target t(by);
  unsigned incomplete = 0;
  const unsigned rounds = emulated() ? 20 : 300;
  for (std::uint64_t value = 1; value != rounds; ++value)
  {
    REQUIRE(t.peer().receive(1, std::vector<ibv_sge>{}) == 0);
    t.post_write(doubled(value));
    request send(IBV_WR_SEND, {}, 3);
    REQUIRE(t.a.post(send.wr) == 0);
    REQUIRE(t.peer().received().next().status == IBV_WC_SUCCESS);
    for (std::size_t i = 0; i != words; ++i)
      incomplete += t.load(i) != doubled(value);
    REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
    REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
  }
  CHECK(incomplete == 0);
}

TEST_CASE("atomics in hostile mode undo additions of a processor")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  // The owner of the memory decides, whatever the initiator's setting is.
  const std::uint64_t near_seed = GENERATE(0, 1);
  CAPTURE(by, near_seed);
  hostile_target t(by, near_seed);
  std::uint64_t added = 0;
  bool lost = false;
  CHECK(until(
    [&]
    {
      std::uint64_t here = 0;
      {
        repeated processor(
          [&]
          {
            __atomic_fetch_add(t.word(0), 1, __ATOMIC_SEQ_CST);
            ++here;
          });
        for (unsigned i = 0; i != 50; ++i)
          t.fetch_add();
        added += 50;
      }
      added += here;
      lost = t.load(0) < added;
      return lost;
    }));
  CHECK(lost);
}

TEST_CASE("atomics in hostile mode from several queue pairs and contexts lose nothing")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::local, route::tcp);
  CAPTURE(by);
  constexpr unsigned rounds = 300;
  hostile_target one(by);
  // A second context of this process with the same memory.
  hostile_target other(by);
  ibv_mr* const same = other.far.api().reg_mr(other.far.pd(), one.word(0), 8, all_access);
  REQUIRE(same != nullptr);
  const auto add_all = [&](hostile_target& t, std::uint64_t address, std::uint32_t key)
  {
    for (unsigned i = 0; i != rounds; ++i)
    {
      request add(IBV_WR_ATOMIC_FETCH_AND_ADD, {t.into.sge(0, 8)});
      must(t.a.post(add.atomic(address, key, 1).wr) == 0, "post an atomic");
      must(t.a.sent().next().status == IBV_WC_SUCCESS, "atomic");
    }
  };
  std::thread second([&] { add_all(other, one.address(), same->rkey); });
  add_all(one, one.address(), one.key());
  second.join();
  CHECK(one.load(0) == 2 * rounds);
  CHECK(other.far.api().dereg_mr(same) == 0);
}

TEST_CASE("a compare and swap in hostile mode stores only what it has compared")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  hostile_target t(GENERATE(route::direct, route::tcp, route::itself));
  *t.word(0) = 5;
  const auto swap = [&](std::uint64_t compare, std::uint64_t value)
  {
    request r(IBV_WR_ATOMIC_CMP_AND_SWP, {t.into.sge(0, 8)});
    must(t.a.post(r.atomic(t.address(), t.key(), compare, value).wr) == 0, "post an atomic");
    must(t.a.sent().next().status == IBV_WC_SUCCESS, "atomic");
    return *t.into.word();
  };
  CHECK(swap(4, 6) == 5);
  CHECK(t.load(0) == 5);
  CHECK(swap(5, 7) == 5);
  CHECK(t.load(0) == 7);
}

TEST_CASE("requests of several elements keep the words of the target whole in hostile mode")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  CAPTURE(by);
  hostile_target t(by);
  std::uint64_t round = 0;
  memory from(t.near, 8 * words);
  const std::vector<ibv_sge> odd = {
    from.sge(0, 13), from.sge(13, 1000), from.sge(1013, 8 * words - 1013)};
  std::atomic<unsigned> torn{0};
  repeated observer(
    [&]
    {
      for (std::size_t i = 0; i != words; ++i)
        if (const std::uint64_t value = t.load(i); value >> 32 != (value & 0xffff'ffff))
          ++torn;
    });
  for (unsigned i = 0; i != 200; ++i)
  {
    std::fill_n(from.word(), words, doubled(++round));
    request write(IBV_WR_RDMA_WRITE, odd);
    REQUIRE(t.a.post(write.remote(t.address(), t.key()).wr) == 0);
    REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
  }
  observer.end();
  CHECK(torn == 0);
  from.fill(0);
  request read(IBV_WR_RDMA_READ, odd);
  REQUIRE(t.a.post(read.remote(t.address(), t.key()).wr) == 0);
  REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
  CHECK(std::all_of(
    from.word(), from.word() + words, [&](std::uint64_t w) { return w == doubled(round); }));
}

TEST_CASE("long unaligned requests transfer exact bytes in hostile mode")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const route by = GENERATE(route::direct, route::local, route::tcp, route::itself);
  CAPTURE(by);
  constexpr std::size_t size = 3'000'001;
  hostile_target t(by);
  memory near(t.near, size);
  memory plain(t.owner(), size + 16);
  shared_region mapped(t.owner(), size + 16);
  const bool direct = by == route::direct;
  auto* const there = reinterpret_cast<std::uint8_t*>(direct ? mapped.address() : plain.address());
  const std::uint32_t key = direct ? mapped.mr()->rkey : plain.key();
  for (std::size_t skew : {std::size_t{3}, std::size_t{5}})
  {
    for (std::size_t i = 0; i != size; ++i)
      near[i] = static_cast<std::uint8_t>((i * 2654435761u) >> 16);
    const std::vector<std::uint8_t> expected = near.bytes();
    std::fill_n(there, size + 16, kept_byte);
    const std::uint64_t to = reinterpret_cast<std::uintptr_t>(there) + skew;
    REQUIRE(t.a.write(1, near.sge(), to, key) == 0);
    REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(std::equal(expected.begin(), expected.end(), there + skew));
    CHECK(std::all_of(there, there + skew, [](std::uint8_t b) { return b == kept_byte; }));
    CHECK(std::all_of(
      there + skew + size, there + size + 16, [](std::uint8_t b) { return b == kept_byte; }));
    near.fill(0);
    REQUIRE(t.a.read(2, near.sge(), to, key) == 0);
    REQUIRE(t.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(near.bytes() == expected);
  }
}

TEST_CASE("a device in hostile mode reports atomics of its own requests only")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  CHECK(atomics_of(verbs_device(with_seed(1, route::local))) == IBV_ATOMIC_HCA);
  rdma::context_options options;
  options.device = "soft0";
  options.software.hostile_seed = 1;
  CHECK(rdma::context(options).default_device().has_atomics());
}

TEST_CASE("BOOST_RDMA_HOSTILE_MEMORY sets the seed unless the settings do")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const char* const before = std::getenv("BOOST_RDMA_HOSTILE_MEMORY");
  const std::string kept = before != nullptr ? before : "";
  const auto open = [](const char* value)
  {
    must(::setenv("BOOST_RDMA_HOSTILE_MEMORY", value, 1) == 0, "setenv");
    return atomics_of(verbs_device(with_seed(0, route::local)));
  };
  CHECK(open("7") == IBV_ATOMIC_HCA);
  CHECK(open("0") == IBV_ATOMIC_GLOB);
  CHECK(open("") == IBV_ATOMIC_GLOB);
  for (const char* wrong : {"x", "7x", "-1", "99999999999999999999"})
  {
    CAPTURE(wrong);
    REQUIRE(::setenv("BOOST_RDMA_HOSTILE_MEMORY", wrong, 1) == 0);
    CHECK(rdma::software::open_device({}) == nullptr);
    CHECK(errno == EINVAL);
  }
  CHECK(::setenv("BOOST_RDMA_HOSTILE_MEMORY", kept.c_str(), 1) == 0);
}
