//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP
#define BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP

#include <boost_rdma/acceptor_options.hpp>
#include <boost_rdma/detail/connected_peer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>

namespace rdma::detail {

// An acceptor, independent of the types of executor and handlers.
class acceptor_core
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, connected_peer)>;

  static constexpr const char* name = "acceptor"; // for exceptions

  // How clients are accepted.
  enum class clients
  {
    queue_pairs,  // all ask for an upgrade
    streams,      // those that begin with a preamble ask for an upgrade; the others are plain
    rdma_streams, // a client without a preamble is disconnected
    plain,
  };

  // `executor` is the acceptor's; `inner` is the executor inside its strands, or the same.
  static std::shared_ptr<acceptor_core> make(const boost::asio::any_io_executor& executor,
    const boost::asio::any_io_executor& inner, const protection_domain& domain,
    const boost::asio::ip::tcp::endpoint& endpoint, const acceptor_options& options, error_code& ec,
    clients which = clients::queue_pairs);

  virtual ~acceptor_core() = default;
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  virtual void accept(const boost::asio::any_io_executor& executor, handler_type handler) = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
};

// Accepts, or completes with error::closed if `core` is null: the acceptor was moved from, or could
// not be opened.
void start_accept(const boost::asio::any_io_executor& executor, acceptor_core* core,
  acceptor_core::handler_type handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP
