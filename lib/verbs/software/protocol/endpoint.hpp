//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_ENDPOINT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_ENDPOINT_HPP

#include "verbs/software/memory/hostile_memory.hpp"
#include "verbs/software/memory/key_table.hpp"
#include "verbs/software/protocol/packet.hpp"

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rdma::software::protocol {

/// The longest message (max_msg_sz): the limit of a RETH's length field (IBA 9.3.3).
inline constexpr std::uint64_t max_message = 1ull << 31;

/// The queue pair's parameters for the state machines; changed only while neither runs.
struct parameters
{
  key_table* keys = nullptr;
  const ibv_pd* pd = nullptr;
  const ibv_pd* receive_pd = nullptr; ///< of the receives: that of a shared receive queue
  std::uint32_t qp = 0;
  std::uint32_t peer_qp = 0;
  std::uint32_t segment = 0; ///< payload of a full frame, the wire's choice
  std::uint32_t sq_psn = 0;
  std::uint32_t rq_psn = 0;
  unsigned access = 0; ///< qp_access_flags
  std::uint8_t max_read_atomic = 0;
  std::uint8_t max_peer_read_atomic = 0; ///< max_dest_rd_atomic
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t rnr_retry = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t timeout = 0;
  bool signal_all = false;
  service kind = service_rc;         ///< or UC, XRC
  bool has_short_sends = true;       ///< local wire: see requester::next_short()
  hostile_memory* hostile = nullptr; ///< accesses the memory of one-sided requests, if not null
};

/// A receive work request that a message is placed in.
struct receive_work
{
  std::uint64_t id = 0;
  std::uint64_t length = 0;
  std::uint32_t elements = 0;
  std::unique_ptr<ibv_sge[]> storage; ///< as many as the receive queue's max_sge

  std::span<const ibv_sge> list() const noexcept { return {storage.get(), elements}; }
};

/// The interface of the queue pair to the state machines.
class host
{
public:
  /// Reports the end of a send work request. `next` is the slot after it.
  virtual void send_completed(const ibv_wc& wc, std::uint64_t next) = 0;
  virtual void receive_completed(const ibv_wc& wc, bool solicited) = 0;
  virtual void raise(ibv_event_type type) = 0;

  /// Takes the next receive from the receive queue or the shared one. Returns false if there is
  /// none; responder::receive_posted() is then called after the next one has been posted.
  virtual bool take_receive(receive_work& to) = 0;

  /// XRC: makes this shared receive queue the one that take_receive() and receive_completed() use,
  /// and its protection domain the one of remote keys. Returns false if the queue pair's XRC domain
  /// has no such queue; then no key is valid.
  virtual bool select_queue(std::uint32_t /*number*/) noexcept { return false; }

  /// Returns the number of receives in the queue; nothing if the queue is shared.
  virtual std::optional<std::uint64_t> posted_receives() noexcept = 0;

protected:
  ~host() = default;
};

/// The cause in ibv_wc::vendor_err, where the status alone has several.
enum detail : std::uint32_t
{
  detail_none = 0,
  detail_flushed = 1,
  detail_remote_nak = 2,         ///< the peer refused the request
  detail_connection_lost = 3,    ///< the connection ended with requests outstanding
  detail_no_answer = 4,          ///< no answer arrived in time
  detail_local_key = 5,          ///< a scatter/gather element's key does not permit it
  detail_local_fault = 6,        ///< registered, but not (any more) mapped memory
  detail_message_length = 7,     ///< longer than max_msg_sz, or an atomic not of 8 bytes
  detail_receive_length = 8,     ///< the receive is too small for the message
  detail_no_initiator_depth = 9, ///< max_rd_atomic is 0
  detail_response = 10,          ///< the peer's response is invalid
  detail_rnr = 11,               ///< the peer posted no receive
  detail_window = 12,            ///< the window may not be bound or invalidated like this
  detail_malformed = 13,         ///< the peer has violated the protocol
  detail_remote_key = 14,        ///< the key of the peer's request does not permit it
};

/// The decision on a frame whose headers have arrived.
enum class verdict
{
  accept,    ///< place its payload, then finish it
  discard,   ///< skip its payload
  malformed, ///< give up the connection
};

/// A frame to send. Its payload stays in registered memory until it is sent.
struct frame
{
  enum class origin : std::uint8_t
  {
    none,     ///< headers only
    request,  ///< bytes of a send work request
    response, ///< bytes of memory that the peer reads
  };

  header_bytes bytes;
  std::uint8_t header_size = 0;
  origin source = origin::none;
  std::uint32_t psn = 0;
  std::uint32_t covered = 1; ///< PSNs that it takes: a read request's response counts
  std::uint32_t payload = 0;
  std::uint32_t generation = 0; ///< requests: see requester::generation
  bool response = false;        ///< the responder made it
  std::uint32_t key = 0;        ///< response
  std::uint32_t srq = 0;        ///< response, XRC: the number in the read request
  std::uint64_t request = 0;    ///< request: the slot in the send queue; response: the read's PSN
  std::uint64_t offset = 0;     ///< request: into the message; response: the address

  std::uint32_t size() const noexcept { return header_size + payload; }
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_ENDPOINT_HPP
