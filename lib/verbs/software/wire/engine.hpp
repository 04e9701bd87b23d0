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
#include "verbs/software/wire/engine_fsm.hpp"
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

/// The sockets of one opened device, and the engine thread, which makes progress when no program
/// thread polls.
/**
 * A polling thread makes progress by poll(). engine_fsm decides when the engine thread leaves the
 * work to polling threads.
 */
class engine
{
public:
  explicit engine(const device_settings& settings);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Claims a port at all addresses and starts the thread. Returns 0 or an errno.
  /**
   * If `all` is false, addresses that the host lists but cannot use (yet) are removed from `gids`.
   */
  int start(std::vector<ibv_gid>& gids, bool all);

  /// Returns an epoll descriptor that is readable while a connection is ready, to be nested in
  /// other epoll sets.
  int sockets() const noexcept { return sockets_.get(); }

  /// Accepts connections for this queue pair at this address. Returns 0 or an errno.
  int listen(std::uint32_t qp, const ibv_gid& gid, std::size_t gid_index);

  /// Return true if the settings permit the wire.
  bool has_local_wire() const noexcept { return has_local_wire_; }
  bool has_tcp_wire() const noexcept { return has_tcp_wire_; }

  /// Adds a queue pair and chooses its number. Returns 0 or an errno, as claim_port() does. May
  /// throw std::bad_alloc.
  int add(progress_target& s, std::uint32_t& number);

  /// Adds a socket that belongs to no queue pair, under a number that no queue pair can have. May
  /// throw std::bad_alloc.
  std::uint32_t add_socket(progress_target& s);

  /// Removes a queue pair or such a socket. No thread serves it when this returns.
  void remove(progress_target& s) noexcept;

  /// Calls visit(progress_target&) for each existing queue pair. May throw std::bad_alloc, before
  /// the first call.
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

  /// Looks for work in a program's thread: at the connection that had some last (`hint`), and at
  /// intervals at all connections.
  /**
   * `spins`: the thread polls continuously, and calls look_away() when it stops. Returns true if
   * several connections had work, so that the next call should look at all of them.
   */
  bool poll(std::uint32_t hint, std::uint32_t turn, bool spins) noexcept;

  /// Does the same for a thread that has completions to handle. Its deferred frames are not sent
  /// yet.
  void poll_although_busy() noexcept;

  /// Ends the continuous polling of shared memory: peers then send wake-ups.
  void look_away() noexcept;

  /// Does the same for one queue pair or link, which is about to be removed.
  void look_away(std::uint32_t number) noexcept;

  /// Polls the rings of one queue pair besides the bells of its link, if few are polled and a
  /// thread polls at all.
  void look_at_queue_pair(std::uint32_t qp) noexcept
  {
    if (looks_.load(std::memory_order_relaxed)
      && queue_pairs_looked_at_.load(std::memory_order_relaxed) != queue_pairs_looked_at_max)
      look_at(qp);
  }

  /// Makes progress on this queue pair. Returns false if it does not exist (any more).
  bool serve(std::uint32_t qp, mover by, std::uint32_t events = 0) noexcept;

  /// Lets a queue pair take its next frames from a link's stream, if it (still) exists.
  void deliver(std::uint32_t qp, tcp_link& from, mover by) noexcept;

  /// Serves a link at the beginning of the next poll. The engine does it if no thread polls: within
  /// a tick, or after a longer pause if `poll_is_near`.
  void defer(progress_target& which, bool poll_is_near) noexcept;

  /// Looks at all connections in a program's thread. Returns true if one of them had work.
  bool scan() noexcept { return serve_sockets(mover::poller) != 0; }

  /// See engine_fsm.
  void attend() noexcept { fsm_.attend(); }
  void depend(int change) noexcept { fsm_.depend(change); }
  void stand_by(int change) noexcept { fsm_.stand_by(change); }
  bool is_awake() const noexcept { return fsm_.is_awake(); }

  /// Reports that depend() counts one more queue. The engine's thread then waits for the sockets,
  /// unless stand_by() counts a queue.
  void take_over() noexcept;

  /// Reports that a thread has stopped polling and does not wait either. The engine's thread looks
  /// for work soon.
  void polling_ended() noexcept;

  /// Returns the hellos whose queue pair has not taken them yet.
  pending_hellos& hellos() noexcept { return hellos_; }

  /// Passes a hello to the queue pair that it names. Refuses it if there is no such queue pair.
  void introduce(pending_hello hello) noexcept;

  /// Answers "not ready".
  static void refuse(pending_hello& hello) noexcept;

  /// Reserves a lane for a queue pair in a link to its peer's context. Makes the link if there is
  /// none. Returns null if that fails.
  std::shared_ptr<link> attach(std::uint32_t qp, const path& to, lane_use& lane) noexcept;

  /// Returns the wire of a link to this peer's context: "local" or "tcp"; "" if there is none.
  const char* linked_by(const protocol::endpoint_name& peer) noexcept;

  /// Reports that a link may be unused.
  void end_unused_links_soon() noexcept { links_are_due_.store(true, std::memory_order_relaxed); }

  bool watch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  bool rewatch(int fd, std::uint32_t qp, std::uint32_t events) noexcept;
  void unwatch(int fd) noexcept;

  /// Serves this queue pair at this time, or earlier: it determines itself what is due. Replaces an
  /// earlier call's time.
  void alarm(progress_target& s, std::int64_t at) noexcept;

  /// Serves this queue pair soon, if no other thread does.
  void owe(progress_target& s) noexcept;

  /// Sends the rest, ends the stream, and waits for the peer to close it: at most a second.
  /// `is_strangers`: the peer has proven nothing, and shares a bound with all such peers.
  void linger(descriptor fd, std::vector<std::byte> bytes, bool is_strangers);

private:
  struct accepted_socket
  {
    descriptor fd;
    ibv_gid from{};
    std::int64_t until = 0; // 0: accepted just now
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
    bool is_strangers = false;
    bool ended = false;
    bool unwatched = false; // not in events_, because adding it has failed
  };

  // The subject of an event of events_, in the upper half of its data. The lower half is the
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
  void remind(Change change, bool can_wait = false) noexcept;
  void wake() noexcept;
  void drain_wake() noexcept;
  void run();
  struct news
  {
    bool sockets = false; ///< a socket of sockets_ is ready
    bool woken = false;
  };
  news round(std::int64_t wait) noexcept;
  bool serve_due() noexcept;
  std::int64_t next_wait(const engine_fsm::limits& what) noexcept;
  void accept_from(int listener, bool is_local);
  void pause_listener(int listener, bool is_local) noexcept;
  void serve_accepted(int fd);
  bool read_hello(accepted_socket& g);
  bool read_local_hello(accepted_socket& g) noexcept;
  void adopt(accepted_socket& g) noexcept;
  void expire(std::int64_t at) noexcept;
  bool finish(closing_socket& l) noexcept;
  void serve_closing(int fd) noexcept;
  void take_closing_sockets() noexcept;
  void limit_strangers() noexcept;
  void hang_up(descriptor& fd) noexcept;

  const device_settings settings_;
  bool has_local_wire_ = true;
  bool has_tcp_wire_ = true;
  std::vector<ibv_gid> gids_;
  std::mutex claims_mutex_;                         // locked after targets_mutex_
  std::vector<std::unique_ptr<port_claim>> claims_; // more than one only with many queue pairs

  descriptor sockets_; // the connections of queue pairs, by number
  descriptor events_;  // all events that the thread waits for, sockets_ among them
  descriptor wake_;
  std::atomic<std::uint32_t> watched_{0};
  engine_fsm fsm_;

  pending_hellos hellos_;

  std::mutex links_mutex_; // locked before targets_mutex_
  std::vector<std::shared_ptr<link>> links_;
  std::atomic<bool> links_are_due_{false};

  // The shared memory that a thread polls continuously: the bells of links, and the rings of a few
  // queue pairs. Other links are woken through their sockets.
  static constexpr std::size_t links_looked_at_max = 64;
  static constexpr std::size_t queue_pairs_looked_at_max = 8;
  short_lock look_mutex_;
  std::array<progress_target*, links_looked_at_max + queue_pairs_looked_at_max> looked_at_{};
  std::size_t looked_at_count_ = 0;                   // under the mutex
  std::atomic<std::size_t> queue_pairs_looked_at_{0}; // written under the mutex
  std::atomic<bool> looks_{false};                    // a hint: looked_at_ is not empty

  // Links that the next poll serves first. The engine serves those for which there is no room here.
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

  // Used by the engine's thread only.
  std::vector<accepted_socket> accepted_sockets_;
  std::vector<closing_socket> closing_sockets_;
  std::vector<std::pair<int, bool>>
    paused_listeners_; // listeners that could not accept, and whether they are local ones
  std::int64_t paused_until_ = 0;
  std::thread thread_;
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_ENGINE_HPP
