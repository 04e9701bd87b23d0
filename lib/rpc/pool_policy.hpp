//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_POOL_POLICY_HPP
#define BOOST_RDMA_LIB_RPC_POOL_POLICY_HPP

#include "boost_rdma/detail/rpc/call.hpp"
#include "boost_rdma/rpc/options.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rdma::detail::rpc {

// Decides which connection of a pool takes a call, which calls are repeated, and when connections
// are opened and closed. No I/O, no clock and no random numbers.
//
// Connections have indices: those of the first server come first.
class pool_policy
{
public:
  using time_point = call::time_point;

  // A call that has not ended.
  struct call_state
  {
    bool idempotent = false;
    bool overloaded = false;          // the last connection that has taken it was
    std::uint32_t given = 0;          // to so many connections
    std::uint64_t waits_since = 0;    // number of failures at that time
    std::vector<std::size_t> tried{}; // servers that are not tried again before all others
  };

  // A call is given to a connection, waits, or ends.
  struct placement
  {
    enum class kind : std::uint8_t
    {
      connection, // it is given to `index`
      waits,      // until a connection was opened, or could not be
      ends,       // with error::overloaded, or with the error of the last attempt to connect
    };
    kind is;
    std::size_t index = 0;
  };

  pool_policy(std::size_t servers, const rdma::rpc::client_pool_options& options);

  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }
  [[nodiscard]] std::size_t server_of(std::size_t connection) const noexcept
  {
    return connection / per_server_;
  }

  // --- connections: closed -> opening -> open -> closed ---

  // Returns a closed connection that is to be opened now. It counts as opening. A server without an
  // open connection has only one that is opening.
  std::optional<std::size_t> next_to_open(time_point now);
  void opened(std::size_t connection, time_point now);
  // `random` is at least 0 and less than 1.
  void not_opened(std::size_t connection, time_point now, double random);
  // An open connection takes no more calls. Its calls are not counted any more.
  void ended(std::size_t connection, time_point now, double random);
  // The earliest time at which another connection may be opened.
  [[nodiscard]] time_point opens_at() const noexcept;

  // Connections are closed at this time if no call begins.
  [[nodiscard]] time_point idle_until() const noexcept;
  // Returns an open connection that is closed because of that. It counts as closed.
  std::optional<std::size_t> next_to_close(time_point now);

  // --- calls ---

  void begin(call_state& what) noexcept;
  // `random` is any number.
  [[nodiscard]] placement place(call_state& what, std::uint32_t random) const;
  void give(call_state& what, std::size_t connection);
  [[nodiscard]] std::size_t calls(std::size_t connection) const noexcept
  {
    return connections_[connection].calls;
  }
  // A call has ended on an open connection.
  void take_back(std::size_t connection, call::progress_type progress);
  // A call has failed on a connection of this server. Returns true if it is to be placed again.
  [[nodiscard]] bool repeats(
    call_state& what, std::size_t server, const error_code& ec, call::progress_type progress) const;
  void end(time_point now) noexcept;

private:
  enum class state : std::uint8_t
  {
    closed,
    opening,
    open,
  };
  struct connection_state
  {
    state is = state::closed;
    std::size_t calls = 0;
    bool has_answered = false;
  };
  struct server_state
  {
    std::chrono::nanoseconds delay{};          // after the next failure
    time_point not_before = time_point::min(); // it is not connected to
    std::uint64_t failed = 0;                  // number of the last failure; 0: none
  };

  [[nodiscard]] std::size_t count(std::size_t server, state is) const noexcept;
  void delay(server_state& of, time_point now, double random) noexcept;
  [[nodiscard]] bool is_awaited(const call_state& what, std::size_t server) const noexcept;
  [[nodiscard]] std::optional<std::size_t> least_loaded(
    const call_state& what, std::uint32_t random) const noexcept;

  const std::size_t per_server_;
  const std::uint32_t attempts_;
  const std::chrono::nanoseconds backoff_min_;
  const std::chrono::nanoseconds backoff_max_;
  const std::chrono::nanoseconds idle_timeout_;
  std::vector<connection_state> connections_;
  std::vector<server_state> servers_;
  std::uint64_t failures_ = 0;
  std::size_t calls_ = 0; // that have not ended
  time_point idle_since_ = time_point::min();
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_POOL_POLICY_HPP
