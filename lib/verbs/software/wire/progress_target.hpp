//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PROGRESS_TARGET_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PROGRESS_TARGET_HPP

#include "verbs/software/wire/timer_heap.hpp"

#include <atomic>
#include <cstdint>

namespace rdma::software::wire {

class tcp_link;

/// The kind of thread that serves a progress target.
enum class mover
{
  poster, ///< has posted a work request: sends
  poller, ///< polls for completions: sends and receives; its program may soon answer a message
  engine, ///< the engine's thread: does the work that no other thread has done
};

/// The interface through which the engine serves a queue pair or a link.
class progress_target
{
public:
  /// Sends and receives as much as possible now. Any thread may call it. `events`: the events that
  /// epoll(7) has reported for the target's socket.
  virtual void serve(mover by, std::uint32_t events = 0) = 0;

  /// Takes the next frames of a link's stream, if they are for this target. Waits for a thread that
  /// is serving the target.
  virtual void deliver(tcp_link& /*from*/, mover /*by*/) {}

  /// Handles a due alarm or debt, as serve() by the engine does. Returns false if another thread
  /// has handled it meanwhile.
  virtual bool come_due(std::int64_t)
  {
    serve(mover::engine);
    return true;
  }

  /// Returns true if the target uses the local wire: it can be polled without a system call.
  virtual bool is_local() const noexcept { return false; }

  /// Local: returns true if serve() would find something to do. Any thread may call it between
  /// look(true) and look(false).
  virtual bool ready() const noexcept { return false; }

  /// Local: records whether a thread polls ready() continuously. The caller calls ready() once more
  /// afterwards.
  virtual void look(bool) noexcept {}

  /// Takes the pending hellos for this target. If it is not ready yet, it takes them when it
  /// becomes ready.
  virtual void meet() = 0;

  /// Stops the target when the device is closed: a queue pair goes to RESET, where it does not send
  /// or receive.
  virtual void leave() {}

  /// Returns the number by which the engine finds the target; a queue pair uses its own number.
  std::uint32_t number() const noexcept { return number_; }

protected:
  ~progress_target() = default;

private:
  friend class engine;
  std::atomic<unsigned> users_{0};
  std::atomic<bool> is_polled_{false}; ///< a thread that found it in engine::looked_at_ serves it
  std::uint32_t number_ = 0;
  timer_heap::entry due_; // under the engine's due_mutex_
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PROGRESS_TARGET_HPP
