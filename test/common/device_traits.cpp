//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"

#include <cstdlib>

namespace test {

namespace {

struct deviation
{
  const char* device; // names that begin so
  feature lacks;
  const char* reason;
};

// Every known difference between devices. A device that is not here has it all.
constexpr deviation deviations[] = {
  {"rxe", feature::exact_flush,
   "drivers/infiniband/sw/rxe flushes late, or not at all, on disconnect"},
  {"soft", feature::connection_manager, "the software device has no connection manager (librdmacm)"},
  {"siw", feature::atomics, "iWARP has no atomics (RFC 5040)"},
  {"siw", feature::memory_windows, "drivers/infiniband/sw/siw implements no memory windows"},
  {"siw", feature::write_with_immediate,
   "iWARP has no write with immediate (RFC 7306 is not there)"},
  {"siw", feature::exact_statuses, "iWARP ends the connection where InfiniBand answers with a NAK"},
  {"siw", feature::endpoint_descriptions, "iWARP connects by RDMA-CM only"},
};

} // namespace

const std::string& device_name()
{
  static const std::string name = []
  {
    const char* wanted = std::getenv("BOOST_RDMA_TEST_DEVICE");
    return std::string(wanted != nullptr && *wanted != '\0' ? wanted : "soft0");
  }();
  return name;
}

std::string missing(feature wanted)
{
  for (const deviation& each : deviations)
    if (each.lacks == wanted && device_name().rfind(each.device, 0) == 0)
      return each.reason;
  return {};
}

} // namespace test
