//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Measures this library's operations between two processes on this machine, compared with raw verbs
// calls on the same device, plain Asio TCP, memcpy, and UCX and perftest if they are installed
// (doc/rdma_perf.md):
//
//   rdma_perf [--quick] [--wire NAMES] [--json FILE] [--svg FILE] [--hgrm DIRECTORY]
//             [--processors CLIENT,SERVER] ...

#include "measure/two_processes.hpp"
#include "perf/command_line.hpp"
#include "perf/main_process.hpp"
#include "perf/overhead.hpp"
#include "perf/runner.hpp"
#include "perf/transports.hpp"

#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <system_error>

#include <sched.h>
#include <unistd.h>

namespace {

// Binds this thread and all threads that it starts.
void stay_on(unsigned processor)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % CPU_SETSIZE, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0)
    throw std::system_error(errno, std::generic_category(), "--processors");
}

void on_alarm(int)
{
  constexpr char text[] = "\nerror: a case timed out\n";
  (void)!::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1);
}

} // namespace

int main(int argc, char** argv)
{
  perf::command_line how;
  if (const std::optional<int> status = how.parse(argc, argv))
    return *status;
  std::signal(SIGALRM, on_alarm);
  bool server = false;
  try
  {
    if (!how.probe.empty())
    {
      perf::choose_transports(how.measured.wires);
      perf::probe_instructions(how.probe, how.probe_count);
      return 0;
    }
    const bench::two_processes both;
    server = both.in_child();
    if (!how.measured.processors.empty())
      stay_on(how.measured.processors[server ? 1 : 0]);
    int status = 0;
    {
      bench::control_channel control(both.descriptor());
      perf::choose_transports(how.measured.wires);
      if (server)
        perf::serve_all(control);
      else
        status = perf::measure_all(control, how);
    }
    return server || both.wait() ? status : 1;
  }
  catch (const std::exception& failure)
  {
    std::cerr << "\nerror: " << (server ? "server: " : "") << failure.what() << '\n';
    return 1;
  }
}
