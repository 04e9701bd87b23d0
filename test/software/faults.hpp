//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_FAULTS_HPP
#define BOOST_RDMA_TEST_SOFTWARE_FAULTS_HPP

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>
#include <random>
#include <utility>

namespace test {

/// The operations of one round, some of which fail.
class faulty_round
{
public:
  /// `passing`, unless null, stops when an operation waits for it.
  explicit faulty_round(asio::io_context& io, failing_allocations* passing = nullptr)
    : io_(io)
    , passing_(passing)
  {
  }
  faulty_round(const faulty_round&) = delete;
  faulty_round& operator=(const faulty_round&) = delete;

  /// What has become of an operation.
  struct outcome
  {
    int calls = 0;
    bool is_started = false;
    error_code ec;

    [[nodiscard]] bool succeeded() const { return calls != 0 && !ec; }
    [[nodiscard]] bool is_open() const { return is_started && calls == 0; }
  };

  /// Starts an operation by initiate(handler). Its handler calls then(values...) after a success.
  template <class Initiate, class Then>
  outcome& start(Initiate initiate, Then then)
  {
    outcome& made = outcomes_.at(count_++);
    try
    {
      initiate(
        [&made, then](error_code ec, auto&&... values)
        {
          const spared_allocations own;
          ++made.calls;
          made.ec = ec;
          if (!ec)
            then(std::forward<decltype(values)>(values)...);
        });
      made.is_started = true;
    }
    catch (const std::bad_alloc&)
    {
    }
    return made;
  }
  template <class Initiate>
  outcome& start(Initiate initiate)
  {
    return start(initiate, [](auto&&...) {});
  }

  /// Calls what makes an object. Returns false if there is no memory for it.
  template <class Make>
  [[nodiscard]] static bool make(Make make)
  {
    try
    {
      make();
      return true;
    }
    catch (const std::bad_alloc&)
    {
    }
    catch (const boost::system::system_error& failure)
    {
      using namespace boost::system::errc;
      if (failure.code() != not_enough_memory
        && failure.code() != resource_unavailable_try_again) // of a thread
        throw;
    }
    return false;
  }

  /// Runs the io_context until none of these operations is under way.
  template <class... Outcome>
  void await(const Outcome&... each)
  {
    const auto done = [&] { return (!each.is_open() && ...); };
    if (passing_ != nullptr && !repeat([&] { return runs_soon(done); }))
      passing_->stop();
    is_stuck_ |= !until(done);
  }

  /// Waits for all operations, and checks that each handler was called once.
  void check()
  {
    is_stuck_ |= !until(
      [this]
      {
        return std::none_of(
          outcomes_.begin(), outcomes_.end(), [](const outcome& each) { return each.is_open(); });
      });
    for (std::size_t i = 0; i != count_; ++i)
    {
      CAPTURE(i, outcomes_[i].ec);
      CHECK(outcomes_[i].calls == (outcomes_[i].is_started ? 1 : 0));
    }
    CHECK(escaped_ == 0);
    REQUIRE_FALSE(is_stuck_);
  }

private:
  template <class Condition>
  bool until(Condition done)
  {
    return repeat([&] { return run_until(io_, done); });
  }

  /// Returns false if the condition is not met within a time in which most operations end.
  template <class Condition>
  bool runs_soon(Condition done)
  {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!done())
      if (io_.run_one_until(limit) == 0)
        return done();
    return true;
  }

  template <class Run>
  bool repeat(Run run)
  {
    for (;;)
      try
      {
        return run();
      }
      catch (const std::bad_alloc&)
      {
        ++escaped_;
      }
  }

  asio::io_context& io_;
  failing_allocations* const passing_;
  std::array<outcome, 64> outcomes_;
  std::size_t count_ = 0;
  bool is_stuck_ = false;
  int escaped_ = 0; // exceptions that have left the io_context
};

/// Runs run(round) with the n-th allocation failing, once and from then on, for every n, or for
/// some unless exhaustive(). After each, end() ends what is left, and next() must succeed.
/** If `passing`, "from then on" ends when an operation waits for memory. */
template <class Run, class End, class Next>
void with_failing_allocations(
  asio::io_context& io, Run run, End end, Next next, bool passing = false)
{
  const bool lasting = GENERATE(false, true);
  const auto seed = std::random_device()();
  std::minstd_rand random(seed);
  // Returns false if not so many allocations happened.
  const auto fails = [&](std::size_t n)
  {
    CAPTURE(n, lasting, seed);
    failing_allocations failures(n, lasting);
    faulty_round each(io, lasting && passing ? &failures : nullptr);
    run(each);
    failures.stop();
    const bool failed = failures.failed() != 0;
    INFO((failed ? first_stack() : std::string()));
    end();
    each.check();
    REQUIRE(next());
    return failed;
  };
  const auto any = [&](std::size_t max)
  { return std::uniform_int_distribution<std::size_t>(1, max)(random); };
  static_cast<void>(fails(any(200))); // within what a process makes once
  std::size_t all = 0;
  {
    faulty_round each(io);
    const allocation_count count;
    run(each);
    all = count.value();
    end();
    each.check();
    REQUIRE(next());
  }
  const std::size_t samples = lasting ? 10 : 40;
  const std::size_t step = exhaustive() ? 1 : std::max<std::size_t>(1, 2 * all / samples);
  for (std::size_t n = 0; fails(n);)
    n += any(step);
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_FAULTS_HPP
