//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/shared_receive_core.hpp"

#include "completion/completion_service.hpp"
#include "completion/request_results.hpp"
#include "completion/user_buffers.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>

namespace rdma::detail {

shared_receive_core::shared_receive_core(std::shared_ptr<completion_queue_impl> completions,
  std::shared_ptr<domain_impl> domain, executor_relation where,
  const shared_receive_queue_options& options)
  : work_source(std::move(completions), std::move(domain), options.max_sge, options.copy_max, where)
  , depth_(std::max(options.depth, 1u))
  , posting_(*this, 0, depth_)
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

void shared_receive_core::open()
{
  constexpr const char* what = "cannot create a shared receive queue";
  device_impl& device = completions_->device();
  const ibv_device_attr& limits = device.attributes();
  if (limits.max_srq <= 0)
    throw system_error(boost::asio::error::operation_not_supported,
      what + (": " + device.name())
        + " does not support them (ibv_device_attr::max_srq is 0). Use another device.");
  if (depth_ > static_cast<std::uint32_t>(limits.max_srq_wr)
    || max_sge_ > static_cast<std::uint32_t>(limits.max_srq_sge) || max_sge_ > sge_max)
    throw system_error(error::queue_too_deep, what);
  error_code ec;
  completions_->reserve(depth_, ec);
  if (ec)
    throw system_error(ec, what);
  reserved_ = depth_;
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = depth_;
  attributes.attr.max_sge = max_sge_;
  errno = 0;
  ibv_srq* const native = device.api().create_srq(domain_->native(device.index()), &attributes);
  if (native == nullptr)
    throw system_error(device.why(last_verbs_error()), what);
  posting_.open(native);
  const std::lock_guard lock(mutex_); // after watch() the device may report its end at any time
  device.events().watch(native, std::static_pointer_cast<shared_receive_core>(shared_from_this()));
  ec = device.state(); // an end before watch() is not reported
  if (!ec)
    source_index_ = completions_->add(shared_from_this(), ec);
  if (ec)
    throw system_error(ec, what);
  registered_ = true;
  guard_slots(false, lock);
}

void shared_receive_core::fail(
  const error_code& reason, const char*, const work_source* through) noexcept
{
  std::unique_lock lock(mutex_);
  if (abandoned_ || reason_ || (through != nullptr && through != this))
    return;
  reason_ = reason;
  end(std::move(lock), reason);
}

void shared_receive_core::end(std::unique_lock<std::mutex> lock, const error_code& reason) noexcept
{
  guard_slots(true, lock);
  posting_.withdraw_all(reason);
  // The device releases its receives after the queue pairs that use the queue.
  if (attached_ == 0)
    release_posted();
  leave_if_drained(std::move(lock));
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
  if (native() != nullptr && !forked())
  {
    completions_->device().events().unwatch(native());
    completions_->device().api().destroy_srq(native());
  }
  posting_.close();
  completions_->unreserve(std::exchange(reserved_, 0));
}

void shared_receive_core::attach()
{
  std::lock_guard lock(mutex_);
  ++attached_;
}

void shared_receive_core::detach()
{
  const auto keep = shared_from_this();
  std::unique_lock lock(mutex_);
  --attached_;
  if ((closed_ || reason_) && !abandoned_ && attached_ == 0)
  {
    release_posted();
    leave_if_drained(std::move(lock));
  }
}

void shared_receive_core::close()
{
  release_spare(); // of a handler that calls this: nothing may be claimed then
  std::unique_lock lock(mutex_);
  if (closed_ || abandoned_)
    return;
  closed_ = true;
  end(std::move(lock), boost::asio::error::operation_aborted);
}

// Destroys the device's queue, which releases its receives.
void shared_receive_core::release_posted()
{
  destroy_native();
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted)
      finish(op, reason_ ? reason_ : boost::asio::error::operation_aborted);
}

bool shared_receive_core::drained(mutex_held)
{
  return closed_ && !abandoned_ && native() == nullptr && std::exchange(registered_, false);
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
  posting_.start(op, lock);
  completions_->kick(); // with the mutex held, as in queue_pair_core::submit
}

void shared_receive_core::take(const ibv_wc* completions, std::size_t count, operation_list& ended)
{
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i)
    if (operation* op = take_one(completions[i], lock))
      ended.push_back(op);
}

// Returns the operation that the completion ends, or null.
operation* shared_receive_core::take_one(const ibv_wc& wc, mutex_held held)
{
  operation* op = find_posted(work_request_name::of(wc.wr_id));
  if (op == nullptr)
    return nullptr;
  op->stage(operation::state::done);
  op->result.ec = {};
  if (wc.status == IBV_WC_SUCCESS)
  {
    set_message(*op, wc);
    completions_->counters().completed(request_kind::receive, wc.byte_len);
  }
  else
  {
    op->result.ec = make_error_code(static_cast<wc_status>(wc.status));
    completions_->counters().failed(wc.status);
  }
  posting_.completed(op, true);
  posting_.post_waiting(request_kind::receive, held);
  return op;
}

void shared_receive_core::unlink(operation* op, mutex_held)
{
  posting_.unlink(op);
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
  core->open();
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
