//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/chart.hpp"
#include "perf/results.hpp"
#include "perf/text.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace perf {
namespace {

// One colour per contender, and a shade per mode or operation of the library.
std::string colour_of(const test_case& what, bool by_operation)
{
  constexpr std::array<const char*, 3> first_transport{"#1463b8", "#4f9be8", "#9cc7f5"};
  constexpr std::array<const char*, 3> second_transport{"#a3123f", "#dc4f7c", "#f0a3bb"};
  const std::size_t shade = by_operation
    ? std::min<std::size_t>(static_cast<std::size_t>(what.operation), 2)
    : what.mode == rdma::completion_mode::adaptive  ? 0
    : what.mode == rdma::completion_mode::busy_poll ? 1
                                                    : 2;
  switch (what.contender)
  {
  case contender::library:
  case contender::stream:
  case contender::object:
  case contender::rpc:
    return (what.transport == 0 ? first_transport : second_transport)[shade];
  case contender::raw:
    return what.transport == 0 ? "#e8820c" : "#b8a200";
  case contender::tcp:
    return what.mode == rdma::completion_mode::busy_poll ? "#9aa4af" : "#68727d";
  case contender::local_socket:
    return "#c3cad1";
  case contender::memory:
    return "#1d232a";
  case contender::ucx:
    return what.operation == operation::write ? (what.transport == 0 ? "#5cb84f" : "#8fd0c0")
                                              : (what.transport == 0 ? "#1f7a1f" : "#0f7f78");
  case contender::perftest:
    return "#7a3fb3";
  }
  return "black";
}

bool worth_a_line(const test_case& what)
{
  // With all tokens, the percentile chart would be unreadable.
  return what.contender != contender::library || what.token == token::callback;
}

line_chart percentiles(const group& of)
{
  line_chart chart{"Percentiles: " + of.title, "percentile", "us", {}, {}};
  const std::array<tick, 6> ticks{
    {{1, "0"}, {2, "50"}, {10, "90"}, {100, "99"}, {1000, "99.9"}, {10000, "99.99"}}};
  chart.x_ticks.assign(ticks.begin(), ticks.end());
  for (const result& each : of.results)
  {
    if (each.latencies.count() == 0 || !worth_a_line(each.what))
      continue;
    series line{name_of(each.what), colour_of(each.what, false),
      each.what.contender != contender::library, {}};
    for (double inverse = 1; inverse <= ticks.back().at; inverse *= 1.25)
    {
      // Requires at least one value beyond the percentile.
      if (inverse > static_cast<double>(each.latencies.count()))
        break;
      const double percentile = 100 * (1 - 1 / inverse);
      line.points.emplace_back(inverse,
        std::max<double>(1, static_cast<double>(each.latencies.at_percentile(percentile))) / 1000);
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

line_chart by_size(const group& of)
{
  const bool times = of.measure == measure::latency;
  line_chart chart{times ? "Latency: " + of.title : "Bandwidth: " + of.title, "bytes of a message",
    times ? "us" : "GB/s", {}, {}};
  for (const result& each : of.results)
  {
    const double size = each.what.size;
    if (std::ranges::find(chart.x_ticks, size, &tick::at) == chart.x_ticks.end())
      chart.x_ticks.push_back({size, size_text(each.what.size)});
    if (each.values.empty())
      continue;
    test_case same = each.what;
    same.depth = 1; // depends on the size
    const std::string name = name_of(same);
    auto line = std::ranges::find(chart.lines, name, &series::name);
    if (line == chart.lines.end())
      line = chart.lines.insert(
        line, {name, colour_of(each.what, !times), each.what.contender != contender::library, {}});
    line->points.emplace_back(size, times ? each.values.median() : each.bytes_a_second() / 1e9);
  }
  std::ranges::sort(chart.x_ticks, {}, &tick::at);
  return chart;
}

bar_chart bars(const group& of)
{
  const bool times = of.measure == measure::latency;
  const bool blocks = !times && !of.results.empty() && of.results.front().what.size >= 4096;
  bar_chart chart{(times ? "Medians: " : "Rates: ") + of.title,
    times      ? "us (shorter is better)"
      : blocks ? "GB/s (longer is better)"
               : "million operations/s (longer is better)",
    {}};
  for (const result& each : of.results)
  {
    if (each.values.empty())
      continue;
    const double scale = times ? 1 : blocks ? each.what.size / 1e9 : 1e-6;
    const double value = each.values.median() * scale;
    chart.bars.push_back({name_of(each.what), colour_of(each.what, false), value,
      each.values.least() * scale, each.values.greatest() * scale, significant(value)});
  }
  return chart;
}

} // namespace

std::string svg_of(const report& all)
{
  std::vector<drawn> panels;
  for (const group& each : all.groups)
  {
    if (each.by == group::axis::size)
      panels.push_back(draw(by_size(each)));
    else
    {
      if (each.key == "send_latency")
        panels.push_back(draw(percentiles(each)));
      // A single bar has no comparison.
      if (const bar_chart chart = bars(each); chart.bars.size() > 1)
        panels.push_back(draw(chart));
    }
  }
  // Adds each panel to the shorter column.
  constexpr double margin = 24;
  constexpr double gap = 26;
  const double head = margin + 30 + 15 * static_cast<double>(all.facts.size());
  std::array<double, 2> filled{head, head};
  std::string body;
  for (const drawn& each : panels)
  {
    const std::size_t column = filled[1] < filled[0] ? 1 : 0;
    const double x = margin + static_cast<double>(column) * (panel_width + gap);
    body += "<g transform=\"translate(" + fixed(x, 0) + ' ' + fixed(filled[column], 0) + ")\">\n"
      + each.elements + "</g>\n";
    filled[column] += each.height + gap;
  }
  const double width = 2 * margin + 2 * panel_width + gap;
  const double height = std::max(filled[0], filled[1]) + margin;
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(width, 0)
    + "\" height=\"" + fixed(height, 0) + "\" viewBox=\"0 0 " + fixed(width, 0) + ' '
    + fixed(height, 0) + "\">\n"
    + "<style>text { font: 12px sans-serif; fill: #1d232a } .title { font: bold 15px sans-serif } "
      ".label { fill: #555f6b } "
      ".head { font: bold 20px sans-serif }</style>\n"
    + "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + "<text class=\"head\" x=\""
    + fixed(margin, 0) + "\" y=\"" + fixed(margin + 12, 0) + "\">rdma_perf</text>\n";
  double y = margin + 32;
  for (const auto& [name, value] : all.facts)
  {
    out += "<text x=\"" + fixed(margin, 0) + "\" y=\"" + fixed(y, 0) + "\">"
      + escaped(name + ": " + value) + "</text>\n";
    y += 15;
  }
  return out + body + "</svg>\n";
}

} // namespace perf
