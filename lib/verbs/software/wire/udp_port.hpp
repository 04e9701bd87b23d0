//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UDP_PORT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UDP_PORT_HPP

#include "verbs/software/protocol/packet.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/socket.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <sys/socket.h>

namespace rdma::software::wire {

/// The maximum payload of a datagram: the path MTU (IBA 9.8.3.1: UD messages consist of one
/// packet).
inline constexpr std::size_t datagram_payload_max = 4096;

/// The fields of a route as control messages for sendmsg(2); empty for the defaults.
struct route_options
{
  route_options() = default;
  route_options(const route& to, int family) noexcept;

  alignas(cmsghdr) std::array<std::byte, 2 * CMSG_SPACE(sizeof(int))> bytes{};
  std::size_t size = 0;
};

class udp_port;

/// A received datagram, whose headers are decoded and consistent with its size.
struct datagram
{
  const protocol::header& headers;
  ibv_gid from;
  route by;
  udp_port& at;
  std::span<const std::byte> payload;
};

/// A queue pair that receives datagrams.
class datagram_sink
{
public:
  /// Delivers a datagram. Called by one thread at a time for all sinks of a device. It must not
  /// call udp_ports.
  virtual void arrive(const datagram& what) = 0;

protected:
  ~datagram_sink() = default;
};

class udp_ports;

/// A UDP socket at one of the device's addresses, shared by the queue pairs of one index.
class udp_port final : public progress_target
{
public:
  udp_port(udp_ports& of, std::size_t gid_index) noexcept
    : gid_index(gid_index)
    , ports_(of)
  {
  }

  const std::size_t gid_index; ///< the GID of its address

  /// Binds this port number at this address. Returns 0 or an errno.
  int open(engine& by, const ibv_gid& at, std::uint16_t port);

  /// Does the same as sendmmsg(2): returns the number of datagrams sent, or -1 with errno.
  int send(std::span<mmsghdr> what) noexcept;

  /// Receives a bounded number of datagrams.
  void receive() noexcept;

  // progress_target: the engine polls the socket as it polls a connection
  void serve(mover by, std::uint32_t events = 0) override;
  void meet() override {}

private:
  static constexpr unsigned batch_size = 32;

  bool receive_batch() noexcept;
  void take(std::span<const std::byte> bytes, const msghdr& with) noexcept;

  udp_ports& ports_;
  descriptor fd_;
  std::mutex receiving_;
  std::unique_ptr<std::byte[]> buffers_; // under receiving_
};

/// The UDP sockets of a device.
class udp_ports
{
public:
  using at_addresses = std::vector<std::unique_ptr<udp_port>>;

  /// Opens the sockets of this queue pair's index, one at each of these addresses, unless they are
  /// open. Returns 0 or an errno. `to`: the ports, which are not moved later.
  int open(engine& by, std::uint32_t qp, std::span<const ibv_gid> gids, at_addresses*& to);

  /// Delivers datagrams for this queue pair to this sink. May throw std::bad_alloc.
  void join(std::uint32_t qp, datagram_sink& sink);

  /// Ends the delivery. No call is active when this returns.
  void leave(std::uint32_t qp) noexcept;

private:
  friend class udp_port;
  void deliver(const datagram& what) noexcept;

  std::mutex opening_;
  std::map<std::uint16_t, at_addresses> ports_; // by port number
  std::mutex sinks_mutex_;
  std::unordered_map<std::uint32_t, datagram_sink*> sinks_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_UDP_PORT_HPP
