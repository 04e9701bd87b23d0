//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_ACCEPT_QUEUE_HPP
#define BOOST_RDMA_LIB_CONNECT_ACCEPT_QUEUE_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "completion/abandonable.hpp"
#include "completion/waiting_list.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rdma::detail {

// Operations of an acceptor that wait for a client, one list for each type of result, and accepted
// clients that wait for an operation. Acceptors derive from it, with Core as their interface, and
// protect their own state by the same mutex. Functions with a lock as a parameter require that
// mutex_ is held. A Client that is destroyed without release() closes its connection.
template <class Core, class Client, class... Results>
class accept_queue
  : public Core
  , public abandonable
  , public std::enable_shared_from_this<accept_queue<Core, Client, Results...>>
{
protected:
  using accepted = typename Client::result_type;
  using lock_type = std::unique_lock<std::mutex>;

public:
  [[nodiscard]] boost::asio::ip::tcp::endpoint local_endpoint() const override { return local_; }

  [[nodiscard]] bool is_open() const override
  {
    const lock_type lock(mutex_);
    return open_;
  }

  void accept(const boost::asio::any_io_executor& executor,
    boost::asio::any_completion_handler<void(error_code, accepted)> handler) override
  {
    start<accepted>(executor, std::move(handler));
  }

  void cancel() override
  {
    if (!process_.foreign())
      end_all(lock_type(mutex_), boost::asio::error::operation_aborted);
  }

  // Ends operations in a child process, where no thread accepts.
  void end_in_child() override
  {
    // A thread of the parent may have held the mutex. The operations then end with the io_context.
    lock_type lock(mutex_, std::try_to_lock);
    if (lock)
      end_all(std::move(lock), error::forked);
  }

protected:
  struct contents
  {
    std::tuple<waiting_list<Results>...> operations;
    std::list<Client> ready; // needs memory for its elements only, unlike std::deque
  };

  explicit accept_queue(std::size_t ready_max)
    : ready_max_(ready_max)
  {
  }

  // Called before an operation is added; may throw.
  virtual void on_adding(const lock_type&) {}

  // Called after the number of operations has changed.
  virtual void on_changed(const lock_type&) {}

  template <class Result>
  [[nodiscard]] std::size_t waiting(const lock_type&) const
  {
    return std::get<waiting_list<Result>>(contents_.operations).size();
  }

  // Starts an operation: it completes at once if a client is ready or the acceptor is closed.
  template <class Result>
  void start(const boost::asio::any_io_executor& executor,
    boost::asio::any_completion_handler<void(error_code, Result)> handler)
  {
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    waiting_handler<Result> operation(executor, std::move(handler));
    if (process_.foreign()) // before the mutex: a thread of the parent may have held it
      return std::move(operation).complete(error::forked, Result());
    lock_type lock(mutex_);
    if (!open_)
    {
      lock.unlock();
      return std::move(operation).complete(error::closed, Result());
    }
    if constexpr (std::is_same_v<Result, accepted>)
      if (std::optional<Client> ready = take_ready(lock))
      {
        lock.unlock();
        return std::move(operation).complete(error_code{}, ready->release());
      }
    on_adding(lock);
    const std::uint64_t number = ++last_number_;
    on_cancellation(
      slot, this->weak_from_this(), [number](accept_queue& self) { self.withdraw(number); });
    std::get<waiting_list<Result>>(contents_.operations).add(number, std::move(operation));
    on_changed(lock);
  }

  // Returns the number of clients that wait for an operation; fewer than ready_max can be added.
  [[nodiscard]] std::size_t ready(const lock_type&) const { return contents_.ready.size(); }

  template <class Result>
  [[nodiscard]] auto take_first(const lock_type&)
  {
    return std::get<waiting_list<Result>>(contents_.operations).take_front();
  }

  // Takes the client for the oldest operation or for the next one, unless the acceptor is closed or
  // has too many.
  void deliver(lock_type lock, Client& client)
  {
    if (!open_)
      return;
    auto operation = take_first<accepted>(lock);
    if (operation.empty())
    {
      if (contents_.ready.size() < ready_max_)
        contents_.ready.push_back(std::move(client));
      return;
    }
    on_changed(lock);
    lock.unlock();
    std::move(operation.front().handler).complete(error_code{}, client.release());
  }

  // Refuses further operations and returns the ready clients, to be closed without the mutex.
  [[nodiscard]] std::list<Client> close_queue(const lock_type&)
  {
    open_ = false;
    return std::exchange(contents_.ready, {});
  }

  // Refuses further operations and returns all contents, to be destroyed without the mutex:
  // destroying a handler may call this acceptor.
  [[nodiscard]] contents abandon_queue(const lock_type&) noexcept
  {
    open_ = false;
    return std::exchange(contents_, {});
  }

  const process_mark process_;
  mutable std::mutex mutex_;
  bool open_ = false;
  boost::asio::ip::tcp::endpoint local_; // does not change while open

private:
  std::optional<Client> take_ready(const lock_type&)
  {
    while (!contents_.ready.empty())
    {
      Client next = std::move(contents_.ready.front());
      contents_.ready.pop_front();
      if (next.is_connected()) // otherwise the client did not wait
        return next;
    }
    return std::nullopt;
  }

  void withdraw(std::uint64_t number)
  {
    complete(lock_type(mutex_), boost::asio::error::operation_aborted,
      [number](auto& list) { return list.take(number); });
  }

  void end_all(lock_type lock, const error_code& ec)
  {
    complete(std::move(lock), ec, [](auto& list) { return list.take_all(); });
  }

  template <class Take>
  void complete(lock_type lock, const error_code& ec, Take take)
  {
    auto ended =
      std::apply([&](auto&... lists) { return std::tuple(take(lists)...); }, contents_.operations);
    if (!process_.foreign()) // otherwise the acceptor's objects belong to the parent
      on_changed(lock);
    lock.unlock();
    std::apply(
      [&](auto&... lists) { (waiting_list<Results>::fail(std::move(lists), ec), ...); }, ended);
  }

  const std::size_t ready_max_;
  contents contents_;
  std::uint64_t last_number_ = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_ACCEPT_QUEUE_HPP
