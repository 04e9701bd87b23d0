//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_UPGRADED_STREAM_HPP
#define BOOST_RDMA_DETAIL_UPGRADED_STREAM_HPP

#include <boost_rdma/detail/control_stream.hpp>
#include <boost_rdma/detail/process_mark.hpp>
#include <boost_rdma/detail/upgrade_wait.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/stream_traits.hpp>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <memory>
#include <utility>

namespace rdma::detail {

// What is at the bottom of a user's stream, as far as it has what sockets have. On the stream's
// executor.
template <class Stream>
class stream_bottom
{
public:
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  explicit stream_bottom(Stream& stream) noexcept
    : lowest_(boost::beast::get_lowest_layer(stream))
  {
  }

  // No time-outs of the user's: we have our own. Frames are small and wanted at once.
  void prepare()
  {
    error_code ignored;
    if constexpr (requires { lowest_.expires_never(); })
      lowest_.expires_never();
    if constexpr (requires { socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored); })
      socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    if constexpr (requires {
                    socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
                  })
      socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
  }

  [[nodiscard]] endpoint_type local_endpoint()
  {
    error_code ec;
    if constexpr (requires {
                    {
                      socket().local_endpoint(ec)
                    } -> std::convertible_to<endpoint_type>;
                  })
      return socket().local_endpoint(ec);
    else
      return {};
  }

  [[nodiscard]] endpoint_type remote_endpoint()
  {
    error_code ec;
    if constexpr (requires {
                    {
                      socket().remote_endpoint(ec)
                    } -> std::convertible_to<endpoint_type>;
                  })
      return socket().remote_endpoint(ec);
    else
      return {};
  }

  void shutdown_send()
  {
    error_code ignored;
    if constexpr (requires { socket().shutdown(boost::asio::socket_base::shutdown_send, ignored); })
      socket().shutdown(boost::asio::socket_base::shutdown_send, ignored);
  }

  void close()
  {
    error_code ignored;
    if constexpr (requires { lowest_.close(ignored); })
      lowest_.close(ignored);
    else if constexpr (requires { lowest_.close(); })
      lowest_.close(); // Beast's, which end their timers, too
  }

private:
  using lowest_type = boost::beast::lowest_layer_type<Stream>;

  [[nodiscard]] auto& socket() noexcept
  {
    if constexpr (requires { lowest_.socket(); })
      return lowest_.socket();
    else
      return lowest_;
  }

  lowest_type& lowest_;
};

// A user's stream as a control stream.
//
// Two executors meet here. We live on the service's thread, like the connection that owns us. The
// user's stream is touched on its own executor only, in a strand of ours, for that executor may
// have many threads; nothing of the user's runs there any more, as the stream was given away. Each
// operation goes there by a post, and its outcome comes back by another.
//
// Who may go before whom:
// - The connection, with its buffers and handlers, goes when it is over or with the service, while
// the operation on the
//   user's stream is still in flight. That operation owns the stream and the bytes
//   (upgrade_wait::transfer), refers to who waits for it weakly, and looks whether it is there on
//   the service's thread alone.
// - The service's io_context goes when the user's execution context is shut down, in which no
// handler is called from then
//   on, but only destroyed: an operation that is called may therefore post to the service. One that
//   is destroyed touches nothing of the service's.
// - The user's stream goes with its last operation. We post the last of ours, which closes it, so
// it is destroyed in its
//   strand, or by the end of the execution context, when no thread runs there.
//
// There is no TLS farewell (close_notify): control frames say by themselves where they end, and
// what follows frame_type::bye is of no interest.
template <class Stream>
class upgraded_stream final : public control_stream
{
public:
  // On the stream's executor. `io` is the connection service's.
  upgraded_stream(boost::asio::io_context& io, Stream stream)
    : io_(io.get_executor())
    , strand_(boost::asio::make_strand(stream.get_executor()))
    , work_(stream.get_executor())
    , reading_(std::make_shared<upgrade_wait>(io))
    , writing_(std::make_shared<upgrade_wait>(io))
    , probing_(std::make_shared<upgrade_wait>(io))
    , stream_(std::make_shared<Stream>(std::move(stream)))
    , in_child_(stream_)
  {
    stream_bottom<Stream> bottom(*stream_);
    bottom.prepare();
    local_ = bottom.local_endpoint();
    remote_ = bottom.remote_endpoint();
  }

  ~upgraded_stream() override { end(); }

  void read_some(const boost::asio::mutable_buffer& to, handler_type handler) override
  {
    reading_->start(to, std::move(handler));
    if (!stream_)
      return reading_->finish(boost::asio::error::operation_aborted);
    auto bytes = std::make_shared<upgrade_wait::transfer>();
    const std::size_t size = std::min(to.size(), bytes->size());
    boost::asio::post(strand_,
      [stream = stream_, size, then = arrival(reading_, bytes, bytes.get())]() mutable
      {
        if (then.process.foreign())
          return; // what comes is for the parent
        Stream& target = *stream;
        const boost::asio::mutable_buffer room(then.bytes->data(), size);
        target.async_read_some(room,
          boost::asio::bind_executor(then.strand,
            [stream = std::move(stream), then](const error_code& ec, std::size_t count)
            { then.deliver(ec, count); }));
      });
  }

  void write_some(const boost::asio::const_buffer& from, handler_type handler) override
  {
    writing_->start({}, std::move(handler));
    if (!stream_)
      return writing_->finish(boost::asio::error::operation_aborted);
    auto bytes = std::make_shared<upgrade_wait::transfer>();
    const std::size_t size = std::min(from.size(), bytes->size());
    std::memcpy(bytes->data(), from.data(), size);
    boost::asio::post(strand_,
      [stream = stream_, size, then = arrival(writing_, bytes, nullptr)]() mutable
      {
        if (then.process.foreign())
          return; // the parent writes it
        Stream& target = *stream;
        const boost::asio::const_buffer data(then.bytes->data(), size);
        target.async_write_some(data,
          boost::asio::bind_executor(then.strand,
            [stream = std::move(stream), then](const error_code& ec, std::size_t count)
            { then.deliver(ec, count); }));
      });
  }

  bool probe(handler_type handler) override
  {
    if (!stream_)
      return false;
    probing_->start({}, std::move(handler));
    boost::asio::post(
      strand_, [then = arrival(probing_, nullptr, nullptr)] { then.deliver({}, 0); });
    return true;
  }

  void shutdown_send() override
  {
    if (stream_)
      boost::asio::post(strand_,
        [stream = stream_, process = process_mark()]
        {
          if (!process.foreign())
            stream_bottom<Stream>(*stream).shutdown_send();
        });
  }

  void close() override { end(); }

  // Closing here closes nothing of the parent's; the operation in flight ends. At once, before what
  // the parent's thread has posted: while io_context::notify_fork() runs, nothing else uses the
  // stream.
  void end_in_child() override
  {
    if (const auto stream = in_child_.lock())
      stream_bottom<Stream>(*stream).close();
    work_.reset();
  }

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] boost::asio::ip::tcp::endpoint remote_endpoint() const override { return remote_; }

private:
  // How an outcome gets from the stream's executor to who waits for it.
  struct outcome
  {
    boost::asio::any_io_executor strand;
    boost::asio::io_context::executor_type io;
    std::weak_ptr<upgrade_wait> waiting;
    std::shared_ptr<upgrade_wait::transfer> bytes;
    const upgrade_wait::transfer* read; // the same, when they are wanted
    process_mark process;

    void deliver(const error_code& ec, std::size_t count) const
    {
      if (process.foreign())
        return; // who waits is the parent's
      boost::asio::post(io,
        [waiting = waiting, bytes = bytes, read = read, ec, count]
        {
          if (const auto self = waiting.lock())
            self->finish(ec, count, read);
        });
    }
  };

  [[nodiscard]] outcome arrival(const std::shared_ptr<upgrade_wait>& waiting,
    std::shared_ptr<upgrade_wait::transfer> bytes, const upgrade_wait::transfer* read) const
  {
    return {strand_, io_, waiting, std::move(bytes), read, process_mark()};
  }

  // The strand keeps the order, so this is the last to reach the stream. Who waits need not wait
  // for it: the user's executor may be busy, or not run at all.
  void end()
  {
    if (!stream_)
      return;
    reading_->finish(boost::asio::error::operation_aborted);
    writing_->finish(boost::asio::error::operation_aborted);
    probing_->finish(boost::asio::error::operation_aborted);
    boost::asio::post(
      strand_, [stream = std::move(stream_)] { stream_bottom<Stream>(*stream).close(); });
    work_.reset();
  }

  boost::asio::io_context::executor_type io_;
  // Their types erased: executor_work_guard, which streams use as well, does not take
  // strand<any_io_executor> (Boost 1.81).
  boost::asio::any_io_executor strand_;
  // Between two operations the user's context must not run out of work.
  boost::asio::executor_work_guard<boost::asio::any_io_executor> work_;
  std::shared_ptr<upgrade_wait> reading_;
  std::shared_ptr<upgrade_wait> writing_;
  std::shared_ptr<upgrade_wait> probing_;
  std::shared_ptr<Stream> stream_; // until closed
  const std::weak_ptr<Stream>
    in_child_; // the same, whatever a thread of the parent's was doing to it
  boost::asio::ip::tcp::endpoint local_;
  boost::asio::ip::tcp::endpoint remote_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_UPGRADED_STREAM_HPP
