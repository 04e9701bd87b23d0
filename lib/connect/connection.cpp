//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/connection.hpp"

#include "connect/handshake_parameters.hpp"
#include "connect/log.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

// How long, and how often, a farewell waits for acknowledgements that are on their way.
constexpr std::chrono::milliseconds farewell_time_max{250};
constexpr std::chrono::milliseconds farewell_step{2};

// How long the peer gets to read the last words: closing a socket that has unread data sends a
// reset, which may overtake them.
constexpr std::chrono::seconds linger_time_max{1};

constexpr std::chrono::milliseconds heartbeat_interval_least{10};

// How long a send waits for a receive at the peer before a line in the log.
constexpr std::chrono::seconds missing_receive_time{1};

class control_guard final : public connection_guard
{
public:
  explicit control_guard(connection::handle link)
    : link_(std::move(link))
  {
  }
  ~control_guard() override { link_.stop(); }
  void close() noexcept override { link_.stop(); }
  void finish() noexcept override { link_.finish(); }
  bool send_agent_channel(agent_channel_event word, const std::string& text) override
  {
    link_.send_agent_channel(word, text);
    return true;
  }

private:
  connection::handle link_;
};

} // namespace

heartbeat_times agree_on_heartbeats(
  const queue_pair_options& own, std::chrono::milliseconds peer_limit)
{
  constexpr int heartbeats_per_limit = 3; // so that one that is late does no harm
  heartbeat_times result;
  result.limit = bounded_heartbeat_limit(own.heartbeat_limit);
  if (peer_limit > std::chrono::milliseconds::zero())
    result.interval = std::max(std::min(own.heartbeat_interval, peer_limit / heartbeats_per_limit),
      heartbeat_interval_least);
  return result;
}

connection::connection(
  asio::io_context& io, std::shared_ptr<inbox> words, std::unique_ptr<control_stream> stream)
  : io_(io)
  , words_(std::move(words))
  , stream_(std::move(stream))
  , timer_(io)
{
}

bool connection::adopt(const std::shared_ptr<queue_pair_core>& core)
{
  core_ = core;
  return core->attach(std::make_shared<control_guard>(handle(*this)));
}

void connection::set_deadline(std::chrono::steady_clock::duration time_limit)
{
  timer_.expires_after(time_limit);
  timer_.async_wait(
    [link = weak_from_this()](const error_code& ec)
    {
      const auto self = link.lock();
      // It may have been on its way when establish() cancelled it.
      if (!ec && self && self->progress != stage::established)
        self->stop(error::handshake_timeout);
    });
}

void connection::establish(const heartbeat_times& times)
{
  progress = stage::established;
  timer_.cancel();
  buffer.shrink_to_fit(); // of the handshake's size
  times_ = times;
  heard_ = said_ = due_ = clock::now();
  beat();
}

// Says that this side is there, and looks whether the peer is.
void connection::beat()
{
  const bool listens = times_.limit != std::chrono::milliseconds::zero();
  const bool speaks = times_.interval != std::chrono::milliseconds::zero();
  if (stopped() || (!listens && !speaks))
    return;
  const clock::time_point now = clock::now();
  if (listens && now - due_ > times_.limit / 2)
    heard_ = now; // it was this process that was stopped: what the peer said meanwhile has not been
                  // read yet
  if (listens && now - heard_ >= times_.limit && !probed_)
  {
    // The silence may be ours, where others read the stream: what the peer said then waits for
    // them.
    const bool asked = stream_->probe(
      [link = weak_from_this()](const error_code& ec, std::size_t)
      {
        const auto self = link.lock();
        if (!self || ec)
          return;
        self->probed_ = true;
        self->heard_ = std::max(self->heard_, clock::now() - self->times_.limit * 3 / 4);
        self->beat();
      });
    if (asked)
      return;
  }
  if (listens && now - heard_ >= times_.limit)
  {
    log_line(spdlog::level::info, "the peer has sent nothing for {} ms", times_.limit.count());
    return end(error::peer_lost);
  }
  if (speaks && now - said_ >= times_.interval)
  {
    if (outgoing_.empty() && !broken_)
      send(frame_type::heartbeat);
    said_ = now; // what is still to be written says it as well, to a peer that reads
  }
  look_at_sends(now);
  due_ = clock::time_point::max();
  if (sends_.outstanding && !sends_.reported)
    due_ = now + missing_receive_time;
  if (listens)
    due_ = std::min(due_, heard_ + times_.limit);
  if (speaks)
    due_ = std::min(due_, said_ + times_.interval);
  timer_.expires_at(due_);
  timer_.async_wait(
    [link = weak_from_this()](const error_code& ec)
    {
      if (const auto self = link.lock(); self && !ec)
        self->beat();
    });
}

// Warns once if no send completes because the peer has no receive posted: with the default
// rnr_retry_count such a send waits without limit and without an error.
void connection::look_at_sends(clock::time_point now)
{
  const auto held = core();
  if (!held)
    return;
  const queue_pair_core::send_progress progress = held->progress_of_sends();
  if (!sends_.outstanding || !progress.outstanding || progress.completed != sends_.completed)
  {
    sends_ = {progress.outstanding, false, progress.completed, now};
    return;
  }
  if (sends_.reported || now - sends_.since < missing_receive_time)
    return;
  const auto missing = held->find_missing_receive();
  if (!missing)
    return;
  sends_.reported = true;
  log_line(spdlog::level::warn,
    "queue pair {}: a send has waited for {} s. The peer's queue pair {} {} no receive posted. "
    "Post "
    "receives at the peer before this side sends, or set queue_pair_options::rnr_retry_count "
    "below 7 to make such a send fail",
    missing->number, std::chrono::duration_cast<std::chrono::seconds>(now - sends_.since).count(),
    missing->peer_number, missing->certain ? "has" : "probably has");
}

void connection::send(frame_type type, std::string_view payload)
{
  said_ = clock::now();
  outgoing_ += encode_frame(type, payload);
  if (writing_.empty() && !broken_)
    write_rest(0);
}

void connection::write_rest(std::size_t written)
{
  if (written == writing_.size())
  {
    writing_.clear();
    writing_.swap(outgoing_);
    written = 0;
  }
  if (writing_.empty())
  {
    if (lingers_)
      stream_->shutdown_send();
    return;
  }
  try
  {
    stream_->write_some(asio::buffer(writing_) + written,
      [self = shared_from_this(), written](const error_code& ec, std::size_t count)
      {
        if (ec)
          self->broken_ = true; // whoever reads learns why
        else
          self->write_rest(written + count);
      });
  }
  catch (const std::bad_alloc&)
  {
    broken_ = true; // the peer would wait for the rest
    close();
  }
}

void connection::stop(const error_code& why)
{
  if (why_)
    return;
  why_ = why;
  if (progress != stage::established)
    return close();
  send(frame_type::bye);
  send_close();
}

// All is said. Closes when the peer has read it, or does not in time.
void connection::send_close()
{
  lingers_ = true;
  if (writing_.empty() || broken_)
    stream_->shutdown_send();
  timer_.expires_after(linger_time_max);
  timer_.async_wait(
    [self = shared_from_this()](const error_code& ec)
    {
      if (!ec)
        self->close();
    });
}

void connection::close()
{
  timer_.cancel();
  if (woken_by_stop != nullptr)
    woken_by_stop->cancel();
  stream_->close();
}

// The peer is gone, one way or another.
void connection::end(const error_code& why)
{
  if (!stopped())
  {
    why_ = why;
    if (const auto held = core())
      held->disconnect(why);
  }
  close();
}

void connection::cancel_handshake()
{
  if (progress != stage::established)
    stop(asio::error::operation_aborted);
}

void connection::finish()
{
  if (stopped() || progress != stage::established || std::exchange(finished_, true))
    return;
  send(frame_type::finished);
  if (peer_finished_)
    end_orderly();
}

// Both sides have sent what they wanted, and it has arrived.
void connection::end_orderly()
{
  const auto held = core();
  if (held)
    held->end_orderly();
  why_ = held ? held->end_reason() : asio::error::operation_aborted;
  send_close();
}

connection::handle::handle(connection& of)
  : link_(of.weak_from_this())
  , words_(of.words_)
{
}

template <class Function>
void connection::handle::post(Function function) const
{
  words_->post(
    [link = link_, function]
    {
      if (const auto self = link.lock())
        function(*self);
    });
}

void connection::handle::stop() const
{
  post(
    [](connection& self)
    {
      const auto core = self.core();
      self.stop(core ? core->end_reason() : asio::error::operation_aborted);
    });
}

void connection::handle::cancel_handshake() const
{
  post([](connection& self) { self.cancel_handshake(); });
}

void connection::handle::finish() const
{
  post([](connection& self) { self.finish(); });
}

void connection::handle::send_agent_channel(agent_channel_event word, std::string text) const
{
  post(
    [word, text = std::move(text)](connection& self)
    {
      if (!self.stopped() && self.progress == stage::established)
        self.send(
          word == agent_channel_event::offer ? frame_type::agent_channel : frame_type::channel_over,
          text);
    });
}

void connection::on_agent_channel(agent_channel_event word)
{
  const auto held = core();
  if (!held || progress != stage::established)
    return; // nobody says so before
  try
  {
    held->on_agent_channel(word, payload());
  }
  catch (const std::exception& e)
  {
    log_line(spdlog::level::warn, "cannot answer the peer's agent: {}", e.what());
  }
}

asio::awaitable<error_code> connection::read_frame(std::uint8_t& type)
{
  constexpr std::size_t read_size = 512;
  for (;;)
  {
    if (stopped())
      co_return why_; // also when the frame is there: what follows it cannot be
    const auto data = buffer.data();
    std::span<const std::uint8_t> input(static_cast<const std::uint8_t*>(data.data()), data.size());
    const frame_reader::result result = frames_.read(input);
    buffer.consume(data.size() - input.size());
    type = frames_.type();
    if (result == frame_reader::result::frame)
      co_return error_code{};
    if (result == frame_reader::result::malformed)
    {
      log_line(spdlog::level::info, "the peer sent a malformed control frame");
      co_return error::peer_lost;
    }
    error_code ec;
    const std::size_t count =
      co_await reference().async_read_some(buffer.prepare(read_size), into(ec));
    buffer.commit(count);
    heard_ = clock::now();
    probed_ = false;
    heard_all_ = static_cast<bool>(ec);
    if (ec)
      co_return failure(error::peer_lost); // end of stream, reset, time-out: no farewell
  }
}

asio::awaitable<error_code> connection::receive(frame_type type)
{
  frame_type found = type;
  co_return co_await receive(type, type, found);
}

asio::awaitable<error_code> connection::receive(frame_type one, frame_type other, frame_type& found)
{
  for (;;)
  {
    std::uint8_t type = 0;
    if (const error_code ec = co_await read_frame(type))
      co_return ec;
    found = static_cast<frame_type>(type);
    if (found == one || found == other)
      co_return error_code{};
    if (found == frame_type::bye)
      co_return error::peer_closed;
    if (found == frame_type::agent_channel || found == frame_type::channel_over)
      on_agent_channel(found == frame_type::agent_channel ? agent_channel_event::offer
                                                          : agent_channel_event::over);
  }
}

// The farewell overtakes what the peer's device had acknowledged before: a send that it took
// deserves its success, so give those that are under way a moment.
asio::awaitable<void> connection::let_sends_finish()
{
  const auto until = clock::now() + farewell_time_max;
  while (!stopped() && clock::now() < until)
  {
    {
      const auto held = core();
      if (!held || !held->sends_in_flight())
        break;
    }
    error_code ignored;
    timer_.expires_after(farewell_step);
    co_await timer_.async_wait(into(ignored));
  }
}

// All has been said: reads what the peer still says, until it stops or the time is up.
asio::awaitable<void> connection::linger()
{
  while (!heard_all_)
  {
    error_code ec;
    buffer.clear();
    co_await reference().async_read_some(buffer.prepare(64), into(ec));
    heard_all_ = static_cast<bool>(ec);
  }
}

asio::awaitable<void> connection::watch()
{
  for (;;)
  {
    frame_type found{};
    const error_code ec = co_await receive(frame_type::bye, frame_type::finished, found);
    if (ec || found == frame_type::bye)
    {
      if (lingers_)
        break;
      if (!ec)
        co_await let_sends_finish();
      end(ec ? ec : error::peer_closed);
      co_return;
    }
    if (std::exchange(peer_finished_, true))
      continue;
    if (const auto held = core())
      held->peer_finished(); // which calls finish() in turn when all of ours has arrived
    if (finished_)
    {
      end_orderly();
      break;
    }
  }
  co_await linger();
  close();
}

} // namespace rdma::detail
