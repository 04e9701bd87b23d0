//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Compares RDMA operations with plain Asio TCP, between two processes on this machine:
//
//   rdma_bench [--quick] [--json] [--processors CLIENT,SERVER] [--only TEXT] [--rounds N] [--milliseconds N]
//
// Every round runs each case once, one after the other, so that what else the machine does meets
// all of them. Shown are the median of the rounds, and the least and the greatest.

#include "bench/report.hpp"
#include "bench/two_processes.hpp"
#include "bench/workloads.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>

#include <sched.h>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
using namespace bench;

// A case that hangs must not hang the benchmark.
constexpr unsigned case_seconds_max = 60;

struct settings
{
  bool quick = false;
  bool json = false;
  std::vector<unsigned> processors;
  std::string only;
  int rounds = 0;       // 0: as quick says
  int milliseconds = 0; // likewise
};

// One case, on one side. The server's sample means nothing.
sample run(asio::io_context& io, const rdma::context& context, const test_case& what,
  control_channel& control, bool server)
{
  const auto measure = [&](auto& link) -> sample
  {
    std::optional<stopwatch> client;
    if (what.workload == workload::round_trip && !server)
      client.emplace(what.duration);
    stopwatch* const watch = client ? &*client : nullptr;
    using link_type = std::decay_t<decltype(link)>;
    if (what.workload == workload::round_trip)
    {
      if constexpr (std::is_same_v<link_type, tcp_link>)
      {
        if (what.transport == transport::tcp_polling)
        {
          run_polled_round_trips(link, watch);
          return watch != nullptr ? watch->result() : sample{};
        }
      }
      run_round_trips(io, link, what, watch);
      return watch != nullptr ? watch->result() : sample{};
    }
    if constexpr (std::is_same_v<link_type, rdma_link>)
    {
      // One-sided: the server's process only waits for the next case.
      if (what.workload == workload::bulk_write)
        return server ? sample{} : write_blocks(io, link, what);
      if (what.workload == workload::small_writes)
        return server ? sample{} : write_small(io, link, what);
    }
    const bool small = what.workload == workload::small_writes;
    const std::size_t size = small ? small_size * what.batch : block_size;
    if (server)
    {
      block_receiver<link_type> receiver(link, what, size);
      io.run();
      return {};
    }
    sample result = send_blocks(io, link, what, size);
    if (small)
      result.value /= small_size;
    return result;
  };

  ::alarm(case_seconds_max);
  sample result;
  if (what.transport == transport::rdma)
  {
    rdma_link link(io, context, what, control);
    result = measure(link);
    // The queue pair stays until both sides are done.
    char done = 0;
    control.send(done);
    control.receive(done);
    link.peer().close();
    io.restart();
    io.run();
  }
  else
  {
    tcp_link link(io, control, server);
    result = measure(link);
  }
  ::alarm(0);
  return result;
}

void serve(control_channel& control)
{
  const rdma::context context;
  test_case what;
  while (control.receive(what))
  {
    asio::io_context io(1);
    run(io, context, what, control, true);
  }
}

std::vector<test_case> cases_of(workload which, std::chrono::milliseconds duration)
{
  const auto tcp = transport::tcp;
  const auto rdma = transport::rdma;
  const auto event = rdma::completion_mode::event;
  const auto adaptive = rdma::completion_mode::adaptive;
  const auto busy = rdma::completion_mode::busy_poll;
  const auto callbacks = style::callbacks;
  const auto coroutines = style::coroutines;
  std::vector<test_case> cases;
  switch (which)
  {
  case workload::round_trip:
    cases = {{which, tcp, event, callbacks}, {which, tcp, event, coroutines},
      {which, transport::tcp_polling, event, callbacks}, {which, rdma, event, callbacks},
      {which, rdma, adaptive, callbacks}, {which, rdma, adaptive, coroutines},
      {which, rdma, busy, callbacks}, {which, rdma, busy, coroutines}};
    break;
  case workload::bulk_send:
    cases = {{which, tcp}, {which, rdma, event, callbacks, 8},
      {which, rdma, adaptive, callbacks, 8}, {workload::bulk_write, rdma, event, callbacks, 8},
      {workload::bulk_write, rdma, adaptive, callbacks, 8},
      {workload::bulk_write, rdma, adaptive, callbacks, 16}};
    break;
  case workload::bulk_write:
    cases = {{which, rdma, busy, callbacks, 128, 1, std::size_t{64} << 10}};
    break;
  case workload::small_writes:
    cases = {{which, tcp, event, callbacks, 1, 1}, {which, tcp, event, callbacks, 1, 32},
      {which, rdma, adaptive, callbacks, 64, 1}, {which, rdma, adaptive, callbacks, 8, 32}};
    break;
  }
  for (test_case& each : cases)
    each.duration = duration;
  return cases;
}

int measure_all(control_channel& control, const settings& how)
{
  const int rounds = how.rounds > 0 ? how.rounds : how.quick ? 3 : 7;
  const std::chrono::milliseconds duration(how.milliseconds > 0 ? how.milliseconds : how.quick ? 60 : 250);
  const rdma::context context;
  report out(context, how.json, rounds, duration, how.processors);
  for (const workload which :
    {workload::round_trip, workload::bulk_send, workload::bulk_write, workload::small_writes})
  {
    std::vector<test_case> cases = cases_of(which, duration);
    std::erase_if(cases,
      [&how](const test_case& each) { return each.name().find(how.only) == std::string::npos; });
    if (cases.empty())
      continue;
    std::vector<std::vector<sample>> samples(cases.size());
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < cases.size(); ++i)
      {
        control.send(cases[i]);
        asio::io_context io(1);
        samples[i].push_back(run(io, context, cases[i], control, false));
      }
    out.add(which, cases, samples);
  }
  out.finish();
  return 0;
}

// With all threads to come.
void stay_on(unsigned processor)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % CPU_SETSIZE, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0)
    std::perror("warning: --processors");
}

void on_alarm(int)
{
  constexpr char text[] = "error: a case did not end in time\n";
  (void)!::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1);
}

} // namespace

int main(int argc, char** argv)
{
  settings how;
  CLI::App app(
    "Compares RDMA operations with plain Asio TCP, between two processes on this machine.");
  app.add_flag("--quick", how.quick, "fewer and shorter rounds");
  app.add_flag("--json", how.json, "print JSON");
  app
    .add_option("--processors", how.processors,
      "processors to keep the client and the server on, as \"0,1\" (default: the scheduler's "
      "choice)")
    ->expected(2)
    ->delimiter(',');
  app.add_option("--rounds", how.rounds, "how often each case runs")->check(CLI::Range(1, 1000));
  app.add_option("--milliseconds", how.milliseconds, "how long each time")
    ->check(CLI::Range(1, 30'000));
  app.add_option("--only", how.only, "run only the cases whose name has this in it");
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGALRM, on_alarm);
  std::optional<two_processes> both;
  try
  {
    both.emplace();
  }
  catch (const std::exception& failure)
  {
    std::cerr << "error: " << failure.what() << '\n';
    return 1;
  }
  const bool server = both->in_child();
  if (!how.processors.empty())
    stay_on(how.processors[server ? 1 : 0]);
  int status = 0;
  {
    control_channel control(both->descriptor());
    try
    {
      if (server)
        serve(control);
      else
        status = measure_all(control, how);
    }
    catch (const std::exception& failure)
    {
      std::cerr << "error: " << (server ? "server: " : "") << failure.what() << '\n';
      status = 1;
    }
  }
  if (server)
    return status;
  if (!both->wait())
    status = 1;
  return status;
}
