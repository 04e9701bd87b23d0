//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_STREAM_STREAM_IMPL_HPP
#define BOOST_RDMA_LIB_STREAM_STREAM_IMPL_HPP

#include "boost_rdma/batch.hpp"
#include "boost_rdma/context.hpp"
#include "boost_rdma/detail/stream_core.hpp"
#include "boost_rdma/memory_region.hpp"
#include "boost_rdma/registered_buffer.hpp"
#include "completion/abandonable.hpp"
#include "completion/early_receive.hpp"
#include "completion/queue_pair_core.hpp"
#include "stream/stream_fsm.hpp"

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace rdma::detail {

// Hears of changes of a stream.
class stream_observer
{
public:
  // look() may return something else. Called with the stream's mutex locked: it must not call the
  // stream.
  virtual void changed() noexcept = 0;

protected:
  ~stream_observer() = default;
};

// One end of a stream, over a queue pair that it owns.
//
// The queue pair's operations keep it alive, so it outlives the user's object until the last bytes
// have left and the queue pair has been closed.
class stream_impl final
  : public stream_core
  , public abandonable
  , public std::enable_shared_from_this<stream_impl>
{
public:
  stream_impl(std::shared_ptr<queue_pair_core> over, const stream_options& options,
    const endpoint_type& local, const endpoint_type& remote);

  // Posts the receives after the early one, which may be null. Sends the first message, unless the
  // peer sends first.
  void open(const std::shared_ptr<early_receive>& early);

  void read_some(const io_executor& executor, const targets& to, size_handler handler,
    bool on_executor) override;
  void write_some(const io_executor& executor, const sources& from, size_handler handler,
    bool on_executor) override;
  void wait(
    const io_executor& executor, wait_type what, plain_handler handler, bool on_executor) override;
  std::size_t read_some(const targets& to, bool waits, error_code& ec) override;
  std::size_t write_some(const sources& from, bool waits, error_code& ec) override;
  void wait(wait_type what, bool waits, error_code& ec) override;
  [[nodiscard]] std::size_t available() const override;
  [[nodiscard]] sources peek() override;
  void consume(std::size_t size) override;
  [[nodiscard]] std::shared_ptr<queue_pair_core> queue_pair() const override { return core_; }
  [[nodiscard]] bool is_open() const override;
  [[nodiscard]] transport_choice transport() const override { return core_->transport(); }
  [[nodiscard]] endpoint_type local_endpoint() const override { return local_; }
  [[nodiscard]] endpoint_type remote_endpoint() const override { return remote_; }
  void shut_down(error_code& ec) override;
  void cancel() override;
  void close() override { close(false); }
  void abort() override;

  // Functions that do not wait, for tools/rdma_sockets.

  struct status
  {
    std::size_t readable = 0;
    bool writable = false;
    bool peer_has_finished = false;
    error_code failure; // of the connection
  };
  [[nodiscard]] status look() const;

  // Reads or writes what is possible; sets would_block if that is nothing, or operations wait.
  std::size_t read_now(const targets& to, error_code& ec);
  std::size_t write_now(const sources& from, error_code& ec);

  void observe(std::weak_ptr<stream_observer> by);

  // `resets`: the peer gets connection_reset after the bytes, as it does if there are unread bytes.
  void close(bool resets);

  void abandon() noexcept override;
  void end_in_child() override;

private:
  using lock_type = std::unique_lock<std::mutex>;
  template <class... Results>
  using handler_of = boost::asio::any_completion_handler<void(error_code, Results...)>;
  struct received; // handlers of the queue pair's operations
  struct sent;

  struct registration_release
  {
    void operator()(registration* held) const noexcept { held->release(); }
  };

  // A read or write of the program.
  struct transfer
  {
    std::variant<targets, sources> buffers;
    std::optional<wait_type> waits_for; // instead of moving bytes
    operation* slot = nullptr;          // has the handler, and takes the result
    std::unique_ptr<registration, registration_release> memory; // of a write without a copy
    bool refused = false;                                       // it cannot be registered
    std::uint64_t number = 0;
    std::size_t bytes = 0;     // moved, or of a write that is on the way
    std::uint32_t pending = 0; // writes by which the device still reads the program's memory
    error_code ec;
  };
  // The entries are recycled: see spare_.
  using transfer_list = std::list<transfer>;

  // The result of a receive; `ended` is set when its handler has been called.
  struct result
  {
    bool ended = false;
    error_code ec;
    std::size_t size = 0;
  };

  // Received bytes, in a receive's buffer or in a ring.
  struct unread
  {
    const std::byte* at;
    std::uint32_t size;
    std::optional<std::uint32_t> receive; // no value: in a ring
  };

  void on_received(std::uint32_t index, const error_code& ec, std::size_t size, bool in_poll);
  void on_sent(const sent& what, const error_code& ec, bool in_poll);
  void take(std::uint32_t index, std::size_t size);
  void add_unread(const unread& what);
  void expect(std::uint32_t index) noexcept;
  void post_receive(std::uint32_t index);
  template <class Step>
  void or_fail(Step step);
  [[nodiscard]] registered_buffer allocate(std::size_t size);
  [[nodiscard]] registered_buffer store(
    const stream_message& m, std::span<const boost::asio::const_buffer> data = {});
  template <class... What>
  void post(std::uint64_t write, std::size_t copied, const What&... what);
  bool write_to_ring(const const_buffer& from, std::uint64_t write, std::size_t copied);
  void send(const stream_message& m, std::span<const boost::asio::const_buffer> data = {});
  void advance(transfer_list& ended);
  void advance_reads(transfer_list& ended);
  void advance_writes(transfer_list& ended);
  void advance_waits(transfer_list& ended);
  [[nodiscard]] bool is_over(wait_type what) const;
  [[nodiscard]] bool has_room() const;
  template <class Function>
  void repeat(bool waits, error_code& ec, Function function);
  void linger();
  std::size_t take_unread(std::byte* to, std::size_t size);
  [[nodiscard]] std::size_t fill(const targets& to);
  [[nodiscard]] const error_code& write_failure() const noexcept
  {
    return failure_ ? failure_ : send_failure_;
  }
  [[nodiscard]] bool write(transfer& op);
  [[nodiscard]] bool write_message(transfer& op, std::span<const boost::asio::const_buffer> list);
  [[nodiscard]] bool register_memory(transfer& op, boost::asio::const_buffer from);
  [[nodiscard]] bool write_copy(transfer& op, std::span<const boost::asio::const_buffer> list);
  void write_parts(transfer& op, boost::asio::const_buffer from);
  void greet();
  void send_end();
  void tell();
  void offer_ring();
  void fail(const error_code& ec);
  void end(const error_code& ec);
  transfer_list take_all() noexcept;
  void end_unstarted(transfer_list& ended, std::uint64_t number = any_number);
  void complete(lock_type lock, transfer_list& ended, bool in_poll);
  template <class... Results>
  operation* claim(const io_executor& executor, handler_of<Results...>& handler, bool on_executor);
  void count_as_work(bool counts);
  [[nodiscard]] access ring_rights() const noexcept;
  [[nodiscard]] mutable_buffer receive_at(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* ring_at(const stream_fsm::place& where) const noexcept;
  template <class Buffers, class... Results>
  void start(transfer_list& among, const io_executor& executor, const Buffers& buffers,
    handler_of<Results...> handler, bool on_executor,
    std::optional<wait_type> waits_for = std::nullopt);

  static constexpr std::uint64_t any_number = 0;

  const std::shared_ptr<queue_pair_core> core_;
  const boost::asio::any_io_executor executor_;
  const stream_options options_;
  const endpoint_type local_;
  const endpoint_type remote_;
  const rdma::context context_;
  const registered_buffer receives_;
  const bool is_iwarp_;

  mutable std::mutex mutex_;
  stream_fsm fsm_;
  std::array<memory_region, 2> rings_; // of even and odd numbers
  std::vector<std::uint32_t> posted_;  // a ring of the receives, in the order of the messages
  std::size_t first_posted_ = 0;
  std::size_t posted_count_ = 0;
  std::vector<result> results_; // by receive
  std::vector<unread> unread_;  // from first_unread_ on
  rdma::batch batch_;           // its memory is used again
  std::size_t first_unread_ = 0;
  std::size_t available_ = 0;
  transfer_list reads_;
  transfer_list writes_;
  transfer_list waits_;
  transfer_list spare_;
  std::uint64_t last_number_ = 0;
  std::uint64_t last_write_ = UINT64_MAX; // the number of the last write before the end
  std::uint32_t sending_ = 0;             // operations of the queue pair that have not completed
  std::size_t copied_ = 0;                // bytes of the program that they read from the pool
  bool keeps_ring_ = false;               // no other one could be registered
  bool counts_as_work_ = false;
  bool closed_ = false;              // by the program
  std::atomic<bool> lingers_{false}; // the last operation was synchronous
  bool resets_ = false;              // when it is closed
  error_code failure_;
  error_code send_failure_; // ends writes; reads end with the receives, after what has arrived
  boost::asio::steady_timer close_timer_;
  std::weak_ptr<stream_observer> observer_;
  bool is_observed_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_STREAM_STREAM_IMPL_HPP
