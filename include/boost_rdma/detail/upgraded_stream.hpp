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

// The lowest layer of a user's stream: its socket operations, as far as it has them. Used on the
// stream's executor.
template <class Stream>
class stream_bottom
{
public:
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  explicit stream_bottom(Stream& stream) noexcept
    : lowest_(boost::beast::get_lowest_layer(stream))
  {
  }

  // Disables the user's timeouts because the library has its own. Disables Nagle's algorithm
  // because control frames are small and urgent.
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
      lowest_.close(); // Beast streams: also ends their timers
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
// Two executors are involved. This object is used on the service's thread, like the connection that
// owns it. The user's stream is accessed only on its own executor, inside strand_, because that
// executor may have many threads. The user runs no operations on it any more because the stream was
// moved into the library. Each operation is posted to the stream's executor, and its result is
// posted back.
//
// Lifetimes:
// - The connection, with its buffers and handlers, is destroyed when it ends or with the service,
//   possibly while an operation on the user's stream is in flight. That operation owns the stream
//   and the bytes (upgrade_wait::transfer). It refers to its upgrade_wait weakly, and locks that
//   reference on the service's thread only.
// - The service's io_context is destroyed when the user's execution context is shut down. From then
//   on handlers of that context are destroyed but not called. An operation that is called may
//   therefore post to the service. An operation that is destroyed accesses nothing of the service.
// - The user's stream is destroyed with its last operation. The last operation is posted by end()
//   and closes the stream. The stream is therefore destroyed in its strand, or by the end of the
//   execution context, when no thread runs there.
//
// TLS's close_notify is not sent: control frames mark their own end, and data after frame_type::bye
// is ignored.
template <class Stream>
class upgraded_stream final : public control_stream
{
public:
  // Called on the stream's executor. `io` is that of the connection service.
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
          return; // the data is for the parent
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

  // Does not close the parent's connection; the operation in flight ends. Closes directly, before
  // operations that a thread of the parent posted: nothing else uses the stream while
  // io_context::notify_fork() runs.
  void end_in_child() override
  {
    if (const auto stream = in_child_.lock())
      stream_bottom<Stream>(*stream).close();
    work_.reset();
  }

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }
  [[nodiscard]] boost::asio::ip::tcp::endpoint remote_endpoint() const override { return remote_; }

private:
  // Transports a result from the stream's executor to the waiting operation.
  struct outcome
  {
    boost::asio::any_io_executor strand;
    boost::asio::io_context::executor_type io;
    std::weak_ptr<upgrade_wait> waiting;
    std::shared_ptr<upgrade_wait::transfer> bytes;
    const upgrade_wait::transfer* read; // equals `bytes` for reads, otherwise null
    process_mark process;

    void deliver(const error_code& ec, std::size_t count) const
    {
      if (process.foreign())
        return; // the waiting operation belongs to the parent
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

  // The strand keeps the order, so this is the last operation on the stream. The waiting operations
  // finish without it: the user's executor may be busy or not run at all.
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
  // Type-erased: executor_work_guard, which streams use as well, does not accept
  // strand<any_io_executor> (Boost 1.81).
  boost::asio::any_io_executor strand_;
  // Keeps the user's context from running out of work between two operations.
  boost::asio::executor_work_guard<boost::asio::any_io_executor> work_;
  std::shared_ptr<upgrade_wait> reading_;
  std::shared_ptr<upgrade_wait> writing_;
  std::shared_ptr<upgrade_wait> probing_;
  std::shared_ptr<Stream> stream_; // null after close
  // The same stream, independent of stream_, which a thread of the parent may have been changing.
  const std::weak_ptr<Stream> in_child_;
  boost::asio::ip::tcp::endpoint local_;
  boost::asio::ip::tcp::endpoint remote_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_UPGRADED_STREAM_HPP
