//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_SOCKETS_RUNTIME_HPP
#define BOOST_RDMA_TOOLS_SOCKETS_RUNTIME_HPP

#include "connect/handshake.hpp"
#include "stream/stream_impl.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/protection_domain.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rdma::sockets {

class flushable;

/// The library in this process, from its first socket that may go by RDMA on. It is never
/// destroyed. A child of fork() makes its own, and leaves its parent's alone.
class runtime
{
public:
  /// Returns that of this process. Throws std::exception if it cannot be made.
  static runtime& of_process();
  /// Returns null if this process has none.
  static runtime* existing() noexcept { return current_.load(std::memory_order_acquire); }

  /// A number of this process: it differs between parent and child.
  static unsigned generation() noexcept { return generation_.load(std::memory_order_relaxed); }

  /// Connects, and decides, on threads of its own; the program's threads take the completions.
  [[nodiscard]] boost::asio::io_context& io() noexcept { return io_; }

  struct device
  {
    explicit device(boost::asio::io_context& io);

    context opened;
    protection_domain domain;
    completion_queue completions;
  };
  /// Opens the devices at the first call. Throws system_error.
  device& opened_device();
  /// Returns null before that.
  [[nodiscard]] device* existing_device() noexcept
  {
    return has_device_.load(std::memory_order_acquire) ? &*device_ : nullptr;
  }

  /// For a connection. Opens the devices. Throws system_error.
  [[nodiscard]] detail::queue_pair_settings queue_pairs();

  bool poll() noexcept;
  bool arm() noexcept;
  void woken() noexcept;

  /// Bytes wait for the peer: poll() calls flush() until it returns true. They are sent also if the
  /// program has closed the socket.
  void flush_later(std::shared_ptr<flushable> what);

  /// A closed stream that may have bytes to send.
  void finish_later(std::weak_ptr<detail::stream_impl> what);

  /// Waits until those have gone and is_over() returns true, or for the time limit of a closed
  /// stream.
  void finish(const std::function<bool()>& is_over) noexcept;

  /// A descriptor on which threads sleep, beside the completion queue's.
  [[nodiscard]] int nudge() const noexcept { return nudge_; }

private:
  runtime();
  void run() noexcept;
  void run_finisher() noexcept;
  void poll_and_sleep() noexcept;
  void start_finisher(const std::lock_guard<std::mutex>& finish_lock);
  bool forget_finished() noexcept;
  void flush_all() noexcept;

  static std::atomic<runtime*> current_;
  static std::atomic<unsigned> generation_;

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;

  std::mutex device_mutex_;
  std::optional<device> device_;
  std::atomic<bool> has_device_{false};

  std::mutex sleep_mutex_; // the queue's arm()
  unsigned sleepers_ = 0;
  const int nudge_;
  bool is_nudged_ = false;

  std::mutex flush_mutex_;
  std::vector<std::shared_ptr<flushable>> unflushed_;
  std::atomic<bool> has_unflushed_{false};

  std::mutex finish_mutex_;
  std::condition_variable finish_wanted_;
  std::vector<std::weak_ptr<detail::stream_impl>> finishing_;
  bool has_finisher_ = false;
};

/// A socket with bytes that wait for its peer.
class flushable
{
public:
  virtual bool flush() noexcept = 0;

protected:
  ~flushable() = default;
};

} // namespace rdma::sockets

#endif // BOOST_RDMA_TOOLS_SOCKETS_RUNTIME_HPP
