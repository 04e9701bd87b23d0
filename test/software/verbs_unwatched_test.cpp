//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/sanitizers.hpp"
#include "common/system_calls.hpp"
#include "software/verbs_fixture.hpp"

#include <fstream>
#include <string>

// Tests connections whose sockets cannot be watched, as when fs.epoll.max_user_watches is reached.

#if !BOOST_RDMA_TEST_THREAD_SANITIZER // which replaces this function itself

namespace {

/// Returns the number of links of the local wire in this process.
unsigned count_links()
{
  unsigned count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:boost_rdma link") != std::string::npos ? 1 : 0;
  return count;
}

} // namespace

using namespace test;

TEST_CASE("a connection whose socket cannot be watched is replaced by another one")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const int which = GENERATE(range(0, 4));
  CAPTURE(which);
  verbs_device near;
  verbs_device far;
  const auto write = [&](const endpoint& by)
  {
    memory from(near, 64);
    memory to(far, 64);
    from.fill(sent_byte);
    REQUIRE(by.write(1, from.sge(), to.address(), to.key()) == 0);
    CHECK(by.sent().next().status == IBV_WC_SUCCESS);
    CHECK(to.holds(sent_byte));
  };
  {
    endpoint first_near(near);
    endpoint first_far(far);
    connect(first_near, first_far); // both devices listen
    write(first_near);
  }
  REQUIRE(until([] { return count_links() == 0; })); // the next connection makes a link
  endpoint a(near);
  endpoint b(far);
  fail_epoll_addition(which);
  connect(a, b);
  write(a);
  fail_epoll_addition(-1);
}

#endif
