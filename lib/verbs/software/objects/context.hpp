//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_CONTEXT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_CONTEXT_HPP

#include "boost_rdma/software/device.hpp"
#include "verbs/software/memory/grant_table.hpp"
#include "verbs/software/memory/key_table.hpp"
#include "verbs/software/objects/events.hpp"
#include "verbs/software/objects/xrc.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/udp_port.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdma::software {

inline constexpr std::uint8_t port_number = 1; ///< the device's only port

/// The device soft0, or one of the others that rdma_soft lists (soft1 ...). Opening it makes a
/// device_context. `index` is below devices_max.
ibv_device* the_device(unsigned index = 0) noexcept;

/// The argument of the_device() for this device; devices_max if it is not one of these.
unsigned index_of(const ibv_device* device) noexcept;

/// Unlike host_guid() different for each device.
__be64 guid_of(const ibv_device& device) noexcept;

/// Counts the objects of a kind, up to the number that ibv_query_device reports.
class object_limit
{
public:
  explicit object_limit(std::uint32_t most) noexcept
    : most_(most)
  {
  }
  std::uint32_t most() const noexcept { return most_; }
  bool take() noexcept
  {
    if (count_.fetch_add(1, std::memory_order_relaxed) < most_)
      return true;
    give_back();
    return false;
  }
  void give_back() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }

private:
  const std::uint32_t most_;
  std::atomic<std::uint32_t> count_{0};
};

/// The place of an object that is being created. It is given back without keep().
class object_place
{
public:
  explicit object_place(object_limit& of) noexcept
    : of_(of.take() ? &of : nullptr)
  {
  }
  ~object_place()
  {
    if (of_ != nullptr)
      of_->give_back();
  }
  object_place(const object_place&) = delete;
  object_place& operator=(const object_place&) = delete;

  explicit operator bool() const noexcept { return of_ != nullptr; }
  void keep() noexcept { of_ = nullptr; }

private:
  object_limit* of_;
};

/// An opened device: independent of all others, with keys, queue pairs, port and engine of its own.
/** Derived from verbs_context: verbs.h finds newer functions in front of ibv_context. */
struct device_context : verbs_context
{
  device_context(ibv_device* as, const device_settings& with);

  static device_context& of(ibv_context* context) noexcept
  {
    // As verbs_get_ctx(), for a context of this device.
    auto* const first = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
    return *static_cast<device_context*>(reinterpret_cast<verbs_context*>(first));
  }

  const device_settings settings;
  grant_table grants; ///< before the keys, which end the grants
  key_table keys;
  event_queue events;
  const wire::descriptor commands; ///< ibv_context::cmd_fd, on which no command succeeds
  std::vector<ibv_gid> gids;
  std::vector<std::uint32_t> interfaces;  ///< of the GIDs; 0: unknown
  const bool has_short_sends;             ///< for tests: "off" in BOOST_RDMA_SHORT_SENDS
  std::atomic<bool> moves_pages{false};   ///< see share_registered_memory()
  std::atomic<bool> removed{false};       ///< as a NIC that was pulled: see remove_device()
  std::atomic<std::uint32_t> children{0}; ///< objects that must go before the context
  object_limit queue_pairs;
  object_limit completion_queues;
  object_limit shared_receive_queues;
  object_limit domains;
  object_limit regions;
  object_limit windows;
  object_limit address_handles;
  xrc_table xrc;
  std::atomic<std::uint32_t> channels_on_sockets{0}; ///< completion_channel::on_sockets
  std::atomic<std::uint32_t> key_violations{0};      ///< datagrams with a wrong Q_Key
  wire::udp_ports datagrams;                         ///< one for each of gids
  wire::engine engine;                               ///< last: its thread uses the members above
};

/// Sets errno. Returns null, for verbs that return an object.
inline std::nullptr_t fail(int error) noexcept
{
  errno = error;
  return nullptr;
}

/// Sets errno. Returns -1, for verbs that set errno.
inline int fail_call(int error) noexcept
{
  errno = error;
  return -1;
}

void add_extended_verbs(verbs_context& to) noexcept;

int close_device(ibv_context* context);
int query_device(ibv_context* context, ibv_device_attr* to);
int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* to);
int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* to);
int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* to,
  std::uint32_t flags, std::size_t size);
int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* to);
int get_async_event(ibv_context* context, ibv_async_event* to);
void ack_async_event(ibv_async_event* event);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_CONTEXT_HPP
