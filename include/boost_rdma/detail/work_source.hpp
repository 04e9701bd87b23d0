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

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_type.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>

namespace rdma::detail {

class completion_queue_impl;
class domain_impl;
class operation_list;

// Identifies a work request in its completion: ibv_wc::wr_id.
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

// Relation of the I/O object's executor to that of its completion queue.
enum class executor_relation
{
  same_executor, // a thread that runs the completion queue may call handlers directly
  same_context,  // in a strand; the completion queue keeps the context running
  elsewhere,     // only work guards of the operations keep that context running
};

// A parameter of functions that require their source's mutex to be locked.
class mutex_held
{
public:
  mutex_held(const std::lock_guard<std::mutex>&) noexcept {}
  mutex_held(const std::unique_lock<std::mutex>&) noexcept {}
};

// Posts work requests and owns their slots: a queue pair or a shared receive queue.
class work_source : public std::enable_shared_from_this<work_source>
{
public:
  // Plain buffers of up to copy_max bytes are copied.
  work_source(std::shared_ptr<completion_queue_impl> completions,
    std::shared_ptr<domain_impl> domain, std::uint32_t max_sge, std::size_t copy_max,
    executor_relation executor);
  virtual ~work_source();
  work_source(const work_source&) = delete;
  work_source& operator=(const work_source&) = delete;

  [[nodiscard]] executor_relation executor() const noexcept { return executor_; }

  // The executor of the I/O object if the relation is same_executor.
  [[nodiscard]] const boost::asio::any_io_executor& io_executor() const noexcept
  {
    return io_executor_;
  }

  [[nodiscard]] completion_queue_impl& completions() const noexcept { return *completions_; }

  // Returns true in a child of the process that made the object, which cannot use it.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  // Claims a vacant slot. Returns null if all slots that can be identified are in use. Throws
  // bad_alloc.
  operation* claim();

  // Releases the slot. The source may be destroyed by this; the caller keeps its completion queue
  // alive.
  void release(operation* op) noexcept;

  // The slot of the operation whose handler is being called. An operation of the same source that
  // the handler starts uses it, which costs no atomic operation.
  class spare_slot
  {
  public:
    // Drops what the operation holds.
    explicit spare_slot(operation* op) noexcept;
    spare_slot(const spare_slot&) = delete;
    spare_slot& operator=(const spare_slot&) = delete;
    // Releases the slot if no operation uses it. The source may be destroyed by this.
    ~spare_slot();

  private:
    friend class work_source;
    operation* op_;
    spare_slot* const outer_; // of the handler that is calling this one
  };

  // Sets if operations keep the execution context running; initially they do. Completions of
  // operations that do not are noticed only while the completion queue waits for other operations.
  void count_as_work(bool counts) noexcept;

  // Copies received data to its plain memory, before the handler is called.
  static void deliver(operation* op) noexcept;

  // Submits op->what to the device; after this call op completes exactly once. Does not throw:
  // errors, including lack of memory, are op's result. The source may be destroyed when this
  // returns.
  virtual void submit(operation* op, const buffer_list& buffers) = 0;

  // Withdraws a waiting operation, or ends a posted one if `type` includes `terminal`. Has no
  // effect if the slot has another use by now.
  void cancel(std::uint32_t index, std::uint32_t generation, boost::asio::cancellation_type type);

  // Appends the operations that end with these completions to `ended`, with their results. A
  // completion that is stale, or not the last of its batch, ends no operation.
  virtual void take(const ibv_wc* completions, std::size_t count, operation_list& ended) = 0;

  // The device reported a failure of itself, of the completion queue or, if `through` is not null,
  // of that shared receive queue. Operations end with `reason` immediately because no completions
  // follow.
  virtual void fail(
    const error_code& reason, const char* what, const work_source* through) noexcept = 0;

  // Called in a child process: outstanding operations of the parent end with error::forked. The
  // device is not accessed.
  virtual void end_in_child() noexcept;

  // The io_context is being destroyed. First stop() is called for every source, queue pairs before
  // the shared receive queues that they use: the devices release the memory. Then abandon()
  // destroys the handlers without calling them.
  virtual void stop() noexcept {}
  virtual void abandon() noexcept = 0;

  // Ends op without the device: the completion queue's executor calls its handler. The mutex may be
  // held or not.
  void finish(operation* op, const error_code& ec);

  // Makes op own references to the registrations of its buffers.
  static void retain_buffers(operation* op) noexcept;

  // Returns the wr_id of a work request of op. `last` marks the one whose completion ends op.
  [[nodiscard]] std::uint64_t work_request_id(const operation* op, bool last) const noexcept
  {
    return work_request_name{source_index_, op->index, last, op->generation()}.packed();
  }

  // Ends the posted operations.
  virtual void terminate(mutex_held held) = 0;

protected:
  using lock_type = std::unique_lock<std::mutex>;

  struct chunk;

  [[nodiscard]] operation* slot(std::uint32_t index) const noexcept;

  // Returns the operation of a work request, or null if it is not posted (any more).
  [[nodiscard]] operation* find_posted(const work_request_name& name) const noexcept
  {
    operation* op = slot(name.slot);
    const bool found = op != nullptr && op->generation() == name.generation
      && op->stage() == operation::state::posted;
    return found ? op : nullptr;
  }

  [[nodiscard]] std::uint32_t claimed() const noexcept { return ledger_.read().claimed(); }
  [[nodiscard]] bool is_work() const noexcept { return ledger_.read().is_work(); }

  // Sets if slots are claimed and released with the mutex held. This is the initial mode. It is
  // also required if drained() has work to do, the completion queue may be exchanged, or the source
  // has left it.
  void guard_slots(bool yes, mutex_held held) noexcept;

  // If no slot is claimed, leaves the completion queue as drained() decides, which may destroy the
  // source. `lock` locks its mutex.
  void leave_if_drained(std::unique_lock<std::mutex> lock) noexcept;

  // Destroys all handlers without calling them.
  void destroy_operations() noexcept;

  // Releases the spare slot of this source, if this thread is calling a handler of it.
  void release_spare() noexcept;

  // Withdraws a waiting operation.
  virtual void unlink(operation* op, mutex_held held) = 0;

  // Called when the last claimed slot was released, if slots are guarded.
  // Returns true if the source must leave its completion queue, which may destroy the source.
  virtual bool drained(mutex_held held) = 0;

  std::shared_ptr<domain_impl> domain_;
  std::shared_ptr<completion_queue_impl> completions_;
  mutable std::mutex mutex_;
  std::uint32_t source_index_ = 0;
  bool registered_ = false; // with the completion queue, which then keeps this object alive
  // Set while there are claimed operations for which nothing else keeps this object alive.
  std::shared_ptr<work_source> self_;
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
  operation* take_spare() noexcept;
  operation* claim_guarded();
  static inline void empty(operation* op) noexcept;
  static void drop(operation* op) noexcept;
  void release_empty(operation* op) noexcept;
  void release_guarded(operation* op) noexcept;
  void grow(mutex_held held);

  const process_mark process_;
  const executor_relation executor_;
  const boost::asio::any_io_executor io_executor_;
  const std::uint32_t epoch_; // the first generation of each slot
  slot_ledger ledger_;
  std::array<std::atomic<chunk*>, chunks_max> chunks_{};
  std::uint32_t chunk_count_ = 0;
};

// The executor of a source's I/O object, without a copy where the source has the same one: copying
// an any_io_executor costs several indirect calls.
template <class Executor>
class source_executor
{
public:
  // `source` is null if the I/O object was moved from.
  source_executor(const work_source* source, const Executor& executor)
    : source_(source)
  {
    if constexpr (type_erased)
      if (source_ != nullptr && source_->executor() == executor_relation::same_executor)
        return;
    executor_.emplace(executor);
  }

  [[nodiscard]] const Executor& get() const noexcept
  {
    if constexpr (type_erased)
      if (!executor_)
        return source_->io_executor();
    return *executor_;
  }

private:
  static constexpr bool type_erased = std::is_same_v<Executor, boost::asio::any_io_executor>;

  const work_source* source_;
  std::optional<Executor> executor_;
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

  void append(operation_list& other) noexcept
  {
    if (other.first_ == nullptr)
      return;
    other.first_->previous = last_;
    (last_ != nullptr ? last_->next : first_) = other.first_;
    last_ = other.last_;
    other = operation_list();
  }

  operation* pop_front() noexcept
  {
    operation* op = first_;
    if (op != nullptr)
    {
      first_ = op->next;
      (first_ != nullptr ? first_->previous : last_) = nullptr;
    }
    return op;
  }

private:
  operation* first_ = nullptr;
  operation* last_ = nullptr;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_WORK_SOURCE_HPP
