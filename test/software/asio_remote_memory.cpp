//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/refusal.hpp"

#include <optional>
#include <vector>

// Tests access to the peer's memory: forged ranges, rights, windows and atomics.

using namespace test;

TEST_CASE("operations fail with remote_range_too_small before any data is sent")
{
  linked_pair l;
  rdma::memory_region target(l.far_context, 64, exposed);
  fill(target, "untouched");
  rdma::registered_buffer buffer = l.near_context.allocate(16);
  bytes_record r;
  SECTION("write")
  {
    l.near.async_write(buffer, target.remote().first(15), r.handler());
  }
  SECTION("write past the end")
  {
    l.near.async_write(buffer, target.remote().slice(49), r.handler());
  }
  SECTION("read")
  {
    l.near.async_read(buffer, target.remote().slice(64), r.handler());
  }
  SECTION("batch")
  {
    rdma::batch batch;
    batch.write(buffer, target.remote()).write(buffer, target.remote().first(15));
    l.near.async_submit(batch, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
  }
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::remote_range_too_small);
  CHECK(text_of(target.first(9)) == "untouched");
  check_alive(l.io, l.near, l.far);
}

TEST_CASE("the peer's device refuses a forged remote range and leaves memory unchanged")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  // Page-sized, so the test can check the bytes around the target.
  std::vector<char> memory(3 * 4096, '.');
  rdma::memory_region target(l.far_context, memory.data() + 4096, 4096, exposed);
  const rdma::remote_buffer real = target.remote();
  rdma::registered_buffer buffer = buffer_of(l.near_context, std::string(64, 'W'));
  bytes_record r;
  value_record v;
  refusal both(l);
  bool atomic = false;
  SECTION("write one byte past the end")
  {
    l.near.async_write(buffer, forged(real, real.address() + 4096 - 63, 64), r.handler());
  }
  SECTION("write before the start")
  {
    l.near.async_write(buffer, forged(real, real.address() - 1, 64), r.handler());
  }
  SECTION("write at the end of the address space")
  {
    l.near.async_write(buffer, forged(real, UINT64_MAX - 10, 64), r.handler());
  }
  SECTION("read one byte past the end")
  {
    l.near.async_read(buffer, forged(real, real.address() + 4096 - 63, 64), r.handler());
  }
  SECTION("write with another key")
  {
    rdma::detail::device_keys keys = real.keys();
    for (auto& key : keys)
      key ^= 0x5500;
    l.near.async_write(
      buffer, rdma::remote_buffer(real.address(), 4096, keys, real.rights()), r.handler());
  }
  SECTION("atomic past the end")
  {
    atomic = true;
    l.near.async_fetch_add(forged(real, real.address() + 4096, 8), 1, v.handler());
  }
  REQUIRE(run_until(l.io, [&] { return r.done() || v.done(); }));
  both.check(atomic ? v.ec : r.ec, rdma::wc_status::remote_access_error);
  CHECK(std::count(memory.begin(), memory.end(), '.') == 3 * 4096);
  CHECK(text_of(buffer) == std::string(64, 'W'));
}

TEST_CASE("the peer's device refuses a right that was not granted")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  rdma::registered_buffer buffer = buffer_of(l.near_context, "not sent");
  bytes_record r;
  value_record v;
  refusal both(l);
  std::optional<rdma::memory_region> target;
  const auto expose = [&](rdma::access rights)
  {
    target.emplace(l.far_context, 64, rights);
    fill(*target, std::string(64, '.'));
  };
  SECTION("write to read-only memory")
  {
    expose(rdma::access::remote_read);
    l.near.async_write(buffer, claimed(target->remote()), r.handler());
  }
  SECTION("read of write-only memory")
  {
    expose(rdma::access::local_write | rdma::access::remote_write);
    l.near.async_read(buffer, claimed(target->remote()), r.handler());
  }
  SECTION("atomic on write-only memory")
  {
    BOOST_RDMA_TEST_NEEDS(atomics);
    expose(rdma::access::local_write | rdma::access::remote_write);
    l.near.async_fetch_add(claimed(target->remote()), 1, v.handler());
  }
  REQUIRE(run_until(l.io, [&] { return r.done() || v.done(); }));
  both.check(v.done() ? v.ec : r.ec, rdma::wc_status::remote_access_error);
  CHECK(text_of(target->first(64)) == std::string(64, '.'));
  CHECK(text_of(buffer) == "not sent");
}

TEST_CASE("the peer's device refuses the key of a destroyed region")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  std::vector<char> memory(4096, '.');
  rdma::remote_buffer remote;
  {
    rdma::memory_region region(l.far_context, memory.data(), memory.size(), exposed);
    remote = region.remote();
    bytes_record r;
    l.near.async_write(buffer_of(l.near_context, "in time"), remote, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
  }
  refusal both(l);
  bytes_record late;
  l.near.async_write(buffer_of(l.near_context, "TOO LATE"), remote, late.handler());
  REQUIRE(run_until(l.io, [&] { return late.done(); }));
  both.check(late.ec, rdma::wc_status::remote_access_error);
  CHECK(std::string(memory.begin(), memory.end()) == "in time" + std::string(4096 - 7, '.'));
}

TEST_CASE("a memory window exposes a part of a region until it is invalidated")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  linked_pair l;
  rdma::memory_region region(
    l.far_context, 4096, rdma::access::local_write | rdma::access::window_bind);
  CHECK_THROWS_AS(region.remote(), rdma::system_error); // only windows expose it
  rdma::memory_window window(l.far_context);
  remote_record bound;
  l.far.async_bind_window(window, region.slice(100, 50),
    rdma::access::remote_write | rdma::access::remote_read, bound.handler());
  REQUIRE(run_until(l.io, [&] { return bound.done(); }));
  REQUIRE(bound.ec == error_code());
  const rdma::remote_buffer remote = bound.value();
  CHECK(remote.size() == 50);
  CHECK(remote.address() == reinterpret_cast<std::uintptr_t>(region.data()) + 100);

  rdma::registered_buffer buffer = buffer_of(l.near_context, std::string(50, 'w'));
  bytes_record r;
  l.near.async_write(buffer, remote, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code());
  CHECK(text_of(region.slice(100, 50)) == std::string(50, 'w'));
  CHECK(region.data()[99] == std::byte{});
  CHECK(region.data()[150] == std::byte{});

  fill(region, std::string(4096, '.'));
  SECTION("by its owner")
  {
    plain_record closed;
    l.far.async_invalidate(window.key(), closed.handler());
    REQUIRE(run_until(l.io, [&] { return closed.done(); }));
    CHECK(closed.ec == error_code());
  }
  SECTION("by the peer")
  {
    message_record told;
    l.far.async_receive_message(rdma::no_data, told.handler());
    l.near.async_send_with_invalidate(
      rdma::no_data, remote.key(remote.key(0) != 0 ? 0 : 1), [](error_code, std::size_t) {});
    REQUIRE(run_until(l.io, [&] { return told.done(); }));
    if (has(feature::completion_details))
      CHECK(told.value().invalidated_key == window.key());
  }
  SECTION("by another bind")
  {
    plain_record closed;
    l.far.async_invalidate(window.key(), closed.handler());
    remote_record again;
    REQUIRE(run_until(l.io, [&] { return closed.done(); }));
    l.far.async_bind_window(
      window, region.slice(200, 50), rdma::access::remote_read, again.handler());
    REQUIRE(run_until(l.io, [&] { return again.done(); }));
    REQUIRE(again.ec == error_code());
    bytes_record read;
    l.near.async_read(buffer, again.value(), read.handler());
    REQUIRE(run_until(l.io, [&] { return read.done(); }));
    CHECK(read.ec == error_code());
    CHECK(text_of(buffer) == std::string(50, '.'));
    fill(buffer, std::string(50, 'w'));
  }
  refusal both(l);
  bytes_record after;
  l.near.async_write(buffer.first(1), remote, after.handler());
  REQUIRE(run_until(l.io, [&] { return after.done(); }));
  both.check(after.ec, rdma::wc_status::remote_access_error);
  CHECK(text_of(region) == std::string(4096, '.'));
}

TEST_CASE("async_bind_window refuses regions without window_bind and invalid windows")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  linked_pair l;
  rdma::memory_window window(l.near_context);
  rdma::memory_region unbindable(l.near_context, 64);
  rdma::memory_region bindable(
    l.near_context, 64, rdma::access::local_write | rdma::access::window_bind);
  remote_record r;
  SECTION("a region without window_bind")
  {
    l.near.async_bind_window(window, unbindable, rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::not_exposed);
  }
  SECTION("no bytes")
  {
    l.near.async_bind_window(window, bindable.first(0), rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::empty_buffer);
  }
  SECTION("a window of another context")
  {
    rdma::memory_window other(l.far_context);
    l.near.async_bind_window(other, bindable, rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::wrong_context);
  }
  SECTION("a window that was moved from")
  {
    l.near.async_bind_window(window, bindable, rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    REQUIRE(r.ec == error_code());
    rdma::memory_window taken = std::move(window);
    r = {};
    l.near.async_bind_window(window, bindable, rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::closed);
    CHECK(r.value().size() == 0); // nothing of the bind before
  }
  check_alive(l.io, l.near, l.far);
}

TEST_CASE("a memory window exposes exactly a part of a pool buffer")
{
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  linked_pair l;
  const rdma::registered_buffer pooled = buffer_of(l.near_context, "secret open secret");
  const rdma::memory_window window(l.near_context);
  remote_record r;
  l.near.async_bind_window(window, pooled.slice(7, 4), rdma::access::remote_read, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE(r.ec == error_code());
  const rdma::registered_buffer into = l.far_context.allocate(4);
  bytes_record done;
  l.far.async_read(into, r.value(), done.handler());
  REQUIRE(run_until(l.io, [&] { return done.done(); }));
  REQUIRE(done.ec == error_code());
  CHECK(text_of(into) == "open");
  if (!has(feature::window_bounds))
    return;
  const rdma::remote_buffer exact = r.value();
  const rdma::remote_buffer forged(exact.address() - 1, 4, exact.keys(), exact.rights());
  done = {};
  l.far.async_read(into, forged, done.handler());
  REQUIRE(run_until(l.io, [&] { return done.done(); }));
  CHECK(done.ec == rdma::wc_status::remote_access_error);
  CHECK(text_of(into) == "open");
}

TEST_CASE("atomics fail with misaligned_atomic when the target is not 8 aligned bytes")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  linked_pair l;
  rdma::memory_region target(l.far_context, 64, exposed);
  value_record r;
  SECTION("misaligned")
  {
    l.near.async_fetch_add(target.remote().slice(4), 1, r.handler());
  }
  SECTION("too small")
  {
    l.near.async_compare_exchange(target.remote().first(7), 0, 1, r.handler());
  }
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::misaligned_atomic);
  CHECK(text_of(target.first(16)) == std::string(16, '\0'));
  check_alive(l.io, l.near, l.far);
}

TEST_CASE("atomics and writes fail with no_remote_key when the remote buffer has no key")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  linked_pair l;
  value_record r;
  l.near.async_fetch_add(rdma::remote_buffer(64, 8, {}, rdma::remote_access), 1, r.handler());
  bytes_record w;
  l.near.async_write(
    l.near_context.allocate(8), rdma::remote_buffer(64, 8, {}, rdma::remote_access), w.handler());
  REQUIRE(run_until(l.io, [&] { return r.done() && w.done(); }));
  CHECK(r.ec == rdma::error::no_remote_key);
  CHECK(w.ec == rdma::error::no_remote_key);
}

TEST_CASE("many concurrent atomics add up correctly")
{
  BOOST_RDMA_TEST_NEEDS(atomics);
  rdma::queue_pair_options options;
  options.send_depth = 8;
  linked_pair l(options);
  rdma::memory_region target(l.far_context, 64, exposed);
  std::vector<std::uint64_t> before;
  for (int i = 0; i < 100; ++i)
    l.near.async_fetch_add(target.remote(), 3,
      [&](error_code ec, std::uint64_t value)
      {
        CHECK(ec == error_code());
        before.push_back(value);
      });
  value_record missed;
  l.near.async_compare_exchange(target.remote(), 1, 2, missed.handler());
  REQUIRE(run_until(l.io, [&] { return missed.done(); }));
  REQUIRE(before.size() == 100);
  for (std::size_t i = 0; i < 100; ++i)
    CHECK(before[i] == 3 * i);
  CHECK(missed.value() == 300);
  CHECK(*target.as<std::uint64_t>() == 300);
}
