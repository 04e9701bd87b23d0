//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_BENCH_REPORT_HPP
#define BOOST_RDMA_TOOLS_BENCH_REPORT_HPP

#include "bench/host.hpp"
#include "bench/test_case.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/device.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

/// What the benchmark prints: what it ran on, tables, and ratios; or all of it as JSON.
class report
{
public:
  report(const rdma::context& context, bool json, int rounds, std::chrono::milliseconds duration,
    const std::vector<unsigned>& processors)
    : json_(json)
  {
    const rdma::device device = context.default_device();
    const bool software = device.kind() == rdma::device_kind::software;
    add_fact("processor",
      processors_online()
        + (processors.empty() ? std::string()
                              : ", client on " + std::to_string(processors[0]) + ", server on "
              + std::to_string(processors[1])));
    add_fact("kernel", kernel());
    add_fact("load", first_line("/proc/loadavg"));
    add_fact("device", device.name() + (software ? " (software), wire tcp" : " (NIC)"));
    add_fact("compared with",
      "Asio TCP over loopback: async_write and async_read, TCP_NODELAY, one "
      "io_context thread a side");
    add_fact("TCP buffers",
      "the kernel's own sizing: tcp_wmem " + first_line("/proc/sys/net/ipv4/tcp_wmem")
        + ", tcp_rmem " + first_line("/proc/sys/net/ipv4/tcp_rmem"));
    add_fact("rounds",
      std::to_string(rounds) + " of " + std::to_string(duration.count()) + " ms for each case");
#ifndef NDEBUG
    add_fact("build", "with assertions: not for measuring");
#endif
    if (json_)
      std::printf("{\n%s  \"results\": [", facts_.c_str());
    else
      std::printf("%s", facts_.c_str());
  }

  void add(workload which, const std::vector<test_case>& cases,
    const std::vector<std::vector<sample>>& samples)
  {
    const bool times = which == workload::round_trip;
    const bool blocks = which == workload::bulk_send || which == workload::bulk_write;
    const double scale = times ? 1 : blocks ? 1e9 : 1e6;
    const char* unit = times ? "us" : blocks ? "GB/s" : "million/s";
    if (!json_)
      std::printf("\n%-46s %26s %16s\n",
        times                             ? "64 B round trip, us"
          : which == workload::bulk_send  ? "1 MiB blocks, GB/s"
          : which == workload::bulk_write ? "blocks of other sizes, GB/s"
                                          : "64 B writes, million/s",
        "median (least .. greatest)",
        times                             ? "99 in 100  TCP/x"
          : which == workload::bulk_write ? ""
                                          : "x/TCP");
    double first = 0;
    for (std::size_t i = 0; i < cases.size(); ++i)
    {
      std::vector<double> values;
      std::vector<double> slow;
      for (const sample& each : samples[i])
      {
        values.push_back(each.value / scale);
        slow.push_back(each.slow / scale);
      }
      std::ranges::sort(values);
      std::ranges::sort(slow);
      const double median = values[values.size() / 2];
      // A batch is compared with TCP's batch, where there is one.
      if (cases[i].transport == transport::tcp && (i == 0 || cases[i].batch > 1))
        (cases[i].batch > 1 ? batched_ : first) = median;
      const double base = cases[i].batch > 1 ? batched_ : first;
      const double ratio = base == 0 ? 0 : times ? base / median : median / base;
      if (json_)
      {
        std::printf(
          "%s\n    {\"case\": \"%s\", \"workload\": \"%s\", \"unit\": \"%s\", \"median\": %.4g, "
          "\"least\": %.4g, \"greatest\": %.4g, \"times_tcp\": %.4g",
          any_ ? "," : "", cases[i].name().c_str(), name_of(cases[i].workload), unit, median,
          values.front(), values.back(), ratio);
        if (times)
          std::printf(", \"p99\": %.4g", slow[slow.size() / 2]);
        std::printf("}");
      }
      else
      {
        std::printf("  %-44s %8.2f (%7.2f .. %7.2f)", cases[i].name().c_str(), median,
          values.front(), values.back());
        if (times)
          std::printf(" %9.2f", slow[slow.size() / 2]);
        if (base == 0)
          std::printf("\n"); // TCP has no such case
        else
          std::printf(" %6.2f\n", ratio);
      }
      any_ = true;
    }
    std::fflush(stdout);
  }

  void finish() const
  {
    if (json_)
      std::printf("\n  ]\n}\n");
  }

private:
  static const char* name_of(workload which)
  {
    switch (which)
    {
    case workload::round_trip:
      return "64 B round trip";
    case workload::bulk_send:
      return "1 MiB messages";
    case workload::bulk_write:
      return "one-sided writes";
    case workload::small_writes:
      return "64 B writes";
    }
    return "";
  }

  void add_fact(const std::string& name, std::string value)
  {
    std::ranges::replace(value, '\t', ' ');
    std::ranges::replace(value, '"', '\'');
    if (json_)
      facts_ += "  \"" + name + "\": \"" + value + "\",\n";
    else
      facts_ += name + std::string(name.size() < 15 ? 15 - name.size() : 1, ' ') + value + '\n';
  }

  bool json_;
  bool any_ = false;
  double batched_ = 0;
  std::string facts_;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_BENCH_REPORT_HPP
