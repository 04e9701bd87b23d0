//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LINK_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LINK_HPP

#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/wire/lanes.hpp"
#include "verbs/software/wire/progress_target.hpp"
#include "verbs/software/wire/socket.hpp"

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace rdma::software::wire {

class engine;

/// Identifies the context at the other end of a link. Two queue pairs with the same path can share
/// a link.
struct path
{
  bool is_local = false;
  std::uint16_t port = 0; ///< of the peer's context
  std::array<std::uint8_t, 16> to{};
  std::array<std::uint8_t, 16> from{}; ///< only tcp, and only where this end has made the link
  route by;                            ///< only tcp, and only where this end has made the link

  bool operator==(const path&) const = default;
};

/// Returns the path to the context of this queue pair, without a source address and a route.
path path_to(const protocol::endpoint_name& peer, bool locally) noexcept;

/// A link to another context in an engine, over either wire.
/**
 * The engine owns the link and ends it a second after its last queue pair has detached. Only the
 * end that has made the link attaches queue pairs; the other end adopts them. Thread-safe.
 */
class link
  : public progress_target
  , public std::enable_shared_from_this<link>
{
public:
  link(engine& by, const path& to, bool made_here) noexcept
    : engine_(by)
    , path_(to)
    , made_here_(made_here)
  {
  }
  virtual ~link() = default;
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  /// Returns true if a queue pair with this peer may attach.
  bool leads_to(const path& there) const noexcept
  {
    return made_here_ && path_ == there && !ended() && !inherited()
      && !silent_.load(std::memory_order_relaxed);
  }

  /// Returns true if a queue pair of this context has been connected through this link to one of
  /// the path's context.
  bool connects(const path& there) const noexcept
  {
    return is_proven() && is_to(there) && !ended() && !inherited()
      && !silent_.load(std::memory_order_relaxed);
  }

  /// Records that a queue pair has been connected to one of this path's context, which has proven
  /// the secret. Before that, the path of a link that the peer has made is an unverified claim.
  void prove(const path& there) noexcept
  {
    if (is_to(there))
      is_proven_.store(true, std::memory_order_relaxed);
  }

  bool is_proven() const noexcept { return is_proven_.load(std::memory_order_relaxed); }

  /// Excludes this link from new attachments, because the peer does not answer through it.
  void avoid() noexcept { silent_.store(true, std::memory_order_relaxed); }

  virtual int socket() const noexcept = 0;

  /// Reserves a lane for a queue pair that attaches. Returns nothing if all are in use.
  virtual std::optional<lane_use> take(std::uint32_t qp) noexcept = 0;

  /// Attaches a queue pair to the lane that the peer has chosen. Returns false if the lane is in
  /// use.
  virtual bool adopt(lane_use which, std::uint32_t qp, const route& by) noexcept = 0;

  /// Detaches a queue pair from its lane.
  virtual void release(lane_use which) noexcept = 0;

  /// Sends a handshake message. Returns false if it cannot be sent now.
  virtual bool send(lane_use to, const protocol::hello_bytes& bytes) noexcept = 0;

  /// Takes the last handshake message that has arrived for a lane.
  virtual bool take_message(lane_use from, protocol::hello_bytes& to) noexcept = 0;

  /// Returns true if the peer has detached from the lane, or the link has ended.
  virtual bool is_over(lane_use which) const noexcept = 0;

  /// Returns the queue pair that is attached to a lane; 0: none.
  virtual std::uint32_t user_of(unsigned lane) const noexcept = 0;

  virtual bool is_unused() const noexcept = 0;

  /// Prevents queue pairs from attaching. Returns false if one is attached.
  virtual bool retire() noexcept = 0;

  /// Ends the link. The caller ensures that no thread serves it any more.
  virtual void end() noexcept = 0;
  virtual bool ended() const noexcept = 0;

  /// Returns true in a child of fork(), where the link remains owned by the parent.
  bool inherited() const noexcept { return forks.load(std::memory_order_relaxed) != forks_; }

  /// Lets the link end if no queue pair attaches within this time, in nanoseconds.
  void expect_use(std::int64_t time) noexcept;
  bool has_expired(std::int64_t now) const noexcept
  {
    return is_unused() && now >= unused_until_.load(std::memory_order_relaxed);
  }

  /// Processes the hello of a queue pair of the peer that wants to attach.
  void introduce(const attach_message& what) noexcept;

  // progress_target
  void serve(mover by, std::uint32_t events = 0) override;
  void meet() override {}

protected:
  /// Does all pending work, also that of concurrent serve() calls. Called by the serving thread.
  virtual void work(mover by) = 0;

  /// Returns true if the peer may use this address as its own.
  virtual bool may_name(const protocol::endpoint_name&) const noexcept { return true; }

  /// Sets the alarm that ends the link, if no queue pair is attached any more.
  void released() noexcept;

  /// Ends the link if its alarm is due.
  void end_if_unused(std::int64_t now) noexcept;

  /// If the link has ended, serves the attached queue pairs once. Called by the serving thread.
  void report_end(mover by) noexcept;

  engine& engine_;
  const path path_;
  std::atomic<bool> readable_{false}; ///< the socket is readable
  std::atomic<bool> writable_{false}; ///< the socket is writable again

private:
  bool is_to(const path& there) const noexcept
  {
    return path_.is_local == there.is_local && path_.port == there.port && path_.to == there.to;
  }

  const unsigned forks_ = forks.load(std::memory_order_relaxed);
  const bool made_here_;
  std::atomic<bool> silent_{false};
  std::atomic<bool> is_proven_{false};
  bool end_is_known_ = false; ///< reported to the queue pairs; used by the serving thread
  std::atomic<std::int64_t> unused_until_{0};
  std::atomic<std::uint32_t> calls_{0}; ///< concurrent serve() calls; the first works for all
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_LINK_HPP
