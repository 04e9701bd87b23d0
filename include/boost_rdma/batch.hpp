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
#include <vector>

namespace rdma {

/// Operations to submit together: one doorbell, one completion (basic_queue_pair::async_submit).
/**
 * They are carried out in order. Only the last one is signalled (IBV_SEND_SIGNALED,
 * ibv_post_send(3)); when one fails, the batch completes with its error and the queue pair is in
 * the error state, as after any failed operation. What is wrong with an operation before that is
 * found when the batch is submitted, not when it is added.
 *
 * Its buffers are registered ones: plain memory is refused with error::not_registered. Each
 * function takes what the queue pair's async_ function of that name takes, and returns *this.
 *
 * The batch may be submitted many times; it must neither change nor go while it is outstanding.
 * Like a single operation, a submitted batch keeps the registrations of its buffers.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class batch
{
public:
  /// Adds a send (IBV_WR_SEND).
  template <const_buffer_sequence Buffers>
  batch& send(const Buffers& buffers)
  {
    return add({.kind = detail::request_kind::send}, buffers);
  }

  /// Adds a send with immediate data (IBV_WR_SEND_WITH_IMM).
  template <const_buffer_sequence Buffers>
  batch& send_with_immediate(const Buffers& buffers, std::uint32_t immediate)
  {
    return add(
      {.kind = detail::request_kind::send_with_immediate, .immediate = immediate}, buffers);
  }

  /// Adds a write to the peer's memory (IBV_WR_RDMA_WRITE).
  template <const_buffer_sequence Buffers>
  batch& write(const Buffers& buffers, const remote_buffer& remote)
  {
    return add({.kind = detail::request_kind::write, .remote = remote}, buffers);
  }

  /// Adds a write that also consumes a receive of the peer's (IBV_WR_RDMA_WRITE_WITH_IMM).
  template <const_buffer_sequence Buffers>
  batch& write_with_immediate(
    const Buffers& buffers, const remote_buffer& remote, std::uint32_t immediate)
  {
    return add({.kind = detail::request_kind::write_with_immediate,
                 .immediate = immediate,
                 .remote = remote},
      buffers);
  }

  /// Adds a read from the peer's memory (IBV_WR_RDMA_READ).
  template <mutable_buffer_sequence Buffers>
  batch& read(const Buffers& buffers, const remote_buffer& remote)
  {
    return add({.kind = detail::request_kind::read, .remote = remote}, buffers);
  }

  /// The number of operations.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Whether there are none; async_submit() refuses such a batch with error::bad_batch.
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /// Forgets all operations and keeps the memory for the next ones.
  void clear() noexcept
  {
    entries_.clear();
    buffers_.clear();
  }

  /// One operation; for the library itself.
  struct entry
  {
    detail::request what;       ///< what is asked of the device, beside the buffers
    std::uint32_t first_buffer; ///< the place of its first buffer in pieces()
    std::uint32_t sge_count;    ///< how many are its own
    bool overflow;              ///< the sequence had more buffers than any queue pair takes
    bool no_data;               ///< rdma::no_data was given
  };

  /// The operations in order; for the library itself.
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  /// The buffers of all operations in order; for the library itself.
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
