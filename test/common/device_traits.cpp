//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"

#include "common/catch.hpp"

#include <cstdlib>
#include <set>
#include <utility>

namespace test {

namespace {

struct deviation
{
  const char* device; // prefix of the names of these devices
  feature lacks;
  const char* reason;
};

// Every known deviation of a device. A device without an entry has all features.
constexpr deviation deviations[] = {
  {"soft", feature::pinned_memory,
    "the software device copies data through the program's own address space and pins no pages"},
  {"soft", feature::connection_manager,
    "the software device has no connection manager (librdmacm)"},
  {"rxe", feature::local_statuses,
    "rxe reports LOC_QP_OP_ERR for a wrong key or size of a local buffer, and REM_OP_ERR to the "
    "peer (rxe_req.c, rxe_requester; rxe_resp.c, send_data_in)"},
  {"rxe", feature::completion_details,
    "rxe returns the kernel's ib_wc_flags instead of those of libibverbs (IB_WC_GRH with every "
    "receive, 'with invalidate' as IBV_WC_IP_CSUM_OK), no src_qp for RC and no vendor_err "
    "(rxe_resp.c, do_complete)"},
  {"rxe", feature::affiliated_events,
    "rxe raises only the queue pair event IBV_EVENT_SQ_DRAINED (drivers/infiniband/sw/rxe)"},
  {"rxe", feature::argument_checks,
    "rxe checks fewer arguments than InfiniBand requires (rxe_qp.c, rxe_qp_chk_attr; librxe's "
    "post_send)"},
  {"rxe", feature::exact_depths,
    "rxe rounds queue depths up, and frees a slot at its completion (rxe_queue.c, rxe_comp.c)"},
  {"rxe", feature::read_limits,
    "rxe's responder accepts any number of reads, and its requester hangs with a depth of zero "
    "(rxe_resp.c, check_resource; rxe_req.c, check_init_depth)"},
  {"rxe", feature::reset_forgets, "rxe leaves completions in their queue (rxe_qp.c, rxe_qp_reset)"},
  {"rxe", feature::drained_queue_resumes,
    "rxe resumes only at the next post (rxe_qp.c, rxe_qp_from_attr: IB_QPS_RTS)"},
  {"rxe", feature::late_receive_flush,
    "rxe detects a posted receive only when a packet arrives (librxe's post_recv stays in user "
    "space)"},
  {"rxe", feature::answers_checked_first,
    "rxe checks the local buffer of an atomic only after the peer has executed it (rxe_comp.c, "
    "do_atomic)"},
  {"rxe", feature::refusal_keeps_receive,
    "rxe consumes the receive of a write with immediate data before it checks the key "
    "(rxe_resp.c, check_resource)"},
  {"rxe", feature::window_bounds,
    "rxe checks the bounds of a window's region, not of the window (rxe_resp.c, check_rkey)"},
  {"rxe", feature::unbound_invalidation,
    "rxe dereferences the null pointer of an unbound window, which crashes the kernel (rxe_mw.c, "
    "rxe_do_invalidate_mw)"},
  {"rxe", feature::unbinds_on_destroy,
    "rxe waits 50 s for the windows of a destroyed queue pair, and then leaks it (rxe_mw.c, "
    "rxe_pool.c __rxe_cleanup)"},
  {"siw", feature::atomics, "iWARP has no atomics (RFC 5040)"},
  {"siw", feature::memory_windows, "drivers/infiniband/sw/siw implements no memory windows"},
  {"siw", feature::write_with_immediate,
    "siw has no write with immediate data (it does not implement RFC 7306)"},
  {"siw", feature::exact_statuses,
    "iWARP ends the connection in cases where InfiniBand sends a NAK"},
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

bool emulated()
{
  static const bool answer = std::getenv("BOOST_RDMA_TEST_EMULATED") != nullptr;
  return answer;
}

bool exhaustive()
{
  return std::getenv("BOOST_RDMA_TEST_EXHAUSTIVE") != nullptr;
}

std::string missing(feature wanted)
{
  if (wanted == feature::software_device && device_name().rfind("soft", 0) != 0)
    return "tests the wire, the engine or the settings of this library's software device";
  for (const deviation& each : deviations)
    if (each.lacks == wanted && device_name().rfind(each.device, 0) == 0)
      return each.reason;
  return {};
}

bool has(feature wanted)
{
  static std::set<std::pair<std::string, feature>> told; // each feature once per test case
  const std::string why = missing(wanted);
  if (!why.empty() && told.emplace(Catch::getResultCapture().getCurrentTestName(), wanted).second)
    WARN("left out on " << device_name() << ": " << why);
  return why.empty();
}

void need(feature wanted)
{
  if (const std::string why = missing(wanted); !why.empty())
  {
    WARN("skipped on " << device_name() << ": " << why);
    // Ends the test case, which fails only if an assertion failed before.
    throw Catch::TestFailureException();
  }
}

} // namespace test
