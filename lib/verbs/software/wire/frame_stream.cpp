//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/frame_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace rdma::software::wire {

bool frame_stream::begin() noexcept
{
  dry_ = false;
  reads_ = payload_reads_ = 0;
  if (!staging_)
    staging_ = staging_pool::of_process().take();
  return staging_ != nullptr;
}

void frame_stream::end() noexcept
{
  if (begin_ != end_ && !ended_)
    return;
  begin_ = end_ = 0;
  staging_pool::of_process().give_back(std::move(staging_));
}

bool frame_stream::read() noexcept
{
  if (dry_ || ended_)
    return false;
  if (begin_ != 0)
  {
    std::memmove(staging_.get(), staging_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t asked = staging_size - end_;
  return take(::recv(socket_, staging_.get() + end_, asked, MSG_DONTWAIT), asked, 0);
}

bool frame_stream::take(std::ptrdiff_t result, std::size_t asked, std::size_t direct) noexcept
{
  if (result < 0 && (errno == EAGAIN || errno == EINTR))
  {
    dry_ = true;
    return false;
  }
  if (result <= 0)
  {
    ended_ = true;
    return false;
  }
  const auto size = static_cast<std::size_t>(result);
  if (direct != 0)
    begin_ = end_ = 0;
  end_ += size - std::min(size, direct);
  const bool enough = direct != 0 ? ++payload_reads_ == payload_reads_max : ++reads_ == reads_max;
  dry_ = enough || size < asked; // a short read: nothing is left
  return true;
}

} // namespace rdma::software::wire
