//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/connect_fixture.hpp"
#include "software/limited_device.hpp"
#include "software/still_peer.hpp"
#include "software/stream_fixture.hpp"
#include "stream/message.hpp"

#include <boost_rdma/stream.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace test::streams {
namespace {

error_code write_all(asio::io_context& io, rdma::stream& to, const std::string& text)
{
  bytes_record written;
  asio::async_write(to, asio::buffer(text), written.handler());
  REQUIRE(run_until(io, [&] { return written.done(); }));
  CHECK((written.ec || written.value() == text.size()));
  return written.ec;
}

/// Reads exactly this number of bytes.
std::string read_all(asio::io_context& io, rdma::stream& from, std::size_t size)
{
  std::string text(size, '\0');
  bytes_record got;
  asio::async_read(from, asio::buffer(text), got.handler());
  REQUIRE(run_until(io, [&] { return got.done(); }));
  REQUIRE(got.ec == error_code());
  return text;
}

/// Returns the error of reading a byte.
error_code read_error(asio::io_context& io, rdma::stream& from)
{
  char byte = 0;
  bytes_record got;
  from.async_read_some(asio::buffer(&byte, 1), got.handler());
  REQUIRE(run_until(io, [&] { return got.done(); }));
  CHECK(got.value() == (got.ec ? 0 : 1));
  return got.ec;
}

error_code write_error(asio::io_context& io, rdma::stream& to)
{
  bytes_record written;
  to.async_write_some(asio::buffer("x", 1), written.handler());
  REQUIRE(run_until(io, [&] { return written.done(); }));
  return written.ec;
}

} // namespace

TEST_CASE("streams carry writes of all sizes in both directions")
{
  stream_pair f;
  unsigned seed = 0;
  for (const std::size_t size :
    {1u, 240u, 241u, 1000u, 8191u, 8192u, 65'536u, 65'537u, 300'000u, 5'000'000u})
    for (const bool back : {false, true})
    {
      rdma::stream& from = back ? f.b : f.a;
      rdma::stream& to = back ? f.a : f.b;
      const std::string text = random_text(size, ++seed);
      std::string got(size, '\0');
      bytes_record written;
      bytes_record read;
      asio::async_write(from, asio::buffer(text), written.handler());
      asio::async_read(to, asio::buffer(got), read.handler());
      CHECK_FALSE(written.done()); // never inside the initiating function
      CHECK_FALSE(read.done());
      REQUIRE(run_until(f.io, [&] { return written.done() && read.done(); }));
      CHECK(written.ec == error_code());
      CHECK(read.ec == error_code());
      CHECK(got == text);
    }
}

TEST_CASE("streams carry random reads and writes of both sides at once")
{
  rdma::stream_options options;
  options.receives = GENERATE(8u, 32u);
  options.ring_min = 1024;
  options.ring_max = GENERATE(1024u, 64u * 1024u);
  stream_pair f(options);
  std::mt19937 random(7);
  struct direction
  {
    rdma::stream& from;
    rdma::stream& to;
    std::string text;
    std::string got;
    std::size_t sent = 0;
    std::array<char, 5000> room{};
    bool writing = false;
    bool reading = false;
  };
  std::array<direction, 2> all{direction{f.a, f.b, random_text(400'000, 1), {}},
    direction{f.b, f.a, random_text(400'000, 2), {}}};
  const auto size = [&] { return 1 + random() % (random() % 2 == 0 ? 300 : 5000); };
  REQUIRE(run_until(f.io,
    [&]
    {
      bool done = true;
      for (direction& d : all)
      {
        if (!d.writing && d.sent != d.text.size())
        {
          d.writing = true;
          d.from.async_write_some(
            asio::buffer(d.text.data() + d.sent, std::min(size(), d.text.size() - d.sent)),
            [&d](const error_code& ec, std::size_t n)
            {
              CHECK(ec == error_code());
              d.writing = false;
              d.sent += n;
            });
        }
        if (!d.reading && d.got.size() != d.text.size())
        {
          d.reading = true;
          d.to.async_read_some(asio::buffer(d.room.data(), size()),
            [&d](const error_code& ec, std::size_t n)
            {
              CHECK(ec == error_code());
              d.reading = false;
              d.got.append(d.room.data(), n);
            });
        }
        done = done && d.got.size() == d.text.size() && !d.writing;
      }
      return done;
    }));
  for (const direction& d : all)
    CHECK(d.got == d.text);
}

TEST_CASE("streams serve code that is written for any stream")
{
  stream_pair f;
  const std::vector<asio::const_buffer> parts{
    asio::buffer("first ", 6), asio::const_buffer(), asio::buffer("line\nsecond", 11)};
  bytes_record written;
  asio::async_write(f.a, parts, written.handler());
  std::string text;
  bytes_record got;
  asio::async_read_until(f.b, asio::dynamic_buffer(text), '\n', got.handler());
  REQUIRE(run_until(f.io, [&] { return written.done() && got.done(); }));
  CHECK(written.value() == 17);
  CHECK(text.substr(0, got.value()) == "first line\n");
}

TEST_CASE("a stream that was shut down still reads, and its peer reads the end")
{
  stream_pair f;
  REQUIRE(write_all(f.io, f.a, "question") == error_code());
  f.a.shutdown(rdma::stream::shutdown_type::shutdown_send);
  CHECK(write_error(f.io, f.a) == asio::error::broken_pipe);
  CHECK(read_all(f.io, f.b, 8) == "question");
  CHECK(read_error(f.io, f.b) == asio::error::eof);
  CHECK(read_error(f.io, f.b) == asio::error::eof);
  REQUIRE(write_all(f.io, f.b, "answer") == error_code());
  CHECK(read_all(f.io, f.a, 6) == "answer");
}

TEST_CASE("a shutdown waits for the writes before it")
{
  stream_pair f;
  const std::string text = random_text(1'000'000, 3);
  bytes_record written;
  f.a.async_write_some(asio::buffer(text), written.handler());
  f.a.shutdown(rdma::stream::shutdown_type::shutdown_both);
  REQUIRE(run_until(f.io, [&] { return written.done(); }));
  REQUIRE(written.ec == error_code());
  CHECK(read_all(f.io, f.b, written.value()) == text.substr(0, written.value()));
  CHECK(read_error(f.io, f.b) == asio::error::eof);
}

TEST_CASE("closing a stream delivers what was written, and the end")
{
  stream_pair f;
  const std::string text = random_text(8000, 4);
  REQUIRE(write_all(f.io, f.a, text.substr(0, 200)) == error_code());
  REQUIRE(write_all(f.io, f.a, text.substr(200)) == error_code());
  f.a.close();
  CHECK(read_all(f.io, f.b, text.size()) == text);
  CHECK(read_error(f.io, f.b) == asio::error::eof);
}

TEST_CASE("a stream that is closed with unread bytes resets the connection")
{
  stream_pair f;
  REQUIRE(write_all(f.io, f.a, "unread") == error_code());
  CHECK(read_all(f.io, f.b, 1) == "u");
  CHECK(f.b.available() == 5);
  f.b.close();
  CHECK_FALSE(f.b.is_open());
  CHECK(read_error(f.io, f.a) == asio::error::connection_reset);
  CHECK(write_error(f.io, f.a) == asio::error::connection_reset);
  CHECK(read_error(f.io, f.b) == rdma::error::closed);
}

TEST_CASE("reads and writes of a stream end when it is closed or cancelled")
{
  stream_pair f;
  std::array<char, 8> room{};
  bytes_record first;
  f.a.async_read_some(asio::buffer(room), first.handler());
  f.a.cancel();
  CHECK_FALSE(first.done());
  REQUIRE(run_until(f.io, [&] { return first.done(); }));
  CHECK(first.ec == asio::error::operation_aborted);

  asio::cancellation_signal signal;
  bytes_record second;
  bytes_record third;
  f.a.async_read_some(
    asio::buffer(room), asio::bind_cancellation_slot(signal.slot(), second.handler()));
  f.a.async_read_some(asio::buffer(room), third.handler());
  signal.emit(asio::cancellation_type::total);
  REQUIRE(run_until(f.io, [&] { return second.done(); }));
  CHECK(second.ec == asio::error::operation_aborted);
  CHECK_FALSE(third.done());
  f.a.close();
  REQUIRE(run_until(f.io, [&] { return third.done(); }));
  CHECK(third.ec == asio::error::operation_aborted);
  CHECK(read_error(f.io, f.b) == asio::error::eof);
}

TEST_CASE("an unused stream does not keep the io_context running, an operation does")
{
  stream_pair f;
  REQUIRE(write_all(f.io, f.a, "x") == error_code());
  REQUIRE(read_all(f.io, f.b, 1) == "x");
  CHECK(run_out(f.io));
  char byte = 0;
  bytes_record got;
  f.b.async_read_some(asio::buffer(&byte, 1), got.handler());
  bytes_record written;
  f.a.async_write_some(asio::buffer("y", 1), written.handler());
  CHECK(run_out(f.io));
  CHECK(got.value() == 1);
  f.a.close();
  f.b.close();
  CHECK(run_out(f.io));
}

TEST_CASE("an io_context that is destroyed with a stream's operations does not call their handlers")
{
  const auto owned = std::make_shared<int>();
  char byte = 0;
  {
    stream_pair f;
    f.a.async_read_some(asio::buffer(&byte, 1), [owned](error_code, std::size_t) { FAIL(); });
    // A handler that owns its stream.
    auto kept = std::make_shared<rdma::stream>(std::move(f.b));
    rdma::stream& b = *kept;
    b.async_read_some(
      asio::buffer(&byte, 1), [owned, kept = std::move(kept)](error_code, std::size_t) { FAIL(); });
  }
  CHECK(owned.use_count() == 1);
}

TEST_CASE("a stream whose peer violates the protocol ends")
{
  stream_link f;
  rdma::stream a(std::move(f.near));
  const auto garbage =
    buffer_of(f.far_context, GENERATE(std::string("no message"), std::string(256, '\1')));
  bytes_record sent;
  f.far.async_send(garbage, sent.handler());
  CHECK(read_error(f.io, a) == boost::system::errc::protocol_error);
  REQUIRE(run_until(f.io, [&] { return sent.done(); }));
}

TEST_CASE("closing a stream ends although the peer receives nothing")
{
  stream_link f;
  rdma::stream_options options;
  options.close_limit = std::chrono::milliseconds(50);
  {
    const rdma::stream a(std::move(f.near), options);
  }
  CHECK(run_out(f.io)); // nothing keeps it running
}

TEST_CASE("a stream's connection is reset when the peer closes its queue pair or is killed")
{
  connect_fixture f;
  connect_fixture::accepted server;
  f.acceptor.async_accept(server.handler());
  plain_record connected;
  rdma::queue_pair peer(f.io, f.client_context);
  peer.async_connect(f.acceptor.local_endpoint(), connected.handler());
  REQUIRE(run_until(f.io, [&] { return connected.done() && server.calls != 0; }));
  rdma::stream near(std::move(*server.peer));
  peer.close();
  CHECK(read_error(f.io, near) == asio::error::connection_reset);
  CHECK(write_error(f.io, near) == asio::error::connection_reset);

  still_peer other;
  plain_record again;
  rdma::queue_pair client(f.io, f.client_context);
  client.async_connect(other.endpoint(), again.handler());
  REQUIRE(run_until(f.io, [&] { return again.done(); }));
  REQUIRE(again.ec == error_code());
  rdma::stream far(std::move(client));
  other.signal(SIGKILL);
  CHECK(read_error(f.io, far) == asio::error::connection_reset);
}

TEST_CASE("a stream does not announce bytes that its device has refused to write")
{
  using rdma::detail::stream_message;
  need(feature::software_device); // the ring has a key for a NIC only
  stream_link f;
  rdma::stream a(std::move(f.near));
  stream_message hello;
  hello.type = rdma::detail::stream_message_type::hello;
  hello.count = 32;
  hello.ring = rdma::remote_buffer(rdma::device_kind::nic, 4096, 8192, 1);
  std::string bytes(hello.size(), '\0');
  hello.encode(std::as_writable_bytes(std::span(bytes)));
  const auto got = f.far_context.allocate(stream_message::size_max);
  bytes_record greeted;
  bytes_record notice;
  bytes_record sent;
  f.far.async_receive(got, greeted.handler());
  f.far.async_receive(got, notice.handler());
  f.far.async_send(buffer_of(f.far_context, bytes), sent.handler());
  REQUIRE(write_all(f.io, a, std::string(1000, 'x')) == error_code()); // it has been copied
  CHECK(read_error(f.io, a) == rdma::error::no_remote_key);
  REQUIRE(run_until(f.io, [&] { return greeted.done(); }));
  CHECK(greeted.ec == error_code());
  f.far.close();
  REQUIRE(run_until(f.io, [&] { return notice.done(); }));
  CHECK(notice.ec); // no message has come
}

TEST_CASE("a stream sends memory that the device does not register")
{
  need(feature::software_device);
  const registrations counted;
  asio::io_context io;
  const rdma::context near_context = counted_context();
  const rdma::context far_context = make_context();
  rdma::queue_pair near(io, near_context);
  rdma::queue_pair far(io, far_context);
  connect(near, far);
  rdma::stream a(std::move(near));
  rdma::stream b(std::move(far));
  const std::string text = random_text(1'000'000, 1);
  const int before = registrations::asked;
  registrations::size_max = 100'000;
  std::string got(text.size(), '\0');
  bytes_record read;
  asio::async_read(b, asio::buffer(got), read.handler());
  for (std::size_t at = 0; at != text.size();) // all of it each time, unlike asio::async_write
  {
    bytes_record written;
    a.async_write_some(asio::buffer(text) + at, written.handler());
    REQUIRE(run_until(io, [&] { return written.done(); }));
    REQUIRE(written.ec == error_code());
    at += written.value();
  }
  REQUIRE(run_until(io, [&] { return read.done(); }));
  CHECK(got == text);
  CHECK(registrations::asked > before); // some were refused
}

TEST_CASE("a stream needs a connected queue pair and options in range")
{
  asio::io_context io;
  const rdma::context context = make_context();
  CHECK_THROWS_AS(rdma::stream(rdma::queue_pair(io, context)), rdma::system_error);
  for (const auto& [receives, smallest, largest] :
    {std::array{7u, 1024u, 1024u}, {8u, 1023u, 1024u}, {8u, 2048u, 1024u}, {1025u, 1024u, 1024u}})
  {
    stream_link f;
    rdma::stream_options options;
    options.receives = receives;
    options.ring_min = smallest;
    options.ring_max = largest;
    CHECK_THROWS_AS(rdma::stream(std::move(f.near), options), rdma::system_error);
  }
}

} // namespace test::streams
