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
#include "completion/source_table.hpp"
#include "resource/domain_impl.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace rdma::detail {

class completion_service;

// An ibv_cq with its channel, the work sources that complete on it, and the chain of handlers that
// polls it.
//
// The chain runs while operations are outstanding. It is `idle`, `running` (a handler that polls is
// queued or executing, never two) or `waiting` (the queue is armed and the channel is being waited
// for).
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

  // How an I/O object's executor relates to this queue; `bare` says that it is in no strand.
  [[nodiscard]] executor_relation executor_relation_of(
    const boost::asio::any_io_executor& executor, bool bare) const;

  // Makes room for more completions; error::queue_too_deep beyond the device's limit.
  void reserve(std::uint32_t completions, error_code& ec);
  [[nodiscard]] bool can_grow() const; // whether the device resizes queues
  void unreserve(std::uint32_t completions) noexcept;

  // A source's place in wr_ids; error::queue_too_deep when all are taken.
  std::uint32_t add(std::shared_ptr<work_source> source, error_code& ec);
  // The source may be destroyed by this.
  void remove(std::uint32_t source_index) noexcept;

  // The number of sources, and others, whose operations keep the chain going.
  void work_started(std::size_t count = 1) noexcept
  {
    outstanding_.fetch_add(count, std::memory_order_seq_cst);
  }
  void work_finished(std::size_t count = 1) noexcept;

  // Work was submitted: the chain must run, or, when it only waits, may poll for a while.
  void kick();

  // op has ended without the device; its handler is called by the chain.
  void defer(operation* op);

  struct round
  {
    std::size_t handlers = 0; // called
    bool busy = false;        // another thread is at it, or a handler of this very call
    bool quiet = false; // there was nothing at all: no completion either that ends no operation
  };

  // One round of completions; their handlers are called. `in_context`: by a thread of executor().
  round poll(bool in_context);

  // Any thread, also while handlers run: this completion, if the device has it by now. The others
  // keep their order, and are left to the next poll().
  std::optional<ibv_wc> extract(std::uint64_t work_request);

  // A queue pair is about to be destroyed, and its completions with it: those of a shared receive
  // queue's receives among them are taken out before, to be found by the next poll().
  void rescue() noexcept;

  // Every source of this queue ends its operations; see work_source::fail.
  void fail_all(const error_code& reason, const char* what, const work_source* through) noexcept;
  void on_device_event(const async_event& news) noexcept override;

  // This process is a child of the one that made it.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }
  // There, all that was outstanding ends with error::forked.
  void end_in_child() noexcept;

  // Where a new source's generations start, so that a late completion of an earlier one is not
  // taken for its.
  [[nodiscard]] std::uint32_t next_epoch() noexcept
  {
    return epoch_.fetch_add(1u << 20, std::memory_order_relaxed);
  }

  // The io_context is going: no handler is called any more.
  void shutdown() noexcept;

private:
  enum class chain_state
  {
    idle,
    running,
    waiting,
  };

  // Of the one thread that polls.
  enum class polling_state : std::uint8_t
  {
    nobody,
    on_device,  // takes completions from the device, without native_mutex_
    in_sources, // uses sources that find() found; or takes completions with native_mutex_
    in_handlers,
  };

  class rescuing;

  void create(std::uint32_t depth);
  void destroy() noexcept;
  void wake() noexcept;
  void start_chain();
  void run_chain();
  bool poll_and_arm();
  bool go_idle();
  bool go_waiting();
  void start_wait();
  void on_channel_ready(const error_code& ec);
  void drain_channel();
  bool collect();
  int take_completions(ibv_wc* to, int count);
  int take_rescued(ibv_wc* to, int count);
  void note_rescued() noexcept;
  void leave_sources() noexcept;
  void refill();
  void destroy_ended() noexcept;
  bool must_spin(clock::time_point now) const;
  [[nodiscard]] std::vector<std::shared_ptr<work_source>> sources() const;

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
  handler_slot chain_slot_; // the chain's handler, when it is queued
  handler_slot wait_slot_;  // the wait for the channel
  std::atomic<clock::time_point> last_activity_{};

  std::mutex native_mutex_; // the order of completions: rescued_ first, then native_; innermost
  std::vector<ibv_wc> rescued_;
  std::size_t rescued_taken_ = 0;
  bool rescue_counted_ = false;      // rescued_ is, in rescues_
  std::atomic<unsigned> rescues_{0}; // reasons to take completions with the mutex held
  std::atomic<std::uint32_t> epoch_{0};

  std::atomic<polling_state> polling_{polling_state::nobody}; // guards ready_
  operation_list ready_;
  std::mutex deferred_mutex_;
  operation_list deferred_;
  std::atomic<bool> has_deferred_{false};

  mutable std::mutex
    sources_mutex_; // sources_, removed_, reserved_, depth_; taken after a source's own
  source_table sources_;
  std::vector<std::shared_ptr<work_source>> removed_; // while the thread that polls might use them
  std::atomic<bool> has_removed_{false};
  std::uint32_t reserved_ = 0;
  std::uint32_t depth_ = 0;
  bool failed_ = false;  // the device gave it up; under sources_mutex_
  bool watched_ = false; // the device's events are

  completion_service* service_ = nullptr;
  friend class completion_service;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_COMPLETION_QUEUE_IMPL_HPP
