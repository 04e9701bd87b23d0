//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_COMPLETION_QUEUE_IMPL_HPP
#define BOOST_RDMA_LIB_COMPLETION_COMPLETION_QUEUE_IMPL_HPP

#include "boost_rdma/completion_queue.hpp"
#include "boost_rdma/detail/work_source.hpp"
#include "completion/handler_slot.hpp"
#include "completion/processor_sharing.hpp"
#include "completion/source_table.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/intrusive/list.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace rdma::detail {

class completion_service;

// A thread that sleeps until the completion queue changes, or another thread writes to `wakes`.
struct queue_sleeper : boost::intrusive::list_base_hook<>
{
  int wakes = -1; // an eventfd
};

// An ibv_cq with its channel, its work sources, and the chain of handlers that polls it.
//
// The chain runs while operations are outstanding. It is `idle`, `running` (one handler that polls
// is queued or executing) or `waiting` (the queue is armed, and a wait for the channel is pending).
class completion_queue_impl final
  : public std::enable_shared_from_this<completion_queue_impl>
  , public device_listener
{
public:
  using clock = std::chrono::steady_clock;

  // Throws system_error.
  completion_queue_impl(boost::asio::any_io_executor executor, std::shared_ptr<device_set> devices,
    std::size_t device_index, const completion_queue_options& options);
  ~completion_queue_impl();
  completion_queue_impl(const completion_queue_impl&) = delete;
  completion_queue_impl& operator=(const completion_queue_impl&) = delete;

  [[nodiscard]] const boost::asio::any_io_executor& executor() const noexcept { return executor_; }
  [[nodiscard]] device_impl& device() const noexcept { return *devices_->devices[device_index_]; }
  [[nodiscard]] ibv_cq* native() const noexcept { return native_; }
  [[nodiscard]] completion_mode mode() const noexcept
  {
    return mode_.load(std::memory_order_relaxed);
  }
  void mode(completion_mode mode) noexcept;

  // Returns the relation of an I/O object's executor to this queue. `bare` is true if it is not in
  // a strand.
  [[nodiscard]] executor_relation executor_relation_of(
    const boost::asio::any_io_executor& executor, bool bare) const;

  // Reserves entries for completions. Sets error::queue_too_deep beyond the device's limit.
  void reserve(std::uint32_t completions, error_code& ec);
  [[nodiscard]] bool can_grow() const; // the device resizes queues
  void unreserve(std::uint32_t completions) noexcept;

  // Returns the source's index in wr_ids. Sets error::queue_too_deep if all are in use.
  std::uint32_t add(std::shared_ptr<work_source> source, error_code& ec);
  // May destroy the source.
  void remove(std::uint32_t source_index) noexcept;

  // Counts sources, and other objects, with operations that keep the chain running.
  void work_started(std::size_t count = 1) noexcept
  {
    outstanding_.fetch_add(count, std::memory_order_seq_cst);
  }
  void work_finished(std::size_t count = 1) noexcept;

  // Work was submitted: the chain must run. If it waits for the channel, it may poll for a while.
  void kick();

  // op has ended without the device. The chain calls its handler.
  void defer(operation* op);
  // The same for a handler of the library in poll(), which calls the operation's handler next.
  void call_next(operation* op) noexcept { ready_.push_back(op); }

  struct round
  {
    std::size_t handlers = 0; // called
    bool busy = false;        // another thread polls, or a handler of this call does
    bool quiet = false;       // there was no completion, not even one that ends no operation
  };

  // Call it before there are operations with handlers that are called at once.
  void allow_at_once() noexcept { has_at_once_.store(true, std::memory_order_relaxed); }

  // Polls once and calls the handlers. `in_context` is true on a thread of executor().
  round poll(bool in_context);

  // For a thread of the program that waits in a synchronous function (blocked_thread). poll_here()
  // calls the handlers of the library only, also while another thread, or a handler that is waiting
  // in this one, calls others.
  round poll_here();
  // Before sleeping on channel_descriptor(). Returns what poll_here() returned after the arming.
  round arm_here();
  [[nodiscard]] int channel_descriptor() const; // -1 in the mode manual
  // Returns true if a thread still polls that has found nothing for so long.
  [[nodiscard]] bool must_spin(clock::duration inactive) const;
  // Lets a thread run that polls; `attempt` counts from 0.
  static void give_way(unsigned attempt) noexcept;
  // Between these two calls, other threads wake it that have called handlers of the library.
  void add_sleeper(queue_sleeper& sleeper) noexcept;
  void remove_sleeper(queue_sleeper& sleeper) noexcept;
  void stop_sleeping(bool was_quiet) noexcept; // after arm_here(), with its result
  void wake_sleepers() noexcept;

  // In the mode external, before sleeping on these descriptors; see completion_queue::arm().
  bool arm();
  [[nodiscard]] std::array<int, 2> sleep_descriptors() const;

  // Returns this completion if the device has it. The others keep their order until the next
  // poll(). May be called by any thread, also while handlers run.
  std::optional<ibv_wc> extract(std::uint64_t work_request);

  // For take() of the sources, called by the thread that polls.
  [[nodiscard]] completion_counters& counters() noexcept { return counters_; }

  // Call before a queue pair is destroyed, which discards its completions. Takes all completions
  // out for the next poll(), because some belong to receives of a shared receive queue.
  void rescue() noexcept;

  // Ends the operations of all sources; see work_source::fail().
  void fail_all(const error_code& reason, const char* what, const work_source* through) noexcept;
  void on_device_event(const async_event& event) noexcept override;

  // Returns true in a child of the process that created the queue.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }
  // Ends the outstanding operations in the child with error::forked.
  void end_in_child() noexcept;

  // Returns the first generation of a new source's slots. A late completion of an earlier source
  // with the same index is recognised by it.
  [[nodiscard]] std::uint32_t next_epoch() noexcept
  {
    return epoch_.fetch_add(1u << 20, std::memory_order_relaxed);
  }

  // The io_context is being destroyed: no handler is called any more.
  void shutdown() noexcept;

private:
  enum class chain_state
  {
    idle,
    running,
    waiting,
  };

  // State of the one thread that polls. While it calls handlers, others may take completions.
  enum class polling_state : std::uint8_t
  {
    nobody,
    on_device,  // takes completions from the device, without native_mutex_
    in_sources, // uses sources from find(), or takes completions with native_mutex_
    in_handlers,
  };

  class rescuing;

  void create(std::uint32_t depth);
  void destroy() noexcept;
  void wake() noexcept;
  [[nodiscard]] bool has_chain() const noexcept
  {
    return mode() != completion_mode::manual && mode() != completion_mode::external;
  }
  void end_sleep() noexcept;
  void rest(const std::lock_guard<std::mutex>& chain_lock) noexcept;
  void start_chain();
  void run_chain();
  bool poll_in_turn();
  bool poll_and_arm();
  bool arm_channel();
  bool go_idle();
  bool go_waiting();
  void start_wait();
  void on_channel_ready(const error_code& ec);
  bool drain_channel();
  bool collect(operation_list& into, polling_state quiet, polling_state next);
  static std::size_t call_at_once(operation_list& from, bool in_poll);
  void take_deferred_at_once(operation_list& to);
  int take_completions(ibv_wc* to, int count);
  int take_rescued(ibv_wc* to, int count);
  void note_rescued(const std::lock_guard<std::mutex>& native_lock) noexcept;
  void leave_sources(polling_state next) noexcept;
  void leave_handlers() noexcept;
  void refill();
  void destroy_ended() noexcept;
  // Returns the first source whose index is not below this one, and sets it to the next; or null.
  [[nodiscard]] std::shared_ptr<work_source> next_source(std::uint32_t& index) const noexcept;

  boost::asio::any_io_executor executor_;
  std::shared_ptr<device_set> devices_;
  const std::size_t device_index_;
  std::atomic<completion_mode> mode_;
  const clock::duration spin_time_;
  const clock::duration spin_slice_;

  const process_mark process_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* native_ = nullptr;
  std::unique_ptr<boost::asio::posix::stream_descriptor> descriptor_;

  std::atomic<std::size_t> outstanding_{0};
  std::atomic<chain_state> state_{chain_state::idle};
  std::atomic<bool> shut_down_{false};
  std::mutex chain_mutex_; // state_ on its slow paths, descriptor_, wait_pending_
  bool wait_pending_ = false;
  std::atomic<bool> armed_{false}; // since the last event
  int sleep_end_ = -1; // an eventfd: an operation has ended without the device, mode external
  std::atomic<bool> sleeps_{false}; // a thread may sleep, or will
  handler_slot chain_slot_;         // the chain's handler, when it is queued
  handler_slot wait_slot_;          // the wait for the channel
  std::atomic<clock::time_point> last_activity_{};
  processor_sharing sharing_;  // for the chain
  clock::time_point turn_end_; // of the chain
  clock::duration slice_ = spin_slice_;

  std::mutex native_mutex_; // the order of completions: rescued_ first, then native_; innermost
  std::vector<ibv_wc> rescued_;
  std::size_t rescued_taken_ = 0;
  bool rescue_counted_ = false;      // rescues_ includes rescued_
  std::atomic<unsigned> rescues_{0}; // reasons to take completions with the mutex held
  std::atomic<std::uint32_t> epoch_{0};

  std::atomic<polling_state> polling_{polling_state::nobody}; // guards ready_
  operation_list ready_;
  std::atomic<bool> has_at_once_{false}; // otherwise no list of operations need be searched
  std::mutex sleepers_mutex_;            // innermost
  boost::intrusive::list<queue_sleeper> sleepers_;
  std::atomic<std::size_t> sleeper_count_{0};
  std::mutex deferred_mutex_;
  operation_list deferred_;
  std::atomic<bool> has_deferred_{false};

  mutable std::mutex
    sources_mutex_; // sources_, removed_, reserved_, depth_; taken after a source's own
  source_table sources_;
  std::vector<std::shared_ptr<work_source>> removed_; // the polling thread may still use them
  std::atomic<bool> has_removed_{false};
  std::uint32_t reserved_ = 0;
  std::uint32_t depth_ = 0;
  bool failed_ = false;  // the device reported an error; under sources_mutex_
  bool watched_ = false; // receives the device's events

  completion_counters counters_;

  completion_service* service_ = nullptr;
  std::shared_ptr<completion_queue_impl> next_; // of the service's queues during its shutdown
  friend class completion_service;
};

// Ends what work_started() has counted.
struct counted_work
{
  completion_queue_impl& completions;
  ~counted_work() { completions.work_finished(); }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_COMPLETION_QUEUE_IMPL_HPP
