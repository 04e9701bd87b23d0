//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "fuzzing/common/require.hpp"
#include "unit/rpc_hostile_simulation.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

// Fuzzes a client and a server of RPC. The first byte selects which of the two it is; the others
// decide which messages its peer sends, and about the streams, the programs and the order of steps.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size == 0)
    return 0;
  try
  {
    test::hostile_simulation(test::dice(std::span(data, size).subspan(1)), data[0] % 2 == 0).run();
  }
  catch (const std::logic_error& e)
  {
    test::require(false, e.what());
  }
  return 0;
}
