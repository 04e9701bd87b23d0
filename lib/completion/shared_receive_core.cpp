//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/shared_receive_core.hpp"

#include "completion/completion_service.hpp"
#include "completion/user_buffers.hpp"

#include <boost/asio/error.hpp>
#include <boost/endian/conversion.hpp>

#include <algorithm>
#include <cerrno>

namespace rdma::detail {

void fill_message(outcome& result, const ibv_wc& wc)
{
  message& m = result.received;
  m.size = wc.byte_len;
  m.written = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  m.queue_pair_number = wc.qp_num;
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0)
    m.immediate = boost::endian::big_to_native(wc.imm_data);
  else if ((wc.wc_flags & IBV_WC_WITH_INV) != 0)
    m.invalidated_key = wc.invalidated_rkey;
}

shared_receive_core::shared_receive_core(std::shared_ptr<completion_queue_impl> completions,
  std::shared_ptr<domain_impl> domain, executor_relation where,
  const shared_receive_queue_options& options)
  : work_source(std::move(completions), std::move(domain), options.max_sge, options.copy_max, where)
  , depth_(std::max(options.depth, 1u))
{
  limits_.domain = domain_.get();
  limits_.device_index = completions_->device().index();
  limits_.message_size_max = completions_->device().port().max_msg_sz;
  limits_.receive_sge_max = max_sge_;
}

shared_receive_core::~shared_receive_core()
{
  destroy_native();
}

void shared_receive_core::open(error_code& ec)
{
  const ibv_device_attr& limits = completions_->device().attributes();
  if (limits.max_srq <= 0)
    ec = boost::asio::error::operation_not_supported;
  else if (depth_ > static_cast<std::uint32_t>(limits.max_srq_wr)
    || max_sge_ > static_cast<std::uint32_t>(limits.max_srq_sge) || max_sge_ > sge_max)
    ec = error::queue_too_deep;
  else
    completions_->reserve(depth_, ec);
  if (ec)
    return;
  reserved_ = depth_;
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = depth_;
  attributes.attr.max_sge = max_sge_;
  errno = 0;
  native_ = completions_->device().api().create_srq(
    domain_->native(completions_->device().index()), &attributes);
  if (native_ == nullptr)
  {
    ec = completions_->device().why(last_verbs_error());
    return;
  }
  const std::lock_guard lock(mutex_); // after watch() the device may report its end at any time
  try
  {
    completions_->device().events().watch(
      native_, std::static_pointer_cast<shared_receive_core>(shared_from_this()));
  }
  catch (const system_error& e)
  {
    ec = e.code();
    return;
  }
  ec = completions_->device().state(); // an end before watch() is not reported
  if (!ec)
    source_index_ = completions_->add(shared_from_this(), ec);
  registered_ = !ec;
  guard_slots(!registered_, lock);
}

void shared_receive_core::fail(
  const error_code& reason, const char*, const work_source* through) noexcept
{
  bool leave = false;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || reason_ || (through != nullptr && through != this))
      return;
    reason_ = reason;
    guard_slots(true, lock);
    while (operation* op = waiting_.pop_front())
      finish(op, reason);
    // The device releases its receives after the queue pairs that use the queue, which fail as
    // well.
    if (attached_ == 0)
      release_posted();
    leave = claimed() == 0 && drained(lock);
  }
  if (leave)
    completions_->remove(source_index_);
}

void shared_receive_core::on_device_event(const async_event& event) noexcept
{
  if (event.type == device_event_type::device_fatal)
    fail(error::device_lost, describe(event.type), nullptr);
  else if (event.type == device_event_type::shared_receive_queue_error)
    completions_->fail_all(error::shared_receive_queue_failed, describe(event.type), this);
}

void shared_receive_core::destroy_native() noexcept
{
  if (native_ != nullptr && !forked())
  {
    completions_->device().events().unwatch(native_);
    completions_->device().api().destroy_srq(native_);
  }
  native_ = nullptr;
  completions_->unreserve(std::exchange(reserved_, 0));
}

void shared_receive_core::attach()
{
  std::lock_guard lock(mutex_);
  ++attached_;
}

void shared_receive_core::detach()
{
  bool leave = false;
  const auto keep = shared_from_this();
  {
    std::lock_guard lock(mutex_);
    --attached_;
    if ((closed_ || reason_) && !abandoned_ && attached_ == 0)
    {
      release_posted();
      leave = claimed() == 0 && drained(lock);
    }
  }
  if (leave)
    completions_->remove(source_index_);
}

void shared_receive_core::close()
{
  bool leave = false;
  {
    std::lock_guard lock(mutex_);
    if (closed_ || abandoned_)
      return;
    closed_ = true;
    guard_slots(true, lock);
    while (operation* op = waiting_.pop_front())
      finish(op, boost::asio::error::operation_aborted);
    if (attached_ == 0)
      release_posted();
    leave = claimed() == 0 && drained(lock);
  }
  if (leave)
    completions_->remove(source_index_);
}

// Destroys the device's queue, which releases its receives.
void shared_receive_core::release_posted()
{
  destroy_native();
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted)
      finish(op, reason_ ? reason_ : boost::asio::error::operation_aborted);
  posted_ = 0;
}

bool shared_receive_core::drained(mutex_held)
{
  return closed_ && !abandoned_ && native_ == nullptr && std::exchange(registered_, false);
}

void shared_receive_core::submit(operation* op, const buffer_list& buffers)
{
  const user_buffers provided(*domain_, op->what.kind, buffers, 0, copy_max_);
  std::unique_lock lock(mutex_);
  if (abandoned_)
  {
    lock.unlock();
    op->complete(op, false, false);
    return;
  }
  error_code ec;
  if (closed_)
    ec = error::closed;
  else if (reason_)
    ec = reason_;
  begin_request(*op);
  if (!ec)
    add_buffers(*op, provided, limits_, ec);
  if (ec)
  {
    finish(op, ec);
    return;
  }
  retain_buffers(op);
  if (!waiting_.empty() || posted_ == depth_)
  {
    op->stage(operation::state::waiting);
    waiting_.push_back(op);
  }
  else if (const int error = post(op); error != 0)
    finish(op, error_code(error, boost::system::system_category()));
  completions_->kick(); // with the mutex held, as in queue_pair_core::submit
}

int shared_receive_core::post(operation* op)
{
  ibv_recv_wr request{};
  request.wr_id = work_request_id(op, true);
  request.sg_list = op->sges;
  request.num_sge = op->sge_count;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(native_, &request, &bad);
  if (error == 0)
  {
    op->stage(operation::state::posted);
    ++posted_;
  }
  return error;
}

void shared_receive_core::post_waiting()
{
  while (native_ != nullptr && !waiting_.empty() && posted_ < depth_)
  {
    operation* op = waiting_.pop_front();
    if (const int error = post(op); error != 0)
      finish(op, error_code(error, boost::system::system_category()));
  }
}

void shared_receive_core::take(const ibv_wc* completions, std::size_t count, operation_list& ended)
{
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i)
    if (operation* op = take_one(completions[i], lock))
      ended.push_back(op);
}

// Returns the operation that the completion ends, or null.
operation* shared_receive_core::take_one(const ibv_wc& wc, mutex_held)
{
  const auto name = work_request_name::of(wc.wr_id);
  operation* op = slot(name.slot);
  if (op == nullptr || op->generation() != name.generation
    || op->stage() != operation::state::posted)
    return nullptr;
  op->stage(operation::state::done);
  op->result.ec = {};
  if (wc.status == IBV_WC_SUCCESS)
    fill_message(op->result, wc);
  else
    op->result.ec = make_error_code(static_cast<wc_status>(wc.status));
  --posted_;
  post_waiting();
  return op;
}

void shared_receive_core::unlink(operation* op, mutex_held)
{
  waiting_.erase(op);
}

// A receive in a shared queue cannot be withdrawn, and belongs to no single queue pair.
void shared_receive_core::terminate(mutex_held) {}

void shared_receive_core::abandon() noexcept
{
  const auto keep = shared_from_this();
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(abandoned_, true))
      return;
    guard_slots(true, lock);
    destroy_native(); // after stop() of the queue pairs
  }
  destroy_operations();
}

std::shared_ptr<shared_receive_core> make_shared_receive_core(
  const boost::asio::any_io_executor& executor, bool same_context, const protection_domain& domain,
  const shared_receive_queue_options& options)
{
  device_impl* device =
    &domain.impl()->find_device(options.device, "cannot create a shared receive queue");
  auto completions = options.completions ? options.completions->impl(device->index())
                                         : completion_service::of(executor).shared_queue(
                                           executor, domain.impl()->devices(), device->index(), 0);
  if (!completions || &completions->device() != device)
    throw system_error(error::wrong_context,
      "cannot create a shared receive queue on a completion queue of another context");
  const executor_relation where = completions->executor_relation_of(executor, same_context);
  auto core =
    std::make_shared<shared_receive_core>(std::move(completions), domain.impl(), where, options);
  error_code ec;
  core->open(ec);
  if (ec == boost::asio::error::operation_not_supported)
    throw system_error(ec,
      "cannot create a shared receive queue: " + device->name()
        + " does not support them (ibv_device_attr::max_srq is 0). Use another device.");
  if (ec)
    throw system_error(ec, "cannot create a shared receive queue");
  return core;
}

void close_shared_receive_core(const std::shared_ptr<shared_receive_core>& core)
{
  core->close();
}

work_source* as_work_source(const std::shared_ptr<shared_receive_core>& core) noexcept
{
  return core.get();
}

} // namespace rdma::detail
