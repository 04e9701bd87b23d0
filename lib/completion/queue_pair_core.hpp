//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_CORE_HPP
#define BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_CORE_HPP

#include "boost_rdma/detail/queue_pair_handle.hpp"
#include "boost_rdma/detail/work_source.hpp"
#include "boost_rdma/diagnosis.hpp"
#include "boost_rdma/endpoint_description.hpp"
#include "boost_rdma/protection_domain.hpp"
#include "boost_rdma/queue_pair_options.hpp"
#include "boost_rdma/transport_choice.hpp"
#include "boost_rdma/verbs_fwd.hpp"
#include "completion/agent_attachment.hpp"
#include "completion/connection_fsm.hpp"
#include "completion/endpoint_offer.hpp"
#include "completion/posting.hpp"
#include "completion/request_checks.hpp"
#include "resource/device_listener.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma::detail {

class device_impl;
class shared_receive_core;

// Monitors the peer while the queue pair is connected (layer 3). close() ends the monitoring
// and notifies the peer. The guard calls queue_pair_core::disconnect() when the peer is gone.
// Destroyed after the verbs queue pair, as librdmacm requires (rdma_destroy_id(3)).
class connection_guard
{
public:
  virtual ~connection_guard() = default;
  virtual void close() noexcept = 0;

  // Notifies the peer that all data of this side has arrived and that no more follows.
  // queue_pair_core::end_orderly() is called after the peer has sent the same notification, if the
  // protocol has one. The queue pair's mutex is held.
  virtual void finish() noexcept = 0;

  // Sends a message to the peer's agent_attachment; returns false if there is no control channel.
  virtual bool send_agent_channel(agent_channel_event, const std::string&) { return false; }
};

// The connection manager's parameters of a state transition (rdma_init_qp_attr(3)). fill() sets the
// attributes for attributes.qp_state and the mask of the valid ones. Returns 0 or an errno value.
class transition_source
{
public:
  virtual ~transition_source() = default;
  virtual int fill(ibv_qp_attr& attributes, int& mask) = 0;
};

// A queue pair, independent of the types of executor and handlers.
//
// Exists until its last owner (the queue_pair, its completion queue) releases it. The completion
// queue does so when the queue pair is closed and its last operation has completed.
class queue_pair_core final
  : public work_source
  , public device_listener
{
public:
  // `executor` is not a strand. same_context is true if the I/O object's executor is not a strand
  // either. Throws system_error.
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
  // Not a strand.
  [[nodiscard]] boost::asio::any_io_executor io_executor() { return flush_timer_.get_executor(); }
  [[nodiscard]] ibv_qp* native() const;
  [[nodiscard]] std::uint32_t number() const;
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] bool is_connected() const;
  [[nodiscard]] rdma::diagnosis diagnose() const;

  // Returns the description for the peer. `local` is the address by which the peer reaches this
  // host. After this call the queue pair stays on its device.
  endpoint_description local_endpoint(
    const std::optional<boost::asio::ip::address>& local, error_code& ec);

  // INIT -> RTR -> RTS. The handshake may determine which side becomes ready first.
  enum class side
  {
    unknown,
    first,
    last,
  };
  void connect(const endpoint_description& remote, error_code& ec, side which = side::unknown);

  // Returns an offer for one wire of the device, for layer 3. If there is none, `lacking` is the
  // reason.
  [[nodiscard]] endpoint_offer offer(
    const boost::asio::ip::address& local, wire by, error_code& ec, std::string& lacking) const;

  // Connects as connect() does, but for the library's use only until confirmed(): receives wait,
  // and sends are refused.
  void connect_unconfirmed(
    const endpoint_offer& own, const endpoint_description& remote, side which, error_code& ec);

  // Sends an RDMA write without bytes, which the peer's device acknowledges and its program does
  // not notice. Calls `done` once, on any thread, but not inside this call. It is not called if the
  // io_context is destroyed before.
  using confirmation_handler = std::function<void(error_code)>;
  void confirm(confirmation_handler done);

  // Polls for the completion of confirm()'s message, for the case that the threads of the queue
  // pair's io_context are busy.
  void look_for_confirmation();

  // The path carries messages in both directions: enters the state connected.
  void confirmed(std::vector<declined_transport> declined, error_code& ec);

  // Returns the reason why a queue pair on the software device is not on a NIC.
  [[nodiscard]] std::string why_no_nic() const;

  // Returns the reason why the queue pair cannot move to the software device; empty if it can.
  [[nodiscard]] std::string why_not_move() const;

  // Moves a queue pair that is not connected or not confirmed yet to the software device, with its
  // waiting receives.
  void move_to_software(error_code& ec);

  [[nodiscard]] transport_choice transport() const;
  // Returns the reason why the software device does not use shared memory; empty if it does, or for
  // other devices.
  [[nodiscard]] std::string why_not_shared_memory() const;

  // Data that the peer's program sent while connecting.
  void set_peer_data(std::string data);
  [[nodiscard]] std::string peer_data() const;

  // Prepares and connects with the parameters of a connection manager. prepare() repeats INIT, for
  // the port and the access rights.
  void prepare(transition_source& source, error_code& ec);
  void connect(transition_source& source, error_code& ec);

  // The device itself made the last transitions, as iWARP devices do when the connection manager
  // connects.
  void note_connected(const boost::asio::ip::address& own, const boost::asio::ip::address& peer);

  // Takes ownership of the object that connects and then monitors the peer. Returns false and
  // destroys it if the queue pair has a guard already or cannot be connected any more.
  bool attach(std::shared_ptr<connection_guard> guard);

  // Returns the reason of the end; operation_aborted if the queue pair was closed.
  [[nodiscard]] error_code end_reason() const;

  // Returns the attachment of a higher layer. If there is none and the queue pair is connected,
  // `source` makes it. Otherwise returns null and sets ec.
  std::shared_ptr<agent_attachment> attachment_by(agent_attachment_source& source, error_code& ec);

  // Messages to and from the peer's agent_attachment. May throw std::bad_alloc.
  bool send_agent_channel(agent_channel_event event, const std::string& text);
  void on_agent_channel(agent_channel_event event, const std::string& text);

  // For another queue pair to the same peer, on the same device, port and wire. Call before it is
  // connected.
  [[nodiscard]] queue_pair_options options_of_sibling() const;
  endpoint_description describe_sibling(queue_pair_core& sibling, error_code& ec) const;

  // Connects it with the peer's, at the same end of the wire as this queue pair. The caller has
  // checked the description with is_at_peer().
  void connect_sibling(
    queue_pair_core& sibling, const endpoint_description& remote, error_code& ec) const;

  // Returns true if the description is of a queue pair at the address that this one is connected
  // with. The peer chooses what it describes: this process must not connect to any other address.
  [[nodiscard]] bool is_at_peer(const endpoint_description& remote) const;

  // Returns true if the device has sends, writes or other requests without a known result.
  [[nodiscard]] bool sends_in_flight() const;

  // For watching the progress of the send queue.
  struct send_progress
  {
    bool outstanding = false;    // the device has work requests
    std::uint64_t completed = 0; // changes with each completion
  };
  [[nodiscard]] send_progress progress_of_sends() const;

  // A send that waits for a receive of the peer.
  struct missing_receive
  {
    std::uint32_t number = 0;
    std::uint32_t peer_number = 0;
    bool certain = false; // the peer's device reported it; otherwise it is likely
  };

  // Call when no send has completed for some time. A NIC does not report retries, so for NICs the
  // result is derived from the outstanding requests.
  [[nodiscard]] std::optional<missing_receive> find_missing_receive() const;

  // The peer is gone: current and later operations end with `reason`. Only the first reason is
  // used. `why` and `operation` are for diagnose().
  void disconnect(const error_code& reason, const std::string& why = std::string(),
    const std::string& operation = "the connection");

  // Called by the user: operations end with operation_aborted, later ones with error::closed.
  void close();

  // Implements basic_queue_pair::async_wait_close().
  void wait_close(const boost::asio::any_io_executor& executor, end_handler handler);

  // Implements basic_queue_pair::async_shutdown().
  void shut_down(const boost::asio::any_io_executor& executor, end_handler handler);

  // The peer has shut down: operations initiated before still complete, later ones are refused.
  void peer_finished();

  // Both sides have shut down.
  void end_orderly();

  void submit(operation* op, const buffer_list& buffers) override;
  void take(const ibv_wc* completions, std::size_t count, operation_list& ended) override;
  void fail(
    const error_code& reason, const char* what, const work_source* through) noexcept override;
  void end_in_child() noexcept override;
  void on_device_event(const async_event& event) noexcept override;
  void stop() noexcept override;
  void abandon() noexcept override;

private:
  // State and failures
  void apply(connection_event event, mutex_held held, const error_code& reason = {});
  void report_end();
  void note_if_drained(mutex_held held);
  void note_failure(const error_code& code, std::string operation, std::string reason = {},
    std::uint32_t vendor_error = 0);
  void refuse(const char* operation, const error_code& ec, std::string lacking);

  // The device's queue pair
  void create();
  void open_native(mutex_held held);
  void start_flush_timer(mutex_held held);
  void force_flush();
  void end_posted();
  void finish_flushed();
  [[nodiscard]] bool takes_more() const noexcept;
  void unlink(operation* op, mutex_held held) override;
  void terminate(mutex_held held) override;
  bool drained(mutex_held held) override;
  void destroy_native() noexcept;
  void drop_native() noexcept;

  // Connecting
  endpoint_description describe_self(
    const std::optional<boost::asio::ip::address>& local, wire by, error_code& ec, mutex_held held);
  void establish(const endpoint_offer& own, const endpoint_description& remote, side which,
    connection_event next, error_code& ec, mutex_held held);
  int prepare_software(
    const endpoint_description& own, const endpoint_description& remote, side which);
  void transit(transition_source& source, int next_state, error_code& ec);
  void note_transition(const ibv_qp_attr& attributes, int mask);
  [[nodiscard]] std::string obstacle_to_moving() const;
  [[nodiscard]] std::shared_ptr<completion_queue_impl> software_completions(
    std::uint32_t& reserved);
  void leave_nic(mutex_held held);
  static void complete_confirmation(operation* op, bool invoke, bool in_context);

  // Operations
  bool admit(operation* op, const user_buffers& buffers, error_code& ec, const char*& lacking);
  void submit_prepared(operation* op, const user_buffers& buffers);
  void submit_admitted(operation* op, mutex_held held);
  operation* take_one(const ibv_wc& wc, mutex_held held);
  void fill_success(operation* op, const ibv_wc& wc);
  void fill_failure(operation* op, const ibv_wc& wc, mutex_held held);
  [[nodiscard]] bool reason_is_to_come() const noexcept;

  // Handlers that wait for the end
  void withdraw_waiter(std::uint64_t number);
  std::uint64_t add_waiter(end_handler& handler);

  queue_pair_options options_;
  std::optional<completion_queue> own_completions_; // completion queue of the user's options
  device_impl* device_;
  std::size_t device_index_;
  std::shared_ptr<shared_receive_core> receives_;
  std::uint32_t reserved_ = 0; // entries in the completion queue

  connection_fsm connection_;
  request_limits limits_;
  posting posting_;
  operation_list flushed_;                 // they complete when the reason is known
  std::uint64_t confirmation_ = 0;         // wr_id of the message that confirms the path
  bool last_work_request_reached_ = false; // IBV_EVENT_QP_LAST_WQE_REACHED
  rdma::diagnosis first_failure_;
  rdma::diagnosis refusal_; // a feature that the device lacks; reported if nothing failed

  endpoint_identity identity_;
  endpoint_offer own_;          // that the queue pair connects with
  endpoint_description remote_; // of the peer, if known
  side side_ = side::unknown;   // of this queue pair, when it was connected with remote_
  std::uint8_t port_ = 0;       // port of the queue pair
  bool shared_memory_ = false;  // messages used shared memory when the path was confirmed
  std::vector<declined_transport> declined_;
  std::string peer_data_;

  std::shared_ptr<connection_guard> guard_;
  std::shared_ptr<agent_attachment> attachment_;
  // A message of the peer that arrived before there was an agent_attachment.
  std::optional<std::pair<agent_channel_event, std::string>> agent_channel_event_;

  boost::asio::steady_timer flush_timer_;
  bool flush_timer_runs_ = false;

  struct endings;                    // the handlers that wait for the end
  std::unique_ptr<endings> endings_; // created with the first handler
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_CORE_HPP
