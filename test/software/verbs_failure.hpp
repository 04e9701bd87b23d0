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

// What a request that fails does to both ends: checked in one place, for every status.

namespace test {

/// The next completion has this id and this error, with a reason.
void check_error(const completions& cq, std::uint64_t id, ibv_wc_status status);

/// The next completions are flushes of these, in order.
void check_flushed(const completions& cq, std::initializer_list<std::uint64_t> ids);

/// In the error state: what is posted now is flushed, too, and nothing else completes.
void check_ended(const endpoint& e);

/// What a failing request must come to.
struct failure
{
  ibv_wc_status status;                          ///< of the request
  std::optional<ibv_event_type> far_event = {};  ///< what the other program is told
  std::optional<ibv_wc_status> far_receive = {}; ///< of the receive that the request met
  bool far_hears = true;                         ///< else the other end knows nothing of it
  bool late = false; ///< found out when it is answered: only a fence keeps back what is behind it
};

/// The other end refuses it.
inline failure refused(ibv_wc_status status, ibv_event_type far_event)
{
  return {status, far_event, {}, true};
}

/// It ends the receive that it met.
inline failure met_receive(ibv_wc_status status, ibv_wc_status far_receive)
{
  return {status, {}, far_receive, true};
}

/// It ends where it was posted.
inline failure stayed_here(ibv_wc_status status)
{
  return {status, {}, {}, false};
}

/// Two connected ends about to see a request of the one fail, with other work around it.
class failure_scene
{
public:
  /// Has them exchange a message, so that what is posted next travels at once.
  failure_scene(const endpoint& failing, const endpoint& other);

  memory near; ///< of the end whose request fails; 64 sent_byte
  memory far;  ///< 64 kept_byte

  /// The receive that the request is to meet, if any, is posted at the other end with this id.
  static constexpr std::uint64_t far_receive_id = 5;

  /// This memory must hold afterwards what it holds now. Both of the above do.
  void guard(const memory& m);

  /// Posts the request with a write behind it, and checks all that becomes of both ends:
  /**
   * those `before` it succeed; the request's status; nothing that was posted behind it happens; all
   * four queues are flushed in order and stay so; the asynchronous events; the memory under guard.
   * A far end that hears nothing keeps its state and its receives, until it finds its peer gone.
   */
  void check(
    request& failing, const failure& expected, std::initializer_list<std::uint64_t> before = {});

private:
  void check_failing_end(
    std::uint64_t id, const failure& expected, std::initializer_list<std::uint64_t> before);
  void check_other_end(const failure& expected);

  const endpoint& a_;
  const endpoint& b_;
  memory spare_near_; // what receives that nothing may arrive in are posted with
  memory spare_far_;
  std::vector<std::pair<const memory*, std::vector<std::uint8_t>>> guarded_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_VERBS_FAILURE_HPP
