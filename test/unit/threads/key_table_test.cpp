//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/key_table.hpp"

#include "common/catch.hpp"

#include <atomic>
#include <cstdint>
#include <thread>

namespace test {

TEST_CASE("the revocation of a key waits for the accesses that have begun")
{
  using namespace rdma::software;
  key_table keys;
  std::uint32_t key = 0;
  key_slot* const slot = keys.allocate(key);
  REQUIRE(slot != nullptr);
  key_table::publish(*slot, key);
  key_slot* const pinned = keys.pin(key);
  REQUIRE(pinned == slot);
  std::atomic<bool> revoked{false};
  std::thread owner(
    [&]
    {
      key_table::revoke(*slot);
      revoked = true;
    });
  while (slot->key.load() != 0)
    std::this_thread::yield();
  CHECK(keys.pin(key) == nullptr);     // no access begins
  for (unsigned i = 0; i != 1000; ++i) // time for an owner that does not wait
  {
    CHECK_FALSE(revoked);
    std::this_thread::yield();
  }
  key_table::unpin(*pinned);
  owner.join();
  CHECK(revoked);
}

} // namespace test
