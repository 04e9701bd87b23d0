//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_HELD_REQUEST_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_HELD_REQUEST_HPP

#include "boost_rdma/cm/detail/cm_core.hpp"
#include "connect/cm/connection.hpp"
#include "connect/unclaimed_queue_pair.hpp"

#include <memory>

namespace rdma::detail {
class device_impl;
}

namespace rdma::cm::detail {

// Settings of the queue pairs for clients. Requests that the program holds keep them after the
// acceptor.
struct acceptor_settings
{
  boost::asio::any_io_executor inner; // without strands
  bool same_context;                  // the acceptor's executor has no strand
  protection_domain domain;
  acceptor_options options;
  const rdma::detail::device_impl& device; // the domain's

  // Returns a queue pair for a client, or sets ec.
  [[nodiscard]] rdma::detail::unclaimed_queue_pair make_queue_pair(error_code& ec) const;
};

// A client's request that the program holds.
class held_request final : public request_core
{
public:
  held_request(const std::shared_ptr<connection>& link,
    std::shared_ptr<const acceptor_settings> settings, event_channel& channel);
  ~held_request() override;

  [[nodiscard]] const private_data& data() const noexcept override { return data_; }
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept override
  {
    return peer_;
  }

  void accept(const boost::asio::any_io_executor& executor, const private_data& answer,
    handler_type handler) override;
  void accept(const boost::asio::any_io_executor& executor, std::shared_ptr<queue_pair_core> core,
    const private_data& answer,
    boost::asio::any_completion_handler<void(error_code)> handler) override;
  void reject(const private_data& reason) override;

private:
  std::shared_ptr<connection> take_link();

  std::weak_ptr<connection> link_; // the request may outlive the service and its channel
  bool answered_ = false;
  std::shared_ptr<const acceptor_settings> settings_;
  event_channel& channel_; // exists as long as link_
  private_data data_;
  boost::asio::ip::tcp::endpoint peer_;
};

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_HELD_REQUEST_HPP
