//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/allocations.hpp"
#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>

// Tests operations on unregistered memory, which is sent inline, copied, or registered by the
// operation.

using namespace test;

namespace {

/// Returns bytes that differ from adjacent bytes and from those of another seed.
std::string text_of_size(std::size_t size, unsigned seed)
{
  std::string result(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    result[i] = static_cast<char>((i * 31 + i / 251 + seed) % 251);
  return result;
}

rdma::queue_pair_options copying(std::size_t up_to)
{
  rdma::queue_pair_options options;
  options.copy_max = up_to;
  return options;
}

std::uint64_t registered(const rdma::context& context)
{
  const auto s = context.registration_cache_statistics();
  return s.hits + s.misses;
}

} // namespace

TEST_CASE("plain memory of every size can be sent, received, written and read")
{
  linked_pair l(copying(4096), copying(4096));
  const std::size_t size = GENERATE(1, 219, 220, 221, 4095, 4096, 4097, 100'000, 1 << 20);
  CAPTURE(size);
  const bool copied = size <= 4096;
  const std::string mine = text_of_size(size, 1);
  std::string theirs(size + 100, '.');
  bytes_record sent;
  bytes_record received;
  l.far.async_receive(asio::buffer(theirs), received.handler());
  l.near.async_send(asio::buffer(mine), sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(sent.value() == size);
  CHECK(received.ec == error_code());
  CHECK(received.value() == size);
  CHECK(theirs == mine + std::string(100, '.')); // only the received bytes were written
  CHECK(registered(l.near_context) == (copied ? 0u : 1u));
  CHECK(registered(l.far_context) == (size + 100 <= 4096 ? 0u : 1u));

  rdma::memory_region target(l.far_context, size, exposed);
  bytes_record written;
  l.near.async_write(std::span(mine), target.remote(), written.handler());
  REQUIRE(run_until(l.io, [&] { return written.done(); }));
  CHECK(written.ec == error_code());
  CHECK(text_of(target) == mine);
  std::vector<char> back(size, '.');
  bytes_record read;
  l.near.async_read(std::span(back), target.remote(), read.handler());
  REQUIRE(run_until(l.io, [&] { return read.done(); }));
  CHECK(read.ec == error_code());
  CHECK(read.value() == size);
  CHECK(std::string(back.begin(), back.end()) == mine);

  CHECK(mine == text_of_size(size, 1));
  CHECK(l.near_context.pool_statistics().buffers == 0);
  CHECK(l.far_context.pool_statistics().buffers == 0);
  CHECK(l.near_context.registration_cache_statistics().in_use == 0);
  CHECK(l.far_context.registration_cache_statistics().in_use == 0);
}

TEST_CASE("containers in the context's pool are used in place without another registration")
{
  linked_pair l(copying(4096), copying(4096));
  const std::size_t size = GENERATE(500, 5000, 100'000); // above the limit of inline data
  CAPTURE(size);
  const std::string text = text_of_size(size, 3);
  const std::pmr::vector<char> mine(text.begin(), text.end(), &l.near_context.pool());
  std::pmr::vector<char> theirs(size, '.', &l.far_context.pool());
  bytes_record sent;
  bytes_record received;
  l.far.async_receive(asio::buffer(theirs), received.handler());
  l.near.async_send(asio::buffer(mine), sent.handler());
  CHECK(l.near_context.pool_statistics().buffers == 0); // no copy
  CHECK(l.far_context.pool_statistics().buffers == 0);
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
  CHECK(received.value() == size);
  CHECK(std::equal(theirs.begin(), theirs.end(), text.begin(), text.end()));
  CHECK(registered(l.near_context) == 0);
  CHECK(registered(l.far_context) == 0);
}

TEST_CASE("plain memory works with immediate data, message receives and shared receive queues")
{
  BOOST_RDMA_TEST_NEEDS(shared_receive_queues);
  BOOST_RDMA_TEST_NEEDS(write_with_immediate);
  asio::io_context io;
  rdma::context context = make_context();
  rdma::shared_receive_queue_options some;
  some.copy_max = 1000;
  rdma::shared_receive_queue queue(io, context, some);
  rdma::queue_pair_options sharing;
  sharing.receive_from(queue);
  rdma::queue_pair a(io, context, sharing);
  rdma::queue_pair b(io, context, copying(1000));
  connect(a, b);
  for (const std::size_t size : {300, 3000})
  {
    const std::string mine = text_of_size(size, 2);
    std::string theirs(size, '.');
    message_record m;
    bytes_record sent;
    queue.async_receive_message(asio::buffer(theirs), m.handler());
    b.async_send_with_immediate(asio::buffer(mine), 7, sent.handler());
    REQUIRE(run_until(io, [&] { return m.done() && sent.done(); }));
    CHECK(m.ec == error_code());
    CHECK(m.value().size == size);
    CHECK(m.value().immediate == 7);
    CHECK(theirs == mine);

    // The written data goes elsewhere: the receive's own memory is unchanged.
    rdma::memory_region target(context, size, exposed);
    theirs.assign(size, '.');
    m = {};
    sent = {};
    queue.async_receive_message(asio::buffer(theirs), m.handler());
    b.async_write_with_immediate(asio::buffer(mine), target.remote(), 8, sent.handler());
    REQUIRE(run_until(io, [&] { return m.done() && sent.done(); }));
    CHECK(m.ec == error_code());
    CHECK(m.value().written);
    CHECK(text_of(target) == mine);
    CHECK(theirs == std::string(size, '.'));
  }
}

TEST_CASE("copied, registered and pool buffers form one message")
{
  linked_pair l(copying(1000), copying(1000));
  const std::string small = text_of_size(10, 3);
  const std::string large = text_of_size(5000, 4);
  const rdma::registered_buffer pooled = buffer_of(l.near_context, text_of_size(300, 5));
  const std::array<rdma::const_buffer, 4> mine{
    asio::buffer(small), pooled, asio::buffer(large), std::span(small).first(3)};
  const std::string whole = small + text_of(pooled) + large + small.substr(0, 3);

  std::array<std::string, 3> theirs{
    std::string(700, '.'), std::string(2000, '.'), std::string(900, '.')};
  rdma::registered_buffer last = l.far_context.allocate(4000);
  std::memset(last.data(), '.', last.size());
  const std::vector<rdma::mutable_buffer> into{
    asio::buffer(theirs[0]), asio::buffer(theirs[1]), asio::buffer(theirs[2]), last};
  bytes_record sent;
  bytes_record received;
  l.far.async_receive(into, received.handler());
  l.near.async_send(mine, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(received.ec == error_code());
  CHECK(received.value() == whole.size());
  CHECK(theirs[0] + theirs[1] + theirs[2] + text_of(last)
    == whole + std::string(7600 - whole.size(), '.'));

  // Asio's own sequences
  const std::array<asio::const_buffer, 2> two{asio::buffer(small), asio::buffer(large)};
  const std::array<asio::mutable_buffer, 2> both{asio::buffer(theirs[0]), asio::buffer(theirs[1])};
  sent = {};
  received = {};
  l.near.async_receive(both, received.handler());
  l.far.async_send(
    std::array<asio::const_buffer, 2>{two[0], asio::buffer(large, 2000)}, sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(received.ec == error_code());
  CHECK((theirs[0] + theirs[1]).substr(0, 2010) == small + large.substr(0, 2000));
}

TEST_CASE("a failed receive or read leaves plain memory unchanged")
{
  BOOST_RDMA_TEST_NEEDS(exact_statuses);
  linked_pair l;
  std::string theirs(64, '.');
  bytes_record r;
  SECTION("a receive that is too small")
  {
    const std::string mine = text_of_size(65, 6);
    bytes_record sent;
    l.far.async_receive(asio::buffer(theirs), r.handler());
    l.near.async_send(asio::buffer(mine), sent.handler());
    REQUIRE(run_until(l.io, [&] { return r.done() && sent.done(); }));
    CHECK(r.ec
      == (has(feature::local_statuses) ? rdma::wc_status::local_length_error
                                       : rdma::wc_status::local_qp_operation_error));
    CHECK(r.value() == 0);
  }
  SECTION("a receive that is flushed")
  {
    l.far.async_receive(asio::buffer(theirs), r.handler());
    l.far.close();
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == asio::error::operation_aborted);
  }
  SECTION("a read past the end")
  {
    rdma::memory_region target(l.near_context, 4096, exposed);
    const rdma::remote_buffer real = target.remote();
    l.far.async_read(asio::buffer(theirs),
      rdma::remote_buffer(real.address() + 4090, 64, real.keys(), real.rights()), r.handler());
    REQUIRE(run_until(l.io, [&] { return r.done(); }));
    CHECK(r.ec == rdma::wc_status::remote_access_error);
  }
  CHECK(theirs == std::string(64, '.'));
  CHECK(l.far_context.pool_statistics().buffers == 0);
}

TEST_CASE("a cancelled receive into plain memory releases its resources")
{
  rdma::queue_pair_options shallow = copying(1000);
  shallow.receive_depth = 1;
  linked_pair l({}, shallow);
  std::string first(100, '.');
  std::string second(100, '.');
  std::string third(5000, '.');
  bytes_record r1;
  bytes_record r2;
  bytes_record r3;
  asio::cancellation_signal cancel2;
  asio::cancellation_signal cancel3;
  l.far.async_receive(asio::buffer(first), r1.handler());
  l.far.async_receive(
    asio::buffer(second), asio::bind_cancellation_slot(cancel2.slot(), r2.handler()));
  l.far.async_receive(
    asio::buffer(third), asio::bind_cancellation_slot(cancel3.slot(), r3.handler()));
  cancel2.emit(asio::cancellation_type::total);
  cancel3.emit(asio::cancellation_type::total);
  REQUIRE(run_until(l.io, [&] { return r2.done() && r3.done(); }));
  CHECK(r2.ec == asio::error::operation_aborted);
  CHECK(r3.ec == asio::error::operation_aborted);
  CHECK(l.far_context.pool_statistics().buffers == 1);
  CHECK(l.far_context.registration_cache_statistics().in_use == 0);
  bytes_record sent;
  l.near.async_send(asio::buffer("still there", 11), sent.handler());
  REQUIRE(run_until(l.io, [&] { return r1.done() && sent.done(); }));
  CHECK(first.substr(0, 11) == "still there");
  CHECK(second + third == std::string(5100, '.'));
}

TEST_CASE("a sent plain buffer may change after the operation has completed")
{
  linked_pair l(copying(1000), copying(1000));
  std::string mine = text_of_size(500, 7);
  std::string theirs(500, '.');
  bytes_record sent;
  bytes_record received;
  l.near.async_send(asio::buffer(mine), sent.handler());
  l.far.async_receive(asio::buffer(theirs), received.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  mine.assign(500, 'x');
  CHECK(theirs == text_of_size(500, 7));
}

TEST_CASE("batches and windows refuse plain memory")
{
  linked_pair l;
  std::string plain(64, 'p');
  rdma::memory_region target(l.far_context, 64, exposed);
  bytes_record r;
  rdma::batch batch;
  batch.write(asio::buffer(plain), target.remote());
  l.near.async_submit(batch, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == rdma::error::not_registered);
  BOOST_RDMA_TEST_NEEDS(memory_windows);
  rdma::memory_window window(l.near_context);
  remote_record bound;
  l.near.async_bind_window(
    window, rdma::mutable_buffer(asio::buffer(plain)), rdma::access::remote_read, bound.handler());
  REQUIRE(run_until(l.io, [&] { return bound.done(); }));
  CHECK(bound.ec == rdma::error::not_exposed);
  CHECK(l.near.is_connected());
}

TEST_CASE("a failed registration of plain memory fails only its operation")
{
  BOOST_RDMA_TEST_NEEDS(pinned_memory);
  linked_pair l(copying(0), copying(0));
  void* const nowhere = ::mmap(nullptr, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(nowhere != MAP_FAILED);
  bytes_record r;
  l.far.async_receive(asio::buffer(nowhere, 65536), r.handler()); // the mapping is not writable
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  CHECK(r.ec == error_code(EFAULT, boost::system::system_category()));
  bytes_record sent;
  bytes_record received;
  std::string theirs(65536, '.');
  l.far.async_receive(asio::buffer(theirs), received.handler());
  l.near.async_send(asio::buffer(static_cast<const void*>(nowhere), 65536), sent.handler());
  REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
  CHECK(sent.ec == error_code());
  CHECK(theirs == std::string(65536, '\0'));
  ::munmap(nowhere, 65536);
}

TEST_CASE("operations on plain memory allocate nothing in steady state")
{
  linked_pair l(copying(1000), copying(1000));
  if (!l.near_context.registration_cache_statistics().enabled)
  {
    WARN("skipped: registrations are not kept here, so each one is new");
    return;
  }
  const std::size_t size = GENERATE(100, 1000, 50'000);
  CAPTURE(size);
  const std::string mine = text_of_size(size, 8);
  std::string theirs(size, '.');
  rdma::memory_region target(l.far_context, size, exposed);
  int left = 0;
  int pending = 0;
  bool failed = false;
  std::function<void()> start = [&]
  {
    const auto ended = [&](error_code ec, std::size_t)
    {
      failed = failed || ec;
      if (--pending == 0 && --left > 0)
        start();
    };
    pending = 5;
    l.far.async_receive(asio::buffer(theirs), ended);
    l.near.async_send(asio::buffer(mine), ended);
    l.near.async_write(asio::buffer(mine), target.remote(), ended);
    l.far.async_receive(asio::buffer(theirs), ended);
    l.near.async_send(std::span(mine), ended);
  };
  const auto run = [&](int rounds)
  {
    left = rounds;
    start();
    return run_until(l.io, [&] { return left == 0; });
  };
  REQUIRE(run(50));
  bool ran = true;
  // When the other end's device thread first processes the connection, it maps this end's memory,
  // which allocates once.
  const std::size_t allocations = allocations_of_each([&] { ran = ran && run(200); });
  REQUIRE(ran);
  CHECK_FALSE(failed);
  INFO(first_stack());
  CHECK(allocations == 0);
  CHECK(theirs == mine);
}

TEST_CASE("coroutines can await operations on plain memory")
{
  linked_pair l;
  std::string answer;
  auto serve = [&]() -> asio::awaitable<void>
  {
    std::vector<char> buffer(100'000);
    const std::size_t n = co_await l.far.async_receive(asio::buffer(buffer), asio::use_awaitable);
    co_await l.far.async_send(asio::buffer(buffer, n), asio::use_awaitable);
  };
  auto ask = [&]() -> asio::awaitable<void>
  {
    const std::string question = text_of_size(70'000, 9);
    std::vector<char> buffer(100'000);
    co_await l.near.async_send(asio::buffer(question), asio::use_awaitable);
    const std::size_t n = co_await l.near.async_receive(asio::buffer(buffer), asio::use_awaitable);
    answer.assign(buffer.data(), n);
  };
  asio::co_spawn(l.io, serve(), asio::detached);
  asio::co_spawn(l.io, ask(), asio::detached);
  REQUIRE(run_until(l.io, [&] { return !answer.empty(); }));
  CHECK(answer == text_of_size(70'000, 9));
}
