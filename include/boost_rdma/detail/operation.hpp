//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OPERATION_HPP
#define BOOST_RDMA_DETAIL_OPERATION_HPP

#include <boost_rdma/buffer.hpp>
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
#include <vector>

namespace rdma {
class batch;
}

namespace rdma::detail {

class work_source;
struct window_impl;

enum class request_kind : std::uint8_t
{
  send,
  send_with_immediate,
  send_with_invalidate,
  write,
  write_with_immediate,
  read,
  fetch_add,
  compare_exchange,
  bind_window,
  invalidate,
  receive,
  batch,
};

// What is asked of the device, beside the local buffers.
struct request
{
  request_kind kind = request_kind::send;
  std::uint32_t immediate = 0; // or the key to invalidate
  remote_buffer remote{};
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  const rdma::batch* batch = nullptr;
  std::shared_ptr<window_impl> window{};
  access window_rights = access::local_read;
};

// Buffer sequences of more pieces than this are refused whatever the device's limit.
inline constexpr std::size_t sge_max = 32;

// A buffer sequence as views; what does not fit is noticed by overflow().
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

// A buffer sequence as an initiation keeps it until it is started: what use_awaitable puts into a
// coroutine frame. Asio recycles frames of up to 1 KiB, which a buffer_list would not leave room
// in.
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

// How an operation ended, for any kind of request.
struct outcome
{
  error_code ec;
  message received;        // receives; .size for everything that moves bytes
  std::uint64_t value = 0; // atomics: what was there before
  remote_buffer bound;     // windows
};

// An operation in its slot. The slot belongs to a work_source (a queue pair or a shared receive
// queue); the handler lies in `storage` or where its allocator put it. The function pointer knows
// the handler's type: it moves the handler out, gives the slot back and then, where `invoke` says
// so, calls the handler, directly when `in_context` says that this thread runs the I/O executor.
struct operation
{
  using complete_function = void (*)(operation*, bool invoke, bool in_context);

  enum class state : std::uint8_t
  {
    vacant,  // in the free list
    claimed, // an initiating function is filling it in
    waiting, // for room in the queue
    posted,  // the device has it
    flushed, // the device has let go of it, and the reason is to come
    done,    // waits for its handler to be called
  };

  static constexpr std::size_t storage_size = 256;

  // relaxed: `waiting`, `posted` and `flushed` come and go with the source's mutex held, and who
  // looks for those holds it; the others change where nobody else has the slot.
  [[nodiscard]] state stage() const noexcept { return stage_.load(std::memory_order_relaxed); }
  void stage(state entered) noexcept { stage_.store(entered, std::memory_order_relaxed); }

  // Tells this use of the slot from earlier and later ones. As above.
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
  ibv_sge* sges = nullptr;                // room for the source's max_sge
  registration** registrations = nullptr; // one a piece; null for plain inline data
  void** origins = nullptr; // where a piece's bytes are to be copied to at the end, or null
  std::size_t bytes = 0;
  std::uint32_t index = 0;
  std::uint32_t credits = 0; // work requests that it occupies in the queue
  std::uint16_t sge_count = 0;
  std::uint16_t cell = 0; // atomics: where in the queue pair's slab the old value arrives
  bool retains = false;   // the registrations
  bool bounced = false;   // some origin is not null
  bool at_once = false;   // the handler is the library's and waits for no other's
  std::vector<registration*>
    batch_registrations;                     // retained; the batch itself may be gone at the end
  std::atomic<std::uint16_t> next_vacant{0}; // see work_source::claim()
  alignas(std::max_align_t) std::byte storage[storage_size];

private:
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<state> stage_{state::vacant};
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_OPERATION_HPP
