//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/cm/device.hpp"

#include "verbs/software/cm/id.hpp"
#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/objects/context.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <fcntl.h>

namespace rdma::software::cm {
namespace {

ibv_context* open_default()
{
  return open_device(device_settings{});
}

std::atomic<ibv_context* (*)()> opener{&open_default};

struct opened_device
{
  std::mutex mutex;
  unsigned forks = 0; ///< of the process that opened it
  std::atomic<ibv_context*> context{nullptr};
  ibv_pd* domain = nullptr;
  ibv_xrcd* xrc_domain = nullptr; ///< made when an id needs it
};

opened_device& the_one()
{
  static auto* const one = new opened_device; // for the life of the process
  return *one;
}

} // namespace

void set_opener(ibv_context* (*open)()) noexcept
{
  opener.store(open, std::memory_order_release);
}

ibv_context* device()
{
  opened_device& one = the_one();
  const std::lock_guard lock(one.mutex);
  const unsigned now = forks.load(std::memory_order_relaxed);
  ibv_context* context = one.context.load(std::memory_order_relaxed);
  if (context != nullptr && one.forks == now)
    return context;
  context = opener.load(std::memory_order_acquire)();
  if (context == nullptr)
    return nullptr;
  one.domain = alloc_pd(context);
  if (one.domain == nullptr)
  {
    const int error = errno;
    close_device(context);
    errno = error;
    return nullptr;
  }
  one.xrc_domain = nullptr;
  one.forks = now;
  one.context.store(context, std::memory_order_release);
  return context;
}

ibv_pd* default_domain()
{
  opened_device& one = the_one();
  const std::lock_guard lock(one.mutex);
  return one.domain;
}

ibv_xrcd* default_xrc_domain()
{
  opened_device& one = the_one();
  const std::lock_guard lock(one.mutex);
  ibv_xrcd_init_attr with{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  if (one.xrc_domain == nullptr)
    one.xrc_domain = open_xrcd(one.context.load(std::memory_order_relaxed), &with);
  return one.xrc_domain;
}

bool find_gid(const address_bytes& ip, std::size_t& index) noexcept
{
  ibv_context* const context = the_one().context.load(std::memory_order_acquire);
  if (context == nullptr)
    return false;
  const auto& gids = device_context::of(context).gids;
  const auto found = std::find_if(gids.begin(), gids.end(),
    [&](const ibv_gid& each) { return std::equal(ip.begin(), ip.end(), std::begin(each.raw)); });
  index = static_cast<std::size_t>(found - gids.begin());
  return found != gids.end();
}

void attach_device(identifier& which) noexcept
{
  which.verbs = the_one().context.load(std::memory_order_acquire);
  which.port_num = port_number;
  if (which.pd == nullptr)
    which.pd = default_domain();
}

void write_route(identifier& which, const endpoint& destination) noexcept
{
  rdma_addr& addresses = which.route.addr;
  write_endpoint(which.local, addresses.src_storage);
  write_endpoint(destination, addresses.dst_storage);
  addresses.addr.ibaddr.sgid = wire::to_gid(which.local.ip);
  addresses.addr.ibaddr.dgid = wire::to_gid(destination.ip);
  addresses.addr.ibaddr.pkey = 0xffff;
}

ibv_ah_attr address_of(const identifier& which) noexcept
{
  ibv_ah_attr to{};
  to.grh.dgid = wire::to_gid(which.peer.ip);
  to.grh.sgid_index = static_cast<std::uint8_t>(which.gid_index);
  to.grh.traffic_class = which.traffic_class;
  to.is_global = 1;
  to.port_num = port_number;
  return to;
}

} // namespace rdma::software::cm
