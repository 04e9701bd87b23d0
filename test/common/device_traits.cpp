//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/device_traits.hpp"

#include "common/catch.hpp"
#include "resource/device_traits.hpp"

#include <cstdlib>
#include <set>
#include <utility>

namespace test {

namespace {

using rdma::detail::device_family;
using traits = rdma::detail::device_traits;

// The tests identify a device by its name, as they must without opening it.
struct named_family
{
  const char* prefix;
  device_family family;
};
constexpr named_family named_families[] = {
  {"soft", device_family::software},
  {"rxe", device_family::soft_roce},
  {"siw", device_family::iwarp},
};

// Features that lib/resource/device_traits.cpp records as missing, because the library handles
// their lack.
struct library_deviation
{
  feature lacks;
  bool traits::*column;
  const char* reason;
};
constexpr library_deviation library_deviations[] = {
  {feature::endpoint_descriptions, &traits::connection_manager_only,
    "iWARP connects by RDMA-CM only"},
  {feature::private_data_limits, &traits::private_data_of_any_size,
    "MPA has room for all private data (RFC 5044)"},
  {feature::early_disconnect, &traits::connection_manager_blocks,
    "iwcm waits for the answer to a request"},
  {feature::write_with_immediate, &traits::no_immediate_data,
    "iWARP has no immediate data (RFC 5040), and siw does not implement RFC 7306"},
  {feature::window_bounds, &traits::windows_unprotected,
    "rxe checks the bounds of a window's region, not of the window"},
  {feature::unbinds_on_destroy, &traits::windows_delay_close,
    "rxe waits 50 s for the windows of a destroyed queue pair, and then leaks it"},
};

// Other deviations, which only tests observe.
struct deviation
{
  device_family family;
  feature lacks;
  const char* reason;
};
constexpr deviation deviations[] = {
  {device_family::software, feature::pinned_memory,
    "the software device copies data through the program's own address space and pins no pages"},
  {device_family::software, feature::rdma_routes,
    "the software device takes every route of the host, e.g. the one to its gateway"},
  {device_family::soft_roce, feature::atomic_writes, "rxe has atomic writes since Linux 6.2"},
  {device_family::soft_roce, feature::parent_domains, "librxe has no parent domains"},
  {device_family::soft_roce, feature::local_statuses,
    "rxe reports LOC_QP_OP_ERR for a wrong key or size of a local buffer, and REM_OP_ERR to the "
    "peer (rxe_req.c, rxe_requester; rxe_resp.c, send_data_in)"},
  {device_family::soft_roce, feature::completion_details,
    "rxe returns the kernel's ib_wc_flags instead of those of libibverbs (IB_WC_GRH with every "
    "receive, 'with invalidate' as IBV_WC_IP_CSUM_OK), no src_qp for RC and no vendor_err "
    "(rxe_resp.c, do_complete)"},
  {device_family::soft_roce, feature::affiliated_events,
    "rxe raises only the queue pair event IBV_EVENT_SQ_DRAINED (drivers/infiniband/sw/rxe)"},
  {device_family::soft_roce, feature::argument_checks,
    "rxe checks fewer arguments than InfiniBand requires (rxe_qp.c, rxe_qp_chk_attr; librxe's "
    "post_send)"},
  {device_family::soft_roce, feature::exact_depths,
    "rxe rounds queue depths up, and frees a slot at its completion (rxe_queue.c, rxe_comp.c)"},
  {device_family::soft_roce, feature::read_limits,
    "rxe's responder accepts any number of reads, and its requester hangs with a depth of zero "
    "(rxe_resp.c, check_resource; rxe_req.c, check_init_depth)"},
  {device_family::soft_roce, feature::reset_forgets,
    "rxe leaves completions in their queue (rxe_qp.c, rxe_qp_reset)"},
  {device_family::soft_roce, feature::drained_queue_resumes,
    "rxe resumes only at the next post (rxe_qp.c, rxe_qp_from_attr: IB_QPS_RTS)"},
  {device_family::soft_roce, feature::late_receive_flush,
    "rxe detects a posted receive only when a packet arrives (librxe's post_recv stays in user "
    "space)"},
  {device_family::soft_roce, feature::answers_checked_first,
    "rxe checks the local buffer of an atomic only after the peer has executed it (rxe_comp.c, "
    "do_atomic)"},
  {device_family::soft_roce, feature::refusal_ends_receive,
    "rxe reports the requester's status for the receive (rxe_resp.c, rxe_responder: "
    "RESPST_ERR_RKEY_VIOLATION)"},
  {device_family::soft_roce, feature::read_refusals,
    "rxe gives the refusal the number of the read's first packet, which the requester ignores "
    "after "
    "a part of the answer (rxe_resp.c, acknowledge; rxe_comp.c, check_psn)"},
  {device_family::soft_roce, feature::shared_queue_domains,
    "rxe checks shared receives with the queue pair's domain (rxe_resp.c, send_data_in)"},
  {device_family::soft_roce, feature::unbound_invalidation,
    "rxe dereferences the null pointer of an unbound window, which crashes the kernel (rxe_mw.c, "
    "rxe_do_invalidate_mw)"},
  {device_family::iwarp, feature::atomics, "iWARP has no atomics (RFC 5040)"},
  {device_family::iwarp, feature::atomic_writes, "siw has no atomic writes (RFC 7306)"},
  {device_family::iwarp, feature::parent_domains, "libsiw has no parent domains"},
  {device_family::iwarp, feature::memory_windows,
    "drivers/infiniband/sw/siw implements no memory windows"},
  {device_family::iwarp, feature::exact_statuses,
    "iWARP ends the connection in cases where InfiniBand sends a NAK"},
  {device_family::iwarp, feature::distinct_refusals,
    "without private data, iWARP reports the same error for both"},
};

device_family family()
{
  for (const named_family& each : named_families)
    if (device_name().rfind(each.prefix, 0) == 0)
      return each.family;
  return device_family::other;
}

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
  if (wanted == feature::software_device && family() != device_family::software)
    return "tests the wire, the engine or the settings of this library's software device";
  for (const library_deviation& each : library_deviations)
    if (each.lacks == wanted && rdma::detail::traits_of(family()).*each.column)
      return each.reason;
  for (const deviation& each : deviations)
    if (each.lacks == wanted && each.family == family())
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
