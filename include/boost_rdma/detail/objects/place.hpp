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

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace rdma::detail::objects {

// The place of an object: memory that the queue pair's peer exposes. Copies share registered memory
// for the reads of one operation at a time, which need no bounce buffer then.
class place
{
public:
  class use;

  place() = default;

  // `through` is null if the queue pair was moved from.
  place(std::shared_ptr<queue_pair_core> through, const remote_buffer& memory)
    : shared_(new state(std::move(through), memory))
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

private:
  struct state
  {
    // `users` counts in steps of `user`; the lowest bit tells whether one of them has the room.
    static constexpr std::size_t has_room = 1;
    static constexpr std::size_t user = 2;

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
          room = std::move(taken); // reads are copied without it
    }

    friend void intrusive_ptr_add_ref(state* to) noexcept
    {
      to->users.fetch_add(user, std::memory_order_relaxed);
    }
    friend void intrusive_ptr_release(state* from) noexcept { from->leave(user); }

    // Returns `user`, and `has_room` if no other operation has the room.
    [[nodiscard]] std::size_t enter() noexcept
    {
      std::size_t before = users.load(std::memory_order_relaxed);
      if ((before & has_room) == 0 && room.size() != 0
        && users.compare_exchange_strong(
          before, before + user + has_room, std::memory_order_acquire, std::memory_order_relaxed))
        return user + has_room;
      users.fetch_add(user, std::memory_order_relaxed);
      return user;
    }
    void leave(std::size_t entered) noexcept
    {
      if (users.fetch_sub(entered, std::memory_order_acq_rel) == entered)
        delete this;
    }

    std::shared_ptr<queue_pair_core> through;
    remote_buffer memory;
    registered_buffer room; // empty without memory
    std::atomic<std::size_t> users{0};
  };

  boost::intrusive_ptr<state> shared_;
};

// The use of a place by an operation. Takes the room if it is free, by one atomic change.
class place::use
{
public:
  explicit use(const place& of) noexcept
    : of_(of.shared_.get())
    , entered_(of_ != nullptr ? of_->enter() : 0)
  {
  }
  use(const use&) = delete;
  use& operator=(const use&) = delete;
  ~use()
  {
    if (of_ != nullptr)
      of_->leave(entered_);
  }

  [[nodiscard]] queue_pair_core* through() const noexcept
  {
    return of_ != nullptr ? of_->through.get() : nullptr;
  }
  [[nodiscard]] const remote_buffer& memory() const noexcept
  {
    static const remote_buffer none;
    return of_ != nullptr ? of_->memory : none;
  }
  // Registered memory of this operation. May be empty.
  [[nodiscard]] mutable_buffer room() const noexcept
  {
    return entered_ > state::user ? mutable_buffer(of_->room) : mutable_buffer();
  }

private:
  state* of_;
  std::size_t entered_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_PLACE_HPP
