//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_COMMAND_LINE_HPP
#define BOOST_RDMA_TOOLS_PERF_COMMAND_LINE_HPP

#include "perf/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace perf {

struct command_line
{
  settings measured;
  std::string json_file;
  std::string svg_file;
  std::string histogram_directory;

  // The side and the count that --instructions runs under callgrind.
  std::string probe;
  std::uint64_t probe_count = 0;

  /// Parses the arguments. Returns a status if the program must exit with it.
  std::optional<int> parse(int argc, char** argv);
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_COMMAND_LINE_HPP
