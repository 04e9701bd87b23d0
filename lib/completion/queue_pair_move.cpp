//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"
#include "completion/completion_service.hpp"
#include "completion/queue_pair_core.hpp"
#include "verbs/software/software.hpp"

#include <boost/asio/error.hpp>

#include <memory>
#include <utility>

// Confirming the path, and moving from a NIC that does not reach the peer to the software device.

namespace rdma::detail {

void queue_pair_core::complete_confirmation(operation* op, bool invoke, bool)
{
  const std::unique_ptr<confirmation_handler> done(static_cast<confirmation_handler*>(op->handler));
  const error_code ec = op->result.ec;
  op->source->release(op);
  if (invoke)
    (*done)(ec);
}

void queue_pair_core::confirm(confirmation_handler done)
{
  operation* op = claim();
  if (op == nullptr)
    return done(error::queue_too_deep); // 32768 receives wait
  op->complete = &complete_confirmation;
  op->handler = new confirmation_handler(std::move(done)); // complete_confirmation() owns it
  completions_->allow_at_once();
  op->at_once = true;
  op->what = {};
  // A write of no bytes needs no memory and no key of the peer (IBA 9.7.4.1.2, C9-88).
  op->what.kind = request_kind::write;
  begin_request(*op);
  std::unique_lock lock(mutex_);
  if (connection_.state() == connection_state::abandoned)
  {
    lock.unlock();
    op->complete(op, false, false);
    return;
  }
  if (!connection_.is_unconfirmed() || posting_.native() == nullptr)
    return finish(op, connection_.reason() ? connection_.reason() : error::closed);
  confirmation_ = work_request_id(op, true);
  posting_.start(op, lock);
  completions_->kick();
}

void queue_pair_core::look_for_confirmation()
{
  std::shared_ptr<completion_queue_impl> completions;
  std::uint64_t wanted = 0;
  {
    const std::lock_guard lock(mutex_);
    completions = completions_;
    wanted = confirmation_;
  }
  const std::optional<ibv_wc> wc = completions->extract(wanted);
  if (!wc)
    return;
  operation_list ended;
  take(&*wc, 1, ended);
  if (operation* op = ended.pop_front())
    op->complete(op, true, false);
}

void queue_pair_core::confirmed(std::vector<declined_transport> declined, error_code& ec)
{
  const std::lock_guard lock(mutex_);
  ec = connection_.confirmation_error();
  if (ec)
    return;
  declined_ = std::move(declined);
  shared_memory_ = device_->kind() == device_kind::software && posting_.native() != nullptr
    && *software::why_not_local(posting_.native()) == '\0';
  apply(connection_event::connected, lock);
}

std::string queue_pair_core::obstacle_to_moving() const
{
  if (device_->kind() == device_kind::software)
    return "it already uses the software device";
  if (!options_.fall_back)
    return "queue_pair_options::fall_back is off";
  if (!options_.device.empty())
    return "queue_pair_options::device names the NIC";
  if (receives_)
    return "its shared receive queue belongs to the NIC";
  if (domain_->device_at(software_index) == nullptr)
    return "its context has no software device";
  return {};
}

std::string queue_pair_core::why_not_move() const
{
  const std::lock_guard lock(mutex_);
  std::string result = obstacle_to_moving();
  if (result.empty() && connection_.device_final())
    result = "its local_endpoint() was called, so its receives are posted on the NIC";
  return result;
}

std::string queue_pair_core::why_no_nic() const
{
  if (domain_->device_at(nic_index) == nullptr)
    return domain_->devices()->why_no_nic;
  return receives_ ? "its shared receive queue belongs to the software device"
                   : "the queue pair was made for the software device";
}

// Returns the software device's completion queue for this queue pair. If it is shared, `reserved`
// is the number of its entries that were reserved.
std::shared_ptr<completion_queue_impl> queue_pair_core::software_completions(
  std::uint32_t& reserved)
{
  if (own_completions_)
    return own_completions_->impl(software_index);
  const boost::asio::any_io_executor executor = flush_timer_.get_executor();
  reserved = options_.send_depth + options_.receive_depth;
  return completion_service::of(executor).shared_queue(
    executor, domain_->devices(), software_index, reserved);
}

// Ends the operations that the NIC has: only the message that was to confirm the path.
void queue_pair_core::leave_nic(mutex_held held)
{
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted)
      finish(op, boost::asio::error::operation_aborted);
  posting_.withdraw_sends(boost::asio::error::operation_aborted);
  if (std::exchange(flush_timer_runs_, false))
    flush_timer_.cancel();
  drop_native();
  registered_ = false;
  first_failure_ = {};
  refusal_ = {};
  apply(connection_event::moved, held);
}

void queue_pair_core::move_to_software(error_code& ec)
try
{
  std::uint32_t reserved = 0;
  const std::shared_ptr<completion_queue_impl> next = software_completions(reserved);
  if (!next)
    throw system_error(error::wrong_context);

  std::shared_ptr<completion_queue_impl> before;
  std::uint32_t before_index = 0;
  bool counted = false; // its operations are counted as work of `before`
  {
    const std::lock_guard lock(mutex_);
    if (!(connection_.is_initial() || connection_.is_unconfirmed())
      || !obstacle_to_moving().empty())
    {
      next->unreserve(reserved);
      ec = connection_.is_alive() ? error::already_connected : error::closed;
      return;
    }
    leave_nic(lock);
    before = std::exchange(completions_, next);
    before_index = source_index_;
    counted = is_work();
    if (counted)
      next->work_started();

    device_ = domain_->device_at(software_index);
    device_index_ = software_index;
    reserved_ = reserved;
    posting_.replace_keys(device_index_);
    try
    {
      open_native(lock);
    }
    catch (const system_error& e)
    {
      ec = e.code();
      // No completion queue keeps this object alive now, and waiting operations must end.
      if (claimed() != 0)
        self_ = shared_from_this();
    }
  }
  before->remove(before_index);
  if (counted)
    before->work_finished();
  next->kick();
}
catch (const system_error& e)
{
  ec = e.code();
}

void queue_pair_core::set_peer_data(std::string data)
{
  const std::lock_guard lock(mutex_);
  peer_data_ = std::move(data);
}

std::string queue_pair_core::peer_data() const
{
  const std::lock_guard lock(mutex_);
  return peer_data_;
}

} // namespace rdma::detail
