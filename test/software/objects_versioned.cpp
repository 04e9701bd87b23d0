//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/object_fixture.hpp"

#include <boost_rdma/objects/remote_versioned.hpp>
#include <boost_rdma/objects/versioned.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <thread>

namespace test::objects_versioned {

// Tests versioned values through one connection. objects_versioned_history.cpp tests many
// processes.

namespace objects = rdma::detail::objects;

namespace {

struct sample
{
  std::array<std::uint64_t, 8> values;

  friend bool operator==(const sample&, const sample&) = default;
};

sample all(std::uint64_t value)
{
  sample result;
  result.values.fill(value);
  return result;
}

struct shared_value : linked_pair
{
  shared_value() { remote = open<rdma::remote_versioned<sample>>(*this, owner.remote()); }

  rdma::versioned_value<sample> load(const rdma::remote_versioned<sample>& from)
  {
    record<rdma::versioned_value<sample>> r;
    from.async_load(r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE(!r.ec);
    return r.value();
  }

  std::uint32_t store(rdma::remote_versioned<sample>& to, std::uint64_t value)
  {
    record<std::uint32_t> r;
    to.async_store(all(value), r.handler());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE(!r.ec);
    return r.value();
  }

  rdma::versioned<sample> owner{io, far_context, all(1)};
  rdma::remote_versioned<sample> remote;
};

} // namespace

TEST_CASE("a versioned value is the initial one until a store")
{
  shared_value s;
  CHECK(s.load(s.remote).value == all(1));
  CHECK(s.load(s.remote).version == 0);
  CHECK(s.load(s.owner).value == all(1));
  REQUIRE(s.owner.load());
  CHECK(s.owner.load()->value == all(1));
}

TEST_CASE("stores of a versioned value by both sides follow each other")
{
  shared_value s;
  std::uint32_t last = 0;
  for (std::uint64_t i = 2; i != 12; ++i)
  {
    rdma::remote_versioned<sample>& side = i % 2 == 0 ? s.remote : s.owner;
    const std::uint32_t version = s.store(side, i);
    CHECK(version != last);
    last = version;
    for (const auto& found : {s.load(s.remote), s.load(s.owner), s.owner.load().value()})
    {
      CHECK(found.value == all(i));
      CHECK(found.version == version);
    }
  }
}

TEST_CASE("async_compare_store stores if the version is the expected one")
{
  shared_value s;
  const auto before = s.load(s.remote);
  const auto exchange =
    [&](rdma::remote_versioned<sample>& side, std::uint32_t expected, std::uint64_t value)
  {
    record<bool, std::uint32_t> r;
    side.async_compare_store(expected, all(value), r.handler());
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    REQUIRE(!r.ec);
    return std::pair(std::get<0>(r.values), std::get<1>(r.values));
  };
  const auto [stored, version] = exchange(s.remote, before.version, 2);
  CHECK(stored);
  const auto [again, current] = exchange(s.owner, before.version, 3);
  CHECK_FALSE(again);
  CHECK(current == version);
  CHECK(s.load(s.remote).value == all(2));
  CHECK(exchange(s.owner, version, 3).first);
  CHECK(s.load(s.remote).value == all(3));
}

TEST_CASE("concurrent stores of a versioned value take effect in some order")
{
  shared_value s;
  rdma::remote_versioned<sample> another = s.owner;
  std::array<record<std::uint32_t>, 12> stores;
  for (std::uint64_t i = 0; i != stores.size(); ++i)
    (i % 2 == 0 ? s.remote : another).async_store(all(i), stores[i].handler());
  std::array<record<rdma::versioned_value<sample>>, 4> loads;
  for (auto& each : loads)
    s.remote.async_load(each.handler());
  const auto done = [](const auto& each) { return each.done(); };
  REQUIRE(run_until(
    s.io, [&] { return std::ranges::all_of(stores, done) && std::ranges::all_of(loads, done); }));
  const auto last = s.load(s.remote);
  for (std::uint64_t i = 0; i != stores.size(); ++i)
  {
    CHECK_FALSE(stores[i].ec);
    if (stores[i].value() == last.version)
      CHECK(last.value == all(i));
    for (std::uint64_t j = 0; j != i; ++j)
      CHECK(stores[i].value() != stores[j].value());
  }
  for (const auto& each : loads)
  {
    REQUIRE_FALSE(each.ec);
    CHECK(each.value().value == all(each.value().value.values[0]));
  }
}

TEST_CASE("async_open of a versioned value fails for other memory")
{
  shared_value s;
  const auto fails = [&]<class Object>(
                       std::type_identity<Object>, const rdma::remote_buffer& memory)
  {
    record<Object> r;
    Object::async_open(s.near, memory, r.handler());
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    return r.ec;
  };
  struct other
  {
    std::array<std::uint32_t, 16> values; // the same size
  };
  using right = std::type_identity<rdma::remote_versioned<sample>>;
  CHECK(fails(std::type_identity<rdma::remote_versioned<other>>(), s.owner.remote())
    == rdma::error::object_mismatch);
  rdma::memory_region zeros(s.far_context, 4096, exposed);
  CHECK(fails(right(), zeros.remote()) == rdma::error::object_mismatch);
  CHECK(fails(right(), s.owner.remote().first(right::type::memory_size - 1))
    == rdma::error::remote_range_too_small);
  CHECK(fails(right(), zeros.remote().slice(4)) == rdma::error::misaligned);
  CHECK_FALSE(fails(right(), s.owner.remote()));
}

TEST_CASE("a versioned value is created in memory of the peer")
{
  linked_pair l;
  rdma::memory_region memory(l.far_context, 4096, exposed);
  record<rdma::remote_versioned<sample>> r;
  rdma::remote_versioned<sample>::async_create(l.near, memory.remote(), all(7), r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  auto opened = open<rdma::remote_versioned<sample>>(l, memory.remote());
  record<rdma::versioned_value<sample>> loaded;
  opened.async_load(loaded.handler());
  REQUIRE(run_until(l.io, [&] { return loaded.done(); }));
  CHECK(loaded.value().value == all(7));
}

TEST_CASE("a store without the right to do atomics fails before it sends anything")
{
  shared_value s;
  auto reader = open<rdma::remote_versioned<sample>>(s,
    rdma::remote_buffer(s.owner.remote().address(), s.owner.remote().size(),
      s.owner.remote().keys(), rdma::access::remote_read));
  record<std::uint32_t> r;
  reader.async_store(all(9), r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(s.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::remote_right_missing);
  CHECK(s.load(reader).value == all(1));
}

TEST_CASE("operations on an object without a queue pair complete with closed")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair moved_from(io, context);
  const rdma::queue_pair taken = std::move(moved_from);
  record<rdma::remote_versioned<sample>> r;
  rdma::memory_region memory(context, 4096, exposed);
  rdma::remote_versioned<sample>::async_open(
    rdma::queue_pair(io.get_executor(), nullptr), memory.remote(), r.handler());
  CHECK_FALSE(r.done());
  REQUIRE(run_until(io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::closed);
}

TEST_CASE("cancelling a store of a versioned value leaves it consistent")
{
  shared_value s;
  for (int i = 0; i != 50; ++i)
  {
    asio::cancellation_signal signal;
    record<std::uint32_t> r;
    s.remote.async_store(all(100), asio::bind_cancellation_slot(signal.slot(), r.handler()));
    for (int turns = 0; turns != i && !r.done(); ++turns)
      s.io.poll_one();
    signal.emit(asio::cancellation_type::total);
    REQUIRE(run_until(s.io, [&] { return r.done(); }));
    const auto found = s.load(s.remote);
    if (r.ec)
    {
      CHECK(r.ec == asio::error::operation_aborted);
      CHECK(found.value == all(1));
    }
    else
    {
      CHECK(found.value == all(100));
      CHECK(found.version == r.value());
    }
    s.store(s.owner, 1); // without a pause: a cancelled store leaves no claim
  }
}

TEST_CASE("loads of a versioned value return no torn value while a writer stores at full speed")
{
  rdma::context_options hostile;
  hostile.software.hostile_seed = 11;
  const rdma::context near_context = make_context(hostile);
  const rdma::context far_context = make_context(hostile);
  std::array<std::byte, 1> unused{};
  asio::io_context io{1};
  asio::io_context writer_io{1};
  rdma::queue_pair near(io, near_context);
  rdma::queue_pair far(io, far_context);
  connect(near, far);
  // The thread that reads polls for it, and so serves its own reads beside the stores: the other
  // thread would serve them between two stores, and tear none.
  far.async_receive(asio::buffer(unused), [](error_code, std::size_t) {});
  rdma::versioned<sample> owner(writer_io, far_context, all(0));
  record<rdma::remote_versioned<sample>> opened;
  rdma::remote_versioned<sample>::async_open(near, owner.remote(), opened.handler());
  REQUIRE(run_until(io, [&] { return opened.done(); }));
  auto remote = opened.value();

  std::atomic<bool> ends{false};
  std::uint64_t stored = 0;
  error_code store_error;
  const std::function<void()> store = [&]
  {
    owner.async_store(all(++stored),
      [&](error_code ec, std::uint32_t)
      {
        store_error = ec;
        if (!ec && !ends)
          store();
      });
  };
  store();
  std::thread writer([&] { writer_io.run(); });

  // Each load is beside a read of the head and the current copy, of which some are torn.
  constexpr std::size_t words = 1 + objects::copy_words(sizeof(sample));
  std::array<std::uint64_t, words> image{};
  std::uint64_t loads = 0;
  std::uint64_t torn = 0;
  std::uint64_t wrong = 0;
  std::uint64_t last = 0;
  error_code failure;
  bool loading = false;
  bool reading = false;
  const auto limit =
    std::chrono::steady_clock::now() + (exhaustive() ? std::chrono::minutes(10) : patience / 2);
  const bool tears = std::string_view(device_name()) == rdma::software::device_name;
  const auto enough = [&]
  {
    return (!exhaustive() && (torn >= 20 || !tears) && loads >= 200) || wrong != 0 || failure
      || std::chrono::steady_clock::now() > limit;
  };
  while (!enough())
  {
    loading = reading = true;
    near.async_read(asio::buffer(image), owner.remote().slice(sizeof(objects::header), 8 * words),
      [&](error_code ec, std::size_t)
      {
        reading = false;
        failure = ec ? ec : failure;
        sample read;
        objects::tag version = 0;
        torn +=
          objects::decode_cell(image, std::as_writable_bytes(std::span(&read, 1)), version) ? 0 : 1;
      });
    remote.async_load(
      [&](error_code ec, const rdma::versioned_value<sample>& found)
      {
        loading = false;
        failure = ec ? ec : failure;
        const std::uint64_t value = found.value.values[0];
        wrong += found.value == all(value) && value >= last ? 0 : 1;
        last = value;
        ++loads;
      });
    if (!run_until(io, [&] { return !loading && !reading; }))
      break;
  }
  ends = true;
  writer.join();
  CHECK_FALSE(store_error);
  CHECK_FALSE(failure);
  CHECK(wrong == 0);
  CHECK((torn != 0 || !tears));
  if (exhaustive())
    WARN(loads << " loads, " << stored << " stores, " << torn << " reads were torn");
}

} // namespace test::objects_versioned
