//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_COMPLETION_QUEUE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_COMPLETION_QUEUE_HPP

#include "verbs/software/objects/events.hpp"
#include "verbs/software/objects/extension.hpp"
#include "verbs/software/short_lock.hpp"
#include "verbs/software/wire/socket.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rdma::software {

struct completion_queue;
struct queue_pair_base;

/// A completion channel. Its descriptor is an eventfd that is readable while there is an event.
/**
 * The engine's thread produces the events of programs that watch this descriptor. A thread in
 * get_cq_event() waits for the device's connections as well, so an arriving message wakes it
 * without the engine's thread, and it makes progress itself. So does this library, by
 * wait_descriptor().
 */
struct completion_channel : ibv_comp_channel
{
  wire::descriptor signal; ///< ibv_comp_channel::fd
  wire::descriptor set;    ///< epoll: `signal` and the device's connections; see wait_descriptor()
  std::mutex mutex;
  std::condition_variable acknowledged;
  completion_queue* first = nullptr; ///< the queues with an event, each once
  completion_queue* last = nullptr;

  std::atomic<bool> on_sockets{false}; ///< there is a `set`
  std::atomic<bool> found{false};      ///< see found_work()
  bool raised = false;                 ///< `signal` is readable
  std::atomic<bool> some{false};       ///< a hint: there is a first one

  void raise() noexcept;
  void lower() noexcept;
  void notify(completion_queue& queue) noexcept;
  completion_queue* take() noexcept;
  /// Returns the descriptor to wait for before get_cq_event(): `set`, which the first call makes,
  /// or `signal`.
  int wait_descriptor() noexcept;
  void watch_sockets() noexcept;
};

struct completion_queue : extensible_completion_queue
{
  /// A completion, and the send queue slots that are free once it has been polled.
  struct entry
  {
    ibv_wc wc;
    queue_pair_base* sender;
    std::uint64_t next;
  };

  /// Adds a completion. Returns false when there is no room, which breaks the queue (IBA 10.8.3.1).
  /** `carrier`: the progress target that brings more of this queue pair. */
  bool push(const ibv_wc& wc, std::uint32_t carrier, queue_pair_base* owner, bool sent,
    std::uint64_t next, bool solicited);

  /// Removes the completions of a queue pair, on reset or destruction (IBA 10.3.1).
  void clean(const queue_pair_base& owner) noexcept;

  /// Takes completions. Makes progress first if there is none.
  int poll(int count, ibv_wc* to, std::int64_t* stamp = nullptr);
  /// Takes completions without making progress. `stamp`: the time of the first one, if the queue
  /// has times.
  int take(int count, ibv_wc* to, std::int64_t* stamp) noexcept;
  int arm(bool solicited_only);
  void disarm() noexcept;
  void rest() noexcept;

  int resize(std::uint32_t depth);

  short_lock guard;
  std::unique_ptr<entry[]> entries;
  std::unique_ptr<std::int64_t[]>
    stamps; ///< of the entries, by the monotonic clock; where asked for
  std::size_t depth = 0;
  std::size_t head = 0;
  std::atomic<std::size_t> held{0}; ///< written under the mutex
  // The number of held completions up to the last one that no event has reported. Guarded.
  std::size_t unreported = 0;
  std::size_t unreported_solicited = 0; ///< of the solicited ones
  enum class arming
  {
    off,
    solicited,
    any,
  };
  std::atomic<arming> armed{arming::off}; ///< written under the mutex
  bool stands_by = false;                 ///< since it was armed first: see engine::stand_by()
  bool depends = false;                   ///< while it is armed: see engine::depend()
  bool has_stamps = false;                ///< constant; resize() replaces `stamps` itself
  std::atomic<bool> overrun{false};       ///< written under the mutex

  std::atomic<std::uint32_t> hint{0};  ///< the carrier of the last completion
  std::atomic<std::uint32_t> turn{0};  ///< counts polls
  std::atomic<std::uint32_t> spins{0}; ///< empty polls since it was armed; see poll()
  std::atomic<std::uint32_t> users{0}; ///< queue pairs

  // Guarded by the channel's mutex.
  completion_queue* next_in_channel = nullptr;
  bool in_channel = false;
  std::uint32_t given = 0;
  std::uint32_t acknowledged = 0;

  event_count events;
};

ibv_comp_channel* create_comp_channel(ibv_context* context);
int destroy_comp_channel(ibv_comp_channel* channel);
ibv_cq* create_cq(
  ibv_context* context, int depth, void* user, ibv_comp_channel* channel, int vector);

int resize_cq(ibv_cq* cq, int depth);
int destroy_cq(ibv_cq* cq);
int poll_cq(ibv_cq* cq, int count, ibv_wc* to);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user);
void ack_cq_events(ibv_cq* cq, unsigned count);

} // namespace rdma::software

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_OBJECTS_COMPLETION_QUEUE_HPP
