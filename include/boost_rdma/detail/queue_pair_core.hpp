//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP
#define BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP

#include <boost_rdma/detail/device_listener.hpp>
#include <boost_rdma/detail/work_source.hpp>
#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma::detail {

class device_impl;
class shared_receive_core;

// What keeps an eye on the peer for as long as the queue pair is connected (floor 3). close() ends it,
// telling the peer; it calls queue_pair_core::disconnect() when the peer is gone. Destroyed after the verbs
// queue pair, as librdmacm wants it (rdma_destroy_id(3)).
class connection_guard
{
public:
  virtual ~connection_guard() = default;
  virtual void close() noexcept = 0;
};

// What a connection manager wants of a transition (rdma_init_qp_attr(3)): fills in the attributes for
// attributes.qp_state and the mask of those that count. An errno value, or 0.
class transition_source
{
public:
  virtual ~transition_source() = default;
  virtual int fill(ibv_qp_attr& attributes, int& mask) = 0;
};

// A queue pair without the executor's and the handlers' types.
//
// Lives until the last of its owners (the queue_pair, its completion queue) lets go; the completion
// queue does so when the queue pair is closed and its last operation has completed.
class queue_pair_core final
  : public work_source
  , public device_listener
{
public:
  // `executor` is inside strands; same_context says that there were none. Throws system_error.
  static std::shared_ptr<queue_pair_core> make(const boost::asio::any_io_executor& executor,
    bool same_context, const protection_domain& domain, const queue_pair_options& options);

  queue_pair_core(const boost::asio::any_io_executor& executor, vicinity where,
    const protection_domain& domain, const queue_pair_options& options,
    std::shared_ptr<completion_queue_impl> completions, device_impl& device);
  ~queue_pair_core() override;

  [[nodiscard]] const queue_pair_options& options() const noexcept { return options_; }
  [[nodiscard]] rdma::context context() const { return rdma::context(domain_); }
  [[nodiscard]] device_impl& device() const noexcept { return device_; }
  [[nodiscard]] ibv_qp* native() const noexcept { return native_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] bool is_connected() const;
  [[nodiscard]] rdma::diagnosis diagnose() const;

  // What the peer needs; `local` is the address that the peer reaches this host by.
  endpoint_description local_endpoint(const std::optional<boost::asio::ip::address>& local, error_code& ec);

  // INIT -> RTR -> RTS.
  void connect(const endpoint_description& remote, error_code& ec);

  // The same as a connection manager says. First INIT once more, for the port and the rights.
  void prepare(transition_source& source, error_code& ec);
  void connect(transition_source& source, error_code& ec);

  // The device itself made the last transitions, as iWARP's do when the manager connects.
  void note_connected();

  // Takes over what connects and then watches the peer. False, and the guard is gone, when the queue
  // pair has one already or can no more be connected.
  bool attach(std::shared_ptr<connection_guard> guard);

  // Why it has ended; operation_aborted when it was closed.
  [[nodiscard]] error_code end_reason() const;

  // Whether the device has sends, writes or other requests whose outcome is not known yet.
  [[nodiscard]] bool sends_in_flight() const;

  // The peer is gone: operations end with `reason`, those to come as well. Only the first reason counts.
  void disconnect(const error_code& reason);

  // By the user: operations end with operation_aborted, those to come with error::closed.
  void close();

  void submit(operation* op, const buffer_list& buffers) override;
  operation* take(const ibv_wc& wc, std::uint32_t index, bool last, std::uint32_t generation) override;
  void fail(const error_code& reason, const char* what, const work_source* through) noexcept override;
  void on_device_event(const device_news& news) noexcept override;
  void stop() noexcept override;
  void abandon() noexcept override;

private:
  enum class lifecycle
  {
    open,      // not connected yet
    connected, // RTS
    broken,    // in error; operations end with reason_
    closed,    // as broken, and the user has let go
    abandoned, // nothing is left
  };

  void create();
  [[nodiscard]] unsigned remote_rights() const noexcept;
  [[nodiscard]] error_code why_not_connect() const;
  void enter_connected() noexcept;
  void transit(transition_source& source, int next_state, error_code& ec);
  bool admit(operation* op, const buffer_list& buffers, error_code& ec);
  bool admit_batch(operation* op, error_code& ec);
  bool admit_atomic(operation* op, error_code& ec);
  bool admit_immediate(request_kind kind, error_code& ec);
  bool adopt_remote(const request& what, std::size_t bytes, error_code& ec) const;
  void start(operation* op);
  bool post(operation* op, int& error);
  int post_receive(operation* op);
  int post_single(operation* op);
  int post_batch(operation* op);
  void post_waiting(operation_list& list);
  bool to_error_state();
  void withdraw(operation_list& list, const error_code& ec);
  void enter(lifecycle next, const error_code& reason);
  void fill_success(operation* op, const ibv_wc& wc);
  void note_failure(const operation* op, const ibv_wc& wc);
  [[nodiscard]] bool reason_is_to_come() const noexcept;
  void finish_flushed(const error_code& reason);
  [[nodiscard]] error_code flush_reason() const;
  void start_flush_timer();
  void force_flush();
  void end_posted(const error_code& reason);
  [[nodiscard]] bool takes_more() const noexcept;
  void refuse(const char* operation, const error_code& ec, std::string lacking);
  int move_to_port();
  void unlink(operation* op) override;
  void terminate() override;
  bool drained() override;
  void destroy_native() noexcept;

  queue_pair_options options_;
  device_impl& device_;
  const std::size_t device_index_;
  std::shared_ptr<shared_receive_core> receives_;
  ibv_qp* native_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t inline_max_ = 0;
  std::uint32_t reserved_ = 0; // completions

  lifecycle lifecycle_ = lifecycle::open;
  error_code reason_;
  rdma::diagnosis first_failure_;
  rdma::diagnosis refusal_; // of what the device cannot do; told when nothing failed
  endpoint_description local_;
  std::uint8_t gid_index_ = 0;
  std::uint8_t port_ = 0; // that the queue pair is on
  bool by_ethernet_ = false; // that port is RoCE's
  bool ever_connected_ = false; // reached RTR
  bool described_ = false; // local_ is filled in
  bool error_state_ = false;
  error_code device_reason_;        // what the device reported of this queue pair
  bool last_work_request_reached_ = false; // IBV_EVENT_QP_LAST_WQE_REACHED
  std::shared_ptr<connection_guard> guard_;

  std::uint32_t sends_posted_ = 0; // credits in use
  std::uint32_t receives_posted_ = 0;
  operation_list waiting_sends_;
  operation_list waiting_receives_;
  operation_list flushed_; // whose outcome is told when the reason is known

  // Where atomics deliver the old value: 8 bytes for each work request of the send queue.
  registered_buffer slab_;
  std::vector<std::uint16_t> cells_;

  struct scratch;
  std::unique_ptr<scratch> scratch_; // to build batches in

  boost::asio::steady_timer flush_timer_;
  bool flush_timer_runs_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP
