//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/other_programs.hpp"

#include "perf/child_program.hpp"
#include "perf/transports.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <unistd.h>

namespace perf {
namespace {

using namespace std::chrono_literals;

constexpr auto start_limit = 10s;
constexpr auto run_limit = 60s;

// A temporary file with the tests of a round, which both sides of ucx_perftest read.
class batch_file
{
public:
  explicit batch_file(const std::string& text)
  {
    const int descriptor = ::mkstemp(name_);
    if (descriptor < 0)
      throw std::system_error(errno, std::generic_category(), "mkstemp");
    const bool written =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(descriptor);
    if (!written)
    {
      ::unlink(name_);
      throw std::runtime_error(std::string("cannot write ") + name_);
    }
  }
  batch_file(const batch_file&) = delete;
  batch_file& operator=(const batch_file&) = delete;
  ~batch_file() { ::unlink(name_); }

  [[nodiscard]] std::string name() const { return name_; }

private:
  char name_[32] = "/tmp/rdma_perf.XXXXXX";
};

const char* ucx_test(const test_case& what)
{
  return what.measure == measure::latency ? "tag_lat"
    : what.operation == operation::send   ? "tag_bw"
                                          : "ucp_put_bw";
}

std::string last_line(const std::string& text)
{
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      last = line;
  return last.substr(0, 200);
}

// Returns the launcher that runs other programs on the software device.
std::string find_launcher(const std::string& given)
{
  std::vector<std::string> places;
  if (!given.empty())
    return given;
  char self[4096];
  if (const ssize_t length = ::readlink("/proc/self/exe", self, sizeof(self)); length > 0)
  {
    const std::string path(self, static_cast<std::size_t>(length));
    places.push_back(path.substr(0, path.rfind('/')) + "/rdma_soft");
  }
#ifdef BOOST_RDMA_TOOLS
  places.emplace_back(BOOST_RDMA_TOOLS "/rdma_soft");
#endif
  for (const std::string& each : places)
    if (::access(each.c_str(), X_OK) == 0)
      return each;
  return {};
}

void mark_absent(result& one, const std::string& why)
{
  if (one.absent.empty() && one.values.empty())
    one.absent = why;
}

} // namespace

other_programs::other_programs(const settings& how)
  : how_(how)
{
}

std::optional<unsigned> other_programs::processor(std::size_t side) const
{
  return how_.processors.empty() ? std::nullopt : std::optional(how_.processors[side]);
}

std::size_t other_programs::run(contender who, std::vector<result>& all)
{
  std::size_t count = 0;
  for (std::size_t transport = 0; transport < transports().size(); ++transport)
  {
    std::vector<result*> cases;
    for (result& each : all)
      if (each.what.contender == who && each.what.transport == transport)
        cases.push_back(&each);
    count += cases.size();
    if (who == contender::ucx && !cases.empty())
      run_ucx(cases);
    else if (who == contender::perftest)
      for (result* each : cases)
        if (each->absent.empty())
          run_perftest(*each);
  }
  return count;
}

other_programs::output other_programs::server_and_client(const std::vector<std::string>& server,
  const std::vector<std::string>& client,
  const std::vector<std::pair<std::string, std::string>>& environment,
  const std::string& server_is_ready)
{
  try
  {
    child_program serving(server, environment, processor(1));
    if (!serving.wait_for_text(server_is_ready, start_limit))
      return {{}, "its server: " + last_line(serving.output())};
    child_program running(client, environment, processor(0));
    if (!running.wait(run_limit))
      return {{}, "its client: " + last_line(running.output())};
    if (!serving.wait(start_limit))
      return {{}, "its server: " + last_line(serving.output())};
    return {running.output(), {}};
  }
  catch (const std::system_error& failure)
  {
    return {{}, failure.what()};
  }
}

std::map<std::size_t, other_programs::figure> other_programs::ucx_round(
  const std::vector<result*>& cases, const std::vector<std::uint64_t>& counts, std::string& problem)
{
  std::string tests;
  for (std::size_t i = 0; i < cases.size(); ++i)
    tests += 'c' + std::to_string(i) + " -t " + ucx_test(cases[i]->what) + " -s "
      + std::to_string(cases[i]->what.size) + " -n " + std::to_string(counts[i]) + " -w "
      + std::to_string(counts[i] / 10 + 1) + '\n';
  const batch_file file(tests);
  const std::string port = std::to_string(free_port());
  const bool local = transports()[cases.front()->what.transport].name == "local";
  // stdbuf, because with a pipe the message that it is ready would be buffered until its end.
  const output printed =
    server_and_client({"stdbuf", "-oL", "ucx_perftest", "-p", port, "-b", file.name()},
      {"ucx_perftest", "127.0.0.1", "-p", port, "-b", file.name(), "-v"},
      {{"UCX_TLS", local ? "posix,self,cma" : "tcp,self"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}},
      "Waiting for connection");
  problem = printed.problem;
  // c0,20000,4.337,4.265,4.265,14.31,14.31,234440,234440: iterations; latency: median, average
  // since the last line, total average; MiB/s and messages/s: since the last line, total. "[thread
  // 0]" marks intermediate lines.
  std::map<std::size_t, figure> figures;
  std::istringstream lines(printed.text);
  for (std::string line; std::getline(lines, line);)
  {
    std::istringstream fields(line);
    std::vector<std::string> values;
    for (std::string field; std::getline(fields, field, ',');)
      values.push_back(field);
    if (values.size() != 9 || values[0].size() < 2 || values[0][0] != 'c'
      || values[1].starts_with('['))
      continue;
    const std::size_t index = std::strtoul(values[0].c_str() + 1, nullptr, 10);
    const figure found{
      std::strtod(values[2].c_str(), nullptr), std::strtod(values[8].c_str(), nullptr)};
    if (index < cases.size() && found.microseconds > 0 && found.rate > 0)
      figures[index] = found;
  }
  return figures;
}

void other_programs::run_ucx(const std::vector<result*>& cases)
{
  const auto give_up = [&cases](const std::string& why)
  {
    for (result* each : cases)
      mark_absent(*each, why);
  };
  if (find_program("ucx_perftest").empty())
    return give_up("not installed (ucx_perftest; Debian: ucx-utils)");
  if (!cases.front()->absent.empty())
    return; // it was absent in the first round
  std::string problem;
  std::vector<std::uint64_t> counts;
  for (const result* each : cases)
    counts.push_back(counts_.contains(each) ? counts_[each] : each->what.size > 65536 ? 100 : 1000);
  if (!counts_.contains(cases.front()))
  {
    // UCX runs a number of operations, not for a duration, so calibrate first.
    const auto figures = ucx_round(cases, counts, problem);
    for (const auto& [index, found] : figures)
    {
      const double wanted = std::chrono::duration<double>(how_.duration).count();
      const double each =
        cases[index]->what.measure == measure::latency ? 2e-6 * found.microseconds : 1 / found.rate;
      counts[index] = std::max<std::uint64_t>(10, static_cast<std::uint64_t>(wanted / each));
    }
    for (std::size_t i = 0; i < cases.size(); ++i)
      counts_[cases[i]] = counts[i];
    if (figures.empty())
      return give_up("failed: " + (problem.empty() ? "it printed no figures" : problem));
  }
  const auto figures = ucx_round(cases, counts, problem);
  for (const auto& [index, found] : figures)
  {
    result& one = *cases[index];
    one.values.add(one.what.measure == measure::latency ? found.microseconds : found.rate);
    one.wire = transports()[one.what.transport].name == "local" ? "posix, cma" : "tcp";
  }
  if (figures.size() < cases.size())
    give_up("failed: " + (problem.empty() ? "it printed no figures" : problem));
}

void other_programs::run_perftest(result& one)
{
  const transport& on = transports()[one.what.transport];
  const std::string program = std::string("ib_") + name_of(one.what.operation)
    + (one.what.measure == measure::latency ? "_lat" : "_bw");
  if (find_program(program).empty())
    return mark_absent(one, "not installed (" + program + "; Debian: perftest)");
  std::vector<std::string> launch;
  std::string device = on.name;
  if (on.software)
  {
    const std::string launcher = find_launcher(how_.rdma_soft);
    if (launcher.empty())
      return mark_absent(one, "cannot use the software device: tools/rdma_soft is missing");
    launch.push_back(launcher);
    device = rdma::software::device_name;
  }
  const bool latency = one.what.measure == measure::latency;
  std::uint64_t& count = counts_[&one];
  const auto round = [&](std::uint64_t iterations)
  {
    std::vector<std::string> server = launch;
    for (const char* each : {"stdbuf", "-oL"})
      server.emplace_back(each);
    std::vector<std::string> client = launch;
    const std::string port = std::to_string(free_port());
    for (std::vector<std::string>* each : {&server, &client})
    {
      each->insert(each->end(),
        {program, "-d", device, "-x", std::to_string(how_.gid_index), "-F", "-p", port, "-s",
          std::to_string(one.what.size), "-n", std::to_string(iterations)});
      if (!latency)
        each->insert(each->end(), {"-t", std::to_string(one.what.depth)});
    }
    client.insert(client.end(), {latency ? "--output=latency" : "--output=bandwidth", "127.0.0.1"});
    return server_and_client(server, client, {{"BOOST_RDMA_WIRES", on.software ? on.name : ""}},
      "Waiting for client to connect");
  };
  if (count == 0)
    count = latency ? 1000 : 200;
  for (int attempt = counts_.contains(&one) && !one.values.empty() ? 1 : 0; attempt < 2; ++attempt)
  {
    const output printed = round(count);
    const double value = std::strtod(last_line(printed.text).c_str(), nullptr);
    if (!printed.problem.empty() || value <= 0)
      return mark_absent(
        one, "failed: " + (printed.problem.empty() ? "it printed no figures" : printed.problem));
    const double rate = value * (1 << 20) / one.what.size; // its MB/s are MiB/s
    if (attempt == 0)
    {
      const double wanted = std::chrono::duration<double>(how_.duration).count();
      count = std::max<std::uint64_t>(
        count, static_cast<std::uint64_t>(latency ? wanted / (2e-6 * value) : wanted * rate));
      continue;
    }
    one.values.add(latency ? value : rate);
    one.wire = on.name;
  }
}

} // namespace perf
