//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP

#include "verbs/software/memory/window.hpp"
#include "verbs/software/short_lock.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace rdma::software::protocol {

// verbs.h has these since rdma-core 43, with these values.
inline constexpr auto wr_atomic_write = static_cast<ibv_wr_opcode>(15);
inline constexpr auto wc_atomic_write = static_cast<ibv_wc_opcode>(9);
inline constexpr std::uint64_t qp_ex_with_atomic_write = 1u << 12;

/// A send work request in its slot. Scatter/gather list or inline bytes follow it in memory.
struct send_request
{
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint32_t immediate = 0; ///< network order; or the key to invalidate
  std::uint32_t rkey = 0;      ///< remote key; for a bind the window's new key
  std::uint64_t remote = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0; ///< of an atomic write: the bytes to write, since it began
  std::uint64_t length = 0;
  std::uint32_t elements = 0;
  std::uint32_t srq = 0; ///< XRC: the number of the peer's shared receive queue
  window_binding bind{};

  send_request* next_vacant = nullptr; ///< of a place that nobody is in

  // The requester's notes.
  std::uint32_t first_psn = 0;
  std::uint32_t frames = 0;
  std::uint64_t received = 0; ///< bytes of a read's response
  bool done = false;          ///< a local operation or a response has come to its end

  /// The peer answers it with data for the scatter/gather list.
  bool fetches() const noexcept
  {
    return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP
      || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_read_or_atomic() const noexcept { return fetches() || opcode == wr_atomic_write; }
  bool is_write() const noexcept
  {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool is_send() const noexcept
  {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM
      || opcode == IBV_WR_SEND_WITH_INV;
  }
  bool uses_receive() const noexcept { return is_send() || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
  bool is_local() const noexcept { return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV; }

  std::byte* inline_bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  const std::byte* inline_bytes() const noexcept
  {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
  ibv_sge* elements_begin() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  std::span<const ibv_sge> list() const noexcept
  {
    return {reinterpret_cast<const ibv_sge*>(this + 1), elements};
  }
};

/// A receive work request in its slot; its scatter list follows it.
struct receive_request
{
  std::uint64_t id = 0;
  std::uint64_t length = 0;
  std::uint32_t elements = 0;
  receive_request* next_vacant = nullptr; ///< of a place that nobody is in

  ibv_sge* elements_begin() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  std::span<const ibv_sge> list() noexcept { return {elements_begin(), elements}; }
};

/// A program's allocator for queues (ibv_alloc_parent_domain(3)).
struct queue_memory
{
  decltype(ibv_parent_domain_init_attr::alloc) allocate = nullptr;
  decltype(ibv_parent_domain_init_attr::free) deallocate = nullptr;
  ibv_pd* pd = nullptr;
  void* context = nullptr;
};

/// A ring of requests of fixed depth, each with bytes behind it.
/**
 * A request has a place from enter() to leave(), and the place that was left last is taken next. So
 * a queue's memory is that of the requests which it ever held at once, however deep it is, and
 * stays warm: 128 sends of 384 bytes on each of thousands of connections would be more than all the
 * rest of them. A program's allocator provides the places of all requests at once, as for a NIC.
 */
template <class Request>
class request_ring
{
public:
  /// For `depth` requests with `extra` bytes behind each. May throw std::bad_alloc. `from`: null,
  /// or the allocator of the program, which must outlive the ring.
  request_ring(std::uint32_t depth, std::size_t extra, const queue_memory* from = nullptr)
    : from_(from)
    , depth_(depth)
    , slots_(std::bit_ceil(std::uint64_t{depth}))
    , stride_((sizeof(Request) + extra + alignment - 1) / alignment * alignment)
    , places_(new Request*[slots_])
  {
    if (from_ != nullptr && !grow())
      throw std::bad_alloc();
  }
  request_ring(const request_ring&) = delete;
  request_ring& operator=(const request_ring&) = delete;

  ~request_ring()
  {
    while (chunks_ != nullptr)
    {
      chunk* const gone = std::exchange(chunks_, chunks_->next);
      if (gone->of_program)
        from_->deallocate(from_->pd, from_->context, gone, resource_type);
      else
        ::operator delete(gone, std::align_val_t{alignment});
    }
  }

  std::uint32_t depth() const noexcept { return depth_; }

  /// Sets the depth. Requests keep their places: [begin, end) are those in use, at most `depth`.
  /// Returns false if memory is short. The caller excludes all other calls.
  bool resize(std::uint32_t depth, std::uint64_t begin, std::uint64_t end) noexcept
  {
    const std::uint64_t slots = std::bit_ceil(std::uint64_t{depth});
    std::unique_ptr<Request*[]> places(new (std::nothrow) Request*[slots]);
    if (!places)
      return false;
    for (; begin != end; ++begin)
      places[begin & (slots - 1)] = &(*this)[begin];
    places_ = std::move(places);
    slots_ = slots;
    depth_ = depth;
    return true;
  }

  /// Returns a request that has been entered and has not left.
  Request& operator[](std::uint64_t index) noexcept { return *places_[index & (slots_ - 1)]; }

  /// Returns a place for the request `index`; null when memory is short. At most depth() requests
  /// have places.
  Request* enter(std::uint64_t index) noexcept
  {
    if (vacant_ == nullptr && !grow())
      return nullptr;
    Request* const r = vacant_;
    vacant_ = r->next_vacant;
    return places_[index & (slots_ - 1)] = r;
  }

  void leave(std::uint64_t index) noexcept
  {
    Request& r = (*this)[index];
    r.next_vacant = std::exchange(vacant_, &r);
  }

private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::uint64_t first_places = 4;
  static constexpr std::uint64_t resource_type = 0; // RDMA_DRIVER_UNKNOWN, and its only resource

  struct alignas(alignment) chunk
  {
    chunk* next;
    bool of_program;
  };

  // Doubles the number of places, so that a queue that is used to its depth rarely allocates.
  bool grow() noexcept
  {
    const std::uint64_t left = slots_ > made_ ? slots_ - made_ : 1;
    const std::uint64_t count =
      from_ != nullptr ? left : std::min(std::max(made_, first_places), left);
    const std::size_t size = sizeof(chunk) + count * stride_;
    void* memory = from_ != nullptr
      ? from_->allocate(from_->pd, from_->context, size, alignment, resource_type)
      : IBV_ALLOCATOR_USE_DEFAULT;
    const bool of_program = memory != IBV_ALLOCATOR_USE_DEFAULT;
    if (!of_program)
      memory = ::operator new(size, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr)
      return false;
    chunks_ = new (memory) chunk{chunks_, of_program};
    for (std::uint64_t i = count; i-- != 0;)
    {
      auto* const r = new (static_cast<std::byte*>(memory) + sizeof(chunk) + i * stride_) Request;
      r->next_vacant = std::exchange(vacant_, r);
    }
    made_ += count;
    return true;
  }

  const queue_memory* const from_;
  std::uint32_t depth_;
  std::uint64_t slots_;
  const std::size_t stride_;
  std::unique_ptr<Request*[]> places_; // of index & (slots_ - 1)
  Request* vacant_ = nullptr;
  chunk* chunks_ = nullptr;
  std::uint64_t made_ = 0;
};

/// The send queue: threads that post fill it, the requester empties it.
struct send_queue : request_ring<send_request>
{
  using request_ring::request_ring;

  short_lock mutex;                      ///< among those who post
  std::atomic<std::uint64_t> posted{0};  ///< requests below it belong to the requester
  std::atomic<std::uint64_t> retired{0}; ///< slots below it are free: their completion was polled
  std::uint64_t left = 0;                ///< of which those below it have been; under the mutex

  /// Frees the places of retired requests. The mutex is held.
  void take_back(std::uint64_t end) noexcept
  {
    for (; left != end; ++left)
      leave(left);
  }

  /// With the mutex held.
  void reset() noexcept
  {
    take_back(posted.load(std::memory_order_relaxed));
    left = 0;
    posted.store(0, std::memory_order_relaxed);
    retired.store(0, std::memory_order_relaxed);
  }
};

/// A receive queue, of a queue pair or shared: threads that post fill it, responders empty it.
struct receive_queue : request_ring<receive_request>
{
  using request_ring::request_ring;

  short_lock mutex;                     ///< among those who post; shared: also those who take
  std::atomic<std::uint64_t> posted{0}; ///< written under the mutex
  std::atomic<std::uint64_t> taken{0};  ///< written by the one thread that may take
  std::uint64_t left = 0;               ///< the places below it are free; under the mutex

  /// The queue was found empty, and the thread that posts serves the queue pair. Set under the
  /// mutex, so that a thread which posts later sees it.
  std::atomic<bool> awaited{false};

  /// Exact for the thread that may take, but other threads may post meanwhile.
  std::uint64_t size() const noexcept
  {
    return posted.load(std::memory_order_relaxed) - taken.load(std::memory_order_relaxed);
  }

  /// Returns the oldest request, for the thread that may take; null: there is none.
  receive_request* oldest() noexcept
  {
    const std::uint64_t first = taken.load(std::memory_order_relaxed);
    // acquire: the request has been written
    return posted.load(std::memory_order_acquire) != first ? &(*this)[first] : nullptr;
  }

  /// Removes the oldest request.
  void take() noexcept
  {
    // release: the request has been read before its place is used again
    taken.store(taken.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Frees the places of taken requests. Returns true if there is no place for another one. The
  /// mutex is held.
  bool is_full() noexcept
  {
    free_taken();
    return posted.load(std::memory_order_relaxed) - left >= depth();
  }

  /// Sets the depth of a shared queue, at least size(). The mutex is held. Returns false if memory
  /// is short.
  bool resize(std::uint32_t depth) noexcept
  {
    free_taken();
    return request_ring::resize(depth, left, posted.load(std::memory_order_relaxed));
  }

  /// With the mutex held, for the thread that may take.
  void reset() noexcept
  {
    for (const std::uint64_t end = posted.load(std::memory_order_relaxed); left != end; ++left)
      leave(left);
    left = 0;
    posted.store(0, std::memory_order_relaxed);
    taken.store(0, std::memory_order_relaxed);
    awaited.store(false, std::memory_order_relaxed);
  }

private:
  void free_taken() noexcept
  {
    for (const std::uint64_t end = taken.load(std::memory_order_acquire); left != end; ++left)
      leave(left);
  }
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP
