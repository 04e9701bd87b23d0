//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OPERATION_HPP
#define BOOST_RDMA_DETAIL_OPERATION_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/request_kind.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/message.hpp>
#include <boost_rdma/remote_buffer.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace rdma {
class batch;
}

namespace rdma::detail {

class work_source;
struct batch_requests;
struct window_impl;

// A request to the device, without the local buffers.
struct request
{
  request_kind kind = request_kind::send;
  std::uint32_t immediate = 0; // or the key to invalidate, or of the window being bound
  remote_buffer remote{};
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  const rdma::batch* batch = nullptr; // until the initiating function returns
  access window_rights = access::local_read;
};
static_assert(std::is_trivially_copyable_v<request>); // it is copied several times

// Limit of buffers in a sequence, regardless of the device's limit.
inline constexpr std::size_t sge_max = 32;

// A buffer sequence as views; overflow() returns true if it has more than sge_max buffers.
class buffer_list
{
public:
  template <const_buffer_sequence Buffers>
  explicit buffer_list(const Buffers& buffers)
  {
    if constexpr (std::same_as<Buffers, no_data_t>)
      no_data_ = true;
    else if constexpr (std::convertible_to<const Buffers&, const_buffer>)
      buffers_.push_back(buffers);
    else
      for (const const_buffer buffer : buffers)
      {
        if (buffers_.size() == sge_max)
        {
          overflow_ = true;
          return;
        }
        buffers_.push_back(buffer);
      }
  }

  [[nodiscard]] const const_buffer* begin() const noexcept { return buffers_.data(); }
  [[nodiscard]] const const_buffer* end() const noexcept
  {
    return buffers_.data() + buffers_.size();
  }
  [[nodiscard]] std::size_t size() const noexcept { return buffers_.size(); }
  [[nodiscard]] bool overflow() const noexcept { return overflow_; }
  [[nodiscard]] bool no_data() const noexcept { return no_data_; }

private:
  boost::container::static_vector<const_buffer, sge_max> buffers_;
  bool overflow_ = false;
  bool no_data_ = false;
};

// The form of a buffer sequence that an initiation stores until it starts; use_awaitable stores it
// in the coroutine frame. Asio recycles frames of up to 1 KiB, and a buffer_list would exceed that.
template <const_buffer_sequence Buffers>
auto kept_buffers(const Buffers& buffers)
{
  if constexpr (std::same_as<Buffers, no_data_t>)
    return buffers;
  else if constexpr (std::convertible_to<const Buffers&, const_buffer>)
    return static_cast<const_buffer>(buffers);
  else
    return buffer_list(buffers);
}

template <class T, std::size_t N>
  requires(N <= 8 && const_buffer_sequence<std::array<T, N>>)
std::array<const_buffer, N> kept_buffers(const std::array<T, N>& buffers)
{
  std::array<const_buffer, N> kept;
  std::copy(buffers.begin(), buffers.end(), kept.begin());
  return kept;
}

inline const buffer_list& as_list(const buffer_list& list) noexcept
{
  return list;
}

template <const_buffer_sequence Buffers>
buffer_list as_list(const Buffers& buffers)
{
  return buffer_list(buffers);
}

// Result of an operation of any kind.
struct outcome
{
  error_code ec;
  message received;        // receives; .size for all operations that transfer bytes
  std::uint64_t value = 0; // atomics: the previous value
  remote_buffer bound;     // windows
};

// An operation in its slot. The slot belongs to a work_source (a queue pair or a shared receive
// queue). The handler is in `storage` or in memory of its allocator. `complete` points to a
// function for the handler's type: it moves the handler out, releases the slot and then, if
// `invoke`, calls the handler. It calls it directly if `in_context`, which means that this thread
// runs the I/O executor.
struct operation
{
  using complete_function = void (*)(operation*, bool invoke, bool in_context);

  enum class state : std::uint8_t
  {
    vacant,  // in the free list
    claimed, // being filled by an initiating function
    waiting, // for space in the device's queue
    posted,  // to the device
    flushed, // released by the device; the reason is not known yet
    done,    // waiting for the call of its handler
  };

  static constexpr std::size_t storage_size = 256;

  // relaxed: `waiting`, `posted` and `flushed` are entered and left with the source's mutex held,
  // and readers that test for them hold it, too. The other states change while no other thread uses
  // the slot.
  [[nodiscard]] state stage() const noexcept { return stage_.load(std::memory_order_relaxed); }
  void stage(state entered) noexcept { stage_.store(entered, std::memory_order_relaxed); }

  // Distinguishes this use of the slot from earlier and later ones. relaxed: see stage().
  [[nodiscard]] std::uint32_t generation() const noexcept
  {
    return generation_.load(std::memory_order_relaxed);
  }
  void generation(std::uint32_t use) noexcept { generation_.store(use, std::memory_order_relaxed); }

  complete_function complete = nullptr;
  void* handler = nullptr;
  work_source* source = nullptr;
  operation* next = nullptr;
  operation* previous = nullptr;
  outcome result;
  request what;
  std::shared_ptr<window_impl> window;    // of a bind
  ibv_sge* sges = nullptr;                // space for the source's max_sge
  registration** registrations = nullptr; // one for each SGE; null for plain inline data
  void** origins = nullptr;               // destination of an SGE's bytes after completion, or null
  std::size_t bytes = 0;
  std::uint32_t index = 0;
  std::uint32_t credits = 0;  // number of its work requests in the queue
  std::uint32_t unposted = 1; // number of its work requests that the device does not have yet
  std::uint32_t part = 1;     // number of work requests that are posted together
  std::uint16_t sge_count = 0;
  std::uint16_t atomic_result = 0; // index in the queue pair's atomic_results_
  bool retains = false;            // true if `registrations` hold references
  bool holds = false;              // true if the end must release something: see work_source
  bool bounced = false;            // true if at least one origin is not null
  bool at_once = false; // true for the library's handlers, which no program's handler may delay
  // Holds references. The batch itself may be destroyed before the end.
  std::vector<registration*> batch_registrations;
  std::unique_ptr<batch_requests> kept; // of a batch that waits or is posted in parts; may be null
  std::atomic<std::uint16_t> next_vacant{0}; // see work_source::claim()
  alignas(std::max_align_t) std::byte storage[storage_size];

private:
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<state> stage_{state::vacant};
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_OPERATION_HPP
