//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_DOCTOR_HPP
#define BOOST_RDMA_TOOLS_INFO_DOCTOR_HPP

#include "info/machine.hpp"

#include <span>
#include <string>
#include <vector>

namespace info {

/// What a finding means for RDMA, the worst last.
enum class level
{
  ok,
  note,    ///< worth knowing; some programs may mind
  unknown, ///< it could not be found out
  slows,   ///< works, and slower than it could
  stops,   ///< something does not work
};

const char* name_of(level value) noexcept;

struct finding
{
  level how = level::ok;
  std::string seen;   ///< with the actual value
  std::string why;    ///< why it matters; may be empty where all is well
  std::string remedy; ///< a command where there is one; empty where nothing is to be done
};

using findings = std::vector<finding>;

/// One thing to look at. What does not concern this machine gives no findings.
struct check
{
  const char* name;
  findings (*run)(const machine&);
};

std::span<const check> all_checks();

/// A finding, and which check it is of.
struct diagnosed
{
  const char* check = "";
  finding what;
};

/// All findings, the worst first, otherwise in the order of the checks.
std::vector<diagnosed> examine(const machine& on);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_DOCTOR_HPP
