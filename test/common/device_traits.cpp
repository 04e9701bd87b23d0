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
  const char* device; // names that begin so
  feature lacks;
  const char* reason;
};

// Every known difference between devices. A device that is not here has it all.
constexpr deviation deviations[] = {
  {"soft", feature::pinned_memory,
    "the software device moves bytes as the program itself does, and pins no pages"},
  {"soft", feature::connection_manager,
    "the software device has no connection manager (librdmacm)"},
  {"rxe", feature::local_statuses,
    "rxe says LOC_QP_OP_ERR where a buffer's key or size does not permit it, and REM_OP_ERR to the "
    "peer (rxe_req.c, rxe_requester; rxe_resp.c, send_data_in)"},
  {"rxe", feature::completion_details,
    "rxe gives the kernel's ib_wc_flags for libibverbs' own (IB_WC_GRH with every receive, 'with "
    "invalidate' as IBV_WC_IP_CSUM_OK), no src_qp for RC and no vendor_err (rxe_resp.c, "
    "do_complete)"},
  {"rxe", feature::affiliated_events,
    "rxe raises no events about queue pairs but IBV_EVENT_SQ_DRAINED (drivers/infiniband/sw/rxe)"},
  {"rxe", feature::argument_checks,
    "rxe checks fewer arguments than InfiniBand wants (rxe_qp.c, rxe_qp_chk_attr; librxe's "
    "post_send)"},
  {"rxe", feature::exact_depths,
    "rxe rounds queues up, and gives a slot back when it completes (rxe_queue.c, rxe_comp.c)"},
  {"rxe", feature::read_limits,
    "rxe's responder takes any number of reads, and its requester waits for ever without a depth "
    "(rxe_resp.c, check_resource; rxe_req.c, check_init_depth)"},
  {"rxe", feature::reset_forgets, "rxe leaves completions in their queue (rxe_qp.c, rxe_qp_reset)"},
  {"rxe", feature::drained_queue_resumes,
    "rxe goes on only when something more is posted (rxe_qp.c, rxe_qp_from_attr: IB_QPS_RTS)"},
  {"rxe", feature::late_receive_flush,
    "rxe does not learn of a receive before something arrives (librxe's post_recv stays in user "
    "space)"},
  {"rxe", feature::answers_checked_first,
    "rxe looks at the place for an atomic's answer when the peer has carried it out (rxe_comp.c, "
    "do_atomic)"},
  {"rxe", feature::refusal_keeps_receive,
    "rxe takes the receive of a write with immediate data before it looks at the key (rxe_resp.c, "
    "check_resource)"},
  {"rxe", feature::window_bounds,
    "rxe keeps to the bounds of a window's region rather than its own (rxe_resp.c, check_rkey)"},
  {"rxe", feature::unbound_invalidation,
    "rxe follows the null pointer of a window that is not bound, and the kernel with it (rxe_mw.c, "
    "rxe_do_invalidate_mw)"},
  {"rxe", feature::unbinds_on_destroy,
    "rxe waits 50 s for windows that the queue pair has bound, and leaks it (rxe_mw.c, rxe_pool.c "
    "__rxe_cleanup)"},
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

bool emulated()
{
  static const bool answer = std::getenv("BOOST_RDMA_TEST_EMULATED") != nullptr;
  return answer;
}

std::string missing(feature wanted)
{
  if (wanted == feature::software_device && device_name().rfind("soft", 0) != 0)
    return "it is about the wire, the engine or the settings of this library's software device";
  for (const deviation& each : deviations)
    if (each.lacks == wanted && device_name().rfind(each.device, 0) == 0)
      return each.reason;
  return {};
}

bool has(feature wanted)
{
  static std::set<std::pair<std::string, feature>> told; // by test case, each once
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
    throw Catch::TestFailureException(); // ends a test case, and fails it only after a failed
                                         // assertion
  }
}

} // namespace test
