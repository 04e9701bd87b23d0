//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BATCH_HPP
#define BOOST_RDMA_BATCH_HPP

#include <boost_rdma/detail/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rdma {

/// Operations that are submitted with one doorbell and one completion; see
/// basic_queue_pair::async_submit().
/**
 * The device carries them out in order. Only the last one is signalled (IBV_SEND_SIGNALED,
 * ibv_post_send(3)), or the last one of each part if the batch is larger than
 * queue_pair_options::send_depth. When one fails, the batch completes with its error, and the queue
 * pair is in the error state, as after any failed operation. async_submit() checks the operations;
 * adding them here does not.
 *
 * The buffers must be registered: plain memory fails with error::not_registered. Each function
 * takes the arguments of the queue pair's async_ function of that name, and returns the batch: by
 * reference, or by value when it is called on a temporary.
 *
 * @code
 * peer.async_submit(rdma::batch().write(records, there).send(notice), handler);
 * @endcode
 *
 * A submitted batch may be changed, submitted again or destroyed: async_submit() has posted its
 * operations, or copied them if the send queue has no room. Like a single operation it keeps the
 * registrations of its buffers.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class batch
{
public:
  /// Adds a send (IBV_WR_SEND).
  template <const_buffer_sequence Buffers>
  batch& send(const Buffers& buffers) &
  {
    return add({.kind = detail::request_kind::send}, buffers);
  }
  /// Adds a send to a temporary.
  template <const_buffer_sequence Buffers>
  batch send(const Buffers& buffers) &&
  {
    return std::move(send(buffers));
  }

  /// Adds a send with immediate data (IBV_WR_SEND_WITH_IMM).
  template <const_buffer_sequence Buffers>
  batch& send_with_immediate(const Buffers& buffers, std::uint32_t immediate) &
  {
    return add(
      {.kind = detail::request_kind::send_with_immediate, .immediate = immediate}, buffers);
  }
  /// Adds a send with immediate data to a temporary.
  template <const_buffer_sequence Buffers>
  batch send_with_immediate(const Buffers& buffers, std::uint32_t immediate) &&
  {
    return std::move(send_with_immediate(buffers, immediate));
  }

  /// Adds a write to the peer's memory (IBV_WR_RDMA_WRITE).
  template <const_buffer_sequence Buffers>
  batch& write(const Buffers& buffers, const remote_buffer& remote) &
  {
    return add({.kind = detail::request_kind::write, .remote = remote}, buffers);
  }
  /// Adds a write to a temporary.
  template <const_buffer_sequence Buffers>
  batch write(const Buffers& buffers, const remote_buffer& remote) &&
  {
    return std::move(write(buffers, remote));
  }

  /// Adds a write with immediate data, which consumes a receive of the peer
  /// (IBV_WR_RDMA_WRITE_WITH_IMM).
  template <const_buffer_sequence Buffers>
  batch& write_with_immediate(
    const Buffers& buffers, const remote_buffer& remote, std::uint32_t immediate) &
  {
    return add({.kind = detail::request_kind::write_with_immediate,
                 .immediate = immediate,
                 .remote = remote},
      buffers);
  }
  /// Adds a write with immediate data to a temporary.
  template <const_buffer_sequence Buffers>
  batch write_with_immediate(
    const Buffers& buffers, const remote_buffer& remote, std::uint32_t immediate) &&
  {
    return std::move(write_with_immediate(buffers, remote, immediate));
  }

  /// Adds a read from the peer's memory (IBV_WR_RDMA_READ).
  template <mutable_buffer_sequence Buffers>
  batch& read(const Buffers& buffers, const remote_buffer& remote) &
  {
    return add({.kind = detail::request_kind::read, .remote = remote}, buffers);
  }
  /// Adds a read to a temporary.
  template <mutable_buffer_sequence Buffers>
  batch read(const Buffers& buffers, const remote_buffer& remote) &&
  {
    return std::move(read(buffers, remote));
  }

  /// Returns the number of operations.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Returns true if the batch has no operations. async_submit() then fails with error::bad_batch.
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /// Removes all operations and keeps the allocated memory.
  void clear() noexcept
  {
    entries_.clear();
    buffers_.clear();
  }

  /// For the library itself: one operation.
  struct entry
  {
    detail::request what;       ///< request to the device, without the buffers
    std::uint32_t first_buffer; ///< index of its first buffer in buffers()
    std::uint32_t sge_count;    ///< number of its buffers
    bool overflow;              ///< true if there were more buffers than any queue pair accepts
    bool no_data;               ///< true for rdma::no_data
  };

  /// For the library itself: returns the operations in order.
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  /// For the library itself: returns the buffers of all operations in order.
  [[nodiscard]] const std::vector<const_buffer>& buffers() const noexcept { return buffers_; }

private:
  template <const_buffer_sequence Buffers>
  batch& add(detail::request what, const Buffers& buffers)
  {
    const detail::buffer_list list(buffers);
    const auto first = static_cast<std::uint32_t>(buffers_.size());
    buffers_.insert(buffers_.end(), list.begin(), list.end());
    entries_.push_back({std::move(what), first, static_cast<std::uint32_t>(list.size()),
      list.overflow(), list.no_data()});
    return *this;
  }

  std::vector<entry> entries_;
  std::vector<const_buffer> buffers_;
};

} // namespace rdma

#endif // BOOST_RDMA_BATCH_HPP
