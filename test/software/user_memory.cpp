//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/register_buffer.hpp>

#include <boost/asio/buffer.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>

// Tests registration of the program's own memory.

using namespace test;

namespace {

template <class Range>
concept can_be_registered = requires(
  const rdma::context& c, Range&& range) { rdma::register_buffer(c, std::forward<Range>(range)); };

static_assert(can_be_registered<std::vector<int>&>);
static_assert(can_be_registered<const std::vector<int>&>);
static_assert(can_be_registered<std::string&>);
static_assert(can_be_registered<std::array<double, 4>&>);
static_assert(can_be_registered<char (&)[5]>);
static_assert(can_be_registered<std::span<int>>); // owns no memory, so a temporary is safe
static_assert(can_be_registered<asio::mutable_buffer>);
static_assert(can_be_registered<asio::const_buffer>);
static_assert(!can_be_registered<std::vector<int>>); // destroyed before the region is used
static_assert(!can_be_registered<std::vector<std::string>&>);
static_assert(!can_be_registered<std::vector<bool>&>);

} // namespace

TEST_CASE("register_buffer registers containers, spans and Asio buffers in place")
{
  rdma::context context = make_context();
  std::vector<std::uint32_t> numbers(100);
  const rdma::memory_region all = rdma::register_buffer(context, numbers);
  CHECK(static_cast<void*>(all.data()) == numbers.data());
  CHECK(all.size() == 400);
  CHECK(all.rights() == rdma::access::local_write);
  CHECK(all.as_span<std::uint32_t>().data() == numbers.data());
  const rdma::memory_region part =
    rdma::register_buffer(context, std::span(numbers).subspan(10, 5), exposed);
  CHECK(static_cast<void*>(part.data()) == numbers.data() + 10);
  CHECK(part.size() == 20);
  CHECK(part.remote().size() == 20);
  char text[5] = {};
  CHECK(rdma::register_buffer(context, text).size() == 5);
  CHECK(rdma::register_buffer(context, asio::buffer(text, 3)).size() == 3);
}

TEST_CASE("a const buffer can be sent but not written")
{
  linked_pair l;
  const std::string text = "constant";
  const rdma::memory_region mine = rdma::register_buffer(l.near_context, text);
  CHECK(mine.rights() == rdma::access::local_read);
  rdma::memory_region target(l.far_context, 64, exposed);
  bytes_record r;
  SECTION("a write accepts it")
  {
    l.near.async_write(mine, target.remote(), r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    CHECK(text_of(target.first(8)) == "constant");
  }
  SECTION("a read refuses it")
  {
    l.near.async_read(mine, target.remote().first(8), r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::read_only);
    rdma::batch batch;
    batch.read(mine, target.remote().first(8));
    r = {};
    l.near.async_submit(batch, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::read_only);
  }
  SECTION("a receive refuses it")
  {
    l.near.async_receive(mine, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::read_only);
  }
  SECTION("a peer can read it")
  {
    const rdma::memory_region shown =
      rdma::register_buffer(l.near_context, text, rdma::access::remote_read);
    l.far.async_read(target.first(8), shown.remote(), r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == error_code());
    CHECK(text_of(target.first(8)) == "constant");
  }
  CHECK(text == "constant");
  CHECK(l.near.is_connected());
}

TEST_CASE("register_buffer fails with bad_access when const memory gets a right to write")
{
  rdma::context context = make_context();
  const std::string text = "constant";
  for (const rdma::access rights : {rdma::access::local_write, exposed,
         rdma::access::local_write | rdma::access::remote_read, rdma::access::window_bind})
  {
    error_code ec;
    CHECK(rdma::register_buffer(context, text, rights, ec).size() == 0);
    CHECK(ec == rdma::error::bad_access);
    CHECK_THROWS_AS(rdma::register_buffer(context, text, rights), rdma::system_error);
  }
  error_code ec;
  CHECK(rdma::register_buffer(context, std::span<int>(), exposed, ec).size() == 0);
  CHECK(ec == rdma::error::empty_buffer);
}

TEST_CASE("register_buffer reports the device's error when the registration fails")
{
  BOOST_RDMA_TEST_NEEDS(pinned_memory);
  const rdma::context context = make_context();
  void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  error_code ec;
  CHECK(rdma::register_buffer(
          context, asio::mutable_buffer(memory, 4096), rdma::access::local_write, ec)
          .size()
    == 0);
  CHECK(ec == error_code(EFAULT, boost::system::system_category()));
  CHECK_FALSE(rdma::likely_cause(ec).empty());
  CHECK(rdma::register_buffer(context, asio::const_buffer(memory, 4096)).size() == 4096);
  ::munmap(memory, 4096);
  CHECK(rdma::register_buffer(
          context, asio::mutable_buffer(memory, 4096), rdma::access::local_write, ec)
          .size()
    == 0);
  CHECK(ec == error_code(EFAULT, boost::system::system_category()));
}

TEST_CASE("operations that a remote buffer does not permit fail locally and keep the connection")
{
  linked_pair l;
  rdma::registered_buffer buffer = buffer_of(l.near_context, "12345678");
  rdma::memory_region readable(l.far_context, 64, rdma::access::remote_read);
  rdma::memory_region writable(
    l.far_context, 64, rdma::access::local_write | rdma::access::remote_write);
  bytes_record r;
  value_record v;
  rdma::batch batch;
  error_code expected = rdma::error::remote_right_missing;
  // A part of the handle in the form that the peer receives.
  const auto handle = [](const rdma::memory_region& of)
  { return rdma::remote_buffer::decode(of.remote().encode()).slice(8, 16).elements<char>(0, 8); };
  SECTION("write")
  {
    l.near.async_write(buffer, handle(readable), r.handler());
  }
  SECTION("write with immediate")
  {
    BOOST_RDMA_TEST_NEEDS(write_with_immediate);
    l.near.async_write_with_immediate(buffer, handle(readable), 1, r.handler());
  }
  SECTION("read")
  {
    l.near.async_read(buffer, handle(writable), r.handler());
  }
  SECTION("in a batch")
  {
    batch.write(buffer, handle(writable)).write(buffer, handle(readable));
    l.near.async_submit(batch, r.handler());
  }
  SECTION("atomics")
  {
    BOOST_RDMA_TEST_NEEDS(atomics);
    l.near.async_fetch_add(handle(writable), 1, v.handler());
  }
  SECTION("past the end of a part")
  {
    expected = rdma::error::remote_range_too_small;
    l.near.async_write(buffer, handle(writable).slice(1), r.handler());
  }
  REQUIRE(run_until(l.io, [&] { return r.done() || v.done(); }));
  CHECK((v.done() ? v.ec : r.ec) == expected);
  bytes_record after;
  l.near.async_write(buffer, handle(writable), after.handler());
  REQUIRE(run_until(l.io, [&] { return after.done(); }));
  CHECK(after.ec == error_code());
  CHECK(text_of(writable.slice(8, 8)) == "12345678");
}

TEST_CASE("the peer's device refuses access to unexposed memory by its key")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  rdma::registered_buffer buffer = buffer_of(l.near_context, "12345678");
  std::string own(64, '.');
  rdma::memory_region region = rdma::register_buffer(l.far_context, own);
  rdma::registered_buffer pooled = buffer_of(l.far_context, std::string(64, '.'));
  const rdma::mutable_buffer target = GENERATE(false, true) ? rdma::mutable_buffer(region) : pooled;
  // A peer that has guessed the key. Both keys of a registration are equal on most devices, and the
  // peer's device sends the request.
  const rdma::remote_buffer guessed(reinterpret_cast<std::uintptr_t>(target.data()), target.size(),
    target.registration()->local_keys, rdma::remote_access);
  bytes_record r;
  l.near.async_write(buffer, guessed, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::wc_status::remote_access_error);
  CHECK(text_of(target) == std::string(64, '.'));
}
