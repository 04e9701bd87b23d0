//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/connection.hpp"

#include "connect/handshake_parameters.hpp"
#include "connect/log.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <utility>

namespace rdma::detail {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds heartbeat_interval_least{10};

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
  asio::io_context& io, std::shared_ptr<inbox> to_service, std::unique_ptr<control_stream> stream)
  : io_(io)
  , inbox_(std::move(to_service))
  , stream_(std::move(stream))
  , timer_(io)
{
}

// If its owner was lost for lack of memory, nobody watches the peer any more.
connection::~connection()
{
  using phase = control_channel_fsm::phase;
  if (fsm_.state() == phase::closing || fsm_.state() == phase::closed)
    return;
  const auto held = core();
  if (held && !io_.stopped())
    held->disconnect(asio::error::no_memory);
}

bool connection::adopt(const std::shared_ptr<queue_pair_core>& core)
{
  const auto guard = std::make_shared<control_guard>(handle(*this));
  core_ = core;
  const bool adopted = core->attach(guard);
  if (!adopted)
    core_.reset(); // which may have another connection; before the guard ends this one
  return adopted;
}

void connection::run(clock::duration time_limit, service_awaitable<void> handshake)
{
  // Without memory, co_spawn() would destroy the coroutine later, on the service's thread.
  asio::post(io_,
    [self = shared_from_this(), time_limit, handshake = std::move(handshake)]() mutable
    {
      self->set_deadline(time_limit);
      asio::co_spawn(service_executor(self->io_.get_executor()), std::move(handshake),
        [](const std::exception_ptr& problem)
        {
          if (problem)
            std::rethrow_exception(problem); // to the service, which logs it
        });
    });
}

void connection::set_deadline(clock::duration time_limit)
{
  perform(fsm_.start(clock::now(), time_limit));
}

void connection::establish(const heartbeat_times& times)
{
  buffer.shrink_to_fit(); // of the handshake's size
  perform(fsm_.establish(clock::now(), times, sends()));
}

void connection::stop(const error_code& why)
{
  perform(fsm_.stop(clock::now(), why));
}

void connection::cancel_handshake()
{
  if (fsm_.state() == control_channel_fsm::phase::handshake)
    stop(asio::error::operation_aborted);
}

void connection::finish()
{
  perform(fsm_.finish(clock::now()));
}

send_progress connection::sends() const
{
  const auto held = core();
  return held ? held->progress_of_sends() : send_progress();
}

void connection::perform(const control_channel_fsm::actions& list)
{
  for (const control_channel_fsm::action& each : list)
    perform(each);
}

void connection::perform(const control_channel_fsm::action& what)
{
  using type = control_channel_fsm::action_type;
  const auto held = core();
  switch (what.type)
  {
  case type::send:
    return write(what.frame, {});
  case type::arm:
    return arm(what.time);
  case type::disarm:
    timer_.cancel();
    return;
  case type::probe:
    return probe();
  case type::check_missing_receive:
    return check_missing_receive();
  case type::report_agent_frame:
    return report_agent_frame();
  case type::report_peer_finished:
    if (held)
      held->peer_finished(); // which calls finish() when all that this side sent has arrived
    return;
  case type::report_orderly_end:
    if (held)
      held->end_orderly();
    return;
  case type::report_dead_peer:
    log_line(
      spdlog::level::info, "the peer has sent nothing for {} ms", fsm_.times().limit.count());
    [[fallthrough]];
  case type::report_end:
    if (held)
      held->disconnect(what.error);
    return;
  case type::shut_down_send:
    return stream_->shutdown_send();
  case type::close:
    return close();
  }
}

void connection::arm(clock::time_point time)
{
  // While the connection ends, the timer may be its only owner.
  const auto phase = fsm_.state();
  const bool ends =
    phase == control_channel_fsm::phase::draining || phase == control_channel_fsm::phase::closing;
  timer_.expires_at(time);
  try
  {
    timer_.async_wait(
      [link = weak_from_this(), owner = ends ? shared_from_this() : nullptr](const error_code& ec)
      {
        if (const auto self = link.lock(); self && !ec)
          self->perform(self->fsm_.on_timer(clock::now(), self->sends()));
      });
  }
  catch (const std::bad_alloc&)
  {
    end_without_memory(); // nothing would limit the time
  }
}

void connection::probe()
try
{
  // After this process was stopped, or with more ready sockets than Asio takes at once, the timer
  // may run before the read.
  if (stream_->has_unread())
    return perform(fsm_.on_unread_bytes(clock::now(), sends()));
  const bool started = stream_->probe(
    [link = weak_from_this()](const error_code& ec, std::size_t)
    {
      const auto self = link.lock();
      if (self && ec == asio::error::no_memory)
        self->end_without_memory();
      else if (self && !ec)
        self->perform(self->fsm_.on_probe_answered(clock::now(), self->sends()));
    });
  if (!started)
    perform(fsm_.on_probe_impossible());
}
catch (const std::bad_alloc&)
{
  end_without_memory(); // nothing would find a dead peer
}

void connection::check_missing_receive()
{
  const auto held = core();
  const auto missing = held ? held->find_missing_receive() : std::nullopt;
  if (!missing)
    return;
  fsm_.missing_receive_logged();
  log_line(spdlog::level::warn,
    "queue pair {}: a send has waited for {} s. The peer's queue pair {} {} no receive posted. "
    "Post receives at the peer before this side sends, or set queue_pair_options::rnr_retry_count "
    "below 7 to make such a send fail",
    missing->number,
    std::chrono::duration_cast<std::chrono::seconds>(fsm_.sends_stalled_for(clock::now())).count(),
    missing->peer_number, missing->certain ? "has" : "probably has");
}

void connection::report_agent_frame()
{
  const auto held = core();
  if (!held)
    return;
  try
  {
    held->on_agent_channel(static_cast<frame_type>(frames_.type()) == frame_type::agent_channel
        ? agent_channel_event::offer
        : agent_channel_event::over,
      payload());
  }
  catch (const std::exception& e)
  {
    log_line(spdlog::level::warn, "cannot answer the peer's agent: {}", e.what());
  }
}

void connection::send(frame_type type, std::string_view payload)
{
  fsm_.on_sent(clock::now());
  write(type, payload);
}

void connection::write(frame_type type, std::string_view payload)
try
{
  outgoing_ += encode_frame(type, payload);
  if (writing_.empty())
    write_rest(0);
}
catch (const std::bad_alloc&)
{
  end_without_memory(); // the peer would wait for the frame
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
    return perform(fsm_.on_written());
  stream_->write_some(asio::buffer(writing_) + written,
    [self = shared_from_this(), written](const error_code& ec, std::size_t count)
    {
      if (ec)
        return self->fsm_.on_write_failed();
      try
      {
        self->write_rest(written + count);
      }
      catch (const std::bad_alloc&)
      {
        self->end_without_memory();
      }
    });
}

void connection::end_without_memory()
{
  fsm_.on_write_failed();
  perform(fsm_.on_no_memory());
}

void connection::close()
{
  timer_.cancel();
  if (on_close)
    on_close();
  stream_->close();
}

connection::handle::handle(connection& of)
  : link_(of.weak_from_this())
  , inbox_(of.inbox_)
  , requests_(of.requests_)
{
}

void connection::handle::post(request what) const noexcept
{
  // acq_rel: the function sees what was written before the request, and the slot is free after it
  if (requests_->pending.fetch_or(static_cast<unsigned>(what), std::memory_order_acq_rel) != 0)
    return;
  inbox_->post(asio::bind_allocator(slot_allocator<void>(requests_->slot),
    [link = link_, requests = requests_]
    {
      const unsigned which = requests->pending.exchange(0, std::memory_order_acq_rel);
      if (const auto self = link.lock())
        self->perform_requests(which);
    }));
}

void connection::perform_requests(unsigned which)
{
  const auto wanted = [which](request what) { return (which & static_cast<unsigned>(what)) != 0; };
  if (wanted(request::finish))
    finish();
  if (wanted(request::cancel))
    cancel_handshake();
  if (!wanted(request::stop))
    return;
  const auto held = core();
  stop(held ? held->end_reason() : asio::error::operation_aborted);
}

void connection::handle::send_agent_channel(agent_channel_event word, std::string text) const
{
  inbox_->post(
    [link = link_, word, text = std::move(text)]
    {
      const auto self = link.lock();
      if (self && self->fsm_.state() == control_channel_fsm::phase::established)
        self->send(
          word == agent_channel_event::offer ? frame_type::agent_channel : frame_type::channel_over,
          text);
    });
}

service_awaitable<error_code> connection::read_frame(frame_type& type)
{
  using phase = control_channel_fsm::phase;
  constexpr std::size_t read_size = 512;
  for (;;)
  {
    if (fsm_.state() == phase::closed)
      co_return fsm_.reason(); // also if a frame is there: it could not be answered
    if (fsm_.state() == phase::closing)
      buffer.clear(); // only the end of the stream matters
    const auto data = buffer.data();
    std::span<const std::uint8_t> input(static_cast<const std::uint8_t*>(data.data()), data.size());
    const frame_reader::result result = frames_.read(input);
    buffer.consume(data.size() - input.size());
    type = static_cast<frame_type>(frames_.type());
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
    fsm_.on_bytes(clock::now());
    if (ec)
      co_return failure(error::peer_lost); // end of stream, reset or time-out without a last frame
  }
}

service_awaitable<void> connection::watch()
{
  for (;;)
  {
    frame_type type{};
    if (const error_code ec = co_await read_frame(type))
      co_return perform(fsm_.on_stream_end(ec));
    perform(fsm_.on_frame(clock::now(), type, sends()));
  }
}

} // namespace rdma::detail
