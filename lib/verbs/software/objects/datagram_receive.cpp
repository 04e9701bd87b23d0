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

#include <cstdint>
#include <cstring>

// The receiving half of a datagram queue pair.

namespace rdma::software {
namespace {

// The kind of packet, which mlx5 and hns report instead of the service level. UCX before 1.18 finds
// the addresses by it.
constexpr std::uint8_t roce_v2_in_ipv6 = 9;
constexpr std::uint8_t roce_v2_in_ipv4 = 10;

} // namespace

// IBA 9.8.3.2, 9.9.3 classes A and D: a datagram that does not fit this queue pair is dropped, and
// the receive stays for the next one. Only an error of the receive itself ends it, and the queue
// pair.
void datagram_queue_pair::arrive(const wire::datagram& what)
{
  const std::lock_guard lock(receiving);
  const ibv_qp_state now = current();
  if (now != IBV_QPS_RTR && now != IBV_QPS_RTS && now != IBV_QPS_SQD && now != IBV_QPS_SQE)
    return;
  if (what.headers.queue_key != queue_key.load(std::memory_order_relaxed))
  {
    context_of.key_violations.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::size_t size = route_header_size + what.payload.size();
  if (!have_receive() || receive_.length < size)
    return;
  std::byte route[route_header_size];
  constexpr std::size_t udp_header_size = 8;
  write_route_header(what.from, context_of.gids[what.at.gid_index], what.by,
    static_cast<std::uint16_t>(udp_header_size
      + protocol::header_size(protocol::whole_opcode(what.headers)) + what.payload.size()),
    route);
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(size);
  wc.src_qp = what.headers.source_qp;
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = is_ipv4(what.from) ? roce_v2_in_ipv4 : roce_v2_in_ipv6;
  if ((protocol::traits_of(what.headers.op) & protocol::trait_immediate) != 0)
  {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = what.headers.immediate;
  }
  last_port.store(&what.at, std::memory_order_release);
  if (!place(route, 0) || !place(what.payload, route_header_size))
  {
    wc.status = IBV_WC_LOC_PROT_ERR;
    wc.vendor_err = protocol::detail_local_key;
    complete_receive(wc, false);
    enter_error(false);
    return;
  }
  complete_receive(wc, what.headers.solicited);
}

bool datagram_queue_pair::have_receive()
{
  has_receive_ = has_receive_ || take_posted(receive_, false);
  return has_receive_;
}

bool datagram_queue_pair::place(std::span<const std::byte> bytes, std::uint64_t offset) noexcept
{
  while (!bytes.empty())
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    if (!add_elements(to, receive_.list(), offset, bytes.size(), IBV_ACCESS_LOCAL_WRITE,
          context_of.keys, protecting(shared != nullptr ? shared->pd : pd), done)
      || done == 0)
      return false;
    const std::byte* from = bytes.data();
    for (const iovec& v : to.view())
    {
      std::memcpy(v.iov_base, from, v.iov_len);
      from += v.iov_len;
    }
    bytes = bytes.subspan(done);
    offset += done;
  }
  return true;
}

void datagram_queue_pair::complete_receive(ibv_wc& wc, bool solicited)
{
  has_receive_ = false;
  wc.wr_id = receive_.id;
  wc.qp_num = qp_num;
  if (static_cast<completion_queue*>(recv_cq)->push(wc, qp_num, this, false, 0, solicited)
    || current() == IBV_QPS_ERR)
    return;
  enter_error(true);
}

void datagram_queue_pair::flush_receives()
{
  // Receives of a shared queue belong to other queue pairs, too, except one that was taken.
  while (has_receive_ || (shared == nullptr && have_receive()))
  {
    ibv_wc wc{};
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.vendor_err = protocol::detail_flushed;
    complete_receive(wc, false);
  }
}

} // namespace rdma::software
