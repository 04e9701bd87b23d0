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

/// Who makes a queue pair move.
enum class mover
{
  poster, ///< has posted to it: sends
  poller, ///< looks for completions: sends and receives, and may soon answer what it finds
  engine, ///< does what nobody else has done
};

/// A queue pair or a link as the engine sees it.
class progress_target
{
public:
  /// Moves what can be moved now. Any thread. `events`: what epoll(7) says of its socket.
  virtual void serve(mover by, std::uint32_t events = 0) = 0;

  /// Takes the frames that come next in a link's stream, if they are for it. Waits for a thread
  /// that is moving it.
  virtual void deliver(tcp_link& /*from*/, mover /*by*/) {}

  /// An alarm or a debt is due: as serve() by the engine, unless somebody has seen to it meanwhile.
  /// Returns false in that case.
  virtual bool come_due(std::int64_t)
  {
    serve(mover::engine);
    return true;
  }

  /// Whether it is of the local wire: something to look at without a system call.
  virtual bool is_local() const noexcept { return false; }

  /// Local: whether serve() would find something. Any thread, between look(true) and look(false).
  virtual bool ready() const noexcept { return false; }

  /// Local: somebody looks all the time from now on, or not any more; look once more then.
  virtual void look(bool) noexcept {}

  /// Somebody in the waiting room has asked for this; who is not ready yet looks there when it is.
  virtual void meet() = 0;

  /// The device is closed: a queue pair goes to RESET, where nothing moves.
  virtual void leave() {}

  /// The engine's number of it; a queue pair's own.
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
