//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_LEASES_HPP
#define BOOST_RDMA_LIB_AGENT_LEASES_HPP

#include "agent/lease_tables.hpp"
#include "agent/lessor_core.hpp"
#include "boost_rdma/detail/agent_core.hpp"
#include "boost_rdma/memory_region.hpp"
#include "boost_rdma/registered_buffer.hpp"
#include "boost_rdma/remote_buffer.hpp"
#include "completion/waiting_list.hpp"
#include "resource/kept_registration.hpp"
#include "resource/window_impl.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace rdma::detail {

// A lease of the peer's memory. The last reference releases it; remote_memory holds one.
struct held_lease
{
  held_lease(std::weak_ptr<agent_core> from, std::uint64_t number, const remote_buffer& buffer,
    lease_clock::time_point end)
    : agent(std::move(from))
    , id(number)
    , memory(buffer)
    , expires(end.time_since_epoch())
  {
  }
  ~held_lease()
  {
    if (!ended)
      if (const auto owner = agent.lock())
        owner->drop(*this);
  }
  held_lease(const held_lease&) = delete;
  held_lease& operator=(const held_lease&) = delete;

  const std::weak_ptr<agent_core> agent;
  const std::uint64_t id; // chosen by the owner
  const remote_buffer memory;
  std::atomic<lease_clock::duration> expires;
  std::atomic<bool> ended{false}; // there is nothing left to release
};

// The program's handle to a loan. The lease itself is an owned_lease.
struct lent_lease
{
  lent_lease(std::weak_ptr<agent_core> by, std::uint64_t number)
    : agent(std::move(by))
    , id(number)
  {
  }
  ~lent_lease()
  {
    if (out)
      if (const auto owner = agent.lock())
        owner->take_back(*this);
  }
  lent_lease(const lent_lease&) = delete;
  lent_lease& operator=(const lent_lease&) = delete;

  const std::weak_ptr<agent_core> agent;
  const std::uint64_t id;
  std::atomic<bool> out{true};
};

// Memory that a lessor has granted.
struct leased_memory
{
  lessor_charge charge;
  registered_buffer block;
};

// A lease of this side's memory. Destruction first ends the peer's access and then releases the
// memory: members are destroyed from the last to the first.
struct owned_lease : lease_terms
{
  // Ends the peer's access. Called with the agent's mutex held: a thread that finds no lease in the
  // table relies on this.
  void close() noexcept
  {
    window.reset();
    registered = memory_region();
    if (const auto lent = loan.lock())
      lent->out = false;
  }

  leased_memory granted;    // granted leases
  kept_registration region; // lent leases
  mutable_buffer range;     // of granted.block or region
  access rights = access::local_read;
  std::weak_ptr<lent_lease> loan;
  std::shared_ptr<window_impl> window;
  memory_region registered; // if the device has no windows
  waiting_list<> returns;   // operations that wait for its end
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_LEASES_HPP
