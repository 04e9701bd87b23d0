//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/goals.hpp"

#include "perf/plan.hpp"
#include "perf/text.hpp"
#include "perf/transports.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace perf {
namespace {

// Most goals are ratios, so that they are valid on any machine.
constexpr double share_of_memcpy = 0.95;
constexpr double share_of_second_write = 0.9;
constexpr double small_writes_wanted = 10e6;
constexpr double raw_latency_share = 1.5;
constexpr double added_latency_us_max = 0.15;
constexpr double send_share_of_memcpy = 0.6;
constexpr double share_of_process_vm_writev = 0.9;
constexpr double scattered_reads_wanted = 1.5e6;
constexpr double raw_writes_wanted = 25e6;
constexpr double single_writes_wanted = 12e6;
constexpr double event_latency_share = 1.2;
constexpr double stream_latency_share = 1.3; // of a message
constexpr double stream_share_of_memcpy = 0.6;
constexpr double load_latency_share = 1.3; // of a read
constexpr double find_latency_share = 1.5; // of a read
constexpr double records_per_second = 5e6;
constexpr double call_latency_share = 1.25; // of a message there and back
constexpr double calls_per_second = 1e6;
constexpr double pull_share_of_read = 0.95;
constexpr double stream_share_of_tcp = 1 / 1.3; // 1.3 times the time
constexpr double many_clients_share = 2;
constexpr double many_streams_share = 1.2;
constexpr double added_ns_max = 60;
constexpr double perftest_latency_share = 1.10;
constexpr double perftest_bandwidth_share = 0.95;
constexpr double tcp_well_above = 1.5; // "well above plain Asio TCP"
// Share of a processor. Not zero, because starting and ending the wait is measured as well.
constexpr double idle_share_max = 0.001;

class judge
{
public:
  explicit judge(const report& all)
    : all_(all)
  {
  }

  // Met if `ours` is at most `share` times `theirs` for latencies, or at least that for rates.
  void compare(const std::string& text, const result* ours, const result* theirs, double share)
  {
    if (ours == nullptr || theirs == nullptr)
      return unknown(text, ours == nullptr ? "this library" : "the other program");
    const bool times = ours->what.measure == measure::latency;
    const double ratio = ours->values.median() / theirs->values.median();
    const bool met = times ? ratio <= share : ratio >= share;
    const auto figure = [times](const result& each)
    {
      return times ? microseconds_text(each.values.median()) + " us"
                   : bandwidth_text(each.bytes_a_second());
    };
    add(text, figure(*ours) + " to " + figure(*theirs) + ", ratio " + fixed(ratio, 3), met);
  }

  // Met if a latency is at most `most` microseconds above another one.
  void at_most_above(const std::string& text, const result* ours, const result* theirs, double most)
  {
    if (ours == nullptr || theirs == nullptr)
      return unknown(text, ours == nullptr ? "this library" : "raw verbs");
    const double above = ours->values.median() - theirs->values.median();
    add(text, fixed(above, 3) + " us", above <= most);
  }

  void at_least(const std::string& text, const result* ours, double wanted)
  {
    if (ours == nullptr)
      return unknown(text, "this library");
    const double rate = ours->values.median();
    add(text, fixed(rate / 1e6, 2) + " million/s", rate >= wanted);
  }

  void unknown(const std::string& text, const std::string& what)
  {
    goals_.push_back({text, "not measured in this run: " + what, verdict::unknown});
  }

  void add(const std::string& text, const std::string& figure, bool met)
  {
    goals_.push_back({text, figure, met ? verdict::met : verdict::missed});
  }

  // Returns the better of the measured results: the smaller time or the greater rate.
  static const result* best(std::initializer_list<const result*> some)
  {
    const result* chosen = nullptr;
    for (const result* each : some)
    {
      if (each == nullptr)
        continue;
      const bool better = chosen == nullptr
        || (each->what.measure == measure::latency)
          == (each->values.median() < chosen->values.median());
      chosen = better ? each : chosen;
    }
    return chosen;
  }

  [[nodiscard]] const result* latency(const test_case& what) const
  {
    return all_.find("send_latency", what);
  }
  [[nodiscard]] const result* large(const test_case& what) const
  {
    return all_.find("large", what);
  }
  [[nodiscard]] const result* small(const test_case& what) const
  {
    return all_.find("small", what);
  }
  // With --quick the size is another one.
  [[nodiscard]] const result* first_write(std::size_t transport, std::uint32_t use) const
  {
    for (const group& each : all_.groups)
      for (const result& one : each.results)
        if (one.what.use == use && one.what.transport == transport && !one.values.empty())
          return &one;
    return nullptr;
  }
  [[nodiscard]] const report& all() const { return all_; }

  std::vector<goal> take() { return std::move(goals_); }

private:
  const report& all_;
  std::vector<goal> goals_;
};

const result* best_latency(const judge& of, std::size_t transport)
{
  return judge::best(
    {of.latency(small_send(transport, adaptive)), of.latency(small_send(transport, busy))});
}

test_case with_mode(test_case what, rdma::completion_mode mode)
{
  what.mode = mode;
  return what;
}

const result* best_large(const judge& of, const test_case& what)
{
  return judge::best({of.large(what), of.large(with_mode(what, busy))});
}

void local_goals(judge& of, std::size_t transport)
{
  const result* const raw = of.latency(small_send_raw(transport));
  of.compare("local: 64 B send/receive, one way, raw verbs <= 1.5 UCX posix", raw,
    of.latency(small_send_ucx(transport)), raw_latency_share);
  of.at_most_above("local: 64 B send/receive, one way <= raw verbs + 0.15 us",
    best_latency(of, transport), raw, added_latency_us_max);
  of.compare("local: 1 MiB write, one buffer >= 0.95 memcpy",
    best_large(of, large_write(transport)), of.large(large_memory(1)), share_of_memcpy);
  of.compare("local: 1 MiB write, 16 buffers >= 0.95 memcpy",
    of.large(large_write(transport, many_buffers)), of.large(large_memory(many_buffers)),
    share_of_memcpy);
  of.compare("local: 1 MiB write >= UCX put", best_large(of, large_write(transport)),
    of.large(large_ucx(transport, operation::write)), 1);
  const result* const sends =
    judge::best({best_large(of, large_send(transport)), of.large(large_send(transport))});
  of.compare(
    "local: 1 MiB send >= UCX tag", sends, of.large(large_ucx(transport, operation::send)), 1);
  of.compare(
    "local: 1 MiB send >= 0.6 memcpy", sends, of.large(large_memory(1)), send_share_of_memcpy);
  of.compare("local: 1 MiB write, the program's own memory >= 0.9 process_vm_writev",
    of.large(own_memory(large_write(transport))), of.large(own_memory(large_memory(1))),
    share_of_process_vm_writev);
  of.at_least("local: 256 B reads of the program's own memory >= 1.5 million/s",
    of.all().find("reads", own_memory(scattered_reads(transport))), scattered_reads_wanted);
  of.compare("local: first write on a key >= 0.9 of the second", of.first_write(transport, 1),
    of.first_write(transport, 2), share_of_second_write);
  const auto batches = small_writes(contender::library, transport, 8, 32);
  of.at_least("local: 64 B writes in batches >= 10 million/s",
    judge::best({of.small(batches), of.small(with_mode(batches, busy))}), small_writes_wanted);
  const auto writes = [&](contender who)
  {
    const auto one = small_writes(who, transport, 64, 1);
    return judge::best({of.small(one), of.small(with_mode(one, busy))});
  };
  of.at_least("local: 64 B writes, 64 in flight, raw verbs >= 25 million/s", writes(contender::raw),
    raw_writes_wanted);
  of.at_least("local: 64 B writes, 64 in flight >= 12 million/s", writes(contender::library),
    single_writes_wanted);
}

void tcp_goals(judge& of, std::size_t transport)
{
  of.compare("tcp: 64 B send/receive, one way <= UCX tcp", best_latency(of, transport),
    of.latency(small_send_ucx(transport)), 1);
  const auto batches = small_writes(contender::library, transport, 8, 32);
  of.compare("tcp: 64 B writes in batches of 32 >= Asio async_write of 32",
    judge::best({of.small(batches), of.small(with_mode(batches, busy))}),
    of.small(small_writes_tcp()), 1);
  const result* best =
    judge::best({best_large(of, large_send(transport)), best_large(of, large_write(transport))});
  of.compare("tcp: 1 MiB transfers >= UCX tcp tagged", best,
    of.large(large_ucx(transport, operation::send)), 1);
  of.compare(
    "tcp: 1 MiB transfers >= 1.5 plain Asio TCP", best, of.large(large_tcp()), tcp_well_above);
}

void event_goals(judge& of)
{
  for (std::size_t i = 0; i < transports().size(); ++i)
    of.compare(transports()[i].name + ": event mode, 64 B one way <= 1.2 Asio TCP",
      of.latency(small_send(i, rdma::completion_mode::event)), of.latency(small_send_tcp()),
      event_latency_share);
  for (const idleness& each : of.all().idle)
  {
    if (each.name == "Asio TCP")
      continue;
    const double most = std::max(each.client_cpu_us, each.server_cpu_us);
    of.add(each.name + ": event mode, idle processor time < 0.1 %",
      fixed(most, 0) + " us in " + fixed(each.seconds, 2) + " s",
      most < idle_share_max * each.seconds * 1e6);
  }
}

void stream_goals(judge& of)
{
  for (std::size_t i = 0; i < transports().size(); ++i)
  {
    const std::string name = transports()[i].name + ": stream, ";
    const auto one_way = [&of, i](rdma::completion_mode mode)
    { return of.all().find("streams", small_stream(i, mode)); };
    of.compare(name + "64 B one way <= 1.3 times a message", one_way(adaptive),
      of.latency(small_send(i, adaptive)), stream_latency_share);
    of.compare(name + "event mode, 64 B one way <= 1.2 Asio TCP", one_way(event),
      of.all().find("streams", small_send_tcp()), event_latency_share);
    if (transports()[i].name == "local")
      of.compare(name + "1 MiB writes >= 0.6 memcpy", of.large(large_stream(i)),
        of.large(large_memory(1)), stream_share_of_memcpy);
    else
      of.compare(name + "1 MiB writes <= 1.3 times the time of Asio TCP", of.large(large_stream(i)),
        of.large(large_tcp()), stream_share_of_tcp);
    of.compare(name + "256 at once >= 1.2 Asio TCP", of.all().find("many_streams", many_streams(i)),
      of.all().find("many_streams", many_sockets(contender::tcp)), many_streams_share);
  }
}

void object_goals(judge& of)
{
  for (std::size_t i = 0; i < transports().size(); ++i)
  {
    const std::string& name = transports()[i].name;
    const result* const read = of.all().find("objects", object(operation::read, i));
    of.compare(name + ": load of versioned<64 B> <= 1.3 times a read",
      of.all().find("objects", object(operation::load, i)), read, load_latency_share);
    of.compare(name + ": find in a map that is 80 % full <= 1.5 times a read from 1 MiB",
      of.all().find("objects", object(operation::find, i)),
      of.all().find("objects", read_of_many(i)), find_latency_share);
    if (name == "local")
      of.at_least(name + ": remote_ring, 16 B >= 5 million records/s",
        of.all().find("ring", ring_records(i)), records_per_second);
  }
}

// Only if perftest was able to run.
void call_goals(judge& of)
{
  for (std::size_t i = 0; i < transports().size(); ++i)
  {
    const std::string& name = transports()[i].name;
    of.compare(name + ": empty call <= 1.25 times a message there and back",
      of.all().find("calls", empty_calls(i, adaptive)),
      of.all().find("calls", object(operation::call, i)), call_latency_share);
    for (const std::uint32_t pulls : {1U, 256U})
      of.compare(name + ": calls with " + std::to_string(pulls) + (pulls == 1 ? " pull" : " pulls")
          + " of 1 MiB >= 0.95 of reads",
        of.all().find("pulls", large_pull(i, contender::rpc, pulls)),
        of.all().find("pulls", large_pull(i, contender::library)), pull_share_of_read);
    of.compare(name + ": calls of 256 clients >= 2 times those over Asio TCP",
      of.all().find("many_clients", many_clients(i)),
      of.all().find("many_clients", many_sockets(contender::tcp)), many_clients_share);
    if (name == "local")
      of.at_least(name + ": empty calls, 64 in flight >= 1 million/s",
        judge::best({of.all().find("many_calls", many_empty_calls(i, adaptive)),
          of.all().find("many_calls", many_empty_calls(i, busy))}),
        calls_per_second);
  }
}

void overload_goals(judge& of)
{
  const std::string text = "twice the load: 99 % of admitted calls <= 3 times that without load";
  if (!of.all().overload)
    return of.unknown(text, "overload");
  const auto at_99 = [](const histogram& times)
  { return static_cast<double>(times.at_percentile(99)) / 1e6; };
  const double ours = at_99(of.all().overload->admitted);
  const double unloaded = at_99(of.all().overload->unloaded);
  of.add(text,
    fixed(ours, 3) + " ms to " + fixed(unloaded, 3) + " ms, ratio " + fixed(ours / unloaded, 2),
    ours <= 3 * unloaded);
}

void perftest_goals(judge& of)
{
  if (const result* theirs = of.all().find("perftest_latency", perftest_send(contender::perftest)))
    of.compare("64 B send, one way <= 1.10 ib_send_lat",
      of.all().find("perftest_latency", perftest_send(contender::library)), theirs,
      perftest_latency_share);
  if (const result* theirs =
        of.all().find("perftest_bandwidth", perftest_write(contender::perftest)))
    of.compare("64 KiB writes >= 0.95 ib_write_bw",
      of.all().find("perftest_bandwidth", perftest_write(contender::library)), theirs,
      perftest_bandwidth_share);
}

void overhead_goals(judge& of)
{
  const std::string time = "library overhead over raw verbs <= 60 ns per operation";
  const std::string heap = "library: no heap allocation";
  const auto& found = of.all().overhead;
  if (!found)
  {
    of.unknown(time, "overhead");
    of.unknown(heap, "overhead");
    return;
  }
  std::string figure = fixed(found->added_ns.median(), 1) + " ns";
  if (found->library_instructions && found->raw_instructions)
    figure +=
      ", " + fixed(*found->library_instructions - *found->raw_instructions, 0) + " instructions";
  for (std::size_t i = 0; i < transports().size(); ++i)
  {
    // The same difference on the device itself. It includes changes in the behaviour of the device.
    const auto writes = [&of, i](contender who)
    { return of.small(with_mode(small_writes(who, i, 64, 1), busy)); };
    const result* ours = writes(contender::library);
    const result* theirs = writes(contender::raw);
    if (ours != nullptr && theirs != nullptr)
      figure += "; on " + transports()[i].name + ' '
        + fixed(1e9 / ours->values.median() - 1e9 / theirs->values.median(), 0) + " ns";
  }
  of.add(time, figure, found->added_ns.median() <= added_ns_max);
  of.add(heap, fixed(found->allocations, 4) + " an operation", found->allocations == 0);
}

} // namespace

std::vector<goal> goals_of(const report& all)
{
  judge of(all);
  for (std::size_t i = 0; i < transports().size(); ++i)
    if (transports()[i].name == "local")
      local_goals(of, i);
    else if (transports()[i].name == "tcp")
      tcp_goals(of, i);
  if (transports().front().software
    && std::ranges::find(transports(), "local", &transport::name) == transports().end())
    of.unknown("local: 64 B one way, 1 MiB writes, 64 B writes per second", "no wire \"local\"");
  event_goals(of);
  stream_goals(of);
  object_goals(of);
  call_goals(of);
  overload_goals(of);
  perftest_goals(of);
  overhead_goals(of);
  return of.take();
}

} // namespace perf
