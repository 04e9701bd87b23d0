//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/responder.hpp"

#include "verbs/software/memory/window.hpp"
#include "verbs/software/protocol/bytes.hpp"

#include <algorithm>
#include <cstring>

namespace rdma::software::protocol {

namespace {

// Returns the word that an atomic write stores.
std::uint64_t written_value(const header& h) noexcept
{
  std::uint64_t bytes = 0;
  byte_writer(reinterpret_cast<std::byte*>(&bytes)).put(h.swap_add, 8);
  return bytes;
}

} // namespace

void responder::start()
{
  jobs_ =
    std::make_unique_for_overwrite<job[]>(std::max<std::size_t>(with_.max_peer_read_atomic, 1));
  expected_psn_ = with_.rq_psn;
  msn_ = 0;
  accepted_key_ = 0;
  running_ = true;
}

void responder::reset() noexcept
{
  running_ = announce_ = has_receive_ = ack_due_ = ack_wanted_ = announced_none_ = false;
  missing_ = missing::none;
  message_ = message::none;
  job_first_ = job_count_ = 0;
  refusal_ = refusal::none;
  event_.reset();
}

verdict responder::refuse(std::uint8_t syndrome) noexcept
{
  if (with_.kind == service_uc)
    return drop();
  refusal_ = refusal::final_due;
  missing_ = missing::none;
  accepted_key_ = 0;
  refusal_syndrome_ = syndrome;
  refusal_psn_ = expected_psn_;
  return verdict::discard;
}

verdict responder::refuse(std::uint8_t syndrome, ibv_event_type event) noexcept
{
  if (with_.kind != service_uc)
    event_ = event;
  return refuse(syndrome);
}

// The access by this frame failed. The receive of a write with immediate data reports it (local
// access error, IBA 11.6.2); without one an event does.
void responder::refuse_access(
  opcode op, std::uint8_t syndrome, ibv_event_type event, detail why) noexcept
{
  if ((traits_of(op) & trait_immediate) == 0 || with_.kind == service_uc || !have_receive())
  {
    refuse(syndrome, event);
    return;
  }
  done_ = 0;
  complete_receive(IBV_WC_LOC_ACCESS_ERR, why, nullptr);
  refuse(syndrome);
}

bool responder::have_receive() noexcept
{
  has_receive_ = has_receive_ || host_.take_receive(receive_);
  if (has_receive_)
    missing_ = missing::none;
  return has_receive_;
}

verdict responder::not_ready() noexcept
{
  if (with_.kind == service_uc)
    return drop();
  missing_ = missing::receive;
  refusal_ = refusal::not_ready;
  refusal_syndrome_ = static_cast<std::uint8_t>(syndrome_rnr | (with_.min_rnr_timer & 0x1f));
  refusal_psn_ = expected_psn_;
  return verdict::discard;
}

bool responder::allowed(const header& h, unsigned flag) noexcept
{
  // Operations that qp_access_flags does not enable are invalid requests (IBA 9.7.4.1.5).
  if ((with_.access & flag) != 0 && h.length <= max_message)
    return true;
  refuse(nak_invalid_request, IBV_EVENT_QP_REQ_ERR);
  return false;
}

// The checks of a write or a read before any byte is accessed.
bool responder::permits(const header& h, unsigned right) noexcept
{
  if (!allowed(h, right))
    return false;
  if (right == IBV_ACCESS_REMOTE_READ && job_count_ >= with_.max_peer_read_atomic)
  {
    refuse(nak_invalid_request, IBV_EVENT_QP_REQ_ERR);
    return false;
  }
  if (h.length == 0
    || key_pin(with_.keys->pin_remote(h.key, with_.pd, with_.qp, h.address, h.length, right)))
    return true;
  refuse_access(h.op, nak_remote_access, IBV_EVENT_QP_ACCESS_ERR, detail_remote_key);
  return false;
}

void responder::announce() noexcept
{
  if (!announce_)
    return;
  announce_ = false;
  host_.raise(IBV_EVENT_COMM_EST);
}

bool responder::would_permit(const header& h) noexcept
{
  const unsigned right =
    h.op == opcode::read_request ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if (!running_ || refusal_ != refusal::none || with_.kind != service_rc
    || (with_.access & right) == 0 || h.length == 0 || h.length > max_message
    || !key_pin(with_.keys->pin_remote(h.key, with_.pd, with_.qp, h.address, h.length, right)))
    return false;
  announce();
  return true;
}

verdict responder::receive(const header& h) noexcept
{
  if (!running_ || refusal_ == refusal::final_due || refusal_ == refusal::final_sent)
    return verdict::discard;
  if (with_.kind == service_uc) [[unlikely]]
    return receive_unreliable(h);
  const std::int32_t ahead = psn_distance(h.psn, expected_psn_);
  if (ahead < 0)
  {
    // A duplicate was carried out before, so it is acknowledged again (IBA 9.7.5.1.1).
    ack_due_ = ack_wanted_ = true;
    return verdict::discard;
  }
  // Frames behind an RNR refusal were already under way. They are dropped, and the requester
  // repeats them (IBA 9.7.5.1.3).
  if (ahead > 0 || refusal_ == refusal::not_ready)
    return verdict::discard;
  announce();
  const unsigned traits = traits_of(h.op);
  const bool starts = (traits & trait_starts) != 0;
  const bool ends = (traits & trait_ends) != 0;
  // First, Middle, Last: in this order, of one kind, each of its size (IBA 9.7.4.1.1, 9.7.4.1.7).
  const message kind = (traits & trait_send) != 0 ? message::send
    : (traits & trait_write) != 0                 ? message::write
                                                  : message::none;
  if (starts ? message_ != message::none : (message_ != kind || kind == message::none))
    return verdict::malformed;
  if (h.payload > with_.segment || (!ends && h.payload != with_.segment)
    || (ends && !starts && h.payload == 0))
    return verdict::malformed;
  if (with_.kind == service_xrc)
  {
    if (!starts && h.srq != srq_)
      return verdict::malformed;
    srq_ = h.srq;
    if (!host_.select_queue(srq_))
      return refuse(nak_invalid_request, IBV_EVENT_QP_REQ_ERR);
  }
  if ((traits & trait_send) != 0)
    return begin_send(h, traits);
  if ((traits & trait_write) != 0)
    return begin_write(h, traits);
  return h.op == opcode::read_request ? take_read(h) : take_atomic(h);
}

bool responder::receive_short(const header& h, const std::byte* payload) noexcept
{
  if (!running_ || refusal_ != refusal::none || h.psn != expected_psn_ || announce_
    || message_ != message::none || h.op == opcode::send_only_invalidate || !have_receive()
    || h.payload > receive_.length
    || !copy_elements(receive_.list(), h.payload, IBV_ACCESS_LOCAL_WRITE, *with_.keys,
      with_.receive_pd,
      [&payload](std::byte* to, std::size_t size)
      {
        std::memcpy(to, payload, size);
        payload += size;
      }))
    return false;
  done_ = h.payload;
  complete_receive(IBV_WC_SUCCESS, detail_none, &h);
  msn_ = psn_add(msn_, 1);
  expected_psn_ = psn_add(expected_psn_, 1);
  ack_due_ = ack_wanted_ = true;
  return true;
}

verdict responder::begin_send(const header& h, unsigned traits) noexcept
{
  if ((traits & trait_starts) != 0)
  {
    if (!have_receive())
      return not_ready();
    done_ = 0;
  }
  if (done_ + h.payload > receive_.length || done_ + h.payload > max_message)
  {
    if (with_.kind == service_uc)
      return drop(); // and the receive is there for the next one
    // IBA 9.7.4.1.6, and table "responder error behaviour", class C.
    complete_receive(IBV_WC_LOC_LEN_ERR, detail_receive_length, nullptr);
    return refuse(nak_invalid_request);
  }
  message_ = message::send;
  arriving_ = h;
  return verdict::accept;
}

verdict responder::begin_write(const header& h, unsigned traits) noexcept
{
  const bool ends = (traits & trait_ends) != 0;
  if ((traits & trait_starts) != 0)
  {
    if (!permits(h, IBV_ACCESS_REMOTE_WRITE))
      return verdict::discard;
    accepted_key_ = h.length != 0 ? h.key : 0;
    done_ = 0;
    write_address_ = h.address;
    write_key_ = h.key;
    write_length_ = h.length;
  }
  // The frames must make up exactly the announced length, so that only checked memory is written.
  const std::uint64_t reached = done_ + h.payload;
  if (ends ? reached != write_length_ : reached >= write_length_)
    return verdict::malformed;
  message_ = message::write;
  if ((traits & trait_immediate) != 0 && !have_receive())
  {
    // The requester repeats an only frame as a whole, and of a longer message the last frame.
    if ((traits & trait_starts) != 0)
      message_ = message::none;
    return not_ready();
  }
  arriving_ = h;
  return verdict::accept;
}

void responder::push(const job& j) noexcept
{
  jobs_[(job_first_ + job_count_) % with_.max_peer_read_atomic] = j;
  ++job_count_;
  expected_psn_ = psn_add(expected_psn_, j.frames);
  msn_ = psn_add(msn_, 1);
}

verdict responder::take_read(const header& h) noexcept
{
  if (!permits(h, IBV_ACCESS_REMOTE_READ))
    return verdict::discard;
  accepted_key_ = h.length != 0 ? h.key : 0;
  push({true, h.psn, frame_count(h.length, with_.segment), 0, h.key, h.srq, h.length, h.address});
  return verdict::discard;
}

verdict responder::take_atomic(const header& h) noexcept
{
  const unsigned right =
    h.op == opcode::atomic_write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
  if (!allowed(h, right))
    return verdict::discard;
  if (h.address % 8 != 0 || job_count_ >= with_.max_peer_read_atomic)
    return refuse(nak_invalid_request, IBV_EVENT_QP_REQ_ERR);
  std::uint64_t value = 0;
  {
    const key_pin memory(with_.keys->pin_remote(h.key, with_.pd, with_.qp, h.address, 8, right));
    if (!memory)
      return refuse(nak_remote_access, IBV_EVENT_QP_ACCESS_ERR);
    std::byte* at = memory.at(h.address);
    if (reinterpret_cast<std::uintptr_t>(at) % 8 != 0) // a zero based region that is not aligned
      return refuse(nak_invalid_request, IBV_EVENT_QP_REQ_ERR);
    auto* word = reinterpret_cast<std::uint64_t*>(at);
    if (with_.hostile != nullptr) [[unlikely]]
    {
      value = with_.hostile->change(word,
        [&h](std::uint64_t before)
        {
          return h.op == opcode::atomic_write ? written_value(h)
            : h.op == opcode::fetch_add       ? before + h.swap_add
            : before == h.compare             ? h.swap_add
                                              : before;
        });
    }
    else if (h.op == opcode::atomic_write)
    {
      __atomic_store_n(word, written_value(h), __ATOMIC_SEQ_CST);
    }
    else if (h.op == opcode::fetch_add)
    {
      value = __atomic_fetch_add(word, h.swap_add, __ATOMIC_SEQ_CST);
    }
    else
    {
      value = h.compare;
      __atomic_compare_exchange_n(
        word, &value, h.swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
  }
  accepted_key_ = h.key;
  push({false, h.psn, 1, 0, 0, 0, 0, value});
  return verdict::discard;
}

bool responder::place(
  std::uint32_t offset, std::uint32_t size, pinned_buffers& to, std::uint64_t& done) noexcept
{
  if (message_ == message::send)
    return add_elements(to, receive_.list(), done_ + offset, size, IBV_ACCESS_LOCAL_WRITE,
      *with_.keys, with_.receive_pd, done);
  // The key is checked for each part, because the region may be gone since the message began.
  return pin(write_key_, write_address_ + done_ + offset, size, IBV_ACCESS_REMOTE_WRITE, to, done);
}

bool responder::pin(std::uint32_t key, std::uint64_t address, std::uint32_t size, unsigned right,
  pinned_buffers& to, std::uint64_t& done) const noexcept
{
  to.set_unordered();
  for (done = 0; done != size && to.room() != 0;)
  {
    const std::uint64_t at = address + done;
    key_slot* slot = with_.keys->pin_remote(key, with_.pd, with_.qp, at, size - done, right);
    if (slot == nullptr)
      return false;
    done += to.add(*slot, at - slot->address, size - done);
  }
  return true;
}

void responder::unplaceable(detail why) noexcept
{
  if (message_ == message::send)
  {
    complete_receive(IBV_WC_LOC_PROT_ERR, why, nullptr);
    refuse(nak_remote_operation);
    if (with_.kind == service_uc)
      refusal_ = refusal::final_sent; // class A: the program's own fault ends its queue pair, too
  }
  else if (why == detail_local_key)
  {
    refuse_access(arriving_.op, nak_remote_access, IBV_EVENT_QP_ACCESS_ERR, detail_remote_key);
  }
  else
  {
    refuse_access(arriving_.op, nak_remote_operation, IBV_EVENT_QP_FATAL, why);
  }
}

verdict responder::finish() noexcept
{
  if (refusal_ == refusal::final_due || refusal_ == refusal::final_sent)
    return verdict::discard;
  const header& h = arriving_;
  const unsigned traits = traits_of(h.op);
  done_ += h.payload;
  if ((traits & trait_ends) != 0)
  {
    const bool send = message_ == message::send;
    message_ = message::none;
    if ((traits & trait_invalidate) != 0
      && !invalidate_window(*with_.keys, h.key, with_.pd, with_.qp))
    {
      // IBA 9.9.3, class J: the receive ends with the error.
      complete_receive(IBV_WC_REM_INV_REQ_ERR, detail_window, nullptr);
      return refuse(nak_invalid_request);
    }
    if (send || (traits & trait_immediate) != 0)
      complete_receive(IBV_WC_SUCCESS, detail_none, &h);
    msn_ = psn_add(msn_, 1);
  }
  expected_psn_ = psn_add(expected_psn_, 1);
  ack_due_ = with_.kind != service_uc;
  ack_wanted_ = ack_wanted_ || h.ack_request;
  return verdict::accept;
}

void responder::complete_receive(ibv_wc_status status, detail why, const header* h) noexcept
{
  has_receive_ = false;
  ++receives_;
  ibv_wc wc{};
  wc.wr_id = receive_.id;
  wc.status = status;
  wc.vendor_err = why;
  wc.qp_num = with_.qp;
  wc.src_qp = with_.peer_qp;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(done_);
  if (h != nullptr)
  {
    const unsigned traits = traits_of(h->op);
    if ((traits & trait_write) != 0)
      wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    if ((traits & trait_immediate) != 0)
    {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = h->immediate;
    }
    if ((traits & trait_invalidate) != 0)
    {
      wc.wc_flags = IBV_WC_WITH_INV;
      wc.invalidated_rkey = h->key;
    }
  }
  host_.receive_completed(wc, h != nullptr && h->solicited);
}

void responder::flush() noexcept
{
  running_ = false;
  job_count_ = 0;
  ack_due_ = ack_wanted_ = false;
  missing_ = missing::none;
  message_ = message::none;
  if (has_receive_)
    complete_receive(IBV_WC_WR_FLUSH_ERR, detail_flushed, nullptr);
}

} // namespace rdma::software::protocol
