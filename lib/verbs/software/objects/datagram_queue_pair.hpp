//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP

#include "verbs/software/objects/progress_lock.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/udp_port.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace rdma::software {

/// A queue pair of the unreliable datagram service (IBA 9.8.3).
/**
 * Locks, in this order: `modifying` for ibv_modify_qp and ibv_query_qp; `progress` for who sends
 * (who only posts tries it and leaves a note, as with a connection's queue pair); `receiving` for
 * who takes a datagram.
 */
struct datagram_queue_pair final
  : queue_pair_base
  , wire::progress_target
  , wire::datagram_sink
{
  datagram_queue_pair(device_context& owner, const ibv_qp_init_attr& with);

  // wire::progress_target
  void serve(wire::mover by, std::uint32_t events = 0) override;
  void meet() override {}
  void leave() override;

  // wire::datagram_sink
  void arrive(const wire::datagram& what) override;

  int modify(const ibv_qp_attr& to, int mask);
  void query(ibv_qp_attr& to, ibv_qp_init_attr& init);
  int post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole);
  int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad);

  /// No trace of it is left in its completion queues, and nobody serves it.
  void end();

  ibv_qp_state current() const noexcept { return state_now.load(std::memory_order_acquire); }

private:
  struct batch;

  int check(const ibv_send_wr& wr) const noexcept;
  void store(protocol::send_request& to, const ibv_send_wr& wr) noexcept;
  int change(const ibv_qp_attr& to, int mask);
  void enter_reset();

  // With `progress` held.
  void transmit();
  void fill(batch& to);
  bool send(batch& what);
  void complete(protocol::send_request& r, ibv_wc_status status, protocol::detail why);
  void fail(ibv_wc_status status, protocol::detail why);
  void flush_sends();

  // With `receiving` held.
  bool have_receive();
  bool place(std::span<const std::byte> bytes, std::uint64_t offset) noexcept;
  void complete_receive(ibv_wc& wc, bool solicited);
  void flush_receives();

  void raise(ibv_event_type type) noexcept;
  /// From wherever: to the error state, of which the program is told when it is `fatal`; the engine
  /// flushes.
  void break_down(bool fatal = false) noexcept;

  std::mutex modifying;
  progress_lock progress;
  std::mutex receiving;
  std::atomic<bool> called{false};
  std::atomic<ibv_qp_state> state_now{IBV_QPS_RESET};
  std::atomic<std::uint32_t> queue_key{0};
  std::atomic<std::size_t> last_port{
    0}; ///< where its last datagram came in: there a poller looks first
  ibv_qp_attr attributes{};

  // Under `progress`.
  std::uint64_t next_ = 0; ///< the send queue's next request
  std::uint32_t psn_ = 0;
  bool draining = false;

  // Under `receiving`.
  protocol::receive_work receive_;
  bool has_receive_ = false; ///< taken, and kept when a datagram did not fit
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP
