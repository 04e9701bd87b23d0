//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// A server whose handlers compute in one thread, and a client that offers it twice the calls that
// it can take.

#include "perf/overload.hpp"

#include "perf/side.hpp"
#include "perf/transports.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <unistd.h>

namespace perf {
namespace {

namespace asio = boost::asio;
namespace rpc = rdma::rpc;
using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds work_time(1); // of a handler

using work = rpc::method<"work/1", rpc::nothing, rpc::nothing>;
using resident = rpc::method<"resident/1", rpc::nothing, double>;
using finish = rpc::method<"finish/1", rpc::nothing, rpc::nothing>;

// Returns the memory of this process, in KiB.
double resident_kib()
{
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double pages = 0;
  file >> all >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024;
}

// Threads that wait leave the processors to the handlers.
rdma::queue_pair_options waiting(asio::io_context& io)
{
  rdma::completion_queue_options completions;
  completions.mode = event;
  rdma::queue_pair_options options;
  options.completions.emplace(io, context_of(0), completions);
  return options;
}

class overload_caller
{
public:
  explicit overload_caller(std::uint16_t port)
    : client_(io_, context_of(0), options(io_))
  {
    client_.async_connect({asio::ip::address_v4::loopback(), port}, check);
    io_.run();
  }

  // Calls a method that is always admitted.
  template <class Method>
  typename Method::result_type call()
  {
    typename Method::result_type value{};
    client_.async_call<Method>({},
      [&value](rdma::error_code ec, const typename Method::result_type& result)
      {
        check(ec);
        value = result;
      });
    io_.restart();
    io_.run();
    return value;
  }

  // Makes calls that follow each other, so many at a time.
  seconds run(std::size_t count, std::size_t depth, histogram& times)
  {
    std::size_t started = 0;
    const std::function<void()> next = [&]
    {
      if (started++ < count)
        start(clock::now(), times, next);
    };
    const auto begin = clock::now();
    for (std::size_t i = 0; i < depth; ++i)
      next();
    io_.restart();
    io_.run();
    return clock::now() - begin;
  }

  // Makes calls at these times.
  void offer(const std::vector<nanoseconds>& times, histogram& admitted, histogram& refused)
  {
    asio::steady_timer timer(io_);
    const auto begin = clock::now();
    refused_ = &refused;
    std::size_t at = 0;
    const std::function<void()> next = [&]
    {
      for (; at != times.size() && begin + times[at] <= clock::now(); ++at)
        start(begin + times[at], admitted, [] {});
      if (at == times.size())
        return;
      timer.expires_at(begin + times[at]);
      timer.async_wait(
        [&](rdma::error_code ec)
        {
          check(ec);
          next();
        });
    };
    next();
    io_.restart();
    io_.run();
    refused_ = nullptr;
  }

  void end()
  {
    client_.close();
    io_.restart();
    io_.run();
  }

private:
  static rpc::client_options options(asio::io_context& io)
  {
    rpc::client_options made;
    made.queue_pair = waiting(io);
    return made;
  }

  template <class Then>
  void start(clock::time_point since, histogram& times, Then then)
  {
    client_.async_call<work>({},
      [this, since, &times, then](rdma::error_code ec, rpc::nothing)
      {
        const bool refused = ec == rdma::error::overloaded && refused_ != nullptr;
        if (!refused)
          check(ec);
        const nanoseconds took = clock::now() - since;
        (refused ? *refused_ : times).record(static_cast<std::uint64_t>(took.count()));
        then();
      });
  }

  asio::io_context io_{1};
  rpc::client client_;
  histogram* refused_ = nullptr;
};

} // namespace

overload overload_client(std::chrono::milliseconds duration, bench::control_channel& control)
{
  std::uint16_t port = 0;
  if (!control.receive(port))
    throw std::runtime_error("the other process has ended; see its message");
  overload_caller caller(port);
  overload result;
  result.seconds = seconds(duration).count();
  const auto count = std::min<std::size_t>(duration / work_time / 4, 2000);
  histogram ignored;
  caller.run(count / 10 + 10, 2, ignored);
  caller.run(count, 1, result.unloaded);
  result.capacity = static_cast<double>(count) / caller.run(count, 2, ignored).count();

  std::minstd_rand random(1);
  std::exponential_distribution<double> pause(2 * result.capacity);
  std::vector<nanoseconds> times;
  for (double at = pause(random); at < result.seconds; at += pause(random))
    times.push_back(std::chrono::duration_cast<nanoseconds>(seconds(at)));
  result.offered = static_cast<double>(times.size()) / result.seconds;
  result.client_kib_before = resident_kib();
  result.server_kib_before = caller.call<resident>();
  caller.offer(times, result.admitted, result.refused);
  result.client_kib_after = resident_kib();
  result.server_kib_after = caller.call<resident>();
  caller.call<finish>();
  caller.end();
  return result;
}

// One call computes, and one waits for it: an admitted call waits for at most one other one.
void serve_overload(bench::control_channel& control)
{
  asio::io_context io;
  asio::thread_pool worker(1);
  rpc::server_options options;
  options.calls = 1;
  options.queue = 1;
  options.acceptor.queue_pair = waiting(io);
  rpc::server server(io, context_of(0), {asio::ip::address_v4::loopback(), 0}, options);
  server.handle<work>(
    [&worker](rpc::nothing, rpc::responder<work> answer)
    {
      asio::post(worker,
        [answer = std::move(answer)]() mutable
        {
          for (const auto end = clock::now() + work_time; clock::now() < end;)
          {
          }
          answer.reply({});
        });
    });
  server.handle<resident>([](rpc::nothing) { return resident_kib(); });
  server.handle<finish>(
    [&server](rpc::nothing)
    {
      server.async_shutdown(check);
      return rpc::nothing();
    });
  server.start();
  control.send(server.local_endpoint().port());
  io.run();
}

} // namespace perf
