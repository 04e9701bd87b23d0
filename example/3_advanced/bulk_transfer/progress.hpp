//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROGRESS_HPP
#define BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROGRESS_HPP

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

namespace bulk_transfer {

using seconds = std::chrono::duration<double>;

inline std::string format(const char* pattern, auto... values)
{
  char text[128];
  const int n = std::snprintf(text, sizeof(text), pattern, values...);
  return std::string(text, static_cast<std::size_t>(std::clamp(n, 0, 127)));
}

inline std::string text_of_bytes(std::uint64_t bytes)
{
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000)
    return format("%d B", static_cast<int>(bytes));
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95; ++unit)
    value /= 1000;
  return format("%.1f %s", value, units[unit]);
}

inline std::string text_of_time(seconds time)
{
  return time.count() < 0.1 ? format("%.3f ms", 1000 * time.count())
                            : format("%.3f s", time.count());
}

inline std::string text_of_rate(std::uint64_t bytes, seconds time)
{
  return time.count() > 0 ? format("%.2f GB/s", static_cast<double>(bytes) / time.count() / 1e9)
                          : "- GB/s";
}

/// Shows the progress: a bar on a terminal, otherwise a line from time to time.
class progress
{
public:
  /// `plain_lines`: print lines if standard output is not a terminal.
  progress(std::uint64_t total, bool plain_lines)
    : total_(total)
    , terminal_(::isatty(STDOUT_FILENO) == 1)
    , silent_(!terminal_ && !plain_lines)
  {
  }

  void update(std::uint64_t done)
  {
    const auto now = clock::now();
    const seconds since_last = now - last_;
    const double advance = fraction(done) - last_fraction_;
    const bool due = terminal_
      ? since_last.count() >= 0.1
      : (advance >= 0.1 && since_last.count() >= 1) || since_last.count() >= 10;
    if (silent_ || !due)
      return;
    last_ = now;
    last_fraction_ = fraction(done);
    show(done, now - start_);
  }

  /// Ends the line.
  void finish(std::uint64_t done)
  {
    if (silent_)
      return;
    show(done, clock::now() - start_);
    if (terminal_)
      std::printf("\n");
    std::fflush(stdout);
    silent_ = true;
  }

private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] double fraction(std::uint64_t done) const
  {
    return total_ == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total_);
  }

  void show(std::uint64_t done, seconds elapsed) const
  {
    std::string text = format("%3d %%  ", static_cast<int>(100 * fraction(done)))
      + text_of_bytes(done) + " of " + text_of_bytes(total_) + "  " + text_of_rate(done, elapsed);
    if (done != 0 && done < total_)
    {
      const double left = elapsed.count() * (1 / fraction(done) - 1);
      const auto whole = static_cast<long>(std::ceil(left));
      text += format("  %ld:%02ld left", whole / 60, whole % 60);
    }
    if (!terminal_)
    {
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
      return;
    }
    // The bar uses the space after the text. The last column stays empty, for terminals that wrap.
    const std::size_t width = columns();
    text.resize(std::max<std::size_t>(text.size(), 52), ' ');
    std::string line;
    if (width > text.size() + 14)
    {
      const std::size_t room = std::min<std::size_t>(width - text.size() - 4, 60);
      const auto full = static_cast<std::size_t>(fraction(done) * static_cast<double>(room));
      line = '[' + std::string(full, '#') + std::string(room - full, '.') + "] ";
    }
    line = (line + text).substr(0, width - 1);
    std::printf("\r%s\033[K", line.c_str());
    std::fflush(stdout);
  }

  // COLUMNS takes precedence over the terminal's size.
  static std::size_t columns()
  {
    winsize size{};
    long width = 0;
    if (const char* set = std::getenv("COLUMNS"))
      width = std::strtol(set, nullptr, 10);
    if (width <= 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
      width = size.ws_col;
    return static_cast<std::size_t>(width >= 20 && width < 1000 ? width : 80);
  }

  std::uint64_t total_;
  bool terminal_;
  bool silent_;
  clock::time_point start_ = clock::now();
  clock::time_point last_ = start_;
  double last_fraction_ = 0;
};

} // namespace bulk_transfer

#endif // BOOST_RDMA_EXAMPLE_BULK_TRANSFER_PROGRESS_HPP
