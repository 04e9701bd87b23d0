//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP
#define BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP

#include <boost_rdma/detail/agent_attachment.hpp>
#include <boost_rdma/detail/device_listener.hpp>
#include <boost_rdma/detail/work_source.hpp>
#include <boost_rdma/diagnosis.hpp>
#include <boost_rdma/endpoint_description.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/queue_pair_options.hpp>
#include <boost_rdma/transport_choice.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma::detail {

class device_impl;
class shared_receive_core;

// What keeps an eye on the peer for as long as the queue pair is connected (floor 3). close() ends
// it, last_wqe_reporting the peer; it calls queue_pair_core::disconnect() when the peer is gone.
// Destroyed after the verbs queue pair, as librdmacm wants it (rdma_destroy_id(3)).
class connection_guard
{
public:
  virtual ~connection_guard() = default;
  virtual void close() noexcept = 0;

  // Tells the peer that all has arrived which this side sent, and that no more comes.
  // queue_pair_core::end_orderly() follows, when the peer has said the same where there are words
  // for that. The queue pair's mutex is held.
  virtual void finish() noexcept = 0;

  // A word for the peer's agent_attachment; false where there is no channel for it.
  virtual bool send_agent_channel(agent_channel_event, const std::string&) { return false; }
};

// What a connection manager wants of a transition (rdma_init_qp_attr(3)): fills in the attributes
// for attributes.qp_state and the mask of those that count. An errno value, or 0.
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

  queue_pair_core(const boost::asio::any_io_executor& executor, executor_relation where,
    const protection_domain& domain, const queue_pair_options& options,
    std::shared_ptr<completion_queue_impl> completions, device_impl& device);
  ~queue_pair_core() override;

  [[nodiscard]] const queue_pair_options& options() const noexcept { return options_; }
  [[nodiscard]] rdma::context context() const { return rdma::context(domain_); }
  [[nodiscard]] device_impl& device() const noexcept { return *device_; }
  [[nodiscard]] std::size_t device_index() const noexcept { return device_index_; }
  // Inside strands.
  [[nodiscard]] boost::asio::any_io_executor io_executor() { return flush_timer_.get_executor(); }
  [[nodiscard]] ibv_qp* native() const;
  [[nodiscard]] std::uint32_t number() const;
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] bool is_connected() const;
  [[nodiscard]] rdma::diagnosis diagnose() const;

  // What the peer needs; `local` is the address that the peer reaches this host by. From here on
  // the queue pair stays on its device.
  endpoint_description local_endpoint(
    const std::optional<boost::asio::ip::address>& local, error_code& ec);

  // INIT -> RTR -> RTS. What brought the descriptions to both sides may know who is ready first.
  enum class side
  {
    unknown,
    first,
    last,
  };
  void connect(const endpoint_description& remote, error_code& ec, side which = side::unknown);

  // What floor 3 offers to a peer: the same for one wire of the device, and the queue pair may move
  // yet.
  endpoint_description offer(const boost::asio::ip::address& local, wire by, error_code& ec);

  // As connect(), but the queue pair is the library's until confirmed(): receives wait, sends are
  // refused.
  void connect_unconfirmed(const endpoint_description& remote, side which, error_code& ec);

  // A message to the peer's device that it acknowledges and its program does not notice: an RDMA
  // write of no bytes. `done` is called once, on any thread, but not in here; not at all when the
  // io_context goes before.
  using confirmation_handler = std::function<void(error_code)>;
  void confirm(confirmation_handler done);

  // Looks whether confirm()'s message got through, where the threads that run the queue pair's
  // io_context are busy.
  void look_for_confirmation();

  // The path carries messages both ways: connected.
  void confirmed(std::vector<declined_transport> declined, error_code& ec);

  // Why it is not on a NIC; for one that is on the software device.
  [[nodiscard]] std::string why_no_nic() const;

  // Why the queue pair cannot be moved to the software device; empty when it can.
  [[nodiscard]] std::string why_not_move() const;

  // Not connected yet, or not confirmed: goes on on the software device, with the receives that
  // wait.
  void move_to_software(error_code& ec);

  [[nodiscard]] transport_choice transport() const;
  // Of the software device's wires; empty where it is the one, or there are none. transport() tells
  // from then on.
  [[nodiscard]] std::string why_not_shared_memory();

  // What the peer's program gave along with connecting.
  void set_peer_data(std::string data);
  [[nodiscard]] std::string peer_data() const;

  // The same as a connection manager says. First INIT once more, for the port and the rights.
  void prepare(transition_source& source, error_code& ec);
  void connect(transition_source& source, error_code& ec);

  // The device itself made the last transitions, as iWARP's do when the manager connects.
  void note_connected(const boost::asio::ip::address& own, const boost::asio::ip::address& peer);

  // Takes over what connects and then watches the peer. False, and the guard is gone, when the
  // queue pair has one already or can no more be connected.
  bool attach(std::shared_ptr<connection_guard> guard);

  // Why it has ended; operation_aborted when it was closed.
  [[nodiscard]] error_code end_reason() const;

  // What a higher floor keeps beside it: the one that there is, or, while connected, what `source`
  // makes. Null, and why, otherwise.
  std::shared_ptr<agent_attachment> attachment_by(agent_attachment_source& source, error_code& ec);

  // To the peer's agent_attachment, and from it. May throw std::bad_alloc.
  bool send_agent_channel(agent_channel_event word, const std::string& text);
  void on_agent_channel(agent_channel_event word, const std::string& text);

  // Another queue pair to the same peer: on the same device and port, by the same wire. Before it
  // is connected.
  [[nodiscard]] queue_pair_options options_of_sibling() const;
  endpoint_description describe_sibling(queue_pair_core& sibling, error_code& ec) const;

  // Whether the device has sends, writes or other requests whose outcome is not known yet.
  [[nodiscard]] bool sends_in_flight() const;

  // The peer is gone: operations end with `reason`, those to come as well. Only the first reason
  // counts. `why` is for diagnose().
  void disconnect(const error_code& reason, const std::string& why = std::string());

  // By the user: operations end with operation_aborted, those to come with error::closed.
  void close();

  using end_handler = boost::asio::any_completion_handler<void(error_code)>;

  // Waits until the connection has ended: basic_queue_pair::async_wait_close.
  void wait_close(const boost::asio::any_io_executor& executor, end_handler handler);

  // Sends no more, and ends the connection when all has arrived: basic_queue_pair::async_shutdown.
  void shut_down(const boost::asio::any_io_executor& executor, end_handler handler);

  // The peer has shut down: what was sent before still goes out, no more is taken.
  void peer_finished();

  // Both sides have.
  void end_orderly();

  void submit(operation* op, const buffer_list& buffers) override;
  void take(const ibv_wc* completions, std::size_t count, operation_list& ended) override;
  void fail(
    const error_code& reason, const char* what, const work_source* through) noexcept override;
  void end_in_child() noexcept override;
  void on_device_event(const async_event& news) noexcept override;
  void stop() noexcept override;
  void abandon() noexcept override;

private:
  enum class lifecycle
  {
    open,        // not connected yet
    unconfirmed, // RTS, and nobody knows whether the path carries anything
    connected,   // RTS
    broken,      // in error; operations end with reason_
    closed,      // as broken, and the user has let go
    abandoned,   // nothing is left
  };

  void create();
  void open_native();
  [[nodiscard]] bool is_alive() const noexcept;
  void stay();
  endpoint_description describe_self(
    const std::optional<boost::asio::ip::address>& local, wire by, error_code& ec);
  void establish(const endpoint_description& remote, side which, lifecycle next, error_code& ec);
  [[nodiscard]] std::string obstacle_to_moving() const;
  static void complete_confirmation(operation* op, bool invoke, bool in_context);
  [[nodiscard]] unsigned remote_rights() const noexcept;
  [[nodiscard]] error_code why_not_connect() const;
  void enter_connected();
  void transit(transition_source& source, int next_state, error_code& ec);
  void note_transition(const ibv_qp_attr& attributes, int mask);
  bool admit_plain(operation* op, const buffer_list& buffers);
  void submit_admitted(operation* op);
  bool admit(operation* op, const user_buffers& buffers, error_code& ec);
  bool admit_batch(operation* op, error_code& ec);
  bool admit_atomic(operation* op, error_code& ec);
  bool admit_immediate(request_kind kind, error_code& ec);
  bool adopt_remote(const request& what, std::size_t bytes, error_code& ec) const;
  void start(operation* op);
  void wait(operation* op);
  [[nodiscard]] operation_list& waiting(request_kind kind) noexcept;
  [[nodiscard]] std::uint32_t& posted(request_kind kind) noexcept; // work requests
  operation* take_one(const ibv_wc& wc);
  [[nodiscard]] bool goes_inline(const operation* op) const noexcept;
  bool post(operation* op, int& error);
  int post_receive(operation* op);
  int post_single(operation* op);
  int post_batch(operation* op);
  void post_waiting(operation_list& list);
  bool to_error_state();
  void withdraw(operation_list& list, const error_code& ec);
  void withdraw_in_turn();
  void enter(lifecycle next, const error_code& reason);
  void note_end(const error_code& reason);
  void tell_if_finished();
  void withdraw_waiter(std::uint64_t number);
  void assign_slot(end_handler& handler, std::uint64_t number);
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
  void drop_native() noexcept;

  queue_pair_options options_;
  std::optional<completion_queue> own_completions_; // that the user gave
  device_impl* device_;
  std::size_t device_index_;
  std::shared_ptr<shared_receive_core> receives_;
  bool shared_memory_ = false; // carries the messages, as was found when the path was confirmed
  ibv_qp* native_ = nullptr;
  std::uint32_t number_ = 0;
  std::atomic<std::uint32_t> inline_max_{0}; // changes only before the queue pair is connected
  std::uint32_t reserved_ = 0;               // completions

  lifecycle lifecycle_ = lifecycle::open;
  error_code reason_;
  rdma::diagnosis first_failure_;
  rdma::diagnosis refusal_; // of what the device cannot do; told when nothing failed
  endpoint_description local_;
  endpoint_description remote_; // of the peer, where it is known
  std::vector<declined_transport> declined_;
  std::string peer_data_;
  std::uint8_t gid_index_ = 0;
  std::uint8_t port_ = 0;       // that the queue pair is on
  bool by_ethernet_ = false;    // that port is RoCE's
  bool ever_connected_ = false; // reached RTR
  bool described_ = false;      // local_ is filled in
  bool error_state_ = false;
  std::uint64_t confirmation_ = 0;         // wr_id of the message that confirms the path
  bool holds_receives_ = false;            // until the device is known for certain
  error_code device_reason_;               // what the device reported of this queue pair
  bool last_work_request_reached_ = false; // IBV_EVENT_QP_LAST_WQE_REACHED
  std::shared_ptr<connection_guard> guard_;
  std::shared_ptr<agent_attachment> attachment_;
  std::optional<std::pair<agent_channel_event, std::string>>
    agent_channel_event_; // of the peer's, when there is no agent_attachment yet
  std::optional<boost::asio::ip::address> described_by_; // describe_self()'s

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

  struct endings;                    // who waits for the end
  std::unique_ptr<endings> endings_; // made when somebody does
  std::optional<error_code> ended_;  // the connection has, so
  error_code refused_sends_; // what sends end with that come after a shutdown, the peer's or ours
  bool shut_down_here_ = false; // by this side's user
  bool told_finished_ = false;  // the guard told the peer that all has arrived
  bool orderly_ = false;        // so did the peer
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_QUEUE_PAIR_CORE_HPP
