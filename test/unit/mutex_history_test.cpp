//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "common/catch.hpp"
#include "unit/lease_simulation.hpp"

#include <boost_rdma/detail/objects/mutex.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace test::mutex_history_test {

// Tests remote_mutex on simulated memory with processes of random fate.

namespace {

constexpr std::uint64_t served_offset = offsetof(objects::mutex_memory, served);
using all_mutex_words = std::array<std::uint64_t, sizeof(objects::mutex_memory) / 8>;

struct mutex_history : lease_history<mutex_history>
{
  explicit mutex_history(std::uint64_t seed)
    : lease_history(
      seed, std::bit_cast<all_mutex_words>(objects::new_mutex(lease)), served_offset, 1)
  {
  }

  void start_taking(std::size_t process)
  {
    const bool tries = simulation.below(5) == 0;
    start<objects::mutex_lock_request>(process,
      objects::mutex_lock_request(tries, &simulated_clock::now),
      [this, process, tries](const rdma::error_code& ec, auto& m)
      {
        // FIFO: tickets are served in their order, and a process that runs keeps its ticket.
        right = right && (disturbed[process] || m.skipped() == 0);
        right = right && (m.held() || ec || tries);
        skipped += m.skipped();
        ended_leases += m.ended_leases();
        failed_tries += tries && !m.held();
        tried += tries && m.held();
        renewed_at_once +=
          m.held() && objects::lease_word::of(simulation.memory[served_offset / 8]).beat != 0;
        taken(process, ec, m.held());
      });
  }

  unsigned skipped = 0;
  unsigned ended_leases = 0;
  unsigned failed_tries = 0;
  unsigned tried = 0;
  unsigned renewed_at_once = 0; // because the answer came late
};

} // namespace

TEST_CASE("a mutex has one holder at a time with processes that stop and die")
{
  std::size_t takes = 0, renewals = 0, cancelled = 0;
  unsigned skipped = 0, ended_leases = 0, failed_tries = 0, tried = 0, lost = 0, late = 0,
           at_once = 0;
  for (std::uint64_t seed = 0; seed != seeds_of(700); ++seed)
  {
    mutex_history history(seed);
    INFO("seed " << seed);
    REQUIRE(history.run());
    takes += history.takes;
    renewals += history.renewals;
    cancelled += history.cancelled;
    skipped += history.skipped;
    ended_leases += history.ended_leases;
    failed_tries += history.failed_tries;
    tried += history.tried;
    lost += history.oracle.lost_leases;
    late += history.oracle.expired_on_arrival;
    at_once += history.renewed_at_once;
    CHECK(history.most_holders <= 1);
  }
  INFO(takes << ' ' << renewals << ' ' << cancelled << ' ' << skipped << ' ' << ended_leases << ' '
             << failed_tries << ' ' << tried << ' ' << lost << ' ' << late << ' ' << at_once);
  CHECK(takes >= least(15'000));
  CHECK(renewals >= least(10'000));
  CHECK(cancelled >= least(5000));
  CHECK(skipped >= least(1000));
  CHECK(ended_leases >= least(5000));
  CHECK(failed_tries >= least(5000));
  CHECK(tried >= least(400));
  CHECK(lost >= least(1000));
  CHECK(late >= least(10));
  CHECK(at_once >= least(5));
}

} // namespace test::mutex_history_test
