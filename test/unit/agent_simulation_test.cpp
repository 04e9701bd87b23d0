//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/device_traits.hpp"
#include "unit/agent_simulated_program.hpp"
#include "unit/simulated_seeds.hpp"

#include <cstddef>
#include <cstdint>
#include <random>

// The agents of both sides of a connection, in one thread on simulated time: requests, granted and
// lent leases, over a channel that delays messages and ends. A seed decides what the programs do,
// when they cancel, and when a side is stopped or dies. The real tables and messages run.

namespace test::agent_simulation {
namespace {

class simulation
{
public:
  explicit simulation(unsigned seed)
    : w_(dice(seed))
    , near_(w_)
    , far_(w_)
  {
    near_.join(far_);
    far_.join(near_);
  }

  /// Returns the number of operations that succeeded.
  std::size_t run()
  {
    const duration length = 5 * w_.delay + w_.any(30 * w_.delay);
    // All in a few moments: more requests than may be in flight.
    const bool is_bursty = w_.one_in(4);
    const duration moment = length / 4;
    for (std::size_t i = (is_bursty ? 400 : 5) + w_.random() % 120; i != 0; --i)
      w_.at(is_bursty ? w_.any(3ms).count() * moment : w_.any(length),
        [which = w_.one_in(3) ? &far_ : &near_] { which->act(); });
    if (w_.one_in(3))
      w_.at(w_.any(length), [this] { make_trouble(); });
    w_.at(length,
      [this]
      {
        near_.finish();
        far_.finish();
      });
    for (; !w_.agenda.empty(); ++steps)
    {
      REQUIRE(steps < 100'000);
      w_.step();
      near_.check_beliefs();
      far_.check_beliefs();
      if (near_.is_at_rest() && far_.is_at_rest())
      {
        near_.check_rest();
        far_.check_rest();
      }
      if (!w_.problem.empty())
        FAIL(w_.problem);
    }
    near_.check_end();
    far_.check_end();
    if (!w_.problem.empty())
      FAIL(w_.problem);
    return near_.succeeded + far_.succeeded;
  }

  std::uint64_t steps = 0;

private:
  void make_trouble()
  {
    program& one = w_.one_in(2) ? near_ : far_;
    program& other = &one == &near_ ? far_ : near_;
    switch (w_.random() % 3)
    {
    case 0:
      return one.stop(w_.any(20 * w_.delay));
    case 1:
      one.die();
      break;
    default: // the program closes, or the connection fails
      one.end(asio::error::operation_aborted);
    }
    w_.at(w_.any(5 * w_.delay), [&other] { other.end(rdma::error::peer_lost); });
  }

  world w_;
  program near_;
  program far_;
};

} // namespace

TEST_CASE("agents end each operation once and agree on how long each lease lasts")
{
  const unsigned count = exhaustive() ? 300'000 : 2000;
  std::uint64_t steps = 0;
  std::size_t succeeded = 0;
  const bool all = run_seeds(std::random_device()(), count,
    [&](unsigned seed)
    {
      CAPTURE(seed);
      simulation one(seed);
      succeeded += one.run();
      steps += one.steps;
    });
  if (!all)
    return;
  add_figure("steps", steps);
  CHECK(succeeded > count);
}

} // namespace test::agent_simulation
