//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/system_calls.hpp"
#include "software/verbs_fixture.hpp"

#include <atomic>

// Tests a wake-up of the peer that the kernel has no memory for.

using namespace test;

TEST_CASE("a wake-up that the socket refuses is repeated although the program does not poll")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  if (!replaces_system_calls())
  {
    WARN("skipped here: no system call can be made to fail");
    return;
  }
  pair_options options;
  options.timeout = 0; // no other alarm
  connected c(options);
  memory from(c.near, 8);
  memory to(c.far, 8);
  std::uint64_t sent = 0;
  const auto arrives = [&]
  {
    ++sent;
    *from.word() = sent;
    REQUIRE(c.a.write(sent, from.sge(), to.address(), to.key()) == 0);
    return until([&] { return std::atomic_ref(*to.word()).load() == sent; });
  };
  REQUIRE(arrives());
  // The engine looks a few times in any case. After that only its alarm makes it repeat a wake-up.
  constexpr int refused = 20;
  refuse_wake_ups(refused);
  CHECK(until(
    [&]
    {
      while (c.a.sent().poll())
      {
      }
      REQUIRE(arrives()); // at once if the peer does not sleep
      return wake_ups_to_refuse() == 0;
    }));
  refuse_wake_ups(0);
}
