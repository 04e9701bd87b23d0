//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_CALL_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_CALL_HPP

#include "boost_rdma/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

// A call to a group at one of its members, without I/O and without a clock (doc/rpc_protocol.md).

namespace rdma::detail::rpc {

// Successive places in the order of a call: the root has place 0, and the next rank place 1.
struct group_range
{
  std::uint32_t first = 0; // has the others below it in the tree
  std::uint32_t count = 0;

  bool operator==(const group_range&) const = default;
};

// Returns the ranges of the children of the first place: at most `fan_out`, of sizes that differ by
// at most one, in ascending order.
std::vector<group_range> children_of(group_range of, std::uint32_t fan_out);

// Returns the number of calls, one after the other, from the first of so many places to the last.
std::uint32_t height_of(std::uint32_t count, std::uint32_t fan_out);

struct group_absence
{
  std::uint32_t place = 0;
  error_code ec;
};

// The answer for a range: all of its places are counted or named.
struct group_part
{
  std::uint32_t answered = 0;
  std::vector<group_absence> missing; // the others, in ascending order
  std::vector<std::byte> value;       // the combined replies, if any have answered
};

class group_call
{
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  struct plan
  {
    group_range range; // of this member
    std::uint32_t fan_out = 0;
    time_point ends;     // this member has answered then
    duration patience{}; // a member that is silent for so long is bypassed
  };

  // A call that must be sent.
  struct task
  {
    group_range to;
    time_point ends;    // for the plan of the callee
    time_point until;   // the answer is not used after this time
    bool again = false; // the callee has the request
  };

  group_call(const plan& p, time_point now);

  // Returns the tasks that were not returned before. Each ends by one of take_part(),
  // take_pending(), take_failure(), or by on_time(). Later answers have no effect.
  std::vector<task> take_tasks();

  // The handler of this member has answered.
  void take_own(std::vector<std::byte> value);
  void take_own_failure(const error_code& ec);

  // The member with this place has answered for the range of the task.
  void take_part(std::uint32_t place, group_part part);
  // It works on the call.
  void take_pending(std::uint32_t place, time_point now);
  // It cannot be used: calls those below it.
  void take_failure(std::uint32_t place, const error_code& ec, time_point now);

  // Returns true if an answer of this place would be used.
  [[nodiscard]] bool waits_for(std::uint32_t place) const;
  [[nodiscard]] bool waits_for_own() const { return state_of_own_ == own_state::waiting; }

  // A member that has called this one waits for an answer.
  void add_caller(std::uint64_t caller, time_point now);
  // Returns the callers that must have an answer now: the result, or else that the work goes on.
  std::vector<std::uint64_t> take_callers(time_point now);

  // Bypasses members that are silent, and ends the call when its time is over.
  void on_time(time_point now);
  // Returns the time of the next on_time() and take_callers().
  [[nodiscard]] time_point alarm() const;

  [[nodiscard]] bool done() const { return waiting_ == 0; }

  // Ends the call without a result. Needs no memory.
  void abandon() noexcept;

  struct outcome
  {
    std::uint32_t answered = 0;
    std::vector<group_absence> missing;         // in ascending order
    std::vector<std::vector<std::byte>> values; // in the order of places, to be combined
  };
  // Precondition: done(), and not called before. Empty after abandon().
  outcome take_outcome();

private:
  enum class own_state : std::uint8_t
  {
    waiting,
    answered,
    failed,
  };
  struct child
  {
    group_range range;
    time_point ends;
    time_point until;
    bool counted = false; // `part` has its answer
    group_part part{};
  };

  void call_children(group_range of, time_point now);
  void add_task(const child& of, bool again);
  child* find(std::uint32_t place);

  const plan plan_;
  std::map<std::uint32_t, child> children_; // by their first place
  std::vector<task> tasks_;
  std::vector<group_absence> missing_;
  std::map<std::uint64_t, time_point> callers_; // and when they must hear that the work goes on
  std::vector<std::byte> own_;
  own_state state_of_own_ = own_state::waiting;
  std::size_t waiting_ = 1; // answers, with that of this member
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_CALL_HPP
