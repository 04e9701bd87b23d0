//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_CONNECTION_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_CONNECTION_HPP

#include "sockets/runtime.hpp"
#include "sockets/socket.hpp"

#include "boost_rdma/detail/connected_peer.hpp"
#include "connect/stream_connect.hpp"
#include "stream/stream_impl.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rdma::sockets {

class listening;

/// A connection of the program.
class connection final
  : public socket
  , public detail::stream_observer
  , public flushable
  , public std::enable_shared_from_this<connection>
{
public:
  /// A socket that connects: the server is asked at once.
  /// from: the address that the program has chosen, or an unspecified one.
  connection(const boost::asio::ip::tcp::endpoint& server, const boost::asio::ip::address& from);

  /// A socket that was accepted from this address.
  connection(std::shared_ptr<listening> by, const boost::asio::ip::tcp::endpoint& client);

  [[nodiscard]] state current() const noexcept override;
  state use(int fd) noexcept override;
  ssize_t receive(std::span<const iovec> to, int flags) noexcept override;
  ssize_t send(std::span<const iovec> from) noexcept override;
  [[nodiscard]] short events() const noexcept override;
  [[nodiscard]] int unread() const noexcept override;
  [[nodiscard]] int unsent() const noexcept override;
  int take_error() noexcept override;
  int shut_down(int how) noexcept override;
  void close(bool resets) noexcept override;
  void watch(watcher& by) noexcept override;
  void unwatch(watcher& by) noexcept override;
  [[nodiscard]] std::string describe() const override;
  void after_fork() noexcept override;
  void set_non_blocking(bool to) noexcept override;

  void changed() noexcept override;
  bool flush() noexcept override;

  /// The process ends: as close().
  void end() noexcept;

  /// No bytes wait for the decision, or for the peer to be ready.
  [[nodiscard]] bool is_over() const noexcept;

private:
  using lock_type = std::unique_lock<std::mutex>;

  static constexpr std::size_t pending_max = 64 * 1024;

  [[nodiscard]] bool is_foreign() const noexcept { return made_in_ != runtime::generation(); }
  void begin(int fd, const lock_type& lock);
  [[nodiscard]] bool is_decided_by_bytes(int fd, const lock_type& lock);
  void decided(const error_code& ec, detail::connected_peer peer) noexcept;
  void go_on_with_kernel(std::string ending) noexcept;
  [[nodiscard]] bool send_pending_to_kernel() noexcept;
  [[nodiscard]] bool is_unused_by_server() const noexcept;
  void end_with(std::string why) noexcept;
  void become(state next, const lock_type& lock) noexcept;
  [[nodiscard]] std::size_t write(std::span<const iovec> from, error_code& ec);
  [[nodiscard]] bool flush(const lock_type& lock) noexcept;
  [[nodiscard]] bool flush_and_end(const lock_type& lock) noexcept;
  void finish(const lock_type& lock) noexcept;
  [[nodiscard]] ssize_t fail(const error_code& ec) noexcept;
  [[nodiscard]] ssize_t peek(std::span<const iovec> to) noexcept;

  std::atomic<unsigned> made_in_; // the process that can use it: a generation of the runtime
  const std::shared_ptr<listening> accepted_by_; // null for a client
  const boost::asio::ip::tcp::endpoint peer_;

  std::atomic<state> state_{state::undecided};
  std::shared_ptr<detail::stream_impl> stream_; // set before state::rdma
  std::atomic<bool> is_connected_{false};       // TCP, as far as it is known
  std::atomic<int> error_{0};                   // for SO_ERROR
  std::atomic<bool> has_failed_{false};         // an error was reported: the next one is EPIPE
  std::atomic<bool> reads_nothing_{false};      // SHUT_RD
  std::atomic<bool> writes_nothing_{false};     // SHUT_WR
  std::atomic<bool> ended_unused_{false};       // by the server, before it has used the connection

  mutable std::mutex mutex_;
  std::shared_ptr<detail::stream_connect> attempt_;
  int copy_ = -1;             // of the program's descriptor, while it is deciding
  std::vector<char> pending_; // sent before the decision, or before the peer is ready
  bool closed_ = false;
  bool resets_ = false; // when it was closed
  std::string ending_;  // of describe(), in state::kernel or state::ended

  std::mutex watch_mutex_; // innermost
  std::vector<watcher*> watchers_;
};

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_CONNECTION_HPP
