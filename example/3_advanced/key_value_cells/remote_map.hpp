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

/// Keys and values of one client in the memory of a peer, whose processor takes no part.
/**
 * Only this side stores the index from keys to cells. Any number of coroutines may use the map at
 * once, all on one thread or strand. The map must outlive them.
 *
 * Protocol: a read or write of more than 8 bytes is not atomic, so a get during a put may see parts
 * of the old and of the new value. Each cell therefore has a version, which is odd during a write:
 *
 *   put:  set the version from even to odd; write the entry; set the next even version.
 *   get:  read the version, which must be even; read the entry; read the version again, which must
 *         be the same. Otherwise retry.
 *
 * Each step begins after the previous one has completed. A put that ends half-way (an exception, a
 * cancellation) leaves an odd version, so that later owners of the table detect it.
 *
 * Guarantees of a reliable connection: completed operations were carried out; writes and atomics
 * are carried out once and in order. These are not guaranteed:
 * - A read ends before a later write begins. The write may overtake it (IBA 10.8.3.3, without a
 *   fence). A read whose answer was lost is repeated, after later writes. So a get must guard
 *   against puts on its own connection, too.
 * - The bytes of one operation are transferred in order. So the version cannot travel together with
 *   the entry.
 * - On iWARP, a write is in place when it has completed, or before the next write. It is in place
 *   when a later read has been answered (RFC 5040 5.5).
 *
 * Aligned accesses of 8 bytes are atomic. No specification guarantees it, but NICs do it.
 *
 * Two puts to one cell must exclude each other. Compare-exchange on the version ensures that for
 * any writers, for example for memory that the peer lends to several clients (async_lend()). It is
 * only atomic with respect to other atomics (IBV_ATOMIC_HCA), so only atomics change the version
 * then. Without the right for atomics (iWARP has none) the map must be the only writer, as the
 * holder of a lease is.
 */
class remote_map
{
public:
  /// @param memory Zeroed memory, leased as long as the map is used. Its size determines the number
  /// of cells.
  remote_map(rdma::queue_pair& peer, rdma::remote_memory memory)
    : peer_(peer)
    , memory_(std::move(memory))
    , by_atomics_(rdma::permits(memory_.rights(), rdma::access::remote_atomic))
    , versions_(memory_.size() / sizeof(cell))
  {
    for (std::size_t at = versions_.size(); at != 0; --at)
      free_.push_back(at - 1);
  }

  // Not copyable, because coroutines refer to the map.
  remote_map(const remote_map&) = delete;
  remote_map& operator=(const remote_map&) = delete;

  asio::awaitable<void> put(std::string key, std::string value)
  {
    if (key.empty())
      throw std::invalid_argument("the key must not be empty");
    const entry wanted{field_of<key_size_max>(key), field_of<value_size_max>(value)};
    for (bool done = false; !done;)
    {
      const std::size_t at = cell_for(key);
      co_await lock(at);
      done = is_at(key, at); // false if it was erased during the wait
      if (done)
        co_await write(at, wanted);
      co_await unlock(at);
    }
  }

  /// Returns nullopt if there is no such key, or its first put has not completed.
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
          // The cell may have belonged to another key before or after.
          if (text_of(seen.key) != key)
            co_return std::nullopt;
          co_return text_of(seen.value);
        }
      }
      ++repeats_;
    }
    throw std::runtime_error(
      "a cell is written continuously, or a put to it did not finish: " + key);
  }

  /// Returns false if there is no such key.
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

  /// Releases the memory with its content. The map must not be used any more.
  [[nodiscard]] rdma::remote_memory take_memory() noexcept { return std::move(memory_); }

  /// Number of reads that were repeated because of a concurrent put.
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
      throw std::length_error("there is no free cell for " + key);
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
    throw std::runtime_error("a cell remains locked: a put to it did not finish");
  }

  asio::awaitable<bool> try_lock(std::size_t at)
  {
    std::uint64_t& known = versions_[at];
    if (by_atomics_)
    {
      // A guess: the last known version, or the version after the current holder has finished.
      const std::uint64_t expected = known + known % 2;
      const std::uint64_t there = co_await peer_.async_compare_exchange(
        version_at(at), expected, expected + 1, use_awaitable);
      known = there == expected ? expected + 1 : there;
      co_return there == expected;
    }
    if (known % 2 != 0) // exact, because this is the only writer
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
        throw std::runtime_error("another writer changed a locked cell");
    }
    else
      co_await write_version(at, locked + 1);
    known = locked + 1;
  }

  // Unregistered memory is sufficient here: data as small as this is sent inline or copied.

  asio::awaitable<std::uint64_t> version(std::size_t at)
  {
    std::uint64_t result = 0;
    co_await peer_.async_read(asio::buffer(&result, sizeof(result)), version_at(at), use_awaitable);
    co_return result;
  }

  asio::awaitable<void> write_version(std::size_t at, std::uint64_t value)
  {
    co_await peer_.async_write(asio::buffer(&value, sizeof(value)), version_at(at), use_awaitable);
    co_await version(at); // on iWARP, the write is in place now
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
    if (!by_atomics_) // atomics are executed after writes anyway
      co_await version(at);
  }

  rdma::queue_pair& peer_;
  rdma::remote_memory memory_;
  bool by_atomics_;
  std::vector<std::uint64_t> versions_; // the last known version of each cell
  std::vector<std::size_t> free_;
  std::unordered_map<std::string, std::size_t> index_;
  std::uint64_t repeats_ = 0;
};

} // namespace key_value_cells

#endif // BOOST_RDMA_EXAMPLE_KEY_VALUE_CELLS_REMOTE_MAP_HPP
