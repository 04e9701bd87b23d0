//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_CONNECTION_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_CONNECTION_HPP

#include "boost_rdma/cm/options.hpp"
#include "completion/handler_slot.hpp"
#include "completion/queue_pair_core.hpp"
#include "connect/cm/event_channel.hpp"
#include "resource/device_traits.hpp"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

namespace rdma::cm::detail {

using rdma::detail::queue_pair_core;

// Limit of the ports that RDMA-CM selects for one attempt. iWARP uses TCP ports, but RDMA-CM
// selects from its own port space, so the selected port may be in use
// (drivers/infiniband/core/cma.c; siw binds its TCP socket to that port).
inline constexpr int port_attempts_max = 32;

// Receives the outcome of connecting or accepting, once.
using connection_outcome = boost::asio::any_completion_handler<void(error_code, private_data)>;

// One rdma_cm_id, on either side, from the first step of connecting until its queue pair is
// destroyed.
//
// All members run on the service's thread unless stated otherwise. The event channel owns the
// connection. The queue pair's guard and the connection refer to each other's owner weakly.
class connection final
  : public event_sink
  , public std::enable_shared_from_this<connection>
{
public:
  explicit connection(event_channel& channel);

  // Any thread. Assigns the queue pair; returns false if it cannot be connected.
  bool adopt(const std::shared_ptr<queue_pair_core>& core);

  // The client's side.
  void connect(const boost::asio::ip::tcp::endpoint& peer, const connect_options& options,
    connection_outcome outcome);

  // The listener's side: a client's request, which can be accepted or rejected once.
  void requested(const event& request, unique_id id);
  [[nodiscard]] bool is_waiting() const noexcept { return stage_ == stage::requested; }
  [[nodiscard]] const private_data& data() const noexcept { return data_; }
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& peer() const noexcept { return peer_; }
  void accept(const std::shared_ptr<queue_pair_core>& core, const private_data& answer,
    std::chrono::milliseconds time_limit, connection_outcome outcome);
  void reject(const private_data& reason);

  void on_event(const event& what) override;

  // Any thread. Posts the end of an attempt to connect, or the refusal of a client.
  static void post_cancel(connection& link);
  static void post_reject(connection& link, const private_data& reason = private_data());

private:
  // Other threads give orders, which need no memory from the heap.
  enum class order : unsigned
  {
    cancel = 1,
    reject = 2,
    finish = 4,
    stop = 8,
    release = 16,
  };
  struct orders
  {
    std::atomic<unsigned> pending{0}; // a function that carries them out is queued unless it is 0
    rdma::detail::handler_slot slot;  // of that function
    private_data reason;              // of a refusal, which is ordered once
  };
  class sender;
  class guard; // owned by the queue pair

  enum class stage
  {
    idle,
    connecting,
    requested,
    accepting,
    established,
    disconnecting, // the peer has not answered the disconnect request yet
    ended,
  };

  void resolve(error_code& ec);
  void resolve_route(error_code& ec);
  void request(error_code& ec);
  void respond(error_code& ec);
  void step(const event& what);
  void answer_request(const std::shared_ptr<queue_pair_core>& core,
    std::chrono::milliseconds time_limit, error_code& ec);
  void check_device(error_code& ec) const;
  void check_size(std::size_t size_max, error_code& ec) const;
  [[nodiscard]] rdma_conn_param parameters(const queue_pair_core& core) const;
  [[nodiscard]] const rdma::detail::device_traits& traits() const noexcept;
  [[nodiscard]] bool in_handshake() const noexcept;
  [[nodiscard]] int remaining_ms() const;
  void set_deadline(std::chrono::milliseconds time_limit);
  void succeed(const private_data& data);
  void fail(const error_code& ec, const private_data& data = private_data());
  void report(const error_code& ec, const private_data& data);
  void carry_out(unsigned which);
  void stop();
  void finish();
  void release();
  void on_disconnected();
  void wait_for_sends(std::chrono::steady_clock::time_point end);

  event_channel& channel_;
  const std::shared_ptr<orders> orders_ = std::make_shared<orders>();
  boost::asio::steady_timer timer_;
  unique_id id_;
  std::weak_ptr<queue_pair_core> core_;
  connection_outcome outcome_;
  stage stage_ = stage::idle;
  bool released_ = false;   // the queue pair was destroyed, or there is none
  bool answer_due_ = false; // destroying the id would block (connection_manager_blocks)
  std::chrono::steady_clock::time_point deadline_;
  private_data data_; // to send; before accept(), data of the request
  rdma_conn_param requested_{};
  boost::asio::ip::tcp::endpoint peer_;
  std::optional<boost::asio::ip::address> source_;
  int ports_left_ = port_attempts_max - 1;
};

// The attributes by which librdmacm changes the state of a queue pair.
class id_transitions final : public rdma::detail::transition_source
{
public:
  explicit id_transitions(const unique_id& id)
    : id_(id)
  {
  }
  int fill(ibv_qp_attr& attributes, int& mask) override;

  // Returns true if the peer gave up meanwhile, which librdmacm reports by EINVAL.
  [[nodiscard]] bool peer_left() const noexcept { return peer_left_; }

private:
  const unique_id& id_;
  bool peer_left_ = false;
};

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_CONNECTION_HPP
