//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/request_checks.hpp"

#include "boost_rdma/batch.hpp"
#include "completion/user_buffers.hpp"
#include "resource/window_impl.hpp"

#include <boost/asio/error.hpp>

namespace rdma::detail {

bool check_features(
  request_kind kind, const request_limits& limits, error_code& ec, const char*& lacking)
{
  struct rule
  {
    std::uint64_t feature;
    const char* not_here;
    const char* not_there;
  };
  static constexpr rule atomics{device_features::atomics,
    "the device has no atomics (ibv_device_attr::atomic_cap is IBV_ATOMIC_NONE)",
    "the peer's device has no atomics"};
  static constexpr rule immediate_data{device_features::immediate_data,
    "iWARP has no immediate data (RFC 5040)", "the peer's device has no immediate data"};
  const rule* const applies = is_atomic(kind) ? &atomics
    : kind == request_kind::send_with_immediate || kind == request_kind::write_with_immediate
    ? &immediate_data
    : nullptr;
  if (kind == request_kind::receive && limits.receive_sge_max == 0)
    ec = boost::asio::error::operation_not_supported;
  if (applies == nullptr)
    return !ec;
  const bool here = (limits.features & applies->feature) != 0;
  if (here && (limits.peer_features & applies->feature) != 0)
    return true;
  ec = boost::asio::error::operation_not_supported;
  lacking = here ? applies->not_there : applies->not_here;
  return false;
}

bool check_atomic(const request& what, const request_limits& limits, error_code& ec)
{
  if (what.remote.size() < 8 || what.remote.address() % 8 != 0)
    ec = error::misaligned_atomic;
  else if (what.remote.key(limits.device_index) == 0)
    ec = error::no_remote_key;
  else if (!permits(what.remote.rights(), access::remote_atomic))
    ec = error::remote_right_missing;
  return !ec;
}

bool check_window(const operation& op, const request_limits& limits, error_code& ec)
{
  const window_impl* const window = op.window.get();
  if (window == nullptr)
    ec = error::closed; // moved from
  else if (window->device != limits.device || window->domain.get() != limits.domain)
    ec = error::wrong_context;
  else if (op.sge_count != 1)
    ec = error::too_many_buffers;
  else if (op.registrations[0]->natives[limits.device_index] == nullptr
    || !permits(op.registrations[0]->rights, access::window_bind))
    ec = error::not_exposed;
  return !ec;
}

bool check_batch(operation& op, const request_limits& limits, error_code& ec, const char*& lacking)
{
  const batch& all = *op.what.batch;
  if (all.empty())
    ec = error::bad_batch;
  for (const batch::entry& each : all.entries())
  {
    std::size_t bytes = 0;
    std::uint32_t count = 0;
    if (each.overflow)
      ec = error::too_many_buffers;
    for (std::uint32_t i = 0; i < each.sge_count && !ec; ++i)
    {
      const const_buffer& buffer = all.buffers()[each.first_buffer + i];
      if (buffer.size() == 0)
        continue;
      check_buffer(buffer, each.what.kind, count++, bytes, false, limits, ec);
      bytes += buffer.size();
    }
    if (ec || !check_not_empty(bytes, each.no_data, ec)
      || !check_remote(each.what, bytes, limits, ec)
      || !check_features(each.what.kind, limits, ec, lacking))
      return false;
    op.bytes += bytes;
  }
  return !ec;
}

bool add_buffers(
  operation& op, const user_buffers& buffers, const request_limits& limits, error_code& ec)
{
  if (buffers.overflow())
    ec = error::too_many_buffers;
  else
    ec = buffers.obstacle();
  for (std::size_t i = 0; i < buffers.size() && !ec; ++i)
    if (buffers[i].size() != 0) // a length of 0 means 2^31 bytes to some devices
    {
      add_buffer(op, buffers[i], buffers.origin(i), buffers.inlined(), limits, ec);
      op.bounced = op.bounced || buffers.origin(i) != nullptr;
    }
  return !ec && check_not_empty(op.bytes, buffers.no_data(), ec);
}

} // namespace rdma::detail
