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

#include <boost/intrusive/list.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace rdma::detail {

class watch_client;

// A registration that ends when its memory does, and cannot be ended by who hears of that.
struct watched_registration
  : registration
  , boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>
{
  watch_client* client = nullptr;
};

using registration_list =
  boost::intrusive::list<watched_registration, boost::intrusive::constant_time_size<false>>;

// Who wants to hear of memory that goes. All calls come with the watch's mutex held, so that none
// may allocate, free or wait.
class watch_client
  : public boost::intrusive::list_base_hook<
      boost::intrusive::link_mode<boost::intrusive::normal_link>>
{
public:
  // The memory was unmapped (`gone`), or its pages are about to be discarded, or have moved away.
  virtual void forget(const page_range& range, bool gone) noexcept = 0;

  // Where the watched range that `position` lies in ends; `position` when it lies in none.
  [[nodiscard]] virtual std::uintptr_t covered_until(std::uintptr_t position) const noexcept = 0;

  // Where the next watched range behind `position` begins; UINTPTR_MAX when there is none.
  [[nodiscard]] virtual std::uintptr_t next_begin(std::uintptr_t position) const noexcept = 0;

  // Registrations that nobody uses go to the list, with the client's references.
  virtual void give_up_unused(registration_list& to) noexcept = 0;

protected:
  ~watch_client() = default;

private:
  friend class memory_watch;
  std::size_t ending_ = 0; // its registrations that the watch ends at the moment
};

// Hears from the kernel when memory of this process is unmapped, moved or discarded
// (userfaultfd(2)): a NIC goes on with the pages that it has pinned, while the program has others
// at the same address.
//
// Ranges are registered for write protection, which is never set: no access is ever held up. Only
// who changes the mapping of watched memory waits, in munmap(2) and its like, until the event has
// been read; then its range can be mapped anew. So reading events and acting on them is one step,
// under the mutex that lookups take. One case is left: the range may be given out again just before
// the event is queued. Then the kernel says that its map is changing, which is_current() asks for.
//
// Whoever holds the mutex must not allocate or free: that may unmap watched memory, and the wait
// for the event would never end. For the same reason the thread that reads events ends no
// registrations; another one does.
class memory_watch
{
public:
  // The one of this process: a range has at most one userfaultfd. It starts with who first asks for
  // it, and ends with the last. Null where it cannot be had, and why.
  static std::shared_ptr<memory_watch> of_process(std::string& why_not);

  memory_watch(); // throws system_error
  ~memory_watch();
  memory_watch(const memory_watch&) = delete;
  memory_watch& operator=(const memory_watch&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] const memory_map& map() const noexcept { return map_; }

  // A client with registrations in it must forget them all, and then detach(), which waits until
  // none of them is being ended. Without the mutex.
  void attach(watch_client& client) noexcept;
  void detach(watch_client& client) noexcept;

  // Ends what no operation uses, of all clients; false when there is nothing. Without the mutex.
  bool end_unused() noexcept;

  // The mutex is held in all of these.

  // Takes in what the kernel has to tell. Whether it then has nothing in hand: everything that was
  // unmapped before this call is forgotten.
  [[nodiscard]] bool is_current() noexcept;

  // From here on events come. False when the kernel does not watch memory of this kind, or somebody
  // else does.
  [[nodiscard]] bool start(const page_range& range) noexcept;

  // As far as no client's ranges cover it.
  void stop(const page_range& range) noexcept;

  // Ends the reference that the client held, later.
  void retire_later(watched_registration& registration) noexcept;

private:
  class descriptor
  {
  public:
    explicit descriptor(int fd); // throws system_error when it is -1
    ~descriptor();
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }
    void give_up() noexcept { fd_ = -1; } // somebody else has closed it
    void close() noexcept;

  private:
    int fd_;
  };

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
  registration_list buried_;
  bool stopping_ = false;
  struct conditions
  {
    std::condition_variable buried;
    std::condition_variable ended;
  };
  std::unique_ptr<conditions> has_ = std::make_unique<conditions>();
  std::unique_ptr<std::thread> reader_;
  std::unique_ptr<std::thread> ender_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_MEMORY_WATCH_HPP
