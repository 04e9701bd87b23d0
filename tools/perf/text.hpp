//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_TEXT_HPP
#define BOOST_RDMA_TOOLS_PERF_TEXT_HPP

#include <cstdio>
#include <string>

namespace perf {

inline std::string fixed(double value, int digits)
{
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

/// Formats with about three significant digits.
inline std::string significant(double value)
{
  return fixed(value, value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0);
}

inline std::string microseconds_text(double value)
{
  return significant(value);
}

inline std::string bandwidth_text(double bytes_a_second)
{
  return significant(bytes_a_second / 1e9) + " GB/s";
}

inline std::string padded(std::string text, std::size_t width)
{
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

inline std::string right(const std::string& text, std::size_t width)
{
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_TEXT_HPP
