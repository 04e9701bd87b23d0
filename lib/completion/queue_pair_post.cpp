//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/batch.hpp"
#include "completion/batch_requests.hpp"
#include "completion/completion_queue_impl.hpp"
#include "completion/queue_pair_core.hpp"
#include "completion/request_kinds.hpp"
#include "completion/shared_receive_core.hpp"
#include "completion/user_buffers.hpp"
#include "resource/window_impl.hpp"

#include <boost/asio/error.hpp>
#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

// What a queue pair posts. queue_pair_completions.cpp: what becomes of it.

namespace rdma::detail {
namespace {

void describe(ibv_send_wr& wr, const request& what, std::size_t device_index)
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

bool queue_pair_core::adopt_remote(const request& what, std::size_t bytes, error_code& ec) const
{
  if (bytes > what.remote.size())
    ec = error::remote_range_too_small;
  // A write with immediate and no data touches no memory and needs no key (IBA 9.4.3).
  else if (bytes != 0 && what.remote.key(device_index_) == 0)
    ec = error::no_remote_key;
  else if (bytes != 0 && !permits(what.remote.rights(), remote_right(what.kind)))
    ec = error::remote_right_missing;
  return !ec;
}

bool queue_pair_core::admit_atomic(operation* op, error_code& ec)
{
  if (device_->attributes().atomic_cap == IBV_ATOMIC_NONE)
  {
    ec = boost::asio::error::operation_not_supported;
    refuse(name_of(op->what.kind), ec,
      "the device has no atomics (ibv_device_attr::atomic_cap is IBV_ATOMIC_NONE)");
  }
  else if ((remote_.features & device_features::atomics) == 0)
  {
    ec = boost::asio::error::operation_not_supported;
    refuse(name_of(op->what.kind), ec, "the peer's device has no atomics");
  }
  else if (op->what.remote.size() < 8 || op->what.remote.address() % 8 != 0)
    ec = error::misaligned_atomic;
  else if (op->what.remote.key(device_index_) == 0)
    ec = error::no_remote_key;
  else if (!permits(op->what.remote.rights(), access::remote_atomic))
    ec = error::remote_right_missing;
  else if (atomic_results_.size() == 0)
  {
    free_atomic_results_.reserve(options_.send_depth);
    atomic_results_ = rdma::context(domain_).allocate(std::size_t{8} * options_.send_depth, ec);
    if (!ec)
    {
      for (std::uint32_t i = options_.send_depth; i-- > 0;)
        free_atomic_results_.push_back(static_cast<std::uint16_t>(i));
    }
  }
  return !ec;
}

bool queue_pair_core::admit_immediate(request_kind kind, error_code& ec)
{
  if (kind != request_kind::send_with_immediate && kind != request_kind::write_with_immediate)
    return true;
  const bool peer_has = (remote_.features & device_features::immediate_data) != 0;
  if (!device_->traits().no_immediate_data && peer_has)
    return true;
  ec = boost::asio::error::operation_not_supported;
  refuse(name_of(kind), ec,
    peer_has ? "iWARP has no immediate data (RFC 5040)"
             : "the peer's device has no immediate data");
  return false;
}

// What diagnose() says as long as nothing failed. The mutex is held.
void queue_pair_core::refuse(const char* operation, const error_code& ec, std::string lacking)
{
  refusal_.code = ec;
  refusal_.operation = operation;
  refusal_.reason = std::move(lacking);
}

bool queue_pair_core::admit_batch(operation* op, error_code& ec)
{
  const batch& all = *op->what.batch;
  if (all.empty())
    ec = error::bad_batch;
  op->bytes = 0;
  for (const batch::entry& each : all.entries())
  {
    std::size_t bytes = 0;
    std::uint32_t buffers = 0;
    for (std::uint32_t i = 0; i < each.sge_count; ++i)
    {
      const const_buffer& buffer = all.buffers()[each.first_buffer + i];
      if (buffer.size() == 0)
        continue;
      if (buffer.registration() == nullptr)
        ec = error::not_registered;
      else if (buffer.registration()->domain != domain_.get())
        ec = error::wrong_context;
      else if (buffer.registration()->read_only && receives_into(each.what.kind))
        ec = error::read_only;
      bytes += buffer.size();
      ++buffers;
    }
    if (each.overflow || buffers > options_.max_send_sge)
      ec = error::too_many_buffers;
    else if (bytes > device_->port().max_msg_sz)
      ec = error::message_too_large;
    else if (bytes == 0 && !each.no_data)
      ec = error::empty_buffer;
    else if (is_one_sided(each.what.kind))
      adopt_remote(each.what, bytes, ec);
    if (ec || !admit_immediate(each.what.kind, ec))
      return false;
    op->bytes += bytes;
  }
  if (ec)
    return false;
  op->unposted = static_cast<std::uint32_t>(all.size());
  if (all.size() <= options_.send_depth)
    op->part = op->unposted;
  else // two parts fit in the queue: the device has work while the next part is posted
    op->part = std::max(options_.send_depth / 2, 1u);
  // All memory that is needed is taken here, where its lack ends only this operation: posting does
  // not throw.
  if (op->part != op->unposted)
    keep_requests(op);
  else
  {
    scratch_->requests.reserve(all.size());
    scratch_->sges.reserve(all.buffers().size());
  }
  op->batch_registrations.reserve(all.buffers().size());
  registration* last = nullptr; // most batches are of pieces of one region
  for (const const_buffer& buffer : all.buffers())
    if (buffer.size() != 0 && buffer.registration() != last)
    {
      last = buffer.registration();
      last->retain();
      op->batch_registrations.push_back(last);
    }
  return true;
}

bool queue_pair_core::admit(operation* op, const user_buffers& buffers, error_code& ec)
{
  const request_kind kind = op->what.kind;
  op->credits = 0;
  op->part = op->unposted = 1;
  op->sge_count = 0;
  op->bytes = 0;
  switch (kind)
  {
  case request_kind::batch:
    return admit_batch(op, ec);
  case request_kind::fetch_add:
  case request_kind::compare_exchange:
    return admit_atomic(op, ec);
  case request_kind::invalidate:
    return true;
  case request_kind::bind_window:
    if (!adopt(op, buffers, device_index_, ec))
      return false;
    if (!op->what.window)
      ec = error::closed; // moved from
    else if (op->what.window->device != device_ || op->what.window->domain != domain_)
      ec = error::wrong_context;
    else if (op->sge_count != 1)
      ec = error::too_many_buffers;
    else if (op->registrations[0]->natives[device_index_] == nullptr
      || !permits(op->registrations[0]->rights, access::window_bind))
      ec = error::not_exposed;
    else
      op->what.window->may_open_on(op->registrations[0]);
    return !ec;
  case request_kind::receive:
    if (receives_)
      ec = boost::asio::error::operation_not_supported; // they come from the shared receive queue
    else if (adopt(op, buffers, device_index_, ec) && op->sge_count > options_.max_receive_sge)
      ec = error::too_many_buffers;
    return !ec;
  default:
    if (!admit_immediate(kind, ec) || !adopt(op, buffers, device_index_, ec))
      return false;
    // Where it was decided that this goes inline, the queue pair was on another device yet.
    if (buffers.inlined() && op->bytes > inline_max_)
      ec = error::not_registered;
    else if (op->sge_count > options_.max_send_sge)
      ec = error::too_many_buffers;
    else if (is_one_sided(kind))
      adopt_remote(op->what, op->bytes, ec);
    return !ec;
  }
}

// What most operations are: one piece of registered memory, where nothing is the matter. False: all
// is to be looked at, and to be said if it is wrong. The mutex is held.
bool queue_pair_core::admit_plain(operation* op, const buffer_list& buffers)
{
  const request_kind kind = op->what.kind;
  const bool sends =
    kind == request_kind::send || kind == request_kind::write || kind == request_kind::read;
  if (lifecycle_ != lifecycle::connected || native_ == nullptr || refused_sends_
    || buffers.size() != 1 || (!sends && (kind != request_kind::receive || receives_)))
    return false;
  const const_buffer& buffer = *buffers.begin();
  registration* const owner = buffer.registration();
  error_code ec;
  if (buffer.size() == 0 || owner == nullptr || owner->domain != domain_.get()
    || (owner->read_only && receives_into(kind)) || buffer.size() > device_->port().max_msg_sz
    || (kind != request_kind::send && sends && !adopt_remote(op->what, buffer.size(), ec)))
    return false;
  op->credits = 0;
  op->part = op->unposted = 1;
  op->sge_count = 1;
  op->bytes = buffer.size();
  op->registrations[0] = owner;
  op->sges[0] = {reinterpret_cast<std::uintptr_t>(buffer.data()),
    static_cast<std::uint32_t>(buffer.size()), owner->local_keys[device_index_]};
  op->origins[0] = nullptr;
  return true;
}

void queue_pair_core::submit(operation* op, const buffer_list& buffers)
{
  {
    const std::lock_guard lock(mutex_);
    if (admit_plain(op, buffers))
      return submit_admitted(op);
  }
  // Without the mutex: registering takes its time. What may go inline may do so from anywhere.
  const std::size_t inline_max =
    may_go_inline(op->what.kind) ? inline_max_.load(std::memory_order_relaxed) : 0;
  const user_buffers provided(*domain_, op->what.kind, buffers, inline_max, copy_max_);
  std::unique_lock lock(mutex_);
  if (lifecycle_ == lifecycle::abandoned)
  {
    lock.unlock();
    op->complete(op, false, false);
    return;
  }
  error_code ec;
  if (lifecycle_ == lifecycle::closed)
    ec = error::closed;
  else if (lifecycle_ == lifecycle::broken)
    ec = reason_;
  else if (lifecycle_ != lifecycle::connected && op->what.kind != request_kind::receive)
    ec = error::not_connected;
  else if (native_ == nullptr)
    ec = flush_reason(); // destroyed, as it did not flush
  else if (refused_sends_ && op->what.kind != request_kind::receive)
    ec = refused_sends_;
  else
    try
    {
      admit(op, provided, ec);
    }
    catch (const std::bad_alloc&)
    {
      ec = boost::asio::error::no_memory;
    }
  if (ec && lifecycle_ == lifecycle::broken && native_ != nullptr && posted(op->what.kind) != 0)
  {
    wait(op); // withdraw_in_turn() ends it
    return;
  }
  if (ec && ec == provided.obstacle() && ec.category() == boost::system::system_category())
    try
    {
      refuse(name_of(op->what.kind), ec, "cannot register its buffers");
    }
    catch (const std::bad_alloc&)
    {
      // the handler hears of it without these words
    }
  if (ec)
  {
    finish(op, ec);
    return;
  }
  submit_admitted(op);
}

// The mutex is held.
void queue_pair_core::submit_admitted(operation* op)
{
  // Not every device learns of a receive that is posted in the error state (rxe).
  if (error_state_)
    start_flush_timer();
  if (!goes_inline(op)) // or the device is done with them when it has been posted
    retain_buffers(op);
  start(op);
  // With the mutex held: without it, a handler may already have run elsewhere and destroyed all
  // this.
  completions_->kick();
}

// Posts op, or lets it wait for its turn.
void queue_pair_core::start(operation* op)
{
  int error = 0;
  if (waiting(op->what.kind).empty() && post(op, error))
  {
    if (partial_ == op)
      post_rest();
    return;
  }
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
    finish(op, error_code(error, boost::system::system_category()));
  else
    wait(op);
}

// Makes a batch independent of the rdma::batch, which its user may destroy.
void queue_pair_core::keep_requests(operation* op)
{
  if (!op->kept)
    op->kept = std::make_unique<batch_requests>();
  if (op->kept->requests.empty())
    describe_batch(op, *op->kept);
}

void queue_pair_core::wait(operation* op)
{
  op->what.batch = nullptr;
  retain_buffers(op);
  op->stage(operation::state::waiting);
  waiting(op->what.kind).push_back(op);
}

bool queue_pair_core::goes_inline(const operation* op) const noexcept
{
  return may_go_inline(op->what.kind) && op->bytes <= inline_max_.load(std::memory_order_relaxed);
}

operation_list& queue_pair_core::waiting(request_kind kind) noexcept
{
  return kind == request_kind::receive ? waiting_receives_ : waiting_sends_;
}

std::uint32_t& queue_pair_core::posted(request_kind kind) noexcept
{
  return kind == request_kind::receive ? receives_posted_ : sends_posted_;
}

// Returns true if the device took it, or the next part of it; if not, `error` is the reason, or 0
// when there is only no room yet.
bool queue_pair_core::post(operation* op, int& error)
{
  error = 0;
  const bool receive = op->what.kind == request_kind::receive;
  const std::uint32_t count = std::min(op->part, op->unposted);
  std::uint32_t& taken = posted(op->what.kind);
  if (taken + count > (receive ? options_.receive_depth : options_.send_depth)
    || (receive ? holds_receives_ : partial_ != nullptr && partial_ != op))
    return false;
  if (receive)
    error = post_receive(op);
  else
    error = op->what.kind == request_kind::batch ? post_batch(op, count) : post_single(op);
  if (error == 0)
  {
    op->stage(operation::state::posted);
    taken += count;
    op->credits += count;
    op->unposted -= count;
    if (op->unposted != 0 && !op->result.ec)
      partial_ = op;
    else if (partial_ == op)
      partial_ = nullptr;
    return true;
  }
  // ENOMEM is the device's word for a full queue: it may count differently than we do.
  if (error == ENOMEM && taken != 0)
    error = 0;
  return false;
}

int queue_pair_core::post_receive(operation* op)
{
  ibv_recv_wr wr{};
  wr.wr_id = work_request_id(op, true);
  wr.sg_list = op->sges;
  wr.num_sge = op->sge_count;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(native_, &wr, &bad);
}

int queue_pair_core::post_single(operation* op)
{
  const request& what = op->what;
  ibv_send_wr wr{};
  wr.wr_id = work_request_id(op, true);
  wr.sg_list = op->sges;
  wr.num_sge = op->sge_count;
  wr.send_flags = IBV_SEND_SIGNALED;
  describe(wr, what, device_index_);
  ibv_sge atomic_result;
  if (is_atomic(what.kind))
  {
    op->atomic_result = free_atomic_results_.back();
    atomic_result = {
      reinterpret_cast<std::uintptr_t>(atomic_results_.data()) + std::size_t{8} * op->atomic_result,
      8, mutable_buffer(atomic_results_).registration()->local_keys[device_index_]};
    wr.sg_list = &atomic_result;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = what.remote.address();
    wr.wr.atomic.rkey = what.remote.key(device_index_);
    wr.wr.atomic.compare_add = what.compare_or_add;
    wr.wr.atomic.swap = what.swap;
  }
  else if (what.kind == request_kind::bind_window)
  {
    wr.bind_mw.mw = what.window->native;
    wr.bind_mw.rkey = ibv_inc_rkey(what.window->native->rkey);
    wr.bind_mw.bind_info = {op->registrations[0]->natives[device_index_], op->sges[0].addr,
      op->sges[0].length, static_cast<unsigned>(what.window_rights)};
    wr.num_sge = 0;
  }
  else if (goes_inline(op))
    wr.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(native_, &wr, &bad);
  if (error == 0 && is_atomic(what.kind))
    free_atomic_results_.pop_back();
  return error;
}

void queue_pair_core::describe_batch(const operation* op, batch_requests& into) const
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
    wr.wr_id = work_request_id(op, false);
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
  }
}

// Posts the next `count` work requests. Only the last one of them is signalled.
int queue_pair_core::post_batch(operation* op, std::uint32_t count)
{
  const bool kept = op->kept && !op->kept->requests.empty();
  if (!kept)
    describe_batch(op, *scratch_);
  auto& requests = (kept ? op->kept : scratch_)->requests;
  ibv_send_wr* const first = requests.data() + (requests.size() - op->unposted);
  ibv_send_wr& last = first[count - 1];
  last.wr_id = work_request_id(op, true);
  last.next = nullptr;
  last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(native_, first, &bad);
  if (error == 0 || bad == first)
    return error;
  // A part of it is on its way, unsignalled: no completion would report when the device is done
  // with it. All was checked before, so that this is a device that contradicts itself: the queue
  // pair ends, and the batch with it, when the queue pair has been destroyed.
  op->result.ec.assign(error, boost::system::system_category());
  terminate();
  return 0;
}

// Posts as much as there is room for of the batch that is posted in part. Returns true if nothing
// of it is left, so that others may follow.
bool queue_pair_core::post_rest()
{
  while (operation* op = partial_)
  {
    int error = 0;
    if (native_ != nullptr && post(op, error))
      continue;
    if (error == 0)
      return false;
    // The device refuses what it was checked to take. The earlier parts have been carried out, as
    // in a batch that fails: the queue pair ends.
    partial_ = nullptr;
    op->result.ec.assign(error, boost::system::system_category());
    terminate();
    if (op->credits == 0) // otherwise take_one() ends it
      finish(op, op->result.ec);
  }
  return true;
}

void queue_pair_core::post_waiting(request_kind kind)
{
  if (kind != request_kind::receive && !post_rest())
    return;
  operation_list& list = waiting(kind);
  while (operation* op = list.front())
  {
    int error = 0;
    if (native_ != nullptr && post(op, error))
    {
      // posted: the link fields are free only after it has left the list, which posting does not
      // touch
      list.erase(op);
      if (kind != request_kind::receive && !post_rest())
        return;
      continue;
    }
    if (error == 0)
      return;
    list.erase(op);
    finish(op, error_code(error, boost::system::system_category()));
  }
}

} // namespace rdma::detail
