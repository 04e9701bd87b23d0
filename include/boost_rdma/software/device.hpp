//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_SOFTWARE_DEVICE_HPP
#define BOOST_RDMA_SOFTWARE_DEVICE_HPP

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace rdma::software {

/// The name under which the software device is listed (ibv_get_device_name).
inline constexpr char device_name[] = "soft0";

/// Settings of the software device, fixed when it is opened.
/**
 * The limits are what ibv_query_device reports and enforces. The defaults suit tests and production
 * alike; lower them to see how a program behaves on a smaller device.
 */
struct device_settings
{
  /// Addresses that become the device's GIDs, in order, as text ("127.0.0.1", "fd00::2").
  /// Empty: every address of the host that is up, loopback first, without IPv6 link-local ones.
  std::vector<std::string> addresses;

  /// The wires that queue pairs may use: "local" (shared memory, between processes of one host and
  /// user) and "tcp". Empty: what the environment variable BOOST_RDMA_WIRES lists, separated by
  /// commas, or both.
  /** The device uses "local" wherever it can. EINVAL for a name that is none of these. */
  std::vector<std::string> wires;

  /// Work requests a send or receive queue may hold (max_qp_wr, max_srq_wr).
  std::uint32_t max_work_requests = 16384;

  /// Scatter/gather elements of a work request (max_sge, max_srq_sge).
  std::uint32_t max_sge = 32;

  /// Entries of a completion queue (max_cqe).
  std::uint32_t max_completions = 4u << 20;

  /// Bytes that a work request may carry inside itself (ibv_qp_cap::max_inline_data).
  std::uint32_t max_inline_data = 512;

  /// RDMA reads and atomics in flight per queue pair, each way (max_qp_rd_atom).
  std::uint32_t max_read_atomic = 64;

  /// Shortest time that the device keeps trying before IBV_WC_RETRY_EXC_ERR.
  /**
   * The InfiniBand timer (4.096 us * 2^timeout, retry_cnt + 1 times, and up to four times that:
   * IBA 9.7.6.1.3) is meant for silicon that always answers. A peer in software shares its
   * processor with others; the device waits at least this long for it. A connection that is known
   * to be gone is reported after 100 ms, or after the InfiniBand timer where that is shorter.
   */
  std::chrono::milliseconds retry_time_min{3000};

  /// How long the engine thread leaves arrived work to a program that has been polling of late.
  std::chrono::microseconds engine_patience{200};
};

} // namespace rdma::software

#endif // BOOST_RDMA_SOFTWARE_DEVICE_HPP
