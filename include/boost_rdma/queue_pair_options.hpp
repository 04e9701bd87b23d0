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
 * The depths are the sizes of the device's queues. Further operations wait inside the queue pair
 * object, in order. The constructor of the queue pair throws error::queue_too_deep if the device
 * supports a smaller depth or fewer buffers in a sequence.
 *
 * If a timeout, retry count or RNR timer is out of range, local_endpoint() and connecting fail with
 * boost::asio::error::invalid_argument, and diagnose() names the option. These values are not
 * checked when connecting by RDMA-CM.
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

  /// Maximum size in bytes of a send or write whose data is inline: part of the work request, so
  /// that the device does not access the buffer (IBV_SEND_INLINE).
  /** If the device's limit is lower, that limit applies. */
  std::uint32_t max_inline_data = 220;

  /// Default of copy_max, measured with bench/rdma_copy_threshold (doc/user_memory.md).
  static constexpr std::size_t copy_max_default = 16384;
  /// Maximum size in bytes of a buffer in plain memory (boost::asio buffers, std::span) that is
  /// copied. Larger buffers are registered.
  /**
   * Data to send is copied by the initiating call. Received data is copied immediately before the
   * handler is called. The copy is in memory of the context's pool that the operation holds.
   * Registrations of larger buffers are cached and reused within the limits of the context's
   * registration_cache_options. Inline data (max_inline_data) needs neither this copy nor a
   * registration. With copy_max = 0, all other buffers in plain memory are registered.
   */
  std::size_t copy_max = copy_max_default;

  /// Maximum number of RDMA reads and atomics in flight in each direction (max_rd_atomic and
  /// max_dest_rd_atomic of ibv_modify_qp(3)).
  /** The smallest of both sides' values and both devices' limits is used. The limit of many NICs
   * is 16. */
  std::uint8_t read_atomic_depth = 64;

  /// Size of the largest packet in bytes: 256, 512, 1024, 2048 or 4096 (ibv_mtu). Other values are
  /// rounded down.
  /** The smallest of this value, both ports' MTU and the peer's value is used. */
  std::uint32_t path_mtu_max = 4096;

  /// Time to wait for an acknowledgement, as an exponent from 0 to 31: 4.096 us * 2^timeout (IBA
  /// 12.7.34). 14 is 67 ms, and 0 means without limit. The longer time of both sides is used.
  std::uint8_t timeout = 14;

  /// Number of retries of a request that the peer's device does not answer, 0 to 7 (IBA 12.7.38).
  /// After them the request fails with wc_status::retry_exceeded.
  std::uint8_t retry_count = 7;

  /// Number of retries of a request for which the peer had no posted receive, 0 to 7; 7 means
  /// without limit (IBA 12.7.39).
  /**
   * The first messages of a connection often need retries. The program of an acceptor can start
   * receives only when async_accept has returned the queue pair. If a queue pair may fall back (see
   * fall_back), its receives are posted to the device only when it is connected.
   */
  std::uint8_t rnr_retry_count = 7;

  /// Time after which the peer repeats a request that found no posted receive on this side: a code
  /// from 0 to 31 (table in IBA 9.7.5.2.8). 12 is 0.64 ms.
  std::uint8_t min_rnr_timer = 12;

  /// Time that async_connect waits for the peer before it fails with error::handshake_timeout.
  std::chrono::milliseconds connect_timeout{10'000};

  /// Time that this side waits for the acknowledgement of its first RDMA message, by which it
  /// verifies the chosen transport.
  /** If the acknowledgement does not arrive in time, both sides fall back (see fall_back), or
   * connecting fails with error::path_not_confirmed. */
  std::chrono::milliseconds confirm_timeout{2'000};

  /// Interval between heartbeats to the peer, for queue pairs connected by an acceptor and
  /// async_connect.
  /** If a third of the peer's heartbeat_limit is shorter, that is the interval. The interval is at
   * least 10 ms. Nothing is sent to a peer whose limit is disabled. */
  std::chrono::milliseconds heartbeat_interval{1'000};

  /// Time without messages on the control channel after which the peer is considered lost
  /// (error::peer_lost).
  /**
   * A thread of the library sends the heartbeats. A peer whose program runs a long handler is
   * therefore not considered lost. A connection made by async_upgrade() is an exception: its stream
   * is read on the stream's executor, which must keep running. 0 disables the limit. Other values
   * are at least 100 ms and at most an hour. RDMA-CM has no heartbeats.
   */
  std::chrono::milliseconds heartbeat_limit{5'000};

  /// Name of one of the context's devices. If empty, context::default_device() is used.
  std::string device;

  /// If true, the queue pair falls back: it moves to the software device if the NIC cannot reach
  /// the peer.
  /**
   * If false, connecting then fails with error::no_common_transport or error::path_not_confirmed.
   * Only queue pairs that are connected by async_connect and acceptors fall back, and only if they
   * name no `device` and use no shared receive queue. transport() reports the choice and the
   * reason. Until a queue pair that may fall back is connected, its receives wait inside the
   * object, and native_handle() and number() may change.
   *
   * The option has no effect if this side has no NIC: the default device is then the software
   * device. A program that requires a NIC checks transport().kind or names the `device`.
   */
  bool fall_back = true;

  /// If true, the queue pair is only used by a basic_stream. Has an effect on iWARP only, for queue
  /// pairs that cm::basic_acceptor accepts.
  /**
   * On iWARP the connecting side sends first, and a message without a receive ends the connection.
   * The constructor of the queue pair therefore posts a receive for the first message of the peer's
   * stream. Do not call async_receive().
   */
  bool for_stream = false;

  /// Address by which the peer reaches this side by RDMA, one of device::addresses(). It selects
  /// the GID, the RDMA address of a port of the device.
  /**
   * Without it, the local address of the TCP connection (of async_connect or the acceptor) or the
   * argument of local_endpoint() is used. Set it if the TCP connection and RDMA use different
   * networks.
   */
  std::optional<boost::asio::ip::address> local_address;

  /// Completion queue. Without it, all queue pairs with the same io_context and device share one.
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
