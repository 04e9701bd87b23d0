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

// The send and the receive queue of a queue pair, or a shared receive queue. Posts operations in
// the order of their submission. Operations for which the device has no room wait here. The owner's
// mutex is locked in all functions except inline_max().
class posting
{
public:
  posting(work_source& owner, std::uint32_t send_depth, std::uint32_t receive_depth);

  // Posts to `native` from now on, a new queue pair without work requests. inline_max limits the
  // bytes of a request that is posted inline.
  void open(
    ibv_qp* native, std::size_t device_index, std::uint32_t inline_max, bool signals_each) noexcept;
  void open(ibv_srq* shared) noexcept { shared_ = shared; }
  // Posts nothing from now on.
  void close() noexcept
  {
    native_ = nullptr;
    shared_ = nullptr;
  }

  [[nodiscard]] ibv_qp* native() const noexcept { return native_; }
  [[nodiscard]] ibv_srq* shared() const noexcept { return shared_; }
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
  // Returns the largest number of bytes that is posted inline. It changes only before the queue
  // pair is connected.
  [[nodiscard]] std::size_t inline_max(request_kind kind) const noexcept
  {
    return may_go_inline(kind) ? inline_max_.load(std::memory_order_relaxed) : 0;
  }
  [[nodiscard]] bool goes_inline(const operation* op) const noexcept
  {
    return may_go_inline(op->what.kind) && op->bytes <= inline_max_.load(std::memory_order_relaxed);
  }

  // Both allocate what posting such an operation needs, so that posting does not throw. May throw
  // bad_alloc.
  void prepare_batch(operation* op);
  void prepare_atomics(const rdma::context& context, error_code& ec);

  // Posts op. If earlier operations wait or there is no room, op waits.
  void start(operation* op, mutex_held held)
  {
    int error = 0;
    if (!queue_of(op->what.kind).waiting.empty() || !post(op, error, held))
      defer(op, error);
    else if (partial_ == op)
      post_rest(held);
  }
  // Adds op to the waiting operations.
  void wait(operation* op);
  // Removes op from the waiting operations.
  void unlink(operation* op) { queue_of(op->what.kind).waiting.erase(op); }

  // Posts the waiting operations of the queue for this kind, as far as there is room.
  void post_waiting(request_kind kind, mutex_held held)
  {
    if (partial_ != nullptr || !queue_of(kind).waiting.empty()) [[unlikely]]
      post_all_waiting(kind, held);
  }

  // Accounts for a completion of one of op's work requests. `last`: it is the last one of op, or of
  // the part of a batch that was posted at once.
  void completed(operation* op, bool last) noexcept;
  // Does not post the rest of a batch of which a part has been posted.
  void drop_rest() noexcept { partial_ = nullptr; }
  void drop_rest(const operation* op) noexcept
  {
    if (partial_ == op)
      partial_ = nullptr;
  }
  // Returns true if no work request of op is posted, and no part of it waits.
  [[nodiscard]] bool is_over(const operation* op) const noexcept
  {
    return op->credits == 0 && partial_ != op;
  }
  [[nodiscard]] std::uint64_t atomic_result(const operation* op) const noexcept
  {
    return reinterpret_cast<const std::uint64_t*>(atomic_results_.data())[op->atomic_result];
  }
  // is_over(op): the device has nothing of op any more.
  void finished(operation* op) noexcept
  {
    if (is_atomic(op->what.kind))
      free_atomic_results_[free_atomic_count_++] = op->atomic_result;
    op->stage(operation::state::done);
  }

  // Ends the waiting operations of each queue that has no posted ones. Call again after each
  // completion: operations then end in the order of submission, so that receives of messages that
  // have arrived end before receives without a message.
  void withdraw_in_turn(const error_code& reason);
  // Both end the waiting operations at once.
  void withdraw_sends(const error_code& reason) { withdraw(sends_.waiting, reason); }
  void withdraw_all(const error_code& reason);

  // Replaces the keys of the waiting receives, because the queue pair moves to this device.
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
  void defer(operation* op, int error);
  void keep_requests(operation* op);
  void describe_batch(const operation* op, batch_requests& into) const;
  bool post(operation* op, int& error, mutex_held held);
  int post_receive(operation* op);
  inline int post_single(operation* op);
  void describe_atomic(ibv_send_wr& wr, operation* op, ibv_sge& result) const;
  int post_batch(operation* op, std::uint32_t count, mutex_held held);
  bool post_rest(mutex_held held);
  void post_all_waiting(request_kind kind, mutex_held held);

  work_source& owner_;
  ibv_qp* native_ = nullptr;
  ibv_srq* shared_ = nullptr; // of an owner without a queue pair
  std::size_t device_index_ = 0;
  std::atomic<std::uint32_t> inline_max_{0};
  bool signals_each_ = false; // device_traits::signals_each
  queue sends_;
  queue receives_;
  std::uint64_t sends_completed_ = 0; // completions
  operation* partial_ = nullptr; // a batch whose next part waits for room, before sends_.waiting

  // Result buffers of atomics: 8 bytes for each work request of the send queue.
  registered_buffer atomic_results_;
  std::vector<std::uint16_t> free_atomic_results_; // the first free_atomic_count_ elements
  std::size_t free_atomic_count_ = 0;

  ibv_send_wr single_{};   // of each operation with one work request; cleared only here
  batch_requests scratch_; // of a batch that is posted as a whole, during the call
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_POSTING_HPP
