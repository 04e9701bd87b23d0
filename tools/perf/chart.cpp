//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/chart.hpp"

#include "perf/text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace perf {
namespace {

// Maps values to positions on the page, logarithmically.
class scale
{
public:
  scale(double least, double greatest, double from, double to)
    : low_(std::log10(least))
    , high_(std::log10(greatest))
    , from_(from)
    , to_(to)
  {
    if (high_ - low_ < 0.1) // one value, or nearly
    {
      low_ -= 0.1;
      high_ += 0.1;
    }
  }

  [[nodiscard]] double operator()(double value) const
  {
    return from_ + (std::log10(value) - low_) / (high_ - low_) * (to_ - from_);
  }

  // Returns 1, 2 and 5 times each power of ten, or only the powers if there are too many.
  [[nodiscard]] std::vector<double> ticks() const
  {
    std::vector<double> all;
    const bool wide = high_ - low_ > 2.5;
    for (int power = static_cast<int>(std::floor(low_));
         power <= static_cast<int>(std::ceil(high_)); ++power)
      for (const double digit : {1.0, 2.0, 5.0})
        if (const double value = digit * std::pow(10, power); (!wide || digit == 1)
            && std::log10(value) >= low_ - 1e-9 && std::log10(value) <= high_ + 1e-9)
          all.push_back(value);
    return all;
  }

private:
  double low_;
  double high_;
  double from_;
  double to_;
};

std::string number(double value)
{
  return fixed(value, 1);
}

std::string text_at(double x, double y, const std::string& text, const std::string& more = {})
{
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + more + ">" + escaped(text)
    + "</text>\n";
}

std::string line_from(double x1, double y1, double x2, double y2, const std::string& style)
{
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\""
    + number(y2) + "\" " + style + "/>\n";
}

std::string tick_text(double value)
{
  std::string text = fixed(value, value < 1 ? 3 : 0);
  if (value < 1)
    while (text.ends_with('0'))
      text.pop_back();
  return text;
}

constexpr const char* grid = "stroke=\"#d8dde3\" stroke-width=\"1\"";
constexpr const char* axis = "stroke=\"#555f6b\" stroke-width=\"1\"";

std::string title_of(const std::string& title)
{
  return text_at(0, 18, title, "class=\"title\"");
}

} // namespace

std::string escaped(const std::string& text)
{
  std::string result;
  for (const char each : text)
    switch (each)
    {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += each;
    }
  return result;
}

drawn draw(const line_chart& chart)
{
  constexpr double left = 62;
  constexpr double right = 510;
  constexpr double top = 36;
  constexpr double bottom = 340;
  constexpr double legend_row = 17;
  double least = std::numeric_limits<double>::max();
  double greatest = 0;
  for (const series& each : chart.lines)
    for (const auto& [x, y] : each.points)
    {
      least = std::min(least, y);
      greatest = std::max(greatest, y);
    }
  std::string out = title_of(chart.title);
  if (greatest == 0 || chart.x_ticks.empty())
    return {out + text_at(left, top + 20, "no results"), top + 40};
  const scale x(chart.x_ticks.front().at, chart.x_ticks.back().at, left, right);
  const scale y(least / 1.25, greatest * 1.25, bottom, top);
  for (const tick& each : chart.x_ticks)
  {
    out += line_from(x(each.at), top, x(each.at), bottom, grid);
    out += text_at(x(each.at), bottom + 18, each.text, "text-anchor=\"middle\"");
  }
  for (const double value : y.ticks())
  {
    out += line_from(left, y(value), right, y(value), grid);
    out += text_at(left - 6, y(value) + 4, tick_text(value), "text-anchor=\"end\"");
  }
  out += line_from(left, top, left, bottom, axis) + line_from(left, bottom, right, bottom, axis);
  out += text_at(
    (left + right) / 2, bottom + 38, chart.x_label, "text-anchor=\"middle\" class=\"label\"");
  out += "<text transform=\"translate(14 " + number((top + bottom) / 2)
    + ") rotate(-90)\" text-anchor=\"middle\" class=\"label\">" + escaped(chart.y_label)
    + "</text>\n";
  double legend = top + 8;
  for (const series& each : chart.lines)
  {
    const std::string stroke = "stroke=\"" + each.colour + "\" stroke-width=\"2\""
      + (each.dashed ? " stroke-dasharray=\"6 3\"" : "");
    std::string points;
    for (const auto& [at, value] : each.points)
      points += number(x(at)) + ',' + number(y(value)) + ' ';
    out += "<polyline fill=\"none\" " + stroke + " points=\"" + points + "\"/>\n";
    for (const auto& [at, value] : each.points)
      out += "<circle cx=\"" + number(x(at)) + "\" cy=\"" + number(y(value))
        + "\" r=\"2.6\" fill=\"" + each.colour + "\"/>\n";
    out += line_from(right + 14, legend - 4, right + 40, legend - 4, stroke);
    out += text_at(right + 46, legend, each.name);
    legend += legend_row;
  }
  return {out, std::max(bottom + 50, legend)};
}

drawn draw(const bar_chart& chart)
{
  constexpr double left = 352;
  constexpr double right = 690;
  constexpr double top = 36;
  constexpr double row = 19;
  double least = std::numeric_limits<double>::max();
  double greatest = 0;
  for (const bar& each : chart.bars)
  {
    least = std::min(least, each.least);
    greatest = std::max(greatest, each.greatest);
  }
  std::string out = title_of(chart.title);
  if (chart.bars.empty())
    return {out + text_at(left, top + 20, "no results"), top + 40};
  const scale x(least / 2, greatest, left, right);
  const double bottom = top + row * static_cast<double>(chart.bars.size()) + 4;
  for (const double value : x.ticks())
  {
    out += line_from(x(value), top, x(value), bottom, grid);
    out += text_at(x(value), bottom + 16, tick_text(value), "text-anchor=\"middle\"");
  }
  double y = top + 4;
  for (const bar& each : chart.bars)
  {
    const double middle = y + row / 2 - 2;
    out += text_at(left - 8, middle + 4, each.name, "text-anchor=\"end\"");
    out += "<rect x=\"" + number(left) + "\" y=\"" + number(y) + "\" width=\""
      + number(x(each.value) - left) + "\" height=\"" + number(row - 5) + "\" fill=\"" + each.colour
      + "\"/>\n";
    // The range from the least to the greatest round.
    out += line_from(
      x(each.least), middle, x(each.greatest), middle, "stroke=\"#1d232a\" stroke-width=\"1.4\"");
    out += text_at(std::max(x(each.value), x(each.greatest)) + 6, middle + 4, each.text);
    y += row;
  }
  out += line_from(left, top, left, bottom, axis) + line_from(left, bottom, right, bottom, axis);
  out += text_at(
    (left + right) / 2, bottom + 34, chart.x_label, "text-anchor=\"middle\" class=\"label\"");
  return {out, bottom + 44};
}

} // namespace perf
