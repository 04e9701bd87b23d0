//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/runner.hpp"

#include "perf/first_use.hpp"
#include "perf/idle_side.hpp"
#include "perf/overload.hpp"
#include "perf/side.hpp"
#include "perf/transports.hpp"

#include "common/allocations.hpp"

#include <algorithm>
#include <stdexcept>

#include <unistd.h>

namespace perf {
namespace {

// Ends the run if a case hangs.
constexpr unsigned case_seconds_max = 60;

enum class request : std::uint8_t
{
  measure,
  first_use,
  idle,
  overload,
};

class time_limit
{
public:
  explicit time_limit(unsigned more = 0) { ::alarm(case_seconds_max + more); }
  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;
  ~time_limit() { ::alarm(0); }
};

// Zero ends a case.
constexpr std::uint64_t no_more = 0;

template <class T>
T next(bench::control_channel& control)
{
  T value{};
  if (!control.receive(value))
    throw std::runtime_error("the other process has ended; see its message");
  return value;
}

void serve_case(bench::control_channel& control)
{
  const auto what = next<test_case>(control);
  {
    const std::unique_ptr<side> server = make_side(what, control, true);
    for (;;)
    {
      const auto count = next<std::uint64_t>(control);
      if (count == no_more)
        break;
      const time_limit limit;
      server->serve(count, [&control] { control.send('r'); });
    }
  }
  control.send('e');
}

// The client of a case.
class client
{
public:
  client(const test_case& what, bench::control_channel& control)
    : control_(control)
  {
    control_.send(request::measure);
    control_.send(what);
    side_ = make_side(what, control_, false);
  }

  // Not called after an exception: the processes are then out of step, and the run ends.
  void end()
  {
    control_.send(no_more);
    next<char>(control_);
    side_.reset();
  }

  seconds run(std::uint64_t count, histogram* latencies)
  {
    const time_limit limit;
    control_.send(count);
    next<char>(control_);
    return side_->run(count, latencies);
  }

  // Returns a count that takes about the given duration. Also warms up.
  std::uint64_t count_for(std::chrono::milliseconds duration)
  {
    const std::uint64_t unit = side_->unit();
    const std::uint64_t count_max = std::uint64_t{1} << 32;
    const double wanted = seconds(duration).count();
    for (std::uint64_t count = rounded(16, unit);;)
    {
      const double took = run(count, nullptr).count();
      const double each = std::max(took, 1e-9) / static_cast<double>(count);
      if (took >= wanted / 8 || count >= count_max)
        return rounded(static_cast<std::uint64_t>(
                         std::clamp(wanted / each, 1.0, static_cast<double>(count_max))),
          unit);
      // At most eight times as many at once: the first operations are slower.
      const double more = std::clamp(
        wanted / 4 / each, 2.0 * static_cast<double>(count), 8.0 * static_cast<double>(count));
      count = rounded(static_cast<std::uint64_t>(more), unit);
    }
  }

  void warm_up(std::uint64_t count) { run(rounded(count / 10, side_->unit()), nullptr); }

  [[nodiscard]] std::string wire() const { return side_->wire(); }

private:
  static std::uint64_t rounded(std::uint64_t count, std::uint64_t unit)
  {
    return std::max<std::uint64_t>(1, (count + unit - 1) / unit) * unit;
  }

  bench::control_channel& control_;
  std::unique_ptr<side> side_;
};

} // namespace

void serve_all(bench::control_channel& control)
{
  for (request what{}; control.receive(what);)
    if (what == request::measure)
      serve_case(control);
    else if (what == request::first_use)
      serve_first_use(control);
    else if (what == request::idle)
      serve_idle(control);
    else
      serve_overload(control);
}

runner::runner(bench::control_channel& control, const settings& how, progress& shown)
  : control_(control)
  , how_(how)
  , shown_(shown)
  , others_(how)
{
}

std::size_t runner::steps(const group& what, const settings& how)
{
  return what.cases.size() * static_cast<std::size_t>(rounds_of(what, how));
}

void runner::run_ours(result& to, std::uint64_t& count)
{
  if (to.what.use != 0)
  {
    const time_limit limit;
    control_.send(request::first_use);
    to.values.add(1 / first_use_client(to.what, control_).count());
    return;
  }
  client here(to.what, control_);
  if (count == 0)
    count = here.count_for(how_.duration);
  else
    here.warm_up(count);
  histogram* const latencies = to.what.measure == measure::latency ? &to.latencies : nullptr;
  histogram round;
  test::allocation_count allocations;
  const seconds took = here.run(count, latencies != nullptr ? &round : nullptr);
  allocations.stop();
  if (latencies != nullptr)
  {
    to.values.add(static_cast<double>(round.at_percentile(50)) / 1000);
    latencies->add(round);
  }
  else
    to.values.add(static_cast<double>(count) / took.count());
  to.allocations = static_cast<double>(allocations.value()) / static_cast<double>(count);
  to.wire = here.wire();
  here.end();
}

void runner::run(group& what)
{
  for (const test_case& each : what.cases)
    what.results.push_back({each, {}, {}, {}, 0, {}});
  std::vector<std::uint64_t> counts(what.results.size());
  const int rounds = rounds_of(what, how_);
  for (int round = 0; round < rounds; ++round)
  {
    const std::string part =
      what.title + ", round " + std::to_string(round + 1) + " of " + std::to_string(rounds);
    for (std::size_t i = 0; i < what.results.size(); ++i)
    {
      result& each = what.results[i];
      if (each.what.contender == contender::ucx || each.what.contender == contender::perftest)
        continue;
      shown_.begin(part,
        name_of(each.what)
          + (what.by == group::axis::size ? ", " + size_text(each.what.size) : ""));
      run_ours(each, counts[i]);
      shown_.step();
    }
    for (const contender other : {contender::ucx, contender::perftest})
    {
      shown_.begin(part, name_of(other));
      shown_.step(others_.run(other, what.results));
    }
  }
}

std::size_t runner::idle_steps()
{
  return transports().size() + 1;
}

std::vector<idleness> runner::idle()
{
  std::vector<idleness> all;
  const std::chrono::milliseconds duration(how_.quick ? 50 : 1000);
  const auto add = [&](contender who, std::size_t transport)
  {
    const test_case what{.contender = who,
      .mode = rdma::completion_mode::event,
      .transport = static_cast<std::uint8_t>(transport)};
    const std::string name =
      who == contender::tcp ? "Asio TCP" : "library " + transports()[transport].name;
    shown_.begin("idle connections, event mode", name);
    const time_limit limit;
    control_.send(request::idle);
    all.push_back(idle_client(what, duration, control_));
    all.back().name = name;
    shown_.step();
  };
  add(contender::tcp, 0);
  for (std::size_t i = 0; i < transports().size(); ++i)
    add(contender::library, i);
  return all;
}

overload runner::overloaded()
{
  shown_.begin("twice the calls that a server can take", "library");
  const time_limit limit(static_cast<unsigned>(2 * how_.overload / std::chrono::seconds(1)));
  control_.send(request::overload);
  const overload result = overload_client(how_.overload, control_);
  shown_.step();
  return result;
}

} // namespace perf
