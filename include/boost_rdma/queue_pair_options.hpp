//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_QUEUE_PAIR_OPTIONS_HPP
#define BOOST_RDMA_QUEUE_PAIR_OPTIONS_HPP

#include <boost_rdma/completion_queue.hpp>

#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rdma {

namespace detail {
class agent_attachment_source;
class shared_receive_core;
} // namespace detail

/// Options for creating and connecting a queue pair (ibv_qp_init_attr, ibv_qp_attr).
/**
 * Depths limit the number of operations in the device's queues. Further operations wait inside the
 * queue pair object, in order. The constructor of the queue pair reports values beyond the device's
 * limits with error::queue_too_deep. If a timeout, retry count or RNR timer is out of range,
 * local_endpoint() and connecting fail with boost::asio::error::invalid_argument, except by
 * RDMA-CM; diagnose() names the option.
 */
struct queue_pair_options
{
  /// Number of work requests in the send queue, at most 65535; 0 means 1.
  std::uint32_t send_depth = 128;
  /// Number of work requests in the receive queue; 0 means 1.
  std::uint32_t receive_depth = 128;
  /// Maximum number of buffers in a sequence that is sent, written or read; at most 32.
  std::uint32_t max_send_sge = 4;
  /// Maximum number of buffers in a sequence that is received into; at most 32.
  std::uint32_t max_receive_sge = 4;

  /// Maximum size in bytes of a send or write whose data is in the work request (IBV_SEND_INLINE).
  /** Lowered to the device's limit. */
  std::uint32_t max_inline_data = 220;

  /// Default of copy_max, measured with bench/rdma_copy_threshold (doc/user_memory.md).
  static constexpr std::size_t copy_max_default = 16384;
  /// Maximum size in bytes of a buffer in plain memory (boost::asio buffers, std::span) that is
  /// copied. Larger buffers are registered.
  /**
   * Data to send is copied by the initiating call. Received data is copied immediately before the
   * handler is called. The copy is in memory of the context's pool that the operation holds.
   * Registrations of larger buffers are cached and reused within the limits of the context's
   * registration_cache_options. Data inside the work request (max_inline_data) is excluded from
   * both. With 0 nothing is copied.
   */
  std::size_t copy_max = copy_max_default;

  /// Maximum number of RDMA reads and atomics in flight in each direction (max_rd_atomic and
  /// max_dest_rd_atomic of ibv_modify_qp(3)).
  /** The smaller value of both sides is used. Lowered to the device's limit. */
  std::uint8_t read_atomic_depth = 16;

  /// Size of the largest packet in bytes: 256, 512, 1024, 2048 or 4096 (ibv_mtu). Other values are
  /// rounded down.
  /** The smallest of this value, both ports' MTU and the peer's value is used. */
  std::uint32_t path_mtu_max = 4096;

  /// Time to wait for an acknowledgement: 4.096 us * 2^timeout, 0 to 31 (IBA 12.7.34); 0 means
  /// without limit. The longer time of both sides is used.
  std::uint8_t timeout = 14;

  /// Number of retries of an unanswered request, 0 to 7 (IBA 12.7.38). After them the request fails
  /// with wc_status::retry_exceeded.
  std::uint8_t retry_count = 7;

  /// Number of retries of a request for which the peer had no posted receive, 0 to 7; 7 means
  /// without limit (IBA 12.7.39).
  /**
   * The first messages of a connection often need retries. An acceptor's queue pair has no receives
   * before its program receives it. Receives of a queue pair that may fall back are posted only
   * when it has learned that both sides are connected.
   */
  std::uint8_t rnr_retry_count = 7;

  /// Time that the peer waits before it repeats a request that found no posted receive, as an IBA
  /// 9.7.5.2.8 code, 0 to 31; 12 is 0.64 ms.
  std::uint8_t min_rnr_timer = 12;

  /// Time that async_connect waits for the peer before it fails with error::handshake_timeout.
  std::chrono::milliseconds connect_timeout{10'000};

  /// Time that each side waits after the handshake for the first RDMA message, before both fall
  /// back.
  std::chrono::milliseconds confirm_timeout{2'000};

  /// Interval between heartbeats to the peer, for queue pairs connected by an acceptor and
  /// async_connect.
  /** The peer's heartbeat_limit may shorten it. At least 10 ms. */
  std::chrono::milliseconds heartbeat_interval{1'000};

  /// Time without messages on the control channel after which the peer is considered lost
  /// (error::peer_lost).
  /**
   * Both processes must run, but their handlers need not: a thread of the library sends the
   * heartbeats. Streams that async_upgrade() took over are an exception; they are read on their own
   * executor. 0 disables the limit. Other values are at least 100 ms and at most an hour. RDMA-CM
   * has no heartbeats.
   */
  std::chrono::milliseconds heartbeat_limit{5'000};

  /// Name of one of the context's devices; empty means the default one.
  std::string device;

  /// If true, the software device may replace a NIC that does not lead to the peer.
  /**
   * If false, such a connect fails with error::no_common_transport or error::path_not_confirmed.
   * Only queue pairs that are connected by async_connect and acceptors fall back, and only if they
   * name no `device` and use no shared receive queue. transport() reports the choice and the
   * reason. Until a queue pair that may fall back is connected, its receives wait inside the
   * object, and native_handle() and number() may change.
   *
   * The option applies to NICs that do not lead to the peer. If this side has no NIC, its default
   * device is the software device, and connecting succeeds. A program that requires a NIC checks
   * transport().kind or names the `device`.
   */
  bool fall_back = true;

  /// Address whose GID the peer uses to reach this side, one of device::addresses().
  /**
   * Without it, the local address of the TCP connection (of async_connect or the acceptor) or the
   * argument of local_endpoint() is used. Set it if the TCP connection and RDMA use different
   * networks.
   */
  std::optional<boost::asio::ip::address> local_address;

  /// Completion queue. Without it the queue of the io_context and device is used.
  std::optional<completion_queue> completions;

  /// Set by receive_from().
  std::shared_ptr<detail::shared_receive_core> receives;

  /// Sets a shared receive queue as the source of receives. The queue pair then uses its completion
  /// queue.
  /**
   * `device` and `completions` are ignored then. The queue must be in the queue pair's protection
   * domain; otherwise the constructor of the queue pair throws error::wrong_context. Throws
   * system_error(error::closed) if `queue` was moved from.
   */
  template <class SharedReceiveQueue>
  queue_pair_options& receive_from(const SharedReceiveQueue& queue)
  {
    if (queue.core() == nullptr)
      throw system_error(error::closed, "queue_pair_options::receive_from");
    receives = queue.core();
    return *this;
  }

  /// Set by grant_from().
  std::shared_ptr<detail::agent_attachment_source> lessor;

  /// Allows the peer to lease memory from this lessor (<boost_rdma/lessor.hpp>), within its quotas.
  /** The lessor must be in the queue pair's protection domain. Otherwise the peer's requests fail
   * with error::no_lessor. */
  template <class Lessor>
  queue_pair_options& grant_from(const Lessor& from)
  {
    lessor = from.source();
    return *this;
  }
};

} // namespace rdma

#endif // BOOST_RDMA_QUEUE_PAIR_OPTIONS_HPP
