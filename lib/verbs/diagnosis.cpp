//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/diagnosis.hpp"

namespace rdma {

std::string diagnosis::text() const
{
  if (!code)
    return "no failure";
  std::string result = operation + " failed on " + device + " port " + std::to_string(port)
    + ", queue pair " + std::to_string(queue_pair_number) + ": " + code.message();
  if (vendor_error != 0)
    result += " (vendor error " + std::to_string(vendor_error) + ")";
  if (!reason.empty())
    result += ": " + reason;
  if (const std::string cause = likely_cause(code); !cause.empty())
    result += ". " + cause;
  return result;
}

} // namespace rdma
