//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_MEMORY_WATCH_HPP
#define BOOST_RDMA_LIB_RESOURCE_MEMORY_WATCH_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/registration.hpp"
#include "resource/memory_map.hpp"
#include "resource/page_range.hpp"
#include "verbs/descriptor.hpp"

#include <boost/intrusive/list.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace rdma::detail {

class watch_client;

// A registration that ends when its memory is unmapped. The thread that reads the event must not
// end it itself.
struct watched_registration
  : registration
  , boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>
{
  watch_client* client = nullptr;
};

using registration_list =
  boost::intrusive::list<watched_registration, boost::intrusive::constant_time_size<false>>;

// Interface for clients that are notified of unmapped memory. All calls come with the watch's mutex
// held, so they must not allocate, free or wait.
class watch_client
  : public boost::intrusive::list_base_hook<
      boost::intrusive::link_mode<boost::intrusive::normal_link>>
{
public:
  // The memory was unmapped (`gone`), or its pages are about to be discarded, or have moved to
  // another address.
  virtual void forget(const page_range& range, bool gone) noexcept = 0;

  // Returns the end of the watched range that contains `position`, or `position` if no range
  // contains it.
  [[nodiscard]] virtual std::uintptr_t covered_until(std::uintptr_t position) const noexcept = 0;

  // Returns the beginning of the next watched range after `position`, or UINTPTR_MAX.
  [[nodiscard]] virtual std::uintptr_t next_begin(std::uintptr_t position) const noexcept = 0;

  // Moves registrations that no operation uses to the list, with the client's references.
  virtual void give_up_unused(registration_list& to) noexcept = 0;

protected:
  ~watch_client() = default;

private:
  friend class memory_watch;
  std::size_t ending_ = 0; // number of its registrations that the watch is ending
};

// Receives events from the kernel when memory of this process is unmapped, moved or discarded
// (userfaultfd(2)). Without them, a NIC would continue to use the pages that it has pinned while
// the program has other pages at the same address.
//
// Ranges are registered for write protection, which is never set, so no access is delayed. Only
// calls that change the mapping of watched memory (munmap(2) and similar) wait until the event has
// been read; only then can the range be mapped again. Therefore events are read and handled in one
// step, under the mutex that lookups take. One race remains: the range may be mapped again just
// before the event is queued. The kernel then reports that the mapping is changing, and
// is_current() queries that.
//
// A thread that holds the mutex must not allocate or free: either may unmap watched memory, and the
// wait for the event would never end. For the same reason the thread that reads events does not end
// registrations. A second thread does.
class memory_watch
{
public:
  // Returns the single instance of this process, because a range has at most one userfaultfd. It is
  // created by the first call and destroyed with the last reference. Returns null, with the reason
  // in why_not, if the kernel does not support it.
  static std::shared_ptr<memory_watch> of_process(std::string& why_not);

  memory_watch(); // throws system_error
  ~memory_watch();
  memory_watch(const memory_watch&) = delete;
  memory_watch& operator=(const memory_watch&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] const memory_map& map() const noexcept { return map_; }

  // Before detach(), a client must forget all its registrations. detach() waits until none of them
  // is being ended. Call both without the mutex.
  void attach(watch_client& client) noexcept;
  void detach(watch_client& client) noexcept;

  // Ends the registrations of all clients that no operation uses. Returns false if there were none.
  // Call without the mutex.
  bool end_unused() noexcept;

  // Precondition of all functions below: the mutex is held.

  // Handles all pending events. Returns true if no mapping is changing afterwards: all memory that
  // was unmapped before this call is then forgotten.
  [[nodiscard]] bool is_current() noexcept;

  // Starts to watch a range. Returns false if the kernel cannot watch this kind of memory, or
  // another userfaultfd watches it.
  [[nodiscard]] bool start(const page_range& range) noexcept;

  // Stops watching the parts of the range that no client's ranges cover.
  void stop(const page_range& range) noexcept;

  // Ends the client's reference to the registration, later and on another thread.
  void retire_later(watched_registration& registration) noexcept;

private:
  void try_out();
  [[nodiscard]] bool changing() const noexcept;
  bool drain() noexcept;
  void stop_one(const page_range& range) const noexcept;
  void read_events() noexcept;
  void end_registrations() noexcept;
  void end_first(registration_list& of, std::unique_lock<std::mutex>& lock) noexcept;

  const process_mark process_;
  memory_map map_;
  descriptor faults_; // the userfaultfd
  descriptor stop_;
  std::mutex mutex_;
  boost::intrusive::list<watch_client, boost::intrusive::constant_time_size<false>> clients_;
  registration_list retired_;
  bool stopping_ = false;
  struct conditions
  {
    std::condition_variable retired;
    std::condition_variable ended;
  };
  std::unique_ptr<conditions> has_ = std::make_unique<conditions>();
  std::unique_ptr<std::thread> reader_;
  std::unique_ptr<std::thread> ender_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_MEMORY_WATCH_HPP
