//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_HPP

#include "boost_rdma/software/device.hpp"
#include "verbs/software/protocol/hello.hpp"
#include "verbs/software/wire/agenda.hpp"
#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/waiting_room.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace rdma::software::wire {

/// Who makes a queue pair move.
enum class mover
{
  poster, ///< has posted to it: sends
  poller, ///< looks for completions: sends and receives, and may soon answer what it finds
  engine, ///< does what nobody else has done
};

/// A queue pair as the engine sees it.
class station
{
public:
  /// Moves what can be moved now. Any thread. `writable`: its socket has room again.
  virtual void serve(mover by, bool writable = false) = 0;

  /// Somebody in the waiting room has asked for this; who is not ready yet looks there when it is.
  virtual void meet() = 0;

protected:
  ~station() = default;

private:
  friend class engine;
  std::atomic<unsigned> users_{0};
  std::uint32_t number_ = 0;
  agenda::entry due_; // under the engine's due_mutex_
};

/// The sockets of one opened device, and the thread that makes progress when nobody polls.
/**
 * Whoever polls makes progress, by poll(). The thread sleeps until a socket has something; when programs
 * have been polling of late (attend()) it leaves the work to them for a moment, looks every millisecond
 * whether something is left, and goes back to sleep when they have been quiet for a while.
 */
class engine
{
public:
  explicit engine(const device_settings& settings);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Binds one port on all addresses and starts the thread; 0 or an errno.
  /** With `all` unset, addresses that the host lists but cannot use (yet) are left out of `gids`. */
  int start(std::vector<ibv_gid>& gids, bool all);

  /// The TCP port, which is the device's LID.
  std::uint16_t port() const noexcept { return port_; }

  /// Readable whenever a connection has something; for epoll sets of others.
  int sockets() const noexcept { return sockets_.get(); }

  /// Accepts connections to this address from now on; 0 or an errno.
  int listen(std::size_t gid_index);

  /// A queue pair comes, under a number of the engine's choice. May throw std::bad_alloc.
  std::uint32_t add(station& s);

  /// A queue pair goes; nobody serves it any more when this returns.
  void remove(station& s) noexcept;

  /// A user's thread looks for work: at the connection that had some last, now and then at all.
  /** Whether several had some: then it is better to look at all again. */
  bool poll(std::uint32_t hint, std::uint32_t turn) noexcept;

  /// Makes this queue pair move, if there (still) is one.
  bool serve(std::uint32_t qp, mover by, bool writable = false) noexcept;

  /// A user's thread looks at all connections. Whether any of them had something.
  bool scan() noexcept { return serve_sockets(mover::poller) != 0; }

  /// Somebody polls.
  void attend() noexcept
  {
    // A lost increment does not matter; only that the value changes.
    attention_.store(attention_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Connections that have said hello.
  waiting_room& room() noexcept { return room_; }

  /// Says "not ready" to one of them, and closes it.
  static void refuse(descriptor& fd) noexcept;

  bool watch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  bool rewatch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  void unwatch(int fd) noexcept;

  /// Serve this queue pair at this time (or earlier: it knows itself what is due) instead of an earlier call's.
  void alarm(station& s, std::int64_t at) noexcept;

  /// Serve this queue pair soon, if nobody else does.
  void owe(station& s) noexcept;

  /// Sends the rest, says that this was all, and waits for the peer to see it: at most a second.
  void linger(descriptor fd, std::vector<std::byte> bytes);

private:
  struct greeter
  {
    descriptor fd;
    ibv_gid from{};
    std::int64_t until = 0; // 0: it has just come
    std::size_t size = 0;
    protocol::hello_bytes bytes{};
  };

  struct leaver
  {
    descriptor fd;
    std::int64_t until = 0;
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    bool ended = false;
    bool unwatched = false; // it could not be watched
  };

  station* pin(std::uint32_t qp) noexcept;
  static void unpin(station& s) noexcept { s.users_.fetch_sub(1, std::memory_order_release); }
  int serve_sockets(mover by) noexcept;
  template <class Change>
  void remind(Change change) noexcept;
  void wake() noexcept;
  int bind(std::vector<ibv_gid>& gids, bool all);
  bool wait_wake(std::int64_t ns) noexcept;
  void drain_wake() noexcept;
  void run();
  bool round(std::int64_t wait) noexcept;
  void ticks() noexcept;
  void serve_due() noexcept;
  std::int64_t next_wait() noexcept;
  void accept_from(int listener);
  void rest(int listener) noexcept;
  void greet(int fd);
  bool hear(greeter& g);
  void introduce(greeter& g);
  void expire(std::int64_t at) noexcept;
  bool leave(leaver& l) noexcept;
  void see_off(int fd) noexcept;
  void take_leavers() noexcept;
  void hang_up(descriptor& fd) noexcept;

  const device_settings settings_;
  std::uint16_t port_ = 0;
  std::vector<descriptor> bound_;
  std::vector<bool> listening_;
  std::mutex listen_mutex_;

  descriptor sockets_; // the connections of queue pairs, by number
  descriptor events_;  // all that the thread waits for, sockets_ among it
  descriptor wake_;
  std::atomic<std::uint64_t> attention_{0};
  std::atomic<std::uint32_t> watched_{0};
  std::atomic<bool> awake_{false};
  std::atomic<bool> stop_{false};

  waiting_room room_;

  std::mutex stations_mutex_;
  std::unordered_map<std::uint32_t, station*> stations_;
  std::uint32_t next_number_ = 0;

  std::mutex due_mutex_;
  agenda agenda_;
  std::vector<leaver> arriving_leavers_;

  // The thread's own.
  std::vector<greeter> greeters_;
  std::vector<leaver> leavers_;
  std::vector<int> resting_; // listeners that could not accept
  std::int64_t rest_until_ = 0;
  std::uint64_t seen_ = 0;
  std::thread thread_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_HPP
