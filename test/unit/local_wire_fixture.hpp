//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_LOCAL_WIRE_FIXTURE_HPP
#define BOOST_RDMA_TEST_UNIT_LOCAL_WIRE_FIXTURE_HPP

#include "unit/protocol_fixture.hpp"

#include "verbs/software/wire/local_wire.hpp"

#include "common/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// One end of the local wire with its state machines. The other end is the test.

namespace local_wire_test {

using namespace protocol_test;
using namespace rdma::software::wire;
namespace wire = rdma::software::wire;

/// A record that asks for a grant, as local_wire_grants.cpp has it.
struct key_note
{
  std::uint8_t kind = 0xc0;
  std::array<std::uint8_t, 7> unused{};
  grant_question what;
};

/// A record that answers that there is no grant.
struct declined_note
{
  std::uint8_t kind = 0xc1;
  std::array<std::uint8_t, 3> unused{};
  std::uint32_t key = 0;
};

/// Requests of this size wait for the answer to their question.
constexpr std::uint32_t large = 8192;

/// Sends a message with these descriptors.
inline bool send_with(
  int socket, const void* what, std::size_t size, std::span<const int> descriptors)
{
  iovec content{const_cast<void*>(what), size};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

/// Reads all messages that have arrived. Returns true if there is a grant.
inline bool take_granted(int socket)
{
  bool granted = false;
  std::array<std::byte, 256> message;
  for (ssize_t n = 0; (n = ::recv(socket, message.data(), message.size(), MSG_DONTWAIT)) > 0;)
    granted = granted || n == sizeof(grant_answer);
  return granted;
}

/// End 1 of a link is the wire under test; the test has end 0.
struct wire_and_peer : registered_memory
{
  wire_and_peer()
    : wire_and_peer(new_segment())
  {
  }
  explicit wire_and_peer(std::shared_ptr<wire::segment> in)
    : shared(std::move(in))
  {
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    REQUIRE(shared != nullptr);
    constexpr std::size_t requests_size = wire::segment::ring_size;
    constexpr std::size_t responses_size = wire::segment::ring_size;
    shared->begin(lane.lane);
    lane_side& mine = shared->side(lane.lane, 0);
    const lane_side& theirs = shared->side(lane.lane, 1);
    requests_out =
      ring::writer(shared->requests_of(lane.lane, 0), requests_size, theirs.requests_taken, 0);
    responses_out =
      ring::writer(shared->responses_of(lane.lane, 0), responses_size, theirs.responses_taken, 0);
    requests_in =
      ring::reader(shared->requests_of(lane.lane, 1), requests_size, mine.requests_taken);
    responses_in =
      ring::reader(shared->responses_of(lane.lane, 1), responses_size, mine.responses_taken);
    link.emplace(descriptor(sockets[1]), shared, 1);
    REQUIRE(link->adopt(lane, with.qp));
    with.segment = 4096;
    requests.start();
    answers.start();
    under_test.open(*link, lane);
  }
  ~wire_and_peer()
  {
    under_test.close();
    ::close(sockets[0]);
  }
  wire_and_peer(const wire_and_peer&) = delete;
  wire_and_peer& operator=(const wire_and_peer&) = delete;

  /// Sends a message through the socket. Returns false when the socket is full.
  bool send(const void* what, std::size_t size) const
  {
    return ::send(sockets[0], what, size, MSG_DONTWAIT) == static_cast<ssize_t>(size);
  }

  bool send(const void* what, std::size_t size, std::span<const int> descriptors) const
  {
    return send_with(sockets[0], what, size, descriptors);
  }

  bool respond(const void* what, std::size_t size) { return put(responses_out, what, size); }
  bool ask(const void* what, std::size_t size) { return put(requests_out, what, size); }

  /// Sends a request for the beginning of the memory, with zeros as payload.
  bool ask(header h)
  {
    h.dest_qp = with.qp;
    h.psn = psn;
    h.ack_request = true;
    h.address = begin();
    header_bytes headers;
    const std::size_t size = encode(h, headers);
    std::vector<std::byte> frame(headers.begin(), headers.begin() + static_cast<long>(size));
    frame.resize(size + h.payload);
    return ask(frame.data(), frame.size());
  }

  /// Returns true if the wire has granted something. Reads what it has sent through the socket.
  bool has_granted() const { return take_granted(sockets[0]); }

  /// Lets the link read all messages of its socket. Returns false at its end.
  bool hear()
  {
    for (;;)
    {
      attach_message hello;
      switch (link->hear(hello))
      {
      case local_link::heard::nothing:
        return true;
      case local_link::heard::end:
        return false;
      default:
        break;
      }
    }
  }

  /// Receives, then transmits.
  bool run()
  {
    if (!under_test.receive(false))
      return false;
    under_test.transmit(true);
    return true;
  }

  std::array<int, 2> sockets{};
  std::uint32_t psn = 0; ///< of the next request
  std::shared_ptr<wire::segment> shared;
  static constexpr lane_use lane{3, 1};
  std::optional<local_link> link;
  ring::writer requests_out;
  ring::writer responses_out;
  ring::reader requests_in;
  ring::reader responses_in;
  send_queue queue{4, sizeof(ibv_sge)};
  requester requests{queue, with, told};
  responder answers{with, told, 1};
  grant_table grants;
  local_wire under_test{with, requests, answers, grants, large};

private:
  static std::shared_ptr<wire::segment> new_segment()
  {
    descriptor memory;
    return wire::segment::create(memory);
  }
  static bool put(ring::writer& to, const void* what, std::size_t size)
  {
    std::byte* const at = to.begin(size, false);
    if (at == nullptr)
      return false;
    std::memcpy(at, what, size);
    to.end(size);
    return true;
  }
};

} // namespace local_wire_test

#endif // BOOST_RDMA_TEST_UNIT_LOCAL_WIRE_FIXTURE_HPP
