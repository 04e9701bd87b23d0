//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/histogram.hpp"

#include "common/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using perf::histogram;

namespace {

bool near(double value, double expected, double share = 1e-6)
{
  return std::abs(value - expected) <= share * std::abs(expected);
}

} // namespace

TEST_CASE("the percentiles of a histogram are at most a thousandth too high")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values;
  histogram all;
  for (int i = 0; i < 20'000; ++i)
  {
    // All magnitudes are equally frequent.
    const std::uint64_t value = (random() >> 24) >> (random() % 40);
    values.push_back(value);
    all.record(value);
  }
  std::ranges::sort(values);
  REQUIRE(all.count() == values.size());
  CHECK(all.max() == values.back());
  CHECK(all.min() == values.front());
  for (const double percentile : {0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0})
  {
    CAPTURE(percentile);
    const auto rank = std::max<std::size_t>(
      1, static_cast<std::size_t>(percentile / 100 * static_cast<double>(values.size()) + 0.5));
    const std::uint64_t exact = values[rank - 1];
    const std::uint64_t found = all.at_percentile(percentile);
    CHECK(found >= exact);
    CHECK(found - exact <= exact / 1000);
  }
}

TEST_CASE("a histogram has its own bucket for each value below 2048")
{
  for (std::uint64_t value = 0; value < 2048; ++value)
  {
    histogram one;
    one.record(value);
    REQUIRE(one.at_percentile(50) == value);
  }
}

TEST_CASE("a histogram clamps values to its maximum and returns zero when it is empty")
{
  histogram all;
  CHECK(all.at_percentile(99) == 0);
  CHECK(all.mean() == 0);
  CHECK(all.min() == 0);
  all.record(UINT64_MAX);
  CHECK(all.max() == histogram::value_max);
  CHECK(all.at_percentile(100) >= histogram::value_max);
  all.clear();
  CHECK(all.count() == 0);
  CHECK(all.max() == 0);
}

TEST_CASE("histogram add combines two histograms")
{
  histogram low;
  histogram high;
  for (int i = 0; i < 90; ++i)
    low.record(100);
  for (int i = 0; i < 10; ++i)
    high.record(1000);
  low.add(high);
  CHECK(low.count() == 100);
  CHECK(low.at_percentile(90) == 100);
  CHECK(low.at_percentile(91) == 1000);
  CHECK(near(low.mean(), 190));
  CHECK(near(low.standard_deviation(), 270));
}

TEST_CASE("a histogram prints the percentile distribution format of HdrHistogram")
{
  histogram all;
  for (std::uint64_t i = 1; i <= 1000; ++i)
    all.record(i);
  std::istringstream text(all.print(1));
  std::string line;
  REQUIRE(std::getline(text, line));
  CHECK(line == "       Value     Percentile TotalCount 1/(1-Percentile)");
  REQUIRE(std::getline(text, line));
  CHECK(line.empty());
  double last_value = 0;
  double last_percentile = -1;
  int lines = 0;
  while (std::getline(text, line) && !line.starts_with("#"))
  {
    CAPTURE(line);
    std::istringstream fields(line);
    double value = 0;
    double percentile = 0;
    double count = 0;
    REQUIRE(fields >> value >> percentile >> count);
    CHECK(value >= last_value);
    CHECK(percentile > last_percentile);
    CHECK(count == value); // because the values are 1 to 1000
    double inverse = 0;
    if (fields >> inverse)
      CHECK(near(inverse, 1 / (1 - percentile), 0.01));
    else
      CHECK(percentile == 1);
    last_value = value;
    last_percentile = percentile;
    ++lines;
  }
  CHECK(last_percentile == 1);
  CHECK(lines > 30);
  CHECK(line == "#[Mean    =      500.500, StdDeviation   =      288.675]");
  REQUIRE(std::getline(text, line));
  CHECK(line == "#[Max     =     1000.000, Total count    =         1000]");
}
