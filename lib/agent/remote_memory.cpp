//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/remote_memory.hpp"

#include "agent/leases.hpp"

namespace rdma {

const remote_buffer& remote_memory::buffer() const noexcept
{
  static const remote_buffer none;
  return lease_ ? lease_->memory : none;
}

bool remote_memory::is_valid() const noexcept
{
  return lease_ && !lease_->ended && clock::now() < expires_at();
}

remote_memory::clock::time_point remote_memory::expires_at() const noexcept
{
  return lease_ ? clock::time_point(lease_->expires.load()) : clock::time_point();
}

bool loan::is_active() const noexcept
{
  return lease_ && lease_->out;
}

void loan::take_back() noexcept
{
  if (lease_ && lease_->out)
    if (const auto owner = lease_->agent.lock())
      owner->take_back(*lease_);
}

} // namespace rdma
