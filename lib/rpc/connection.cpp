//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/connection.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <new>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

void connection::open()
{
  const lock_type lock(mutex_);
  open_ = true;
  flush(lock);
}

void connection::flush(const lock_type& lock)
{
  if (ended_ || taking_ || !open_)
    return;
  write(lock);
  read(lock);
}

// Messages leave at once if there is room. An operation writes the rest, and reports errors and the
// end.
void connection::write(const lock_type& lock)
{
  // The stream copies what leaves at once. An operation may read more bytes from this memory.
  constexpr std::size_t at_once_max = 64 * 1024;
  while (!writing_)
  {
    if (sent_ == sending_.size())
    {
      sending_.clear();
      sent_ = 0;
      on_room(lock);
      std::swap(out_, sending_);
      if (sending_.empty() && !is_done(lock))
        return;
    }
    const auto rest = [this] { return stream_core::sources(asio::buffer(sending_) + sent_); };
    if (error_code ignored; sending_.size() - sent_ <= at_once_max)
      sent_ += stream_->write_some(rest(), false, ignored);
    writing_ = sent_ != sending_.size() || sending_.empty();
    if (writing_)
      stream_->write_some(
        executor_, rest(),
        [self = shared_from_this()](const error_code& ec, std::size_t size)
        { self->on_written(ec, size); },
        true);
  }
}

void connection::on_written(const error_code& ec, std::size_t size)
{
  lock_type lock(mutex_);
  writing_ = false;
  sent_ += size;
  const bool done = !ec && is_done(lock);
  if (!ec && !done)
    return flush(lock);
  lock.unlock();
  end(done ? make_error_code(error::closed) : ec);
}

void connection::read(const lock_type& lock)
{
  const bool wants = expects(lock);
  if (reading_ && !wants)
    stop_reading_.emit(asio::cancellation_type::terminal);
  if (reading_ || !wants)
    return;
  reading_ = true;
  stream_->wait(executor_, stream_core::wait_type::wait_read,
    asio::bind_cancellation_slot(stop_reading_.slot(),
      [self = shared_from_this()](const error_code& ec) { self->on_readable(ec); }),
    true);
}

void connection::on_readable(const error_code& ec)
{
  {
    const lock_type lock(mutex_);
    if (ec == asio::error::operation_aborted && !ended_)
    {
      // read() has stopped it; meanwhile messages may be expected again.
      reading_ = false;
      return flush(lock);
    }
    taking_ = true;
  }
  if (ec)
    end(ec);
  else
    try
    {
      read_all();
    }
    catch (const std::bad_alloc&)
    {
      end(make_error_code(boost::system::errc::not_enough_memory));
    }
  // Also if a handler of the program throws.
  struct flush_at_end
  {
    ~flush_at_end()
    {
      const lock_type lock(of.mutex_);
      of.taking_ = of.reading_ = false;
      if (of.ended_)
        of.stream_->close();
      of.flush(lock);
    }
    connection& of;
  };
  const flush_at_end last{*this};
  on_taken();
}

void connection::read_all()
{
  lock_type lock(mutex_);
  const stream_core::sources found = stream_->peek();
  lock.unlock();
  error_code ec;
  std::size_t arrived = 0;
  std::size_t taken = 0;
  for (const asio::const_buffer& each : found)
  {
    if (taken == arrived && !ec)
      taken += read(std::span(static_cast<const std::byte*>(each.data()), each.size()), ec);
    arrived += each.size();
  }
  lock.lock();
  if (arrived == 0)
  {
    // The stream has ended, or this is a false alarm.
    std::array<std::byte, 1> probe{};
    const std::size_t size =
      stream_->read_some(stream_core::targets(asio::buffer(probe)), false, ec);
    lock.unlock();
    if (ec == asio::error::would_block)
      return;
    if (size != 0)
      static_cast<void>(read(probe, ec));
    else if (ec == asio::error::eof)
      ec = error::peer_closed;
  }
  else
  {
    // At the end also what follows: closing a stream with unread bytes would reset it.
    stream_->consume(ec ? arrived : taken);
    lock.unlock();
  }
  if (ec)
    end(ec);
}

// Takes messages as long as they are expected. Returns the number of bytes that were read.
std::size_t connection::read(std::span<const std::byte> bytes, error_code& ec)
{
  const std::size_t size = bytes.size();
  const auto take_one = [&](const message& m, std::vector<std::byte>& content)
  {
    ec = take(m, content);
    const lock_type lock(mutex_);
    return !ec && !ended_ && expects(lock);
  };
  if (!reader_.read(bytes, take_one))
    ec = error::malformed_message;
  return size - bytes.size();
}

void connection::end(const error_code& ec)
{
  {
    const lock_type lock(mutex_);
    if (std::exchange(ended_, true))
      return;
    if (!taking_) // on_readable() uses it
      stream_->close();
  }
  on_end(ec);
}

} // namespace rdma::detail::rpc
