//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/refusal.hpp"

#include <array>
#include <list>
#include <span>
#include <vector>

// Tests which buffers an operation accepts or refuses, and that it owns accepted buffers until its
// end.

using namespace test;

TEST_CASE("a pool buffer that is destroyed during a send returns to the pool afterwards")
{
  linked_pair l;
  rdma::registered_buffer into = l.far_context.allocate(4096);
  bytes_record sent;
  bytes_record received;
  {
    rdma::registered_buffer text = l.near_context.allocate(4096);
    std::memset(text.data(), 'x', text.size());
    l.near.async_send(text, sent.handler());
  }
  CHECK(l.near_context.pool_statistics().buffers == 1);
  {
    // This allocation must not reuse the memory of the pending send.
    rdma::registered_buffer other = l.near_context.allocate(4096);
    std::memset(other.data(), 'o', other.size());
  }
  l.far.async_receive(into, received.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(received.value() == 4096);
  CHECK(text_of(into) == std::string(4096, 'x'));
  CHECK(l.near_context.pool_statistics().buffers == 0);
}

TEST_CASE(
  "a pool buffer that is destroyed during a receive stays allocated until the message arrives")
{
  linked_pair l;
  bytes_record received;
  l.near.async_receive(l.near_context.allocate(64), received.handler());
  CHECK(l.near_context.pool_statistics().buffers == 1);
  l.far.async_send(buffer_of(l.far_context, "into nowhere"), [](error_code, std::size_t) {});
  REQUIRE(run_until(l.io, [&] { return received.done(); }));
  CHECK(received.value() == 12);
  CHECK(l.near_context.pool_statistics().buffers == 0);
}

TEST_CASE("a memory region that is destroyed during a send stays registered until the send ends")
{
  linked_pair l;
  rdma::registered_buffer into = l.far_context.allocate(4096);
  bytes_record sent;
  bytes_record received;
  {
    rdma::memory_region region(l.near_context, 4096);
    std::memset(region.data(), 'r', region.size());
    l.near.async_send(region, sent.handler());
  }
  l.far.async_receive(into, received.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(text_of(into) == std::string(4096, 'r'));
}

TEST_CASE("a batch keeps its buffers registered")
{
  linked_pair l;
  rdma::memory_region target(l.far_context, 8192, exposed);
  rdma::batch batch;
  bytes_record done;
  {
    rdma::registered_buffer a = l.near_context.allocate(4096);
    rdma::registered_buffer b = l.near_context.allocate(4096);
    std::memset(a.data(), 'a', a.size());
    std::memset(b.data(), 'b', b.size());
    batch.write(a, target.remote()).write(b, target.remote().slice(4096));
    l.near.async_submit(batch, done.handler());
  }
  CHECK(l.near_context.pool_statistics().buffers == 2);
  REQUIRE(run_until(l.io, [&] { return done.done(); }));
  CHECK(done.value() == 8192);
  CHECK(text_of(target) == std::string(4096, 'a') + std::string(4096, 'b'));
  CHECK(l.near_context.pool_statistics().buffers == 0);
}

TEST_CASE("operations refuse buffers without bytes with empty_buffer")
{
  linked_pair l;
  rdma::registered_buffer buffer = l.near_context.allocate(8);
  rdma::memory_region region(l.far_context, 8, exposed);
  const rdma::mutable_buffer empty = buffer.first(0);
  bytes_record r;
  SECTION("send")
  {
    l.near.async_send(empty, r.handler());
  }
  SECTION("send with immediate")
  {
    l.near.async_send_with_immediate(empty, 1, r.handler());
  }
  SECTION("send with invalidate")
  {
    l.near.async_send_with_invalidate(empty, 1, r.handler());
  }
  SECTION("receive")
  {
    l.near.async_receive(empty, r.handler());
  }
  SECTION("write")
  {
    l.near.async_write(empty, region.remote(), r.handler());
  }
  SECTION("write with immediate")
  {
    l.near.async_write_with_immediate(empty, region.remote(), 1, r.handler());
  }
  SECTION("read")
  {
    l.near.async_read(empty, region.remote(), r.handler());
  }
  SECTION("a sequence of empty buffers")
  {
    l.near.async_send(std::array<rdma::const_buffer, 2>{empty, empty}, r.handler());
  }
  SECTION("an empty sequence")
  {
    l.near.async_send(std::vector<rdma::const_buffer>(), r.handler());
  }
  SECTION("a default-constructed buffer")
  {
    l.near.async_send(rdma::registered_buffer(), r.handler());
  }
  SECTION("a batch")
  {
    rdma::batch batch;
    batch.send(buffer).send(empty);
    l.near.async_submit(batch, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
  }
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::empty_buffer);
  CHECK(r.value() == 0);
  check_alive(l.io, l.near, l.far);
  check_alive(l.io, l.far, l.near);
}

TEST_CASE("empty buffers in a sequence are skipped")
{
  linked_pair l;
  rdma::registered_buffer text = buffer_of(l.near_context, "abcd");
  rdma::registered_buffer into = l.far_context.allocate(8);
  const std::array<rdma::const_buffer, 6> buffers{text.first(0), text.first(2), text.first(0),
    rdma::const_buffer(), text.slice(2), text.first(0)};
  bytes_record sent;
  bytes_record received;
  l.far.async_receive(into, received.handler());
  l.near.async_send(buffers, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.value() == 4);
  CHECK(text_of(into.first(4)) == "abcd");
}

TEST_CASE("messages without bytes are delivered")
{
  linked_pair l;
  rdma::registered_buffer into = l.far_context.allocate(8);
  message_record with_buffer;
  message_record without;
  bytes_record sent;
  l.far.async_receive_message(into, with_buffer.handler());
  l.far.async_receive_message(rdma::no_data, without.handler());
  l.near.async_send(rdma::no_data, sent.handler());
  l.near.async_send_with_immediate(rdma::no_data, 0xffffffffu, sent.handler());
  REQUIRE(run_until(l.io, [&] { return with_buffer.done() && without.done() && sent.calls == 2; }));
  CHECK(with_buffer.value().size == 0);
  CHECK_FALSE(with_buffer.value().immediate);
  CHECK(without.value().size == 0);
  CHECK(without.value().immediate == 0xffffffffu);
  CHECK(sent.value() == 0);
}

TEST_CASE("a write with only immediate data needs no key and writes no memory")
{
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  linked_pair l;
  message_record received;
  bytes_record written;
  l.far.async_receive_message(rdma::no_data, received.handler());
  l.near.async_write_with_immediate(rdma::no_data, rdma::remote_buffer(), 5, written.handler());
  REQUIRE(run_until(l.io, [&] { return received.done() && written.done(); }));
  CHECK(written.ec == error_code());
  CHECK(received.value().immediate == 5u);
  CHECK(received.value().written);
}

TEST_CASE("sends gather and receives scatter buffers in order for every kind of sequence")
{
  linked_pair l;
  rdma::registered_buffer a = buffer_of(l.near_context, "one");
  rdma::registered_buffer b = buffer_of(l.near_context, "fourteen");
  rdma::memory_region c(l.near_context, 4096);
  fill(c, "ninetynine");
  rdma::registered_buffer into = l.far_context.allocate(64);
  bytes_record sent;
  bytes_record received;
  std::vector<rdma::mutable_buffer> buffers{a, b, c.first(10)};

  SECTION("array of const_buffer")
  {
    l.near.async_send(std::array<rdma::const_buffer, 3>{a, b, c.first(10)}, sent.handler());
  }
  SECTION("vector of mutable_buffer")
  {
    l.near.async_send(buffers, sent.handler());
  }
  SECTION("span of mutable_buffer")
  {
    l.near.async_send(std::span<const rdma::mutable_buffer>(buffers), sent.handler());
  }
  SECTION("list of const_buffer")
  {
    l.near.async_send(
      std::list<rdma::const_buffer>(buffers.begin(), buffers.end()), sent.handler());
  }
  SECTION("array of registered_buffer")
  {
    std::array<rdma::registered_buffer, 3> owners{
      std::move(a), std::move(b), buffer_of(l.near_context, "ninetynine")};
    l.near.async_send(owners, sent.handler());
  }
  SECTION("span of registered_buffer")
  {
    std::vector<rdma::registered_buffer> owners;
    owners.push_back(std::move(a));
    owners.push_back(std::move(b));
    owners.push_back(buffer_of(l.near_context, "ninetynine"));
    l.near.async_send(std::span<const rdma::registered_buffer>(owners), sent.handler());
  }
  // Scattered over buffers of other sizes.
  l.far.async_receive(std::array<rdma::mutable_buffer, 4>{into.slice(40, 5), into.first(1),
                        into.slice(10, 20), into.slice(50)},
    received.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(sent.value() == 21);
  CHECK(received.value() == 21);
  CHECK(text_of(into.slice(40, 5)) + text_of(into.first(1)) + text_of(into.slice(10, 15))
    == "onefourteenninetynine");
}

TEST_CASE("writes gather and reads scatter large sequences in order")
{
  linked_pair l;
  constexpr std::size_t size = 100'000;
  rdma::memory_region target(l.far_context, 3 * size, exposed);
  std::vector<rdma::registered_buffer> parts;
  for (char c : {'p', 'q', 'r'})
  {
    parts.push_back(l.near_context.allocate(size));
    std::memset(parts.back().data(), c, size);
  }
  bytes_record written;
  bytes_record read;
  l.near.async_write(parts, target.remote(), written.handler());
  rdma::memory_region back(l.near_context, 3 * size);
  l.near.async_read(std::array<rdma::mutable_buffer, 2>{back.slice(size), back.first(size)},
    target.remote(), read.handler());
  REQUIRE(run_until(l.io, [&] { return written.done() && read.done(); }));
  CHECK(written.value() == 3 * size);
  CHECK(read.value() == 3 * size);
  CHECK(
    text_of(target) == std::string(size, 'p') + std::string(size, 'q') + std::string(size, 'r'));
  CHECK(text_of(back) == std::string(size, 'r') + std::string(size, 'p') + std::string(size, 'q'));
}

TEST_CASE("operations refuse buffers of another context or domain with wrong_context")
{
  linked_pair l;
  rdma::registered_buffer mine = l.near_context.allocate(8);
  rdma::registered_buffer others = buffer_of(l.far_context, "theirs!!");
  rdma::memory_region target(l.far_context, 8, exposed);
  fill(target, "........");
  rdma::protection_domain second = rdma::protection_domain::make(l.near_context);
  rdma::registered_buffer of_second = second.context().allocate(8);
  bytes_record r;
  SECTION("send from another context")
  {
    l.near.async_send(others, r.handler());
  }
  SECTION("receive into another context")
  {
    l.near.async_receive(others, r.handler());
  }
  SECTION("write from another context")
  {
    l.near.async_write(others, target.remote(), r.handler());
  }
  SECTION("write with immediate from another context")
  {
    l.near.async_write_with_immediate(others, target.remote(), 1, r.handler());
  }
  SECTION("read into another context")
  {
    l.near.async_read(others, target.remote(), r.handler());
  }
  SECTION("another domain")
  {
    l.near.async_send(of_second, r.handler());
  }
  SECTION("one of several buffers")
  {
    l.near.async_send(std::array<rdma::const_buffer, 3>{mine, others, mine}, r.handler());
  }
  SECTION("in a batch")
  {
    rdma::batch batch;
    batch.send(mine).send(others);
    l.near.async_submit(batch, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
  }
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::wrong_context);
  CHECK(r.value() == 0);
  check_alive(l.io, l.near, l.far);
  CHECK(text_of(target.first(8)) == "........");
  CHECK(text_of(others) == "theirs!!");
}

TEST_CASE("a queue pair of a protection domain uses only memory of that domain")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::protection_domain domain = rdma::protection_domain::make(context);
  rdma::queue_pair a(io, domain);
  rdma::queue_pair b(io, context);
  connect(a, b);
  CHECK(a.context().impl() == domain.impl());
  rdma::registered_buffer text = buffer_of(domain.context(), "domain");
  rdma::registered_buffer into = context.allocate(8);
  bytes_record received;
  b.async_receive(into, received.handler());
  a.async_send(text, [](error_code, std::size_t) {});
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(text_of(into.first(6)) == "domain");

  // The peer cannot access memory of another domain.
  rdma::memory_region elsewhere(context, 64, exposed);
  fill(elsewhere, "not for you");
  bytes_record flushed;
  a.async_receive(rdma::no_data, flushed.handler());
  bytes_record read;
  b.async_read(into, elsewhere.remote(), read.handler());
  REQUIRE(run_until(io, [&] { return read.done() && flushed.done(); }));
  CHECK(read.ec == rdma::wc_status::remote_access_error);
  CHECK(text_of(into.first(6)) == "domain");
  CHECK(flushed.ec == rdma::wc_status::flushed);
  CHECK_FALSE(a.is_connected());
}

TEST_CASE("operations refuse too many buffers with too_many_buffers")
{
  rdma::queue_pair_options options;
  options.max_send_sge = 2;
  options.max_receive_sge = 3;
  linked_pair l(options);
  rdma::registered_buffer buffer = l.near_context.allocate(64);
  bytes_record r;
  std::vector<rdma::mutable_buffer> buffers;
  auto make = [&](std::size_t n) { buffers.assign(n, buffer.first(1)); };
  SECTION("send")
  {
    make(3);
    l.near.async_send(buffers, r.handler());
  }
  SECTION("receive")
  {
    make(4);
    l.near.async_receive(buffers, r.handler());
  }
  SECTION("more than any device supports")
  {
    make(1000);
    l.near.async_send(buffers, r.handler());
  }
  SECTION("in a batch")
  {
    make(3);
    rdma::batch batch;
    batch.send(buffers);
    l.near.async_submit(batch, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
  }
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::too_many_buffers);
  check_alive(l.io, l.near, l.far);
}

TEST_CASE("a send fails with message_too_large when the device cannot carry the message")
{
  linked_pair l;
  rdma::memory_region region(l.near_context, 4096);
  // Never accessed: only its size matters.
  const rdma::const_buffer huge(
    region.data(), l.near_context.default_device().max_message_size() + 1, region.registration());
  bytes_record r;
  l.near.async_send(huge, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::message_too_large);
  check_alive(l.io, l.near, l.far);
}

TEST_CASE("reads and receives into memory without local_write fail")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  rdma::memory_region constant(l.near_context, 64, rdma::access::local_read);
  rdma::memory_region target(l.far_context, 64, exposed);
  fill(target, "new");
  fill(constant, "old");
  bytes_record r;
  bytes_record sent;
  SECTION("read")
  {
    l.near.async_read(constant.first(3), target.remote(), r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::wc_status::local_protection_error);
    if (has(feature::answers_checked_first))
      CHECK(l.far.is_connected()); // the peer received no request
  }
  SECTION("receive")
  {
    l.near.async_receive(constant.first(3), r.handler());
    l.far.async_send(target.first(3), sent.handler());
    REQUIRE(run_until(l.io, [&] { return r.done() && sent.done(); }));
    CHECK(r.ec
      == (has(feature::local_statuses) ? rdma::wc_status::local_protection_error
                                       : rdma::wc_status::local_qp_operation_error));
    CHECK(sent.ec == rdma::wc_status::remote_operation_error);
    CHECK_FALSE(l.far.is_connected());
  }
  CHECK_FALSE(l.near.is_connected());
  CHECK(text_of(constant.first(3)) == "old");
  CHECK(text_of(target.first(3)) == "new");
}
