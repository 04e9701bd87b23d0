//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CLIENT_ADMISSION_HPP
#define BOOST_RDMA_LIB_CONNECT_CLIENT_ADMISSION_HPP

#include "boost_rdma/authorisation.hpp"
#include "connect/connection.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/beast/http/fields.hpp>

#include <memory>
#include <string>

namespace rdma {

struct client_request::contents
{
  boost::asio::ip::tcp::endpoint from;
  std::string target;
  std::string data;
  boost::beast::http::fields fields;
};

namespace detail {

// Calls acceptor_options::authorise on the acceptor's executor. The handshake waits for the
// decision on the service's thread.
class client_admission
{
public:
  client_admission(authoriser by, const boost::asio::any_io_executor& executor);

  // Returns true if the program examines clients.
  explicit operator bool() const noexcept;

  // Any thread. The function is not called after this, unless another thread is about to call it.
  void close() const noexcept;

  // On the service's thread. Returns early when the connection is stopped.
  service_awaitable<authorisation> ask(connection& link, client_request request) const;

private:
  struct shared;

  std::shared_ptr<shared> shared_;
};

} // namespace detail
} // namespace rdma

#endif // BOOST_RDMA_LIB_CONNECT_CLIENT_ADMISSION_HPP
