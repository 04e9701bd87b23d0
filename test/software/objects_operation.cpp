//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/detail/objects/operation.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

namespace test::objects_operation {

// Tests how the steps of a state machine are carried out: without memory, and when they are
// destroyed.

namespace {

namespace objects = rdma::detail::objects;
using objects::step;

// Carries out given steps. Each request reads to its part of the destination.
struct scripted
{
  scripted(std::vector<step> all, std::span<std::byte> destination, std::size_t first = 0)
    : steps(std::move(all))
    , to(destination)
    , first_size(first)
  {
  }

  step begin() { return steps.front(); }
  objects::access_request request(std::size_t i) const
  {
    const std::size_t at = i == 0 ? 0 : first_size;
    return {.kind = rdma::detail::request_kind::read,
      .offset = at,
      .bytes = i == 0 && first_size != 0 ? to.first(first_size) : to.subspan(at)};
  }
  void answered(std::size_t, std::uint64_t) {}
  step next(bool) { return steps[++done]; }
  std::tuple<> results() const { return {}; }

  std::vector<step> steps;
  std::span<std::byte> to;
  std::size_t first_size;
  std::size_t done = 0;
};

template <class Handler>
void start(
  asio::io_context& io, const objects::place& where, const scripted& machine, Handler handler)
{
  const auto make = [&] { return machine; };
  objects::operation<scripted, Handler, asio::any_io_executor>::start(
    where, io.get_executor(), make, std::move(handler));
}

// Fails once, after a number of allocations.
template <class T>
struct failing_allocator
{
  using value_type = T;

  explicit failing_allocator(int* until_failure)
    : left(until_failure)
  {
  }
  template <class U>
  failing_allocator(const failing_allocator<U>& other)
    : left(other.left)
  {
  }

  T* allocate(std::size_t n)
  {
    if ((*left)-- == 0)
      throw std::bad_alloc();
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) { std::allocator<T>().deallocate(p, n); }
  friend bool operator==(const failing_allocator&, const failing_allocator&) = default;

  int* left;
};

struct poor_handler
{
  using allocator_type = failing_allocator<void>;

  allocator_type get_allocator() const { return allocator_type(until_failure); }
  void operator()(const error_code& ec) const { result->emplace(ec); }

  int* until_failure;
  std::optional<error_code>* result;
};

constexpr std::chrono::microseconds soon{1};

} // namespace

TEST_CASE("a handler of an object's operation is called once, also if it throws std::bad_alloc")
{
  asio::io_context io;
  const step first = GENERATE(step::finish(), step::wait(soon), step::access(0));
  int calls = 0;
  start(io, objects::place(), scripted({first, step::finish()}, {}),
    [&](const error_code& ec)
    {
      CHECK_FALSE(ec);
      ++calls;
      throw std::bad_alloc();
    });
  CHECK(calls == 0);
  CHECK_THROWS_AS(io.run(), std::bad_alloc);
  CHECK(run_out(io));
  CHECK(calls == 1);
}

TEST_CASE("an object's operation without memory throws, or calls its handler with an error")
{
  linked_pair l;
  const rdma::memory_region memory(l.far_context, 4096, exposed);
  const objects::place where(l.near.core(), memory.remote());
  std::array<std::byte, 64> to{};
  const auto steps = GENERATE(std::vector{step::finish()},
    std::vector{step::wait(soon), step::access(2), step::wait(soon), step::finish()},
    std::vector{step::access(2), step::wait(soon), step::access(0), step::finish()});
  bool threw = false;
  bool failed = false;
  for (int until_failure = 0;; ++until_failure)
  {
    int left = until_failure;
    std::optional<error_code> result;
    asio::cancellation_signal signal;
    try
    {
      start(l.io, where, scripted(steps, to, 32),
        asio::bind_cancellation_slot(signal.slot(), poor_handler{&left, &result}));
      CHECK_FALSE(result);
      REQUIRE(run_until(l.io, [&] { return result.has_value(); }));
    }
    catch (const std::bad_alloc&)
    {
      threw = true;
      CHECK_FALSE(result);
    }
    CHECK_FALSE(signal.slot().has_handler());
    if (left >= 0)
      break; // no allocation failed
    failed = failed || (result && *result == boost::system::errc::not_enough_memory);
    CHECK((!result || !*result || *result == boost::system::errc::not_enough_memory));
  }
  CHECK(threw);
  CHECK(failed == (steps.size() != 1));
}

TEST_CASE("a read that does not end leaves the memory of an object's operation alone")
{
  std::array<std::byte, 64> to{};
  std::optional<linked_pair> l(std::in_place);
  const rdma::memory_region memory(l->far_context, 4096, exposed);
  std::ranges::fill(memory.as_span<std::byte>(), std::byte{7});
  std::optional<objects::place> where(std::in_place, l->near.core(), memory.remote());
  const scripted machine({step::access(1), step::finish()}, to);
  plain_record r;
  start(l->io, *where, machine, r.handler());
  REQUIRE(run_until(l->io, [&] { return r.done(); }));
  CHECK(to.front() == std::byte{7}); // by way of the place's memory
  to.fill(std::byte{1});
  start(l->io, *where, machine, r.handler());
  where.reset();
  l.reset();
  CHECK(r.calls == 1);
  CHECK(to.front() == std::byte{1});
}

TEST_CASE("all reads of a step arrive when several threads call handlers")
{
  linked_pair l;
  constexpr std::size_t large = 16384;
  constexpr std::size_t size = large + 64;
  const rdma::memory_region memory(l.far_context, size, exposed);
  const objects::place where(l.near.core(), memory.remote());
  std::vector<std::byte> to(size);
  std::atomic<int> wrong{0};
  const scripted machine({step::access(2), step::finish()}, to, large);
  std::atomic<bool> done{false};
  std::thread other;
  {
    const auto work = asio::make_work_guard(l.io);
    other = std::thread([&] { l.io.run(); });
    for (int i = 1; i != 1000; ++i)
    {
      const auto value = static_cast<std::byte>(i);
      std::ranges::fill(memory.as_span<std::byte>(), value);
      done = false;
      start(l.io, where, machine,
        [&](const error_code& ec)
        {
          wrong += ec || to.front() != value || to.back() != value;
          done = true;
          done.notify_one();
        });
      done.wait(false);
    }
  }
  other.join();
  CHECK(wrong == 0);
}

} // namespace test::objects_operation
