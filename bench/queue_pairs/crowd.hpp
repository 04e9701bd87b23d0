//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_QUEUE_PAIRS_CROWD_HPP
#define BOOST_RDMA_BENCH_QUEUE_PAIRS_CROWD_HPP

#include "../usage.hpp"
#include "measure/child_process.hpp"
#include "misbehaving_client.hpp"
#include "side.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/memory_region.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

// The server of the crowd, the honest clients whose round trips are measured, and one measurement.

namespace bench::crowd {

using clock = std::chrono::steady_clock;

/// An honest client is lost if an answer takes this time.
constexpr milliseconds answer_time_max{10'000};

/// Echoes to every client until the parent's second message; replies to the first with its usage.
class server
{
public:
  server(control_channel& control, int descriptor, const connection_plan& plan, milliseconds limit)
    : side_(io_, plan)
    , control_(control)
    , asked_(io_, descriptor)
    , acceptor_(io_, side_.context, any_port, options(limit))
    , honest_acceptor_(io_, side_.context, any_port, options(answer_time_max))
  {
    const std::uint32_t number = rdma::queue_pair(io_, side_.context, side_.options).number();
    constexpr std::uint16_t first_port = 20480; // doc/software_device.md
    constexpr int index_shift = 14;
    control.send(
      server_address{acceptor_.local_endpoint().port(), honest_acceptor_.local_endpoint().port(),
        static_cast<std::uint16_t>(first_port + (number >> index_shift))});
    accept(acceptor_);
    accept(honest_acceptor_);
    wait_for_parent();
    io_.run();
    asked_.release();
  }

private:
  struct peer
  {
    peer(const rdma::context& context, rdma::queue_pair accepted)
      : echo(context, std::move(accepted), window, bulk_message_size, message_size)
    {
      if (echo.peer().peer_data() != bulk_client)
        return;
      exposed = rdma::memory_region(
        context, bulk_write_size, rdma::access::local_write | rdma::access::remote_write);
      key = exposed.remote().encode();
      echo.peer().async_send(asio::buffer(key), [](rdma::error_code, std::size_t) {});
    }

    rdma::memory_region exposed;
    handle key{};
    rdma_echo echo; // destroyed first
  };

  [[nodiscard]] rdma::acceptor_options options(milliseconds limit) const
  {
    rdma::acceptor_options how;
    how.queue_pair = side_.options;
    how.queue_pair.heartbeat_limit = limit;
    return how;
  }

  void accept(rdma::acceptor& by)
  {
    by.async_accept(
      [this, &by](rdma::error_code ec, rdma::queue_pair accepted)
      {
        check(ec);
        const auto added = peers_.emplace(peers_.end(), side_.context, std::move(accepted));
        added->echo.start(
          [this, added] { asio::post(io_, [this, added] { peers_.erase(added); }); });
        accept(by);
      });
  }

  void wait_for_parent()
  {
    asked_.async_wait(asio::posix::stream_descriptor::wait_read,
      [this](rdma::error_code ec)
      {
        check(ec);
        bool end = true;
        if (!control_.receive(end) || end)
          return io_.stop();
        control_.send(usage::now());
        wait_for_parent();
      });
  }

  static inline const asio::ip::tcp::endpoint any_port{asio::ip::address_v4::loopback(), 0};

  asio::io_context io_{1};
  rdma_side side_;
  control_channel& control_;
  asio::posix::stream_descriptor asked_;
  std::list<peer> peers_;
  rdma::acceptor acceptor_;
  rdma::acceptor honest_acceptor_;
};

/// Makes round trips at a fixed rate and records their times in nanoseconds.
/**
 * A round trip that takes longer than the interval delays the next ones. They are recorded with the
 * time that they would have taken, as HdrHistogram does for an expected interval.
 */
class honest_client
{
public:
  honest_client(rdma_side& side, milliseconds interval, std::vector<std::uint32_t>& times)
    : interval_(interval)
    , times_(times)
    , memory_(side.context.allocate(2 * message_size))
    , timer_(side.io)
    , peer_(side.io, side.context, side.options)
  {
  }

  [[nodiscard]] rdma::queue_pair& peer() { return peer_; }

  /// Returns true if an operation failed or an answer has not arrived.
  [[nodiscard]] bool lost() const { return lost_ || waiting_; }

  /// Makes round trips from `first` until `end`.
  void start(clock::time_point first, clock::time_point end)
  {
    due_ = first;
    end_ = end;
    wait();
  }

private:
  void wait()
  {
    timer_.expires_at(due_);
    timer_.async_wait(
      [this](rdma::error_code ec)
      {
        if (!ec && clock::now() < end_)
          ask();
      });
  }

  void ask()
  {
    waiting_ = true;
    const clock::time_point sent = clock::now();
    peer_.async_receive(memory_.slice(message_size, message_size),
      [this, sent](rdma::error_code ec, std::size_t)
      {
        waiting_ = false;
        lost_ = lost_ || ec;
        if (lost_)
          return;
        const clock::time_point now = clock::now();
        for (clock::duration time = now - sent; time > clock::duration(0); time -= interval_)
          times_.push_back(static_cast<std::uint32_t>(std::min<std::chrono::nanoseconds::rep>(
            std::chrono::nanoseconds(time).count(), UINT32_MAX)));
        while (due_ <= now)
          due_ += interval_;
        wait();
      });
    peer_.async_send(memory_.first(message_size),
      [this](rdma::error_code ec, std::size_t) { lost_ = lost_ || ec; });
  }

  milliseconds interval_;
  std::vector<std::uint32_t>& times_;
  rdma::registered_buffer memory_;
  asio::steady_timer timer_;
  clock::time_point due_;
  clock::time_point end_;
  bool waiting_ = false;
  bool lost_ = false;
  rdma::queue_pair peer_;
};

/// A process of honest clients. Its protocol: it receives the address, sends true when it is
/// connected, receives the duration, and sends the number of lost connections and the times.
inline void run_honest(
  control_channel& control, const connection_plan& plan, std::size_t count, milliseconds interval)
{
  const auto address = receive_from<server_address>(control);
  asio::io_context io(1);
  rdma_side side(io, plan);
  std::vector<std::uint32_t> times;
  std::list<honest_client> clients;
  for (std::size_t i = 0; i < count; ++i)
  {
    honest_client& each = clients.emplace_back(side, interval, times);
    each.peer().async_connect({asio::ip::address_v4::loopback(), address.honest_port}, check);
    io.run();
    io.restart();
    rdma_side::check_wire(each.peer(), plan.wire);
  }
  control.send(true);
  const auto duration = receive_from<milliseconds>(control);
  times.reserve(count * static_cast<std::size_t>(duration / interval + 1) * 2);
  const clock::time_point now = clock::now();
  std::size_t i = 0;
  for (honest_client& each : clients)
    each.start(now + interval * static_cast<int>(i++) / static_cast<int>(count), now + duration);
  io.run_until(now + duration + answer_time_max);
  std::uint32_t lost = 0;
  for (const honest_client& each : clients)
    lost += each.lost();
  control.send(lost);
  control.send_text({reinterpret_cast<const char*>(times.data()), times.size() * sizeof(times[0])});
  receive_from<bool>(control);
}

struct crowd_plan
{
  connection_plan connections;
  std::uint32_t honest = 0;
  std::uint32_t honest_processes = 1;
  milliseconds interval{0};
  milliseconds duration{0};
  std::vector<act> hostile; // one process each
  std::uint32_t stopped = 0;
};

struct figures
{
  double median_us = 0;
  double p99_us = 0;
  double p99_9_us = 0;
  double round_trips = 0;
  double server_processors = 0; // processor time of the server / elapsed time
  double lost = 0;              // honest clients without an answer
  std::array<double, act_names.size()> acts_per_second{};
};

// In microseconds.
inline double percentile(const std::vector<std::uint32_t>& sorted, double percent)
{
  const auto index = static_cast<std::size_t>(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)] / 1e3;
}

// Waits until each kind of process has begun.
inline void wait_for_acts(const std::vector<act>& all, const counters& count)
{
  const clock::time_point end = clock::now() + std::chrono::seconds(30);
  for (const act each : all)
    while (count[static_cast<std::size_t>(each)] == 0)
    {
      if (clock::now() >= end)
        throw std::runtime_error(std::string("no client has succeeded in its act: ")
          + act_names[static_cast<std::size_t>(each)]);
      std::this_thread::sleep_for(milliseconds(1));
    }
}

// The process uses only time that no other one needs. Not before it has begun: on a busy machine it
// would not.
inline void make_idle(pid_t process)
{
  const sched_param none{};
  for (const auto& thread :
    std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task"))
    ::sched_setscheduler(std::stoi(thread.path().filename()), SCHED_IDLE, &none);
}

/// Measures once, in new processes. `count` is in memory that child processes share.
inline figures measure(const crowd_plan& plan, counters& count)
{
  for (auto& each : count)
    each = 0;
  child_process server_process(
    [&](control_channel& control, int descriptor) {
      server(control, descriptor, plan.connections, std::max(milliseconds(500), plan.duration / 4));
    });
  const auto address = receive_from<server_address>(server_process.control());
  std::deque<child_process> honest;
  for (std::uint32_t i = 0; i < plan.honest_processes; ++i)
    honest.emplace_back(
      [&](control_channel& control, int)
      {
        run_honest(
          control, plan.connections, share(plan.honest, plan.honest_processes, i), plan.interval);
      });
  for (child_process& each : honest)
    each.control().send(address);
  for (child_process& each : honest)
    receive_from<bool>(each.control());

  std::vector<act> acts = plan.hostile;
  for (std::uint32_t i = 0; i < plan.stopped; ++i)
    acts.push_back(i % 2 == 0 ? act::bulk_write : act::bulk_send);
  std::deque<child_process> others;
  for (const act each : acts)
    others.emplace_back([&](control_channel&, int)
      { misbehaving_client(plan.connections, address, each, count).run(); });
  wait_for_acts(acts, count);
  for (const child_process& each : others)
    make_idle(each.pid());

  const auto server_usage = [&]
  {
    server_process.control().send(false);
    return receive_from<usage>(server_process.control());
  };
  const usage before = server_usage();
  const std::vector<std::uint64_t> acts_before(count.begin(), count.end());
  const clock::time_point begin = clock::now();
  for (child_process& each : honest)
    each.control().send(plan.duration);
  // The server considers a stopped client lost a quarter of the duration later.
  std::this_thread::sleep_for(plan.duration / 4);
  for (std::size_t i = plan.hostile.size(); i < others.size(); ++i)
    others[i].signal(SIGSTOP);

  figures result;
  std::vector<std::uint32_t> times;
  for (child_process& each : honest)
  {
    result.lost += receive_from<std::uint32_t>(each.control());
    const std::string text = each.control().receive_text();
    const std::size_t old = times.size();
    times.resize(old + text.size() / sizeof(times[0]));
    std::memcpy(times.data() + old, text.data(), text.size());
  }
  const std::chrono::duration<double> elapsed = clock::now() - begin;
  result.server_processors = (server_usage().cpu_seconds - before.cpu_seconds) / elapsed.count();
  for (std::size_t i = 0; i < count.size(); ++i)
    result.acts_per_second[i] = static_cast<double>(count[i] - acts_before[i]) / elapsed.count();
  for (child_process& each : others)
    each.end_by(SIGKILL);
  for (child_process& each : honest)
    each.end();
  server_process.end();

  std::ranges::sort(times);
  result.median_us = percentile(times, 50);
  result.p99_us = percentile(times, 99);
  result.p99_9_us = percentile(times, 99.9);
  result.round_trips = static_cast<double>(times.size());
  return result;
}

} // namespace bench::crowd

#endif // BOOST_RDMA_BENCH_QUEUE_PAIRS_CROWD_HPP
