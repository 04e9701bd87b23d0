//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/choice.hpp"

#include "info/words.hpp"
#include "resource/domain_impl.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include <algorithm>
#include <optional>

namespace info {
namespace {

namespace ip = boost::asio::ip;

// Returns this host's address for the route to a peer. Connecting a datagram socket performs the
// route lookup and sends nothing.
ip::address address_towards(
  boost::asio::io_context& io, const ip::address& address, rdma::error_code& ec)
{
  constexpr ip::port_type any_port = 4791;
  ip::udp::socket socket(io);
  const ip::udp::endpoint peer(address, any_port);
  socket.open(peer.protocol(), ec);
  if (!ec)
    socket.connect(peer, ec);
  if (ec)
    return {};
  return socket.local_endpoint(ec).address();
}

// Fills in the offer of a queue pair on this device to a peer. Returns false, with the reason in
// `why`, if there is none.
bool offer(boost::asio::io_context& io, const rdma::context& context,
  const rdma::detail::device_impl& device, const ip::address& local, choice_report& result,
  std::string& why)
{
  rdma::queue_pair_options options;
  options.device = device.name();
  rdma::queue_pair pair(io, context, options);
  try
  {
    const rdma::endpoint_description mine = pair.local_endpoint(local);
    result.device = mine.device;
    result.path_mtu = mine.path_mtu;
    result.gid.type = rdma::name_of(mine.wire);
    // The description has no GID index, so repeat the choice.
    rdma::error_code ec;
    if (const auto entry = device.find_gid(local, rdma::wire::unknown, ec))
    {
      result.port = entry->port;
      result.gid.index = entry->index;
      if (entry->address)
        result.gid.address = entry->address->to_string();
    }
    return true;
  }
  catch (const rdma::system_error& e)
  {
    const rdma::diagnosis known = pair.diagnose();
    why = e.code().message() + (known.reason.empty() ? "" : ": " + known.reason);
    return false;
  }
}

} // namespace

default_report choose_default()
{
  default_report result;
  try
  {
    const rdma::context context;
    result.device = context.default_device().name();
    result.why_no_nic = context.impl()->devices()->why_no_nic;
    const rdma::registration_cache_statistics cache = context.registration_cache_statistics();
    result.keeps_registrations = cache.enabled;
    result.why_not_kept = cache.disabled_reason;
  }
  catch (const rdma::system_error& e)
  {
    result.trouble = words_of(e);
  }
  return result;
}

choice_report choose_for(const ip::address& address)
{
  choice_report result;
  result.asked = address.to_string();
  boost::asio::io_context io;
  rdma::error_code ec;
  const ip::address local = address_towards(io, address, ec);
  if (ec)
  {
    result.why_no_nic = "there is no route to it: " + ec.message();
    return result;
  }
  result.local = local.to_string();
  try
  {
    const rdma::context context;
    const rdma::detail::domain_impl& domain = *context.impl();
    result.why_no_nic = domain.devices()->why_no_nic;
    const auto* nic = domain.device_at(rdma::detail::nic_index);
    if (nic != nullptr && offer(io, context, *nic, local, result, result.why_no_nic))
      return result;
    if (nic != nullptr)
      result.why_no_nic = nic->name() + ": " + result.why_no_nic;
    std::string why;
    if (!offer(io, context, *domain.device_at(rdma::detail::software_index), local, result, why))
      result.why_no_nic += "; software device: " + why;
  }
  catch (const rdma::system_error& e)
  {
    result.why_no_nic = words_of(e);
  }
  return result;
}

} // namespace info
