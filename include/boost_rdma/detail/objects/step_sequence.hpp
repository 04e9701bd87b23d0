//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_STEP_SEQUENCE_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_STEP_SEQUENCE_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/detail/objects/place.hpp>
#include <boost_rdma/detail/objects/step.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace rdma::detail::objects {

// A handler that continues a step_sequence, which it owns together with others. If it is destroyed
// without a call, its io_context is being destroyed. Has the associations of the operation's
// handler, except for the cancellation slot: a step always ends.
template <class Sequence>
class continuation
{
public:
  continuation(Sequence* owner, std::size_t request) noexcept
    : owner_(owner)
    , request_(static_cast<std::uint32_t>(request))
  {
  }
  // Asio uses the allocator of a handler that it has moved from when the operation does not begin.
  continuation(continuation&& other) noexcept
    : owner_(other.owner_)
    , request_(other.request_)
    , owns_(std::exchange(other.owns_, false))
  {
  }
  continuation& operator=(continuation&&) = delete;
  ~continuation()
  {
    if (owns_ && owner_->release(1))
      owner_->remove();
  }

  // The end of a request.
  void operator()(const error_code& ec, std::uint64_t value)
  {
    owns_ = false;
    owner_->request_ended(request_, ec, value);
  }

  // The end of a pause.
  void operator()(const error_code& = {})
  {
    owns_ = false;
    owner_->ended();
  }

  [[nodiscard]] const auto& associated() const noexcept { return *owner_->associated_; }

private:
  Sequence* owner_;
  std::uint32_t request_;
  bool owns_ = true;
};

// Stands for handlers without associations.
struct unassociated
{
};

// The handler whose associations a sequence of steps has. Most have none, and share one type.
template <class Handler, class Executor>
using associated_handler = std::conditional_t<names_no_executor<Handler, Executor>
    && std::is_same_v<asio::associated_allocator_t<Handler>, std::allocator<void>>,
  unassociated, Handler>;

// Carries out the steps of an operation. The part of the operation that depends neither on its
// machine nor, mostly, on its handler, so that it is compiled once.
template <class Executor, class Associated>
class step_sequence
{
public:
  using associated_type = Associated;

  step_sequence(const step_sequence&) = delete;
  step_sequence& operator=(const step_sequence&) = delete;

protected:
  step_sequence(const place& where, const Executor& executor)
    : where_(where)
    , executor_(executor)
  {
  }
  ~step_sequence() = default; // only the deriving class destroys

  // Of the machine; see operation.
  virtual access_request request(std::size_t i) = 0;
  virtual void answered(std::size_t i, std::uint64_t was) = 0;
  virtual step next(bool cancelled) = 0;

  // Calls the handler after the last step, and destroys this object.
  virtual void finish() = 0;
  virtual void remove() noexcept = 0;

  // The handler must not be called here, even if there is nothing to wait for.
  void begin(const step& first)
  {
    if (first.what == step::action::finish)
      fail(first.ec);
    if (first.what == step::action::finish || perform(first))
      resume_later();
  }

  void cancel()
  {
    cancelled_.store(true, std::memory_order_relaxed);
    if (timer_)
      timer_->cancel();
  }

  [[nodiscard]] const error_code& end() const noexcept { return end_; }

  const Associated* associated_ = nullptr; // set by the deriving class

private:
  friend class continuation<step_sequence>;
  using continuation = objects::continuation<step_sequence>;

  // Returns true if the step has ended. The operation is then the caller's, and otherwise another
  // thread may already have destroyed it.
  bool perform(const step& next)
  {
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
    if (time == time.zero())
      return asio::post(executor_, std::move(then));
    if (!timer_)
      timer_ = std::make_unique<asio::steady_timer>(executor_);
    timer_->expires_after(time);
    timer_->async_wait(std::move(then));
  }

  void post(std::size_t i, continuation&& then)
  {
    const access_request what = request(i);
    const bool moves = what.kind == request_kind::read || what.kind == request_kind::write;
    const remote_buffer& memory = what.memory != nullptr ? *what.memory : where_.memory();
    detail::request posted{.kind = what.kind,
      .remote = memory.slice(what.offset, moves ? what.bytes.size() : sizeof(std::uint64_t))};
    work_source* const source = as_work_source(where_.through());
    if (!moves)
    {
      posted.compare_or_add = what.compare_or_add;
      posted.swap = what.swap;
      return start_operation<value_result>{source}(executor_, std::move(then), posted, no_data);
    }
    const_buffer to(what.bytes.data(), what.bytes.size(), what.registered);
    // Only request 0 uses the room, because it may end while the others are being posted.
    if (what.kind == request_kind::read && what.registered == nullptr && i == 0)
      if (const mutable_buffer room = where_.room(); what.bytes.size() <= room.size())
      {
        into_ = what.bytes.data();
        into_size_ = what.bytes.size();
        to = room.first(into_size_);
      }
    start_operation<bytes_result>{source}(executor_, std::move(then), posted, to);
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

  // Returns true if no owner is left. The last one needs no atomic change.
  bool release(std::size_t owners) noexcept
  {
    return owners_.load(std::memory_order_acquire) == owners
      || owners_.fetch_sub(owners, std::memory_order_acq_rel) == owners;
  }

  void request_ended(std::size_t i, const error_code& ec, std::uint64_t value)
  {
    if (ec)
      fail(ec);
    else
    {
      if (i == 0 && into_ != nullptr)
        std::memcpy(std::exchange(into_, nullptr), where_.room().data(), into_size_);
      answered(i, value);
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
      if (const step then = next_step(); then.what == step::action::finish)
      {
        if (then.ec)
          end_ = then.ec;
        break;
      }
      else if (!perform(then))
        return;
    finish();
  }

  step next_step()
  try
  {
    return next(cancelled_.load(std::memory_order_relaxed));
  }
  catch (const std::bad_alloc&)
  {
    return step::finish(make_error_code(boost::system::errc::not_enough_memory));
  }

  const place::use where_;
  Executor executor_;
  std::unique_ptr<asio::steady_timer> timer_; // most operations do not pause
  std::byte* into_ = nullptr;                 // destination of the read that uses the room
  std::atomic<std::size_t> owners_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic_flag has_end_;
  error_code end_;
  std::size_t into_size_ = 0; // not beside into_: stored together, both would wait for the machine
};

} // namespace rdma::detail::objects

template <template <class, class> class Associator, class Sequence, class Candidate>
struct boost::asio::associator<Associator, rdma::detail::objects::continuation<Sequence>, Candidate>
  : Associator<typename Sequence::associated_type, Candidate>
{
  using base = Associator<typename Sequence::associated_type, Candidate>;
  using wrapped_type = rdma::detail::objects::continuation<Sequence>;

  static typename base::type get(const wrapped_type& wrapped) noexcept
  {
    return base::get(wrapped.associated());
  }

  static auto get(const wrapped_type& wrapped, const Candidate& candidate) noexcept
    -> decltype(base::get(wrapped.associated(), candidate))
  {
    return base::get(wrapped.associated(), candidate);
  }
};

template <class Sequence, class Candidate>
struct boost::asio::associator<boost::asio::associated_cancellation_slot,
  rdma::detail::objects::continuation<Sequence>, Candidate>
{
  using type = Candidate;

  static type get(const rdma::detail::objects::continuation<Sequence>&) noexcept { return {}; }

  static type get(
    const rdma::detail::objects::continuation<Sequence>&, const Candidate& candidate) noexcept
  {
    return candidate;
  }
};

#endif // BOOST_RDMA_DETAIL_OBJECTS_STEP_SEQUENCE_HPP
