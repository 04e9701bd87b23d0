//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_FLOW_FSM_HPP
#define BOOST_RDMA_LIB_RPC_FLOW_FSM_HPP

#include "boost_rdma/error.hpp"

#include <cstddef>
#include <cstdint>

namespace rdma::detail::rpc {

// One side of the flow of items of a call: the credit of both directions, and the order of events.
// It has no I/O and no items.
class flow_fsm
{
public:
  // Returns the bytes of credit that an item takes. An empty one takes some, too.
  static std::uint64_t cost(std::size_t size) noexcept;

  // `window` is the credit that the peer gets at the beginning, and the most that it ever has. An
  // item takes at most half of it. 0: this side receives no items.
  explicit flow_fsm(std::uint32_t window) noexcept
    : window_(window)
    , given_(window)
  {
  }

  // --- messages of the peer; false: malformed ---

  [[nodiscard]] bool take_item(std::size_t size) noexcept;
  [[nodiscard]] bool take_credit(std::uint32_t bytes) noexcept;
  [[nodiscard]] bool take_end() noexcept; // the peer sends no more items

  // The call has ended; without an error it was answered by a reply. Only the first end counts.
  void close(const error_code& ec) noexcept;

  // --- the program reads ---

  enum class next : std::uint8_t
  {
    item,
    nothing_yet,
    end, // with read_error()
  };
  [[nodiscard]] next next_read() const noexcept;
  // An error, or none at the end of the items.
  [[nodiscard]] error_code read_error() const noexcept;
  // The program has read an item. Returns the credit that the peer must get now, or 0.
  [[nodiscard]] std::uint32_t read(std::size_t size) noexcept;
  // The program reads no more items. Returns the same.
  [[nodiscard]] std::uint32_t discard() noexcept;
  [[nodiscard]] bool discards() const noexcept { return discards_; }

  // --- the program writes ---

  // An error if this item can never be sent.
  [[nodiscard]] error_code write_error(std::size_t size) const noexcept;
  // Returns true if there is credit for it. Precondition: no write_error().
  [[nodiscard]] bool may_write(std::size_t size) const noexcept;
  // It is sent. Precondition: may_write().
  void write(std::size_t size) noexcept;
  // The program writes no more items. Returns true if the peer must be told.
  [[nodiscard]] bool end_writing() noexcept;

  // --- the end of the call ---

  [[nodiscard]] bool is_closed() const noexcept { return closed_; }
  // The error of the call, or none after a reply.
  [[nodiscard]] error_code close_error() const noexcept { return closed_ec_; }

  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }

private:
  [[nodiscard]] std::uint32_t credit_due() noexcept;

  const std::uint32_t window_;
  std::uint64_t given_;           // credit that the peer has
  std::uint64_t unread_ = 0;      // cost of items that have arrived and were not read
  std::size_t unread_items_ = 0;  // their number
  std::uint64_t consumed_ = 0;    // cost of items that were read, for which no credit was given
  std::uint64_t credit_ = 0;      // that this side has
  std::uint32_t peer_window_ = 0; // the first credit; 0: not known yet
  bool discards_ = false;
  bool peer_ended_ = false;
  bool writing_ended_ = false;
  bool closed_ = false;
  error_code closed_ec_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_FLOW_FSM_HPP
