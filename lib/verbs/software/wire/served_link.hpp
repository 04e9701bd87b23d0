//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP

#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/progress_target.hpp"
#include "verbs/software/wire/segment.hpp"
#include "verbs/software/wire/socket.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace rdma::software::wire {

class engine;

/// A local link in an engine: its bells make the attached queue pairs move.
/** The engine owns it and ends it a second after its last queue pair has detached. */
class served_link final
  : public progress_target
  , public std::enable_shared_from_this<served_link>
{
public:
  /// `to`, `port`: where the peer listens, for a link that this end has made.
  served_link(engine& by, descriptor socket, std::shared_ptr<segment> memory, const ibv_gid& to,
    std::uint16_t port, descriptor segment_fd) noexcept
    : engine_(by)
    , link_(std::move(socket), std::move(memory), 0, std::move(segment_fd))
    , to_(to)
    , port_(port)
  {
  }
  /// A link that a peer has made.
  served_link(engine& by, descriptor socket, std::shared_ptr<segment> memory) noexcept
    : engine_(by)
    , link_(std::move(socket), std::move(memory), 1)
  {
  }

  local_link& link() noexcept { return link_; }

  /// Returns true if a queue pair that looks for this peer may attach.
  bool leads_to(const ibv_gid& gid, std::uint16_t port) const noexcept;

  /// A queue pair uses its lane no more.
  void release(lane_use which) noexcept;

  /// A queue pair of the peer wants to attach.
  void introduce(const attach_message& what) noexcept;

  // progress_target
  void serve(mover by, std::uint32_t events = 0) override;
  void come_due(std::int64_t now) override;
  bool is_local() const noexcept override { return true; }
  bool ready() const noexcept override { return link_.has_bells(); }
  void look(bool on) noexcept override { link_.look(on); }
  void meet() override {}

private:
  void work(mover by);

  engine& engine_;
  local_link link_;
  const ibv_gid to_{};
  const std::uint16_t port_ = 0;
  std::atomic<std::uint32_t> calls_{0}; ///< of serve(); the first one does the work of all
  std::atomic<bool> readable_{false};   ///< the socket has something
  bool end_is_known_ = false;           ///< to the queue pairs; for the thread that serves
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP
