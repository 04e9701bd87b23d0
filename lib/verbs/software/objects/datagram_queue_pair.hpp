//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP

#include "verbs/software/objects/queue_pair_base.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/wire/udp_port.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace rdma::software {

/// A queue pair of the unreliable datagram service (IBA 9.8.3).
/** `receiving`, locked after `progress`, guards the receiving of a datagram. */
struct datagram_queue_pair final
  : queue_pair_base
  , wire::datagram_sink
{
  datagram_queue_pair(protection_domain& in, const ibv_qp_init_attr& with);

  // wire::progress_target
  void serve(wire::mover by, std::uint32_t events = 0) override;
  void meet() override {}

  // wire::datagram_sink
  void arrive(const wire::datagram& what) override;

private:
  struct batch;

  // queue_pair_base
  int check_destination(const ibv_send_wr& wr) const noexcept override;
  void store_destination(protocol::send_request& to, const ibv_send_wr& wr) const noexcept override;
  int prepare_to_receive() override;
  std::unique_lock<std::mutex> hold_arrivals() override { return std::unique_lock(receiving); }
  int enter(ibv_qp_state from, ibv_qp_state to) override;
  void changed_from(ibv_qp_state before) override;
  void stop() noexcept override;
  void enter_error(bool fatal) override; ///< any thread; the engine flushes
  void withdraw() override;

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

  std::mutex receiving;
  std::atomic<std::uint32_t> queue_key{0};
  std::atomic<wire::udp_port*> last_port{nullptr}; ///< of its last datagram, which a poller reads

  wire::udp_ports::at_addresses* ports_ = nullptr; ///< from INIT to RTR on

  // Guarded by `progress`.
  std::uint64_t next_ = 0; ///< the send queue's next request
  std::uint32_t psn_ = 0;

  // Guarded by `receiving`.
  protocol::receive_work receive_;
  bool has_receive_ = false; ///< taken, and kept when a datagram did not fit
};

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_DATAGRAM_QUEUE_PAIR_HPP
