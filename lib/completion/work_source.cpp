//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/work_source.hpp"

#include "completion/batch_requests.hpp"
#include "completion/chunk_position.hpp"
#include "completion/completion_queue_impl.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rdma::detail {
namespace {

using place = chunk_position<2>; // many connections have one or two operations in progress

// The spare slot of the innermost handler that this thread is calling, or null.
constinit thread_local work_source::spare_slot* spare = nullptr;

} // namespace

// Slots with space for their scatter/gather lists. They are not moved, and freed with the source.
struct work_source::chunk
{
  chunk(std::uint32_t count, std::uint32_t max_sge)
    : slots(std::make_unique<operation[]>(count))
    , sges(std::make_unique<ibv_sge[]>(std::size_t{count} * max_sge))
    , registrations(std::make_unique<registration*[]>(std::size_t{count} * max_sge))
    , origins(std::make_unique<void*[]>(std::size_t{count} * max_sge))
  {
  }

  std::unique_ptr<operation[]> slots;
  std::unique_ptr<ibv_sge[]> sges;
  std::unique_ptr<registration*[]> registrations;
  std::unique_ptr<void*[]> origins;
};

work_source::work_source(std::shared_ptr<completion_queue_impl> completions,
  std::shared_ptr<domain_impl> domain, std::uint32_t max_sge, std::size_t copy_max,
  executor_relation executor)
  : domain_(std::move(domain))
  , completions_(std::move(completions))
  , max_sge_(max_sge)
  , copy_max_(copy_max)
  , executor_(executor)
  , io_executor_(completions_->executor())
  , epoch_(completions_->next_epoch())
{
}

work_source::~work_source()
{
  for (const auto& each : chunks_)
    delete each.load(std::memory_order_relaxed);
}

operation* work_source::slot(std::uint32_t index) const noexcept
{
  const place at(index);
  const chunk* holder =
    at.chunk < chunks_.size() ? chunks_[at.chunk].load(std::memory_order_acquire) : nullptr;
  return holder != nullptr ? &holder->slots[at.offset] : nullptr;
}

void work_source::guard_slots(bool yes, mutex_held) noexcept
{
  slot_ledger::entry now = ledger_.read();
  while (!ledger_.replace(now, now.with_guarded(yes)))
  {
  }
}

// A claim is counted as work before the ledger changes, and a release after it: the completion
// queue's count is never too low.
work_source::slot_found work_source::pop_vacant(operation*& op, bool holds_mutex) noexcept
{
  slot_ledger::entry now = ledger_.read();
  completion_queue_impl* counted = nullptr; // by this call
  slot_found found = slot_found::yes;
  for (;;)
  {
    if (now.guarded() && !holds_mutex)
      found = slot_found::guarded;
    else if (now.top() == 0)
      found = slot_found::none_vacant;
    if (found != slot_found::yes)
      break;
    if (counted == nullptr && now.counts() && now.claimed() == 0)
    {
      counted = completions_.get();
      counted->work_started();
    }
    op = slot(now.top() - 1u);
    if (ledger_.replace(now, now.with_claimed(op->next_vacant.load(std::memory_order_relaxed))))
      break;
  }
  if (counted != nullptr && (found != slot_found::yes || !now.counts() || now.claimed() != 0))
    counted->work_finished();
  return found;
}

operation* work_source::claim()
{
  operation* op = take_spare();
  if (op == nullptr && pop_vacant(op, false) != slot_found::yes)
    op = claim_guarded();
  if (op != nullptr)
  {
    op->next = nullptr;
    op->stage(operation::state::claimed);
    op->at_once = false;
    op->bounced = false;
    op->sge_count = 0;
    op->result.ec = {};
    op->result.received = {};
    op->result.value = 0;
  }
  return op;
}

inline void work_source::empty(operation* op) noexcept
{
  if (op->holds)
    drop(op);
  op->handler = nullptr;
  op->generation(op->generation() + 1);
  op->stage(operation::state::vacant);
}

// Releases what the operation holds: its window, its buffers, and those of its batch.
void work_source::drop(operation* op) noexcept
{
  op->holds = false;
  // A window goes before the region that it may be bound to, which could not be deregistered.
  op->window.reset();
  if (std::exchange(op->retains, false))
    for (std::uint16_t i = 0; i < op->sge_count; ++i)
      if (op->registrations[i] != nullptr)
        op->registrations[i]->release();
  for (registration* each : op->batch_registrations)
    each->release();
  op->batch_registrations.clear(); // keeps its capacity for the next batch in this slot
  if (op->kept)
    op->kept->requests.clear();
}

work_source::spare_slot::spare_slot(operation* op) noexcept
  : op_(op)
  , outer_(std::exchange(spare, this))
{
  empty(op);
}

work_source::spare_slot::~spare_slot()
{
  spare = outer_;
  if (op_ != nullptr)
    op_->source->release_empty(op_);
}

operation* work_source::take_spare() noexcept
{
  if (spare == nullptr || spare->op_ == nullptr || spare->op_->source != this)
    return nullptr;
  return std::exchange(spare->op_, nullptr);
}

void work_source::release_spare() noexcept
{
  if (operation* op = take_spare())
    release_empty(op);
}

operation* work_source::claim_guarded()
{
  const std::lock_guard lock(mutex_);
  operation* op = nullptr;
  while (pop_vacant(op, true) != slot_found::yes)
  {
    if (chunk_count_ == chunks_.size())
      return nullptr;
    grow(lock);
  }
  // After close() and drained(), the completion queue does not own this object any more. It must
  // still complete this operation.
  if (!registered_ && !self_)
    self_ = shared_from_this();
  return op;
}

// Adds vacant slots.
void work_source::grow(mutex_held)
{
  const std::uint32_t count = place::size_of(chunk_count_);
  const std::uint32_t first = chunk_count_ == 0 ? 0 : count;
  auto made = std::make_unique<chunk>(count, max_sge_);
  for (std::uint32_t i = 0; i < count; ++i)
  {
    operation& op = made->slots[i];
    op.source = this;
    op.index = first + i;
    op.generation(epoch_);
    op.sges = &made->sges[std::size_t{i} * max_sge_];
    op.registrations = &made->registrations[std::size_t{i} * max_sge_];
    op.origins = &made->origins[std::size_t{i} * max_sge_];
    op.next_vacant.store(static_cast<std::uint16_t>(first + i + 2), std::memory_order_relaxed);
  }
  operation& last = made->slots[count - 1];
  chunks_[chunk_count_++].store(made.release(), std::memory_order_release);
  slot_ledger::entry now = ledger_.read();
  do
    last.next_vacant.store(now.top(), std::memory_order_relaxed);
  while (!ledger_.replace(now, now.with_more(static_cast<std::uint16_t>(first + 1))));
}

void work_source::release(operation* op) noexcept
{
  empty(op);
  release_empty(op);
}

void work_source::release_empty(operation* op) noexcept
{
  slot_ledger::entry now = ledger_.read();
  for (;;)
  {
    if (now.guarded())
      return release_guarded(op);
    completion_queue_impl* completions = completions_.get(); // this object may be destroyed below
    op->next_vacant.store(now.top(), std::memory_order_relaxed);
    if (!ledger_.replace(now, now.with_released(static_cast<std::uint16_t>(op->index + 1))))
      continue;
    if (now.counts() && now.claimed() == 1)
      completions->work_finished();
    return;
  }
}

void work_source::release_guarded(operation* op) noexcept
{
  bool leave = false;
  std::shared_ptr<completion_queue_impl> completions; // outlives this object
  std::shared_ptr<work_source> self;
  std::uint32_t source_index = 0;
  slot_ledger::entry now = ledger_.read();
  {
    const std::lock_guard lock(mutex_);
    completions = completions_;
    source_index = source_index_;
    do
      op->next_vacant.store(now.top(), std::memory_order_relaxed);
    while (!ledger_.replace(now, now.with_released(static_cast<std::uint16_t>(op->index + 1))));
    if (now.claimed() == 1)
    {
      leave = drained(lock);
      self = std::move(self_);
    }
  }
  if (leave)
    completions->remove(source_index);
  if (now.counts() && now.claimed() == 1)
    completions->work_finished();
}

void work_source::leave_if_drained(std::unique_lock<std::mutex> lock) noexcept
{
  const bool leave = claimed() == 0 && drained(lock);
  lock.unlock();
  if (leave)
    completions_->remove(source_index_);
}

void work_source::count_as_work(bool counts) noexcept
{
  const std::lock_guard lock(mutex_);
  slot_ledger::entry now = ledger_.read();
  if (now.counts() == counts)
    return;
  if (counts)
    completions_->work_started(); // see pop_vacant()
  while (!ledger_.replace(now, now.with_counts(counts)))
  {
  }
  if (counts == (now.claimed() == 0))
    completions_->work_finished();
  else if (counts)
    completions_->kick();
}

void work_source::cancel(
  std::uint32_t index, std::uint32_t generation, boost::asio::cancellation_type type)
{
  namespace asio = boost::asio;
  if (type == asio::cancellation_type::none)
    return;
  std::lock_guard lock(mutex_);
  operation* op = slot(index);
  if (op == nullptr || op->generation() != generation)
    return;
  if (op->stage() == operation::state::waiting)
  {
    unlink(op, lock);
    finish(op, asio::error::operation_aborted);
  }
  else if (op->stage() == operation::state::posted
    && (type & asio::cancellation_type::terminal) != asio::cancellation_type::none)
  {
    // The device may touch the buffers until it has flushed the work request (IBA 10.3.1.7).
    op->result.ec = asio::error::operation_aborted;
    terminate(lock);
  }
}

void work_source::end_in_child() noexcept
{
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::waiting)
    {
      unlink(op, lock);
      finish(op, error::forked);
    }
    else if (op->stage() == operation::state::posted)
      finish(op, error::forked);
}

void work_source::finish(operation* op, const error_code& ec)
{
  op->stage(operation::state::done);
  op->result.ec = ec;
  op->result.received = {};
  op->result.bound = {}; // may be that of an earlier operation in this slot
  completions_->defer(op);
}

void work_source::retain_buffers(operation* op) noexcept
{
  if (std::exchange(op->retains, true))
    return;
  op->holds = true;
  for (std::uint16_t i = 0; i < op->sge_count; ++i)
    if (op->registrations[i] != nullptr)
      op->registrations[i]->retain();
}

void work_source::deliver(operation* op) noexcept
{
  const outcome& result = op->result;
  if (result.ec || result.received.written) // the bytes are not in the receive's buffers
    return;
  std::size_t left = result.received.size;
  for (std::uint16_t i = 0; i < op->sge_count && left != 0; ++i)
  {
    const std::size_t n = std::min<std::size_t>(left, op->sges[i].length);
    if (op->origins[i] != nullptr)
      std::memcpy(op->origins[i], reinterpret_cast<const void*>(op->sges[i].addr), n);
    left -= n;
  }
}

void work_source::destroy_operations() noexcept
{
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() != operation::state::vacant && op->handler != nullptr)
      op->complete(op, false, false);
}

} // namespace rdma::detail
