//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Catch's main(), compiled once for all lanes, the report of each test case to test/vm/suite, the
// watchdog, and pauses.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

int main(int argc, char* argv[])
{
  return Catch::Session().run(argc, argv);
}

using listener_base = Catch::EventListenerBase;
#define BOOST_RDMA_TEST_CATCH_MAJOR 3
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

using listener_base = Catch::TestEventListenerBase;
#define BOOST_RDMA_TEST_CATCH_MAJOR 2
#endif

#include "common/device_traits.hpp"
#include "common/patience.hpp"
#include "common/pauses.hpp"
#include "common/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

/// Adds a line for each test case to the file that BOOST_RDMA_TEST_REPORT names.
/**
 * A line contains the numbers of passed and failed assertions and the reasons for omitted parts,
 * separated by tabs. Catch's exit code does not distinguish a skipped test case from a passed one.
 */
class report : public listener_base
{
public:
  using listener_base::listener_base;

#if BOOST_RDMA_TEST_CATCH_MAJOR == 2
  bool assertionEnded(const Catch::AssertionStats& stats) override
  {
    take_reasons(stats);
    return false; // the messages need not be kept
  }
#else
  void assertionEnded(const Catch::AssertionStats& stats) override { take_reasons(stats); }
#endif

  void testCaseEnded(const Catch::TestCaseStats& stats) override
  {
    if (const char* path = std::getenv("BOOST_RDMA_TEST_REPORT"))
    {
      std::ofstream to(path, std::ios::app);
      to << stats.totals.assertions.passed << '\t' << stats.totals.assertions.failed;
      for (const std::string& reason : reasons_)
        to << '\t' << reason;
      to << '\n';
    }
    reasons_.clear();
  }

private:
  // Collects the messages of test::has(), test::need() and BOOST_RDMA_TEST_NEEDS.
  void take_reasons(const Catch::AssertionStats& stats)
  {
    for (const Catch::MessageInfo& each : stats.infoMessages)
      if (each.type == Catch::ResultWas::Warning
        && (each.message.rfind("skipped on ", 0) == 0 || each.message.rfind("left out on ", 0) == 0)
        && std::find(reasons_.begin(), reasons_.end(), each.message) == reasons_.end())
        reasons_.push_back(each.message);
  }

  std::vector<std::string> reasons_;
};

CATCH_REGISTER_LISTENER(report)

/// Makes test cases fail that exceed the bounds of test::watchdog.
/** With [!shouldfail], a test case passes only if it exceeds one. */
class watch : public listener_base
{
public:
  using listener_base::listener_base;

  void testCaseStarting(const Catch::TestCaseInfo&) override
  {
    depth_ = 0;
    before_ = test::watchdog::holding::now();
    start();
  }

  void sectionStarting(const Catch::SectionInfo&) override { ++depth_; }

  // The outermost section ends when the test case's function has returned, once for each run with
  // other sections or generated values. The test case can still fail then.
  void sectionEnded(const Catch::SectionStats&) override
  {
    if (--depth_ != 0 || test::emulated())
      return; // the bounds are not known for drivers in a virtual machine
    std::string failure = test::watchdog::turns_failure(
      test::watchdog::take_turns(), test::watchdog::stolen_time() - stolen_);
    // Other threads may release something a little later.
    std::string growth;
    static_cast<void>(test::until(
      [&]
      {
        growth = test::watchdog::growth_failure(before_, test::watchdog::holding::now());
        return growth.empty();
      }));
    failure += growth;
    if (!failure.empty())
      FAIL_CHECK(failure);
    start();
  }

private:
  void start()
  {
    static_cast<void>(test::watchdog::take_turns());
    stolen_ = test::watchdog::stolen_time();
  }

  int depth_ = 0;
  test::watchdog::holding before_;
  std::chrono::nanoseconds stolen_{};
};

CATCH_REGISTER_LISTENER(watch)

/// Pauses the test's thread after an assertion. A test that takes two of its steps for one fails.
class pauses : public listener_base
{
public:
  using listener_base::listener_base;

  void testCaseStarting(const Catch::TestCaseInfo&) override { test::allow_pauses(); }

  // Catch calls it after it has evaluated the expression.
  void assertionStarting(const Catch::AssertionInfo&) override { test::pause_at_random(1); }
};

CATCH_REGISTER_LISTENER(pauses)

} // namespace
