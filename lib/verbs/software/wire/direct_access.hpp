//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP

#include "verbs/software/memory/grant_word.hpp"
#include "verbs/software/memory/pinned_buffers.hpp"
#include "verbs/software/protocol/direct_path.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/wire/mapped_area.hpp"
#include "verbs/software/wire/segment.hpp"

#include <boost/container/static_vector.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rdma::software::wire {

/// The owner's permission to access memory directly, for a peer that has asked for a key.
struct grant_message
{
  std::uint32_t key = 0;
  std::uint32_t index = 0; ///< of lane_side::grants
  std::uint32_t generation = 0;
  std::uint32_t rights = 0;  ///< IBV_ACCESS_REMOTE_*, atomic_writes
  std::uint64_t address = 0; ///< of the first byte, as in requests with this key
  std::uint64_t length = 0;
  std::uint64_t place = 0; ///< offset in the shared memory whose descriptor the message carries

  /// Atomic writes need this right and that of writes.
  static constexpr std::uint32_t atomic_writes = 1u << 31;
};

/// A question for a grant.
struct grant_question
{
  std::uint32_t key = 0;
  std::uint8_t in_advance = 0; ///< 1: the peer checks the request below, which has not been sent
  std::uint8_t reads = 0;      ///< 1: a read; 0: a write
  std::array<std::uint8_t, 6> unused{};
  std::uint32_t length = 0;
  std::uint64_t address = 0;
};

/// Carries out the writes, reads and atomics of one queue pair directly in the peer's memory.
/**
 * The calling thread makes the copies. The peer is asked once for a grant for each key. A small
 * request with a new key is sent as frames, and the question follows it. A large request waits for
 * the answer; if its key is new, the peer checks the request before it answers. Without a grant,
 * requests with this key are sent as frames. A request whose grant has ended is also sent as
 * frames: the peer's responder then reports the error.
 *
 * Not thread-safe.
 */
class direct_access final : public protocol::direct_path
{
public:
  /// A request of at least this size waits for the peer's answer, and for the requests before it.
  /** Measured: frames of smaller requests take less time than the question and the page faults. */
  static constexpr std::uint64_t large = 128 * 1024;

  direct_access(protocol::parameters& with, std::uint64_t waits_from) noexcept
    : with_(with)
    , waits_from_(waits_from)
  {
  }

  /// Begins to use a lane. Returns false if there is no memory.
  bool open(lane_side& mine, const lane_side& theirs) noexcept;
  void close() noexcept;

  outcome run(protocol::send_request& what) noexcept override;
  bool write_short(const protocol::send_request& what) noexcept override;

  bool look_ahead(const protocol::send_request& what) noexcept override;
  bool prefers(const protocol::send_request& what) const noexcept override;

  void let_go() noexcept override { mark_.leave(mine_->touching); }

  /// Returns true if the peer is to be asked for a grant.
  bool wants() const noexcept { return !wanted_.empty(); }

  /// Returns true if the next request waits for the peer's answer.
  bool waits() const noexcept { return waits_for_.has_value(); }

  /// Ends the wait for a late answer: the next request is sent as frames.
  void stop_waiting() noexcept
  {
    if (waits_for_)
      answered(*waits_for_);
  }

  /// Records that the peer has answered for a key, with or without a grant.
  void answered(std::uint32_t key) noexcept;

  /// Returns a count that changes when bytes move.
  std::uint64_t moved() const noexcept { return moved_; }

  /// Begins a call of local_wire::transmit() with a new byte budget.
  void begin() noexcept { budget_ = bytes_max; }

  /// Returns the next question, once. There is one.
  grant_question take_wanted() noexcept
  {
    const grant_question first = wanted_.front();
    wanted_.erase(wanted_.begin());
    return first;
  }

  /// Takes the peer's answer, and the memory that the message carried. Checks both.
  void grant(const grant_message& what, const descriptor& memory, peer_areas& by) noexcept;

private:
  // The bound on one call. It limits the time that a posting thread spends here, and the time that
  // a thread of the peer waits when it deregisters memory.
  static constexpr std::uint64_t bytes_max = 1024 * 1024;

  struct access
  {
    grant_message by;
    std::shared_ptr<mapped_area> area;
    std::byte* memory = nullptr;
    bool fresh = true; ///< no large request has completed with it
  };

  struct shown_key
  {
    std::uint32_t key;
    bool answered;
  };

  access* find(std::uint32_t key) noexcept
  {
    return !accesses_.empty() && accesses_.front().by.key == key ? &accesses_.front()
                                                                 : find_again(key);
  }
  access* find_again(std::uint32_t key) noexcept;
  bool permits(const access& a, const protocol::send_request& what, unsigned right) const noexcept;
  bool is_large(const protocol::send_request& what) const noexcept;
  const shown_key* find_shown(std::uint32_t key) const noexcept;
  void forget_shown(std::uint32_t key) noexcept;
  outcome ask(const protocol::send_request& what) noexcept;
  bool want(const protocol::send_request& what, bool in_advance) noexcept;
  bool enter(const access& a, bool marked) noexcept;
  bool holds(const access& a, std::memory_order order) const noexcept;
  outcome forget(std::uint32_t key) noexcept;
  bool atomic(const access& a, protocol::send_request& what) noexcept;
  bool move(
    access& a, protocol::send_request& what, std::uint64_t size, std::uint64_t& done) noexcept;
  bool move_hostile(std::byte* there, bool write, const pinned_buffers& here, std::uint64_t size,
    hostile_memory& by) noexcept;

  protocol::parameters& with_;
  const std::uint64_t waits_from_;
  lane_side* mine_ = nullptr;
  const lane_side* theirs_ = nullptr;
  std::uint64_t moved_ = 0;
  grant_mark mark_;
  std::vector<access> accesses_; // the most recently used one is in front
  std::vector<shown_key> shown_; // the keys that the peer has been asked for
  boost::container::static_vector<grant_question, 4> wanted_;
  std::optional<std::uint32_t> waits_for_; // the answer for this key
  std::uint64_t budget_ = 0;               ///< bytes that this call may still move
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP
