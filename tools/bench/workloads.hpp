//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_BENCH_WORKLOADS_HPP
#define BOOST_RDMA_TOOLS_BENCH_WORKLOADS_HPP

#include "bench/links.hpp"

#include <boost_rdma/batch.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>

namespace bench {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

// The first byte of a message tells the other side whether more follow.
constexpr std::byte more{1};
constexpr std::byte last{2};

inline void check(const rdma::error_code& ec)
{
  if (ec)
    throw rdma::system_error(ec);
}

inline sample summary(std::vector<double>& microseconds)
{
  const auto at = [&](double fraction)
  {
    const auto n =
      static_cast<std::ptrdiff_t>(fraction * static_cast<double>(microseconds.size() - 1));
    std::nth_element(microseconds.begin(), microseconds.begin() + n, microseconds.end());
    return microseconds[static_cast<std::size_t>(n)];
  };
  return {at(0.5), at(0.99)};
}

// Round trips: the client's times, without those of the first tenth.
class stopwatch
{
public:
  explicit stopwatch(std::chrono::milliseconds duration)
    : warm_(clock::now() + duration / 10)
    , deadline_(clock::now() + duration)
    , start_(clock::now())
  {
    times_.reserve(std::size_t{1} << 20);
  }

  // Whether time is up. The next round trip begins at once: one look at the clock for each.
  bool lap()
  {
    const auto now = clock::now();
    if (start_ > warm_ && times_.size() < times_.capacity())
      times_.push_back(std::chrono::duration<double, std::micro>(now - start_).count());
    start_ = now;
    return now >= deadline_ && !times_.empty();
  }

  sample result() { return summary(times_); }

private:
  clock::time_point warm_;
  clock::time_point deadline_;
  clock::time_point start_;
  std::vector<double> times_;
};

// The outcome of a send is seen later. Callbacks post the receive before the send; a coroutine posts it in the
// same turn, before an answer can come but for Soft-RoCE, which may want it again (RNR).
template <class Link>
class round_trip_callbacks
{
public:
  round_trip_callbacks(Link& link, stopwatch* client)
    : link_(link)
    , client_(client)
  {
    receive();
    if (client_ != nullptr)
      send(more);
  }

private:
  void send(std::byte mark)
  {
    link_.data()[0] = mark;
    link_.send(0, small_size, [](rdma::error_code ec, std::size_t) { check(ec); });
  }

  void receive()
  {
    link_.receive(block_size, small_size,
      [this](rdma::error_code ec, std::size_t)
      {
        check(ec);
        const std::byte mark = link_.data()[block_size];
        const bool time_is_up = client_ != nullptr && client_->lap();
        if (mark != last)
          receive(); // first: Soft-RoCE carries a send out, and may have the answer, before it returns
        if (client_ == nullptr || mark != last)
          send(time_is_up ? last : mark);
      });
  }

  Link& link_;
  stopwatch* client_;
};

template <class Link>
asio::awaitable<void> round_trip_coroutine(Link& link, stopwatch* client)
{
  const auto send = [&link, client](std::byte mark)
  {
    link.data()[0] = mark;
    link.send(0, small_size, [](rdma::error_code ec, std::size_t) { check(ec); });
  };
  if (client != nullptr)
    send(more);
  for (std::byte mark = more; mark != last;)
  {
    co_await link.receive(block_size, small_size, asio::use_awaitable);
    mark = link.data()[block_size];
    const bool time_is_up = client != nullptr && client->lap();
    if (client == nullptr || mark != last)
      send(time_is_up ? last : mark);
  }
}

template <class Link>
void run_round_trips(asio::io_context& io, Link& link, const test_case& what, stopwatch* client)
{
  if (what.style == style::callbacks)
  {
    round_trip_callbacks<Link> run(link, client);
    io.run();
    return;
  }
  asio::co_spawn(io, round_trip_coroutine(link, client),
    [](std::exception_ptr failure)
    {
      if (failure)
        std::rethrow_exception(failure);
    });
  io.run();
}

// What a program can have from TCP at most, when it gives up a processor for it as busy_poll does.
inline void run_polled_round_trips(tcp_link& link, stopwatch* client)
{
  link.socket().non_blocking(true);
  const auto receive = [&link]
  {
    for (std::size_t got = 0; got < small_size;)
    {
      rdma::error_code ec;
      got +=
        link.socket().read_some(asio::buffer(link.data() + block_size + got, small_size - got), ec);
      if (ec && ec != asio::error::would_block)
        check(ec);
    }
    return link.data()[block_size];
  };
  const auto send = [&link](std::byte mark)
  {
    link.data()[0] = mark;
    asio::write(link.socket(), asio::buffer(link.data(), small_size));
  };
  bool time_is_up = false;
  for (std::byte mark = more; mark != last;)
  {
    if (client != nullptr)
      send(time_is_up ? last : more);
    mark = receive();
    if (client != nullptr)
      time_is_up = client->lap();
    else
      send(mark);
  }
}

// Keeps `depth` operations in flight until time is up. start(index, last, handler) starts one.
template <class Start>
class pipeline
{
public:
  pipeline(std::size_t depth, std::chrono::milliseconds duration, Start start)
    : depth_(depth)
    , deadline_(clock::now() + duration)
    , start_(std::move(start))
  {
    for (std::size_t i = 0; i < depth_ && !ended_; ++i)
      next();
  }

  [[nodiscard]] std::size_t completed() const { return completed_; }

private:
  void next()
  {
    const bool final = clock::now() >= deadline_;
    ended_ = ended_ || final;
    start_(started_++, final,
      [this](rdma::error_code ec, std::size_t)
      {
        check(ec);
        ++completed_;
        if (!ended_)
          next();
      });
  }

  std::size_t depth_;
  clock::time_point deadline_;
  Start start_;
  std::size_t started_ = 0;
  std::size_t completed_ = 0;
  bool ended_ = false;
};

// The client sends blocks of `size`, the server takes them and answers the last one.
template <class Link>
sample send_blocks(asio::io_context& io, Link& link, const test_case& what, std::size_t size)
{
  const auto start = clock::now();
  pipeline run(Link::depth(what), what.duration,
    [&link, size](std::size_t index, bool final, auto handler)
    {
      const std::size_t offset = index % block_count * block_size;
      link.data()[offset] = final ? last : more;
      link.send(offset, size, handler);
    });
  io.run();
  io.restart();
  link.receive(0, small_size, [](rdma::error_code ec, std::size_t) { check(ec); });
  io.run();
  const seconds elapsed = clock::now() - start;
  return {static_cast<double>(run.completed() * size) / elapsed.count(), 0};
}

template <class Link>
class block_receiver
{
public:
  block_receiver(Link& link, const test_case& what, std::size_t size)
    : link_(link)
    , size_(size)
    , answer_(block_count * block_size - small_size)
  {
    for (std::size_t i = 0; i < Link::depth(what); ++i)
      receive(i);
  }

private:
  void receive(std::size_t block)
  {
    const std::size_t offset = block * block_size;
    link_.receive(offset, size_,
      [this, block, offset](rdma::error_code ec, std::size_t)
      {
        if (ended_) // those that no block came for
          return;
        check(ec);
        if (link_.data()[offset] == more)
          return receive(block);
        ended_ = true;
        link_.send(answer_, small_size,
          [this](rdma::error_code send_ec, std::size_t)
          {
            check(send_ec);
            link_.end_receives();
          });
      });
  }

  Link& link_;
  std::size_t size_;
  std::size_t answer_;
  bool ended_ = false;
};

// One-sided writes: the server's program sleeps meanwhile.
inline sample write_blocks(asio::io_context& io, rdma_link& link, const test_case& what)
{
  const auto start = clock::now();
  pipeline run(what.depth, what.duration,
    [&link, size = what.size](std::size_t index, bool, auto handler)
    {
      const std::size_t offset = index % block_count * block_size;
      link.peer().async_write(link.local(offset, size), link.remote(offset, size), handler);
    });
  io.run();
  const seconds elapsed = clock::now() - start;
  return {static_cast<double>(run.completed() * what.size) / elapsed.count(), 0};
}

inline sample write_small(asio::io_context& io, rdma_link& link, const test_case& what)
{
  // Each slot of the pipeline has its batch, which is submitted again and again.
  std::vector<rdma::batch> batches(what.depth);
  for (std::size_t slot = 0; slot < what.depth; ++slot)
    for (std::size_t i = 0; i < what.batch; ++i)
    {
      const std::size_t offset = (slot * what.batch + i) * small_size;
      batches[slot].write(link.local(offset, small_size), link.remote(offset, small_size));
    }
  const auto start = clock::now();
  pipeline run(what.depth, what.duration,
    [&](std::size_t index, bool, auto handler)
    {
      const std::size_t slot = index % what.depth;
      const std::size_t offset = slot * small_size;
      if (what.batch > 1)
        link.peer().async_submit(batches[slot], handler);
      else
        link.peer().async_write(
          link.local(offset, small_size), link.remote(offset, small_size), handler);
    });
  io.run();
  const seconds elapsed = clock::now() - start;
  return {static_cast<double>(run.completed() * what.batch) / elapsed.count(), 0};
}

} // namespace bench

#endif // BOOST_RDMA_TOOLS_BENCH_WORKLOADS_HPP
