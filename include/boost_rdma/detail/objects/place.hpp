//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_PLACE_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_PLACE_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/queue_pair_handle.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/remote_buffer.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace rdma::detail::objects {

// Registered memory for one read at a time. Reads into it need no bounce buffer.
class read_room
{
public:
  explicit read_room(registered_buffer memory) noexcept
    : memory_(std::move(memory))
  {
  }

  // Returns false if the room is in use or too small.
  [[nodiscard]] bool take(std::size_t size) noexcept
  {
    return size <= memory_.size() && !taken_.test_and_set(std::memory_order_acquire);
  }
  void release() noexcept { taken_.clear(std::memory_order_release); }

  [[nodiscard]] mutable_buffer first(std::size_t size) const noexcept
  {
    return memory_.first(size);
  }

private:
  registered_buffer memory_;
  std::atomic_flag taken_;
};

// The place of an object: memory that the queue pair's peer exposes. Copies share the read_room.
class place
{
public:
  place() = default;

  // `through` is null if the queue pair was moved from.
  place(std::shared_ptr<queue_pair_core> through, const remote_buffer& memory)
    : shared_(std::make_shared<state>(std::move(through), memory))
  {
  }

  [[nodiscard]] queue_pair_core* through() const noexcept
  {
    return shared_ ? shared_->through.get() : nullptr;
  }
  [[nodiscard]] const remote_buffer& memory() const noexcept
  {
    static const remote_buffer none;
    return shared_ ? shared_->memory : none;
  }
  [[nodiscard]] read_room* room() const noexcept
  {
    return shared_ && shared_->room ? &*shared_->room : nullptr;
  }

private:
  struct state
  {
    state(std::shared_ptr<queue_pair_core> by, const remote_buffer& at)
      : through(std::move(by))
      , memory(at)
    {
      constexpr std::size_t room_max = 8192;
      error_code ec;
      const auto room_size =
        static_cast<std::size_t>(std::min<std::uint64_t>(memory.size(), room_max));
      if (through && room_size != 0)
        if (registered_buffer taken = context_of(*through).allocate(room_size, ec); !ec)
          room.emplace(std::move(taken)); // reads are copied without it
    }

    std::shared_ptr<queue_pair_core> through;
    remote_buffer memory;
    std::optional<read_room> room;
  };

  std::shared_ptr<state> shared_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_PLACE_HPP
