//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//
#ifndef BOOST_RDMA_LIB_COMPLETION_POSTING_HPP
#define BOOST_RDMA_LIB_COMPLETION_POSTING_HPP

#include "boost_rdma/context.hpp"
#include "boost_rdma/detail/work_source.hpp"
#include "boost_rdma/registered_buffer.hpp"
#include "completion/batch_requests.hpp"
#include "completion/request_kinds.hpp"
#include "verbs/api.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdma::detail {

// The send and the receive queue of a queue pair. Posts operations in the order of their
// submission, and keeps those for which the device has no room. The owner's mutex is locked in all
// functions but inline_max().
class posting
{
public:
  posting(work_source& owner, std::uint32_t send_depth, std::uint32_t receive_depth);

  // Starts with another queue pair of the device, which has no work requests. inline_max limits the
  // bytes that are posted inline.
  void open(ibv_qp* native, std::size_t device_index, std::uint32_t inline_max) noexcept;
  // No more work requests can be posted.
  void close() noexcept { native_ = nullptr; }

  [[nodiscard]] ibv_qp* native() const noexcept { return native_; }
  [[nodiscard]] std::uint32_t posted(request_kind kind) const noexcept
  {
    return (kind == request_kind::receive ? receives_ : sends_).posted;
  }
  // Changes with each completion of a send.
  [[nodiscard]] std::uint64_t sends_completed() const noexcept { return sends_completed_; }
  [[nodiscard]] bool sends_idle() const noexcept
  {
    return sends_.posted == 0 && partial_ == nullptr && sends_.waiting.empty();
  }
  // Bytes that are posted inline. Changes only before the queue pair is connected.
  [[nodiscard]] std::size_t inline_max(request_kind kind) const noexcept
  {
    return may_go_inline(kind) ? inline_max_.load(std::memory_order_relaxed) : 0;
  }
  [[nodiscard]] bool goes_inline(const operation* op) const noexcept
  {
    return may_go_inline(op->what.kind) && op->bytes <= inline_max_.load(std::memory_order_relaxed);
  }

  // Takes all memory that posting the operation needs. Posting does not throw. May throw bad_alloc.
  void prepare_batch(operation* op);
  void prepare_atomics(const rdma::context& context, error_code& ec);

  // Posts op, or lets it wait for its turn.
  void start(operation* op, mutex_held held);
  void wait(operation* op);
  void unlink(operation* op) { queue_of(op->what.kind).waiting.erase(op); }

  // Posts the operations of that kind that wait, as far as there is room.
  void post_waiting(request_kind kind, mutex_held held);

  // Accounts for a completion of one of op's work requests. `last` marks the last one of a part.
  void completed(operation* op, bool last) noexcept;
  // The rest of a batch that is posted in part is not posted any more.
  void drop_rest() noexcept { partial_ = nullptr; }
  void drop_rest(const operation* op) noexcept
  {
    if (partial_ == op)
      partial_ = nullptr;
  }
  // Returns true if the device has nothing of op, and no part of it waits.
  [[nodiscard]] bool is_over(const operation* op) const noexcept
  {
    return op->credits == 0 && partial_ != op;
  }
  [[nodiscard]] std::uint64_t atomic_result(const operation* op) const noexcept
  {
    return reinterpret_cast<const std::uint64_t*>(atomic_results_.data())[op->atomic_result];
  }
  void release_atomic_result(const operation* op)
  {
    free_atomic_results_.push_back(op->atomic_result);
  }

  // Ends the operations that wait behind posted ones, as the device would: completions of messages
  // that have arrived precede those of receives without a message. Call again after each
  // completion.
  void withdraw_in_turn(const error_code& reason);
  void withdraw_sends(const error_code& reason) { withdraw(sends_.waiting, reason); }
  void withdraw_all(const error_code& reason);

  // The queue pair continues on another device: replaces the keys of the waiting receives.
  void replace_keys(std::size_t device_index) noexcept;

private:
  struct queue
  {
    std::uint32_t depth;
    std::uint32_t posted = 0; // work requests
    operation_list waiting{};
  };

  queue& queue_of(request_kind kind) noexcept
  {
    return kind == request_kind::receive ? receives_ : sends_;
  }
  void withdraw(operation_list& list, const error_code& reason);
  void keep_requests(operation* op);
  void describe_batch(const operation* op, batch_requests& into) const;
  bool post(operation* op, int& error, mutex_held held);
  int post_receive(operation* op);
  int post_single(operation* op);
  void describe_atomic(ibv_send_wr& wr, operation* op, ibv_sge& result) const;
  int post_batch(operation* op, std::uint32_t count, mutex_held held);
  bool post_rest(mutex_held held);

  work_source& owner_;
  ibv_qp* native_ = nullptr;
  std::size_t device_index_ = 0;
  std::atomic<std::uint32_t> inline_max_{0};
  queue sends_;
  queue receives_;
  std::uint64_t sends_completed_ = 0; // operations or parts of them
  operation* partial_ = nullptr; // a batch whose next part waits for room, before sends_.waiting

  // Result buffers of atomics: 8 bytes for each work request of the send queue.
  registered_buffer atomic_results_;
  std::vector<std::uint16_t> free_atomic_results_;

  batch_requests scratch_; // of a batch that is posted at once
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_POSTING_HPP
