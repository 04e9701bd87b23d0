//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_CHOICE_HPP
#define BOOST_RDMA_TOOLS_INFO_CHOICE_HPP

#include "info/device_report.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <string>

namespace info {

/// What the library opens for a program that does not say what it wants.
struct default_report
{
  std::string device;               ///< empty where a context cannot be made
  std::string trouble;              ///< why it cannot
  std::string why_no_nic;           ///< where the device is the software one
  bool keeps_registrations = false; ///< of plain memory, because the kernel tells when it goes
  std::string why_not_kept;
};

default_report choose_default();

/// The device and GID that the library offers a peer.
struct choice_report
{
  std::string asked;  ///< the address
  std::string local;  ///< this host's address that leads there
  std::string device; ///< empty where none does
  unsigned port = 0;
  gid_report gid;
  std::uint32_t path_mtu = 0;
  std::string why_no_nic; ///< where the device is the software one, or none
};

/// What an async_connect to this address, or an acceptor reached by it, offers the other side.
/** Asks a queue pair of the library's, after a route to the address was looked up; nothing is sent.
 */
choice_report choose_for(const boost::asio::ip::address& address);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_CHOICE_HPP
