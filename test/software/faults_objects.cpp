//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/faults.hpp"

#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/published.hpp>
#include <boost_rdma/objects/published_snapshot.hpp>
#include <boost_rdma/objects/remote_counter.hpp>
#include <boost_rdma/objects/remote_flag.hpp>
#include <boost_rdma/objects/remote_log.hpp>
#include <boost_rdma/objects/remote_mutex.hpp>
#include <boost_rdma/objects/remote_ring.hpp>
#include <boost_rdma/objects/remote_semaphore.hpp>
#include <boost_rdma/objects/ring.hpp>
#include <boost_rdma/objects/versioned.hpp>

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

// Operations on remote objects while some step fails.

namespace test::faults_objects {

namespace {

using number = std::uint64_t;
using large = std::array<number, 40>;

constexpr std::chrono::milliseconds lease{20}; // of locks and snapshots whose release fails

/// Owners of objects, which are made in each round, and a peer.
template <class... Owners>
struct object_round
{
  object_round() { REQUIRE(serves_next()); }

  template <class Owner, class... Options>
  [[nodiscard]] bool makes(faulty_round& round, Options... options)
  {
    return round.make(
      [&] { std::get<std::optional<Owner>>(owners).emplace(io, far_context, options...); });
  }
  template <class Owner>
  [[nodiscard]] Owner& owner()
  {
    return *std::get<std::optional<Owner>>(owners);
  }

  template <class Object, class Owner>
  [[nodiscard]] std::optional<Object> opens(faulty_round& round, const Owner& of)
  {
    std::optional<Object> result;
    does(
      round, [&](auto h) { Object::async_open(*near, of.remote(), h); },
      [&](Object made) { result.emplace(std::move(made)); });
    return result;
  }

  /// Returns true if the operation succeeds.
  template <class Start, class... Then>
  bool does(faulty_round& round, Start start, Then... then)
  {
    const auto& made = round.start(start, then...);
    round.await(made);
    return made.succeeded();
  }

  void end()
  {
    std::apply([](auto&... each) { (each.reset(), ...); }, owners);
  }

  /// Leaves the queue pairs, which have made their links, for the next round.
  [[nodiscard]] bool serves_next()
  {
    near.emplace(io, near_context, faulty_round_options());
    far.emplace(io, far_context, faulty_round_options());
    connect(*near, *far);
    rdma::versioned<number> value(io, far_context);
    record<rdma::remote_versioned<number>> opened;
    rdma::remote_versioned<number>::async_open(*near, value.remote(), opened.handler());
    if (!run_until(io, [&] { return opened.done(); }) || opened.ec)
      return false;
    auto remote = opened.value();
    record<std::uint32_t> stored;
    remote.async_store(7, stored.handler());
    if (!run_until(io, [&] { return stored.done(); }) || stored.ec)
      return false;
    record<rdma::versioned_value<number>> loaded;
    remote.async_load(loaded.handler());
    return run_until(io, [&] { return loaded.done(); }) && !loaded.ec && loaded.value().value == 7;
  }

  asio::io_context io;
  rdma::context near_context = make_context();
  rdma::context far_context = make_context();
  std::optional<rdma::queue_pair> near;
  std::optional<rdma::queue_pair> far;
  std::tuple<std::optional<Owners>...> owners;
};

using counter = rdma::owned<rdma::remote_counter<>>;
using flag = rdma::owned<rdma::remote_flag<>>;

struct values : object_round<rdma::versioned<large>, counter, flag>
{
  void run(faulty_round& round)
  {
    if (!makes<rdma::versioned<large>>(round) || !makes<counter>(round) || !makes<flag>(round))
      return;
    if (auto value = opens<rdma::remote_versioned<large>>(round, owner<rdma::versioned<large>>()))
      if (does(round, [&](auto h) { value->async_store(large{1, 2}, h); }))
        does(
          round, [&](auto h) { value->async_load(h); },
          [](const rdma::versioned_value<large>& loaded) {
            CHECK(loaded.value == large{1, 2});
          });
    if (auto total = opens<rdma::remote_counter<>>(round, owner<counter>()))
      if (does(round, [&](auto h) { total->async_add(3, h); }))
        does(
          round, [&](auto h) { total->async_load(h); }, [](number loaded) { CHECK(loaded == 3); });
    if (auto raised = opens<rdma::remote_flag<>>(round, owner<flag>()))
    {
      const auto& wait = round.start([&](auto h) { owner<flag>().async_wait(true, h); });
      if (does(round, [&](auto h) { raised->async_test_and_set(h); }))
        round.await(wait);
    }
  }
};

using mutex = rdma::owned<rdma::remote_mutex<>>;
using semaphore = rdma::owned<rdma::remote_semaphore<>>;

struct locks : object_round<mutex, semaphore>
{
  void run(faulty_round& round)
  {
    if (!makes<mutex>(round, lease) || !makes<semaphore>(round, std::size_t{1}, lease))
      return;
    if (auto remote = opens<rdma::remote_mutex<>>(round, owner<mutex>()))
    {
      rdma::mutex_lock held;
      does(
        round, [&](auto h) { remote->async_lock(h); },
        [&](const rdma::mutex_lock& taken) { held = taken; });
      const auto& next = round.start([&](auto h) { owner<mutex>().async_lock(h); });
      does(round, [&](auto h) { remote->async_unlock(held, h); });
      round.await(next);
    }
    if (auto remote = opens<rdma::remote_semaphore<>>(round, owner<semaphore>()))
    {
      rdma::semaphore_permit held;
      does(
        round, [&](auto h) { remote->async_acquire(h); },
        [&](const rdma::semaphore_permit& taken) { held = taken; });
      const auto& next = round.start([&](auto h) { owner<semaphore>().async_acquire(h); });
      does(round, [&](auto h) { remote->async_release(held, h); });
      round.await(next);
    }
  }
};

using number_map = rdma::map<number, number>;
using log = rdma::owned<rdma::remote_log<large>>;

struct tables : object_round<number_map, log>
{
  void run(faulty_round& round)
  {
    if (!makes<number_map>(round, rdma::map_options{.capacity = 4})
      || !makes<log>(round, rdma::log_options{.capacity = 4}))
      return;
    if (auto remote = opens<rdma::remote_map<number, number>>(round, owner<number_map>()))
      use(round, *remote);
    if (auto remote = opens<rdma::remote_log<large>>(round, owner<log>()))
      use(round, *remote);
  }

private:
  void use(faulty_round& round, rdma::remote_map<number, number>& remote)
  {
    const bool inserted = does(round, [&](auto h) { remote.async_insert(1, 10, h); });
    static_cast<void>(
      round.make([&] { does(round, [&](auto h) { owner<number_map>().async_grow(h); }); }));
    if (inserted)
      does(
        round, [&](auto h) { remote.async_find(1, h); },
        [](std::optional<number> found) { CHECK(found == 10); });
    if (inserted)
      does(
        round, [&](auto h) { remote.async_entries(0, remote.part_count(), h); },
        [](const std::vector<std::pair<number, number>>& all) { CHECK(all.size() == 1); });
    does(round, [&](auto h) { remote.async_erase(1, h); });
  }

  void use(faulty_round& round, rdma::remote_log<large>& remote)
  {
    number index = 0;
    if (does(
          round, [&](auto h) { remote.async_append(large{3}, h); },
          [&](number taken) { index = taken; }))
      does(
        round, [&](auto h) { remote.async_read(index, read, h); },
        [&](std::size_t count, number)
        {
          CHECK(count == 1);
          CHECK(read[0] == large{3});
        });
    does(round, [&](auto h) { remote.async_trim(index + 1, h); });
  }

  std::array<large, 2> read;
};

struct rings : object_round<rdma::ring<large>>
{
  void run(faulty_round& round)
  {
    if (!makes<rdma::ring<large>>(round, std::size_t{2}))
      return;
    rdma::ring<large>& consumer = owner<rdma::ring<large>>();
    auto producer = opens<rdma::remote_ring<large>>(round, consumer);
    if (!producer)
      return;
    const auto& first = round.start([&](auto h) { consumer.async_pop(h); },
      [](const large& popped) { CHECK(popped == large{1}); });
    pause.expires_after(std::chrono::milliseconds(1));
    does(round, [&](auto h) { pause.async_wait(h); }); // the pop waits by a timer, too, then
    number pushed = 0;
    while (round.make([&] { has_room = producer->try_push(large{pushed + 1}); }) && has_room)
      ++pushed;
    const auto& waiting = round.start([&](auto h) { producer->async_push(large{pushed + 1}, h); });
    if (!does(round, [&](auto h) { producer->async_flush(h); }))
      return; // the pushes that wait end with the producer, and the pops with the consumer
    round.await(first);
    large popped{};
    while (consumer.try_pop(popped))
      ;
    round.await(waiting);
  }

  asio::steady_timer pause{io};
  bool has_room = false;
};

struct publications : object_round<rdma::published<large>>
{
  void run(faulty_round& round)
  {
    if (!makes<rdma::published<large>>(
          round, rdma::published_options{.buffers = 2, .snapshots = 2, .lease = lease}))
      return;
    auto& publisher = owner<rdma::published<large>>();
    auto remote = opens<rdma::remote_published<large>>(round, publisher);
    if (!remote)
      return;
    const bool published = does(round, [&](auto h) { publisher.async_publish(value, h); });
    does(
      round, [&](auto h) { remote->async_load(loaded, h); },
      [&](number generation)
      {
        CHECK((generation == 1 || !published)); // the call that throws may have published it
        CHECK(loaded == (generation == 1 ? value : large{}));
      });
    rdma::published_snapshot<large> snapshot;
    does(
      round, [&](auto h) { remote->async_snapshot(h); },
      [&](rdma::published_snapshot<large> taken) { snapshot = std::move(taken); });
    if (!snapshot)
      return;
    does(round, [&](auto h) { publisher.async_publish(value, h); });
    const auto& waiting = round.start([&](auto h) { publisher.async_publish(value, h); });
    does(round, [&](auto h) { snapshot.async_renew(h); });
    does(round, [&](auto h) { snapshot.async_read(loaded, h); });
    does(round, [&](auto h) { snapshot.async_release(h); });
    round.await(waiting);
  }

  const large value{5};
  large loaded{};
};

} // namespace

TEST_CASE("operations on values and counters while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<values>();
}

TEST_CASE("operations on values and counters while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<values>();
}

TEST_CASE("locks of a mutex and a semaphore while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<locks>();
}

TEST_CASE("locks of a mutex and a semaphore while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<locks>();
}

TEST_CASE("operations on maps and logs while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<tables>();
}

TEST_CASE("operations on maps and logs while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<tables>();
}

TEST_CASE("pushes and pops of a ring while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<rings>();
}

TEST_CASE("pushes and pops of a ring while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<rings>();
}

TEST_CASE("publications and snapshots while allocations fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_allocations<publications>();
}

TEST_CASE("publications and snapshots while system calls fail end once")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  with_failing_calls<publications>();
}

} // namespace test::faults_objects
