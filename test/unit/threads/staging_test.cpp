//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/staging.hpp"

#include "common/catch.hpp"

#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace test {
namespace {

using rdma::software::wire::staging;
using rdma::software::wire::staging_pool;

/// Uses buffers in a destructor of a thread, after the thread's cache has been destroyed.
struct late_user
{
  bool* good = nullptr;

  ~late_user()
  {
    std::set<std::byte*> taken;
    std::vector<staging> held;
    for (int i = 0; i != 3; ++i)
    {
      held.push_back(staging_pool::of_process().take());
      held.back()[0] = std::byte(i);
      taken.insert(held.back().get());
    }
    *good = taken.size() == held.size();
    for (staging& each : held)
      staging_pool::of_process().give_back(std::move(each));
  }
};

} // namespace

TEST_CASE("a thread takes and gives back staging buffers after its own cache was destroyed")
{
  bool good = false;
  std::thread(
    [&]
    {
      // Constructed before the cache, so destroyed after it.
      thread_local late_user late;
      late.good = &good;
      staging_pool::of_process().give_back(staging_pool::of_process().take());
    })
    .join();
  CHECK(good);
  // A buffer that was freed twice, or is in two places, is found by the address sanitizer.
  for (int i = 0; i != 3; ++i)
    CHECK(staging_pool::of_process().take());
}

} // namespace test
