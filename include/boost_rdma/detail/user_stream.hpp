//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_USER_STREAM_HPP
#define BOOST_RDMA_DETAIL_USER_STREAM_HPP

#include <boost_rdma/detail/exclusive_executor.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/beast/core/stream_traits.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

namespace rdma::detail {

class user_stream;
class user_transfer;

// Any thread. Reports the result of an operation on the user's stream; needs no memory.
void deliver(
  const std::shared_ptr<user_transfer>& of, const error_code& ec, std::size_t count) noexcept;

// The handler of an operation on the user's stream, which it keeps. If it is destroyed instead of
// being called, there was no memory for a step of the operation.
class user_stream_handler
{
public:
  using executor_type = exclusive_executor;

  user_stream_handler(std::shared_ptr<user_stream> stream, std::shared_ptr<user_transfer> of,
    exclusive_executor executor)
    : stream_(std::move(stream))
    , of_(std::move(of))
    , executor_(std::move(executor))
  {
  }
  user_stream_handler(user_stream_handler&&) noexcept = default;
  user_stream_handler& operator=(user_stream_handler&&) = delete;
  ~user_stream_handler()
  {
    if (of_)
      deliver(of_, boost::asio::error::no_memory, 0);
  }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] user_stream& stream() const noexcept { return *stream_; }

  void operator()(const error_code& ec, std::size_t count)
  {
    deliver(std::exchange(of_, nullptr), ec, count);
  }

private:
  std::shared_ptr<user_stream> stream_;
  std::shared_ptr<user_transfer> of_;
  exclusive_executor executor_;
};

// A stream of the user, used by its exclusive_executor only.
class user_stream
{
public:
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  virtual ~user_stream() = default;
  virtual void read_some(const boost::asio::mutable_buffer& to, user_stream_handler handler) = 0;
  virtual void write_some(const boost::asio::const_buffer& from, user_stream_handler handler) = 0;
  virtual void shutdown_send() = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual endpoint_type local_endpoint() = 0;
  [[nodiscard]] virtual endpoint_type remote_endpoint() = 0;
};

// Its lowest layer has the operations of a socket, as far as it is one.
template <class Stream>
class basic_user_stream final : public user_stream
{
public:
  // Disables the user's timeouts because the library has its own. Disables Nagle's algorithm
  // because control frames are small and urgent.
  explicit basic_user_stream(Stream stream)
    : stream_(std::move(stream))
  {
    error_code ignored;
    if constexpr (requires { lowest().expires_never(); })
      lowest().expires_never();
    if constexpr (requires { socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored); })
      socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    if constexpr (requires {
                    socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
                  })
      socket().set_option(boost::asio::socket_base::keep_alive(true), ignored);
  }

  void read_some(const boost::asio::mutable_buffer& to, user_stream_handler handler) override
  {
    stream_.async_read_some(to, std::move(handler));
  }

  void write_some(const boost::asio::const_buffer& from, user_stream_handler handler) override
  {
    stream_.async_write_some(from, std::move(handler));
  }

  void shutdown_send() override
  {
    error_code ignored;
    if constexpr (requires { socket().shutdown(boost::asio::socket_base::shutdown_send, ignored); })
      socket().shutdown(boost::asio::socket_base::shutdown_send, ignored);
  }

  void close() override
  {
    error_code ignored;
    if constexpr (requires { lowest().close(ignored); })
      lowest().close(ignored);
    else if constexpr (requires { lowest().close(); })
      lowest().close(); // Beast streams: also ends their timers
  }

  [[nodiscard]] endpoint_type local_endpoint() override
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

  [[nodiscard]] endpoint_type remote_endpoint() override
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

private:
  [[nodiscard]] auto& lowest() noexcept { return boost::beast::get_lowest_layer(stream_); }

  [[nodiscard]] auto& socket() noexcept
  {
    if constexpr (requires { lowest().socket(); })
      return lowest().socket();
    else
      return lowest();
  }

  Stream stream_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_USER_STREAM_HPP
