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

/// Name of the software device (ibv_get_device_name(3)).
inline constexpr char device_name[] = "soft0";

/// Settings of the software device. They are fixed when it is opened.
/**
 * ibv_query_device reports the limits, and the device enforces them. The defaults suit tests and
 * production. Lower them to test a program on a smaller device.
 */
struct device_settings
{
  /// Addresses that become the device's GIDs, in order, as text ("127.0.0.1", "fd00::2"). If empty,
  /// all active addresses of the host are used, loopback first, without IPv6 link-local addresses.
  std::vector<std::string> addresses;

  /// Wires that queue pairs may use: "local" (shared memory, between processes of one host and
  /// user) and "tcp". If empty, the environment variable BOOST_RDMA_WIRES lists them, separated by
  /// commas; without it both are permitted.
  /** The device prefers "local". Other names fail with EINVAL. */
  std::vector<std::string> wires;

  /// Maximum number of work requests in a send or receive queue (max_qp_wr, max_srq_wr).
  std::uint32_t max_work_requests = 16384;

  /// Maximum number of scatter/gather elements in a work request (max_sge, max_srq_sge).
  std::uint32_t max_sge = 32;

  /// Maximum number of entries of a completion queue (max_cqe).
  std::uint32_t max_completions = 4u << 20;

  /// Maximum number of queue pairs in a context (max_qp). One more fails with ENOMEM, as for the
  /// other kinds of objects below.
  std::uint32_t max_queue_pairs = 1u << 20;

  /// Maximum number of completion queues in a context (max_cq).
  std::uint32_t max_completion_queues = 1u << 20;

  /// Maximum number of shared receive queues in a context (max_srq).
  std::uint32_t max_shared_receive_queues = 1u << 20;

  /// Maximum number of protection domains in a context (max_pd).
  std::uint32_t max_protection_domains = 1u << 20;

  /// Maximum number of memory regions in a context (max_mr), not more than 131,072.
  std::uint32_t max_memory_regions = 1u << 17;

  /// Maximum number of memory windows in a context (max_mw), not more than 131,072.
  std::uint32_t max_memory_windows = 1u << 17;

  /// Maximum number of address handles in a context (max_ah).
  std::uint32_t max_address_handles = 1u << 20;

  /// Maximum number of inline bytes in a work request (ibv_qp_cap::max_inline_data).
  std::uint32_t max_inline_data = 512;

  /// Maximum number of RDMA reads and atomics in flight per queue pair and direction
  /// (max_qp_rd_atom).
  std::uint32_t max_read_atomic = 64;

  /// Minimum time that the device retries before IBV_WC_RETRY_EXC_ERR.
  /**
   * The InfiniBand timer (4.096 us * 2^timeout, retry_cnt + 1 times, and up to four times that: IBA
   * 9.7.6.1.3) assumes hardware that always answers. A peer in software shares its processor with
   * other processes; the device waits for it at least this long. The loss of a connection that is
   * known to be gone is reported after 100 ms, or after the InfiniBand timer if that is shorter.
   */
  std::chrono::milliseconds retry_time_min{3000};

  /// Time for which the engine thread leaves arrived work to a program that has polled recently.
  std::chrono::microseconds engine_delay{200};

  /// Seed of hostile mode; 0: off. If 0, the environment variable BOOST_RDMA_HOSTILE_MEMORY may
  /// contain a seed; another value than a number fails with EINVAL.
  /**
   * For tests of programs: the device then behaves as a NIC may, but usually does not.
   *
   * - Writes and reads access their target memory as aligned 8-byte words in random order, with
   *   delays. An overlapping access may see any mix of old and new words, and a write's last bytes
   *   may arrive first. A word that a write covers only in part is written as bytes.
   * - Atomics are atomic only among requests to this process (IBV_ATOMIC_HCA). They may undo a
   *   processor's access to the same word.
   * - Completions may be late. All accesses of a request still precede its completion, and later
   *   requests of the same queue pair.
   *
   * Each queue pair's random decisions depend on the seed and its number only.
   */
  std::uint64_t hostile_seed = 0;
};

} // namespace rdma::software

#endif // BOOST_RDMA_SOFTWARE_DEVICE_HPP
