//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_SERVER_CORE_HPP
#define BOOST_RDMA_DETAIL_RPC_SERVER_CORE_HPP

#include <boost_rdma/access.hpp>
#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/rpc/flow_core.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/options.hpp>
#include <boost_rdma/rpc/server_statistics.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

// A value of any type that is encoded at once.
struct reply_source
{
  const void* value;
  void (*encode)(const void* value, rdma::rpc::output& to);
};

// The memory that the root of a group's call exposes, or this member's copy of it.
struct received_content
{
  std::span<const std::byte> bytes;
  std::shared_ptr<const registered_buffer> owner; // null at the root
};

// Memory that a call exposes.
class exposed_by_client
{
public:
  using io_executor = boost::asio::any_io_executor;
  using size_handler = boost::asio::any_completion_handler<void(error_code, std::size_t)>;

  struct part
  {
    std::size_t index;
    bool pulls;
    std::size_t offset;
    const_buffer local; // written if it pulls
  };

  exposed_by_client(const exposed_by_client&) = delete;
  exposed_by_client& operator=(const exposed_by_client&) = delete;

  [[nodiscard]] virtual std::size_t count() const noexcept = 0;
  [[nodiscard]] virtual std::size_t size(std::size_t index) const noexcept = 0;
  [[nodiscard]] virtual access rights(std::size_t index) const noexcept = 0;
  [[nodiscard]] virtual io_executor executor() const noexcept = 0;
  virtual void transfer(const io_executor& executor, const part& what, size_handler handler) = 0;

protected:
  exposed_by_client() = default;
  virtual ~exposed_by_client() = default;
};

// The error that a client gets for an exception of a handler.
error_code error_of(std::exception_ptr thrown) noexcept;

// A call whose handler has not ended. It keeps the connection and the methods. Answered once.
class running_call
{
public:
  running_call(const running_call&) = delete;
  running_call& operator=(const running_call&) = delete;

  // Called by any thread. Only the first call has an effect. A codec's exception becomes a failure.
  virtual void reply(const reply_source& what) = 0;
  virtual void fail(const error_code& ec) = 0;

  // Returns the items of the call. Called once, before an answer. `reads`: the client sends some.
  virtual std::shared_ptr<flow_core> open_flow([[maybe_unused]] bool reads) { return nullptr; }

  std::vector<std::byte> content;             // of the request
  boost::asio::cancellation_signal cancelled; // the client does not wait any more

protected:
  running_call() = default;
  virtual ~running_call() = default;
};

// A call that has arrived.
class arrived_call
{
public:
  arrived_call(const arrived_call&) = delete;
  arrived_call& operator=(const arrived_call&) = delete;

  // Answers at once.
  virtual void reply(const reply_source& what) = 0;
  virtual void fail(const error_code& ec) = 0;

  // Removes it from the content of a call with items. Returns false if there is none: calls of a
  // group have no items.
  [[nodiscard]] virtual bool take_first_credit() { return false; }

  // Answers later.
  virtual std::shared_ptr<running_call> keep() = 0;

  std::vector<std::byte>& content;
  const std::chrono::steady_clock::time_point deadline;
  const rdma::rpc::trace_context trace;
  const std::shared_ptr<exposed_by_client> exposed; // null: nothing
  received_content received;                        // of a group's call

protected:
  arrived_call(std::vector<std::byte>& of, std::chrono::steady_clock::time_point until,
    const rdma::rpc::trace_context& in, std::shared_ptr<exposed_by_client> memory)
    : content(of)
    , deadline(until)
    , trace(in)
    , exposed(std::move(memory))
  {
  }
  ~arrived_call() = default;
};

// Starts the program's handler for the calls of one method.
class method_handler
{
public:
  explicit method_handler(const rdma::rpc::detail::method_description& what)
    : description(what)
  {
  }
  virtual ~method_handler() = default;

  // Does not throw what the program's handler throws.
  virtual void start(arrived_call& what) = 0;

  const rdma::rpc::detail::method_description& description;
};

// A server, independent of the types of methods and handlers.
class server_core
{
public:
  using io_executor = boost::asio::any_io_executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using plain_handler = boost::asio::any_completion_handler<void(error_code)>;

  // Throws system_error. `inner` is the executor inside the strands of `executor`.
  static std::shared_ptr<server_core> make(const io_executor& executor, const io_executor& inner,
    const protection_domain& domain, const endpoint_type& endpoint,
    const rdma::rpc::server_options& options);

  virtual ~server_core() = default;
  virtual void add(std::unique_ptr<method_handler> method) = 0;
  virtual void start() = 0;
  virtual void shut_down(const io_executor& executor, plain_handler handler) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  [[nodiscard]] virtual endpoint_type local_endpoint() const = 0;
  [[nodiscard]] virtual rdma::rpc::server_statistics statistics() const = 0;
};

// Shuts down, or completes with error::closed if there is no core.
void start_shut_down(
  const server_core::io_executor& executor, server_core* core, server_core::plain_handler handler);

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_SERVER_CORE_HPP
