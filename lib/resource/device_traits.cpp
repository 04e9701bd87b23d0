//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "resource/device_traits.hpp"

// The table of device deviations. Paths are relative to drivers/infiniband/sw of Linux 6.1.

namespace rdma::detail {
namespace {

constexpr std::uint32_t soft_roce_vendor = 0xffffff; // rxe/rxe_param.h, RXE_VENDOR_ID

constexpr device_traits conforming;

constexpr device_traits soft_roce{
  // 7 means "for ever" (rxe/rxe_comp.c, COMPST_ERROR_RETRY) instead of seven times
  // (IBA 9.9.2.1.1): requests to a lost peer would never end.
  .retry_count_max = 6,
  // The bounds are those of the window's region (rxe/rxe_resp.c, check_rkey).
  .windows_unprotected = true,
  // For 50 s, then the queue pair leaks (rxe/rxe_mw.c; rxe/rxe_pool.c, __rxe_cleanup).
  .windows_delay_close = true,
};

constexpr device_traits iwarp{
  .only_wire = wire::iwarp,
  // The only GID begins with the hardware address (siw/siw_verbs.c, siw_query_gid).
  .gids_without_addresses = true,
  // iWARP has no address handles: the connection manager hands a TCP connection to the device
  // (../core/iwcm.c; RFC 5044 7.1).
  .connection_manager_only = true,
  .connection_manager_moves = true, // siw/siw_cm.c, siw_accept and siw_proc_mpareply
  // iw_destroy_cm_id() waits for the callback of a connecting id (../core/iwcm.c,
  // IWCM_F_CONNECT_WAIT).
  .connection_manager_blocks = true,
  .private_data_of_any_size = true, // MPA carries 512 bytes (RFC 5044 7.1.1)
  // The end of the TCP connection flushes (siw/siw_qp.c, siw_qp_llp_close). The event passes a work
  // queue (../core/iwcm.c, cm_event_handler).
  .flushes_before_disconnect = true,
  .no_immediate_data = true, // RFC 5040; siw and others do not implement RFC 7306
  // TCP refers to the memory of an unsignalled request of a page or more (siw/siw_qp_tx.c,
  // siw_qp_prepare_tx), also when a later request has completed.
  .signals_each = true,
};

constexpr device_traits software{
  .only_wire = wire::tcp,
  .routes_any_gid = true,       // verbs/software: the GID is the address of a TCP connection
  .copies_shared_memory = true, // verbs/software: direct_access
  .polls_in_kernel = true,      // verbs/software: polling the TCP wire reads its socket
};

} // namespace

const device_traits& traits_of(device_family family) noexcept
{
  switch (family)
  {
  case device_family::other:
    break;
  case device_family::soft_roce:
    return soft_roce;
  case device_family::iwarp:
    return iwarp;
  case device_family::software:
    return software;
  }
  return conforming;
}

device_family family_of(
  device_kind kind, ibv_transport_type transport, std::uint32_t vendor_id) noexcept
{
  return kind == device_kind::software ? device_family::software
    : transport == IBV_TRANSPORT_IWARP ? device_family::iwarp
    : vendor_id == soft_roce_vendor    ? device_family::soft_roce
                                       : device_family::other;
}

const device_traits& connection_manager_traits(const ibv_device& device) noexcept
{
  return traits_of(family_of(device_kind::nic, device.transport_type, 0));
}

} // namespace rdma::detail
