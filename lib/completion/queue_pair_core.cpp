//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#include "completion/queue_pair_core.hpp"

#include "completion/completion_queue_impl.hpp"
#include "completion/completion_service.hpp"
#include "completion/early_receive.hpp"
#include "completion/native_queue_pair.hpp"
#include "completion/queue_pair_endings.hpp"
#include "completion/shared_receive_core.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>

// A queue pair's lifetime: creation, failures, close, release.

namespace rdma::detail {
namespace {

// Limit of the time that a device has to flush a queue pair in the error state. Then the queue pair
// is destroyed. Some devices never flush after a disconnect (rxe).
constexpr std::chrono::seconds flush_time_max{2};

// Number of entries that a queue pair needs in its completion queue.
std::uint32_t completions_of(const queue_pair_options& options)
{
  return std::max(options.send_depth, 1u)
    + (options.receives ? 0 : std::max(options.receive_depth, 1u));
}

queue_pair_options adjusted(const queue_pair_options& options, const device_impl& device)
{
  queue_pair_options result = options;
  result.send_depth = std::max(options.send_depth, 1u);
  result.receive_depth = std::max(options.receive_depth, options.receives ? 0u : 1u);
  result.completions.reset(); // completions_ holds it
  const int most = std::clamp(device.attributes().max_qp_rd_atom, 0, 255);
  result.read_atomic_depth =
    static_cast<std::uint8_t>(std::min<int>(options.read_atomic_depth, most));
  return result;
}

} // namespace

std::shared_ptr<queue_pair_core> queue_pair_core::make(const boost::asio::any_io_executor& executor,
  bool same_context, const protection_domain& domain, const queue_pair_options& options)
{
  completion_service::of(executor); // keeps the context while the events' thread owns the timer
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
  if (options.for_stream && device->traits().connection_manager_only && !options.receives)
  {
    core->early_receive_ = std::make_shared<early_receive>(core->context());
    core->early_receive_->post(*core);
  }
  return core;
}

queue_pair_core::queue_pair_core(const boost::asio::any_io_executor& executor,
  executor_relation where, const protection_domain& domain, const queue_pair_options& options,
  std::shared_ptr<completion_queue_impl> completions, device_impl& device)
  : work_source(std::move(completions), domain.impl(),
    std::max({options.max_send_sge, options.max_receive_sge, 1u}), options.copy_max, where)
  , options_(adjusted(options, device))
  , own_completions_(options.completions)
  , device_(&device)
  , device_index_(device.index())
  , receives_(options.receives)
  , posting_(*this, options_.send_depth, options_.receive_depth)
  , flush_timer_(executor)
{
  limits_.domain = domain_.get();
  limits_.send_sge_max = std::max(options.max_send_sge, 1u);
  limits_.receive_sge_max = receives_ ? 0 : std::max(options.max_receive_sge, 1u);
}

queue_pair_core::~queue_pair_core()
{
  destroy_native();
}

void queue_pair_core::create()
{
  // The device may report its end as soon as watch() was called: that waits until all exists.
  const std::lock_guard lock(mutex_);
  open_native(lock);
  // Not in a move: a user of options() may be reading.
  options_.max_inline_data = static_cast<std::uint32_t>(posting_.inline_max(request_kind::send));
  // Receives that a NIC has cannot move to another device.
  connection_ = connection_fsm(!obstacle_to_moving().empty());
}

void queue_pair_core::open_native(mutex_held)
{
  if (!fits_device(*device_, options_))
    throw system_error(error::queue_too_deep, "cannot create a queue pair");
  error_code ec;
  if (reserved_ == 0)
  {
    completions_->reserve(completions_of(options_), ec);
    if (ec)
      throw system_error(ec, "cannot create a queue pair");
    reserved_ = completions_of(options_);
  }
  std::uint32_t inline_max = 0;
  ibv_qp* const native = create_native(*device_, domain_->native(device_index_),
    completions_->native(), receives_ ? receives_->native() : nullptr, options_, inline_max);
  posting_.open(native, device_index_, inline_max, device_->traits().signals_each);
  if (receives_)
    receives_->attach();
  port_ = device_->port_number();
  limits_.device = device_;
  limits_.device_index = device_index_;
  limits_.message_size_max = device_->port().max_msg_sz;
  limits_.features = features_of(*device_);
  own_ = {};
  own_.description.features = limits_.features;
  identity_ = make_identity(native->qp_num, ec);
  device_->events().watch(native, std::static_pointer_cast<queue_pair_core>(shared_from_this()));

  if (const int error = to_init(*device_, native, port_); error != 0)
    throw system_error(device_->why(error_code(error, boost::system::system_category())),
      "cannot initialise a queue pair");
  if (!ec)
    ec = device_->state(); // an end before watch() is not reported
  if (!ec)
    source_index_ = completions_->add(shared_from_this(), ec);
  if (ec)
    throw system_error(ec, "cannot create a queue pair");
  registered_ = true;
}

void queue_pair_core::drop_native() noexcept
{
  ibv_qp* const native = posting_.native();
  posting_.close();
  if (native != nullptr && !forked()) // otherwise it belongs to the parent process
  {
    device_->events().unwatch(native);
    // Destroying a queue pair removes its completions from the queue (ibv_destroy_qp(3)). Those of
    // the shared receive queue's receives must not be lost.
    if (receives_)
      completions_->rescue();
    device_->api().destroy_qp(native);
    if (receives_)
      receives_->detach();
  }
  completions_->unreserve(std::exchange(reserved_, 0)); // also if the creation failed half-way
}

void queue_pair_core::destroy_native() noexcept
{
  drop_native();
  guard_.reset();
}

ibv_qp* queue_pair_core::native() const
{
  std::lock_guard lock(mutex_);
  return posting_.native();
}

std::uint32_t queue_pair_core::number() const
{
  std::lock_guard lock(mutex_);
  return identity_.queue_pair_number;
}

bool queue_pair_core::is_open() const
{
  std::lock_guard lock(mutex_);
  return connection_.is_open();
}

bool queue_pair_core::is_connected() const
{
  std::lock_guard lock(mutex_);
  return connection_.is_connected();
}

rdma::diagnosis queue_pair_core::diagnose() const
{
  std::lock_guard lock(mutex_);
  rdma::diagnosis result = first_failure_.code ? first_failure_ : refusal_;
  result.device = device_->name();
  result.port = port_;
  result.queue_pair_number = identity_.queue_pair_number;
  return result;
}

// Stores the first failure for diagnose().
void queue_pair_core::note_failure(
  const error_code& code, std::string operation, std::string reason, std::uint32_t vendor_error)
{
  if (first_failure_.code)
    return;
  first_failure_.code = code;
  first_failure_.operation = std::move(operation);
  first_failure_.reason = std::move(reason);
  first_failure_.vendor_error = vendor_error;
}

// Stores what a device lacks for diagnose(), as long as nothing failed.
void queue_pair_core::refuse(const char* operation, const error_code& ec, std::string lacking)
{
  refusal_.code = ec;
  refusal_.operation = operation;
  refusal_.reason = std::move(lacking);
}

bool queue_pair_core::attach(std::shared_ptr<connection_guard> guard)
{
  std::lock_guard lock(mutex_);
  if (guard_ || !connection_.is_alive())
    return false;
  guard_ = std::move(guard);
  return true;
}

// Passes an event to the state machine and carries out the actions that follow.
void queue_pair_core::apply(connection_event event, mutex_held held, const error_code& reason)
{
  namespace act = connection_action;
  const bool was_alive = connection_.is_alive();
  const connection_actions actions = connection_.apply(event, reason);
  count_connection(was_alive && event == connection_event::disconnected);
  // Before claimed() is read.
  guard_slots(!connection_.is_connected() || flush_timer_runs_ || !registered_, held);
  if ((actions & act::release_receives) != 0)
    posting_.post_waiting(request_kind::receive, held);
  if ((actions & act::report_end) != 0)
    report_end();
  if ((actions & act::end_waiting) != 0)
  {
    finish_flushed();
    posting_.withdraw_in_turn(connection_.reason());
  }
  if ((actions & act::move_to_error) != 0 && posting_.native() != nullptr && !forked())
    to_error(*device_, posting_.native());
  if ((actions & act::start_flush_timer) != 0 && claimed() != 0)
    start_flush_timer(held);
  if ((actions & act::destroy) != 0)
    end_posted();
  if ((actions & act::notify_peer) != 0)
    guard_->finish();
  if ((actions & act::close_channel) != 0 && guard_)
    guard_->close();
}

// For context::statistics(), after each event. `disconnected`: the event ended an attempt to
// connect, or a connection.
void queue_pair_core::count_connection(bool disconnected)
{
  activity& to = domain_->devices()->activity;
  const activity::transport by =
    device_->kind() == device_kind::software ? &statistics::software : &statistics::nic;
  if (counted_ == counted::nothing && connection_.carries())
  {
    to.connected(by);
    counted_ = counted::connected;
  }
  else if (counted_ == counted::nothing && disconnected)
    to.connecting_failed(by);
  const bool over = connection_.end() || connection_.state() == connection_state::abandoned;
  if (counted_ == counted::connected && over)
  {
    to.disconnected(by, connection_.end() ? connection_.end()->reason : error_code());
    counted_ = counted::end;
  }
}

void queue_pair_core::disconnect(
  const error_code& reason, const std::string& why, const std::string& operation)
{
  std::lock_guard lock(mutex_);
  if (!connection_.is_alive())
    return;
  if (connection_.is_unconfirmed())
    first_failure_ = {}; // of the message that was to confirm the path, which no user submitted
  const bool refused = refusal_.code == reason && why.empty(); // which is the cause
  try
  {
    note_failure(reason, operation, refused ? refusal_.reason : why);
  }
  catch (const std::bad_alloc&)
  {
    note_failure(reason, {}, {});
  }
  apply(connection_event::disconnected, lock, reason);
}

void queue_pair_core::close()
{
  release_spare(); // of a handler that calls this: nothing may be claimed then
  std::unique_lock lock(mutex_);
  if (!connection_.is_open())
    return;
  apply(connection_event::closed, lock);
  const std::shared_ptr<connection_guard> guard = guard_;
  leave_if_drained(std::move(lock));
  if (guard)
    guard->close();
}

bool queue_pair_core::drained(mutex_held held)
{
  if (std::exchange(flush_timer_runs_, false))
    flush_timer_.cancel(); // otherwise it would keep the io_context running
  if (connection_.state() != connection_state::closed)
    return false;
  if (takes_more())
  {
    start_flush_timer(held); // on_device_event() or force_flush() calls this function again
    return false;
  }
  destroy_native();
  return std::exchange(registered_, false);
}

// Returns true if the device may still hold receives of the shared receive queue: until
// IBV_EVENT_QP_LAST_WQE_REACHED (IBA 11.2.9.1; ibv_modify_srq(3)) they would be lost with the queue
// pair. The execution context of a queue pair "elsewhere" is not kept running, or alive, for this.
bool queue_pair_core::takes_more() const noexcept
{
  return receives_ && executor() != executor_relation::elsewhere && posting_.native() != nullptr
    && connection_.was_connected() && !last_work_request_reached_
    && device_->tells_last_work_request() && !device_->state();
}

void queue_pair_core::start_flush_timer(mutex_held held)
{
  if (flush_timer_runs_ || connection_.is_unconfirmed()) // which may continue on another device
    return;
  flush_timer_.expires_after(flush_time_max);
  try
  {
    flush_timer_.async_wait(boost::asio::bind_allocator(slot_allocator<void>(flush_slot_),
      [self = std::static_pointer_cast<queue_pair_core>(shared_from_this())](const error_code& ec)
      {
        if (!ec)
          self->force_flush();
      }));
  }
  catch (const std::bad_alloc&)
  {
    return; // an earlier wait has the slot, or the executor needs memory
  }
  flush_timer_runs_ = true;
  guard_slots(true, held); // drained() stops it
}

// The device did not flush in time. It releases the memory when the queue pair is destroyed.
void queue_pair_core::force_flush()
{
  std::unique_lock lock(mutex_);
  if (flush_timer_.expiry() > boost::asio::steady_timer::clock_type::now())
    return; // of an earlier wait, which expired while everything was flushed
  if (connection_.state() == connection_state::abandoned || !std::exchange(flush_timer_runs_, false)
    || posting_.native() == nullptr)
    return;
  if (claimed() == 0 && takes_more())
    device_->last_work_request_missed();
  apply(connection_event::timed_out, lock);
  leave_if_drained(std::move(lock));
}

// No completion will come: the device releases all that is posted when the queue pair is destroyed.
void queue_pair_core::end_posted()
{
  const error_code& reason = connection_.reason();
  destroy_native();
  finish_flushed();
  posting_.drop_rest(); // counts as posted
  for (std::uint32_t i = 0; operation* op = slot(i); ++i)
    if (op->stage() == operation::state::posted)
      finish(op, op->result.ec ? op->result.ec : reason);
  posting_.withdraw_all(reason);
}

void queue_pair_core::finish_flushed()
{
  while (operation* op = flushed_.pop_front())
    finish(op, op->result.ec ? op->result.ec : connection_.reason());
}

error_code queue_pair_core::end_reason() const
{
  const std::lock_guard lock(mutex_);
  return connection_.state() == connection_state::broken ? connection_.reason()
                                                         : boost::asio::error::operation_aborted;
}

void queue_pair_core::fail(
  const error_code& reason, const char* what, const work_source* through) noexcept
{
  std::unique_lock lock(mutex_);
  if (connection_.state() == connection_state::abandoned
    || (through != nullptr && through != receives_.get()))
    return;
  note_failure(reason, "the queue pair", what);
  if (std::exchange(flush_timer_runs_, false))
    flush_timer_.cancel();
  apply(connection_event::lost, lock, reason);
  leave_if_drained(std::move(lock));
}

void queue_pair_core::on_device_event(const async_event& event) noexcept
{
  switch (event.type)
  {
  case device_event_type::device_fatal:
    fail(error::device_lost, describe(event.type), nullptr);
    return;
  case device_event_type::queue_pair_fatal:
  case device_event_type::queue_pair_request_error:
  case device_event_type::queue_pair_access_error:
  case device_event_type::path_migration_error:
  {
    const std::lock_guard lock(mutex_);
    // The event may concern the queue pair of another device, before a move.
    if (posting_.native() == nullptr || connection_.state() == connection_state::abandoned
      || event.queue_pair_number != identity_.queue_pair_number)
      return;
    note_failure(error::queue_pair_failed, "the queue pair", describe(event.type));
    apply(connection_event::device_failed, lock);
    return;
  }
  case device_event_type::last_work_request_reached:
  {
    std::unique_lock lock(mutex_);
    last_work_request_reached_ = true;
    device_->last_work_request_told();
    if (connection_.state() == connection_state::closed)
      leave_if_drained(std::move(lock));
    return;
  }
  default:
    return; // for the user
  }
}

void queue_pair_core::unlink(operation* op, mutex_held held)
{
  posting_.unlink(op);
  note_if_drained(held);
}

void queue_pair_core::terminate(mutex_held held)
{
  apply(connection_event::terminated, held);
}

void queue_pair_core::stop() noexcept
{
  std::lock_guard lock(mutex_);
  apply(connection_event::abandoned, lock);
  posting_.drop_rest();
  destroy_native();
}

void queue_pair_core::abandon() noexcept
{
  const auto keep = shared_from_this();
  std::unique_ptr<endings> waiting;
  std::shared_ptr<agent_attachment> attachment;
  {
    const std::lock_guard lock(mutex_);
    waiting = std::move(endings_);
    attachment = std::move(attachment_);
  }
  destroy_operations();
  if (attachment)
    attachment->abandon();
}

} // namespace rdma::detail
