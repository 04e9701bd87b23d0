//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP

#include "verbs/software/objects/events.hpp"
#include "verbs/software/objects/extension.hpp"
#include "verbs/software/objects/progress_lock.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/work_queue.hpp"
#include "verbs/software/wire/engine.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace rdma::software {

struct device_context;
struct protection_domain;

/// A queue pair of any service: its queues, its state, and the verbs on them.
/**
 * Derived classes carry the requests out.
 *
 * Locks, in this order: `modifying` for ibv_modify_qp and ibv_query_qp; `progress` for the thread
 * that carries requests out. A thread that only posts or polls tries `progress`, and if another has
 * it sets `called`, which the other reads after unlocking. Threads that post lock `sends.mutex` and
 * `receives.mutex`.
 */
struct queue_pair_base
  : extensible_queue_pair
  , wire::progress_target
{
  /// `in`: for an XRC target, xrc_domain::targets.
  queue_pair_base(protection_domain& in, const ibv_qp_init_attr& with);
  virtual ~queue_pair_base() = default;

  /// `whole`: all of the list or nothing.
  int post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole = false);
  int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad);

  int modify(const ibv_qp_attr& to, int mask);
  void query(ibv_qp_attr& to, ibv_qp_init_attr& init);
  ibv_qp_state current() const noexcept { return state_now.load(std::memory_order_acquire); }

  /// Goes to RESET, when the device is closed.
  void leave() override;

  /// Removes it from the device and from its completion queues. Nothing serves it any more.
  void end();

  /// For ibv_open_qp(3). Returns false if the queue pair is being destroyed.
  bool open() noexcept;
  /// Returns true if no other call of open() or ibv_create_qp(3) keeps the queue pair.
  bool close() noexcept { return opened.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  device_context& context_of;
  protection_domain& domain;
  const ibv_qp_cap cap;
  const bool signal_all;
  protocol::send_queue sends;
  protocol::receive_queue receives;
  /// The queue of all messages, or null. XRC: of the message that is arriving; changed with
  /// `progress` held.
  shared_receive_queue* shared;
  event_count events;

protected:
  // --- the service's part ---

  /// UD: checks the destination; 0 or an errno.
  virtual int check_destination(const ibv_send_wr&) const noexcept { return 0; }
  /// UD: copies the destination.
  virtual void store_destination(protocol::send_request&, const ibv_send_wr&) const noexcept {}
  /// Requests were posted, up to the one before `end`, the last ones of `bytes` together.
  virtual void requests_posted(std::uint64_t /*end*/, std::uint64_t /*bytes*/)
  {
    serve(wire::mover::poster);
  }

  /// Before INIT to RTR, without `progress`; 0 or an errno.
  virtual int prepare_to_receive() { return 0; }
  /// While the returned lock is held, no arriving message changes the state.
  virtual std::unique_lock<std::mutex> hold_arrivals() { return {}; }
  /// The attributes have been taken over; 0 or an errno. With `progress` held, as all below.
  virtual int enter(ibv_qp_state from, ibv_qp_state to) = 0;
  /// ibv_modify_qp() has succeeded.
  virtual void changed_from(ibv_qp_state before) = 0;
  /// RESET: forgets all requests.
  virtual void stop() noexcept = 0;
  virtual void enter_error(bool fatal) = 0;
  virtual bool is_draining() const noexcept { return false; }

  /// Removes it from the engine, so that no thread serves it when this returns.
  virtual void withdraw() = 0;

  // --- for the service ---

  void set_state(ibv_qp_state to) noexcept { state_now.store(to, std::memory_order_release); }
  void raise(ibv_event_type type) noexcept;
  /// Takes the oldest receive from the queue, its own or the shared one; false when it is empty. If
  /// `await`, the thread that posts the next one then serves this queue pair.
  bool take_posted(protocol::receive_work& to, bool await) noexcept;
  /// Unlocks `progress`, and serves the calls that other threads left meanwhile.
  void let_go();

  std::mutex modifying;
  progress_lock progress;
  std::atomic<bool> called{false};
  std::atomic<ibv_qp_state> state_now{IBV_QPS_RESET};
  ibv_qp_attr attributes{}; ///< written with `modifying` and `progress` held

private:
  int check(const ibv_send_wr& wr) const noexcept;
  void store(protocol::send_request& to, const ibv_send_wr& wr) const noexcept;
  int change(const ibv_qp_attr& to, int mask);
  void enter_reset();
  void forget_completions() noexcept;

  std::atomic<std::uint32_t> opened{1};
  const std::uint32_t operations; // of the service: bits by ibv_wr_opcode
};

/// Creates a queue pair of any service; see queue_pair_base().
ibv_qp* create_queue_pair(protection_domain& in, ibv_qp_init_attr& with);
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* with);
int modify_qp(ibv_qp* qp, ibv_qp_attr* to, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* to, int mask, ibv_qp_init_attr* init);
int destroy_qp(ibv_qp* qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_whole(ibv_qp* qp, ibv_send_wr* wr); ///< as post_send, but all of the list or nothing
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* with);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_BASE_HPP
