//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_CONNECTION_FSM_HPP
#define BOOST_RDMA_LIB_COMPLETION_CONNECTION_FSM_HPP

#include "boost_rdma/error.hpp"

#include <cstdint>
#include <optional>

namespace rdma::detail {

// Progress of a queue pair's send queue.
struct send_progress
{
  bool outstanding = false;    // the device has work requests
  std::uint64_t completed = 0; // changes with each completion
};

// A set of bits: what the queue pair does after a transition.
using connection_actions = std::uint16_t;

namespace connection_action {
// Posts the receives that waited for the queue pair's final device.
inline constexpr connection_actions release_receives = 1 << 0;
// Completes the handlers that wait for the end, and informs the attachment. end() has the result.
inline constexpr connection_actions report_end = 1 << 1;
// Ends with reason(): operations that are not posted, and those that the device has flushed.
inline constexpr connection_actions end_waiting = 1 << 2;
// Moves the device's queue pair to the error state.
inline constexpr connection_actions move_to_error = 1 << 3;
// Limits the time that the device has to flush the posted operations.
inline constexpr connection_actions start_flush_timer = 1 << 4;
// Destroys the device's queue pair and ends all operations with reason().
inline constexpr connection_actions destroy = 1 << 5;
// Notifies the peer that all data of this side has arrived.
inline constexpr connection_actions notify_peer = 1 << 6;
// Closes the control channel, because the peer waits for a notification that will not be sent.
inline constexpr connection_actions close_channel = 1 << 7;
} // namespace connection_action

enum class connection_state : std::uint8_t
{
  open,               // not connected yet
  open_failed,        // as open; the device's queue pair is in the error state
  unconfirmed,        // RTS; the path is not confirmed yet
  unconfirmed_failed, // as unconfirmed; the device's queue pair is in the error state
  connected,          // RTS
  draining,           // one side has shut down: later sends are refused, earlier ones complete
  finished,           // as draining; the peer was notified that all data of this side has arrived
  failed,             // was connected; the device's queue pair is in the error state
  broken,             // operations end with reason()
  closed,             // as broken, by the user
  abandoned,          // all resources are released
};

enum class connection_event : std::uint8_t
{
  settled,       // the queue pair stays on its device
  established,   // RTS; the path is to be confirmed
  connected,     // RTS and usable, or the path is confirmed
  moved,         // to another device
  shut_down,     // by this side's user
  peer_finished, // the peer has shut down
  drained,       // no send waits or is posted
  ended,         // both sides were notified that all data has arrived
  failed,        // a completion reported `reason`: the device entered the error state (IBA 10.3.1)
  device_failed, // an asynchronous event reported the device's queue pair as failed
  terminated,    // a posted operation was cancelled, or could not be posted as a whole
  disconnected,  // the peer is gone, for `reason`
  closed,        // by the user
  lost,          // the device or the completion queue failed, for `reason`
  timed_out,     // the device did not flush in time
  forked,        // this is a child process, which cannot use the connection
  abandoned,     // the io_context is destroyed
};

// State machine of a queue pair's connection, without I/O. apply() returns the actions that follow
// from an event. The caller carries them out before the next event.
class connection_fsm
{
public:
  // Result of a connection, once it has ended.
  struct end_result
  {
    error_code reason;
    error_code of_close;    // for async_wait_close()
    error_code of_shutdown; // for async_shutdown()
  };

  // Receives are posted at once if the device is final. Otherwise they wait for the event
  // `settled` or `connected`.
  explicit connection_fsm(bool device_final = true) noexcept
    : device_final_(device_final)
  {
  }

  // `reason` is used by the events that name it. An event without a transition from this state
  // changes nothing.
  connection_actions apply(connection_event event, const error_code& reason = {}) noexcept;

  [[nodiscard]] connection_state state() const noexcept { return state_; }
  [[nodiscard]] bool is_open() const noexcept { return state_ < connection_state::closed; }
  [[nodiscard]] bool is_alive() const noexcept { return state_ < connection_state::broken; }
  [[nodiscard]] bool is_connected() const noexcept
  {
    return state_ >= connection_state::connected && state_ <= connection_state::finished;
  }
  // Returns true from the event `connected` until reason() is set; also in the state `failed`.
  [[nodiscard]] bool carries() const noexcept
  {
    return state_ >= connection_state::connected && state_ <= connection_state::failed;
  }
  // Returns true before connecting: a description can still be exchanged.
  [[nodiscard]] bool is_initial() const noexcept { return state_ <= connection_state::open_failed; }
  [[nodiscard]] bool is_unconfirmed() const noexcept
  {
    return state_ == connection_state::unconfirmed
      || state_ == connection_state::unconfirmed_failed;
  }
  [[nodiscard]] bool in_error() const noexcept
  {
    return state_ >= connection_state::failed || state_ == connection_state::open_failed
      || state_ == connection_state::unconfirmed_failed;
  }

  // Returns true if the device's queue pair has been in RTR; false after a move.
  [[nodiscard]] bool was_connected() const noexcept { return was_connected_; }
  [[nodiscard]] bool device_final() const noexcept { return device_final_; }

  // Returns the error of operations that end with the connection; none while it is alive.
  [[nodiscard]] const error_code& reason() const noexcept { return reason_; }
  // Returns the error of operations that the device has flushed: reason(), or wc_status::flushed.
  [[nodiscard]] error_code flush_reason() const noexcept
  {
    return reason_ ? reason_ : make_error_code(wc_status::flushed);
  }
  // Returns the error of sends after a shutdown by either side.
  [[nodiscard]] const error_code& send_refusal() const noexcept { return send_refusal_; }
  [[nodiscard]] const std::optional<end_result>& end() const noexcept { return end_; }

  // Returns the error of submitting an operation now; none if that is possible.
  [[nodiscard]] error_code submit_error(bool receive) const noexcept;
  // Returns the error of connecting the queue pair now; none if that is possible.
  [[nodiscard]] error_code connect_error() const noexcept;
  // Returns the error of using the connection for data now; none if that is possible.
  [[nodiscard]] error_code use_error() const noexcept;
  // Returns the error of a confirmation that arrives now; none if it connects the queue pair.
  [[nodiscard]] error_code confirmation_error() const noexcept;

private:
  void note_data(connection_event event, const error_code& reason) noexcept;
  void note_end(connection_event event, const error_code& reason) noexcept;

  connection_state state_ = connection_state::open;
  bool device_final_;
  bool was_connected_ = false;
  bool shut_down_here_ = false;
  bool device_failed_ = false;
  error_code reason_;
  error_code send_refusal_;
  std::optional<end_result> end_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_CONNECTION_FSM_HPP
