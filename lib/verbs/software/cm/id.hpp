//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_ID_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_ID_HPP

#include "verbs/software/cm/connection_fsm.hpp"
#include "verbs/software/cm/port.hpp"
#include "verbs/software/wire/timer_heap.hpp"

#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <utility>

namespace rdma::software::cm {

class service;
struct identifier;

/// An event with the private data that it points to.
struct channel_event : rdma_cm_event
{
  explicit channel_event(rdma_cm_event_type type, identifier& of, int status = 0) noexcept;

  identifier& owner() const noexcept;

  /// The id that waits for the event's acknowledgement: of a request, its listener. So a program
  /// may destroy the id of a request first.
  identifier& acknowledged_by() const noexcept;

  std::array<std::byte, 256> data{};
};

/// A list, because its elements move to another one without memory.
using event_list = std::list<std::unique_ptr<channel_event>>;

/// An event channel. Its descriptor is readable exactly while it has events.
struct event_channel : rdma_event_channel
{
  explicit event_channel(std::shared_ptr<service> by) noexcept;

  static event_channel& of(rdma_event_channel* channel) noexcept
  {
    return *static_cast<event_channel*>(channel);
  }

  const std::shared_ptr<service> owner;
  wire::descriptor descriptor; ///< an eventfd that counts the events
  event_list events;           ///< under the service's mutex
  unsigned readers = 0;        ///< threads in get_cm_event(), under the service's mutex
  bool destroyed = false;      ///< the last reader deletes the channel, under the service's mutex
};

/// A port with the identifiers that are bound to it. Under the service's mutex.
struct shared_port : port
{
  std::deque<identifier*> bound;
  std::pair<endpoint, std::uint32_t> unheard; ///< see service::take_request()
};

/// A communication identifier.
struct identifier : rdma_cm_id
{
  enum class stage
  {
    idle,
    bound,
    address_resolved,
    route_resolved,
    listening,
    connection, ///< see fsm
  };

  /// Throws std::bad_alloc.
  identifier(event_channel& of, std::uint32_t local_id, void* with, rdma_port_space space);

  static identifier& of(rdma_cm_id* from) noexcept { return *static_cast<identifier*>(from); }
  event_channel& events() const noexcept { return event_channel::of(channel); }

  connection_fsm fsm;
  wire::timer_heap::entry timer;
  stage at = stage::idle;
  bool only_v6 = false;
  bool reuses_address = false;
  std::uint8_t traffic_class = 0;
  std::uint8_t ack_timeout = default_ack_timeout;
  std::shared_ptr<shared_port> port; ///< null: the service's own
  endpoint peer;                     ///< where the messages go
  endpoint local;                    ///< address and port of the program
  std::size_t gid_index = 0;
  message request; ///< sent, or received
  message reply;   ///< sent, or received
  std::uint32_t starting_psn = 0;
  std::uint32_t queue_pair = 0; ///< the number of this end's queue pair; 0: none yet
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  ibv_sa_path_rec path{}; ///< rdma_route::path_rec

  // a listener
  int backlog = 0;
  int pending = 0; ///< requests that the program has not received

  event_list end_event; ///< to report the end of a connection without memory

  identifier* listener = nullptr; ///< for a request that the program has not received: its listener
  std::unique_ptr<event_channel> own_channel;       ///< of an id whose operations block
  std::uint32_t events_given = 0;                   ///< and not acknowledged
  std::optional<ibv_qp_init_attr> child_attributes; ///< of rdma_create_ep: for rdma_get_request

  /// 4.096 us * 2^16 is 268 ms for each of up to 8 transmissions.
  static constexpr std::uint8_t default_ack_timeout = 16;
};

inline identifier& channel_event::owner() const noexcept
{
  return identifier::of(rdma_cm_event::id);
}

inline identifier& channel_event::acknowledged_by() const noexcept
{
  return identifier::of(event == RDMA_CM_EVENT_CONNECT_REQUEST ? listen_id : rdma_cm_event::id);
}

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_ID_HPP
