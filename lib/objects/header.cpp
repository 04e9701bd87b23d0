//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/header.hpp>

#include <boost/asio/error.hpp>

namespace rdma::detail::objects {

error_code check_memory(const remote_buffer& memory, std::size_t size) noexcept
{
  if (memory.size() < size)
    return error::remote_range_too_small;
  if (memory.address() % sizeof(std::uint64_t) != 0)
    return error::misaligned;
  return {};
}

access_request open_object::request(std::size_t) noexcept
{
  if (compared_)
    return {.kind = request_kind::compare_exchange, .offset = offsetof(header, probe)};
  return {.kind = request_kind::read,
    .offset = 0,
    .bytes = std::as_writable_bytes(std::span(&found_, 1))};
}

step open_object::next(bool cancelled) noexcept
{
  if (compared_)
    return step::finish();
  compared_ = true;
  if (found_ != expected_)
    return step::finish(error::object_mismatch);
  if (cancelled)
    return step::finish(boost::asio::error::operation_aborted);
  return needs_atomics_ ? step::access(1) : step::finish();
}

} // namespace rdma::detail::objects
