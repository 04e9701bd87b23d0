//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/user_buffers.hpp"

#include "completion/request_kinds.hpp"
#include "resource/domain_impl.hpp"
#include "resource/pool_impl.hpp"

#include <boost/asio/error.hpp>

#include <cstring>
#include <new>

namespace rdma::detail {
namespace {

constexpr std::size_t message_size_max = std::size_t{1} << 31; // of any device (IBA 9.7.7)

bool is_plain(const const_buffer& buffer) noexcept
{
  return buffer.size() != 0 && buffer.registration() == nullptr;
}

// Returns a registration of plain memory, with a reference. Returns null if the memory must be
// copied, or with ec if it cannot be used.
registration* registration_of(domain_impl& domain, const const_buffer& plain, bool writable,
  std::size_t copy_max, error_code& ec)
{
  if (registration* arena = domain.pool().find(plain.data(), plain.size()))
    return arena; // a std::pmr container's memory, for instance
  if (plain.size() <= copy_max)
    return nullptr;
  return domain.cache().acquire(plain.data(), plain.size(), writable, ec);
}

} // namespace

user_buffers::user_buffers(domain_impl& domain, request_kind kind, const buffer_list& buffers,
  std::size_t inline_max, std::size_t copy_max)
  : buffers_(buffers)
{
  std::size_t plain = 0;
  std::size_t total = 0;
  for (const const_buffer& each : buffers)
  {
    if (each.size() > message_size_max - total)
    {
      obstacle_ = error::message_too_large;
      return;
    }
    total += each.size();
    plain += is_plain(each) ? each.size() : 0;
  }
  if (plain == 0 || buffers.overflow())
    return;
  if (kind == request_kind::bind_window)
    obstacle_ = error::not_exposed;
  else if (total <= inline_max)
    inlined_ = true;
  else
    try
    {
      provide(domain, receives_into(kind), copy_max);
    }
    catch (const std::bad_alloc&)
    {
      obstacle_ = boost::asio::error::no_memory;
    }
}

user_buffers::~user_buffers()
{
  for (const entry& each : prepared_)
    if (each.held != nullptr)
      each.held->release();
}

void user_buffers::provide(domain_impl& domain, bool writable, std::size_t copy_max)
{
  domain_ = domain.shared_from_this();
  std::size_t copied = 0;
  for (const const_buffer& each : buffers_)
  {
    entry& made = prepared_.emplace_back();
    made.buffer = each;
    if (!is_plain(each))
      continue;
    made.held = registration_of(domain, each, writable, copy_max, obstacle_);
    if (obstacle_)
      return;
    if (made.held != nullptr)
      made.buffer = const_buffer(each.data(), each.size(), made.held);
    else
      copied += each.size();
  }
  if (copied == 0)
    return;
  bounce_buffers_ = domain.pool().allocate_cached(copied);
  if (bounce_buffers_.size() == 0)
    bounce_buffers_ = domain.pool().allocate(copied, 1, obstacle_);
  if (obstacle_)
    return;
  std::size_t used = 0;
  for (entry& each : prepared_)
    if (is_plain(each.buffer))
    {
      const const_buffer plain = each.buffer;
      const mutable_buffer copy = bounce_buffers_.slice(used, plain.size());
      used += plain.size();
      if (writable) // the buffer was given as a mutable one
        each.origin = const_cast<void*>(plain.data());
      else
        std::memcpy(copy.data(), plain.data(), plain.size());
      each.buffer = copy;
    }
}

} // namespace rdma::detail
