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

/// The only device in the list. Opening it makes a device_context.
ibv_device* the_device() noexcept;

/// An opened device: independent of all others, with keys, queue pairs, port and engine of its own.
/** Derived from verbs_context: verbs.h finds newer functions in front of ibv_context. */
struct device_context : verbs_context
{
  explicit device_context(const device_settings& with);

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
  std::vector<ibv_gid> gids;
  std::vector<std::uint32_t> interfaces;  ///< of the GIDs; 0: unknown
  const bool has_short_sends;             ///< for tests: "off" in BOOST_RDMA_SHORT_SENDS
  std::atomic<bool> moves_pages{false};   ///< see share_registered_memory()
  std::atomic<bool> removed{false};       ///< as a NIC that was pulled: see remove_device()
  std::atomic<std::uint32_t> children{0}; ///< objects that must go before the context
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
