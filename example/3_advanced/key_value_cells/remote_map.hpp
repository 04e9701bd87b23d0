//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_REMOTE_MAP_HPP
#define BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_REMOTE_MAP_HPP

#include "cell.hpp"

#include <boost_rdma/queue_pair.hpp>
#include <boost_rdma/remote_memory.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace key_value_cells {

namespace asio = boost::asio;
using asio::use_awaitable;

/// Keys and values of one client, in memory of the peer's whose processor takes no part.
/**
 * Which key is in which cell this side keeps to itself. Any number of coroutines may use the map at
 * once, all on one thread or strand; it has to outlive them.
 *
 * The rule. A read or write of more than 8 bytes is not atomic: a get that meets a put may see some
 * of the old value and some of the new. Each cell has a version for that, which is odd while the
 * cell is being written:
 *
 *   put:  the version, from even to odd; the entry; the version, to the next even number.
 *   get:  the version, which has to be even; the entry; the version, which has to be the same.
 *         Else once more.
 *
 * Each step begins when the one before has completed. A put that ends half-way (an exception, a
 * cancellation) leaves the version odd, and whoever has the table afterwards sees that.
 *
 * What a reliable connection promises: what completed was carried out; writes and atomics are, once
 * and in order. What it does not:
 * - that a read is over when a later write begins: the write may overtake it (IBA 10.8.3.3, without
 * a fence), and a read whose answer was lost is carried out again, behind writes that came after
 * it. So a get is not safe from puts on its own connection, either.
 * - that the bytes of one operation are moved in order: the version cannot travel together with the
 * entry.
 * - on iWARP, that a write is in place when it has completed, or before the next one is: when a
 * read behind it has been answered it is (RFC 5040 5.5).
 *
 * 8 bytes at a multiple of 8 are moved as a whole. No specification says so, but NICs do it.
 *
 * Two puts to one cell have to exclude each other. Compare-exchange on the version does that
 * whoever they are: the same steps would do for memory that the peer lends to several clients
 * (async_lend()). It is atomic for other atomics alone (IBV_ATOMIC_HCA), so nothing but atomics
 * changes the version then. Without the right to do atomics (iWARP has none) the map has to be the
 * only writer, as the holder of a lease is.
 */
class remote_map
{
public:
  /// @param memory Zeroed; stays leased for as long as the map is used. As many cells as it has
  /// room for.
  remote_map(rdma::queue_pair& peer, rdma::remote_memory memory)
    : peer_(peer)
    , memory_(std::move(memory))
    , by_atomics_(rdma::permits(memory_.rights(), rdma::access::remote_atomic))
    , versions_(memory_.size() / sizeof(cell))
  {
    for (std::size_t at = versions_.size(); at != 0; --at)
      free_.push_back(at - 1);
  }

  // Coroutines refer to the map.
  remote_map(const remote_map&) = delete;
  remote_map& operator=(const remote_map&) = delete;

  asio::awaitable<void> put(std::string key, std::string value)
  {
    if (key.empty())
      throw std::invalid_argument("a key is empty");
    const entry wanted{field_of<key_size_max>(key), field_of<value_size_max>(value)};
    for (bool done = false; !done;)
    {
      const std::size_t at = cell_for(key);
      co_await lock(at);
      done = is_at(key, at); // or it was erased while this waited
      if (done)
        co_await write(at, wanted);
      co_await unlock(at);
    }
  }

  /// Nothing where there is no such key, or its first put has not completed.
  asio::awaitable<std::optional<std::string>> get(std::string key)
  {
    for (int attempt = 0; attempt != attempts_max; ++attempt)
    {
      const auto found = index_.find(key);
      if (found == index_.end())
        co_return std::nullopt;
      const std::size_t at = found->second;
      const std::uint64_t before = co_await version(at);
      if (before % 2 == 0)
      {
        const entry seen = co_await read(at);
        if (co_await version(at) == before)
        {
          // The cell may have been another key's before, and another's since.
          if (text_of(seen.key) != key)
            co_return std::nullopt;
          co_return text_of(seen.value);
        }
      }
      ++repeats_;
    }
    throw std::runtime_error("a cell is being written all the time, or was left half-way: " + key);
  }

  /// False where there is no such key.
  asio::awaitable<bool> erase(std::string key)
  {
    for (auto found = index_.find(key); found != index_.end(); found = index_.find(key))
    {
      const std::size_t at = found->second;
      co_await lock(at);
      const bool still = is_at(key, at);
      if (still)
      {
        co_await write(at, entry());
        index_.erase(key);
      }
      co_await unlock(at);
      if (still)
      {
        free_.push_back(at);
        co_return true;
      }
    }
    co_return false;
  }

  [[nodiscard]] const rdma::remote_memory& memory() const noexcept { return memory_; }

  /// Gives up the memory, with what is in it. The map is not to be used any more.
  [[nodiscard]] rdma::remote_memory take_memory() noexcept { return std::move(memory_); }

  /// Reads that had to be done once more because a put came between.
  [[nodiscard]] std::uint64_t repeats() const noexcept { return repeats_; }
  [[nodiscard]] bool by_atomics() const noexcept { return by_atomics_; }

private:
  static constexpr int attempts_max = 10'000;
  static constexpr std::chrono::microseconds lock_pause{200};

  [[nodiscard]] rdma::remote_buffer version_at(std::size_t at) const
  {
    return memory_.elements<cell>(at).first(sizeof(cell::version));
  }
  [[nodiscard]] rdma::remote_buffer entry_at(std::size_t at) const
  {
    return memory_.elements<cell>(at).slice(offsetof(cell, content));
  }

  [[nodiscard]] bool is_at(const std::string& key, std::size_t at) const
  {
    const auto found = index_.find(key);
    return found != index_.end() && found->second == at;
  }

  std::size_t cell_for(const std::string& key)
  {
    if (const auto found = index_.find(key); found != index_.end())
      return found->second;
    if (free_.empty())
      throw std::length_error("no cell is free for " + key);
    const std::size_t at = free_.back();
    index_.emplace(key, at);
    free_.pop_back();
    return at;
  }

  asio::awaitable<void> lock(std::size_t at)
  {
    asio::steady_timer pause(co_await asio::this_coro::executor);
    for (int attempt = 0; attempt != attempts_max; ++attempt)
    {
      if (co_await try_lock(at))
        co_return;
      pause.expires_after(lock_pause);
      co_await pause.async_wait(use_awaitable);
    }
    throw std::runtime_error("a cell stays locked: a put to it was left half-way");
  }

  asio::awaitable<bool> try_lock(std::size_t at)
  {
    std::uint64_t& known = versions_[at];
    if (by_atomics_)
    {
      // A guess: what was there last, or what will be when who holds the cell is done.
      const std::uint64_t expected = known + known % 2;
      const std::uint64_t there = co_await peer_.async_compare_exchange(
        version_at(at), expected, expected + 1, use_awaitable);
      known = there == expected ? expected + 1 : there;
      co_return there == expected;
    }
    if (known % 2 != 0) // what the only writer knows is so
      co_return false;
    ++known;
    co_await write_version(at, known);
    co_return true;
  }

  asio::awaitable<void> unlock(std::size_t at)
  {
    std::uint64_t& known = versions_[at];
    const std::uint64_t locked = known;
    if (by_atomics_)
    {
      if (co_await peer_.async_compare_exchange(version_at(at), locked, locked + 1, use_awaitable)
        != locked)
        throw std::runtime_error("somebody wrote to a cell that was locked");
    }
    else
      co_await write_version(at, locked + 1);
    known = locked + 1;
  }

  // Memory of the program's own does here: as little as this travels inside the request, or is
  // copied.

  asio::awaitable<std::uint64_t> version(std::size_t at)
  {
    std::uint64_t result = 0;
    co_await peer_.async_read(asio::buffer(&result, sizeof(result)), version_at(at), use_awaitable);
    co_return result;
  }

  asio::awaitable<void> write_version(std::size_t at, std::uint64_t value)
  {
    co_await peer_.async_write(asio::buffer(&value, sizeof(value)), version_at(at), use_awaitable);
    co_await version(at); // on iWARP it is in place now
  }

  asio::awaitable<entry> read(std::size_t at)
  {
    entry result;
    co_await peer_.async_read(asio::buffer(&result, sizeof(result)), entry_at(at), use_awaitable);
    co_return result;
  }

  asio::awaitable<void> write(std::size_t at, const entry& what)
  {
    co_await peer_.async_write(asio::buffer(&what, sizeof(what)), entry_at(at), use_awaitable);
    if (!by_atomics_) // which are behind writes anyway
      co_await version(at);
  }

  rdma::queue_pair& peer_;
  rdma::remote_memory memory_;
  bool by_atomics_;
  std::vector<std::uint64_t> versions_; // of each cell, as far as this side knows
  std::vector<std::size_t> free_;
  std::unordered_map<std::string, std::size_t> index_;
  std::uint64_t repeats_ = 0;
};

} // namespace key_value_cells

#endif // BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_REMOTE_MAP_HPP
