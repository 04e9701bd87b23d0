//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_LOCAL_RAW_PEER_HPP
#define BOOST_RDMA_TEST_SOFTWARE_LOCAL_RAW_PEER_HPP

#include "software/raw_peer.hpp"

#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/ring.hpp"
#include "verbs/software/wire/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>

namespace test {

namespace wire = rdma::software::wire;

/// The connecting end of a local link, whose records the test writes.
class local_raw_peer
{
public:
  explicit local_raw_peer(const target_endpoint& v)
    : link_(connect(v), segment_, 0, wire::descriptor(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)))
    , hello_(v.hello())
  {
    const auto taken = link_.take(5);
    must(taken.has_value(), "a lane");
    lane_ = *taken;
    mine_ = &segment_->side(lane_.lane, 0);
    requests_ = wire::ring::reader(
      segment_->requests_of(lane_.lane, 1), wire::segment::ring_size, mine_->requests_taken);
    encode(hello_, bytes_);
    (void)link_.send(lane_, bytes_); // fails if the target has closed the connection already
  }

  /// Waits for the answer to the hello. Returns false if the connection ends instead.
  bool is_answered()
  {
    bool ended = false;
    must(until(
           [&]
           {
             wire::attach_message hello;
             ended = link_.hear(hello) == wire::local_link::heard::end;
             return ended || link_.take_message(lane_, bytes_);
           }),
      "an answer or the end");
    return !ended;
  }

  void attach()
  {
    must(is_answered(), "an answer");
    const auto answer = protocol::decode_hello(bytes_);
    must(answer.has_value(), "a hello");
    must(link_.send(lane_, protocol::confirmation({}, hello_.nonce, answer->nonce)), "confirm");
    mine_->read_depth = 16;
    mine_->rights = all_access;
  }

  /// Returns the next record of the target's requests, or nothing.
  std::vector<std::byte> next_request()
  {
    const auto body = requests_.front();
    std::vector<std::byte> record(body.begin(), body.end());
    if (!record.empty())
      requests_.pop();
    return record;
  }

  void grant(const wire::grant_message& what, const wire::descriptor& memory)
  {
    mine_->grants[what.index] = what.generation;
    must(link_.send(lane_, what, memory.get()), "grant");
  }

  void acknowledge(std::uint32_t psn)
  {
    mine_->acknowledged = psn | wire::lane_side::acknowledged_bit;
    ring();
  }

  /// Tells the target that there is something new.
  void ring()
  {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    link_.ring(lane_.lane);
  }

  /// The other words of the lane, and its socket, for a peer that is more hostile.
  const std::shared_ptr<wire::segment>& memory() const noexcept { return segment_; }
  int memory_fd() const noexcept { return fd_.get(); }
  wire::lane_use lane() const noexcept { return lane_; }
  wire::local_link& link() noexcept { return link_; }

private:
  static wire::descriptor connect(const target_endpoint& v)
  {
    wire::descriptor socket = wire::make_local_socket();
    const wire::address at = wire::to_local_address(v.device.gid(), v.port());
    must(::connect(socket.get(), at.get(), at.size) == 0, "connect");
    return socket;
  }

  wire::descriptor fd_;
  std::shared_ptr<wire::segment> segment_ = wire::segment::create(fd_);
  wire::local_link link_;
  protocol::hello hello_;
  protocol::hello_bytes bytes_;
  wire::lane_use lane_;
  wire::lane_side* mine_ = nullptr;
  wire::ring::reader requests_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_LOCAL_RAW_PEER_HPP
