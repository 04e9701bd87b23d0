//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_STREAM_HPP
#define BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_STREAM_HPP

#include "boost_rdma/detail/stream_core.hpp"
#include "boost_rdma/error.hpp"
#include "common/dice.hpp"
#include "completion/waiting_handler.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace test {

namespace asio = boost::asio;

/// One end of a connection of two simulated streams. Bytes move only in steps.
class simulated_stream final
  : public rdma::detail::stream_core
  , public std::enable_shared_from_this<simulated_stream>
{
public:
  using error_code = rdma::error_code;

  simulated_stream(dice& random, std::size_t capacity)
    : random_(random)
    , capacity_(capacity)
  {
  }

  static void join(
    const std::shared_ptr<simulated_stream>& one, const std::shared_ptr<simulated_stream>& other)
  {
    one->peer_ = other;
    other->peer_ = one;
  }

  /// Receives the bytes that this end takes, in their order.
  std::function<void(std::span<const std::byte>)> on_written = [](auto) {};
  bool stalled = false; ///< nothing arrives at this end

  // --- steps; each returns false if there is nothing to do ---

  /// Some bytes, or the end, arrive at this end.
  bool arrive()
  {
    if (stalled || closed_)
      return false;
    if (under_way_.empty())
      return ends_ && !std::exchange(has_end_, true);
    const std::size_t size = some(std::min<std::size_t>(under_way_.size(), 16 * 1024));
    const auto end = under_way_.begin() + static_cast<std::ptrdiff_t>(size);
    arrived_.emplace_back(under_way_.begin(), end);
    under_way_.erase(under_way_.begin(), end);
    return true;
  }

  /// The wait for bytes ends. `falsely`: also without bytes.
  bool report(bool falsely)
  {
    if (!waiting_ || !(falsely || is_readable()))
      return false;
    complete(waiting_, {});
    return true;
  }

  /// The asynchronous write takes some bytes.
  bool write_more()
  {
    if (!writing_)
      return false;
    error_code ec;
    const std::size_t size = rest_.empty() ? 0 : put(rest_, ec);
    if (ec == asio::error::would_block)
      return false;
    complete(writing_, ec, size);
    return true;
  }

  /// The connection is lost at both ends, with what is under way.
  void fail(const error_code& ec)
  {
    for (simulated_stream* const each : {this, peer_.lock().get()})
      if (each != nullptr && !each->failed_)
      {
        each->failed_ = ec;
        each->under_way_.clear();
      }
  }

  [[nodiscard]] bool has_ended() const { return closed_ || failed_ || ends_; }

  // --- stream_core ---

  void write_some(
    const io_executor& executor, const sources& from, size_handler handler, bool) override
  {
    require(!writing_, "one write at a time");
    writing_.emplace(executor, std::move(handler));
    rest_ = from;
    if (closed_)
      complete(writing_, rdma::error::closed, std::size_t{0});
  }

  std::size_t write_some(const sources& from, bool waits, error_code& ec) override
  {
    require(!waits && !writing_, "no synchronous write waits, or overtakes another one");
    ec = closed_ ? make_error_code(rdma::error::closed) : error_code();
    if (!ec && random_() % 4 == 0)
      ec = asio::error::would_block;
    return ec || from.empty() ? 0 : put(from, ec);
  }

  void wait(const io_executor& executor, wait_type what, plain_handler handler, bool) override
  {
    require(what == wait_type::wait_read && !waiting_, "one wait at a time");
    const auto slot = asio::get_associated_cancellation_slot(handler);
    waiting_.emplace(executor, std::move(handler));
    rdma::detail::on_cancellation(slot, weak_from_this(),
      [](simulated_stream& self) { self.complete(self.waiting_, asio::error::operation_aborted); });
    if (closed_)
      complete(waiting_, rdma::error::closed);
  }

  void wait(wait_type what, bool waits, error_code& ec) override
  {
    require(what == wait_type::wait_read && !waits, "no synchronous function waits");
    ec = closed_      ? make_error_code(rdma::error::closed)
      : is_readable() ? error_code()
                      : make_error_code(asio::error::would_block);
  }

  std::size_t read_some(const targets& to, bool waits, error_code& ec) override
  {
    require(!waits, "no synchronous function waits");
    ec = {};
    if (!arrived_.empty())
    {
      const std::size_t size = asio::buffer_copy(to, peek());
      consume(size);
      return size;
    }
    ec = failed_;
    if (!ec)
      ec = has_end_ ? make_error_code(asio::error::eof) : make_error_code(asio::error::would_block);
    return 0;
  }

  [[nodiscard]] sources peek() override
  {
    sources found;
    for (const auto& each : arrived_)
      if (!found.add(asio::buffer(each) + (&each == &arrived_.front() ? consumed_ : 0))
        || random_() % 4 == 0)
        break;
    return found;
  }

  void consume(std::size_t size) override
  {
    for (consumed_ += size; !arrived_.empty() && consumed_ >= arrived_.front().size();)
    {
      consumed_ -= arrived_.front().size();
      arrived_.pop_front();
    }
    require(!arrived_.empty() || consumed_ == 0, "only bytes that have arrived are consumed");
  }

  using stream_core::connect;
  void connect(const io_executor& executor, const endpoint_type&, plain_handler handler) override
  {
    rdma::detail::waiting_handler<>(executor, std::move(handler)).complete(failed_);
  }

  [[nodiscard]] bool is_open() const override { return !closed_; }
  [[nodiscard]] rdma::transport_choice transport() const override { return {}; }

  void close() override
  {
    if (std::exchange(closed_, true))
      return;
    complete(writing_, rdma::error::closed, std::size_t{0});
    complete(waiting_, rdma::error::closed);
    if (const auto to = peer_.lock())
    {
      to->ends_ = true;
      // As by TCP: unread bytes reset the connection.
      if (!to->failed_ && !(under_way_.empty() && arrived_.empty()) && random_() % 2 == 0)
        fail(asio::error::connection_reset);
    }
    under_way_.clear();
  }

  // Not used by connections of RPC.
  void read_some(const io_executor&, const targets&, size_handler, bool) override { unused(); }
  [[nodiscard]] std::size_t available() const override { unused(); }
  [[nodiscard]] endpoint_type local_endpoint() const override { unused(); }
  [[nodiscard]] endpoint_type remote_endpoint() const override { unused(); }
  void shut_down(error_code&) override { unused(); }
  void cancel() override { unused(); }

private:
  template <class... Results>
  using operation = std::optional<rdma::detail::waiting_handler<Results...>>;

  [[noreturn]] static void unused() { throw std::logic_error("not used by RPC"); }
  static void require(bool condition, const char* what)
  {
    if (!condition)
      throw std::logic_error(what);
  }

  template <class... Results>
  static void complete(operation<Results...>& which, const error_code& ec, Results... results)
  {
    if (which)
      std::move(*std::exchange(which, std::nullopt)).complete(ec, results...);
  }

  [[nodiscard]] bool is_readable() const { return !arrived_.empty() || failed_ || has_end_; }

  std::size_t some(std::size_t most)
  {
    // Small portions, and large ones.
    const std::size_t limit = random_() % 2 == 0 ? std::min<std::size_t>(most, 40) : most;
    return 1 + random_() % limit;
  }

  // Passes some bytes to the peer.
  std::size_t put(const sources& from, error_code& ec)
  {
    ec = failed_;
    const auto to = peer_.lock();
    if (!ec && (!to || to->closed_)) // the connection is reset sooner or later
    {
      if (random_() % 2 != 0)
        return asio::buffer_size(from);
      ec = asio::error::connection_reset;
    }
    if (ec)
      return 0;
    std::size_t used = to->under_way_.size();
    for (const auto& each : to->arrived_)
      used += each.size();
    if (used >= capacity_)
    {
      ec = asio::error::would_block;
      return 0;
    }
    std::vector<std::byte> bytes(some(std::min(capacity_ - used, asio::buffer_size(from))));
    asio::buffer_copy(asio::buffer(bytes), from);
    on_written(bytes);
    to->under_way_.insert(to->under_way_.end(), bytes.begin(), bytes.end());
    return bytes.size();
  }

  dice& random_;
  const std::size_t capacity_;
  std::weak_ptr<simulated_stream> peer_;
  std::deque<std::byte> under_way_;            // to this end
  std::deque<std::vector<std::byte>> arrived_; // and not consumed
  std::size_t consumed_ = 0;                   // of the first
  operation<> waiting_;
  operation<std::size_t> writing_;
  sources rest_;
  error_code failed_;
  bool ends_ = false; // the peer has closed
  bool has_end_ = false;
  bool closed_ = false;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_RPC_SIMULATED_STREAM_HPP
