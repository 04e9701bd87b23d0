//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/detail/objects/step.hpp>
#include <boost_rdma/detail/queue_pair_handle.hpp>
#include <boost_rdma/registered_buffer.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <tuple>
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

// A handler that continues an operation, which it owns together with others. If it is destroyed
// without a call, its io_context is being destroyed. Has the associations of the operation's
// handler, except for the cancellation slot: a step always ends.
template <class Operation>
class continuation
{
public:
  continuation(Operation* owner, std::size_t request) noexcept
    : owner_(owner)
    , request_(request)
  {
  }
  continuation(continuation&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr))
    , request_(other.request_)
  {
  }
  continuation& operator=(continuation&&) = delete;
  ~continuation()
  {
    if (owner_ != nullptr && owner_->release(1))
      owner_->remove();
  }

  // The end of a request.
  void operator()(const error_code& ec, std::uint64_t value)
  {
    std::exchange(owner_, nullptr)->answered(request_, ec, value);
  }

  // The end of a pause.
  void operator()(const error_code& = {}) { std::exchange(owner_, nullptr)->ended(); }

  [[nodiscard]] const auto& handler() const noexcept { return owner_->handler_; }

private:
  Operation* owner_;
  std::size_t request_;
};

// An operation on a remote object: carries out the steps of `Machine`, then calls the handler.
/* A Machine has:
 *   step begin();                                     first step, called once
 *   access_request request(std::size_t i);            request number i of the step
 *   void answered(std::size_t i, std::uint64_t was);  an atomic's previous value, for each i
 *   step next(bool cancelled);                        after the step, without an error
 *   auto results();                                   a tuple of the handler's other arguments
 * Calls of answered() with different i may be concurrent. Only next() may throw std::bad_alloc when
 * the operation has begun: the others allocate no memory. */
template <class Machine, class Handler, class Executor>
class operation
{
public:
  using handler_type = Handler;

  // `make` returns the machine. Throws what an initiating function throws; no handler is called
  // then.
  template <class Make, class H>
  static void start(const place& where, const Executor& executor, Make& make, H&& handler)
  {
    allocator_type allocator(handler_allocator(handler));
    operation* room = std::allocator_traits<allocator_type>::allocate(allocator, 1);
    operation* self = nullptr;
    try
    {
      self =
        ::new (static_cast<void*>(room)) operation(where, executor, make, std::forward<H>(handler));
    }
    catch (...)
    {
      std::allocator_traits<allocator_type>::deallocate(allocator, room, 1);
      throw;
    }
    try
    {
      self->connect_cancellation();
      self->begin();
    }
    catch (...)
    {
      self->disconnect_cancellation();
      self->remove();
      throw;
    }
  }

private:
  using allocator_type =
    typename std::allocator_traits<handler_allocator_t<Handler>>::template rebind_alloc<operation>;

  friend class continuation<operation>;
  using continuation = objects::continuation<operation>;

  template <class Make, class H>
  operation(const place& where, const Executor& executor, Make& make, H&& handler)
    : where_(where)
    , executor_(executor)
    , machine_(make())
    , handler_(std::forward<H>(handler))
  {
  }

  void connect_cancellation()
  {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected())
      slot.assign(
        [this](asio::cancellation_type type)
        {
          if (type == asio::cancellation_type::none)
            return;
          cancelled_.store(true, std::memory_order_relaxed);
          if (timer_)
            timer_->cancel();
        });
  }

  void disconnect_cancellation()
  {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected())
      slot.clear();
  }

  // The handler must not be called here, even if there is nothing to wait for.
  void begin()
  {
    if (perform(machine_.begin()))
      resume_later();
  }

  // Returns true if the step has ended. The operation is then the caller's, and otherwise another
  // thread may already have destroyed it.
  bool perform(const step& next)
  {
    if (next.what == step::action::finish)
    {
      fail(next.ec);
      return true;
    }
    const bool pauses = next.what == step::action::pause;
    const std::size_t count = pauses ? 1 : next.requests;
    // The caller is an owner, too, because all others may end on other threads meanwhile.
    owners_.store(count + 1, std::memory_order_relaxed);
    std::size_t started = 0;
    try
    {
      for (; started != count; ++started)
        if (continuation then(this, started); pauses)
          wait(next.pause, std::move(then));
        else
          post(started, std::move(then));
    }
    catch (const std::bad_alloc&)
    {
      fail(make_error_code(boost::system::errc::not_enough_memory));
      ++started; // its continuation has been destroyed
    }
    return release(count - started + 1);
  }

  void wait(std::chrono::microseconds time, continuation&& then)
  {
    if (!timer_)
      timer_.emplace(executor_);
    timer_->expires_after(time);
    timer_->async_wait(std::move(then));
  }

  void post(std::size_t i, continuation&& then)
  {
    const access_request what = machine_.request(i);
    const bool moves = what.kind == request_kind::read || what.kind == request_kind::write;
    const remote_buffer& memory = what.memory != nullptr ? *what.memory : where_.memory();
    const detail::request posted{.kind = what.kind,
      .remote = memory.slice(what.offset, moves ? what.bytes.size() : sizeof(std::uint64_t)),
      .compare_or_add = what.compare_or_add,
      .swap = what.swap};
    work_source* const source = as_work_source(where_.through());
    if (!moves)
      return start_operation<value_result>{source}(executor_, std::move(then), posted, no_data);
    const const_buffer named(what.bytes.data(), what.bytes.size(), what.registered);
    // Only request 0 uses the room, because it may end while the others are being posted.
    start_operation<bytes_result>{source}(executor_, std::move(then), posted,
      what.kind == request_kind::read && what.registered == nullptr && i == 0
          && take_room(what.bytes)
        ? const_buffer(where_.room()->first(what.bytes.size()))
        : named);
  }

  // Returns true if the bytes of the read arrive in the read_room.
  bool take_room(std::span<std::byte> bytes) noexcept
  {
    read_room* const room = where_.room();
    if (room == nullptr || !room->take(bytes.size()))
      return false;
    into_ = bytes;
    return true;
  }

  void leave_room() noexcept
  {
    if (into_.empty())
      return;
    std::memcpy(into_.data(), where_.room()->first(into_.size()).data(), into_.size());
    into_ = {};
    where_.room()->release();
  }

  // The caller is an owner, too: if post() throws, it still has the operation. If the posted
  // function runs before the caller's release, it does nothing, and another is posted.
  void resume_later()
  {
    do
    {
      owners_.store(2, std::memory_order_relaxed);
      asio::post(executor_, continuation(this, 0));
    } while (release(1));
  }

  // Returns true if no owner is left.
  bool release(std::size_t owners) noexcept
  {
    return owners_.fetch_sub(owners, std::memory_order_acq_rel) == owners;
  }

  void answered(std::size_t i, const error_code& ec, std::uint64_t value)
  {
    if (ec)
      fail(ec);
    else
    {
      if (i == 0)
        leave_room();
      machine_.answered(i, value);
    }
    ended();
  }

  // The end of a request or a pause.
  void ended()
  {
    if (release(1))
      resume();
  }

  // The first error of a step is the cause of the others.
  void fail(const error_code& ec) noexcept
  {
    if (!has_end_.test_and_set(std::memory_order_relaxed))
      end_ = ec;
  }

  void resume()
  {
    while (!has_end_.test(std::memory_order_relaxed))
      if (!perform(next()))
        return;
    finish();
  }

  step next()
  try
  {
    return machine_.next(cancelled_.load(std::memory_order_relaxed));
  }
  catch (const std::bad_alloc&)
  {
    return step::finish(make_error_code(boost::system::errc::not_enough_memory));
  }

  // Exceptions are the handler's.
  void finish()
  {
    disconnect_cancellation();
    auto arguments = std::tuple_cat(std::make_tuple(end_), machine_.results());
    Handler handler(std::move(handler_));
    remove(handler);
    std::apply(std::move(handler), std::move(arguments));
  }

  void remove() { remove(handler_); }

  // The destination of a read that has not ended may be gone.
  void remove(const Handler& handler) noexcept
  {
    if (!into_.empty())
      where_.room()->release();
    allocator_type allocator(handler_allocator(handler));
    this->~operation();
    std::allocator_traits<allocator_type>::deallocate(allocator, this, 1);
  }

  const place where_;
  Executor executor_;
  Machine machine_;
  Handler handler_;
  std::optional<asio::steady_timer> timer_;
  std::span<std::byte> into_; // destination of the read that uses the read_room
  std::atomic<std::size_t> owners_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic_flag has_end_;
  error_code end_;
};

} // namespace rdma::detail::objects

template <template <class, class> class Associator, class Operation, class Candidate>
struct boost::asio::associator<Associator, rdma::detail::objects::continuation<Operation>,
  Candidate> : Associator<typename Operation::handler_type, Candidate>
{
  using base = Associator<typename Operation::handler_type, Candidate>;
  using wrapped_type = rdma::detail::objects::continuation<Operation>;

  static typename base::type get(const wrapped_type& wrapped) noexcept
  {
    return base::get(wrapped.handler());
  }

  static auto get(const wrapped_type& wrapped, const Candidate& candidate) noexcept
    -> decltype(base::get(wrapped.handler(), candidate))
  {
    return base::get(wrapped.handler(), candidate);
  }
};

template <class Operation, class Candidate>
struct boost::asio::associator<boost::asio::associated_cancellation_slot,
  rdma::detail::objects::continuation<Operation>, Candidate>
{
  using type = Candidate;

  static type get(const rdma::detail::objects::continuation<Operation>&) noexcept { return {}; }

  static type get(
    const rdma::detail::objects::continuation<Operation>&, const Candidate& candidate) noexcept
  {
    return candidate;
  }
};

#endif // BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP
