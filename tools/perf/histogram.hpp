//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_HISTOGRAM_HPP
#define BOOST_RDMA_TOOLS_PERF_HISTOGRAM_HPP

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace perf {

/// Counts nanoseconds in the buckets of HdrHistogram, with three significant digits.
/**
 * Implemented here because Debian has HdrHistogram for Java and Go only. Buckets double in width,
 * and each is cut into so many equal parts that the error is at most a thousandth. The constructor
 * allocates all memory; recording neither allocates nor loops. print() writes the format of
 * HdrHistogram's plotters (.hgrm).
 */
class histogram
{
public:
  /// Larger values are counted as this one.
  static constexpr std::uint64_t value_max = std::uint64_t{3600} * 1'000'000'000;

  histogram()
    : counts_(index_of(value_max) + 1)
  {
  }

  void record(std::uint64_t nanoseconds) noexcept
  {
    nanoseconds = std::min(nanoseconds, value_max);
    ++counts_[index_of(nanoseconds)];
    ++total_;
    max_ = std::max(max_, nanoseconds);
    min_ = std::min(min_, nanoseconds);
  }

  void add(const histogram& other) noexcept
  {
    std::transform(
      counts_.begin(), counts_.end(), other.counts_.begin(), counts_.begin(), std::plus<>());
    total_ += other.total_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
  }

  void clear() noexcept
  {
    std::ranges::fill(counts_, 0);
    total_ = 0;
    max_ = 0;
    min_ = std::numeric_limits<std::uint64_t>::max();
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] std::uint64_t min() const noexcept { return total_ == 0 ? 0 : min_; }

  /// Returns a value that is not exceeded by this percentage of the values, rounded up to the
  /// resolution of its bucket; 0 without values.
  [[nodiscard]] std::uint64_t at_percentile(double percentile) const noexcept
  {
    const double wanted = std::clamp(percentile, 0.0, 100.0) / 100 * static_cast<double>(total_);
    // Rounded to the nearest count, like HdrHistogram, and at least one.
    const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted + 0.5));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size() && total_ != 0; ++i)
      if ((seen += counts_[i]) >= rank)
        return highest_of(i);
    return 0;
  }

  [[nodiscard]] double mean() const noexcept
  {
    double sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      sum += static_cast<double>(counts_[i]) * middle_of(i);
    return total_ == 0 ? 0 : sum / static_cast<double>(total_);
  }

  [[nodiscard]] double standard_deviation() const noexcept
  {
    const double centre = mean();
    double sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      sum += static_cast<double>(counts_[i]) * (middle_of(i) - centre) * (middle_of(i) - centre);
    return total_ == 0 ? 0 : std::sqrt(sum / static_cast<double>(total_));
  }

  /// Returns the percentile distribution in the format of HdrHistogram's programs, in units of
  /// `unit` nanoseconds.
  /** Five lines each time the distance to 100 % halves. */
  [[nodiscard]] std::string print(double unit = 1000) const
  {
    constexpr double lines_each_half = 5;
    std::string text =
      line("%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    double percentile = 0;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size() && seen < total_; ++i)
    {
      if (counts_[i] == 0)
        continue;
      seen += counts_[i];
      const double value = static_cast<double>(highest_of(i)) / unit;
      const double reached = 100 * static_cast<double>(seen) / static_cast<double>(total_);
      while (seen < total_ && percentile <= reached)
      {
        text += line("%12.3f %2.12f %10llu %14.2f\n", value, percentile / 100,
          static_cast<unsigned long long>(seen), 1 / (1 - percentile / 100));
        const double halves = std::exp2(std::floor(std::log2(100 / (100 - percentile))) + 1);
        percentile += 100 / (lines_each_half * halves);
      }
      if (seen == total_)
        text += line("%12.3f %2.12f %10llu\n", value, 1.0, static_cast<unsigned long long>(seen));
    }
    text += line(
      "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean() / unit, standard_deviation() / unit);
    text += line("#[Max     = %12.3f, Total count    = %12llu]\n", static_cast<double>(max_) / unit,
      static_cast<unsigned long long>(total_));
    text += line("#[Buckets = %12zu, SubBuckets     = %12llu]\n", counts_.size() / half - 1,
      static_cast<unsigned long long>(2 * half));
    return text;
  }

private:
  // 10^3 values must be distinguishable in the upper half of a bucket, whose number of parts is a
  // power of two.
  static constexpr int half_bits = 10;
  static constexpr std::uint64_t half = std::uint64_t{1} << half_bits;

  // The first 2 * half values have one entry each. From there, each doubling has `half` entries.
  static constexpr std::size_t index_of(std::uint64_t value) noexcept
  {
    const int bucket = std::bit_width(value | (2 * half - 1)) - half_bits - 1;
    return (static_cast<std::size_t>(bucket) << half_bits)
      + static_cast<std::size_t>(value >> bucket);
  }

  static constexpr std::uint64_t lowest_of(std::size_t index) noexcept
  {
    const std::size_t bucket = index < 2 * half ? 0 : (index >> half_bits) - 1;
    return (index - (bucket << half_bits)) << bucket;
  }

  static constexpr std::uint64_t highest_of(std::size_t index) noexcept
  {
    return lowest_of(index + 1) - 1;
  }

  static constexpr double middle_of(std::size_t index) noexcept
  {
    return (static_cast<double>(lowest_of(index)) + static_cast<double>(highest_of(index))) / 2;
  }

  template <class... Arguments>
  static std::string line(const char* format, Arguments... arguments)
  {
    char text[160];
    std::snprintf(text, sizeof(text), format, arguments...);
    return text;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_HISTOGRAM_HPP
