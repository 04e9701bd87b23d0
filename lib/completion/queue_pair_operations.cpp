//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/queue_pair_core.hpp"

#include "completion/completion_queue_impl.hpp"
#include "completion/request_results.hpp"
#include "completion/user_buffers.hpp"
#include "resource/window_impl.hpp"
#include "verbs/software/software.hpp"

#include <boost/asio/error.hpp>

#include <new>
#include <utility>

// From the submission of an operation to its completion.

namespace rdma::detail {
namespace {

constexpr std::uint8_t rnr_retry_infinite = 7; // IBA 9.7.5.2.8

} // namespace

// Checks the request and stores its buffers in op. May throw bad_alloc.
bool queue_pair_core::admit(
  operation* op, const user_buffers& buffers, error_code& ec, const char*& lacking)
{
  begin_request(*op);
  if (!check_features(op->what.kind, limits_, ec, lacking))
    return false;
  switch (op->what.kind)
  {
  case request_kind::batch:
    if (!check_batch(*op, limits_, ec, lacking))
      return false;
    posting_.prepare_batch(op);
    return true;
  case request_kind::fetch_add:
  case request_kind::compare_exchange:
    if (check_atomic(op->what, limits_, ec))
      posting_.prepare_atomics(context(), ec);
    return !ec;
  case request_kind::invalidate:
    return true;
  case request_kind::bind_window:
    if (!add_buffers(*op, buffers, limits_, ec) || !check_window(*op, limits_, ec))
      return false;
    op->window->may_open_on(op->registrations[0]);
    return true;
  default:
    if (!add_buffers(*op, buffers, limits_, ec))
      return false;
    // The decision for inline data may have been made for another device.
    if (buffers.inlined() && !posting_.goes_inline(op))
      ec = error::not_registered;
    return !ec && check_remote(op->what, op->bytes, limits_, ec);
  }
}

inline void queue_pair_core::post_admitted(operation* op, mutex_held held)
{
  if (!posting_.goes_inline(op)) // otherwise the device has copied them when it has been posted
    retain_buffers(op);
  posting_.start(op, held);
  // With the mutex held: without it, a handler could run elsewhere and destroy this object.
  completions_->kick();
}

void queue_pair_core::submit(operation* op, const buffer_list& buffers)
{
  {
    const std::lock_guard lock(mutex_);
    if (connection_.state() == connection_state::connected
      && is_plain_request(op->what.kind, buffers, limits_))
    {
      // The short way through admit().
      error_code ec;
      begin_request(*op);
      if (add_buffer(*op, *buffers.begin(), nullptr, false, limits_, ec)
        && check_remote(op->what, op->bytes, limits_, ec))
        post_admitted(op, lock);
      else
        finish(op, ec);
      return;
    }
  }
  // Without the mutex, because registering takes time.
  submit_prepared(op,
    user_buffers(*domain_, op->what.kind, buffers, posting_.inline_max(op->what.kind), copy_max_));
}

void queue_pair_core::submit_prepared(operation* op, const user_buffers& buffers)
{
  const bool receive = op->what.kind == request_kind::receive;
  std::unique_lock lock(mutex_);
  if (connection_.state() == connection_state::abandoned)
  {
    lock.unlock();
    op->complete(op, false, false);
    return;
  }
  error_code ec = connection_.submit_error(receive);
  if (ec && connection_.state() == connection_state::broken && posting_.native() != nullptr
    && posting_.posted(op->what.kind) != 0)
    return posting_.wait(op); // ends in turn
  if (!ec && posting_.native() == nullptr)
    ec = connection_.flush_reason(); // destroyed, because it did not flush
  if (!ec)
    try
    {
      const char* lacking = nullptr;
      if (!admit(op, buffers, ec, lacking) && ec == buffers.obstacle()
        && ec.category() == boost::system::system_category())
        lacking = "cannot register its buffers";
      if (lacking != nullptr)
        refuse(name_of(op->what.kind), ec, lacking);
    }
    catch (const std::bad_alloc&)
    {
      if (!ec) // otherwise only the text for diagnose() is missing
        ec = boost::asio::error::no_memory;
    }
  if (ec)
    finish(op, ec);
  else
    submit_admitted(op, lock);
}

void queue_pair_core::submit_admitted(operation* op, mutex_held held)
{
  // Not every device flushes a receive that is posted in the error state (rxe).
  if (connection_.in_error())
    start_flush_timer(held);
  if (op->what.kind != request_kind::receive || connection_.device_final())
    return post_admitted(op, held);
  posting_.wait(op);
  completions_->kick();
}

void queue_pair_core::take(const ibv_wc* completions, std::size_t count, operation_list& ended)
{
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i)
    if (operation* op = take_one(completions[i], lock))
      ended.push_back(op);
}

// Returns the operation that the completion ends, or null.
operation* queue_pair_core::take_one(const ibv_wc& wc, mutex_held held)
{
  const auto name = work_request_name::of(wc.wr_id);
  operation* op = find_posted(name);
  if (op == nullptr || wc.qp_num != identity_.queue_pair_number)
    return nullptr;
  posting_.completed(op, name.last);
  // The short way through take_unusual().
  if (wc.status == IBV_WC_SUCCESS && connection_.state() == connection_state::connected
    && op->credits == 0 && op->unposted == 0 && !op->result.ec)
  {
    const request_kind kind = op->what.kind;
    set_result(*op, wc, posting_, device_index_);
    posting_.finished(op);
    posting_.post_waiting(kind, held);
    // Last, because GCC loads op->what again after an atomic operation.
    completions_->counters().completed(kind, op->result.received.size);
    return op;
  }
  return take_unusual(op, wc, name.last, held);
}

// A failure, a completion that does not end its operation, or one while the queue pair is not
// connected.
operation* queue_pair_core::take_unusual(
  operation* op, const ibv_wc& wc, bool last, mutex_held held)
{
  // The message that confirms the path is not of the user, and not only the thread that polls calls
  // this function for it.
  completion_counters* const counters =
    wc.wr_id != confirmation_ ? &completions_->counters() : nullptr;
  if (counters != nullptr && wc.status != IBV_WC_SUCCESS)
    counters->failed(wc.status);
  if (wc.status == IBV_WC_SUCCESS)
  {
    if (connection_.is_initial() && guard_ && device_->traits().connection_manager_moves)
      apply(connection_event::connected, held); // before the connection manager reports it
    if (op->credits == 0 && op->unposted == 0)
    {
      set_result(*op, wc, posting_, device_index_);
      if (counters != nullptr)
        counters->completed(op->what.kind, op->result.received.size);
    }
  }
  else if (wc.status == IBV_WC_WR_FLUSH_ERR && reason_is_to_come())
  {
    if (last && op->credits == 0)
    {
      posting_.drop_rest(op);
      op->stage(operation::state::flushed);
      flushed_.push_back(op);
    }
    start_flush_timer(held);
    return nullptr;
  }
  else
    fill_failure(op, wc, held);
  if (!last)
    return nullptr; // the buffers of a failed batch are free when its last request has been flushed
  if (op->result.ec)
    posting_.drop_rest(op);
  const bool ended = posting_.is_over(op);
  const request_kind kind = op->what.kind;
  if (ended)
    posting_.finished(op);
  if (connection_.reason())
    posting_.withdraw_in_turn(connection_.reason()); // also ends op if only its rest is left
  else
    posting_.post_waiting(kind, held);
  if (connection_.state() == connection_state::draining)
    note_if_drained(held);
  return ended ? op : nullptr;
}

void queue_pair_core::fill_failure(operation* op, const ibv_wc& wc, mutex_held held)
{
  const bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
  const error_code ec =
    flushed ? connection_.flush_reason() : make_error_code(static_cast<wc_status>(wc.status));
  if (!op->result.ec)
    op->result.ec = ec;
  if (!flushed)
    note_failure(ec, name_of(op->what.kind), {}, wc.vendor_err);
  apply(connection_event::failed, held, ec);
}

send_progress queue_pair_core::progress_of_sends() const
{
  const std::lock_guard lock(mutex_);
  return {posting_.posted(request_kind::send) != 0, posting_.sends_completed()};
}

std::optional<queue_pair_core::missing_receive> queue_pair_core::find_missing_receive() const
{
  const std::lock_guard lock(mutex_);
  if (!connection_.is_connected())
    return std::nullopt;
  missing_receive result{identity_.queue_pair_number, remote_.queue_pair_number, false};
  if (device_->kind() == device_kind::software)
  {
    result.certain = software::receiver_not_ready(posting_.native());
    return result.certain ? std::optional(result) : std::nullopt;
  }
  if (options_.rnr_retry_count != rnr_retry_infinite)
    return std::nullopt; // the send fails
  for (std::uint32_t i = 0; const operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted && may_take_receive(op->what.kind))
      return result;
  return std::nullopt;
}

// Returns true while the connection manager's reason for a flush is outstanding.
bool queue_pair_core::reason_is_to_come() const noexcept
{
  return device_->traits().flushes_before_disconnect && connection_.carries()
    && !first_failure_.code && guard_;
}

} // namespace rdma::detail
