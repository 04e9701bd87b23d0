//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_STREAM_CORE_HPP
#define BOOST_RDMA_DETAIL_STREAM_CORE_HPP

#include <boost_rdma/detail/connected_peer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/stream_options.hpp>
#include <boost_rdma/transport_choice.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/container/static_vector.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>

namespace rdma::detail {

class queue_pair_core;
class stream_deadline;
struct device_set;

// The first buffers of a sequence that are not empty.
template <class Buffer>
class stream_buffers
{
public:
  stream_buffers() = default;

  template <class Sequence>
    requires(!std::same_as<Sequence, stream_buffers>)
  explicit stream_buffers(const Sequence& sequence)
  {
    const auto end = boost::asio::buffer_sequence_end(sequence);
    for (auto i = boost::asio::buffer_sequence_begin(sequence); i != end; ++i)
      if (const Buffer each(*i); each.size() != 0 && !add(each))
        return;
  }

  // Returns false, and has no effect, if there is no room.
  bool add(const Buffer& each)
  {
    if (buffers_.size() == buffers_.capacity())
      return false;
    buffers_.push_back(each);
    return true;
  }

  [[nodiscard]] std::span<const Buffer> list() const noexcept { return buffers_; }
  [[nodiscard]] bool empty() const noexcept { return buffers_.empty(); }

  // As a sequence of Asio.
  using value_type = Buffer;
  using const_iterator = const Buffer*;
  [[nodiscard]] const_iterator begin() const noexcept { return buffers_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return buffers_.data() + buffers_.size(); }

  static constexpr std::size_t most = 16;

private:
  boost::container::static_vector<Buffer, most> buffers_; // does not initialise the others
};

// A stream, independent of the types of executor and handlers.
class stream_core
{
public:
  using io_executor = boost::asio::any_io_executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using size_handler = boost::asio::any_completion_handler<void(error_code, std::size_t)>;
  using targets = stream_buffers<boost::asio::mutable_buffer>;
  using sources = stream_buffers<boost::asio::const_buffer>;

  using wait_type = boost::asio::socket_base::wait_type;
  using plain_handler = boost::asio::any_completion_handler<void(error_code)>;

  // Returns invalid_argument for options with which no stream can be made.
  static error_code check(const stream_options& options, const queue_pair_options& queue_pair);

  // Throws system_error.
  static std::shared_ptr<stream_core> make(
    std::shared_ptr<queue_pair_core> over, const stream_options& options);

  // Throws likewise. A stream by TCP counts as a connection of the context with these devices.
  static std::shared_ptr<stream_core> make(
    connected_peer peer, const stream_options& options, std::shared_ptr<device_set> devices);

  // A stream that will connect; throws likewise. `inner` is the executor inside the strands of
  // `executor`.
  static std::shared_ptr<stream_core> make_client(const io_executor& executor,
    const io_executor& inner, const protection_domain& domain, const stream_options& options,
    const queue_pair_options& queue_pair);

  virtual ~stream_core() = default;
  // `on_executor`: the handler's associated executor is `executor`.
  virtual void read_some(
    const io_executor& executor, const targets& to, size_handler handler, bool on_executor) = 0;
  virtual void write_some(
    const io_executor& executor, const sources& from, size_handler handler, bool on_executor) = 0;
  virtual void wait(
    const io_executor& executor, wait_type what, plain_handler handler, bool on_executor) = 0;
  // Synchronous: they set would_block if `waits` is false.
  virtual std::size_t read_some(const targets& to, bool waits, error_code& ec) = 0;
  virtual std::size_t write_some(const sources& from, bool waits, error_code& ec) = 0;
  virtual void wait(wait_type what, bool waits, error_code& ec) = 0;
  [[nodiscard]] virtual std::size_t available() const = 0;
  [[nodiscard]] virtual sources peek() = 0;
  virtual void consume(std::size_t size) = 0;
  // Null for a stream by TCP.
  [[nodiscard]] virtual std::shared_ptr<queue_pair_core> queue_pair() const { return nullptr; }
  [[nodiscard]] virtual bool is_open() const = 0;
  [[nodiscard]] virtual transport_choice transport() const = 0;
  [[nodiscard]] virtual endpoint_type local_endpoint() const = 0;
  [[nodiscard]] virtual endpoint_type remote_endpoint() const = 0;
  virtual void shut_down(error_code& ec) = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
  virtual void abort() { close(); } // without what was written
  virtual void connect(
    const io_executor& executor, const endpoint_type& server, plain_handler handler);
  virtual void connect(const endpoint_type& server, error_code& ec); // waits

  bool non_blocking = false; // of the program's synchronous functions

  using time_point = std::chrono::steady_clock::time_point;
  std::shared_ptr<stream_deadline> deadline; // null before the first one is set
};

// Call it before the handler's type is erased: to ask an erased handler allocates memory.
template <class Executor, class Handler>
bool is_on_executor(const Executor& executor, const Handler& handler)
{
  using associated = boost::asio::associated_executor_t<Handler, Executor>;
  if constexpr (std::same_as<associated, Executor>)
    return boost::asio::get_associated_executor(handler, executor) == executor;
  else
    return false;
}

// Beast's expires_at(); time_point::max() is never.
void limit_stream(const stream_core::io_executor& executor,
  const std::shared_ptr<stream_core>& core, stream_core::time_point time);

void start_read_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::targets& to, stream_core::size_handler handler, bool on_executor);
void start_write_some(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::sources& from, stream_core::size_handler handler, bool on_executor);
void start_wait(const stream_core::io_executor& executor, stream_core* core,
  stream_core::wait_type what, stream_core::plain_handler handler, bool on_executor);
void start_connect_stream(const stream_core::io_executor& executor, stream_core* core,
  const stream_core::endpoint_type& server, stream_core::plain_handler handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_STREAM_CORE_HPP
