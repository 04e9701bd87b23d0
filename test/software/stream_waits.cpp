//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/connect_fixture.hpp"
#include "software/stream_fixture.hpp"

#include <boost_rdma/stream_acceptor.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <optional>
#include <string>

// Waiting for a stream's bytes, and using them where they are, by RDMA and by TCP.

namespace test::stream_waiting {
namespace {

error_code wait(asio::io_context& io, rdma::stream& on, rdma::stream::wait_type what)
{
  plain_record waited;
  on.async_wait(what, waited.handler());
  CHECK_FALSE(waited.done());
  REQUIRE(run_until(io, [&] { return waited.done(); }));
  return waited.ec;
}

void write(asio::io_context& io, rdma::stream& to, const std::string& text)
{
  bytes_record written;
  asio::async_write(to, asio::buffer(text), written.handler());
  REQUIRE(run_until(io, [&] { return written.done(); }));
  REQUIRE(written.ec == error_code());
}

/// Reads this number of bytes without a copy of them in between.
std::string take(asio::io_context& io, rdma::stream& from, std::size_t size)
{
  std::string text;
  while (text.size() < size)
  {
    REQUIRE(wait(io, from, rdma::stream::wait_read) == error_code());
    const auto bytes = from.peek();
    const std::size_t got = asio::buffer_size(bytes);
    REQUIRE(got != 0);
    const std::size_t at = text.size();
    text.resize(at + got);
    asio::buffer_copy(asio::buffer(text) + at, bytes);
    from.consume(got);
  }
  return text;
}

} // namespace

TEST_CASE("a wait for reading ends when bytes arrive, and they can be used where they are")
{
  connected_pair f(GENERATE(true, false));
  plain_record waited;
  f.a().async_wait(rdma::stream::wait_read, waited.handler());
  CHECK(asio::buffer_size(f.a().peek()) == 0);
  f.a().consume(1); // there are none
  write(f.io, f.b, "hello");
  REQUIRE(run_until(f.io, [&] { return waited.done(); }));
  CHECK(waited.ec == error_code());
  CHECK(f.a().available() == 5);
  CHECK(asio::buffer_size(f.a().peek()) == 5);
  CHECK(asio::buffer_size(f.a().peek()) == 5); // they remain
  f.a().consume(1);
  CHECK(f.a().available() == 4);
  CHECK(wait(f.io, f.a(), rdma::stream::wait_read) == error_code()); // ends also with old bytes
  std::string rest(4, '\0');
  bytes_record got;
  asio::async_read(f.a(), asio::buffer(rest), got.handler());
  REQUIRE(run_until(f.io, [&] { return got.done(); }));
  CHECK(rest == "ello");
  CHECK(f.a().available() == 0);
  CHECK(asio::buffer_size(f.a().peek()) == 0);
}

TEST_CASE("bytes that are consumed make room for others")
{
  connected_pair f(GENERATE(true, false));
  const std::string text = random_text(3'000'000, 1);
  bytes_record written;
  asio::async_write(f.b, asio::buffer(text), written.handler());
  CHECK(take(f.io, f.a(), text.size()) == text);
  REQUIRE(run_until(f.io, [&] { return written.done(); }));
  CHECK(written.ec == error_code());
  std::string small;
  for (int i = 0; i != 200; ++i) // more than the receives
  {
    const std::string each = std::to_string(1000 + i);
    write(f.io, f.b, each);
    small += each;
    if (i % 7 == 6)
    {
      CHECK(take(f.io, f.a(), small.size()) == small);
      small.clear();
    }
  }
}

TEST_CASE("bytes that arrive are added to those that were seen and not consumed")
{
  connected_pair f(GENERATE(true, false));
  write(f.io, f.b, "ab");
  REQUIRE(wait(f.io, f.a(), rdma::stream::wait_read) == error_code());
  CHECK(asio::buffer_size(f.a().peek()) == 2);
  write(f.io, f.b, "cd");
  REQUIRE(run_until(f.io, [&] { return f.a().available() == 4; }));
  std::string seen(4, '\0');
  CHECK(asio::buffer_copy(asio::buffer(seen), f.a().peek()) == 4);
  CHECK(seen == "abcd");
  f.a().consume(3);
  CHECK(take(f.io, f.a(), 1) == "d");
}

TEST_CASE("a wait for writing ends when there is room")
{
  connected_pair f(GENERATE(true, false));
  CHECK(wait(f.io, f.a(), rdma::stream::wait_write) == error_code());
  const std::string text(32'000'000, 'x'); // more than the peer and TCP have room for
  bytes_record written;
  asio::async_write(f.a(), asio::buffer(text), written.handler());
  plain_record waited;
  f.a().async_wait(rdma::stream::wait_write, waited.handler());
  CHECK(take(f.io, f.b, text.size()) == text);
  REQUIRE(run_until(f.io, [&] { return waited.done() && written.done(); }));
  CHECK(waited.ec == error_code());
  CHECK(written.value() == text.size());
}

TEST_CASE("waits end with the stream, and can be cancelled")
{
  connected_pair f(GENERATE(true, false));
  plain_record error;
  f.a().async_wait(rdma::stream::wait_error, error.handler());
  plain_record cancelled;
  asio::cancellation_signal signal;
  f.a().async_wait(
    rdma::stream::wait_read, asio::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  signal.emit(asio::cancellation_type::total);
  REQUIRE(run_until(f.io, [&] { return cancelled.done(); }));
  CHECK(cancelled.ec == asio::error::operation_aborted);
  f.a().cancel();
  REQUIRE(run_until(f.io, [&] { return error.done(); }));
  CHECK(error.ec == asio::error::operation_aborted);

  plain_record ended;
  f.a().async_wait(rdma::stream::wait_read, ended.handler());
  f.b.shutdown(rdma::stream::shutdown_type::shutdown_send);
  REQUIRE(run_until(f.io, [&] { return ended.done(); }));
  CHECK(ended.ec == error_code()); // the read reports the end
  char byte = 0;
  bytes_record got;
  f.a().async_read_some(asio::buffer(&byte, 1), got.handler());
  REQUIRE(run_until(f.io, [&] { return got.done(); }));
  CHECK(got.ec == asio::error::eof);

  plain_record closed;
  f.b.async_wait(rdma::stream::wait_read, closed.handler());
  f.b.close();
  REQUIRE(run_until(f.io, [&] { return closed.done(); }));
  CHECK(closed.ec == asio::error::operation_aborted);
  CHECK(wait(f.io, f.b, rdma::stream::wait_write) == rdma::error::closed);
  rdma::stream unconnected(f.io, f.client_context);
  CHECK(wait(f.io, unconnected, rdma::stream::wait_read) == rdma::error::not_connected);
}

} // namespace test::stream_waiting
