//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/in_child.hpp"
#include "common/process.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/objects/remote_ring.hpp>
#include <boost_rdma/objects/ring.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace test::objects_ring_processes {

// Tests rings between two processes, which also die.

namespace {

struct numbered
{
  std::uint64_t number;
  std::uint64_t check;
};

// The line between the two processes, or between one of them and this process.
class text_line
{
public:
  explicit text_line(int fd)
    : fd_(fd)
  {
  }

  void send(const std::string& text) const
  {
    const auto size = static_cast<std::uint32_t>(text.size());
    if (::send(fd_, &size, sizeof size, MSG_NOSIGNAL) != sizeof size
      || ::send(fd_, text.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
      throw std::runtime_error("the line has ended");
  }
  [[nodiscard]] std::string receive() const
  {
    std::uint32_t size = 0;
    if (::recv(fd_, &size, sizeof size, MSG_WAITALL) != sizeof size)
      throw std::runtime_error("the line has ended");
    std::string text(size, '\0');
    if (::recv(fd_, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
      throw std::runtime_error("the line has ended");
    return text;
  }
  // Returns true if the process at the other end has died.
  [[nodiscard]] bool has_ended() const
  {
    char c = 0;
    return ::recv(fd_, &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }

private:
  int fd_;
};

struct ring_pair
{
  std::array<int, 2> fds{-1, -1};

  ring_pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0); }
  ring_pair(const ring_pair&) = delete;
  ring_pair& operator=(const ring_pair&) = delete;
  ~ring_pair() { close_both(); }

  void close_both()
  {
    for (int& fd : fds)
      close(fd);
  }
  static void close(int& fd)
  {
    if (fd >= 0)
      ::close(std::exchange(fd, -1));
  }
};

struct end_of_ring
{
  explicit end_of_ring(const text_line& line)
    : peer(io, context)
  {
    line.send(peer.local_endpoint().text());
    peer.connect(rdma::endpoint_description::parse(line.receive()));
  }

  // Runs a coroutine until its end.
  bool run(asio::awaitable<bool> body)
  {
    auto result = asio::co_spawn(io, std::move(body), asio::use_future);
    io.run();
    return result.get();
  }

  asio::io_context io;
  rdma::context context = make_context();
  rdma::queue_pair peer;
};

// Pushes numbers until `count` or an error. Returns true if the end is the expected one.
bool produce(const text_line& line, std::uint64_t count, bool fails)
{
  end_of_ring own(line);
  const std::string handle = line.receive();
  const auto memory = rdma::remote_buffer::decode(std::as_bytes(std::span(handle)));
  const auto body = [&]() -> asio::awaitable<bool>
  {
    auto ring =
      co_await rdma::remote_ring<numbered>::async_open(own.peer, memory, asio::use_awaitable);
    error_code ec;
    for (std::uint64_t i = 0; i != count && !ec; ++i)
      if (const numbered next{i, ~i * 3}; !ring.try_push(next))
        co_await ring.async_push(next, asio::redirect_error(asio::use_awaitable, ec));
    if (!ec)
      co_await ring.async_flush(asio::redirect_error(asio::use_awaitable, ec));
    const bool reports = !fails || !ring.try_push({});
    const bool ends = static_cast<bool>(ec);
    co_return reports&& ends == fails;
  };
  const bool right = own.run(body());
  if (!fails)
    static_cast<void>(line.receive()); // the consumer has all
  return right;
}

constexpr std::uint64_t unlimited = UINT64_MAX;
constexpr std::uint64_t many = 2000;

// Takes numbers until `count`, or until the producer's death. Returns true if they are in order.
bool consume(const text_line& line, std::size_t capacity, std::uint64_t count,
  const std::function<void()>& many_taken)
{
  end_of_ring own(line);
  rdma::ring<numbered> ring(own.io, own.context, capacity);
  const auto handle = ring.remote().encode();
  line.send({reinterpret_cast<const char*>(handle.data()), handle.size()});
  std::uint64_t taken = 0;
  bool right = true;
  const auto take = [&](const numbered& next)
  {
    if (right && (next.number != taken || next.check != ~taken * 3))
    {
      std::fprintf(stderr, "record %llx: %llx, %llx\n", static_cast<unsigned long long>(taken),
        static_cast<unsigned long long>(next.number), static_cast<unsigned long long>(next.check));
      right = false;
    }
    if (++taken == many)
      many_taken();
  };
  if (count == unlimited)
  {
    std::array<numbered, 64> found;
    for (bool last = false; right;)
    {
      own.io.poll();
      own.io.restart();
      const std::size_t n = ring.pop_some(found);
      for (std::size_t i = 0; i != n; ++i)
        take(found[i]);
      if (n == 0 && last)
        break;
      last = n == 0 && line.has_ended();
    }
    return right && taken >= many;
  }
  const auto body = [&]() -> asio::awaitable<bool>
  {
    std::vector<numbered> found(256);
    while (right && taken != count)
    {
      take(co_await ring.async_pop(asio::use_awaitable));
      const std::size_t n = ring.pop_some(found);
      for (std::size_t i = 0; i != n; ++i)
        take(found[i]);
    }
    co_return right;
  };
  const bool result = own.run(body());
  line.send("taken");
  return result;
}

} // namespace

TEST_CASE("a ring moves a million records in order from one process to another")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions);
  const std::size_t capacity = GENERATE(2, 64, 4096);
  const std::uint64_t count = capacity == 2 ? 2000
    : emulated() || capacity == 64          ? 20'000
                                            : 1'000'000;
  prepare_to_fork();
  ring_pair line;
  process consumer(
    [&]
    {
      ring_pair::close(line.fds[1]);
      return consume(text_line(line.fds[0]), capacity, count, [] {});
    });
  process producer(
    [&]
    {
      ring_pair::close(line.fds[0]);
      return produce(text_line(line.fds[1]), count, false);
    });
  line.close_both();
  CHECK(producer.succeeded());
  CHECK(consumer.succeeded());
}

namespace {

// Kills one of two processes when many records have passed. The other one must end with an error
// that it expects, and succeed.
void check_one_killed(bool is_producer, std::size_t capacity)
{
  prepare_to_fork();
  ring_pair line;
  ring_pair report;
  process producer(
    [&]
    {
      ring_pair::close(line.fds[0]);
      return produce(text_line(line.fds[1]), unlimited, !is_producer);
    });
  process consumer(
    [&]
    {
      ring_pair::close(line.fds[1]);
      return consume(text_line(line.fds[0]), capacity, unlimited,
        [&] { text_line(report.fds[1]).send("many"); });
    });
  line.close_both();
  ring_pair::close(report.fds[1]);
  CHECK(text_line(report.fds[0]).receive() == "many");
  CHECK((is_producer ? producer : consumer).kill());
  CHECK((is_producer ? consumer : producer).succeeded());
}

} // namespace

TEST_CASE("the records of a producer that is killed arrive in order, up to one of them")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions);
  check_one_killed(true, GENERATE(2, 64));
}

TEST_CASE("the operations of a ring end with an error when the consumer is killed")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions);
  check_one_killed(false, GENERATE(2, 4096));
}

} // namespace test::objects_ring_processes
