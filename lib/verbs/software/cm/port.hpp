//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_PORT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_PORT_HPP

#include "verbs/software/cm/message.hpp"
#include "verbs/software/wire/socket.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/socket.h>

namespace rdma::software::cm {

/// An IP address and a port. IPv4 addresses are IPv4-mapped.
struct endpoint
{
  address_bytes ip{};
  std::uint16_t port = 0;

  auto operator<=>(const endpoint&) const = default;
  bool is_v4() const noexcept;
  bool is_unspecified() const noexcept; ///< 0.0.0.0 or ::
};

inline constexpr address_bytes v6_any{};
inline constexpr address_bytes v4_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
inline constexpr address_bytes v6_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

/// Reads a program's address. Returns false unless it is an IPv4 or IPv6 address.
bool read_endpoint(const sockaddr* from, endpoint& to) noexcept;

/// Writes the sockaddr_in or sockaddr_in6 of an endpoint. Returns its size.
socklen_t write_endpoint(const endpoint& from, sockaddr_storage& to) noexcept;

/// A UDP port that exchanges messages. Not thread-safe.
class port
{
public:
  struct options
  {
    bool only_v6 = false;
    std::uint8_t traffic_class = 0;
  };

  /// Binds this address; port 0 is replaced by a free one. Returns 0 or an errno.
  int open(const endpoint& at, const options& with) noexcept;

  const endpoint& local() const noexcept { return local_; }
  int fd() const noexcept { return fd_.get(); }

  /// Sends a message, which may be lost. `from`: the source address; unspecified: the host chooses.
  /** Returns 0, or the errno of a destination without a route or a process. */
  int send(const message& what, const endpoint& to, const address_bytes& from) noexcept;

  /// What has arrived: a message, or an ICMP error for one that was sent.
  struct arrival
  {
    bool is_error = false;
    endpoint peer; ///< the source; of an error: the destination
    address_bytes local{};
    message what;
  };

  /// Takes the next valid arrival. Returns false if there is none at the moment.
  bool receive(arrival& to) noexcept;

private:
  enum class outcome
  {
    taken,
    skipped, ///< something without a meaning
    empty,
  };
  outcome receive_error(arrival& to) noexcept;
  outcome receive_message(arrival& to) noexcept;

  wire::descriptor fd_;
  endpoint local_;
  bool is_v6_ = false; ///< the family of the socket
};

/// Finds the source address that the host uses towards `to`. Returns 0 or an errno.
int find_source(const endpoint& to, address_bytes& source) noexcept;

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_PORT_HPP
