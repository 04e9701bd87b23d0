//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_ALLOCATION_PATTERNS_HPP
#define BOOST_RDMA_BENCH_ALLOCATION_PATTERNS_HPP

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

// Allocation patterns of programs. The measured time covers one allocation with its deallocation.

namespace bench {

enum class pattern
{
  window,   ///< a fixed number of live blocks; each step replaces a random one
  bursts,   ///< each step takes several blocks and gives them back in reverse order
  handover, ///< one thread takes blocks, another gives them back
};

struct allocation_case
{
  bench::pattern pattern;
  unsigned threads;
  std::size_t size; ///< the largest; sizes are random, down to half of it
};

inline const char* name_of(pattern p)
{
  return p == pattern::window ? "window" : p == pattern::bursts ? "bursts" : "handover";
}

/// Random numbers, drawn in advance so that all allocators get the same ones.
class draws
{
public:
  explicit draws(std::size_t size, unsigned seed)
  {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::uint32_t> sizes(
      static_cast<std::uint32_t>(size / 2 + 1), static_cast<std::uint32_t>(size));
    for (one& each : all_)
      each = {static_cast<std::uint32_t>(random()), sizes(random)};
  }

  struct one
  {
    std::uint32_t place;
    std::uint32_t size;
  };
  [[nodiscard]] const one& operator[](std::size_t i) const noexcept { return all_[i % count]; }

private:
  static constexpr std::size_t count = 4096;
  std::vector<one> all_ = std::vector<one>(count);
};

/// Up to 1,024 live blocks, 8 MiB at most.
inline std::size_t window_size(std::size_t size)
{
  return std::clamp<std::size_t>((std::size_t{8} << 20) / size, 16, 1024);
}

inline constexpr std::size_t burst_size = 32;
inline constexpr std::size_t steps_between_looks = 64; // steps between two reads of the clock

/// Nanoseconds that this thread was ready to run and had no processor
/// (Documentation/scheduler/sched-stats of Linux).
inline double waited_for_processor()
{
  std::ifstream file("/proc/thread-self/schedstat");
  double running = 0;
  double waited = 0;
  file >> running >> waited;
  return waited;
}

/// Runs steps for the given duration. Returns the nanoseconds per step, without the time in which
/// other threads had the processor. Waiting for a lock counts.
template <class Step>
double timed(std::chrono::nanoseconds duration, Step step)
{
  using clock = std::chrono::steady_clock;
  // Read before schedstat: time waited for a processor is only subtracted if the interval contains
  // it.
  const auto start = clock::now();
  const double waited = waited_for_processor();
  std::size_t steps = 0;
  for (;;)
  {
    for (std::size_t i = 0; i < steps_between_looks; ++i)
      step(steps++);
    if (clock::now() - start >= duration)
    {
      const double others = waited_for_processor() - waited;
      return (std::chrono::duration<double, std::nano>(clock::now() - start).count() - others)
        / static_cast<double>(steps);
    }
  }
}

template <class Allocator>
double run_window(typename Allocator::user& user, const draws& random, std::size_t size,
  std::chrono::nanoseconds duration)
{
  std::vector<typename Allocator::block> live(window_size(size));
  for (std::size_t i = 0; i < live.size(); ++i)
    live[i] = user.take(random[i].size);
  const auto step = [&](std::size_t i)
  {
    const draws::one& drawn = random[i];
    auto& block = live[drawn.place % live.size()];
    user.give(block);
    block = user.take(drawn.size);
  };
  (void)timed(duration / 4, step); // warm-up
  const double result = timed(duration, step);
  for (auto& each : live)
    user.give(each);
  return result;
}

template <class Allocator>
double run_bursts(
  typename Allocator::user& user, const draws& random, std::chrono::nanoseconds duration)
{
  std::vector<typename Allocator::block> live(burst_size);
  const auto step = [&](std::size_t i)
  {
    for (std::size_t k = 0; k < burst_size; ++k)
      live[k] = user.take(random[i * burst_size + k].size);
    for (std::size_t k = burst_size; k-- > 0;)
      user.give(live[k]);
  };
  (void)timed(duration / 4, step);
  return timed(duration, step) / static_cast<double>(burst_size);
}

/// Ring buffer with one writer and one reader.
template <class Block>
class handover_ring
{
public:
  bool push(Block&& block)
  {
    const std::size_t at = written_.load(std::memory_order_relaxed);
    if (at - seen_read_ == places_.size()
      && at - (seen_read_ = read_.load(std::memory_order_acquire)) == places_.size())
      return false;
    places_[at % places_.size()] = std::move(block);
    written_.store(at + 1, std::memory_order_release);
    return true;
  }
  template <class Take>
  bool pop(Take take)
  {
    const std::size_t at = read_.load(std::memory_order_relaxed);
    if (at == seen_written_ && at == (seen_written_ = written_.load(std::memory_order_acquire)))
      return false;
    take(places_[at % places_.size()]);
    read_.store(at + 1, std::memory_order_release);
    return true;
  }

private:
  std::vector<Block> places_ = std::vector<Block>(128);
  alignas(64) std::atomic<std::size_t> written_{0};
  std::size_t seen_read_ = 0; // the writer's copy
  alignas(64) std::atomic<std::size_t> read_{0};
  std::size_t seen_written_ = 0; // the reader's copy
};

/// Allocates blocks and passes them on. Returns the nanoseconds of a block.
template <class Allocator, class Ring>
double run_giver(typename Allocator::user& user, const draws& random, Ring& ring,
  std::chrono::nanoseconds duration)
{
  const auto step = [&](std::size_t i)
  {
    auto block = user.take(random[i].size);
    while (!ring.push(std::move(block)))
      std::this_thread::yield();
  };
  (void)timed(duration / 4, step);
  return timed(duration, step);
}

/// Frees the blocks of the giver.
template <class Allocator, class Ring>
void run_taker(typename Allocator::user& user, Ring& ring, const std::atomic<bool>& over)
{
  for (const auto give = [&](auto& block) { user.give(block); };;)
    if (!ring.pop(give))
    {
      if (over && !ring.pop(give))
        break;
      std::this_thread::yield();
    }
}

/// Returns the nanoseconds of an allocation with its deallocation, for the slowest thread.
template <class Allocator>
double measure(
  const Allocator& allocator, const allocation_case& what, std::chrono::nanoseconds duration)
{
  std::vector<std::thread> threads;
  std::vector<double> results(what.threads);
  std::vector<std::exception_ptr> failures(what.threads);
  std::barrier ready(static_cast<std::ptrdiff_t>(what.threads));
  handover_ring<typename Allocator::block> ring;
  std::atomic<bool> over{false};

  const auto body = [&](unsigned index)
  {
    const draws random(what.size, index + 1);
    typename Allocator::user user(allocator);
    ready.arrive_and_wait();
    if (what.pattern == pattern::window)
      results[index] = run_window<Allocator>(user, random, what.size, duration);
    else if (what.pattern == pattern::bursts)
      results[index] = run_bursts<Allocator>(user, random, duration);
    else if (index == 0)
    {
      results[index] = run_giver<Allocator>(user, random, ring, duration);
      over = true;
    }
    else
      run_taker<Allocator>(user, ring, over);
  };
  for (unsigned i = 0; i < what.threads; ++i)
    threads.emplace_back(
      [&, i]
      {
        try
        {
          body(i);
        }
        catch (...)
        {
          failures[i] = std::current_exception();
          over = true;
        }
      });
  for (std::thread& each : threads)
    each.join();
  for (const auto& each : failures)
    if (each)
      std::rethrow_exception(each);
  return *std::ranges::max_element(results);
}

} // namespace bench

#endif // BOOST_RDMA_BENCH_ALLOCATION_PATTERNS_HPP
