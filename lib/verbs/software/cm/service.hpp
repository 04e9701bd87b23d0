//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_SERVICE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_SERVICE_HPP

#include "verbs/software/cm/id.hpp"
#include "verbs/software/memory/fork_record.hpp"
#include "verbs/software/random.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>

namespace rdma::software::cm {

/// The connection manager of a process: its ports, its connections, and the thread that answers
/// peers.
class service
{
public:
  /// Returns the service of this process, which exists while something refers to it. Null with
  /// errno set on failure.
  static std::shared_ptr<service> get();
  ~service();

  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Returns true in a child of the process with the service's thread.
  bool is_inherited() const noexcept
  {
    return forks_ != forks.load(std::memory_order_relaxed); // a child begins with one thread
  }

  // All below: the caller holds the mutex.
  std::mutex mutex;

  /// Makes an id; throws std::bad_alloc.
  identifier& make_id(event_channel& of, void* with, rdma_port_space space);

  /// Removes an id, its waiting events and its place in the port. Waits until its events are
  /// acknowledged.
  void destroy(identifier& which, std::unique_lock<std::mutex>& lock) noexcept;

  /// Waits until all events of an id that were given out are acknowledged.
  void await_acknowledgements(identifier& which, std::unique_lock<std::mutex>& lock);
  void acknowledge(const channel_event& what) noexcept;

  /// Binds an id to an address: a port of its own, or one that another id of the process has.
  /// Returns 0 or an errno. May throw std::bad_alloc.
  int bind(identifier& which, const endpoint& at);

  /// Binds an id that only connects: it uses the service's own port.
  int bind_implicitly(identifier& which, const address_bytes& source);

  /// Listens. Returns 0 or an errno. May throw std::bad_alloc.
  int listen(identifier& which, int backlog);

  /// Records the number of an id's queue pair. May throw std::bad_alloc.
  void set_queue_pair(identifier& which, std::uint32_t number);

  /// Performs a step of an id's state machine; `cause`: the message that led to it.
  void perform(
    identifier& which, const connection_fsm::step& step, const message* cause = nullptr) noexcept;

  /// Appends an event to its id's channel.
  void report(event_list&& what) noexcept;

  /// Takes the oldest event of a channel; null if there is none.
  std::unique_ptr<channel_event> next_event(event_channel& from) noexcept;

  /// Moves an id's waiting events to another channel.
  void move_events(identifier& which, event_channel& to) noexcept;

  /// A queue pair of this process has lost its peer.
  static void on_lost_peer(std::uint32_t queue_pair) noexcept;

private:
  service() = default;
  int start();
  void run() noexcept;
  void serve(shared_port& at) noexcept;
  void take(shared_port& at, const port::arrival& what);
  void take_request(shared_port& at, const port::arrival& what);
  void refuse(const endpoint& peer) noexcept;
  void answer_unknown(shared_port& at, const port::arrival& what) noexcept;
  void refuse_request(shared_port& at, const port::arrival& what, reject_reason why) noexcept;
  void forget(identifier& which) noexcept;
  void end_without_memory(identifier& which) noexcept;
  event_list remove_events(event_channel& from, const identifier& which) noexcept;
  void fire(std::int64_t now) noexcept;
  void set_timer(identifier& which) noexcept;
  void wake() noexcept;
  std::uint32_t new_id();
  int watch(shared_port& which) noexcept;
  shared_port& port_of(identifier& which) noexcept { return which.port ? *which.port : *own_; }
  int open_own();
  static std::uint64_t service_id_of(const identifier& which) noexcept
  {
    return std::uint64_t{static_cast<std::uint32_t>(which.ps)} << 16 | which.local.port;
  }

  struct request_key
  {
    endpoint peer;
    std::uint32_t remote_id;
    bool datagram;

    auto operator<=>(const request_key&) const = default;
  };
  static request_key key_of(const identifier& which) noexcept
  {
    return {which.peer, which.request.local_id, which.fsm.is_datagram()};
  }

  const unsigned forks_ = forks.load(std::memory_order_relaxed);
  wire::descriptor epoll_;
  wire::descriptor wake_; ///< an eventfd
  std::unique_ptr<std::thread> thread_;
  bool stopping_ = false;
  std::condition_variable acknowledged_;
  std::unordered_map<std::uint32_t, std::unique_ptr<identifier>> ids_; ///< by communication ID
  std::map<request_key, identifier*> requests_; ///< received, to find duplicates
  std::unordered_map<std::uint32_t, identifier*> by_queue_pair_;
  wire::timer_heap timers_;
  std::map<endpoint, std::weak_ptr<shared_port>> ports_;
  std::shared_ptr<shared_port> own_; ///< of ids that connect without a port of their own
  std::uint16_t next_port_ = 0;
};

} // namespace rdma::software::cm

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_CM_SERVICE_HPP
