//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_MAP_HPP
#define BOOST_RDMA_OBJECTS_MAP_HPP

#include <boost_rdma/detail/objects/map_growth.hpp>
#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_map.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <tuple>
#include <utility>

namespace rdma {

/// A hash table in memory of this process that peers read and change; see remote_map and owned.
/**
 * The owner can let it grow. Nobody else can, because the larger table is in other memory.
 *
 * @par Thread safety
 * As remote_map.
 */
template <class Key, class Value, class Executor = boost::asio::any_io_executor>
class map : public owned<remote_map<Key, Value, Executor>>
{
  using base = owned<remote_map<Key, Value, Executor>>;

public:
  /// The executor type, for handlers without an associated executor.
  using executor_type = Executor;

  /// Creates an empty map; see owned. The argument after the context is map_options.
  using base::base;

  /// Doubles the capacity.
  /**
   * All operations go on meanwhile. Lookups wait for nobody. Changes of a bucket that is being
   * moved wait until it has been moved, which takes about 20 round trips. Processes find the new
   * table when they meet a bucket that has moved; later lookups go there directly.
   *
   * Allocates and registers memory for the new table. The old one remains, because reads of other
   * processes may arrive late: together, all old tables are smaller than the newest. Anybody who
   * can read the map can read the keys of the new memory, which no memory window limits.
   *
   * If the operation ends with an error, the map remains usable, with two exceptions: changes of
   * one bucket may wait, and the growth is not complete. The next call goes on with it.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li asio::error::already_started: the map is growing.
   * @li error::object_full: other processes have filled the new table meanwhile, or it would have
   * more than 2^31 buckets.
   * @li the errors of remote_map.
   *
   * @par Exceptions
   * The initiating function throws system_error with the error of registering memory.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation with operation_aborted, between two buckets. The
   * next call goes on.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_grow(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return base::template initiate<void(error_code), CompletionToken>(
      token, [this] { return growth(*this); });
  }

private:
  using room = typename base::room;

  struct state
  {
    std::list<memory_region> tables; // all but the first
    detail::objects::map_tables growing;
    bool complete = true;
    std::weak_ptr<void> running; // valid while the map grows
  };

  struct growth : detail::objects::map_growth
  {
    explicit growth(map& owner)
      : shared(owner.tables())
      , progress(owner.state_)
    {
      if (!progress->running.expired())
        return;
      if (progress->complete && !owner.add_table())
        return;
      running = std::make_shared<char>();
      progress->running = running;
    }

    detail::objects::step begin()
    {
      if (running)
        return map_growth::begin(progress->growing, from.room(), to.room());
      return detail::objects::step::finish(progress->running.expired()
          ? error_code(error::object_full)
          : error_code(boost::asio::error::already_started));
    }
    detail::objects::step next(bool cancelled)
    {
      const auto then = map_growth::next(cancelled);
      if (then.what == detail::objects::step::action::finish && !then.ec)
        progress->complete = true;
      return then;
    }
    auto results()
    {
      if (running)
        shared->set(progress->growing);
      running.reset();
      return std::tuple<>();
    }

    typename base::shared_tables shared;
    std::shared_ptr<state> progress;
    std::shared_ptr<void> running;
    room from;
    room to;
  };

  // Returns false if the map is too large.
  bool add_table()
  {
    detail::objects::map_tables tables = this->tables()->get();
    detail::objects::map_table next = tables.current;
    next.shape.buckets *= 2;
    next.shape.blocks *= 2;
    if (!next.shape.is_valid())
      return false;
    memory_region memory = this->allocate(next.shape.size());
    detail::objects::encode_pending(
      next.shape, memory.template as_span<std::uint64_t>().first(next.shape.size() / 8));
    next.memory = this->remote_of(memory);
    state_->tables.push_back(std::move(memory));
    tables.previous = std::exchange(tables.current, next);
    state_->growing = tables;
    state_->complete = false;
    return true;
  }

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_MAP_HPP
