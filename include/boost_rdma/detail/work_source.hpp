//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_WORK_SOURCE_HPP
#define BOOST_RDMA_DETAIL_WORK_SOURCE_HPP

#include <boost_rdma/detail/operation.hpp>
#include <boost_rdma/detail/process_mark.hpp>
#include <boost_rdma/detail/slot_ledger.hpp>

#include <boost/asio/cancellation_type.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rdma::detail {

class completion_queue_impl;
class domain_impl;
class operation_list;
class user_buffers;

// What a work request is known by when it completes: ibv_wc::wr_id.
// source index (16) | slot index (15) | last of its operation (1) | generation (32)
struct work_request_name
{
  static constexpr std::uint32_t slots_max = 1u << 15;

  std::uint32_t source;
  std::uint32_t slot;
  bool last; // its completion ends the operation
  std::uint32_t generation;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept
  {
    return (std::uint64_t{source} << 48) | (std::uint64_t{slot} << 33) | (std::uint64_t{last} << 32)
      | generation;
  }
  [[nodiscard]] static constexpr std::uint32_t source_of(std::uint64_t id) noexcept
  {
    return static_cast<std::uint32_t>(id >> 48);
  }
  [[nodiscard]] static constexpr work_request_name of(std::uint64_t id) noexcept
  {
    return {source_of(id), static_cast<std::uint32_t>(id >> 33) & (slots_max - 1),
      ((id >> 32) & 1) != 0, static_cast<std::uint32_t>(id)};
  }
};

// Where the I/O object's executor runs handlers, seen from the completion queue that it uses.
enum class executor_relation
{
  same_executor, // handlers may be called directly by a thread that runs the completion queue
  same_context,  // in a strand; the completion queue keeps the context running
  elsewhere,     // nobody keeps that context running but the operations themselves
};

// What posts work requests and owns their slots: a queue pair, or a shared receive queue.
class work_source : public std::enable_shared_from_this<work_source>
{
public:
  // Plain pieces of up to copy_max bytes are copied.
  work_source(std::shared_ptr<completion_queue_impl> completions,
    std::shared_ptr<domain_impl> domain, std::uint32_t max_sge, std::size_t copy_max,
    executor_relation executor);
  virtual ~work_source();
  work_source(const work_source&) = delete;
  work_source& operator=(const work_source&) = delete;

  [[nodiscard]] executor_relation executor() const noexcept { return executor_; }
  [[nodiscard]] completion_queue_impl& completions() const noexcept { return *completions_; }

  // This process is a child of the one that made it: nothing here is of any use.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  // A vacant slot, now claimed; null when all slots that can be named are in use. Throws bad_alloc.
  operation* claim();

  // Gives the slot back. The source may be gone afterwards; the caller keeps its completion queue.
  void release(operation* op) noexcept;

  // Whether its operations keep the execution context running, as they do from the beginning. Those
  // that do not are noticed when others on the same completion queue are waited for.
  void count_as_work(bool counts) noexcept;

  // Copies what has arrived to the plain memory that it is for, before the handler hears of it.
  static void deliver(operation* op) noexcept;

  // Asks the device for what op->what says; from here on op completes exactly once. Does not throw:
  // what is found wrong, want of memory too, is op's outcome. The source may be gone when this
  // returns.
  virtual void submit(operation* op, const buffer_list& buffers) = 0;

  // As far as `type` permits: a waiting operation is withdrawn, a posted one ended by `terminal`.
  // Does nothing when the slot is used otherwise by now.
  void cancel(std::uint32_t index, std::uint32_t generation, boost::asio::cancellation_type type);

  // Appends the operations that these completions of its work requests end, with their outcome
  // filled in. A completion that is stale, or not the last of its batch, ends none.
  virtual void take(const ibv_wc* completions, std::size_t count, operation_list& ended) = 0;

  // The device gave up the completion queue, or itself, or, where `through` is given, that shared
  // receive queue: operations end with `reason` at once, as no completion will come.
  virtual void fail(
    const error_code& reason, const char* what, const work_source* through) noexcept = 0;

  // In a child process: what its parent had outstanding ends with error::forked. The device is not
  // touched.
  virtual void end_in_child() noexcept;

  // The io_context is going: first every source's device lets go of its memory (queue pairs before
  // the shared receive queues that they use), then handlers are destroyed uncalled.
  virtual void stop() noexcept {}
  virtual void abandon() noexcept = 0;

protected:
  using lock_type = std::unique_lock<std::mutex>;

  struct chunk;

  // Ends op without the device: its handler is called from the completion queue's executor.
  // Called with the mutex held or not.
  void finish(operation* op, const error_code& ec);

  // Checks the buffers and stores them in op with their keys. The mutex is held. retain_buffers()
  // is to follow while the caller still has them, unless the device is done with them by then.
  bool adopt(operation* op, const user_buffers& buffers, std::size_t device_index, error_code& ec);

  static void retain_buffers(operation* op) noexcept;

  // Lets go of the buffers.
  static void drop_buffers(operation* op) noexcept;

  // wr_id of a work request of op; `last` marks the one whose completion ends it.
  [[nodiscard]] std::uint64_t work_request_id(const operation* op, bool last) const noexcept;

  [[nodiscard]] operation* slot(std::uint32_t index) const noexcept;

  [[nodiscard]] std::uint32_t claimed() const noexcept { return ledger_.read().claimed(); }
  [[nodiscard]] bool is_work() const noexcept { return ledger_.read().is_work(); }

  // Whether slots are claimed and released with the mutex held. So it is from the beginning, and
  // wherever drained() has something to do, the completion queue may be exchanged, or the source
  // has left it. The mutex is held.
  void guard_slots(bool yes) noexcept;

  // Destroys all handlers uncalled.
  void destroy_operations() noexcept;

  // A waiting operation is being withdrawn, or a posted one ended; the mutex is held.
  virtual void unlink(operation* op) = 0;
  virtual void terminate() = 0;

  // The last claimed slot was released, where slots are guarded; the mutex is held. Returns true
  // when the source is to leave its completion queue, which then may be the end of it.
  virtual bool drained() = 0;

  std::shared_ptr<domain_impl> domain_;
  std::shared_ptr<completion_queue_impl> completions_;
  mutable std::mutex mutex_;
  std::uint32_t source_index_ = 0;
  bool registered_ = false; // with the completion queue, which then keeps this alive
  std::shared_ptr<work_source>
    self_; // while operations are claimed that nothing else keeps this alive for
  const std::uint32_t max_sge_;
  const std::size_t copy_max_;

private:
  static constexpr std::uint32_t chunks_max = 15; // of 2, 2, 4, 8 and so on slots

  enum class slot_found : std::uint8_t
  {
    yes,
    none_vacant,
    guarded,
  };

  slot_found pop_vacant(operation*& op, bool holds_mutex) noexcept;
  operation* claim_guarded();
  void release_guarded(operation* op) noexcept;
  void grow();

  const process_mark process_;
  const executor_relation executor_;
  const std::uint32_t epoch_; // the first generation of each slot
  slot_ledger ledger_;
  std::array<std::atomic<chunk*>, chunks_max> chunks_{};
  std::uint32_t chunk_count_ = 0;
};

// Operations in order, linked through next and previous.
class operation_list
{
public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] operation* front() const noexcept { return first_; }

  void push_back(operation* op) noexcept
  {
    op->next = nullptr;
    op->previous = last_;
    (last_ != nullptr ? last_->next : first_) = op;
    last_ = op;
  }

  void erase(operation* op) noexcept
  {
    (op->previous != nullptr ? op->previous->next : first_) = op->next;
    (op->next != nullptr ? op->next->previous : last_) = op->previous;
    op->next = op->previous = nullptr;
  }

  operation* pop_front() noexcept
  {
    operation* op = first_;
    if (op != nullptr)
      erase(op);
    return op;
  }

private:
  operation* first_ = nullptr;
  operation* last_ = nullptr;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_WORK_SOURCE_HPP
