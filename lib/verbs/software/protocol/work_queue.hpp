//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP
#define BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace rdma::software::protocol {

/// What a bind asks for, by keys: the window and the region may be gone when its turn comes.
struct window_binding
{
  std::uint32_t window = 0; ///< the key that the window was allocated with
  std::uint32_t region = 0; ///< the region's local key
  unsigned access = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

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
  std::uint64_t swap = 0;
  std::uint64_t length = 0;
  std::uint32_t elements = 0;
  window_binding bind{};

  // The requester's notes.
  std::uint32_t first_psn = 0;
  std::uint32_t frames = 0;
  std::uint64_t received = 0; ///< bytes of a read's response
  bool done = false;          ///< a local operation or a response has come to its end

  bool is_read_or_atomic() const noexcept
  {
    return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_local() const noexcept
  {
    return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV;
  }

  std::byte* inline_bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  ibv_sge* elements_begin() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  std::span<const ibv_sge> list() noexcept { return {elements_begin(), elements}; }
};

/// A receive work request in its slot; its scatter list follows it.
struct receive_request
{
  std::uint64_t id = 0;
  std::uint64_t length = 0;
  std::uint32_t elements = 0;

  ibv_sge* elements_begin() noexcept { return reinterpret_cast<ibv_sge*>(this + 1); }
  std::span<const ibv_sge> list() noexcept { return {elements_begin(), elements}; }
};

/// A ring of slots of one size, numbered without end: slot i lies at i modulo its size.
template <class Request>
class request_ring
{
public:
  /// Memory for `depth` requests with `extra` bytes behind each. May throw std::bad_alloc.
  request_ring(std::uint32_t depth, std::size_t extra)
    : depth_(depth)
  {
    std::uint64_t slots = 1;
    while (slots < depth)
      slots *= 2;
    mask_ = slots - 1;
    stride_ = (sizeof(Request) + extra + 63) / 64 * 64;
    memory_.reset(new (std::align_val_t{64}) std::byte[slots * stride_]);
    for (std::uint64_t i = 0; i < slots; ++i)
      new (memory_.get() + i * stride_) Request;
  }

  std::uint32_t depth() const noexcept { return depth_; }

  Request& operator[](std::uint64_t index) noexcept
  {
    return *std::launder(reinterpret_cast<Request*>(memory_.get() + (index & mask_) * stride_));
  }

private:
  struct deleter
  {
    void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
  };

  std::uint32_t depth_;
  std::uint64_t mask_ = 0;
  std::size_t stride_ = 0;
  std::unique_ptr<std::byte[], deleter> memory_;
};

/// The send queue: filled by those who post, emptied by the requester.
struct send_queue : request_ring<send_request>
{
  using request_ring::request_ring;

  std::mutex mutex;                     ///< among those who post
  std::atomic<std::uint64_t> posted{0}; ///< requests below it belong to the requester
  std::atomic<std::uint64_t> retired{0}; ///< slots below it are free: their completion was polled

  void reset() noexcept
  {
    posted.store(0, std::memory_order_relaxed);
    retired.store(0, std::memory_order_relaxed);
  }
};

/// A receive queue, of a queue pair or shared: filled by those who post, emptied by responders.
struct receive_queue : request_ring<receive_request>
{
  using request_ring::request_ring;

  std::mutex mutex;
  std::uint64_t posted = 0; ///< under the mutex
  std::uint64_t taken = 0;  ///< under the mutex
};

} // namespace rdma::software::protocol

#endif // BOOST_RDMA_LIB_VERBS_SOFTWARE_PROTOCOL_WORK_QUEUE_HPP
