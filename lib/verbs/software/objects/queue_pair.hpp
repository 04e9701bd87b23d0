//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP

#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/software.hpp"
#include "verbs/software/wire/connection.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace rdma::software {

/// A queue pair with a connection, reliable (RC, XRC) or not (UC): its two state machines and its
/// connection.
struct queue_pair final
  : queue_pair_base
  , protocol::host
{
  queue_pair(protection_domain& in, const ibv_qp_init_attr& with);

  // wire::progress_target
  void serve(wire::mover by, std::uint32_t ready_for = 0) override;
  void deliver(wire::tcp_link& from, wire::mover by) override;
  bool come_due(std::int64_t now) override;
  bool is_local() const noexcept override { return connection.is_local(); }
  bool ready() const noexcept override { return connection.ready(); }
  void look(bool on) noexcept override { connection.look(on); }
  void meet() override;

  // protocol::host; with `progress` held
  void send_completed(const ibv_wc& wc, std::uint64_t next) override;
  void receive_completed(const ibv_wc& wc, bool solicited) override;
  void raise(ibv_event_type type) override { queue_pair_base::raise(type); }
  bool take_receive(protocol::receive_work& to) override
  {
    return take_posted(to, with_.kind != protocol::service_uc);
  }
  bool select_queue(std::uint32_t number) noexcept override;
  std::optional<std::uint64_t> posted_receives() noexcept override
  {
    return shared == nullptr && with_.kind != protocol::service_xrc ? std::optional(receives.size())
                                                                    : std::nullopt;
  }

  /// XRC: this shared receive queue is being destroyed, and takes no part of a message any more.
  void forget_queue(const shared_receive_queue& gone) noexcept;

  const char* wire_name() const noexcept { return connection.wire_name(); }
  const char* why_not_local() const noexcept { return connection.why_not_local(); }
  const char* linked_by() const noexcept { return connection.linked_by(); }
  bool receiver_not_ready() const noexcept { return requester.receiver_not_ready(); }

  connection_secret secret{};
  wire_end end_of_wire = wire_end::by_name;

private:
  // queue_pair_base
  void requests_posted(std::uint64_t end, std::uint64_t bytes) override;
  int enter(ibv_qp_state from, ibv_qp_state to) override;
  void changed_from(ibv_qp_state before) override;
  void stop() noexcept override;
  void enter_error(bool fatal) override;
  bool is_draining() const noexcept override;
  void withdraw() override;

  void select(shared_receive_queue* queue) noexcept;
  int enter_ready_to_receive();
  void enter_ready_to_send();
  void enter_send_error();

  /// Returns the target that a poller looks at for messages of this queue pair.
  std::uint32_t carrier() const noexcept
  {
    const std::uint32_t link = connection.link_number();
    return link != 0 ? link : qp_num;
  }
  void carry(wire::mover by, bool locked);
  void move(wire::mover by, wire::tcp_link* from = nullptr);
  void move_or_defer(std::uint64_t end);
  void announce_receive();
  void transmit(wire::mover by, std::uint32_t received);
  bool needs_the_clock() const noexcept;
  bool taken_over() const noexcept;
  bool has_many_under_way() const noexcept;
  void owe() noexcept;
  void publish_progress() noexcept;
  void keep_time(std::int64_t now);
  void look_for_the_end(std::int64_t now);
  void look_for_the_end_unreliable();
  void report_drained();
  void flush();

  std::atomic<bool> pressed{false};            ///< with `called`: by the engine
  std::atomic<bool> wanted{false};             ///< with `called`: to receive, not only to send
  std::atomic<bool> indebted{false};           ///< the engine will serve what this owes
  std::atomic<bool> owes{false};               ///< an acknowledgement, or the rest of a call's work
  std::atomic<std::uint64_t> begun_below{0};   ///< the requester's, for threads that post
  std::atomic<std::uint64_t> through_below{0}; ///< likewise

  std::optional<hostile_memory> hostile;
  protocol::parameters with_;
  protocol::requester requester;
  protocol::responder responder;
  wire::connection connection;

  // Guarded by `progress`.
  bool broken = false;            ///< a completion queue had no room
  bool at_rest = false;           ///< as move() left it: posters only have to write directly
  bool owing = false;             ///< an acknowledgement waits for an answer that includes it
  bool draining = false;          ///< SQD, and its event has not been raised
  std::int64_t resume_at = 0;     ///< end of an RNR wait
  std::int64_t waiting_since = 0; ///< the peer has not answered since
  std::int64_t last_look = 0;     ///< end of the time to read an answer that has come
  std::int64_t lost_until = 0;    ///< the connection is gone; from here on requests fail
  std::atomic<std::int64_t> alarm_at{0}; ///< written with `progress` held
  std::int64_t give_up_at = 0; ///< unreliable: requests that wait for a connection are lost then
  std::uint32_t heard = 0;     ///< the requester's progress at the last look
  std::uint64_t moved = 0;     ///< the connection's count of moves at the last look
  protocol::receive_work flushing;
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_QUEUE_PAIR_HPP
