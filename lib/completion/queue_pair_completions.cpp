//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/queue_pair_core.hpp"

#include "completion/request_kinds.hpp"
#include "completion/shared_receive_core.hpp"
#include "resource/window_impl.hpp"

#include "verbs/software/software.hpp"

#include <algorithm>

// What becomes of what a queue pair has posted.

namespace rdma::detail {
namespace {

constexpr std::uint8_t rnr_retry_for_ever = 7; // IBA 9.7.5.2.8

} // namespace

void queue_pair_core::note_failure(const operation* op, const ibv_wc& wc)
{
  error_state_ = true; // IBA 10.3.1: a completion error takes an RC queue pair there
  start_flush_timer();
  if (lifecycle_ != lifecycle::unconfirmed) // which may go on with another device
    note_end(wc.status == IBV_WC_WR_FLUSH_ERR ? flush_reason()
                                              : make_error_code(static_cast<wc_status>(wc.status)));
  if (first_failure_.code || wc.status == IBV_WC_WR_FLUSH_ERR)
    return;
  first_failure_.code = make_error_code(static_cast<wc_status>(wc.status));
  first_failure_.operation = name_of(op->what.kind);
  first_failure_.vendor_error = wc.vendor_err;
}

void queue_pair_core::fill_success(operation* op, const ibv_wc& wc)
{
  outcome& result = op->result;
  result.ec = {};
  switch (op->what.kind)
  {
  case request_kind::receive:
    fill_message(result, wc);
    return;
  case request_kind::fetch_add:
  case request_kind::compare_exchange:
    // The device wrote it; from here on it is host order on every device we know.
    result.value =
      reinterpret_cast<const std::uint64_t*>(atomic_results_.data())[op->atomic_result];
    return;
  case request_kind::bind_window:
  {
    // Binding changes the key; whoever binds keeps ibv_mw::rkey (ibv_post_send(3), IBV_WR_BIND_MW).
    ibv_mw* window = op->what.window->native;
    window->rkey = ibv_inc_rkey(window->rkey);
    op->what.window->opens_on(op->registrations[0]);
    device_keys keys{};
    keys[device_index_] = window->rkey;
    result.bound =
      remote_buffer(op->sges[0].addr, op->sges[0].length, keys, op->what.window_rights);
    return;
  }
  default:
    result.received.size = op->bytes;
    return;
  }
}

void queue_pair_core::take(const ibv_wc* completions, std::size_t count, operation_list& ended)
{
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i)
    if (operation* op = take_one(completions[i]))
      ended.push_back(op);
}

// The operation that it ends, or null. The mutex is held.
operation* queue_pair_core::take_one(const ibv_wc& wc)
{
  const auto name = work_request_name::of(wc.wr_id);
  const bool last = name.last;
  operation* op = slot(name.slot);
  if (op == nullptr || op->generation() != name.generation
    || op->stage() != operation::state::posted || wc.qp_num != number_)
    return nullptr;
  // The parts of a batch complete in order, and all but its last one are of the same size.
  const std::uint32_t freed = last ? std::min(op->part, op->credits) : 0;
  posted(op->what.kind) -= freed;
  op->credits -= freed;
  if (op->what.kind != request_kind::receive)
    ++sends_completed_;
  if (wc.status == IBV_WC_SUCCESS)
  {
    if (lifecycle_ == lifecycle::open && guard_ && device_->traits().connection_manager_moves)
      enter_connected(); // the connection manager's word is on its way
    if (op->credits == 0 && op->unposted == 0)
      fill_success(op, wc);
  }
  else if (wc.status == IBV_WC_WR_FLUSH_ERR && reason_is_to_come())
  {
    if (last && op->credits == 0)
    {
      if (partial_ == op)
        partial_ = nullptr;
      op->stage(operation::state::flushed);
      flushed_.push_back(op);
    }
    start_flush_timer();
    return nullptr;
  }
  else
  {
    note_failure(op, wc);
    if (!op->result.ec)
    {
      const bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
      op->result.ec = flushed ? flush_reason() : make_error_code(static_cast<wc_status>(wc.status));
    }
  }
  if (!last)
    return nullptr; // one of a batch failed; the buffers are free when the last has been flushed
  if (partial_ == op && op->result.ec)
    partial_ = nullptr; // what is not posted yet never will be
  const bool ended = op->credits == 0 && partial_ != op;
  const request_kind kind = op->what.kind;
  if (ended)
  {
    if (is_atomic(kind))
      free_atomic_results_.push_back(op->atomic_result);
    op->stage(operation::state::done);
  }
  if (reason_)
    withdraw_in_turn(); // which ends op, if nothing but its unposted part is left of it
  else
    post_waiting(kind);
  if (refused_sends_)
    tell_if_finished();
  return ended ? op : nullptr;
}

queue_pair_core::send_progress queue_pair_core::progress_of_sends() const
{
  const std::lock_guard lock(mutex_);
  return {sends_posted_ != 0, sends_completed_};
}

std::optional<queue_pair_core::missing_receive> queue_pair_core::find_missing_receive() const
{
  const std::lock_guard lock(mutex_);
  if (lifecycle_ != lifecycle::connected || error_state_ || native_ == nullptr)
    return std::nullopt;
  missing_receive result{number_, remote_.queue_pair_number, false};
  if (device_->kind() == device_kind::software)
  {
    result.certain = software::receiver_not_ready(native_);
    return result.certain ? std::optional(result) : std::nullopt;
  }
  if (options_.rnr_retry_count != rnr_retry_for_ever)
    return std::nullopt; // it fails by itself
  for (std::uint32_t i = 0; const operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted && may_take_receive(op->what.kind))
      return result;
  return std::nullopt;
}

// Returns true while the connection manager's reason for a flush is outstanding.
bool queue_pair_core::reason_is_to_come() const noexcept
{
  return device_->traits().flushes_before_disconnect && lifecycle_ == lifecycle::connected
    && !reason_ && !first_failure_.code && guard_;
}

// The reason has come, or did not in time.
void queue_pair_core::finish_flushed(const error_code& reason)
{
  while (operation* op = flushed_.pop_front())
    finish(op, op->result.ec ? op->result.ec : reason);
}

} // namespace rdma::detail
