//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP

#include "verbs/software/memory/grant_word.hpp"
#include "verbs/software/protocol/direct_path.hpp"
#include "verbs/software/protocol/endpoint.hpp"
#include "verbs/software/wire/mapped_area.hpp"
#include "verbs/software/wire/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rdma::software::wire {

/// What the owner of memory tells a peer that has shown a key to it.
struct grant_message
{
  std::uint32_t key = 0;
  std::uint32_t index = 0; ///< of lane_side::grants
  std::uint32_t generation = 0;
  std::uint32_t rights = 0;  ///< IBV_ACCESS_REMOTE_*
  std::uint64_t address = 0; ///< what the first byte is called by those who use the key
  std::uint64_t length = 0;
  std::uint64_t place = 0; ///< in the shared memory that comes with this message
};

/// Writes, reads and atomics of one queue pair, in the peer's memory by this end's own thread.
/**
 * Behind the first request with a key the peer is asked once for a grant. Until the peer has
 * answered, requests with this key travel as frames. A grant that does not hold any more, or was
 * never given, sends the request that way, too: the peer's responder then says what is wrong. One
 * thread at a time.
 */
class direct_access final : public protocol::direct_path
{
public:
  explicit direct_access(protocol::parameters& with) noexcept
    : with_(with)
  {
  }

  /// False when memory is short.
  bool open(lane_side& mine, const lane_side& theirs) noexcept;
  void close() noexcept;

  outcome run(protocol::send_request& what) noexcept override;
  bool write_short(const protocol::send_request& what) noexcept override;

  void let_go() noexcept override { mark_.leave(mine_->touching); }

  bool wants() const noexcept { return wanted_.has_value(); }

  /// Changes whenever bytes move.
  std::uint64_t moved() const noexcept { return moved_; }

  /// A call of the wire's begins.
  void begin() noexcept { budget_ = bytes_max; }

  /// A key that the peer has not been shown, once.
  std::optional<std::uint32_t> take_wanted() noexcept;

  /// Takes the peer's answer, and the memory that came with it. Both are checked here.
  void grant(const grant_message& what, const descriptor& memory, peer_areas& by) noexcept;

private:
  // Of one call: who posts is not kept for longer, and who takes memory back waits for no more.
  static constexpr std::uint64_t bytes_max = 1024 * 1024;

  struct access
  {
    grant_message by;
    std::shared_ptr<mapped_area> area;
    std::byte* memory = nullptr;
  };

  access* find(std::uint32_t key) noexcept;
  bool permits(const access& a, const protocol::send_request& what, unsigned right) const noexcept;
  bool enter(const access& a, bool marked) noexcept;
  bool holds(const access& a, std::memory_order order) const noexcept;
  outcome forget(std::uint32_t key) noexcept;
  bool atomic(const access& a, protocol::send_request& what) noexcept;
  bool move(
    access& a, protocol::send_request& what, std::uint64_t size, std::uint64_t& done) noexcept;

  protocol::parameters& with_;
  lane_side* mine_ = nullptr;
  const lane_side* theirs_ = nullptr;
  std::uint64_t moved_ = 0;
  grant_mark mark_;
  std::vector<access> accesses_;     // the one that was used last is in front
  std::vector<std::uint32_t> shown_; // keys that the peer has been asked for
  std::optional<std::uint32_t> wanted_;
  std::uint64_t budget_ = 0; ///< bytes that this call of the wire's may still move
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_DIRECT_ACCESS_HPP
