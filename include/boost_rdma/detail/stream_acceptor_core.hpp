//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_STREAM_ACCEPTOR_CORE_HPP
#define BOOST_RDMA_DETAIL_STREAM_ACCEPTOR_CORE_HPP

#include <boost_rdma/detail/acceptor_core.hpp>
#include <boost_rdma/detail/stream_core.hpp>
#include <boost_rdma/stream_acceptor_options.hpp>

#include <memory>
#include <utility>

namespace rdma::detail {

// An acceptor of streams: makes streams of the clients of an acceptor.
class stream_acceptor_core : public std::enable_shared_from_this<stream_acceptor_core>
{
public:
  using handler_type =
    boost::asio::any_completion_handler<void(error_code, std::shared_ptr<stream_core>)>;

  static constexpr const char* name = "stream_acceptor"; // for exceptions

  // See acceptor_core.
  static std::shared_ptr<stream_acceptor_core> make(const boost::asio::any_io_executor& executor,
    const boost::asio::any_io_executor& inner, const protection_domain& domain,
    const boost::asio::ip::tcp::endpoint& endpoint, const stream_acceptor_options& options,
    error_code& ec);

  stream_acceptor_core(std::shared_ptr<acceptor_core> clients, std::shared_ptr<device_set> devices,
    const stream_options& options)
    : clients_(std::move(clients))
    , devices_(std::move(devices))
    , options_(options)
  {
  }

  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const
  {
    return clients_->local_endpoint();
  }
  [[nodiscard]] bool is_open() const { return clients_->is_open(); }
  void accept(const boost::asio::any_io_executor& executor, handler_type handler);
  void cancel() { clients_->cancel(); }
  void close() { clients_->close(); }

private:
  const std::shared_ptr<acceptor_core> clients_;
  const std::shared_ptr<device_set> devices_; // of the context, for its statistics
  const stream_options options_;
};

// See start_accept.
void start_accept_stream(const boost::asio::any_io_executor& executor, stream_acceptor_core* core,
  stream_acceptor_core::handler_type handler);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_STREAM_ACCEPTOR_CORE_HPP
