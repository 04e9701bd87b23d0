//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/protocol_fixture.hpp"

#include <cstdint>

// Tests the rules for keys and memory windows of the software device.
// test/software/verbs_windows_test.cpp uses windows.

namespace protocol_test {

namespace {

/// A type 2 window that is not bound, and the arguments of a valid bind.
struct unbound_window : registered_memory
{
  unbound_window()
    : window_slot(make_window())
    , what{window_slot->first_key, key, IBV_ACCESS_REMOTE_WRITE, begin(), 4096}
    , rkey(window_slot->first_key ^ 1)
  {
  }

  key_slot* make_window()
  {
    std::uint32_t first = 0;
    key_slot* const made = keys.allocate(first);
    made->window = made->type2 = true;
    made->pd = &pd;
    made->first_key = first;
    return made;
  }
  bool bind() { return bind_window(keys, what, rkey, &pd, with.qp); }
  bool pins(std::uint32_t which, unsigned rights)
  {
    return static_cast<bool>(key_pin(keys.pin_remote(which, &pd, with.qp, begin(), 8, rights)));
  }

  ibv_pd other_pd{};
  key_slot* window_slot;
  window_binding what;
  std::uint32_t rkey;
};

} // namespace

TEST_CASE("a window is bound only to what permits it")
{
  unbound_window w;
  bool good = false;
  SECTION("valid")
  {
    good = true;
  }
  SECTION("a local right, which means nothing")
  {
    w.what.access |= IBV_ACCESS_LOCAL_WRITE;
    good = true;
  }
  SECTION("a window that was freed, and its slot taken again")
  {
    w.window_slot->first_key ^= 1;
  }
  SECTION("a window of another protection domain")
  {
    w.window_slot->pd = &w.other_pd;
  }
  SECTION("a region of another protection domain")
  {
    w.slot->pd = &w.other_pd;
  }
  SECTION("a region that is deregistered")
  {
    key_table::revoke(*w.slot);
  }
  SECTION("a window in the place of the region")
  {
    w.what.region = w.registered_memory::bind();
    w.window->access |= IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE;
  }
  SECTION("a region that permits no windows")
  {
    w.slot->access &= ~unsigned{IBV_ACCESS_MW_BIND};
  }
  SECTION("a region that may not be written")
  {
    w.slot->access &= ~unsigned{IBV_ACCESS_LOCAL_WRITE};
  }
  SECTION("an unknown right")
  {
    w.what.access |= IBV_ACCESS_MW_BIND;
  }
  SECTION("beyond the region")
  {
    w.what.address += w.bytes.size() - 4095;
  }
  SECTION("nothing")
  {
    w.what.length = 0;
  }
  CHECK(w.bind() == good);
  CHECK(w.window_slot->bound == good);
  CHECK(w.slot->windows == (good || w.window != nullptr ? 1 : 0));
  CHECK(w.pins(w.rkey, IBV_ACCESS_REMOTE_WRITE) == good);
  if (good)
    CHECK(w.window_slot->access == IBV_ACCESS_REMOTE_WRITE);
}

TEST_CASE("a window is invalidated only by its key and its owner")
{
  unbound_window w;
  REQUIRE(w.bind());
  CHECK_FALSE(w.bind()); // it must be invalidated first
  CHECK(w.keys.pin_local(w.rkey, &w.pd, w.begin(), 8, 0) == nullptr); // a window has no local key
  std::uint32_t which = w.rkey;
  std::uint32_t qp = w.with.qp;
  const ibv_pd* pd = &w.pd;
  bool good = false;
  SECTION("valid")
  {
    good = true;
  }
  SECTION("another key of the slot")
  {
    which = w.window_slot->first_key;
  }
  SECTION("the region")
  {
    which = w.key;
    qp = 0;
  }
  SECTION("another queue pair")
  {
    qp ^= 1;
  }
  SECTION("another protection domain")
  {
    pd = &w.other_pd;
  }
  CHECK(invalidate_window(w.keys, which, pd, qp) == good);
  CHECK(w.window_slot->bound == !good);
  CHECK((w.window_slot->key == 0) == good);
  CHECK(w.slot->windows == (good ? 0 : 1));
  CHECK(w.pins(w.rkey, IBV_ACCESS_REMOTE_WRITE) == !good);
  CHECK(w.pins(w.key, IBV_ACCESS_REMOTE_WRITE));
  if (good)
    CHECK_FALSE(invalidate_window(w.keys, which, pd, qp));
}

TEST_CASE(
  "a key permits all rights that it has together, and a refused access leaves nothing behind")
{
  unbound_window w;
  w.slot->access = IBV_ACCESS_REMOTE_READ;
  CHECK(w.pins(w.key, IBV_ACCESS_REMOTE_READ));
  CHECK_FALSE(w.pins(w.key, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
  CHECK_FALSE(w.pins(w.key ^ 1, IBV_ACCESS_REMOTE_READ));
  CHECK(w.keys.pin_local(w.key, &w.pd, w.begin(), 8, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(w.keys.pin_local(w.key, &w.other_pd, w.begin(), 8, 0) == nullptr);
  CHECK(w.slot->pins == 0);
  // A window of type 1 has a key while it is not bound.
  w.window_slot->access = IBV_ACCESS_REMOTE_READ;
  w.window_slot->address = w.begin();
  w.window_slot->length = 8;
  key_table::publish(*w.window_slot, w.rkey);
  CHECK_FALSE(w.pins(w.rkey, IBV_ACCESS_REMOTE_READ));
}

} // namespace protocol_test
