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
  try
  {
    write(lock);
    read(lock);
  }
  catch (const std::bad_alloc&)
  {
    do_later(true);
  }
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
      give_room(lock);
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
        [self = self()](const error_code& ec, std::size_t size) { self->on_written(ec, size); },
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
    asio::bind_cancellation_slot(
      stop_reading_.slot(), [self = self()](const error_code& ec) { self->on_readable(ec); }),
    true);
}

void connection::on_readable(error_code ec)
{
  stream_core::sources found;
  {
    const lock_type lock(mutex_);
    if (ec == asio::error::operation_aborted && !ended_)
    {
      // read() has stopped it; meanwhile messages may be expected again.
      reading_ = false;
      return flush(lock);
    }
    taking_ = true;
    if (ended_)
      ec = asio::error::operation_aborted;
    if (!ec)
      found = stream_->peek();
  }
  // Also if a handler of the program throws.
  struct at_end
  {
    ~at_end() { of.finish_reading(); }
    connection& of;
  };
  const at_end last{*this};
  try
  {
    if (!ec)
      ec = found.empty() ? read_end() : read_all(found);
  }
  catch (const std::bad_alloc&)
  {
    ec = make_error_code(boost::system::errc::not_enough_memory);
  }
  if (ec)
    end(ec);
  on_taken();
}

void connection::poll()
{
  constexpr int messages_max = 16; // of a peer that sends without end
  for (int i = 0; i != messages_max; ++i)
  {
    {
      const lock_type lock(mutex_);
      if (!open_ || ended_ || reading_)
        return;
      error_code ec;
      stream_->wait(stream_core::wait_type::wait_read, false, ec);
      if (ec == asio::error::would_block)
        return;
      reading_ = true;
    }
    on_readable({});
  }
}

// The messages that the handlers have made leave first: the peer waits for them, and not for a
// receive or room in the ring.
void connection::finish_reading()
{
  const lock_type lock(mutex_);
  taking_ = reading_ = false;
  try
  {
    if (!ended_)
      write(lock);
    stream_->consume(std::exchange(taken_, 0));
    if (ended_)
      stream_->close();
    else
      read(lock);
  }
  catch (const std::bad_alloc&)
  {
    do_later(true);
    if (ended_)
      stream_->close();
  }
}

error_code connection::read_all(const stream_core::sources& found)
{
  error_code ec;
  std::size_t arrived = 0;
  for (const asio::const_buffer& each : found)
  {
    if (taken_ == arrived && !ec)
      taken_ += read(std::span(static_cast<const std::byte*>(each.data()), each.size()), ec);
    arrived += each.size();
  }
  // At the end also what follows: closing a stream with unread bytes would reset it.
  if (ec)
    taken_ = arrived;
  return ec;
}

// There are no bytes: the stream has ended, or there was a false alarm.
error_code connection::read_end()
{
  error_code ec;
  std::array<std::byte, 1> probe{};
  lock_type lock(mutex_);
  const std::size_t size = stream_->read_some(stream_core::targets(asio::buffer(probe)), false, ec);
  lock.unlock();
  if (size != 0)
    static_cast<void>(read(probe, ec));
  if (ec == asio::error::eof)
    return error::peer_closed;
  return ec == asio::error::would_block ? error_code() : ec;
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

void connection::end(const error_code& ec) noexcept
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

void connection::do_later(bool ends) noexcept
{
  if (ends)
    must_end_.store(true, std::memory_order_relaxed);
  static_cast<void>(
    run_later(executor_, shared_from_this())); // there is a thread: it has connected
}

void connection::run()
{
  on_memory();
  if (must_end_.exchange(false, std::memory_order_relaxed))
    end(asio::error::no_memory);
}

} // namespace rdma::detail::rpc
