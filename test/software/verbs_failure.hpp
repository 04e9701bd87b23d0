//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_VERBS_FAILURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_VERBS_FAILURE_HPP

#include "software/verbs_fixture.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <sys/mman.h>

// Checks the effects of a failing request at both ends, in one place for every status.

namespace test {

/// Size of a frame on the wire; longer messages take several.
inline constexpr std::size_t frame_bytes = 256 * 1024;

/// True if a status is the wanted one, or the one that a device without exact statuses has for it.
bool is_status(ibv_wc_status got, ibv_wc_status wanted);

/// Checks that the next completion has this id and this error, with a vendor error.
void check_error(const completions& cq, std::uint64_t id, ibv_wc_status status);

/// Checks that the next completions are flushes of these requests, in order.
void check_flushed(const completions& cq, std::initializer_list<std::uint64_t> ids);

/// Checks the error state: new requests are flushed, and nothing else completes.
void check_ended(const endpoint& e);

/// The expected effects of a failing request.
struct failure
{
  ibv_wc_status status;                          ///< of the request
  std::optional<ibv_event_type> far_event = {};  ///< event at the other end
  std::optional<ibv_wc_status> far_receive = {}; ///< of the receive that the request matched
  bool far_hears = true;                         ///< false if the other end is not affected
  bool late = false; ///< detected only by the answer, so later requests need a fence
};

/// The other end refuses it.
inline failure refused(ibv_wc_status status, ibv_event_type far_event)
{
  return {status, far_event, {}, true};
}

/// It ends the receive that it matched.
inline failure met_receive(ibv_wc_status status, ibv_wc_status far_receive)
{
  return {status, {}, far_receive, true};
}

/// It fails locally.
inline failure stayed_here(ibv_wc_status status)
{
  return {status, {}, {}, false};
}

/// Pages that can be made inaccessible while they are registered.
class pages
{
public:
  pages(const verbs_device& on, std::size_t size, int protection, int access)
    : api_(on.api())
    , size_(size)
    , at_(::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
  {
    must(at_ != MAP_FAILED, "mmap");
    mr_ = api_.reg_mr(on.pd(), at_, size, access);
    must(mr_ != nullptr, "reg_mr");
  }
  ~pages()
  {
    must(api_.dereg_mr(mr_) == 0, "dereg_mr");
    ::munmap(at_, size_);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;

  void take_away() { must(::mprotect(at_, size_, PROT_NONE) == 0, "mprotect"); }
  std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(at_); }
  ibv_mr* mr() const noexcept { return mr_; }
  ibv_sge sge(std::uint32_t size) const noexcept { return {address(), size, mr_->lkey}; }

private:
  const rdma::verbs::api& api_;
  std::size_t size_;
  void* at_;
  ibv_mr* mr_;
};

/// Two connected ends, one of whose requests is about to fail, with other requests around it.
class failure_scene
{
public:
  /// Exchanges a message, so that the connection is established.
  failure_scene(const endpoint& failing, const endpoint& other);

  memory near; ///< memory of the end whose request fails; 64 sent_byte
  memory far;  ///< 64 kept_byte

  /// The id of the receive at the other end that the request matches, if any.
  static constexpr std::uint64_t far_receive_id = 5;

  /// Checks that this memory is unchanged afterwards. The two memories above are guarded.
  void guard(const memory& m);

  /// Posts the request with a write after it, and checks the effects at both ends.
  /**
   * The requests `before` it succeed. The request has the expected status. Requests posted after it
   * have no effect. All four queues are flushed in order and stay flushed. The expected
   * asynchronous events are raised, and guarded memory is unchanged. A far end that is not affected
   * keeps its state and its receives until it detects the loss of its peer.
   */
  void check(
    request& failing, const failure& expected, std::initializer_list<std::uint64_t> before = {});

private:
  void check_failing_end(
    std::uint64_t id, const failure& expected, std::initializer_list<std::uint64_t> before);
  void check_other_end(const failure& expected);

  const endpoint& a_;
  const endpoint& b_;
  memory spare_near_; // for receives into which nothing may arrive
  memory spare_far_;
  std::vector<std::pair<const memory*, std::vector<std::uint8_t>>> guarded_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_FAILURE_HPP
