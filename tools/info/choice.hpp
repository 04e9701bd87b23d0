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

/// The device that the library opens for a program without options.
struct default_report
{
  std::string device;               ///< empty if a context cannot be created
  std::string trouble;              ///< the reason
  std::string why_no_nic;           ///< set if the device is the software device
  bool keeps_registrations = false; ///< of plain memory, because the kernel reports unmapped memory
  std::string why_not_kept;
};

default_report choose_default();

/// The device and GID that the library offers a peer.
struct choice_report
{
  std::string asked;  ///< the address
  std::string local;  ///< this host's address on the route to it
  std::string device; ///< empty if there is none
  unsigned port = 0;
  gid_report gid;
  std::uint32_t path_mtu = 0;
  std::string why_no_nic; ///< set if the device is the software device, or empty
};

/// Returns the offer of an async_connect to this address, or of an acceptor at this address.
/** Looks up the route to the address and asks a queue pair of the library. Sends nothing. */
choice_report choose_for(const boost::asio::ip::address& address);

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_CHOICE_HPP
