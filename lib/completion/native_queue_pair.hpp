//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_LIB_COMPLETION_NATIVE_QUEUE_PAIR_HPP
#define BOOST_RDMA_LIB_COMPLETION_NATIVE_QUEUE_PAIR_HPP

#include "boost_rdma/queue_pair_options.hpp"
#include "verbs/api.hpp"

#include <cstdint>

// Verbs calls that create a device's queue pair and change its state.

namespace rdma::detail {

class device_impl;

// Returns true if the device accepts the queue depths and the numbers of SGEs.
bool fits_device(const device_impl& device, const queue_pair_options& options);

// Creates a queue pair in the state RESET. Shortens the inline data until the device accepts it:
// `inline_max` is the result. Throws system_error.
ibv_qp* create_native(const device_impl& device, ibv_pd* domain, ibv_cq* completions,
  ibv_srq* receives, const queue_pair_options& options, std::uint32_t& inline_max);

// The following functions return 0 or an errno value.

// Repeats INIT for another port if the queue pair is in that state already.
int to_init(const device_impl& device, ibv_qp* native, std::uint8_t port);

int to_state(const device_impl& device, ibv_qp* native, ibv_qp_attr attributes, int mask);

int to_error(const device_impl& device, ibv_qp* native);

// Operations that the device permits to the peer. Exposing memory grants access to it.
unsigned remote_rights(const device_impl& device) noexcept;

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_NATIVE_QUEUE_PAIR_HPP
