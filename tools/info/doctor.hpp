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

/// The severity of a finding, the worst last.
enum class level
{
  ok,
  note,    ///< worth knowing; affects some programs
  unknown, ///< could not be determined
  slows,   ///< works, but slower than possible
  stops,   ///< something does not work
};

const char* name_of(level value) noexcept;

struct finding
{
  level how = level::ok;
  std::string seen;   ///< the observation, with the actual value
  std::string why;    ///< the consequence; may be empty for ok
  std::string remedy; ///< a command if there is one; empty if there is nothing to do
};

using findings = std::vector<finding>;

/// One check. It returns no findings if it does not apply to this machine.
struct check
{
  const char* name;
  findings (*run)(const machine&);
};

std::span<const check> all_checks();

/// A finding with the name of its check.
struct diagnosed
{
  const char* check = "";
  finding what;
};

/// Returns all findings, the worst first, then in the order of the checks.
std::vector<diagnosed> examine(const machine& on);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_DOCTOR_HPP
