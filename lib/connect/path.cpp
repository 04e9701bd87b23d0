//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/path.hpp"

#include "connect/path_fsm.hpp"
#include "resource/device_impl.hpp"
#include "resource/domain_impl.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

path::path(connection& link, std::shared_ptr<queue_pair_core> core, const asio::ip::address& own)
  : link_(link)
  , core_(std::move(core))
  , own_(own)
{
}

void path::decline(std::string transport, std::string reason)
{
  declined_.add(std::move(transport), std::move(reason));
}

std::string path::declined_text(const error_code& ec) const
{
  std::string result;
  // A host without a NIC is a reason only if there is no transport at all.
  for (const declined_transport& each : declined_.list())
    if (ec == error::no_common_transport || each.transport != endpoint_choice_fsm::any_nic
      || each.reason != core_->why_no_nic())
      result += (result.empty() ? "" : "; ") + each.transport + ": " + each.reason;
  return result;
}

own_side path::describe_self() const
{
  const bool on_nic = core_->device().kind() == device_kind::nic;
  return {on_nic, on_nic ? std::string() : core_->why_no_nic(), core_->why_not_move()};
}

// Performs an action that ends at once.
path_outcome path::perform(const path_action& what)
{
  using side = queue_pair_core::side;
  path_outcome result;
  std::string lacking;
  endpoint_offer own;
  wire by = what.wire;
  switch (what.type)
  {
  case path_action_type::describe:
    result.endpoint = core_->offer(own_, by, result.ec, lacking).description;
    break;
  case path_action_type::move:
    core_->move_to_software(result.ec);
    break;
  case path_action_type::connect:
    by = what.remote.wire;
    own = core_->offer(own_, by, result.ec, lacking);
    if (!result.ec)
      core_->connect_unconfirmed(
        own, what.remote, role_ == path_role::client ? side::last : side::first, result.ec);
    result.endpoint = std::move(own.description);
    if (!result.ec)
    {
      by = core_->transport().wire; // the peer may not have named it
      result.linked = core_->is_linked();
    }
    break;
  case path_action_type::send:
    link_.send(what.frame, what.text);
    break;
  default:
    break;
  }
  result.transport = std::string(name_of(by)) + " on " + core_->device().name();
  if (result.ec)
    result.text = result.ec.message() + (lacking.empty() ? "" : " (" + lacking + ')');
  return result;
}

handshake_parameters path::run(endpoint_choice_fsm machine, error_code& ec)
{
  path_action next = machine.resume(describe_self(), {});
  while (next.type != path_action_type::done)
  {
    const path_outcome result = perform(next);
    next = machine.resume(describe_self(), result);
  }
  ec = next.error;
  transport_ = machine.transport();
  declined_ = machine.declined();
  parameters_ = machine.parameters();
  parameters_.heartbeat_limit = bounded_heartbeat_limit(core_->options().heartbeat_limit);
  return parameters_;
}

handshake_parameters path::offer(error_code& ec)
{
  return run(endpoint_choice_fsm(), ec);
}

handshake_parameters path::choose(const handshake_parameters& client, error_code& ec)
{
  role_ = path_role::server;
  return run(endpoint_choice_fsm(client), ec);
}

void path::enter(declined_transports declined, error_code& ec)
{
  if (std::string why = core_->why_not_shared_memory(); !why.empty())
    declined.add("shared memory", std::move(why));
  core_->confirmed(declined.list(), ec);
}

service_awaitable<error_code> path::negotiate(handshake_parameters peer)
{
  path_fsm machine(role_, parameters_, std::move(peer), transport_, declined_);
  path_outcome result;
  for (;;)
  {
    result.stopped = link_.failure({});
    const path_action next = machine.resume(describe_self(), std::exchange(result, {}));
    switch (next.type)
    {
    case path_action_type::confirm:
      result.ec = co_await confirm();
      result.text = result.ec.message();
      break;
    case path_action_type::receive:
      link_.agrees = true;
      link_.expect_peer(peer_patience());
      result.ec = co_await link_.read_frame(result.frame);
      link_.expect_nothing();
      result.text = link_.payload();
      break;
    case path_action_type::enter:
      enter(machine.declined(), result.ec);
      break;
    case path_action_type::done:
      declined_ = machine.declined();
      co_return link_.failure(next.error);
    default:
      result = perform(next);
      break;
    }
  }
}

// Returns how long the peer may send nothing: on a NIC, it may have to wait for the time limit of a
// confirmation first.
std::chrono::milliseconds path::peer_patience() const
{
  return connection::peer_silence_max
    + (core_->device().kind() == device_kind::software ? std::chrono::milliseconds()
                                                       : core_->options().confirm_timeout);
}

// Sends a message that the peer's device acknowledges, and waits for the acknowledgement.
service_awaitable<error_code> path::confirm()
{
  // The threads of the queue pair's io_context take the completion at once. If all of them are
  // busy, this thread polls for it.
  constexpr std::chrono::milliseconds step_first{4};
  constexpr std::chrono::milliseconds step_max{32};
  struct outcome
  {
    std::atomic<bool> known{false};
    error_code ec;
  };
  const auto result = std::make_shared<outcome>();
  const auto timer = std::make_shared<asio::steady_timer>(link_.io());
  core_->confirm(
    [result, weak = std::weak_ptr(timer), to_service = link_.service_inbox()](error_code ec)
    {
      result->ec = ec;
      result->known.store(true, std::memory_order_release); // publishes ec
      try
      {
        to_service->post(
          [weak]
          {
            if (const auto waiting = weak.lock())
              waiting->cancel();
          });
      }
      catch (const std::bad_alloc&)
      {
        // The service's thread looks at the result after its step.
      }
    });
  const auto known = [&] { return result->known.load(std::memory_order_acquire); };
  const auto until = std::chrono::steady_clock::now() + core_->options().confirm_timeout;
  for (auto step = step_first; !known(); step = std::min(2 * step, step_max))
  {
    if (link_.stopped())
      co_return link_.failure(error::peer_lost);
    const auto now = std::chrono::steady_clock::now();
    if (now >= until)
      co_return error::path_not_confirmed;
    error_code ignored;
    timer->expires_after(std::min<std::chrono::steady_clock::duration>(step, until - now));
    if (known())
      break; // and the timer may have been cancelled before
    co_await timer->async_wait(into(ignored));
    if (!known())
      core_->look_for_confirmation();
  }
  co_return result->ec;
}

} // namespace rdma::detail
