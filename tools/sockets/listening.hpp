//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_LISTENING_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_LISTENING_HPP

#include "sockets/socket.hpp"

#include "connect/discovery.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <mutex>

namespace rdma::sockets {

/// A listening socket of the program: answers at the UDP port with its number.
class listening final
  : public listener
  , public std::enable_shared_from_this<listening>
{
public:
  /// fd is the TCP socket. Throws std::exception.
  listening(const boost::asio::ip::tcp::endpoint& at, int fd);

  /// For connections that were accepted in another program: nobody asks here.
  listening();

  void use() noexcept override;
  void close() noexcept override;

  [[nodiscard]] const boost::asio::ip::tcp::endpoint& endpoint() const noexcept { return at_; }

  /// The server in this process, which may be closed; null if it could not be made.
  [[nodiscard]] std::shared_ptr<detail::discovery_server> discovery() noexcept;

private:
  void leave_to_parent() noexcept;

  const boost::asio::ip::tcp::endpoint at_;
  const std::shared_ptr<detail::question_list> questions_;
  std::mutex mutex_;
  unsigned used_in_;
  int native_ = -1; // the UDP socket, which children inherit
  std::shared_ptr<detail::discovery_server> discovery_;
};

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_LISTENING_HPP
