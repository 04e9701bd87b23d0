//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/completion_queue_impl.hpp"
#include "completion/completion_service.hpp"
#include "completion/queue_pair_core.hpp"

#include <boost/asio/error.hpp>

#include <memory>
#include <utility>

// Until its path is confirmed a queue pair may go on on another device than it was made on: the
// software device, when a NIC turns out not to lead to the peer.

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
  op->at_once = true;
  op->what = {};
  op->what.kind = request_kind::write; // of no bytes, which needs no memory and no key there
                                       // (IBA 9.7.4.1.2, C9-88)
  op->credits = 0;
  op->part = op->unposted = 1;
  op->sge_count = 0;
  op->bytes = 0;
  std::unique_lock lock(mutex_);
  if (lifecycle_ == lifecycle::abandoned)
  {
    lock.unlock();
    op->complete(op, false, false);
    return;
  }
  if (lifecycle_ != lifecycle::unconfirmed || native_ == nullptr)
    return finish(op, reason_ ? reason_ : error::closed);
  confirmation_ = work_request_id(op, true);
  start(op);
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
  if (lifecycle_ != lifecycle::unconfirmed || error_state_)
  {
    ec = is_alive() ? error_code(error::path_not_confirmed) : reason_ ? reason_ : error::closed;
    return;
  }
  declined_ = std::move(declined);
  enter_connected();
}

// The mutex is held.
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
  if (result.empty() && !holds_receives_)
    result =
      "its local_endpoint() was called, so its receives are posted on the NIC"; // receives are
                                                                                // posted since
  return result;
}

std::string queue_pair_core::why_no_nic() const
{
  if (domain_->device_at(nic_index) == nullptr)
    return domain_->devices()->why_no_nic;
  return receives_ ? "its shared receive queue belongs to the software device"
                   : "the queue pair was made for the software device";
}

void queue_pair_core::move_to_software(error_code& ec)
try
{
  device_impl& software = *domain_->device_at(software_index);
  const boost::asio::any_io_executor executor = flush_timer_.get_executor();
  std::shared_ptr<completion_queue_impl> next;
  std::uint32_t reserved = 0;
  if (own_completions_)
    next = own_completions_->impl(software_index);
  else
  {
    reserved = std::max(options_.send_depth, 1u) + options_.receive_depth;
    next = completion_service::of(executor).shared_queue(
      executor, domain_->devices(), software_index, reserved);
  }
  if (!next)
    throw system_error(error::wrong_context);

  std::shared_ptr<completion_queue_impl> before;
  std::uint32_t before_index = 0;
  bool counted = false; // its operations are, by that one
  {
    const std::lock_guard lock(mutex_);
    if ((lifecycle_ != lifecycle::open && lifecycle_ != lifecycle::unconfirmed)
      || !obstacle_to_moving().empty())
    {
      next->unreserve(reserved);
      ec = is_alive() ? error::already_connected : error::closed;
      return;
    }
    // Nothing is posted but what was to confirm the path.
    for (std::uint32_t i = 0; operation* op = slot(i); ++i)
      if (op->stage() == operation::state::posted)
        finish(op, boost::asio::error::operation_aborted);
    withdraw(waiting_sends_, boost::asio::error::operation_aborted);
    if (std::exchange(flush_timer_runs_, false))
      flush_timer_.cancel();
    drop_native();
    before = std::exchange(completions_, next);
    before_index = source_index_;
    counted = is_work();
    if (counted)
      next->work_started();
    registered_ = false;

    device_ = &software;
    device_index_ = software_index;
    reserved_ = reserved;
    lifecycle_ = lifecycle::open;
    sends_posted_ = 0;
    ever_connected_ = described_ = error_state_ = false;
    by_ethernet_ = false;
    first_failure_ = refusal_ = {};
    device_reason_ = {};
    for (operation* op = waiting_receives_.front(); op != nullptr; op = op->next)
      for (std::uint16_t i = 0; i < op->sge_count; ++i)
        op->sges[i].lkey = op->registrations[i]->local_keys[device_index_];
    try
    {
      open_native();
    }
    catch (const system_error& e)
    {
      ec = e.code();
      // No completion queue keeps this alive now, and what waits is still to be told.
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
