//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_OUTPUT_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_OUTPUT_HPP

#include "verbs/software/wire/lanes.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace rdma::software::wire {

/// A set of lanes. Thread-safe.
class lane_set
{
public:
  void add(unsigned lane, std::memory_order order) noexcept
  {
    bits_[lane / 64].fetch_or(bit_of(lane), order);
  }
  void remove(unsigned lane) noexcept
  {
    bits_[lane / 64].fetch_and(~bit_of(lane), std::memory_order_relaxed);
  }
  bool contains(unsigned lane) const noexcept
  {
    return (bits_[lane / 64].load(std::memory_order_relaxed) & bit_of(lane)) != 0;
  }

  /// Returns true if it contains a lane other than this one; lanes_max: any.
  bool contains_others(unsigned lane) const noexcept
  {
    for (std::size_t i = 0; i != bits_.size(); ++i)
    {
      const std::uint64_t own = i == lane / 64 ? bit_of(lane) : 0;
      if ((bits_[i].load(std::memory_order_relaxed) & ~own) != 0)
        return true;
    }
    return false;
  }

  /// Empties the set, and calls visit(lane) for each lane that was in it.
  template <class Visit>
  void take(Visit visit)
  {
    for (std::size_t i = 0; i != bits_.size(); ++i)
    {
      if (bits_[i].load(std::memory_order_relaxed) == 0)
        continue;
      for (std::uint64_t bits = bits_[i].exchange(0, std::memory_order_seq_cst); bits != 0;
           bits &= bits - 1)
        visit(static_cast<unsigned>(i * 64) + static_cast<unsigned>(__builtin_ctzll(bits)));
    }
  }

private:
  static constexpr std::uint64_t bit_of(unsigned lane) noexcept
  {
    return std::uint64_t{1} << lane % 64;
  }

  std::array<std::atomic<std::uint64_t>, lanes_max / 64> bits_{};
};

/// The socket of a tcp_output.
class output_socket
{
public:
  /// Returns the number of bytes that the socket has taken, or -1 with errno set.
  virtual std::ptrdiff_t write(std::span<const iovec> what) noexcept = 0;

  /// From now on the socket tells of room, or not.
  virtual void watch_for_room(bool on) noexcept = 0;

  /// Ends both directions: the peer and the reading half of the link see the end.
  virtual void shut_down() noexcept = 0;

protected:
  ~output_socket() = default;
};

/// The sending half of a link over TCP: whole frames of queue pairs, and messages of the link, one
/// after another, whatever part of them the socket takes.
/**
 * Small frames are copied to a buffer and are sent by one system call at the end of a turn. Large
 * ones are sent directly from registered memory. Thread-safe.
 */
class tcp_output
{
public:
  // Queue pairs wait while so many bytes are stored and unsent: many small frames, and the rest of
  // a large one.
  static constexpr std::size_t stored_max = 320 * 1024;

  // The larger bound for the last answers of queue pairs that detach.
  static constexpr std::size_t stored_last_max = 1024 * 1024;

  // The bound at which the link is ended: the peer does not read, so it would miss a detach
  // message.
  static constexpr std::size_t stored_broken = 2 * 1024 * 1024;

  /// May throw std::bad_alloc.
  explicit tcp_output(output_socket& to);

  /// Sends frames of a queue pair. `ends`: the end of each frame in `what`. Returns the number of
  /// bytes taken, always whole frames; or -1 with errno set: EAGAIN (the lane waits for its turn),
  /// EFAULT, or EPIPE.
  std::ptrdiff_t send(
    unsigned lane, std::span<const iovec> what, std::span<const std::size_t> ends) noexcept;

  /// Sends this, or stores what the socket does not take. Returns false, and drops it, if more than
  /// `most` bytes are stored already; if `most` is stored_broken, this ends the link.
  bool put(std::span<const iovec> what, std::size_t most) noexcept;

  /// Lets the lane have a turn when there is room.
  void wait_for_turn(unsigned lane) noexcept;
  bool is_waiting(unsigned lane) const noexcept { return waiting_.contains(lane); }
  bool has_others_waiting(unsigned lane) const noexcept { return waiting_.contains_others(lane); }

  /// Between these calls small frames are only stored.
  void begin_turn() noexcept;
  void end_turn() noexcept;

  /// The socket has room: sends what is stored, then calls serve(lane) for the waiting lanes in
  /// turn while there is room. Called by one thread at a time.
  template <class Serve>
  void use_room(Serve serve)
  {
    bool has_room = begin_room();
    for (unsigned i = 0; has_room && i != lanes_max; ++i)
    {
      const unsigned lane = next_turn_;
      next_turn_ = (lane + 1) % lanes_max;
      if (!waiting_.contains(lane))
        continue;
      waiting_.remove(lane);
      serve(lane);
      bool was_used = false;
      has_room = look_for_room(was_used);
      if (!has_room && !was_used)
        next_turn_ = lane;
    }
    end_room();
  }

  /// Makes the link unusable.
  void abandon() noexcept;

  /// Sends nothing any more, and returns what is stored and unsent.
  std::vector<std::byte> end() noexcept;

private:
  bool begin_room() noexcept;
  bool look_for_room(bool& was_used) noexcept;
  void end_room() noexcept;

  // The caller of the following holds mutex_.
  bool append(std::span<const iovec> what, std::size_t begin, std::size_t end) noexcept;
  void flush() noexcept;
  void break_off() noexcept;
  void sent(std::size_t size) noexcept;
  void compact() noexcept;
  std::ptrdiff_t refuse(unsigned lane) noexcept;
  void rewatch(bool blocked) noexcept;

  output_socket& to_;
  lane_set waiting_;       ///< lanes that wait for room
  unsigned next_turn_ = 0; ///< used by use_room()

  std::mutex mutex_; // guards the following
  std::vector<std::byte> stored_;
  std::size_t begin_ = 0;   ///< the bytes of stored_ before this have been sent
  bool blocked_ = false;    ///< until the socket has room
  bool broken_ = false;     ///< nothing can be sent any more
  bool in_turn_ = false;    ///< a thread sends the stored bytes at the end of its turn
  bool makes_room_ = false; ///< a thread is in use_room()
  bool was_used_ = false;   ///< a part of a frame has been taken, or stored
};

} // namespace rdma::software::wire

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_WIRE_TCP_OUTPUT_HPP
