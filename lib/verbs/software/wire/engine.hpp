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
#include "verbs/software/short_lock.hpp"
#include "verbs/software/wire/link.hpp"
#include "verbs/software/wire/pending_hellos.hpp"
#include "verbs/software/wire/port_claim.hpp"
#include "verbs/software/wire/progress_target.hpp"
#include "verbs/software/wire/socket.hpp"
#include "verbs/software/wire/tcp_link.hpp"
#include "verbs/software/wire/timer_heap.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rdma::software::wire {

/// The sockets of one opened device, and the thread that makes progress when nobody polls.
/**
 * Whoever polls makes progress, by poll(). The thread sleeps until a socket has something; when
 * programs have been polling of late (attend()) it leaves the work to them for a moment, looks
 * after a millisecond, and after longer if nothing was left, whether something is left, and goes
 * back to sleep when they have been quiet for a while.
 */
class engine
{
public:
  explicit engine(const device_settings& settings);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Claims a port at all addresses and starts the thread; 0 or an errno.
  /** With `all` unset, addresses that the host lists but cannot use (yet) are left out of `gids`.
   */
  int start(std::vector<ibv_gid>& gids, bool all);

  /// Readable whenever a connection has something; for epoll sets of others.
  int sockets() const noexcept { return sockets_.get(); }

  /// Accepts connections for this queue pair to this address from now on; 0 or an errno.
  int listen(std::uint32_t qp, const ibv_gid& gid, std::size_t gid_index);

  /// The wires that the settings permit.
  bool has_local_wire() const noexcept { return has_local_wire_; }
  bool has_tcp_wire() const noexcept { return has_tcp_wire_; }

  /// Adds a queue pair and chooses its number. Returns 0 or an errno, as claim_port(). May throw
  /// std::bad_alloc.
  int add(progress_target& s, std::uint32_t& number);

  /// Adds a socket that is no queue pair's, under a number that no queue pair can have. May throw
  /// std::bad_alloc.
  std::uint32_t add_socket(progress_target& s);

  /// A queue pair or such a socket goes; nobody serves it any more when this returns.
  void remove(progress_target& s) noexcept;

  /// Calls visit(progress_target&) for each queue pair that is there now. May throw std::bad_alloc,
  /// before the first call.
  template <class Visit>
  void visit_all(Visit visit)
  {
    std::vector<progress_target*> there;
    {
      const std::lock_guard lock(targets_mutex_);
      there.reserve(targets_.size());
      for (const auto& [number, s] : targets_)
      {
        s->users_.fetch_add(1, std::memory_order_relaxed); // under the mutex, as in pin()
        there.push_back(s);
      }
    }
    for (progress_target* const s : there)
    {
      visit(*s);
      unpin(*s);
    }
  }

  /// A user's thread looks for work: at the connection that had some last, now and then at all.
  /**
   * `spins`: the thread does nothing but look, and says when it stops (look_away()). Whether
   * several had some: then it is better to look at all again.
   */
  bool poll(std::uint32_t hint, std::uint32_t turn, bool spins) noexcept;

  /// The same for a thread that has completions to handle, so that what it has deferred waits.
  void poll_although_busy() noexcept;

  /// Nobody looks at shared memory all the time any more: peers are to tell when there is
  /// something.
  void look_away() noexcept;

  /// The same for one queue pair or link, which is about to go.
  void look_away(std::uint32_t number) noexcept;

  /// Looks at the rings of one queue pair as well, besides the bells of its link, if few are looked
  /// at and somebody looks at all.
  void look_at_queue_pair(std::uint32_t qp) noexcept
  {
    if (looks_.load(std::memory_order_relaxed)
      && queue_pairs_looked_at_.load(std::memory_order_relaxed) != queue_pairs_looked_at_max)
      look_at(qp);
  }

  /// Makes this queue pair move, if there (still) is one.
  bool serve(std::uint32_t qp, mover by, std::uint32_t events = 0) noexcept;

  /// Lets a queue pair take what comes next in a link's stream, if there (still) is one.
  void deliver(std::uint32_t qp, tcp_link& from, mover by) noexcept;

  /// Serves a link at the beginning of the next poll. The engine does it if nobody polls: within a
  /// tick, or also after a longer pause if `poll_is_near`.
  void defer(progress_target& which, bool poll_is_near) noexcept;

  /// A user's thread looks at all connections. Whether any of them had something.
  bool scan() noexcept { return serve_sockets(mover::poller) != 0; }

  /// Somebody polls.
  void attend() noexcept
  {
    // A lost increment does not matter; only that the value changes.
    attention_.store(attention_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// One more (1) or less (-1) can be woken by the engine's thread alone, which then leaves work to
  /// threads that poll only while somebody stands by.
  void depend(int change) noexcept { dependents_.fetch_add(change, std::memory_order_relaxed); }

  /// One queue more (1) or less (-1) is in use whose thread is woken by the sockets. That thread
  /// serves all links, also for dependents.
  void stand_by(int change) noexcept { standing_by_.fetch_add(change, std::memory_order_seq_cst); }

  /// A dependent waits from now on: the engine's thread waits for the sockets if nobody stands by.
  void take_over() noexcept;

  /// A thread has stopped polling, and does not wait either: the engine's thread looks soon.
  void polling_ended() noexcept;

  /// Somebody polls, or has until a moment ago: debts are seen to at the next tick.
  bool is_awake() const noexcept { return awake_.load(std::memory_order_relaxed); }

  /// Connections that have said hello.
  pending_hellos& room() noexcept { return room_; }

  /// Lets the queue pair that a hello is for meet it. Without such a queue pair, refuses it.
  void introduce(pending_hello who) noexcept;

  /// Answers "not ready".
  static void refuse(pending_hello& who) noexcept;

  /// Reserves a lane for a queue pair in a link to its peer's context, which is made if there is
  /// none. Null if that fails.
  std::shared_ptr<link> attach(std::uint32_t qp, const path& to, lane_use& lane) noexcept;

  /// Returns the wire of a link to this peer's context: "local" or "tcp"; "" if there is none.
  const char* linked_by(const protocol::endpoint_name& peer) noexcept;

  /// There may be a link that no queue pair uses.
  void end_unused_links_soon() noexcept { links_are_due_.store(true, std::memory_order_relaxed); }

  bool watch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  bool rewatch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  void unwatch(int fd) noexcept;

  /// Serve this queue pair at this time (or earlier: it knows itself what is due) instead of an
  /// earlier call's.
  void alarm(progress_target& s, std::int64_t at) noexcept;

  /// Serve this queue pair soon, if nobody else does.
  void owe(progress_target& s) noexcept;

  /// Sends the rest, says that this was all, and waits for the peer to see it: at most a second.
  void linger(descriptor fd, std::vector<std::byte> bytes);

private:
  struct accepted_socket
  {
    descriptor fd;
    ibv_gid from{};
    std::int64_t until = 0; // 0: it has just come
    bool is_local = false;
    std::size_t size = 0;
    tcp_attach_bytes bytes{};
  };

  struct closing_socket
  {
    descriptor fd;
    std::int64_t until = 0;
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    bool ended = false;
    bool unwatched = false; // it could not be watched
  };

  // The subject of an event of events_, in the upper half of its data; the lower half is the
  // descriptor.
  enum class subject : std::uint64_t
  {
    sockets,
    wake,
    listener,
    accepted,
    closing,
    local_listener,
  };
  static constexpr unsigned subject_shift = 32;
  bool await(subject what, int fd, std::uint32_t events, int operation) noexcept;

  progress_target* pin(std::uint32_t qp) noexcept;
  static void unpin(progress_target& s) noexcept
  {
    s.users_.fetch_sub(1, std::memory_order_release);
  }
  int serve_sockets(mover by, bool spins = false) noexcept;
  bool serve_looked_at(mover by, std::uint32_t hint, bool& hint_is_there) noexcept;
  void serve_deferred() noexcept;
  void look_at(std::uint32_t number) noexcept;
  std::shared_ptr<link> make_link(const path& to);
  std::shared_ptr<link> connect_link(const path& to);
  bool add(const std::shared_ptr<link>& made);
  void adopt(const std::shared_ptr<link>& made, const attach_message& hello);
  void end(link& which) noexcept;
  void end_links() noexcept;
  void end_unused_links() noexcept;
  int listen_locally(port_claim& at, const ibv_gid& gid);
  int find_claim(port_claim*& found);
  int bind(std::vector<ibv_gid>& gids, bool all);
  void insert(progress_target& s, std::uint32_t number);
  bool watch_listener(int fd, bool is_local) noexcept;
  template <class Change>
  void remind(Change change, bool has_time = false) noexcept;
  void wake() noexcept;
  void drain_wake() noexcept;
  void run();
  struct news
  {
    bool sockets = false; ///< they have something
    bool woken = false;
  };
  news round(std::int64_t wait) noexcept;
  bool leaves_sockets() const noexcept;
  void ticks() noexcept;
  bool serve_due() noexcept;
  std::int64_t next_wait(bool with_debts) noexcept;
  void accept_from(int listener, bool is_local);
  void rest(int listener, bool is_local) noexcept;
  void greet(int fd);
  bool hear(accepted_socket& g);
  bool hear_locally(accepted_socket& g) noexcept;
  void adopt(accepted_socket& g) noexcept;
  void expire(std::int64_t at) noexcept;
  bool leave(closing_socket& l) noexcept;
  void see_off(int fd) noexcept;
  void take_closing_sockets() noexcept;
  void hang_up(descriptor& fd) noexcept;

  const device_settings settings_;
  bool has_local_wire_ = true;
  bool has_tcp_wire_ = true;
  std::vector<ibv_gid> gids_;
  std::mutex claims_mutex_;                         // locked after targets_mutex_
  std::vector<std::unique_ptr<port_claim>> claims_; // more than one only for many queue pairs

  descriptor sockets_; // the connections of queue pairs, by number
  descriptor events_;  // all that the thread waits for, sockets_ among it
  descriptor wake_;
  std::atomic<std::uint64_t> attention_{0};
  std::atomic<std::uint32_t> watched_{0};
  std::atomic<int> dependents_{0};
  std::atomic<int> standing_by_{0};
  std::atomic<bool> awake_{false};
  std::atomic<bool> pauses_{false}; ///< awake, but for longer than a tick
  std::atomic<bool> stop_{false};

  pending_hellos room_;

  std::mutex links_mutex_; // locked before targets_mutex_
  std::vector<std::shared_ptr<link>> links_;
  std::atomic<bool> links_are_due_{false};

  // The shared memory that somebody looks at all the time: the bells of links, and the rings of a
  // few queue pairs. Other links are woken through their sockets.
  static constexpr std::size_t links_looked_at_max = 64;
  static constexpr std::size_t queue_pairs_looked_at_max = 8;
  short_lock look_mutex_;
  std::array<progress_target*, links_looked_at_max + queue_pairs_looked_at_max> looked_at_{};
  std::size_t looked_at_count_ = 0;                   // under the mutex
  std::atomic<std::size_t> queue_pairs_looked_at_{0}; // written under the mutex
  std::atomic<bool> looks_{false};                    // a hint: there are some

  // Links that the next poll serves first. What finds no room waits for the engine.
  short_lock deferred_mutex_;
  std::array<std::uint32_t, 64> deferred_{};
  std::size_t deferred_count_ = 0;        // under the mutex
  std::atomic<bool> has_deferred_{false}; // written under the mutex

  std::mutex targets_mutex_;
  std::unordered_map<std::uint32_t, progress_target*> targets_;
  std::uint32_t sockets_added_ = 0;

  std::mutex due_mutex_;
  timer_heap timer_heap_;
  std::vector<closing_socket> arriving_closing_sockets_;

  // The thread's own.
  std::vector<accepted_socket> accepted_sockets_;
  std::vector<closing_socket> closing_sockets_;
  std::vector<std::pair<int, bool>>
    resting_; // listeners that could not accept, and whether they are local ones
  std::int64_t rest_until_ = 0;
  std::uint64_t seen_ = 0;
  std::thread thread_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_HPP
