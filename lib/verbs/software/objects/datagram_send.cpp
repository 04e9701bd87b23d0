//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/objects/address_handle.hpp"
#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/datagram_queue_pair.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/queue_pair_number.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <netinet/in.h>

// The sending half of a datagram queue pair. A request completes when its datagram has left.

namespace rdma::software {
namespace {

constexpr std::int64_t rest_time = 1'000'000; // before the next try of a socket without room

address_handle& handle_of(const protocol::send_request& r) noexcept
{
  return *reinterpret_cast<address_handle*>(r.remote);
}

} // namespace

/// Datagrams that leave with one system call.
struct datagram_queue_pair::batch
{
  static constexpr std::size_t most = 16;

  std::size_t count = 0;
  std::array<mmsghdr, most> messages{};
  std::array<sockaddr_in6, most> addresses; // or sockaddr_in, which is shorter
  std::array<protocol::header_bytes, most> headers;
  pinned_buffers pinned;
  // The error of the request behind them.
  ibv_wc_status status = IBV_WC_SUCCESS;
  protocol::detail why = protocol::detail_none;
};

void datagram_queue_pair::transmit()
{
  switch (current())
  {
  case IBV_QPS_RTS:
    for (;;)
    {
      batch b;
      fill(b);
      if (b.count != 0 && !send(b))
        return;
      if (b.count == 0 && b.status != IBV_WC_SUCCESS)
        return fail(b.status, b.why);
      if (b.count == 0)
        return;
    }
  case IBV_QPS_SQE:
    return flush_sends();
  case IBV_QPS_ERR:
  {
    flush_sends();
    const std::lock_guard lock(receiving);
    return flush_receives();
  }
  default:
    return;
  }
}

void datagram_queue_pair::fill(batch& to)
{
  const std::uint64_t posted = sends.posted.load(std::memory_order_acquire);
  for (; to.count != batch::most && next_ + to.count != posted; ++to.count)
  {
    protocol::send_request& r = sends[next_ + to.count];
    const address_handle& whom = handle_of(r);
    if (to.count != 0 && whom.gid_index != handle_of(sends[next_]).gid_index)
      return; // by another socket
    if (to.pinned.room() < 2 + r.elements)
      return;
    if (r.length > wire::datagram_payload_max)
    {
      to.status = IBV_WC_LOC_LEN_ERR;
      to.why = protocol::detail_message_length;
      return;
    }
    protocol::header h;
    const bool immediate = r.opcode == IBV_WR_SEND_WITH_IMM;
    h.op = immediate ? protocol::opcode::send_only_immediate : protocol::opcode::send_only;
    h.kind = protocol::service_ud;
    h.solicited = (r.flags & IBV_SEND_SOLICITED) != 0;
    h.dest_qp = r.rkey;
    h.psn = protocol::psn_add(psn_, static_cast<std::uint32_t>(to.count));
    h.payload = static_cast<std::uint32_t>(r.length);
    h.queue_key = static_cast<std::uint32_t>(r.swap);
    h.source_qp = qp_num;
    h.immediate = r.immediate;
    msghdr& message = to.messages[to.count].msg_hdr;
    message.msg_iov = to.pinned.data() + to.pinned.count();
    const std::size_t before = to.pinned.count();
    to.pinned.add(to.headers[to.count].data(), encode(h, to.headers[to.count]));
    std::uint64_t done = 0;
    if ((r.flags & IBV_SEND_INLINE) != 0)
    {
      to.pinned.add(r.inline_bytes(), r.length);
    }
    else if (!add_elements(
               to.pinned, r.list(), 0, r.length, 0, context_of.keys, protecting(pd), done))
    {
      to.status = IBV_WC_LOC_PROT_ERR;
      to.why = protocol::detail_local_key;
      return;
    }
    message.msg_iovlen = to.pinned.count() - before;
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    std::memcpy(&to.addresses[to.count], &whom.to.storage, whom.to.size);
    to.addresses[to.count].sin6_port = htons(port_of(r.rkey));
    message.msg_name = &to.addresses[to.count];
    message.msg_namelen = whom.to.size;
    message.msg_control = const_cast<std::byte*>(whom.route.bytes.data());
    message.msg_controllen = whom.route.size;
  }
}

// Returns true if there is room for more.
bool datagram_queue_pair::send(batch& what)
{
  int n = (*ports_)[handle_of(sends[next_]).gid_index]->send({what.messages.data(), what.count});
  const int error = n < 0 ? errno : 0;
  what.pinned.clear();
  switch (error)
  {
  case 0:
    break;
  case EINTR:
    return true;
  case EAGAIN:
  case ENOBUFS:
  case ENOMEM:
    context_of.engine.alarm(*this, wire::now() + rest_time);
    return false;
  case EFAULT: // registered, but not mapped: the first datagram's memory, because sendmmsg(2) fails
               // only for the first
    fail(IBV_WC_LOC_PROT_ERR, protocol::detail_local_fault);
    return false;
  default:
    n = 1; // no route: lost, as on any network
    break;
  }
  for (int i = 0; i < n; ++i)
    complete(sends[next_], IBV_WC_SUCCESS, protocol::detail_none);
  psn_ = protocol::psn_add(psn_, static_cast<std::uint32_t>(n));
  return current() == IBV_QPS_RTS; // unless its completion queue had no room
}

void datagram_queue_pair::complete(
  protocol::send_request& r, ibv_wc_status status, protocol::detail why)
{
  ++next_;
  if (status == IBV_WC_SUCCESS && !signal_all && (r.flags & IBV_SEND_SIGNALED) == 0)
    return;
  ibv_wc wc{};
  wc.wr_id = r.id;
  wc.status = status;
  wc.vendor_err = why;
  wc.opcode = IBV_WC_SEND;
  wc.byte_len = static_cast<std::uint32_t>(r.length);
  wc.qp_num = qp_num;
  if (static_cast<completion_queue*>(send_cq)->push(wc, qp_num, this, true, next_, false)
    || current() == IBV_QPS_ERR)
    return;
  enter_error(true);
}

// The sending ends, the receiving does not (IBA 10.3.1.6).
void datagram_queue_pair::fail(ibv_wc_status status, protocol::detail why)
{
  complete(sends[next_], status, why);
  ibv_qp_state expected = IBV_QPS_RTS;
  state_now.compare_exchange_strong(expected, IBV_QPS_SQE);
  flush_sends();
}

void datagram_queue_pair::flush_sends()
{
  while (next_ != sends.posted.load(std::memory_order_acquire))
    complete(sends[next_], IBV_WC_WR_FLUSH_ERR, protocol::detail_flushed);
}

} // namespace rdma::software
