//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/posting.hpp"

#include "boost_rdma/batch.hpp"
#include "resource/window_impl.hpp"

#include <boost/asio/error.hpp>
#include <boost/endian/conversion.hpp>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

namespace rdma::detail {
namespace {

[[gnu::always_inline]] inline void describe(
  ibv_send_wr& wr, const request& what, std::size_t device_index)
{
  wr.opcode = opcode_of(what.kind);
  if (what.kind == request_kind::send_with_invalidate || what.kind == request_kind::invalidate)
    wr.invalidate_rkey = what.immediate;
  else
    wr.imm_data = boost::endian::native_to_big(what.immediate);
  if (is_one_sided(what.kind))
  {
    wr.wr.rdma.remote_addr = what.remote.address();
    wr.wr.rdma.rkey = what.remote.key(device_index);
  }
}

} // namespace

posting::posting(work_source& owner, std::uint32_t send_depth, std::uint32_t receive_depth)
  : owner_(owner)
  , sends_{send_depth}
  , receives_{receive_depth}
{
}

void posting::open(
  ibv_qp* native, std::size_t device_index, std::uint32_t inline_max, bool signals_each) noexcept
{
  signals_each_ = signals_each;
  native_ = native;
  device_index_ = device_index;
  inline_max_.store(inline_max, std::memory_order_relaxed);
  sends_.posted = 0;
}

void posting::prepare_batch(operation* op)
{
  const batch& all = *op->what.batch;
  op->holds = true;
  op->unposted = static_cast<std::uint32_t>(all.size());
  if (all.size() <= sends_.depth)
  {
    op->part = op->unposted;
    scratch_.requests.reserve(all.size());
    scratch_.sges.reserve(all.buffers().size());
  }
  else // two parts fit in the queue: the device has work while the next part is posted
  {
    op->part = std::max(sends_.depth / 2, 1u);
    keep_requests(op);
  }
  op->batch_registrations.reserve(all.buffers().size());
  registration* last = nullptr; // the buffers of most batches are in one region
  for (const const_buffer& buffer : all.buffers())
    if (buffer.size() != 0 && buffer.registration() != last)
    {
      last = buffer.registration();
      last->retain();
      op->batch_registrations.push_back(last);
    }
}

void posting::prepare_atomics(const rdma::context& context, error_code& ec)
{
  if (atomic_results_.size() != 0)
    return;
  free_atomic_results_.resize(sends_.depth);
  atomic_results_ = context.allocate(std::size_t{8} * sends_.depth, ec);
  for (std::uint32_t i = sends_.depth; !ec && i-- > 0;)
    free_atomic_results_[free_atomic_count_++] = static_cast<std::uint16_t>(i);
}

// op was not posted because of `error`, or because there is no room if that is 0.
void posting::defer(operation* op, int error)
{
  if (error == 0 && op->what.kind == request_kind::batch)
    try
    {
      keep_requests(op);
    }
    catch (const std::bad_alloc&)
    {
      error = ENOMEM;
    }
  if (error != 0)
    owner_.finish(op, error_code(error, boost::system::system_category()));
  else
    wait(op);
}

void posting::wait(operation* op)
{
  op->what.batch = nullptr;
  work_source::retain_buffers(op);
  op->stage(operation::state::waiting);
  queue_of(op->what.kind).waiting.push_back(op);
}

// Makes a batch independent of the rdma::batch, which its user may destroy.
void posting::keep_requests(operation* op)
{
  if (!op->kept)
    op->kept = std::make_unique<batch_requests>();
  if (op->kept->requests.empty())
    describe_batch(op, *op->kept);
}

int posting::post_receive(operation* op)
{
  ibv_recv_wr wr{};
  wr.wr_id = owner_.work_request_id(op, true);
  wr.sg_list = op->sges;
  wr.num_sge = op->sge_count;
  ibv_recv_wr* bad = nullptr;
  return shared_ != nullptr ? ibv_post_srq_recv(shared_, &wr, &bad)
                            : ibv_post_recv(native_, &wr, &bad);
}

[[gnu::always_inline]] inline int posting::post_single(operation* op)
{
  const request& what = op->what;
  ibv_send_wr& wr = single_;
  wr.wr_id = owner_.work_request_id(op, true);
  wr.sg_list = op->sges;
  wr.num_sge = op->sge_count;
  wr.send_flags = IBV_SEND_SIGNALED;
  describe(wr, what, device_index_);
  ibv_sge atomic_result;
  if (is_atomic(what.kind))
    describe_atomic(wr, op, atomic_result);
  else if (what.kind == request_kind::bind_window)
  {
    wr.bind_mw.mw = op->window->native;
    op->what.immediate = wr.bind_mw.rkey = ibv_inc_rkey(op->window->native->rkey);
    wr.bind_mw.bind_info = {op->registrations[0]->natives[device_index_], op->sges[0].addr,
      op->sges[0].length, static_cast<unsigned>(what.window_rights)};
    wr.num_sge = 0;
  }
  else if (goes_inline(op))
    wr.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(native_, &wr, &bad);
  if (error == 0 && is_atomic(what.kind))
    --free_atomic_count_;
  return error;
}

// Returns true if the device took it, or the next part of it. Otherwise `error` is the reason, or 0
// if there is no room yet.
bool posting::post(operation* op, int& error, mutex_held held)
{
  error = 0;
  const bool receive = op->what.kind == request_kind::receive;
  const std::uint32_t count = std::min(op->part, op->unposted);
  queue& to = queue_of(op->what.kind);
  if (to.posted + count > to.depth || (!receive && partial_ != nullptr && partial_ != op))
    return false;
  if (receive)
    error = post_receive(op);
  else
    error = op->what.kind == request_kind::batch ? post_batch(op, count, held) : post_single(op);
  if (error == 0)
  {
    op->stage(operation::state::posted);
    to.posted += count;
    op->credits += count;
    op->unposted -= count;
    if (op->unposted != 0 && !op->result.ec)
      partial_ = op;
    else
      drop_rest(op);
    return true;
  }
  // ENOMEM reports a full queue: the device may count differently.
  if (error == ENOMEM && to.posted != 0)
    error = 0;
  return false;
}

void posting::describe_atomic(ibv_send_wr& wr, operation* op, ibv_sge& result) const
{
  const request& what = op->what;
  op->atomic_result = free_atomic_results_[free_atomic_count_ - 1];
  result = {
    reinterpret_cast<std::uintptr_t>(atomic_results_.data()) + std::size_t{8} * op->atomic_result,
    8, mutable_buffer(atomic_results_).registration()->local_keys[device_index_]};
  wr.sg_list = &result;
  wr.num_sge = 1;
  wr.wr.atomic.remote_addr = what.remote.address();
  wr.wr.atomic.rkey = what.remote.key(device_index_);
  wr.wr.atomic.compare_add = what.compare_or_add;
  wr.wr.atomic.swap = what.swap;
}

void posting::describe_batch(const operation* op, batch_requests& into) const
{
  const batch& all = *op->what.batch;
  into.requests.clear();
  into.requests.resize(all.size());
  into.sges.clear();
  into.sges.reserve(all.buffers().size()); // before pointers into it are taken
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    const batch::entry& each = all.entries()[i];
    ibv_send_wr& wr = into.requests[i];
    wr.wr_id = owner_.work_request_id(op, false);
    wr.next = &wr + 1; // post_batch() ends the list
    wr.sg_list = into.sges.data() + into.sges.size();
    std::size_t bytes = 0;
    for (std::uint32_t k = 0; k < each.sge_count; ++k)
    {
      const const_buffer& buffer = all.buffers()[each.first_buffer + k];
      if (buffer.size() == 0)
        continue;
      into.sges.push_back(
        {reinterpret_cast<std::uintptr_t>(buffer.data()), static_cast<std::uint32_t>(buffer.size()),
          buffer.registration()->local_keys[device_index_]});
      bytes += buffer.size();
      wr.num_sge++;
    }
    describe(wr, each.what, device_index_);
    if (may_go_inline(each.what.kind) && bytes <= inline_max_.load(std::memory_order_relaxed))
      wr.send_flags |= IBV_SEND_INLINE;
    if (signals_each_)
      wr.send_flags |= IBV_SEND_SIGNALED;
  }
}

// Posts the next `count` work requests. Only the last one of them is signalled, or each.
int posting::post_batch(operation* op, std::uint32_t count, mutex_held held)
{
  const bool kept = op->kept && !op->kept->requests.empty();
  if (!kept)
    describe_batch(op, scratch_);
  auto& requests = (kept ? *op->kept : scratch_).requests;
  ibv_send_wr* const first = requests.data() + (requests.size() - op->unposted);
  ibv_send_wr& last = first[count - 1];
  last.wr_id = owner_.work_request_id(op, true);
  last.next = nullptr;
  last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(native_, first, &bad);
  if (error == 0 || bad == first)
    return error;
  // The device has an unsignalled part of it: no completion would report its end. All was checked
  // before, so the device contradicts itself. The queue pair ends, and the batch ends when it has
  // been destroyed.
  op->result.ec.assign(error, boost::system::system_category());
  owner_.terminate(held);
  return 0;
}

// Posts as much as there is room for of the batch that is posted in part. Returns true if nothing
// of it is left, so that other operations may follow.
bool posting::post_rest(mutex_held held)
{
  while (operation* op = partial_)
  {
    int error = 0;
    if (native_ != nullptr && post(op, error, held))
      continue;
    if (error == 0)
      return false;
    // The device refuses a request that satisfies its limits. The earlier parts have been carried
    // out, as in a batch that fails: the queue pair ends.
    partial_ = nullptr;
    op->result.ec.assign(error, boost::system::system_category());
    owner_.terminate(held);
    if (op->credits == 0) // otherwise its last completion ends it
      owner_.finish(op, op->result.ec);
  }
  return true;
}

void posting::post_all_waiting(request_kind kind, mutex_held held)
{
  if (kind != request_kind::receive && !post_rest(held))
    return;
  operation_list& list = queue_of(kind).waiting;
  while (operation* op = list.front())
  {
    int error = 0;
    if ((native_ != nullptr || shared_ != nullptr) && post(op, error, held))
    {
      list.erase(op); // posting does not touch the list
      if (kind != request_kind::receive && !post_rest(held))
        return;
      continue;
    }
    if (error == 0)
      return;
    list.erase(op);
    owner_.finish(op, error_code(error, boost::system::system_category()));
  }
}

void posting::completed(operation* op, bool last) noexcept
{
  // The parts of a batch complete in order, and all but its last one have the same size.
  const std::uint32_t freed = last ? std::min(op->part, op->credits) : 0;
  queue_of(op->what.kind).posted -= freed;
  op->credits -= freed;
  if (op->what.kind != request_kind::receive)
    ++sends_completed_;
}

void posting::withdraw(operation_list& list, const error_code& reason)
{
  while (operation* op = list.pop_front())
    owner_.finish(op, reason);
}

void posting::withdraw_in_turn(const error_code& reason)
{
  if (sends_.posted == 0)
  {
    if (operation* op = std::exchange(partial_, nullptr))
      owner_.finish(op, op->result.ec ? op->result.ec : reason);
    withdraw(sends_.waiting, reason);
  }
  if (receives_.posted == 0)
    withdraw(receives_.waiting, reason);
}

void posting::withdraw_all(const error_code& reason)
{
  withdraw(sends_.waiting, reason);
  withdraw(receives_.waiting, reason);
}

void posting::replace_keys(std::size_t device_index) noexcept
{
  for (operation* op = receives_.waiting.front(); op != nullptr; op = op->next)
    for (std::uint16_t i = 0; i < op->sge_count; ++i)
      op->sges[i].lkey = op->registrations[i]->local_keys[device_index];
}

} // namespace rdma::detail
