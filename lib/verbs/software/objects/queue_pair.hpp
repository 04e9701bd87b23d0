//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP

#include "verbs/software/objects/progress_lock.hpp"
#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/software.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/link.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace rdma::software {

struct completion_queue;
struct device_context;

/// A connection's queue pair, reliable or not: its queues, its two state machines and its link.
/**
 * Locks: `sends.mutex` and `receives.mutex` are for those who post. `progress` is held by whoever
 * moves the state machines; who only posts or polls tries it, and when somebody else has it leaves
 * a note
 * (`called`) that the holder looks at after letting go. `modifying` is for ibv_modify_qp and
 * ibv_query_qp and is taken before `progress`.
 */
struct queue_pair final
  : queue_pair_base
  , protocol::host
  , wire::progress_target
{
  queue_pair(device_context& owner, const ibv_qp_init_attr& with);

  // wire::progress_target
  void serve(wire::mover by, std::uint32_t ready_for = 0) override;
  void come_due(std::int64_t now) override;
  bool is_local() const noexcept override { return link.is_local(); }
  bool ready() const noexcept override { return link.ready(); }
  void look(bool on) noexcept override { link.look(on); }
  void meet() override;
  void leave() override;

  // protocol::host; with `progress` held
  void send_completed(const ibv_wc& wc, std::uint64_t next) override;
  void receive_completed(const ibv_wc& wc, bool solicited) override;
  void raise(ibv_event_type type) override;
  bool take_receive(protocol::receive_work& to) override;

  int modify(const ibv_qp_attr& to, int mask);
  void query(ibv_qp_attr& to, ibv_qp_init_attr& init);
  /// `whole`: all of the list or nothing.
  int post(ibv_send_wr* wr, ibv_send_wr** bad, bool whole = false);
  int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad);

  /// No trace of it is left in its completion queues, and nobody serves it.
  void end();

  const char* wire_name() const noexcept { return link.wire_name(); }
  const char* why_not_local() const noexcept { return link.why_not_local(); }
  bool receiver_not_ready() const noexcept { return requester.receiver_not_ready(); }

  ibv_qp_state current() const noexcept { return state_now.load(std::memory_order_acquire); }

  connection_secret secret{};
  wire_end end_of_wire = wire_end::by_name;

private:
  int check(const ibv_send_wr& wr) const noexcept;
  void store(protocol::send_request& to, const ibv_send_wr& wr) noexcept;
  void move(wire::mover by, bool writable, bool readable);
  bool taken_over() const noexcept;
  bool gathers(std::uint64_t posted, std::uint64_t bytes) const noexcept;
  void owe() noexcept;
  void tell_how_far() noexcept;
  void let_go();
  void keep_time(std::int64_t now);
  void look_for_the_end(std::int64_t now);
  void look_for_the_end_unreliable();
  void enter_send_error();
  void enter_error(bool fatal = false);
  void flush();
  void enter_reset();
  int change(const ibv_qp_attr& to, int mask);
  int enter_ready_to_receive();
  void enter_ready_to_send();
  void set_state(ibv_qp_state to) noexcept;

  std::mutex modifying;
  progress_lock progress;
  std::atomic<bool> called{false};
  std::atomic<bool> room{false};     ///< with `called`: the socket has room again
  std::atomic<bool> told{false};     ///< with `called`: the socket has something
  std::atomic<bool> pressed{false};  ///< with `called`: by the engine
  std::atomic<bool> wanted{false};   ///< with `called`: to receive, not only to send
  std::atomic<bool> indebted{false}; ///< the engine will come for what this owes
  std::atomic<bool> owes{false};     ///< an acknowledgement, or the rest of what a call has begun
  std::atomic<std::uint64_t> begun_below{0};   ///< the requester's, for those who post
  std::atomic<std::uint64_t> through_below{0}; ///< likewise
  std::atomic<bool> held{
    false}; ///< a message waits for a receive; set before the last look for one
  std::atomic<ibv_qp_state> state_now{IBV_QPS_RESET};
  ibv_qp_attr attributes{};
  protocol::parameters with_;
  protocol::requester requester;
  protocol::responder responder;
  wire::link link;

  // Under `progress`.
  bool broken = false;            ///< a completion queue had no room
  bool owing = false;             ///< an acknowledgement waits for an answer to ride along with
  bool draining = false;          ///< SQD, and the event is still to come
  std::int64_t resume_at = 0;     ///< end of an RNR wait
  std::int64_t waiting_since = 0; ///< the peer owes us an answer, and has been silent since
  std::int64_t lost_until = 0;    ///< the connection is gone; from here on requests fail for it
  std::atomic<std::int64_t> alarm_at{0}; ///< written under `progress`
  std::int64_t give_up_at = 0; ///< unreliable: when what waits for a connection is as good as lost
  std::uint32_t announced = 0; ///< the link's number of the message that is held
  std::uint32_t heard = 0;
  std::uint64_t moved = 0;
  protocol::receive_work flushing;
};

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* with);
int modify_qp(ibv_qp* qp, ibv_qp_attr* to, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* to, int mask, ibv_qp_init_attr* init);
int destroy_qp(ibv_qp* qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_whole(ibv_qp* qp, ibv_send_wr* wr); ///< as post_send, but all of the list or nothing
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* with);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
