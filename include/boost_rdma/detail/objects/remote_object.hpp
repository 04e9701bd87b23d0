//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_REMOTE_OBJECT_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_REMOTE_OBJECT_HPP

#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>
#include <boost_rdma/detail/objects/header.hpp>
#include <boost_rdma/detail/objects/operation.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma::detail::objects {

/// Common base of the objects in a peer's memory.
template <class Executor>
class remote_object
{
public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Returns the executor of the queue pair through which the object is accessed.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Returns the memory of the object.
  [[nodiscard]] const remote_buffer& memory() const noexcept { return where_.memory(); }

protected:
  /// @cond
  // A move copies: an operation of the source still needs the executor, for its handler.
  remote_object(const remote_object&) = default;
  remote_object& operator=(const remote_object&) = default;

  // Rights that rdma::owned gives to peers in addition to those to read and to do atomics.
  static constexpr access more_rights{};

  remote_object(const Executor& executor, place where)
    : executor_(executor)
    , where_(std::move(where))
  {
  }

  // Starts an operation. `make` makes its machine when the token starts it.
  template <class Signature, class CompletionToken, class Make>
  auto initiate(std::remove_reference_t<CompletionToken>& token, Make make) const
  {
    // As that of a socket, the initiation refers to the I/O object.
    return run<Signature, CompletionToken>(executor_, std::cref(where_), token, std::move(make));
  }

  template <class Signature, class CompletionToken, class Place, class Make>
  static auto run(const Executor& through, const Place& where,
    std::remove_reference_t<CompletionToken>& token, Make make)
  {
    return asio::async_initiate<CompletionToken, Signature>(
      initiation(through,
        [where, make = std::move(make)](const auto& executor, auto&& handler) mutable
        {
          using machine = std::invoke_result_t<Make>;
          operation<machine, std::decay_t<decltype(handler)>, Executor>::start(
            where, executor, make, std::forward<decltype(handler)>(handler));
        }),
      token);
  }

  // Starts open_object or another machine that makes an object of `size` bytes. Object befriends
  // this class.
  template <class Object, class Machine, class CompletionToken, class Make>
  static auto make(const basic_queue_pair<Executor>& peer, const remote_buffer& memory,
    std::size_t size, CompletionToken& token, Make make_machine)
  {
    const place where{peer.core(), memory.first(size)};
    return run<void(error_code, Object), CompletionToken>(peer.get_executor(), where, token,
      [executor = peer.get_executor(), where, make_machine = std::move(make_machine)]
      { return making<Object, Machine>(make_machine(), Object(executor, where)); });
  }

  // Such a machine with the object as its result.
  template <class Object, class Machine>
  struct making : Machine
  {
    making(Machine machine, Object object)
      : Machine(std::move(machine))
      , made(std::move(object))
    {
    }

    auto results()
    {
      made.take(static_cast<Machine&>(*this));
      return std::make_tuple(std::move(made));
    }

    Object made;
  };

  // Takes what the machine has found in the object's memory.
  template <class Machine>
  void take(const Machine&) noexcept
  {
  }

  Executor executor_;
  place where_;
  /// @endcond
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_REMOTE_OBJECT_HPP
