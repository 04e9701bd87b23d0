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

/// The kinds of threads that serve a progress target.
enum class mover
{
  poster, ///< has posted requests: sends
  poller, ///< polls for completions: sends and receives; its program may soon answer a message
  engine, ///< does the work that other threads have left
};

/// A queue pair or a link, which the engine lets threads serve.
class progress_target
{
public:
  /// Sends and receives what is possible now. Any thread. `events`: of its socket, by epoll(7).
  virtual void serve(mover by, std::uint32_t events = 0) = 0;

  /// Takes the next frames of a link's stream if they are for it. Waits for a thread that is
  /// serving it.
  virtual void deliver(tcp_link& /*from*/, mover /*by*/) {}

  /// An alarm or a debt is due: as serve() by the engine. Returns false if another thread has done
  /// the work meanwhile.
  virtual bool come_due(std::int64_t)
  {
    serve(mover::engine);
    return true;
  }

  /// Returns true if it uses the local wire: ready() then needs no system call.
  virtual bool is_local() const noexcept { return false; }

  /// Local wire: returns true if serve() would find something. Any thread, between look(true) and
  /// look(false).
  virtual bool ready() const noexcept { return false; }

  /// Local wire: sets if a thread polls ready() from now on. Call ready() once more after
  /// look(false).
  virtual void look(bool) noexcept {}

  /// A hello for this queue pair is pending. A queue pair that is not ready yet takes it later.
  virtual void meet() = 0;

  /// The device is closed: a queue pair goes to RESET.
  virtual void leave() {}

  /// Returns the engine's number of it. A queue pair has its own number.
  std::uint32_t number() const noexcept { return number_; }

protected:
  ~progress_target() = default;

private:
  friend class engine;
  std::atomic<unsigned> users_{0};
  std::atomic<bool> is_polled_{false}; ///< by the thread that found it in engine::looked_at_
  std::uint32_t number_ = 0;
  timer_heap::entry due_; // under the engine's due_mutex_
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_PROGRESS_TARGET_HPP
