//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_DETAIL_CM_CORE_HPP
#define BOOST_RDMA_CM_DETAIL_CM_CORE_HPP

#include <boost_rdma/cm/options.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <utility>

namespace rdma::detail {
class queue_pair_core;
}

namespace rdma::cm::detail {

using rdma::detail::queue_pair_core;

// `core` is null if the queue pair was moved from.
void start_connect(const boost::asio::any_io_executor& executor,
  std::shared_ptr<queue_pair_core> core, const boost::asio::ip::tcp::endpoint& peer,
  const connect_options& options,
  boost::asio::any_completion_handler<void(error_code, private_data)> handler);

// An unanswered connection request. Destroying it rejects the client.
class request_core
{
public:
  using handler_type =
    boost::asio::any_completion_handler<void(error_code, std::shared_ptr<queue_pair_core>)>;

  virtual ~request_core() = default;
  [[nodiscard]] virtual const private_data& data() const noexcept = 0;
  [[nodiscard]] virtual const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept = 0;
  virtual void accept(const boost::asio::any_io_executor& executor, const private_data& answer,
    handler_type handler) = 0;
  virtual void accept(const boost::asio::any_io_executor& executor,
    std::shared_ptr<queue_pair_core> core, const private_data& answer,
    boost::asio::any_completion_handler<void(error_code)> handler) = 0;
  virtual void reject(const private_data& answer) = 0;
};

// An acceptor, independent of the types of executor and handlers.
class acceptor_core
{
public:
  using accept_handler_type = request_core::handler_type;
  using request_handler_type =
    boost::asio::any_completion_handler<void(error_code, std::shared_ptr<request_core>)>;

  static constexpr const char* name = "cm::acceptor"; // for exceptions

  // `executor` is the acceptor's; `inner` is the executor inside its strands, or the same.
  static std::shared_ptr<acceptor_core> make(const boost::asio::any_io_executor& executor,
    const boost::asio::any_io_executor& inner, const protection_domain& domain,
    const boost::asio::ip::tcp::endpoint& endpoint, const acceptor_options& options,
    error_code& ec);

  virtual ~acceptor_core() = default;
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  virtual void accept(
    const boost::asio::any_io_executor& executor, accept_handler_type handler) = 0;
  virtual void get_request(
    const boost::asio::any_io_executor& executor, request_handler_type handler) = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
};

// `core` is null if the object was moved from, was answered or could not be opened: these functions
// then complete with error::closed.
void start_accept(const boost::asio::any_io_executor& executor, acceptor_core* core,
  acceptor_core::accept_handler_type handler);
void start_get_request(const boost::asio::any_io_executor& executor, acceptor_core* core,
  acceptor_core::request_handler_type handler);
void start_accept(const boost::asio::any_io_executor& executor, request_core* core,
  const private_data& answer, request_core::handler_type handler);
void start_accept_into(const boost::asio::any_io_executor& executor, request_core* core,
  std::shared_ptr<queue_pair_core> queue_pair, const private_data& answer,
  boost::asio::any_completion_handler<void(error_code)> handler);

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_CM_DETAIL_CM_CORE_HPP
