//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_HPP
#define BOOST_RDMA_HPP

// Includes all public headers, with three exceptions: <boost_rdma/upgrade.hpp> needs Boost.Beast
// and its compile time, <boost_rdma/native.hpp> needs rdma-core's headers, and
// <boost_rdma/rpc/json.hpp> needs Boost.JSON. Inside this repository each file includes what it
// uses.

#include <boost_rdma/acceptor.hpp>
#include <boost_rdma/acceptor_options.hpp>
#include <boost_rdma/access.hpp>
#include <boost_rdma/agent.hpp>
#include <boost_rdma/agent_options.hpp>
#include <boost_rdma/authorisation.hpp>
#include <boost_rdma/basic_device_events.hpp>
#include <boost_rdma/batch.hpp>
#include <boost_rdma/buffer.hpp>
#include <boost_rdma/cm/acceptor.hpp>
#include <boost_rdma/cm/connect.hpp>
#include <boost_rdma/completion_mode.hpp>
#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/device.hpp>
#include <boost_rdma/device_event.hpp>
#include <boost_rdma/device_events.hpp>
#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/in_flight.hpp>
#include <boost_rdma/lessor.hpp>
#include <boost_rdma/memory_pool.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/memory_window.hpp>
#include <boost_rdma/message.hpp>
#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/published.hpp>
#include <boost_rdma/objects/published_snapshot.hpp>
#include <boost_rdma/objects/remote_counter.hpp>
#include <boost_rdma/objects/remote_flag.hpp>
#include <boost_rdma/objects/remote_log.hpp>
#include <boost_rdma/objects/remote_map.hpp>
#include <boost_rdma/objects/remote_mutex.hpp>
#include <boost_rdma/objects/remote_published.hpp>
#include <boost_rdma/objects/remote_ring.hpp>
#include <boost_rdma/objects/remote_semaphore.hpp>
#include <boost_rdma/objects/remote_versioned.hpp>
#include <boost_rdma/objects/ring.hpp>
#include <boost_rdma/objects/versioned.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/register_buffer.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/registration_cache.hpp>
#include <boost_rdma/remote_buffer.hpp>
#include <boost_rdma/remote_memory.hpp>
#include <boost_rdma/rpc/bulk.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/client_pool.hpp>
#include <boost_rdma/rpc/codec.hpp>
#include <boost_rdma/rpc/exposure.hpp>
#include <boost_rdma/rpc/flow.hpp>
#include <boost_rdma/rpc/group.hpp>
#include <boost_rdma/rpc/group_options.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>
#include <boost_rdma/rpc/responder.hpp>
#include <boost_rdma/rpc/server.hpp>
#include <boost_rdma/rpc/server_statistics.hpp>
#include <boost_rdma/rpc/trace_context.hpp>
#include <boost_rdma/rpc/tracer.hpp>
#include <boost_rdma/shared_receive_queue.hpp>
#include <boost_rdma/software/device.hpp>
#include <boost_rdma/statistics.hpp>
#include <boost_rdma/stream.hpp>
#include <boost_rdma/stream_acceptor.hpp>
#include <boost_rdma/stream_options.hpp>
#include <boost_rdma/transport_choice.hpp>
#include <boost_rdma/version.hpp>

/// @namespace rdma
/// RDMA for Boost.Asio. Contains the whole library, except RDMA-CM (rdma::cm), calls of methods
/// (rdma::rpc) and the settings of the software device (rdma::software).

/// @namespace rdma::cm
/// Connections by RDMA-CM (librdmacm, rdma_cm(7)): to programs that do not use this library, and on
/// iWARP.

/// @namespace rdma::rpc
/// Calls of methods of a server on another host.

/// @namespace rdma::software
/// Settings of the software device, for context_options::software.

#endif // BOOST_RDMA_HPP
