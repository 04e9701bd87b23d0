//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_CHART_HPP
#define BOOST_RDMA_TOOLS_PERF_CHART_HPP

#include <string>
#include <utility>
#include <vector>

namespace perf {

/// One line of a chart.
struct series
{
  std::string name;
  std::string colour; ///< an SVG colour
  bool dashed = false;
  std::vector<std::pair<double, double>> points; ///< x, y; both greater than zero
};

/// A labelled position on an axis.
struct tick
{
  double at = 0;
  std::string text;
};

/// Lines over logarithmic axes.
struct line_chart
{
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<tick> x_ticks;
  std::vector<series> lines;
};

struct bar
{
  std::string name;
  std::string colour;
  double value = 0;
  double least = 0; ///< of the rounds
  double greatest = 0;
  std::string text; ///< the value as text
};

/// Bars from left to right over a logarithmic axis.
struct bar_chart
{
  std::string title;
  std::string x_label;
  std::vector<bar> bars;
};

/// SVG elements of a panel, and its height.
struct drawn
{
  std::string elements;
  double height = 0;
};

inline constexpr double panel_width = 780;

drawn draw(const line_chart& chart);
drawn draw(const bar_chart& chart);

/// Replaces the special characters of XML by entities.
std::string escaped(const std::string& text);

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_CHART_HPP
