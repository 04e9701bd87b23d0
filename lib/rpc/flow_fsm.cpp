//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/flow_fsm.hpp"

#include "rpc/message.hpp"

#include <boost/asio/error.hpp>

#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

std::uint64_t flow_fsm::cost(std::size_t size) noexcept
{
  return std::uint64_t{size} + message::header_size;
}

bool flow_fsm::take_item(std::size_t size) noexcept
{
  if (peer_ended_ || cost(size) > given_)
    return false;
  given_ -= cost(size);
  unread_ += cost(size);
  ++unread_items_;
  return true;
}

bool flow_fsm::take_credit(std::uint32_t bytes) noexcept
{
  if (bytes > UINT32_MAX - credit_)
    return false;
  credit_ += bytes;
  if (peer_window_ == 0)
    peer_window_ = bytes;
  return true;
}

bool flow_fsm::take_end() noexcept
{
  return !std::exchange(peer_ended_, true);
}

void flow_fsm::close(const error_code& ec) noexcept
{
  if (!std::exchange(closed_, true))
    closed_ec_ = ec;
}

flow_fsm::next flow_fsm::next_read() const noexcept
{
  if (discards_)
    return next::end;
  if (unread_items_ != 0)
    return next::item;
  return peer_ended_ || closed_ ? next::end : next::nothing_yet;
}

error_code flow_fsm::read_error() const noexcept
{
  if (discards_)
    return asio::error::operation_aborted;
  return peer_ended_ ? error_code() : closed_ec_;
}

std::uint32_t flow_fsm::read(std::size_t size) noexcept
{
  unread_ -= cost(size);
  --unread_items_;
  consumed_ += cost(size);
  return credit_due();
}

std::uint32_t flow_fsm::discard() noexcept
{
  discards_ = true;
  unread_items_ = 0;
  consumed_ += std::exchange(unread_, 0);
  return credit_due();
}

// The peer always has more than half of the window when all items were read, which suffices for
// the largest item.
std::uint32_t flow_fsm::credit_due() noexcept
{
  if (peer_ended_ || closed_ || consumed_ < window_ / 2 || consumed_ == 0)
    return 0;
  given_ += consumed_;
  return static_cast<std::uint32_t>(std::exchange(consumed_, 0));
}

error_code flow_fsm::write_error(std::size_t size) const noexcept
{
  if (closed_)
    return closed_ec_ ? closed_ec_ : make_error_code(asio::error::broken_pipe);
  if (writing_ended_)
    return asio::error::broken_pipe;
  if (peer_window_ != 0 && cost(size) > peer_window_ / 2)
    return error::message_too_large;
  return {};
}

bool flow_fsm::may_write(std::size_t size) const noexcept
{
  return peer_window_ != 0 && cost(size) <= credit_;
}

void flow_fsm::write(std::size_t size) noexcept
{
  credit_ -= cost(size);
}

bool flow_fsm::end_writing() noexcept
{
  return !std::exchange(writing_ended_, true) && !closed_;
}

} // namespace rdma::detail::rpc
