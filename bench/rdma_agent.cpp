//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compares the operations of an agent with a bare round trip on the same connection:
//
//   rdma_agent [--quick] [--json] [--processors CLIENT,SERVER] [--only TEXT]
//              [--rounds N] [--laps N]
//
// Client and server are in this process. Each has its own io_context, thread and context. Every lap
// takes some measurements of each case, one case after the other, so that other load on the machine
// affects all cases. The first measurement of each case in a lap is discarded. After a lease has
// been destroyed, a renewal that is not measured ensures that the peer has processed the release.

#include "measure/host.hpp"

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/agent.hpp>
#include <boost_rdma/device.hpp>
#include <boost_rdma/lessor.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using rdma::error_code;
using clock_type = std::chrono::steady_clock;

constexpr double goal = 1.5; // times the bare round trip, to allocate
constexpr std::size_t message_size = 64;
constexpr std::size_t receive_count = 8;
constexpr int burst = 16; // measurements of a case in a lap
constexpr std::chrono::hours lifetime{1};

struct settings
{
  bool quick = false;
  bool json = false;
  std::vector<unsigned> processors;
  std::string only;
  int rounds = 9;
  int laps = 50;
};

enum class work
{
  round_trip,
  allocate,
  allocate_and_release,
  renew,
  destroy, // measured together with allocate
};

struct bench_case
{
  const char* key;
  const char* text;
  work what;
  std::size_t size = 0;
};

constexpr std::array cases{
  bench_case{"round_trip", "bare round trip of 64 B", work::round_trip},
  bench_case{"allocate_64", "allocate 64 B", work::allocate, 64},
  bench_case{"allocate_4096", "allocate 4 KiB", work::allocate, 4096},
  bench_case{"allocate_65536", "allocate 64 KiB", work::allocate, 65536},
  bench_case{"allocate_release_64", "allocate and release 64 B", work::allocate_and_release, 64},
  bench_case{
    "allocate_release_4096", "allocate and release 4 KiB", work::allocate_and_release, 4096},
  bench_case{
    "allocate_release_65536", "allocate and release 64 KiB", work::allocate_and_release, 65536},
  bench_case{"renew", "renew", work::renew},
  bench_case{"destroy", "destroy a lease, this side's part", work::destroy},
};
constexpr std::size_t destroy_case = cases.size() - 1;

// The round trip is always measured because the ratios refer to it.
bool is_wanted(const bench_case& one, const std::string& only)
{
  return one.what == work::round_trip || std::string(one.text).find(only) != std::string::npos;
}

// Microseconds, for each case.
using samples = std::array<std::vector<double>, cases.size()>;

void check(const error_code& ec, const char* what)
{
  if (ec)
    throw rdma::system_error(ec, what);
}

/// Memory for the messages that the server echoes, and for their receives.
class echo_place
{
public:
  explicit echo_place(const rdma::context& context)
    : memory_(context.allocate(receive_count * message_size))
  {
  }
  [[nodiscard]] rdma::mutable_buffer at(std::size_t index) const
  {
    return memory_.slice(index * message_size, message_size);
  }

private:
  rdma::registered_buffer memory_;
};

/// Echoes every message, and grants memory.
class server_side
{
public:
  server_side()
    : lessor_(context_)
    , acceptor_(io_, context_, {asio::ip::address_v4::loopback(), 0}, options())
    , place_(context_)
  {
    acceptor_.async_accept(
      [this](const error_code& ec, rdma::queue_pair peer)
      {
        check(ec, "accept");
        peer_.emplace(std::move(peer));
        for (std::size_t i = 0; i != receive_count; ++i)
          receive(i);
        acceptor_.close();
      });
  }

  [[nodiscard]] tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  [[nodiscard]] asio::io_context& io() { return io_; }

  // Thread-safe. After this call, the end of the connection is not an error.
  void expect_end() { ends_ = true; }

private:
  rdma::acceptor_options options() const
  {
    rdma::acceptor_options result;
    result.queue_pair.grant_from(lessor_);
    return result;
  }

  void receive(std::size_t index)
  {
    peer_->async_receive(place_.at(index),
      [this, index](const error_code& ec, std::size_t)
      {
        if (ec && ends_)
          return;
        check(ec, "the server's receive");
        peer_->async_send(place_.at(index),
          [this, index](const error_code& sent, std::size_t)
          {
            if (sent && ends_)
              return;
            check(sent, "the server's send");
            receive(index);
          });
      });
  }

  asio::io_context io_{1};
  rdma::context context_;
  rdma::lessor lessor_;
  rdma::acceptor acceptor_;
  echo_place place_;
  std::optional<rdma::queue_pair> peer_;
  std::atomic<bool> ends_{false};
};

/// Runs the measurements one after the other.
class client_side
{
public:
  explicit client_side(const settings& how)
    : place_(context_)
    , peer_(io_, context_)
    , how_(how)
  {
  }

  [[nodiscard]] asio::io_context& io() { return io_; }
  [[nodiscard]] std::string device() const { return context_.default_device().name(); }
  [[nodiscard]] const std::vector<samples>& rounds() const { return rounds_; }

  template <class Handler>
  void start(const tcp::endpoint& server, Handler done)
  {
    done_ = std::move(done);
    peer_.async_connect(server,
      [this](const error_code& ec)
      {
        check(ec, "connect");
        for (std::size_t i = 0; i + 1 != receive_count; ++i)
          receive(i);
        agent_.emplace(peer_.agent());
        agent_->async_allocate(message_size,
          [this](const error_code& granted, rdma::remote_memory memory)
          {
            check(granted, "allocate");
            kept_ = std::move(memory);
            next();
          });
      });
  }

private:
  // Only one reply is outstanding at a time, and replies arrive in the order of the receives.
  void receive(std::size_t index)
  {
    peer_.async_receive(place_.at(index),
      [this, index](const error_code& ec, std::size_t)
      {
        if (ec && over_)
          return;
        check(ec, "the client's receive");
        measured();
        receive(index);
        next();
      });
  }

  void next()
  {
    if (left_ == 0 && !next_burst())
      return;
    --left_;
    const bench_case& now = cases[case_];
    begun_ = clock_type::now();
    switch (now.what)
    {
    case work::round_trip:
      return peer_.async_send(place_.at(receive_count - 1),
        [this](const error_code& ec, std::size_t)
        {
          if (!over_)
            check(ec, "the client's send");
        });
    case work::allocate:
      return agent_->async_allocate(now.size,
        [this](const error_code& ec, rdma::remote_memory memory)
        {
          check(ec, "allocate");
          measured();
          destroy(std::move(memory));
        });
    case work::allocate_and_release:
      return agent_->async_allocate(now.size,
        [this](const error_code& ec, rdma::remote_memory memory)
        {
          check(ec, "allocate");
          agent_->async_release(
            std::move(memory), [this](const error_code& released) { on_end(released, "release"); });
        });
    case work::renew:
      return agent_->async_renew(
        kept_, lifetime, [this](const error_code& ec) { on_end(ec, "renew"); });
    case work::destroy:
      break;
    }
  }

  void on_end(const error_code& ec, const char* what)
  {
    check(ec, what);
    measured();
    next();
  }

  void destroy(rdma::remote_memory memory)
  {
    begun_ = clock_type::now();
    memory.release();
    add(destroy_case);
    agent_->async_renew(kept_, lifetime,
      [this](const error_code& ec)
      {
        check(ec, "renew");
        next();
      });
  }

  void measured() { add(case_); }
  void add(std::size_t which)
  {
    if (left_ != burst && lap_ >= 0)
      rounds_.back()[which].push_back(
        std::chrono::duration<double, std::micro>(clock_type::now() - begun_).count());
  }

  // Returns false when all rounds are complete. The first lap is a warm-up.
  bool next_burst()
  {
    left_ = burst + 1;
    do
      ++case_;
    while (case_ < destroy_case && !is_wanted(cases[case_], how_.only));
    if (case_ < destroy_case)
      return true;
    case_ = 0;
    if (++lap_ == 0 || lap_ == how_.laps)
    {
      lap_ = 0;
      if (rounds_.size() == static_cast<std::size_t>(how_.rounds))
      {
        over_ = true;
        kept_.release();
        done_();
        peer_.close();
        return false;
      }
      rounds_.emplace_back();
    }
    return true;
  }

  asio::io_context io_{1};
  rdma::context context_;
  echo_place place_;
  rdma::queue_pair peer_;
  std::optional<rdma::agent> agent_;
  rdma::remote_memory kept_; // the lease that is renewed
  const settings how_;
  std::function<void()> done_;
  clock_type::time_point begun_;
  std::size_t case_ = destroy_case;
  int left_ = 0;
  int lap_ = -2;
  bool over_ = false;
  std::vector<samples> rounds_;
};

double quantile(std::vector<double> values, double which)
{
  const auto at =
    values.begin() + static_cast<std::ptrdiff_t>(which * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

struct row
{
  double median, slow;                   // over all rounds
  double ratio, ratio_least, ratio_most; // over the medians of the rounds
};

row row_of(const std::vector<samples>& rounds, std::size_t which)
{
  std::vector<double> all;
  std::vector<double> ratios;
  for (const samples& each : rounds)
  {
    all.insert(all.end(), each[which].begin(), each[which].end());
    ratios.push_back(quantile(each[which], 0.5) / quantile(each[0], 0.5));
  }
  return {quantile(all, 0.5), quantile(all, 0.99), quantile(ratios, 0.5), std::ranges::min(ratios),
    std::ranges::max(ratios)};
}

void print(const settings& how, const std::string& device, const std::vector<samples>& rounds)
{
  std::string facts[][2] = {{"processor", bench::processors_online()}, {"kernel", bench::kernel()},
    {"load", bench::first_line("/proc/loadavg")}, {"device", device},
    {"threads",
      how.processors.empty() ? std::string("placed by the scheduler")
                             : "client on " + std::to_string(how.processors[0]) + ", server on "
          + std::to_string(how.processors[1])},
    {"rounds",
      std::to_string(how.rounds) + " of " + std::to_string(how.laps * burst)
        + " measurements per case"}};
  if (how.json)
    std::printf("{\n");
  for (auto& [name, value] : facts)
  {
    std::ranges::replace(value, '"', '\''); // for JSON
    std::printf(how.json ? "  \"%s\": \"%s\",\n" : "%-14s %s\n", name.c_str(), value.c_str());
  }
  if (how.json)
    std::printf("  \"results\": [");
  else
  {
#ifndef NDEBUG
    std::printf("build          with assertions enabled: do not use these figures\n");
#endif
    std::printf("ratio          case / round trip, from the medians of each round: median (least "
                ".. greatest)\n");
    std::printf("\n%-36s %10s %10s   %s\n", "us", "median", "99 %", "ratio to the round trip");
  }
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i)
  {
    if (rounds.front()[i].empty())
      continue; // excluded by --only
    const row r = row_of(rounds, i);
    if (how.json)
      std::printf(
        "%s\n    {\"case\": \"%s\", \"median_us\": %.4g, \"slow_us\": %.4g, \"ratio\": %.4g, "
        "\"ratio_least\": %.4g, \"ratio_most\": %.4g}",
        i == 0 ? "" : ",", cases[i].key, r.median, r.slow, r.ratio, r.ratio_least, r.ratio_most);
    else
      std::printf("%-36s %10.2f %10.2f   %5.2f (%.2f .. %.2f)\n", cases[i].text, r.median, r.slow,
        r.ratio, r.ratio_least, r.ratio_most);
    if (cases[i].what == work::allocate)
      worst = std::max(worst, r.ratio);
  }
  if (how.json)
    std::printf("\n  ],\n  \"worst_allocate_ratio\": %.4g\n}\n", worst);
  else if (worst != 0)
    std::printf("\ngoal: allocate takes at most %.1f times the bare round trip; worst: %.2f, %s\n",
      goal, worst, worst <= goal ? "met" : "missed");
}

// Binds the calling thread to a processor.
void stay_on(unsigned processor)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % CPU_SETSIZE, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0)
    std::perror("warning: --processors has no effect: sched_setaffinity");
}

int compare(const settings& how)
{
  server_side server;
  client_side client(how);
  std::exception_ptr failure;
  std::thread serving(
    [&]
    {
      if (!how.processors.empty())
        stay_on(how.processors[1]);
      try
      {
        server.io().run();
      }
      catch (...)
      {
        failure = std::current_exception();
        client.io().stop();
      }
    });
  if (!how.processors.empty())
    stay_on(how.processors[0]);
  try
  {
    client.start(server.endpoint(), [&] { server.expect_end(); });
    client.io().run();
  }
  catch (...)
  {
    server.io().stop();
    serving.join();
    throw;
  }
  serving.join();
  if (failure)
    std::rethrow_exception(failure);
  print(how, client.device(), client.rounds());
  return 0;
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app(
    "Compares the operations of an agent with a bare round trip on the same connection.");
  app.add_flag("--quick", how.quick, "run fewer and shorter rounds");
  app.add_flag("--json", how.json, "print JSON");
  app
    .add_option("--processors", how.processors,
      "processors for the client's thread and the server's thread, as \"0,1\" (default: "
      "chosen by the scheduler)")
    ->expected(2)
    ->delimiter(',');
  app.add_option(
    "--only", how.only, "measure the round trip and the cases whose name contains this text");
  auto* rounds =
    app.add_option("--rounds", how.rounds, "number of rounds")->check(CLI::Range(1, 1000));
  auto* laps =
    app.add_option("--laps", how.laps, "laps per round, with 16 measurements of each case per lap")
      ->check(CLI::Range(1, 10'000));
  CLI11_PARSE(app, argc, argv);
  if (how.quick && rounds->count() == 0)
    how.rounds = 3;
  if (how.quick && laps->count() == 0)
    how.laps = 5;
  try
  {
    return compare(how);
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
}
