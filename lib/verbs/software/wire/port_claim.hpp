//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PORT_CLAIM_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PORT_CLAIM_HPP

#include "verbs/software/wire/socket.hpp"

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rdma::software::wire {

/// An index that no other device of the network namespace has, and its TCP port at some addresses.
/**
 * An abstract Unix name (unix(7)) reserves the index: it belongs to the network namespace, as ports
 * do, and disappears with the process.
 */
struct port_claim
{
  std::uint32_t index = 0;
  std::uint32_t next = 0; ///< the low bits of the last queue pair number that was allocated
  std::uint32_t used = 0; ///< queue pair numbers that are in use

  descriptor name;
  std::vector<descriptor> bound; ///< one for each address; empty where the address cannot be used
  std::vector<descriptor> local_listeners; ///< of the local wire
  std::vector<bool> listening;             ///< one for each address

  /// Returns the next queue pair number of this index.
  std::uint32_t next_number() noexcept;
  /// Returns true if no number is left.
  bool is_full() const noexcept;
};

/// Claims an index, beginning at a random one, and binds its port at these addresses.
/**
 * The sockets do not listen yet, so connections are refused. Addresses that the host lists but
 * cannot use (yet) get no socket. Returns 0 or an errno: ENOSPC if all indexes are taken by
 * devices, or their ports by other programs.
 */
int claim_port(std::span<const ibv_gid> gids, std::unique_ptr<port_claim>& to);

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PORT_CLAIM_HPP
