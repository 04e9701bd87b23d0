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
#include "common/figures.hpp"
#include "common/inventory.hpp"
#include "common/rdma_fixture.hpp"
#include "common/system_calls.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <random>
#include <utility>

namespace test {

/// A round has one kind of fault.
enum class fault
{
  allocation,  ///< the n-th allocation
  allocations, ///< all allocations from the n-th on
  call,        ///< the n-th system call
  descriptors  ///< all calls that open a descriptor, from the n-th on
};

/// The operations of one round, some of which fail.
class faulty_round
{
public:
  /// `passing`, unless null, stops when an operation waits for it.
  faulty_round(asio::io_context& io, fault kind, injected_faults* passing = nullptr)
    : io_(io)
    , has_memory_(kind == fault::call || kind == fault::descriptors)
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
          const spared_faults own;
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

  /// Calls what makes an object. Returns false if that fails.
  template <class Make>
  [[nodiscard]] bool make(Make make) const
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
      if (!has_memory_ && failure.code() != not_enough_memory
        && failure.code() != resource_unavailable_try_again) // of a thread
        throw;
    }
    return false;
  }

  /// Runs the io_context until none of these operations is under way.
  template <class... Outcome>
  void await(const Outcome&... each)
  {
    await_that([&] { return (!each.is_open() && ...); });
  }

  /// Runs the io_context until this condition is met.
  template <class Condition>
  void await_that(Condition done)
  {
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
  const bool has_memory_; // only system calls fail
  injected_faults* const passing_;
  std::array<outcome, 64> outcomes_;
  std::size_t count_ = 0;
  bool is_stuck_ = false;
  int escaped_ = 0; // exceptions that have left the io_context
};

/// Runs rounds with faults.
/**
 * Scene has an io_context `io`, run(faulty_round&), end(), which ends what is left of a round, and
 * serves_next(), which returns true if a new client is served. It serves one round or several.
 */
template <class Scene>
class faulty_rounds
{
public:
  /// If `passing`, lasting faults end when an operation waits for memory or a descriptor.
  faulty_rounds(fault kind, bool passing)
    : kind_(kind)
    , passing_(passing)
  {
  }

  /// Runs rounds for every n, or for some unless exhaustive(). Checks that operations end once,
  /// that the next client is served after each round, and that nothing is left at the end.
  void run()
  {
    {
      Scene scene;
      static_cast<void>(fails(scene, any(200), any_choice())); // within what a process makes once
    }
    const std::size_t all = count();
    const holdings before;
    {
      std::optional<Scene> scene(std::in_place);
      const std::size_t samples = is_lasting() ? 10 : 40;
      const std::size_t step = exhaustive() ? 1 : std::max<std::size_t>(1, 2 * all / samples);
      for (std::size_t n = 0; fails_in_each_way(*scene, n);)
      {
        n += any(step);
        if (any(2) == 1) // new objects: they have allocated less than used ones
          scene.emplace();
      }
    }
    CHECK(settled(before) <= before);
    add_figure(fails_calls() ? "rounds without a call" : "rounds without memory", failed_);
  }

private:
  [[nodiscard]] bool is_lasting() const
  {
    return kind_ == fault::allocations || kind_ == fault::descriptors;
  }

  [[nodiscard]] std::size_t any(std::size_t max)
  {
    return std::uniform_int_distribution<std::size_t>(1, max)(random_);
  }

  [[nodiscard]] unsigned any_choice()
  {
    return static_cast<unsigned>(any(failing_calls::choices) - 1);
  }

  [[nodiscard]] bool fails_calls() const
  {
    return kind_ == fault::call || kind_ == fault::descriptors;
  }

  /// Calls body(faults) while the n-th event fails.
  template <class Body>
  void with_faults(std::size_t n, unsigned choice, Body body)
  {
    if (fails_calls())
    {
      failing_calls faults(n, is_lasting(), choice);
      body(faults, failed_call);
    }
    else
    {
      failing_allocations faults(n, is_lasting());
      body(faults, first_stack);
    }
  }

  /// Makes the n-th call fail with each of its errors if exhaustive(), and otherwise with one.
  /// Returns false if not so many events happened.
  bool fails_in_each_way(Scene& scene, std::size_t n)
  {
    if (!exhaustive() || kind_ != fault::call)
      return fails(scene, n, any_choice());
    constexpr unsigned whole = failing_calls::multiple_of_errors;
    unsigned error = 0;
    do
      if (!fails(scene, n, any_choice() / whole * whole + error))
        return error != 0;
    while (++error < errors_of_failed_call());
    return true;
  }

  /// Returns false if not so many events happened.
  bool fails(Scene& scene, std::size_t n, unsigned choice)
  {
    CAPTURE(n, static_cast<int>(kind_), choice, seed_);
    bool failed = false;
    with_faults(n, choice,
      [&](injected_faults& faults, auto describe)
      {
        faulty_round each(scene.io, kind_, is_lasting() && passing_ ? &faults : nullptr);
        scene.run(each);
        faults.stop();
        failed = faults.failed() != 0;
        failed_ += failed ? 1 : 0;
        INFO((failed ? describe() : std::string()));
        scene.end();
        each.check();
        REQUIRE(scene.serves_next());
      });
    return failed;
  }

  /// Returns the number of events of a round without faults.
  [[nodiscard]] std::size_t count()
  {
    Scene scene;
    std::size_t result = 0;
    with_faults(fault_counter::never, 0,
      [&](injected_faults& faults, auto&&)
      {
        faulty_round each(scene.io, kind_);
        scene.run(each);
        faults.stop();
        result = faults.events();
        scene.end();
        each.check();
        REQUIRE(scene.serves_next());
      });
    return result;
  }

  const fault kind_;
  const bool passing_;
  std::uint64_t failed_ = 0; // rounds
  const std::uint_fast32_t seed_ = std::random_device()();
  std::minstd_rand random_{seed_};
};

/// Returns options by which operations with a lost peer end soon.
inline rdma::queue_pair_options faulty_round_options()
{
  rdma::queue_pair_options options;
  options.connect_timeout = std::chrono::milliseconds(500);
  options.retry_count = 1;
  options.rnr_retry_count = 1;
  return options;
}

/// Runs rounds with failing allocations.
template <class Scene>
void with_failing_allocations(bool passing = true)
{
  faulty_rounds<Scene>(GENERATE(fault::allocation, fault::allocations), passing).run();
}

/// Runs rounds with failing system calls.
template <class Scene>
void with_failing_calls(bool passing = true)
{
  BOOST_RDMA_TEST_NEEDS(software_device); // after some errors rdma-core uses another interface
  if (failing_calls::are_supported())
    faulty_rounds<Scene>(GENERATE(fault::call, fault::descriptors), passing).run();
  else
    WARN("skipped: sanitizers make system calls themselves");
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_FAULTS_HPP
