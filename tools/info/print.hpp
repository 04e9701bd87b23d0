//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_PRINT_HPP
#define BOOST_RDMA_TOOLS_INFO_PRINT_HPP

#include "info/choice.hpp"
#include "info/doctor.hpp"
#include "info/machine.hpp"
#include "info/self_test.hpp"

#include <optional>
#include <ostream>
#include <vector>

namespace info {

/// The parts of the output that were requested.
struct report
{
  const machine* looked_at = nullptr; ///< libraries and devices; null if not requested
  std::optional<std::vector<diagnosed>> doctor;
  bool briefly = false; ///< only findings that stop or slow, and the number of the others
  std::vector<choice_report> choices;
  std::vector<test_report> tests;
};

void print_text(std::ostream& to, const report& what);
void print_json(std::ostream& to, const report& what);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_PRINT_HPP
