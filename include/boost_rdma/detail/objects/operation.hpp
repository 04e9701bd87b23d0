//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP

#include <boost_rdma/detail/initiate.hpp>
#include <boost_rdma/detail/objects/place.hpp>
#include <boost_rdma/detail/objects/step.hpp>
#include <boost_rdma/detail/objects/step_sequence.hpp>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma::detail::objects {

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
class operation final : step_sequence<Executor, associated_handler<Handler, Executor>>
{
  using base = step_sequence<Executor, associated_handler<Handler, Executor>>;

public:
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
      self->base::begin(self->machine_.begin());
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

  template <class Make, class H>
  operation(const place& where, const Executor& executor, Make& make, H&& handler)
    : base(where, executor)
    , machine_(make())
    , handler_(std::forward<H>(handler))
  {
    if constexpr (std::is_same_v<typename base::associated_type, Handler>)
      this->associated_ = &handler_;
    else
    {
      static constexpr unassociated none;
      this->associated_ = &none;
    }
  }

  void connect_cancellation()
  {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected())
      slot.assign(
        [this](asio::cancellation_type type)
        {
          if (type != asio::cancellation_type::none)
            this->cancel();
        });
  }

  void disconnect_cancellation()
  {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected())
      slot.clear();
  }

  access_request request(std::size_t i) override { return machine_.request(i); }
  void answered(std::size_t i, std::uint64_t was) override { machine_.answered(i, was); }
  step next(bool cancelled) override { return machine_.next(cancelled); }

  // Exceptions are the handler's.
  void finish() override
  {
    disconnect_cancellation();
    auto arguments = std::tuple_cat(std::make_tuple(this->end()), machine_.results());
    Handler handler(std::move(handler_));
    remove(handler);
    std::apply(std::move(handler), std::move(arguments));
  }

  void remove() noexcept override { remove(handler_); }

  void remove(const Handler& handler) noexcept
  {
    allocator_type allocator(handler_allocator(handler));
    this->~operation();
    std::allocator_traits<allocator_type>::deallocate(allocator, this, 1);
  }

  Machine machine_;
  Handler handler_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_OPERATION_HPP
