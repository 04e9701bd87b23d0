//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/queue_pair_core.hpp"

#include "completion/batch_requests.hpp"
#include "completion/completion_service.hpp"
#include "completion/queue_pair_endings.hpp"
#include "completion/shared_receive_core.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>
#include <limits>

// A queue pair's life: made, closed, drained, destroyed. What it posts is in queue_pair_post.cpp,
// how it connects in queue_pair_connect.cpp.

namespace rdma::detail {
namespace {

// How long a device may take to flush a queue pair in the error state before it is destroyed under
// its operations. Some never flush after a disconnect (rxe).
constexpr std::chrono::seconds flush_time_max{2};

// What a queue pair may have in its completion queue at once.
std::uint32_t completions_of(const queue_pair_options& options)
{
  return std::max(options.send_depth, 1u)
    + (options.receives ? 0 : std::max(options.receive_depth, 1u));
}

} // namespace

std::shared_ptr<queue_pair_core> queue_pair_core::make(const boost::asio::any_io_executor& executor,
  bool same_context, const protection_domain& domain, const queue_pair_options& options)
{
  completion_service::of(executor); // which sees to it that the context does not go while the
                                    // events' thread owns the timer
  device_impl* device = options.receives
    ? &options.receives->completions().device()
    : &domain.impl()->find_device(options.device, "cannot create a queue pair");
  if (const error_code ec = device->state())
    throw system_error(ec, "cannot create a queue pair");
  if (options.receives && options.receives->domain() != domain.impl())
    throw system_error(error::wrong_context,
      "cannot create a queue pair on a shared receive queue of another protection domain");
  std::shared_ptr<completion_queue_impl> completions;
  std::uint32_t reserved = 0;
  if (options.receives)
    completions = options.receives->completion_queue();
  else if (options.completions)
    completions = options.completions->impl(device->index());
  else
  {
    reserved = completions_of(options);
    completions = completion_service::of(executor).shared_queue(
      executor, domain.impl()->devices(), device->index(), reserved);
  }
  if (!completions || &completions->device() != device)
    throw system_error(
      error::wrong_context, "cannot create a queue pair on a completion queue of another context");

  const executor_relation where = completions->executor_relation_of(executor, same_context);
  auto core = std::make_shared<queue_pair_core>(
    executor, where, domain, options, std::move(completions), *device);
  core->reserved_ = reserved;
  core->create();
  return core;
}

queue_pair_core::queue_pair_core(const boost::asio::any_io_executor& executor,
  executor_relation where, const protection_domain& domain, const queue_pair_options& options,
  std::shared_ptr<completion_queue_impl> completions, device_impl& device)
  : work_source(std::move(completions), domain.impl(),
    std::max({options.max_send_sge, options.max_receive_sge, 1u}), options.copy_max, where)
  , options_(
      [&]
      {
        queue_pair_options adjusted = options;
        adjusted.send_depth = std::max(adjusted.send_depth, 1u);
        adjusted.receive_depth = std::max(adjusted.receive_depth, options.receives ? 0u : 1u);
        adjusted.completions.reset(); // completions_ holds it
        const auto most =
          static_cast<std::uint32_t>(std::clamp(device.attributes().max_qp_rd_atom, 0, 255));
        adjusted.read_atomic_depth =
          static_cast<std::uint8_t>(std::min<std::uint32_t>(adjusted.read_atomic_depth, most));
        return adjusted;
      }())
  , own_completions_(options.completions)
  , device_(&device)
  , device_index_(device.index())
  , receives_(options.receives)
  , scratch_(std::make_unique<batch_requests>())
  , flush_timer_(executor)
{
}

queue_pair_core::~queue_pair_core()
{
  destroy_native();
}

// The mutex is held.
void queue_pair_core::open_native()
{
  const ibv_device_attr& limits = device_->attributes();
  const auto most_requests = static_cast<std::uint32_t>(limits.max_qp_wr);
  const auto sge_count_max = static_cast<std::uint32_t>(limits.max_sge);
  const bool fits = options_.send_depth <= most_requests
    && (receives_ || options_.receive_depth <= most_requests)
    && options_.max_send_sge <= sge_count_max
    && (receives_ || options_.max_receive_sge <= sge_count_max) && max_sge_ <= sge_max
    && options_.send_depth <= std::numeric_limits<std::uint16_t>::max(); // atomic results
  if (!fits)
    throw system_error(error::queue_too_deep, "cannot create a queue pair");

  error_code ec;
  if (reserved_ == 0)
  {
    completions_->reserve(completions_of(options_), ec);
    if (ec)
      throw system_error(ec, "cannot create a queue pair");
    reserved_ = completions_of(options_);
  }

  ibv_qp_init_attr attributes{};
  // verbs has no question for the largest inline size: ask for less until the device agrees.
  for (std::uint32_t inline_size = options_.max_inline_data; native_ == nullptr; inline_size /= 2)
  {
    attributes = {};
    attributes.send_cq = attributes.recv_cq = completions_->native();
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 0;
    attributes.srq = receives_ ? receives_->native() : nullptr;
    attributes.cap.max_send_wr = options_.send_depth;
    attributes.cap.max_recv_wr = receives_ ? 0 : options_.receive_depth;
    attributes.cap.max_send_sge = std::max(options_.max_send_sge, 1u);
    attributes.cap.max_recv_sge = receives_ ? 0 : std::max(options_.max_receive_sge, 1u);
    attributes.cap.max_inline_data = inline_size;
    errno = 0;
    native_ = device_->api().create_qp(domain_->native(device_index_), &attributes);
    if (native_ == nullptr && (inline_size == 0 || (errno != EINVAL && errno != ENOMEM)))
      throw system_error(device_->why(last_verbs_error()), "cannot create a queue pair");
  }
  if (receives_)
    receives_->attach();
  number_ = native_->qp_num;
  port_ = device_->port_number();
  device_->events().watch(native_, std::static_pointer_cast<queue_pair_core>(shared_from_this()));
  // More than was asked for may be granted: what goes inline is copied, which pays for small data
  // only.
  inline_max_ = std::min(attributes.cap.max_inline_data, options_.max_inline_data);

  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.pkey_index = 0;
  init.port_num = port_;
  init.qp_access_flags = remote_rights();
  if (const int error = device_->api().modify_qp(
        native_, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0)
    throw system_error(device_->why(error_code(error, boost::system::system_category())),
      "cannot initialise a queue pair");

  ec = device_->state(); // it may have ended before watch(), and then is not told
  if (!ec)
    source_index_ = completions_->add(shared_from_this(), ec);
  if (ec)
    throw system_error(ec, "cannot create a queue pair");
  registered_ = true;
}

void queue_pair_core::create()
{
  // From watch() on the device's end may be told at any time: it waits until all is there.
  const std::lock_guard lock(mutex_);
  open_native();
  options_.max_inline_data = inline_max_; // not when it moves: who has options() may be reading
  // Receives that the device has could not be taken along to another one.
  holds_receives_ = obstacle_to_moving().empty();
}

// What the peer may do at all; which memory it may do it to is decided by what is exposed.
unsigned queue_pair_core::remote_rights() const noexcept
{
  return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
    | (device_->attributes().atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

void queue_pair_core::drop_native() noexcept
{
  if (native_ != nullptr && forked())
    native_ = nullptr; // the parent's
  if (native_ != nullptr)
  {
    device_->events().unwatch(native_);
    // Destroying a queue pair takes its completions out of the queue (ibv_destroy_qp(3)); those of
    // the shared receive queue's receives are not its own to lose.
    if (receives_)
      completions_->rescue();
    device_->api().destroy_qp(std::exchange(native_, nullptr));
    if (receives_)
      receives_->detach();
  }
  completions_->unreserve(
    std::exchange(reserved_, 0)); // also of one whose creation failed half-way
}

void queue_pair_core::destroy_native() noexcept
{
  drop_native();
  guard_.reset();
}

bool queue_pair_core::is_alive() const noexcept
{
  return lifecycle_ == lifecycle::open || lifecycle_ == lifecycle::unconfirmed
    || lifecycle_ == lifecycle::connected;
}

ibv_qp* queue_pair_core::native() const
{
  std::lock_guard lock(mutex_);
  return native_;
}

std::uint32_t queue_pair_core::number() const
{
  std::lock_guard lock(mutex_);
  return number_;
}

bool queue_pair_core::is_open() const
{
  std::lock_guard lock(mutex_);
  return lifecycle_ != lifecycle::closed && lifecycle_ != lifecycle::abandoned;
}

bool queue_pair_core::is_connected() const
{
  std::lock_guard lock(mutex_);
  return lifecycle_ == lifecycle::connected && !error_state_;
}

rdma::diagnosis queue_pair_core::diagnose() const
{
  std::lock_guard lock(mutex_);
  rdma::diagnosis result = first_failure_.code ? first_failure_ : refusal_;
  result.device = device_->name();
  result.port = port_;
  result.queue_pair_number = number_;
  return result;
}

bool queue_pair_core::attach(std::shared_ptr<connection_guard> guard)
{
  std::lock_guard lock(mutex_);
  if (guard_ || !is_alive())
    return false;
  guard_ = std::move(guard);
  return true;
}

bool queue_pair_core::sends_in_flight() const
{
  std::lock_guard lock(mutex_);
  return sends_posted_ != 0;
}

void queue_pair_core::withdraw(operation_list& list, const error_code& ec)
{
  while (operation* op = list.pop_front())
    finish(op, ec);
}

// What waits ends behind what is posted, as it would on the device: a message that has arrived is
// heard of before the receives that will never get one. take() comes back here.
void queue_pair_core::withdraw_in_turn()
{
  if (sends_posted_ == 0)
  {
    if (operation* op = std::exchange(partial_, nullptr))
      finish(op, op->result.ec ? op->result.ec : reason_);
    withdraw(waiting_sends_, reason_);
  }
  if (receives_posted_ == 0)
    withdraw(waiting_receives_, reason_);
}

bool queue_pair_core::to_error_state()
{
  if (native_ == nullptr || error_state_ || forked())
    return false;
  error_state_ = true;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return device_->api().modify_qp(native_, &attributes, IBV_QP_STATE) == 0;
}

void queue_pair_core::enter(lifecycle next, const error_code& reason)
{
  lifecycle_ = next;
  reason_ = reason;
  guard_slots(true);
  note_end(reason);
  finish_flushed(reason);
  withdraw_in_turn();
  to_error_state();
  if (claimed() != 0)
    start_flush_timer();
}

void queue_pair_core::disconnect(
  const error_code& reason, const std::string& why, const std::string& operation)
{
  std::lock_guard lock(mutex_);
  if (!is_alive())
    return;
  if (lifecycle_ == lifecycle::unconfirmed)
    first_failure_ = {}; // the message's that was to confirm the path: nobody asked for it
  if (!first_failure_.code)
  {
    if (refusal_.code == reason && why.empty())
      first_failure_ = refusal_; // the cause
    else
      first_failure_.reason = why;
    first_failure_.code = reason;
    first_failure_.operation = operation;
  }
  enter(lifecycle::broken, reason);
}

void queue_pair_core::close()
{
  std::shared_ptr<connection_guard> guard;
  bool leave = false;
  {
    std::lock_guard lock(mutex_);
    if (lifecycle_ == lifecycle::closed || lifecycle_ == lifecycle::abandoned)
      return;
    enter(lifecycle::closed, boost::asio::error::operation_aborted);
    guard = guard_;
    if (claimed() == 0)
      leave = drained();
  }
  if (guard)
    guard->close();
  if (leave)
    completions_->remove(source_index_);
}

bool queue_pair_core::drained()
{
  if (std::exchange(flush_timer_runs_, false))
    flush_timer_.cancel(); // or it would keep the io_context running
  if (lifecycle_ != lifecycle::closed)
    return false;
  if (takes_more())
  {
    start_flush_timer(); // on_device_event() or force_flush() comes back here
    return false;
  }
  destroy_native();
  return std::exchange(registered_, false);
}

// Whether the device may still have receives in hand that it took from the shared receive queue:
// until IBV_EVENT_QP_LAST_WQE_REACHED (IBA 11.2.9.1; ibv_modify_srq(3)) they would be lost with the
// queue pair. Nothing keeps the execution context of a queue pair "elsewhere" running, or alive,
// for the time that this takes.
bool queue_pair_core::takes_more() const noexcept
{
  return receives_ && executor() != executor_relation::elsewhere && native_ != nullptr
    && ever_connected_ && !last_work_request_reached_ && device_->tells_last_work_request()
    && !device_->state();
}

void queue_pair_core::start_flush_timer()
{
  if (lifecycle_ == lifecycle::unconfirmed)
    return; // which gives up by itself, and may go on on another device
  if (flush_timer_runs_)
    return;
  flush_timer_.expires_after(flush_time_max);
  flush_timer_.async_wait(
    [self = std::static_pointer_cast<queue_pair_core>(shared_from_this())](const error_code& ec)
    {
      if (!ec)
        self->force_flush();
    });
  flush_timer_runs_ = true;
  guard_slots(true); // drained() stops it
}

// The device did not flush in time. It lets go of the memory when the queue pair is destroyed.
void queue_pair_core::force_flush()
{
  bool leave = false;
  {
    std::lock_guard lock(mutex_);
    if (flush_timer_.expiry() > boost::asio::steady_timer::clock_type::now())
      return; // of an earlier time, that was on its way when everything had been flushed
    if (lifecycle_ == lifecycle::abandoned || !std::exchange(flush_timer_runs_, false)
      || native_ == nullptr)
      return;
    if (claimed() == 0 && takes_more())
      device_->last_work_request_missed();
    end_posted(reason_   ? reason_
        : device_reason_ ? device_reason_
                         : make_error_code(wc_status::flushed));
    leave = claimed() == 0 && drained();
  }
  if (leave)
    completions_->remove(source_index_);
}

// No completion will come: the queue pair is destroyed, which makes the device let go of all that
// is posted.
void queue_pair_core::end_posted(const error_code& reason)
{
  destroy_native();
  guard_slots(true);
  if (is_alive())
  {
    lifecycle_ = lifecycle::broken; // there is nothing left that could be connected
    reason_ = reason;
  }
  note_end(reason);
  finish_flushed(reason);
  partial_ = nullptr; // is posted, too
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted)
      finish(op, op->result.ec ? op->result.ec : reason);
  withdraw(waiting_sends_, reason);
  withdraw(waiting_receives_, reason);
}

error_code queue_pair_core::end_reason() const
{
  const std::lock_guard lock(mutex_);
  return lifecycle_ == lifecycle::broken && reason_ ? reason_
                                                    : boost::asio::error::operation_aborted;
}

error_code queue_pair_core::flush_reason() const
{
  return reason_ ? reason_ : make_error_code(wc_status::flushed);
}

void queue_pair_core::fail(
  const error_code& reason, const char* what, const work_source* through) noexcept
{
  bool leave = false;
  {
    const std::lock_guard lock(mutex_);
    if (lifecycle_ == lifecycle::abandoned || (through != nullptr && through != receives_.get()))
      return;
    if (!first_failure_.code)
    {
      first_failure_.code = reason;
      first_failure_.operation = "the queue pair";
      first_failure_.reason = what;
    }
    if (is_alive())
    {
      lifecycle_ = lifecycle::broken;
      reason_ = reason;
    }
    note_end(reason);
    error_state_ = true;
    if (std::exchange(flush_timer_runs_, false))
      flush_timer_.cancel();
    end_posted(flush_reason());
    leave = claimed() == 0 && drained();
  }
  if (leave)
    completions_->remove(source_index_);
}

void queue_pair_core::on_device_event(const async_event& news) noexcept
{
  bool leave = false;
  switch (news.type)
  {
  case device_event_type::device_fatal:
    fail(error::device_lost, describe(news.type), nullptr);
    return;
  case device_event_type::queue_pair_fatal:
  case device_event_type::queue_pair_request_error:
  case device_event_type::queue_pair_access_error:
  case device_event_type::path_migration_error:
  {
    const std::lock_guard lock(mutex_);
    // It may be of an ibv_qp that was left behind for another device's.
    if (native_ == nullptr || lifecycle_ == lifecycle::abandoned
      || news.queue_pair_number != number_)
      return;
    if (!first_failure_.code)
    {
      first_failure_.code = error::queue_pair_failed;
      first_failure_.operation = "the queue pair";
      first_failure_.reason = describe(news.type);
    }
    // What is posted is flushed, as after a failed operation; where the device does not do that,
    // the timer does.
    device_reason_ = error::queue_pair_failed;
    guard_slots(true); // before the look at what is claimed
    to_error_state();
    if (lifecycle_ == lifecycle::connected)
      note_end(device_reason_); // nothing may be outstanding that would say so
    if (claimed() != 0)
      start_flush_timer();
    return;
  }
  case device_event_type::last_work_request_reached:
  {
    const std::lock_guard lock(mutex_);
    last_work_request_reached_ = true;
    device_->last_work_request_told();
    if (lifecycle_ == lifecycle::closed && claimed() == 0)
      leave = drained();
    break;
  }
  default:
    return; // news for the user
  }
  if (leave)
    completions_->remove(source_index_);
}

void queue_pair_core::unlink(operation* op)
{
  waiting(op->what.kind).erase(op);
  tell_if_finished();
}

void queue_pair_core::terminate()
{
  to_error_state();
  start_flush_timer();
}

void queue_pair_core::stop() noexcept
{
  std::lock_guard lock(mutex_);
  lifecycle_ = lifecycle::abandoned;
  guard_slots(true);
  partial_ = nullptr;
  destroy_native();
}

void queue_pair_core::abandon() noexcept
{
  const auto keep = shared_from_this();
  std::unique_ptr<endings> waiting;
  std::shared_ptr<agent_attachment> beside;
  {
    const std::lock_guard lock(mutex_);
    waiting = std::move(endings_);
    beside = std::move(attachment_);
  }
  destroy_operations();
  if (beside)
    beside->abandon();
}

} // namespace rdma::detail
