//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_GID_HPP
#define BOOST_RDMA_LIB_RESOURCE_GID_HPP

#include <boost/asio/ip/address.hpp>

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <optional>

namespace rdma::detail {



// The IP address that a RoCE GID stands for (IBTA Annex A17.4.5.2); none for an empty GID.
inline std::optional<boost::asio::ip::address> address_of(const ::ibv_gid& gid)
{
  boost::asio::ip::address_v6::bytes_type bytes;
  std::copy(std::begin(gid.raw), std::end(gid.raw), bytes.begin());
  const boost::asio::ip::address_v6 v6(bytes);
  if (v6.is_unspecified())
    return std::nullopt;
  if (v6.is_v4_mapped())
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6);
  return v6;
}

inline bool is_loopback(const boost::asio::ip::address& address) { return address.is_loopback(); }

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_GID_HPP
