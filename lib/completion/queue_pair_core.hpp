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
#include "completion/handler_slot.hpp"
#include "completion/posting.hpp"
#include "completion/request_checks.hpp"
#include "resource/device_listener.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma::detail {

class device_impl;
class early_receive;
class shared_receive_core;

// Monitors the peer while the queue pair is connected (layer 3). close() ends the monitoring
// and notifies the peer. The guard calls queue_pair_core::disconnect() when the peer is gone.
// Destroyed after the verbs queue pair, as librdmacm requires (rdma_destroy_id(3)).
class connection_guard
{
public:
  virtual ~connection_guard() = default;
  virtual void close() noexcept = 0;

  // Notifies the peer that all data of this side has arrived at the peer, and that no more follows.
  // The guard calls queue_pair_core::end_orderly() when both sides have sent this notification. A
  // protocol without it (RDMA-CM) ends the connection instead. The queue pair's mutex is held.
  virtual void finish() noexcept = 0;

  // Sends a message to the peer's agent_attachment; returns false if there is no control channel.
  virtual bool send_agent_channel(agent_channel_event, const std::string&) { return false; }
};

// The connection manager's parameters of a state transition (rdma_init_qp_attr(3)). The caller of
// fill() sets attributes.qp_state to the new state. fill() sets the other attributes of the
// transition, and the mask. Returns 0 or an errno value.
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
  // `executor` is the inner_executor() of the I/O object's executor. same_context is true if both
  // are the same, i.e. the I/O object does not use a strand. Throws system_error.
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
  // Returns the executor that make() received.
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

  // Order in which the two queue pairs become ready to receive, if the handshake determines it. On
  // the software device, `last` opens the connection.
  enum class side
  {
    unknown,
    first,
    last,
  };

  // Moves the device's queue pair from INIT to RTR and RTS. `which` is this side.
  void connect(const endpoint_description& remote, error_code& ec, side which = side::unknown);

  // Returns an offer to connect by the wire `by` of the device, for the handshake. If that is not
  // possible, sets ec. `lacking` is the reason as text, if it is known.
  [[nodiscard]] endpoint_offer offer(
    const boost::asio::ip::address& local, wire by, error_code& ec, std::string& lacking) const;

  // Connects as connect() does. Until confirmed() the user's sends are refused, and receives wait
  // if the queue pair may still move to another device.
  void connect_unconfirmed(
    const endpoint_offer& own, const endpoint_description& remote, side which, error_code& ec);

  // Sends an RDMA write without bytes, which the peer's device acknowledges and its program does
  // not notice. Calls `done` with the result, on any thread, unless the io_context is destroyed
  // before.
  using confirmation_handler = std::function<void(error_code)>;
  void confirm(confirmation_handler done);

  // Returns true if messages are known to reach the peer's device: it had a link to this one before
  // this queue pair connected.
  [[nodiscard]] bool is_linked() const;

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

  // The data that the peer's program sent while connecting.
  void set_peer_data(std::string data);
  [[nodiscard]] std::string peer_data() const;

  // Two steps to connect by a connection manager, with the attributes of `source`. Before a request
  // is sent or answered, prepare() enters INIT again, with the manager's port and the access rights
  // of this device. connect() enters RTR and RTS.
  void prepare(transition_source& source, error_code& ec);
  void connect(transition_source& source, error_code& ec);

  // Replaces connect() on devices that enter RTS by themselves when the connection manager connects
  // (iWARP). The accepting side is the first one.
  void note_connected(const boost::asio::ip::address& own, const boost::asio::ip::address& peer,
    side which = side::unknown);

  // Returns true if this is the accepting side of a connection in which the other one sends first
  // (iWARP; RFC 5044, 7.1.2).
  [[nodiscard]] bool sends_second() const;

  // Returns the receive of queue_pair_options::for_stream; null if there is none, or on a further
  // call.
  [[nodiscard]] std::shared_ptr<early_receive> take_early_receive();

  // Ends the operations that the device should have flushed, if its time is over. A timer of the
  // execution context calls it, and a thread that waits without the context.
  void force_flush();

  // Takes ownership of the object that connects and then monitors the peer. Returns false and
  // destroys it if the queue pair has a guard already or cannot be connected any more.
  bool attach(std::shared_ptr<connection_guard> guard);

  // Returns the reason of the end; operation_aborted if the queue pair was closed.
  [[nodiscard]] error_code end_reason() const;

  // Returns the attachment of a higher layer. If there is none and the queue pair is connected,
  // `source` makes it. Otherwise returns null and sets ec.
  std::shared_ptr<agent_attachment> attachment_by(agent_attachment_source& source, error_code& ec);

  // Sends a message to the peer's agent_attachment; returns false if there is no control channel.
  // May throw std::bad_alloc.
  bool send_agent_channel(agent_channel_event event, const std::string& text);

  // Passes a message of the peer's agent_attachment to that of this side. May throw std::bad_alloc.
  void on_agent_channel(agent_channel_event event, const std::string& text);

  // A sibling is another queue pair to the same peer, on the same device, port and wire. Returns
  // the options to create it.
  [[nodiscard]] queue_pair_options options_of_sibling() const;

  // Returns the description of a sibling that is not connected yet.
  endpoint_description describe_sibling(queue_pair_core& sibling, error_code& ec) const;

  // Connects a sibling with the peer's sibling, which `remote` describes. The caller has checked
  // `remote` with is_at_peer().
  void connect_sibling(
    queue_pair_core& sibling, const endpoint_description& remote, error_code& ec) const;

  // Returns true if `remote` has the address that this queue pair is connected with. This process
  // must not connect a sibling to any other address, but the peer can name any in a description.
  [[nodiscard]] bool is_at_peer(const endpoint_description& remote) const;

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

  // Ends the connection because the peer is gone: current and later operations end with the error
  // `reason`. diagnose() shows the texts: `why` explains the error, `operation` is what failed.
  // Only the first call has an effect.
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
  void count_connection(bool disconnected);
  void report_end();
  void note_if_drained(mutex_held held);
  void note_failure(const error_code& code, std::string operation, std::string reason = {},
    std::uint32_t vendor_error = 0);
  void refuse(const char* operation, const error_code& ec, std::string lacking);

  // The device's queue pair
  void create();
  void open_native(mutex_held held);
  void start_flush_timer(mutex_held held);
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
  void transit(transition_source& source, std::initializer_list<ibv_qp_state> states,
    connection_event then, error_code& ec);
  void transit(transition_source& source, ibv_qp_state next_state, error_code& ec);
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
  inline void post_admitted(operation* op, mutex_held held);
  operation* take_one(const ibv_wc& wc, mutex_held held);
  operation* take_unusual(operation* op, const ibv_wc& wc, bool last, mutex_held held);
  void fill_failure(operation* op, const ibv_wc& wc, mutex_held held);
  [[nodiscard]] bool reason_is_to_come() const noexcept;

  // Handlers that wait for the end
  void withdraw_waiter(std::uint64_t number);
  std::uint64_t add_waiter(end_handler& handler);

  queue_pair_options options_;
  std::optional<completion_queue> own_completions_; // queue_pair_options::completions
  device_impl* device_;
  std::size_t device_index_;
  std::shared_ptr<shared_receive_core> receives_;
  std::shared_ptr<early_receive> early_receive_;
  std::uint32_t reserved_ = 0; // entries in the completion queue

  connection_fsm connection_;
  enum class counted : std::uint8_t
  {
    nothing,
    connected,
    end,
  } counted_ = counted::nothing; // by the context's `activity`
  request_limits limits_;
  posting posting_;
  operation_list flushed_;                 // wait for the reason: see reason_is_to_come()
  std::uint64_t confirmation_ = 0;         // wr_id of the message that confirms the path
  bool last_work_request_reached_ = false; // IBV_EVENT_QP_LAST_WQE_REACHED
  rdma::diagnosis first_failure_;
  rdma::diagnosis refusal_; // a feature that the device lacks; reported if nothing failed

  endpoint_identity identity_;
  endpoint_offer own_;          // the offer that the queue pair connects with
  endpoint_description remote_; // of the peer, if known
  side side_ = side::unknown;   // this side, since the queue pair was connected with remote_
  std::uint8_t port_ = 0;       // port of the queue pair
  bool shared_memory_ = false;  // messages used shared memory when the path was confirmed
  std::vector<declined_transport> declined_;
  std::string peer_data_;

  std::shared_ptr<connection_guard> guard_;
  std::shared_ptr<agent_attachment> attachment_;
  // A message of the peer that arrived before there was an agent_attachment.
  std::optional<std::pair<agent_channel_event, std::string>> agent_channel_event_;

  handler_slot flush_slot_; // of the timer's handler
  boost::asio::steady_timer flush_timer_;
  bool flush_timer_runs_ = false;

  struct endings;                    // the handlers that wait for the end
  std::unique_ptr<endings> endings_; // created with the first handler
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_QUEUE_PAIR_CORE_HPP
