//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP

#include "verbs/software/objects/events.hpp"
#include "verbs/software/objects/progress_lock.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/protocol/work_queue.hpp"
#include "verbs/software/software.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/tcp_link.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace rdma::software {

struct completion_queue;
struct device_context;

/// A reliable connection's queue pair: its queues, its two state machines and its link.
/**
 * Locks: `sends.mutex` and `receives.mutex` are for those who post. `progress` is held by whoever moves
 * the state machines; who only posts or polls tries it, and when somebody else has it leaves a note
 * (`called`) that the holder looks at after letting go. `modifying` is for ibv_modify_qp and ibv_query_qp and is
 * taken before `progress`.
 */
struct queue_pair final : ibv_qp, protocol::host, wire::station
{
  queue_pair(device_context& owner, const ibv_qp_init_attr& with);

  // wire::station
  void serve(wire::mover by, bool writable = false) override;
  void meet() override;

  // protocol::host; with `progress` held
  void send_completed(const ibv_wc& wc, std::uint64_t next) override;
  void receive_completed(const ibv_wc& wc, bool solicited) override;
  void raise(ibv_event_type type) override;
  bool take_receive(protocol::receive_work& to) override;

  int modify(const ibv_qp_attr& to, int mask);
  void query(ibv_qp_attr& to, ibv_qp_init_attr& init);
  int post(ibv_send_wr* wr, ibv_send_wr** bad);
  int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad);

  /// No trace of it is left in its completion queues, and nobody serves it.
  void end();

  ibv_qp_state current() const noexcept { return state_now.load(std::memory_order_acquire); }

  device_context& context_of;
  const ibv_qp_cap cap;
  const bool signal_all;
  protocol::send_queue sends;
  protocol::receive_queue receives;
  shared_receive_queue* const shared;
  connection_secret secret{};
  wire_end end_of_wire = wire_end::by_name;
  event_count events;

private:
  int check(const ibv_send_wr& wr) const noexcept;
  void store(protocol::send_request& to, const ibv_send_wr& wr) noexcept;
  void move(wire::mover by, bool writable);
  void let_go();
  void keep_time(std::int64_t now);
  void look_for_the_end();
  void enter_error();
  void flush();
  void enter_reset();
  int change(const ibv_qp_attr& to, int mask);
  int enter_ready_to_receive();
  void enter_ready_to_send();
  void set_state(ibv_qp_state to) noexcept;

  std::mutex modifying;
  progress_lock progress;
  std::atomic<bool> called{false};
  std::atomic<bool> room{false}; ///< with `called`: the socket has room again
  std::atomic<bool> pressed{false}; ///< with `called`: by the engine
  std::atomic<bool> wanted{false}; ///< with `called`: to receive, not only to send
  std::atomic<bool> indebted{false}; ///< the engine will come for `owing`
  std::atomic<bool> held{false}; ///< a message waits for a receive; set before the last look for one
  std::atomic<ibv_qp_state> state_now{IBV_QPS_RESET};
  ibv_qp_attr attributes{};
  protocol::parameters with_;
  protocol::requester requester;
  protocol::responder responder;
  wire::tcp_link link;

  // Under `progress`.
  bool broken = false;          ///< a completion queue had no room
  bool owing = false;           ///< an acknowledgement waits for an answer to ride along with
  bool draining = false;        ///< SQD, and the event is still to come
  std::int64_t resume_at = 0;   ///< end of an RNR wait
  std::int64_t waiting_since = 0; ///< the peer owes us an answer, and has been silent since
  std::int64_t alarm_at = 0;
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
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* with);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
