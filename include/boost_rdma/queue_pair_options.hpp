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

/// How a queue pair is made (ibv_qp_init_attr, ibv_qp_attr) and connected.
/**
 * Depths bound what the device holds at once; operations beyond wait their turn inside the queue
 * pair, in order. Values beyond the device's limits give error::queue_too_deep when the queue pair
 * is made. A timeout, retry count or RNR timer that is out of its range ends connecting, other than
 * by RDMA-CM, and local_endpoint(), with boost::asio::error::invalid_argument; diagnose() names it.
 */
struct queue_pair_options
{
  std::uint32_t send_depth = 128; ///< work requests in the send queue, 65535 at most; 0 counts as 1
  std::uint32_t receive_depth = 128; ///< work requests in the receive queue; 0 counts as 1
  std::uint32_t max_send_sge =
    4; ///< pieces of a buffer sequence that is sent, written or read; 32 at most
  std::uint32_t max_receive_sge =
    4; ///< pieces of a buffer sequence that is received into; 32 at most

  /// Sends and writes of up to this many bytes travel inside the work request (IBV_SEND_INLINE).
  /** What the device cannot do is lowered to what it can. */
  std::uint32_t max_inline_data = 220;

  /// Plain memory (boost::asio buffers, std::span) of up to this many bytes a piece is copied,
  /// larger pieces are registered.
  /**
   * What is sent is copied by the initiating call, and what is received just before the handler is
   * called, through memory of the context's pool that the operation holds. Larger buffers are
   * registered, and found again for as long as the context's registration_cache_options permit. Not
   * for what travels inside the work request (max_inline_data). 0: nothing is copied. The default
   * is what tools/rdma_copy_threshold measures (doc/user_memory.md).
   */
  static constexpr std::size_t copy_max_default = 16384;
  /// What is in effect; see copy_max_default.
  std::size_t copy_max = copy_max_default;

  /// RDMA reads and atomics in flight, each way (max_rd_atomic, max_dest_rd_atomic of
  /// ibv_modify_qp(3)).
  /** The smaller of both sides' is used. What the device cannot do is lowered to what it can. */
  std::uint8_t read_atomic_depth = 16;

  /// Bytes of the largest packet: 256, 512, 1024, 2048 or 4096 (ibv_mtu); what lies between is
  /// rounded down.
  /** The smallest of this, both ports' and the peer's is used. */
  std::uint32_t path_mtu_max = 4096;

  /// Time for an answer, as 4.096 us * 2^timeout, 0 to 31 (IBA 12.7.34); 0 waits for ever. The
  /// longer of both sides' is used.
  std::uint8_t timeout = 14;

  /// How often an unanswered request is repeated, 0 to 7 (IBA 12.7.38); wc_status::retry_exceeded
  /// then.
  std::uint8_t retry_count = 7;

  /// How often a request is repeated that met no posted receive, 0 to 7; 7 is for ever
  /// (IBA 12.7.39).
  /**
   * The first messages of a connection are likely to: an acceptor's queue pair has no receives
   * before its program has it, and those of one that may fall back are posted when it has heard
   * that both sides are connected.
   */
  std::uint8_t rnr_retry_count = 7;

  /// How long a peer that met no posted receive is told to wait, as an IBA 9.7.5.2.8 code, 0 to 31:
  /// 12 is 0.64 ms.
  std::uint8_t min_rnr_timer = 12;

  /// How long async_connect waits for the peer before it gives up with error::handshake_timeout.
  std::chrono::milliseconds connect_timeout{10'000};

  /// How long each side waits, after the handshake, for a message by RDMA to get through, before
  /// both fall back.
  std::chrono::milliseconds confirm_timeout{2'000};

  /// How often a queue pair that an acceptor and async_connect connected tells its peer that it is
  /// there.
  /** The peer's heartbeat_limit may make it more often. 10 ms at least. */
  std::chrono::milliseconds heartbeat_interval{1'000};

  /// How long the peer may be silent on the control channel until it is taken for dead
  /// (error::peer_lost).
  /**
   * Both sides' processes have to run for that, but no handlers of theirs: heartbeats are the
   * library's thread's (but for streams that async_upgrade took over: those are read on their own
   * executor). 0: for as long as it likes; else 100 ms at least and an hour at most. RDMA-CM has no
   * heartbeats.
   */
  std::chrono::milliseconds heartbeat_limit{5'000};

  /// Which of the context's devices, by name; empty for the default one.
  std::string device;

  /// Whether the software device may take over when the NIC does not lead to the peer.
  /**
   * Without it such a connect fails with error::no_common_transport or error::path_not_confirmed.
   * Only queue pairs that async_connect and acceptors connect fall back, and only those that name
   * no `device` and receive from no shared receive queue. transport() tells what was chosen and
   * why. Until a queue pair that may fall back is connected its receives wait inside, and
   * native_handle() and number() may change.
   *
   * It is about NICs that do not lead to the peer: where this side has none its default device is
   * the software one, with success. A program that wants a NIC or nothing looks at
   * transport().kind, or names the `device`.
   */
  bool fall_back = true;

  /// The address whose GID the peer is to reach this side by, one of device::addresses().
  /**
   * Without one it is the local address of what connects (async_connect's and the acceptor's TCP
   * connection, the argument of local_endpoint()). Set it where the two sides meet on one network
   * and RDMA is on another.
   */
  std::optional<boost::asio::ip::address> local_address;

  /// Where completions arrive; without one, the queue of the io_context and device.
  std::optional<completion_queue> completions;

  /// Set by receive_from().
  std::shared_ptr<detail::shared_receive_core> receives;

  /// Receives come from a shared receive queue, whose completion queue the queue pair then uses.
  /**
   * `device` and `completions` do not count then; the queue's domain has to be the queue pair's, or
   * making that says error::wrong_context. Throws system_error(error::closed) when `queue` was
   * moved from.
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

  /// The peer may lease memory from this lessor (<boost_rdma/lessor.hpp>), within its quotas.
  /** The lessor's domain is to be the queue pair's: the peer is told error::no_lessor otherwise. */
  template <class Lessor>
  queue_pair_options& grant_from(const Lessor& from)
  {
    lessor = from.source();
    return *this;
  }
};

} // namespace rdma

#endif // BOOST_RDMA_QUEUE_PAIR_OPTIONS_HPP
