//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <array>
#include <list>
#include <optional>
#include <span>
#include <vector>

// Tests which buffers an operation accepts or refuses, and that it owns accepted buffers until its
// end.

using namespace test;

namespace {

rdma::queue_pair_options soon_given_up()
{
  rdma::queue_pair_options options;
  options.timeout = 10;
  options.retry_count = 1;
  options.rnr_retry_count = 1;
  return options;
}

// Returns the same range with other bounds than its owner exposed.
rdma::remote_buffer forged(
  const rdma::remote_buffer& real, std::uint64_t address, std::uint64_t size)
{
  return {address, size, real.keys(), real.rights()};
}

// Returns the same memory with all rights, which its owner did not grant.
rdma::remote_buffer claimed(const rdma::remote_buffer& real)
{
  return {real.address(), real.size(), real.keys(), rdma::remote_access};
}

// Checks the effects of a request that the peer's device refuses, at both ends. Create it before
// the request; the far end receives only messages without bytes, and gets none.
class refusal
{
public:
  explicit refusal(linked_pair& link)
    : l_(link)
  {
    l_.far.async_receive(rdma::no_data, far_receive_.handler());
    l_.near.async_receive(rdma::no_data, near_receive_.handler());
  }

  // Call it after the request has ended with `ec`.
  void check(const error_code& ec, rdma::wc_status expected)
  {
    CHECK(ec == expected);
    bytes_record behind;
    l_.near.async_send(rdma::no_data, behind.handler());
    // the responder enters the error state, too (IBA 9.9.3)
    REQUIRE(run_until(
      l_.io, [&] { return far_receive_.done() && near_receive_.done() && behind.done(); }));
    CHECK(behind.ec == rdma::wc_status::flushed);
    CHECK(near_receive_.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.value() == 0);
    CHECK_FALSE(l_.near.is_connected());
    CHECK_FALSE(l_.far.is_connected());
    CHECK(l_.near.diagnose().code == expected);
    bytes_record back;
    l_.far.async_send(rdma::no_data, back.handler());
    REQUIRE(run_until(l_.io, [&] { return back.done(); }));
    CHECK(back.ec == rdma::wc_status::flushed);
    CHECK(far_receive_.calls == 1);
    CHECK(near_receive_.calls == 1);
  }

private:
  linked_pair& l_;
  bytes_record far_receive_;
  bytes_record near_receive_;
};

// Checks that a send from `from` to `to` succeeds, so neither is in the error state.
template <class A, class B>
void check_alive(asio::io_context& io, A& from, B& to)
{
  bytes_record sent;
  bytes_record received;
  to.async_receive(rdma::no_data, received.handler());
  from.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
}

} // namespace

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
    rdma::memory_window taken = std::move(window);
    l.near.async_bind_window(window, bindable, rdma::access::remote_read, r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::error::closed);
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

TEST_CASE("constructors fail with queue_too_deep when depths exceed the limits of the device")
{
  asio::io_context io;
  rdma::context context = make_context();
  const rdma::device device = context.default_device();
  rdma::queue_pair_options options;
  SECTION("sends")
  {
    options.send_depth = device.max_work_requests() + 1;
  }
  SECTION("receives")
  {
    options.receive_depth = device.max_work_requests() + 1;
  }
  SECTION("maximum value")
  {
    options.send_depth = UINT32_MAX;
  }
  SECTION("SGEs of sends")
  {
    options.max_send_sge = device.max_sge() + 1;
  }
  SECTION("SGEs of receives")
  {
    options.max_receive_sge = device.max_sge() + 1;
  }
  try
  {
    rdma::queue_pair refused(io, context, options);
    FAIL("the constructor did not fail");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == rdma::error::queue_too_deep);
  }
  rdma::completion_queue_options deep;
  deep.depth = device.max_completions() + 1;
  CHECK_THROWS_AS(rdma::completion_queue(io, context, deep), rdma::system_error);
  rdma::shared_receive_queue_options shared;
  shared.depth = UINT32_MAX;
  CHECK_THROWS_AS(rdma::shared_receive_queue(io, context, shared), rdma::system_error);
  CHECK_NOTHROW(rdma::queue_pair(io, context)); // no resources are left behind
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

TEST_CASE("a receive too small for the message fails on both sides and flushes the rest")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  rdma::registered_buffer into = l.far_context.allocate(64);
  std::memset(into.data(), '.', into.size());
  rdma::registered_buffer text = buffer_of(l.near_context, "more than eight bytes");
  rdma::registered_buffer into_again = l.near_context.allocate(64);
  bytes_record small;
  bytes_record next;
  bytes_record sent;
  bytes_record sent_next;
  l.far.async_receive(into.first(8), small.handler());
  l.far.async_receive(into.slice(32), next.handler());
  l.near.async_send(text, sent.handler());
  l.near.async_send(text, sent_next.handler());
  REQUIRE(run_until(
    l.io, [&] { return small.done() && next.done() && sent.done() && sent_next.done(); }));
  const bool exact = has(feature::local_statuses);
  const error_code at_receiver =
    exact ? rdma::wc_status::local_length_error : rdma::wc_status::local_qp_operation_error;
  const error_code at_sender =
    exact ? rdma::wc_status::remote_invalid_request_error : rdma::wc_status::remote_operation_error;
  CHECK(small.ec == at_receiver);
  CHECK(small.value() == 0);
  CHECK(next.ec == rdma::wc_status::flushed);
  CHECK(sent.ec == at_sender);
  CHECK(sent_next.ec == rdma::wc_status::flushed);
  CHECK(text_of(into.slice(8)) == std::string(56, '.'));
  CHECK_FALSE(l.near.is_connected());
  CHECK_FALSE(l.far.is_connected());
  CHECK(l.far.diagnose().code == at_receiver);
  CHECK(l.near.diagnose().code == at_sender);

  bytes_record later; // fails, because the queue pair is in the error state
  l.near.async_send(text, later.handler());
  REQUIRE(run_until(l.io, [&] { return later.done(); }));
  CHECK(later.ec == rdma::wc_status::flushed);
  CHECK(later.ec == boost::system::errc::operation_canceled);
  bytes_record later_receive; // not every device flushes it
  l.near.async_receive(into_again, later_receive.handler());
  REQUIRE(run_until(l.io, [&] { return later_receive.done(); }));
  CHECK(later_receive.ec == rdma::wc_status::flushed);
}

TEST_CASE("a send fails with rnr_retry_exceeded when the peer posts no receive")
{
  linked_pair l(soon_given_up());
  bytes_record sent;
  l.near.async_send(rdma::no_data, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done(); }));
  CHECK(sent.ec == rdma::wc_status::rnr_retry_exceeded);
  CHECK(l.near.diagnose().text().find("receive") != std::string::npos);
  CHECK_FALSE(l.near.is_connected());
  // The peer has not detected the failure; its next send does.
  CHECK(l.far.is_connected());
  bytes_record back;
  l.far.async_send(rdma::no_data, back.handler());
  REQUIRE(run_until(l.io, [&] { return back.done(); }));
  CHECK(back.ec == rdma::wc_status::retry_exceeded);
}

TEST_CASE("operations other than receives fail with not_connected before connect")
{
  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair a(io, context);
  rdma::queue_pair b(io, context);
  bytes_record early;
  a.async_send(rdma::no_data, early.handler());
  bytes_record received;
  a.async_receive(rdma::no_data, received.handler());
  REQUIRE(run_until(io, [&] { return early.done(); }));
  CHECK(early.ec == rdma::error::not_connected);
  connect(a, b);
  b.async_send(rdma::no_data, [](error_code, std::size_t) {});
  REQUIRE(run_until(io, [&] { return received.done(); }));
  CHECK(received.ec == error_code());
}

TEST_CASE("connect fails when the queue pair is connected, closed or of another device kind")
{
  linked_pair l;
  error_code ec;
  const rdma::endpoint_description own = l.far.local_endpoint();
  l.near.connect(own, ec);
  CHECK(ec == rdma::error::already_connected);

  rdma::queue_pair fresh(l.io, l.near_context);
  fresh.connect(own, ec);
  CHECK(ec == rdma::error::not_connected); // local_endpoint() was not called yet
  rdma::endpoint_description other = own;
  other.kind =
    own.kind == rdma::device_kind::nic ? rdma::device_kind::software : rdma::device_kind::nic;
  (void)fresh.local_endpoint();
  fresh.connect(other, ec);
  CHECK(ec == rdma::error::no_common_transport);
  fresh.close();
  fresh.connect(own, ec);
  CHECK(ec == rdma::error::closed);
  CHECK_THROWS_AS(fresh.local_endpoint(), rdma::system_error);
}

TEST_CASE("a shared receive queue serves several queue pairs and identifies them")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options few;
  few.depth = 4;
  rdma::shared_receive_queue queue(io, context, few);
  rdma::queue_pair_options options;
  options.receive_from(queue);
  rdma::queue_pair a(io, context, options);
  rdma::queue_pair b(io, context, options);
  rdma::queue_pair peer_a(io, context);
  rdma::queue_pair peer_b(io, context);
  connect(a, peer_a);
  connect(b, peer_b);
  rdma::registered_buffer into = context.allocate(1024);
  int from_a = 0;
  int from_b = 0;
  for (std::size_t i = 0; i < 50; ++i)
    queue.async_receive_message(into.slice(i * 16, 16),
      [&](error_code ec, const rdma::message& m)
      {
        CHECK(ec == error_code());
        CHECK(m.size == 1);
        from_a += m.queue_pair_number == a.number();
        from_b += m.queue_pair_number == b.number();
      });
  rdma::registered_buffer text = buffer_of(context, "x");
  for (int i = 0; i < 50; ++i)
    (i % 5 < 2 ? peer_a : peer_b)
      .async_send(text, [](error_code ec, std::size_t) { CHECK(ec == error_code()); });
  REQUIRE(run_until(io, [&] { return from_a + from_b == 50; }));
  CHECK(from_a == 20);
  CHECK(from_b == 30);

  bytes_record direct;
  a.async_receive(into, direct.handler());
  REQUIRE(run_until(io, [&] { return direct.done(); }));
  CHECK(direct.ec == asio::error::operation_not_supported);
  message_record refused;
  queue.async_receive_message(into.first(0), refused.handler());
  REQUIRE(run_until(io, [&] { return refused.done(); }));
  CHECK(refused.ec == rdma::error::empty_buffer);

  rdma::context other = make_context();
  message_record foreign;
  queue.async_receive_message(buffer_of(other, "abc"), foreign.handler());
  REQUIRE(run_until(io, [&] { return foreign.done(); }));
  CHECK(foreign.ec == rdma::error::wrong_context);
  // Neither has used up a slot.
  message_record good;
  bytes_record sent;
  queue.async_receive_message(into, good.handler());
  peer_a.async_send(text, sent.handler());
  REQUIRE(run_until(io, [&] { return good.done() && sent.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(good.value().size == 1);
}
