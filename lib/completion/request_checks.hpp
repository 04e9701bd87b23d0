//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_REQUEST_CHECKS_HPP
#define BOOST_RDMA_LIB_COMPLETION_REQUEST_CHECKS_HPP

#include "boost_rdma/detail/operation.hpp"
#include "boost_rdma/detail/registration.hpp"
#include "boost_rdma/endpoint_description.hpp"
#include "completion/request_kinds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

// The rules that a request must satisfy before it is posted. They change only the operation. Each
// check returns true, or sets ec and returns false.

namespace rdma::detail {

class device_impl;
class user_buffers;

// Limits of a queue pair, its device and its peer, or of a shared receive queue.
struct request_limits
{
  const domain_impl* domain = nullptr; // of all memory
  const device_impl* device = nullptr; // of windows
  std::size_t device_index = 0;
  std::size_t message_size_max = 0;
  std::uint32_t send_sge_max = 1;
  std::uint32_t receive_sge_max = 1; // 0: receives are posted to a shared receive queue
  std::uint64_t features = device_features::unknown;
  std::uint64_t peer_features = device_features::unknown;
};

// Checks one buffer of a request whose earlier buffers are `count` with `bytes` bytes. `inlined`
// permits plain memory.
inline bool check_buffer(const const_buffer& buffer, request_kind kind, std::uint32_t count,
  std::size_t bytes, bool inlined, const request_limits& limits, error_code& ec)
{
  const registration* const owner = buffer.registration();
  if (owner == nullptr && !inlined)
    ec = error::not_registered;
  else if (owner != nullptr && owner->domain != limits.domain)
    ec = error::wrong_context;
  else if (owner != nullptr && owner->read_only && receives_into(kind))
    ec = error::read_only;
  else if (count >= (kind == request_kind::receive ? limits.receive_sge_max : limits.send_sge_max))
    ec = error::too_many_buffers;
  else if (buffer.size() > limits.message_size_max - bytes)
    ec = error::message_too_large;
  return !ec;
}

// Checks the remote memory of a one-sided request.
inline bool check_remote(
  const request& what, std::size_t bytes, const request_limits& limits, error_code& ec)
{
  if (!is_one_sided(what.kind))
    return true;
  if (bytes > what.remote.size())
    ec = error::remote_range_too_small;
  // A write with immediate and no data touches no memory and needs no key (IBA 9.4.3).
  else if (bytes != 0 && what.remote.key(limits.device_index) == 0)
    ec = error::no_remote_key;
  else if (bytes != 0 && !permits(what.remote.rights(), remote_right(what.kind)))
    ec = error::remote_right_missing;
  return !ec;
}

inline bool check_not_empty(std::size_t bytes, bool no_data, error_code& ec)
{
  if (bytes == 0 && !no_data)
    ec = error::empty_buffer;
  return !ec;
}

// Checks that the queue pair and both devices have what the request needs. `lacking` is set to the
// text for diagnose() if a device has not.
bool check_features(
  request_kind kind, const request_limits& limits, error_code& ec, const char*& lacking);

// Checks the remote value of an atomic.
bool check_atomic(const request& what, const request_limits& limits, error_code& ec);

// Checks the buffer that a window is bound to.
bool check_window(const operation& op, const request_limits& limits, error_code& ec);

// Checks all requests of op's batch and adds up their bytes.
bool check_batch(operation& op, const request_limits& limits, error_code& ec, const char*& lacking);

// Starts the checks of an operation with one work request.
inline void begin_request(operation& op) noexcept
{
  op.credits = 0;
  op.part = op.unposted = 1;
  op.sge_count = 0;
  op.bytes = 0;
}

// Checks a buffer and stores it as op's next SGE, with its key. The device's bytes are copied to
// `origin` at the end, if it is not null.
inline bool add_buffer(operation& op, const const_buffer& buffer, void* origin, bool inlined,
  const request_limits& limits, error_code& ec)
{
  if (!check_buffer(buffer, op.what.kind, op.sge_count, op.bytes, inlined, limits, ec))
    return false;
  registration* const owner = buffer.registration();
  op.registrations[op.sge_count] = owner;
  op.sges[op.sge_count] = {reinterpret_cast<std::uintptr_t>(buffer.data()),
    static_cast<std::uint32_t>(buffer.size()),
    owner != nullptr ? owner->local_keys[limits.device_index] : 0};
  op.origins[op.sge_count] = origin;
  op.sge_count++;
  op.bytes += buffer.size();
  return true;
}

// Checks all buffers of an operation and stores them. The operation does not own references to the
// registrations yet: the caller must call retain_buffers() while it still has the buffers, unless
// the device has finished with them by then.
bool add_buffers(
  operation& op, const user_buffers& buffers, const request_limits& limits, error_code& ec);

// Returns true if the rules for a single registered buffer suffice: no preparation is necessary.
inline bool is_plain_request(
  request_kind kind, const buffer_list& buffers, const request_limits& limits) noexcept
{
  return buffers.size() == 1 && buffers.begin()->registration() != nullptr
    && buffers.begin()->size() != 0
    && (kind == request_kind::send || kind == request_kind::write || kind == request_kind::read
      || (kind == request_kind::receive && limits.receive_sge_max != 0));
}

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_REQUEST_CHECKS_HPP
