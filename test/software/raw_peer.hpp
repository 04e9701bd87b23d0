//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_RAW_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_RAW_PEER_HPP

#include "software/verbs_fixture.hpp"

#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/protocol/packet.hpp"
#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/tcp_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

// A peer whose bytes the test controls, and a queue pair that it connects to.

namespace test {

namespace protocol = rdma::software::protocol;

/// A plain TCP connection to a device's port.
class raw_peer
{
public:
  /// `receive_buffer`: bytes that the kernel stores while the test reads nothing; 0: the default.
  /// `from`: the address that it connects from.
  explicit raw_peer(
    std::uint16_t port, int receive_buffer = 0, std::uint32_t from = INADDR_LOOPBACK)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
  {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive_buffer != 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(from);
    must(::bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0, "bind");
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }
  ~raw_peer() { ::close(fd_); }
  raw_peer(const raw_peer&) = delete;
  raw_peer& operator=(const raw_peer&) = delete;

  bool connected() const noexcept { return connected_; }
  void send(const void* what, std::size_t size) const
  {
    // The other end may have disconnected already.
    [[maybe_unused]] const ssize_t n = ::send(fd_, what, size, MSG_NOSIGNAL);
  }
  /// Returns false if the other end has refused an earlier byte.
  bool takes_a_byte() const { return ::send(fd_, "", 1, MSG_NOSIGNAL) == 1; }
  /// Shuts down the sending direction.
  void finish() const { ::shutdown(fd_, SHUT_WR); }
  /// Returns the received bytes up to the end of the connection, at most `size`.
  std::vector<std::byte> receive(std::size_t size) const
  {
    std::vector<std::byte> bytes(size);
    timeval limit{patience.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::size_t got = 0;
    while (got != size)
    {
      const ssize_t n = ::recv(fd_, bytes.data() + got, size - got, 0);
      must(n >= 0 || errno != EAGAIN, "bytes or the end of the connection in time");
      if (n <= 0)
        break;
      got += static_cast<std::size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }

  /// What the device has sent: a frame or a message of the link.
  struct item
  {
    enum class kind
    {
      frame,
      detach,
      handshake,
      end, ///< of the connection
      invalid
    };
    kind is = kind::invalid;
    unsigned lane = 0;      ///< of a detached queue pair
    protocol::header frame; ///< and its payload
    std::vector<std::byte> payload;
  };

  item next() const
  {
    namespace wire = rdma::software::wire;
    item result;
    auto bytes = receive(wire::tcp_message_size);
    if (bytes.size() != wire::tcp_message_size)
    {
      result.is = item::kind::end;
      return result;
    }
    if (bytes[0] == wire::tcp_detach)
    {
      result.is = item::kind::detach;
      result.lane = std::to_integer<unsigned>(bytes[1]);
      return result;
    }
    const std::size_t size = protocol::header_size(static_cast<std::uint8_t>(bytes[0]));
    if (size == 0)
    {
      const auto rest = receive(wire::tcp_attach_size - bytes.size());
      bytes.insert(bytes.end(), rest.begin(), rest.end());
      if (bytes.size() == wire::tcp_attach_size
        && wire::decode_attach(std::span<const std::byte, wire::tcp_attach_size>(bytes)))
        result.is = item::kind::handshake;
      return result;
    }
    const auto rest = receive(size - bytes.size());
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    const auto header = protocol::decode(bytes);
    if (!header)
      return result;
    result.frame = *header;
    result.payload = receive(header->payload);
    if (result.payload.size() == header->payload)
      result.is = item::kind::frame;
    return result;
  }

  /// Returns true when the device has detached its queue pair, or ended the connection.
  bool is_left() const
  {
    auto what = next();
    // An acknowledgement or a refusal comes before.
    while (what.is == item::kind::frame || what.is == item::kind::handshake)
      what = next();
    return what.is != item::kind::invalid;
  }

private:
  int fd_;
  bool connected_ = false;
};

/// A queue pair that waits for the test's peer. The end with the smaller name connects, which is
/// the test's.
struct target_endpoint
{
  static constexpr unsigned receives_posted = 8; ///< from 0, unless stated otherwise

  explicit target_endpoint(
    const rdma::software::connection_secret* secret = nullptr, unsigned receives = receives_posted)
    : target_endpoint(nullptr, 0, {}, secret, receives)
  {
  }

  /// One of several queue pairs of a device, each of which has its own lane of the peer's link.
  target_endpoint(const verbs_device& on, unsigned in_lane, const pair_options& with)
    : target_endpoint(&on, in_lane, with, nullptr, receives_posted)
  {
  }

  std::uint16_t port() const { return rdma::software::port_of(e.qp()->qp_num); }

  protocol::hello hello() const
  {
    protocol::hello h;
    const ibv_gid gid = device.gid();
    std::memcpy(h.from.gid.data(), gid.raw, 16);
    h.to.gid = h.from.gid;
    h.from.qp = peer_number();
    h.to.qp = e.qp()->qp_num;
    h.expected_psn = endpoint::first_psn;
    h.first_psn = endpoint::first_psn;
    h.segment = 256 * 1024;
    return h;
  }

  /// The number of the test's queue pair.
  std::uint32_t peer_number() const noexcept { return 5 + lane; }

  /// Sends a message of the handshake.
  void say(const raw_peer& s, const protocol::hello_bytes& what) const
  {
    rdma::software::wire::tcp_attach_bytes bytes;
    encode(rdma::software::wire::attach_message{{.lane = lane & 0xff, .number = 1}, what}, bytes);
    s.send(bytes.data(), bytes.size());
  }

  /// Returns the answer, if one comes.
  std::optional<protocol::hello_bytes> send_hello(const raw_peer& s, const protocol::hello& h) const
  {
    protocol::hello_bytes hello;
    encode(h, hello);
    say(s, hello);
    const auto bytes = s.receive(rdma::software::wire::tcp_attach_size);
    if (bytes.size() != rdma::software::wire::tcp_attach_size)
      return std::nullopt;
    const auto answer = rdma::software::wire::decode_attach(
      std::span<const std::byte, rdma::software::wire::tcp_attach_size>(
        bytes.data(), bytes.size()));
    return answer ? std::optional(answer->bytes) : std::nullopt;
  }

  bool handshake(const raw_peer& s, const protocol::hello& h,
    const rdma::software::connection_secret& secret = {}) const
  {
    const auto bytes = send_hello(s, h);
    const auto answer = bytes ? protocol::decode_hello(*bytes) : std::nullopt;
    if (!answer || !protocol::is_signed(*answer, secret, h.nonce))
      return false;
    say(s, protocol::confirmation(secret, h.nonce, answer->nonce));
    return true;
  }

private:
  target_endpoint(const verbs_device* on, unsigned in_lane, const pair_options& with,
    const rdma::software::connection_secret* secret, unsigned receives)
    : own_(on == nullptr ? std::make_unique<const verbs_device>() : nullptr)
    , device(on == nullptr ? *own_ : *on)
    , lane(in_lane)
    , m(device, 4096)
    , e(device, with)
  {
    std::fill(m.bytes().begin(), m.bytes().end(), std::uint8_t{0x5a});
    if (secret != nullptr)
      must(rdma::software::set_connection_secret(e.qp(), *secret) == 0, "set_connection_secret");
    must(e.to_init() == 0, "to_init");
    for (std::uint64_t i = 0; i < receives; ++i)
      must(e.receive(i, m.sge(1024, 512)) == 0, "receive");
    end_name peer = e.name();
    peer.qp = peer_number();
    must(e.to_ready_to_receive(peer) == 0, "to_ready_to_receive");
    must(e.to_ready_to_send() == 0, "to_ready_to_send");
  }

  const std::unique_ptr<const verbs_device> own_;

public:
  const verbs_device& device;
  const unsigned lane;
  memory m;
  endpoint e;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_RAW_PEER_HPP
