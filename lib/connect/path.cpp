//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/path.hpp"

#include "connect/log.hpp"
#include "resource/device_impl.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

constexpr wire nic_wires[] = {wire::infiniband, wire::roce_v2, wire::roce_v1};
constexpr char any_nic[] = "RDMA NIC";

// Why the peer declined something, for declined_transport::reason.
std::string words_of_peer(std::string_view reason)
{
  if (reason.empty())
    return "the peer reports no reason";
  return "the peer reports " + untrusted(reason, untrusted_reason_size_max);
}

// Why a device could not be connected.
std::string words_of(const error_code& ec, const diagnosis& more)
{
  return ec.message() + (more.reason.empty() ? "" : " (" + more.reason + ')');
}

bool of_nic(const endpoint_description& endpoint)
{
  return endpoint.kind == device_kind::nic;
}

} // namespace

path::path(connection& link, std::shared_ptr<queue_pair_core> core, const asio::ip::address& own)
  : link_(link)
  , core_(std::move(core))
  , own_(own)
{
}

void path::decline(std::string transport, std::string reason)
{
  declined_.push_back({std::move(transport), std::move(reason)});
}

std::string path::name_of_device(wire by) const
{
  return std::string(name_of(by)) + " on " + core_->device().name();
}

std::string path::declined_text(const error_code& ec) const
{
  std::string result;
  for (const declined_transport& each : declined_)
    if (ec == error::no_common_transport || each.transport != any_nic
      || each.reason != core_->why_no_nic())
      result += (result.empty() ? "" : "; ") + each.transport + ": " + each.reason;
  return result;
}

void path::introduce(handshake_parameters& self) const
{
  self.falls_back =
    core_->device().kind() == device_kind::software || core_->why_not_move().empty();
  self.heartbeat_limit = bounded_heartbeat_limit(core_->options().heartbeat_limit);
  self.declined = declined_;
}

void path::hear(const handshake_parameters& peer)
{
  peer_falls_back_ = peer.falls_back;
  for (const declined_transport& each : peer.declined)
    decline(untrusted(each.transport), words_of_peer(each.reason));
}

void path::leave_nic(error_code& ec)
{
  if (const std::string obstacle = core_->why_not_move(); !obstacle.empty())
    decline("software device", "the queue pair cannot fall back: " + obstacle);
  else
    return core_->move_to_software(ec);
  ec = error::no_common_transport;
}

handshake_parameters path::offer(error_code& ec)
{
  handshake_parameters self;
  if (core_->device().kind() == device_kind::nic)
  {
    error_code last;
    std::vector<declined_transport> obstacles;
    for (const wire by : nic_wires)
    {
      error_code none;
      endpoint_description endpoint = core_->offer(own_, by, none);
      if (none)
      {
        last = none;
        obstacles.push_back({name_of_device(by), words_of(none, core_->diagnose())});
      }
      else
        self.endpoints.push_back(std::move(endpoint));
    }
    // A port is InfiniBand's or RoCE's: of the other nothing is to be expected.
    if (!self.endpoints.empty() && self.endpoints.front().wire == wire::roce_v1)
      declined_.push_back(std::move(obstacles.back()));
    if (self.endpoints.empty())
    {
      decline(any_nic, words_of(last, core_->diagnose()));
      leave_nic(ec);
      if (ec)
        ec = last;
    }
  }
  else
    decline(any_nic, core_->why_no_nic());
  if (!ec && self.endpoints.empty())
  {
    self.endpoints.push_back(core_->offer(own_, wire::tcp, ec));
    if (ec)
      decline(name_of_device(wire::tcp), words_of(ec, core_->diagnose()));
  }
  introduce(self);
  return self;
}

// INIT -> RTR -> RTS, with the GID that goes with the peer's wire.
void path::connect(const endpoint_description& remote, error_code& ec)
{
  core_->offer(own_, remote.wire, ec);
  if (!ec)
    core_->connect_unconfirmed(remote, queue_pair_core::side::last, ec);
}

handshake_parameters path::choose(const handshake_parameters& client, error_code& ec)
{
  handshake_parameters self;
  const bool has_nic = core_->device().kind() == device_kind::nic;
  const bool offers_nic = std::any_of(client.endpoints.begin(), client.endpoints.end(), of_nic);
  if (!has_nic && offers_nic)
    decline(any_nic, core_->why_no_nic());
  if (has_nic && !offers_nic && client.declined.empty()) // else it says why, and needs no echo
    decline(any_nic, "the peer offers none");
  const auto take = [&](const endpoint_description& remote)
  {
    error_code failed;
    endpoint_description local = core_->offer(own_, remote.wire, failed);
    if (!failed)
      core_->connect_unconfirmed(remote, queue_pair_core::side::first, failed);
    if (!failed)
    {
      self.endpoints.push_back(std::move(local));
      return true;
    }
    decline(name_of_device(remote.wire), words_of(failed, core_->diagnose()));
    return false;
  };
  for (const endpoint_description& remote : client.endpoints)
    if (has_nic && of_nic(remote) && self.endpoints.empty())
      take(remote);
  if (self.endpoints.empty() && has_nic)
    leave_nic(ec);
  const auto software = std::find_if_not(client.endpoints.begin(), client.endpoints.end(), of_nic);
  if (!ec && self.endpoints.empty() && software != client.endpoints.end())
    take(*software);
  if (!ec && self.endpoints.empty())
  {
    self.software_next = software == client.endpoints.end() && client.falls_back;
    waits_for_endpoint_ = self.software_next;
    if (!self.software_next)
      ec = error::no_common_transport;
  }
  introduce(self);
  hear(client);
  return self;
}

// Both sides come to the same conclusion: each knows what the other announced.
bool path::may_change_over() const
{
  return peer_falls_back_ && core_->why_not_move().empty();
}

void path::finish(error_code& ec)
{
  if (std::string why = core_->why_not_shared_memory(); !why.empty())
    decline("shared memory", std::move(why));
  core_->confirmed(std::move(declined_), ec);
}

// Both give up the NIC: each tells the other its queue pair's endpoint on the software device, the
// client first.
asio::awaitable<error_code> path::change_over(bool first)
{
  error_code ec;
  if (core_->device().kind() == device_kind::nic)
    leave_nic(ec);
  endpoint_description local;
  if (!ec)
    local = core_->offer(own_, wire::tcp, ec);
  if (ec)
    co_return ec;
  if (first)
    link_.send(frame_type::endpoint, local.text());
  if ((ec = co_await link_.receive(frame_type::endpoint)))
    co_return ec;
  const endpoint_description remote = endpoint_description::parse(link_.payload(), ec);
  if (!ec)
    core_->connect_unconfirmed(
      remote, first ? queue_pair_core::side::last : queue_pair_core::side::first, ec);
  if (!ec && !first)
    link_.send(frame_type::endpoint, local.text());
  co_return ec;
}

// Whether a message of this side gets through, within the limit.
asio::awaitable<error_code> path::confirm()
{
  // Whoever runs the queue pair's io_context finds the completion at once. Where all of them are
  // busy, this thread looks.
  constexpr std::chrono::milliseconds step_first{4};
  constexpr std::chrono::milliseconds step_max{32};
  struct attempt
  {
    explicit attempt(asio::io_context& io)
      : timer(io)
    {
    }
    asio::steady_timer timer;
    std::optional<error_code> result;
  };
  const auto shared = std::make_shared<attempt>(link_.io());
  core_->confirm(
    [weak = std::weak_ptr(shared), words = link_.words()](error_code ec)
    {
      words->post(
        [weak, ec]
        {
          const auto waiting = weak.lock();
          if (!waiting)
            return;
          waiting->result = ec;
          waiting->timer.cancel();
        });
    });
  const auto until = std::chrono::steady_clock::now() + core_->options().confirm_timeout;
  for (auto step = step_first; !shared->result; step = std::min(2 * step, step_max))
  {
    if (link_.stopped())
      co_return link_.failure(error::peer_lost);
    const auto now = std::chrono::steady_clock::now();
    if (now >= until)
      co_return error::path_not_confirmed;
    error_code ignored;
    shared->timer.expires_after(std::min<std::chrono::steady_clock::duration>(step, until - now));
    co_await shared->timer.async_wait(into(ignored));
    if (!shared->result)
      core_->look_for_confirmation();
  }
  co_return *shared->result;
}

asio::awaitable<error_code> path::go_as_client(handshake_parameters server)
{
  hear(server);
  error_code ec;
  wire by = wire::tcp;
  if (server.software_next)
    ec = co_await change_over(true);
  else
  {
    by = server.endpoints.front().wire;
    connect(server.endpoints.front(), ec);
  }
  for (;;)
  {
    const bool tried = !ec;
    if (tried)
      by = core_->transport().wire; // also where the peer did not name it
    const std::string here = name_of_device(by);
    std::string obstacle;
    if (!tried)
      obstacle = words_of(ec, core_->diagnose());
    else if (const error_code own = co_await confirm())
      obstacle = own.message();
    if (link_.stopped())
      co_return link_.failure(ec);
    if (obstacle.empty())
    {
      link_.send(frame_type::confirmed);
      frame_type verdict{};
      if ((ec = co_await link_.receive(frame_type::confirmed, frame_type::unconfirmed, verdict)))
        co_return ec;
      if (verdict == frame_type::confirmed)
      {
        finish(ec);
        co_return link_.failure(ec);
      }
      obstacle = words_of_peer(link_.payload());
    }
    else
      link_.send(frame_type::unconfirmed, obstacle);
    decline(here, obstacle);
    if (!may_change_over())
      co_return link_.failure(tried ? error_code(error::path_not_confirmed) : ec);
    if ((ec = co_await change_over(true)))
      co_return link_.failure(ec);
  }
}

asio::awaitable<error_code> path::go_as_server()
{
  error_code ec;
  if (waits_for_endpoint_)
    ec = co_await change_over(false);
  for (;;)
  {
    if (ec)
      co_return link_.failure(ec);
    const std::string here = name_of_device(core_->transport().wire);
    frame_type verdict{};
    if ((ec = co_await link_.receive(frame_type::confirmed, frame_type::unconfirmed, verdict)))
      co_return ec;
    if (verdict == frame_type::confirmed)
    {
      const error_code own = co_await confirm();
      if (link_.stopped())
        co_return link_.failure(own);
      if (!own)
      {
        finish(ec); // before the client hears of it: what it sends then finds receives
        if (!ec)
          link_.send(frame_type::confirmed);
        co_return link_.failure(ec);
      }
      decline(here, own.message());
      link_.send(frame_type::unconfirmed, own.message());
    }
    else
      decline(here, words_of_peer(link_.payload()));
    if (!may_change_over())
      co_return link_.failure(error::path_not_confirmed);
    ec = co_await change_over(false);
  }
}

} // namespace rdma::detail
