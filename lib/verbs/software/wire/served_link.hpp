//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP

#include "verbs/software/wire/link.hpp"
#include "verbs/software/wire/local_link.hpp"
#include "verbs/software/wire/segment.hpp"
#include "verbs/software/wire/socket.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace rdma::software::wire {

/// A local link in an engine: serves the queue pairs whose bells are rung.
class served_link final : public link
{
public:
  /// A link that this end makes.
  served_link(engine& by, descriptor socket, std::shared_ptr<segment> memory, const path& to,
    descriptor segment_fd) noexcept
    : link(by, to, true)
    , link_(std::move(socket), std::move(memory), 0, std::move(segment_fd))
  {
  }
  /// A link that a peer has made.
  served_link(
    engine& by, descriptor socket, std::shared_ptr<segment> memory, const path& from) noexcept
    : link(by, from, false)
    , link_(std::move(socket), std::move(memory), 1)
  {
  }

  local_link& local() noexcept { return link_; }

  // link
  int socket() const noexcept override { return link_.socket(); }
  std::optional<lane_use> take(std::uint32_t qp) noexcept override { return link_.take(qp); }
  bool adopt(lane_use which, std::uint32_t qp, const route&) noexcept override
  {
    return link_.adopt(which, qp);
  }
  void release(lane_use which) noexcept override;
  bool send(lane_use to, const protocol::hello_bytes& bytes) noexcept override
  {
    return link_.send(to, bytes);
  }
  bool take_message(lane_use from, protocol::hello_bytes& to) noexcept override
  {
    return link_.take_message(from, to);
  }
  bool is_over(lane_use which) const noexcept override { return link_.is_over(which); }
  std::uint32_t user_of(unsigned lane) const noexcept override { return link_.user_of(lane); }
  bool is_unused() const noexcept override { return link_.is_unused(); }
  bool retire() noexcept override { return link_.retire(); }
  void end() noexcept override { link_.shut_down(); }
  bool ended() const noexcept override { return link_.ended(); }

  // progress_target
  bool come_due(std::int64_t now) override;
  bool is_local() const noexcept override { return true; }
  bool ready() const noexcept override { return link_.has_bells(); }
  void look(bool on) noexcept override { link_.look(on); }

private:
  void work(mover by) override;

  local_link link_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_SERVED_LINK_HPP
