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
   * The initiating function allocates, writes and registers the memory of the new table, and blocks
   * its thread meanwhile: about 300 bytes for each entry of the capacity until now, if an entry has
   * 16 bytes. The old table remains, because reads of other processes may arrive late: together,
   * all old tables are smaller than the newest.
   *
   * Everybody who can read the map gets access::remote_read, access::remote_write and
   * access::remote_atomic for the new memory: its key is in the map, and no memory window limits
   * it. A map whose peers may only read it must not grow.
   *
   * If the operation ends with an error, the growth is not complete, and the map remains usable.
   * The next call goes on with it. After other errors than operation_aborted and
   * error::object_full, changes of one bucket may wait for that call.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li asio::error::already_started: the map is growing.
   * @li error::object_full: other processes have filled the new table meanwhile; erase entries, and
   * call async_grow() again. Or the table would have more than 2^31 buckets.
   * @li error::closed: the map was moved from.
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
  using buffers_type = typename base::buffers_type;

  struct state
  {
    std::list<memory_region> tables; // all but the first
    bool complete = true;
    std::weak_ptr<void> running; // valid while the map grows
  };

  struct growth : detail::objects::map_growth
  {
    explicit growth(map& owner)
      : progress(owner.state_)
    {
      if (!progress) // moved from
        fails = error::closed;
      else if (!progress->running.expired())
        fails = boost::asio::error::already_started;
      else if (progress->complete && !owner.add_table())
        fails = error::object_full;
      else
      {
        tables = owner.tables()->get();
        progress->running = running = std::make_shared<char>();
      }
    }

    detail::objects::step begin()
    {
      return running ? map_growth::begin(tables, from.all(), to.all())
                     : detail::objects::step::finish(fails);
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
      running.reset();
      return std::tuple<>();
    }

    std::shared_ptr<state> progress;
    error_code fails;
    detail::objects::map_tables tables;
    std::shared_ptr<void> running;
    buffers_type from;
    buffers_type to;
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
    this->tables()->set(tables); // all of whose entries are in the table before
    state_->complete = false;
    return true;
  }

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_MAP_HPP
