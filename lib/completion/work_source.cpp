//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/detail/work_source.hpp"

#include "completion/completion_queue_impl.hpp"
#include "completion/provided_buffers.hpp"
#include "completion/request_kinds.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace rdma::detail {
namespace {

constexpr std::uint32_t slots_max = 1u << 15; // what a wr_id can name
constexpr std::uint32_t chunk_slots_max = 8;

// Which chunk a slot is in, and that chunk's first slot. Chunks are of 2, 2, 4, 8, 8 and so on: most of many
// connections have an operation or two under way, and a slot is more than half a KiB.
struct place
{
  std::uint32_t chunk;
  std::uint32_t first;

  explicit constexpr place(std::uint32_t index) noexcept
    : chunk(index < chunk_slots_max ? static_cast<std::uint32_t>(std::bit_width(index / 2)) : index / chunk_slots_max + 2)
    , first(index >= chunk_slots_max ? index / chunk_slots_max * chunk_slots_max : chunk == 0 ? 0 : 1u << chunk)
  {
  }

  // As many as there are before it, within bounds.
  [[nodiscard]] constexpr std::uint32_t slots() const noexcept { return std::clamp(first, 2u, chunk_slots_max); }
};

static_assert(place(1).chunk == 0 && place(2).chunk == 1 && place(3).first == 2 && place(7).first == 4
  && place(7).chunk == 2 && place(8).chunk == 3 && place(16).chunk == 4 && place(23).first == 16);

} // namespace

// Slots with room for their scatter/gather lists; never moved, never freed before the source.
struct work_source::chunk
{
  chunk(std::uint32_t count, std::uint32_t max_sge)
    : slots(std::make_unique<operation[]>(count))
    , pieces(std::make_unique<ibv_sge[]>(std::size_t{count} * max_sge))
    , registrations(std::make_unique<registration*[]>(std::size_t{count} * max_sge))
    , origins(std::make_unique<void*[]>(std::size_t{count} * max_sge))
  {
  }

  std::unique_ptr<operation[]> slots;
  std::unique_ptr<ibv_sge[]> pieces;
  std::unique_ptr<registration*[]> registrations;
  std::unique_ptr<void*[]> origins;
};

work_source::work_source(std::shared_ptr<completion_queue_impl> completions,
  std::shared_ptr<domain_impl> domain, std::uint32_t max_sge, std::size_t copy_max, vicinity executor)
  : domain_(std::move(domain))
  , completions_(std::move(completions))
  , max_sge_(max_sge)
  , copy_max_(copy_max)
  , executor_(executor)
  , epoch_(completions_->next_epoch())
{
}

work_source::~work_source() = default;

operation* work_source::slot(std::uint32_t index) const noexcept
{
  const place at(index);
  return at.chunk < chunks_.size() ? &chunks_[at.chunk]->slots[index - at.first] : nullptr;
}

operation* work_source::claim()
{
  std::lock_guard lock(mutex_);
  if (vacant_ == nullptr)
  {
    const std::uint32_t first = slots_;
    if (first == slots_max)
      return nullptr;
    const std::uint32_t count = place(first).slots();
    chunks_.push_back(std::make_unique<chunk>(count, max_sge_));
    slots_ += count;
    chunk& fresh = *chunks_.back();
    for (std::uint32_t i = count; i-- > 0;)
    {
      operation& op = fresh.slots[i];
      op.source = this;
      op.index = first + i;
      op.generation = epoch_;
      op.pieces = &fresh.pieces[std::size_t{i} * max_sge_];
      op.registrations = &fresh.registrations[std::size_t{i} * max_sge_];
      op.origins = &fresh.origins[std::size_t{i} * max_sge_];
      op.next = vacant_;
      vacant_ = &op;
    }
  }
  operation* op = vacant_;
  vacant_ = op->next;
  op->next = nullptr;
  op->stage = operation::state::claimed;
  op->at_once = false;
  op->bounced = false;
  op->result = {};
  // Closed and drained, this has left the completion queue, which is still to tell about what comes now.
  if (claimed_++ == 0 && !registered_)
    self_ = shared_from_this();
  if (counts_)
    completions_->work_started();
  return op;
}

void work_source::release(operation* op) noexcept
{
  op->what = {}; // a window goes before the region that it may be bound to, which could not be deregistered
  drop_buffers(op);
  bool leave = false;
  bool counted = false;
  std::shared_ptr<completion_queue_impl> completions; // outlives this source
  std::shared_ptr<work_source> self;
  std::uint32_t source_index = 0;
  {
    std::lock_guard lock(mutex_);
    completions = completions_;
    source_index = source_index_;
    counted = counts_;
    op->stage = operation::state::vacant;
    op->generation++;
    op->handler = nullptr;
    op->next = vacant_;
    vacant_ = op;
    if (--claimed_ == 0)
    {
      leave = drained();
      self = std::move(self_);
    }
  }
  if (leave)
    completions->remove(source_index);
  if (counted)
    completions->work_finished();
}

void work_source::count_as_work(bool counts) noexcept
{
  const std::lock_guard lock(mutex_);
  if (std::exchange(counts_, counts) == counts || claimed_ == 0)
    return;
  if (!counts)
    return completions_->work_finished(claimed_);
  completions_->work_started(claimed_);
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
  if (op == nullptr || op->generation != generation)
    return;
  if (op->stage == operation::state::waiting)
  {
    unlink(op);
    finish(op, asio::error::operation_aborted);
  }
  else if (op->stage == operation::state::posted
    && (type & asio::cancellation_type::terminal) != asio::cancellation_type::none)
  {
    // The device may touch the buffers until it has flushed the work request (IBA 10.3.1.7).
    op->result.ec = asio::error::operation_aborted;
    terminate();
  }
}

void work_source::end_in_child() noexcept
{
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage == operation::state::waiting)
    {
      unlink(op);
      finish(op, error::forked);
    }
    else if (op->stage == operation::state::posted)
      finish(op, error::forked);
}

void work_source::finish(operation* op, const error_code& ec)
{
  op->stage = operation::state::done;
  op->result.ec = ec;
  op->result.received = {};
  completions_->defer(op);
}

bool work_source::adopt(
  operation* op, const provided_buffers& buffers, std::size_t device_index, error_code& ec)
{
  op->piece_count = 0;
  op->bytes = 0;
  if (buffers.overflow())
    ec = error::too_many_buffers;
  else
    ec = buffers.obstacle();
  if (ec)
    return false;
  for (std::size_t i = 0; i < buffers.size(); ++i)
  {
    const const_buffer& piece = buffers[i];
    if (piece.size() == 0)
      continue; // a length of 0 means 2^31 bytes to some devices
    registration* owner = piece.registration();
    if (owner == nullptr ? !buffers.inlined() : owner->domain != domain_.get())
      ec = error::wrong_context;
    else if (owner != nullptr && owner->read_only && receives_into(op->what.kind))
      ec = error::read_only;
    else if (op->piece_count == max_sge_)
      ec = error::too_many_buffers;
    else if (piece.size() > completions_->device().port().max_msg_sz - op->bytes)
      ec = error::message_too_large;
    if (ec)
    {
      drop_buffers(op);
      return false;
    }
    if (owner != nullptr)
      owner->retain();
    op->registrations[op->piece_count] = owner;
    op->pieces[op->piece_count] = {reinterpret_cast<std::uintptr_t>(piece.data()),
      static_cast<std::uint32_t>(piece.size()), owner != nullptr ? owner->local_keys[device_index] : 0};
    op->origins[op->piece_count] = buffers.origin(i);
    op->bounced = op->bounced || buffers.origin(i) != nullptr;
    op->piece_count++;
    op->bytes += piece.size();
  }
  if (op->bytes == 0 && !buffers.no_data())
  {
    ec = error::empty_buffer;
    return false;
  }
  return true;
}

void work_source::drop_buffers(operation* op) noexcept
{
  for (std::uint16_t i = 0; i < op->piece_count; ++i)
    if (op->registrations[i] != nullptr)
      op->registrations[i]->release();
  op->piece_count = 0;
  for (registration* each : op->batch_registrations)
    each->release();
  op->batch_registrations.clear(); // its room stays for the next batch in this slot
}

void work_source::deliver(operation* op) noexcept
{
  const outcome& result = op->result;
  if (result.ec || result.received.written) // what was written lies elsewhere
    return;
  std::size_t left = result.received.size;
  for (std::uint16_t i = 0; i < op->piece_count && left != 0; ++i)
  {
    const std::size_t n = std::min<std::size_t>(left, op->pieces[i].length);
    if (op->origins[i] != nullptr)
      std::memcpy(op->origins[i], reinterpret_cast<const void*>(op->pieces[i].addr), n);
    left -= n;
  }
}

std::uint64_t work_source::work_request_id(const operation* op, bool last) const noexcept
{
  return (std::uint64_t{source_index_} << 48) | (std::uint64_t{op->index} << 33)
    | (std::uint64_t{last} << 32) | op->generation;
}

void work_source::destroy_operations() noexcept
{
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage != operation::state::vacant && op->handler != nullptr)
      op->complete(op, false, false);
}

} // namespace rdma::detail
