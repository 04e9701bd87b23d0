//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_CALL_TABLE_HPP
#define BOOST_RDMA_LIB_RPC_CALL_TABLE_HPP

#include "boost_rdma/detail/rpc/call.hpp"
#include "boost_rdma/rpc/options.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdma::detail::rpc {

using call_list = boost::intrusive::list<call, boost::intrusive::constant_time_size<false>>;

// The calls of a client that have not ended: which are with the server, which wait for room, and
// when they end. No I/O and no clock.
class call_table
{
public:
  using time_point = call::time_point;

  explicit call_table(const rdma::rpc::client_options& options) noexcept
    : calls_max_(options.calls)
    , bytes_max_(options.bytes)
    , slots_max_(std::min<std::size_t>(std::size_t{options.calls} + options.queue, slots_most))
  {
  }

  // Gives the call a number. Returns false if there are too many.
  [[nodiscard]] bool add(call& what);

  // The call may end from now on. Returns true if it can be sent at once; it waits if `may_send`
  // is false.
  [[nodiscard]] bool submit(call& what, bool may_send = true) noexcept;

  // Returns a submitted call that can be sent now, or null.
  [[nodiscard]] call* next_to_send() noexcept;

  // Returns the call with the number if it is with the server; a reply can be late.
  [[nodiscard]] call* with_server(std::uint32_t number) noexcept;

  // Returns the submitted call with the number, or null.
  [[nodiscard]] call* find(std::uint32_t number) noexcept;

  // Returns true if the call was with the server. Other calls may have room now in both cases.
  bool remove(call& what) noexcept;

  // The earliest deadline.
  [[nodiscard]] time_point deadline() const noexcept
  {
    return deadlines_.empty() ? time_point::max() : deadlines_.begin()->deadline;
  }
  // Returns a call whose deadline has come, or null.
  [[nodiscard]] call* expired(time_point now) noexcept
  {
    return deadline() <= now ? &*deadlines_.begin() : nullptr;
  }

  // Moves all submitted calls to the end of a list.
  void remove_all(call_list& to) noexcept;

  // Number of calls that were submitted.
  [[nodiscard]] std::size_t submitted() const noexcept { return count_ - added_; }

  // Number of calls that were added.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

private:
  static constexpr std::uint16_t none = 0xffff;
  static constexpr std::size_t slots_most = none;

  enum class state : std::uint8_t
  {
    vacant,
    added,
    waiting,
    sent,
  };
  struct slot
  {
    call* what = nullptr;
    state is = state::vacant;
    std::uint16_t use = 0;         // the upper half of the number
    std::uint16_t next_vacant = 0; // index
  };
  struct by_deadline
  {
    bool operator()(const call& a, const call& b) const noexcept { return a.deadline < b.deadline; }
  };

  [[nodiscard]] slot* slot_of(std::uint32_t number) noexcept;
  [[nodiscard]] bool has_room(const call& what) const noexcept;
  void send(slot& s) noexcept;
  void vacate(std::uint16_t index) noexcept;

  const std::size_t calls_max_;
  const std::size_t bytes_max_;
  const std::size_t slots_max_;
  std::vector<slot> slots_;
  std::uint16_t first_vacant_ = none; // the slot that was vacated first is used next
  std::uint16_t last_vacant_ = none;
  call_list waiting_;
  boost::intrusive::multiset<call, boost::intrusive::base_hook<deadline_hook>,
    boost::intrusive::compare<by_deadline>>
    deadlines_;
  std::size_t count_ = 0;
  std::size_t added_ = 0; // and not submitted
  std::size_t sent_ = 0;
  std::size_t sent_bytes_ = 0;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_CALL_TABLE_HPP
