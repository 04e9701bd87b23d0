//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CONTROL_CHANNEL_FSM_HPP
#define BOOST_RDMA_LIB_CONNECT_CONTROL_CHANNEL_FSM_HPP

#include "boost_rdma/error.hpp"
#include "completion/connection_fsm.hpp"
#include "connect/control_frame.hpp"

#include <boost/container/static_vector.hpp>

#include <chrono>
#include <cstdint>

namespace rdma::detail {

struct heartbeat_times
{
  std::chrono::milliseconds limit{0};    // silence after which the peer is lost; zero: no limit
  std::chrono::milliseconds interval{0}; // between this side's heartbeats; zero: none are sent
};

// The control channel as a state machine: the time limit of the handshake, heartbeats, and the end
// of the connection (doc/upgrade_protocol.md, "Control frames"). It performs no I/O and reads no
// clock: each function is an event at the time `now` and returns the actions to perform.
class control_channel_fsm
{
public:
  using time_point = std::chrono::steady_clock::time_point;

  enum class action_type
  {
    send,                  // send a frame of type `frame` without a payload
    arm,                   // call on_timer() at `time`; replaces the time that was set before
    disarm,                // the timer is not needed
    probe,                 // find out if bytes were not read yet, or if threads of the program
                           // that read the stream are busy: call on_unread_bytes(),
                           // on_probe_answered() or on_probe_impossible()
    check_missing_receive, // no send has completed for some time; log if the peer has no receive
    report_agent_frame,    // pass the frame to the queue pair's agent attachment
    report_peer_finished,  // tell the queue pair that the peer sends no more
    report_orderly_end,    // tell the queue pair that both sides have sent `finished`
    report_dead_peer,      // tell the queue pair that the peer was silent for too long
    report_end,            // tell the queue pair that the connection has ended with `error`
    shut_down_send,        // end the sending direction of the stream
    close,                 // close the stream and cancel the timer
  };

  struct action
  {
    action_type type;
    frame_type frame{};
    time_point time{};
    error_code error{};
  };
  using actions = boost::container::static_vector<action, 4>;

  enum class phase
  {
    handshake,
    established,
    draining, // the peer has sent `bye`; acknowledgements of sends may still arrive
    closing,  // the last frame was sent; the peer has a limited time to read it
    closed,
  };

  [[nodiscard]] phase state() const noexcept { return phase_; }

  // Reason of the end: set in the phases closing and closed, empty in the others.
  [[nodiscard]] const error_code& reason() const noexcept { return reason_; }

  [[nodiscard]] const heartbeat_times& times() const noexcept { return times_; }

  // The handshake begins. It fails if establish() is not called within the time limit.
  actions start(time_point now, std::chrono::steady_clock::duration time_limit);

  // The handshake has succeeded.
  actions establish(time_point now, const heartbeat_times& times, const send_progress& sends);

  // The user closes the queue pair, or the handshake has failed. Later calls have no effect.
  actions stop(time_point now, const error_code& why);

  // Event: all that this side sent has arrived, and it sends no more.
  actions finish(time_point now);

  // Returns the time since the last progress of the send queue.
  [[nodiscard]] std::chrono::steady_clock::duration sends_stalled_for(time_point now) const noexcept
  {
    return now - sends_.since;
  }

  // The action check_missing_receive has written its line to the log.
  void missing_receive_logged() noexcept { sends_.logged = true; }

  // The caller passed a frame of its own to the stream. For an action `send`, the machine itself
  // calls this.
  void on_sent(time_point now) noexcept
  {
    sent_ = now;
    unwritten_ = !write_failed_;
  }

  // All frames have been written.
  actions on_written();

  // Writing has failed.
  void on_write_failed() noexcept
  {
    write_failed_ = true; // reading reports the error
    unwritten_ = false;
  }

  // Bytes of the peer have arrived.
  void on_bytes(time_point now) noexcept
  {
    received_ = now;
    probing_ = probed_ = false;
  }

  // A whole frame of the peer has arrived.
  actions on_frame(time_point now, frame_type type, const send_progress& sends);

  // Reading has ended: the peer closed the stream, the stream failed, or a frame was malformed.
  actions on_stream_end(const error_code& ec);

  // There is no memory for a frame or a timer.
  actions on_no_memory();

  // The timer has expired.
  actions on_timer(time_point now, const send_progress& sends);

  // Bytes of the peer have arrived and are not read yet.
  actions on_unread_bytes(time_point now, const send_progress& sends);

  // Threads of the program read the stream, and have run since the action `probe`.
  actions on_probe_answered(time_point now, const send_progress& sends);

  // Only the library's thread reads the stream. It is not busy, so the peer is silent.
  actions on_probe_impossible();

private:
  actions check_heartbeats(time_point now, const send_progress& sends);
  actions drain(time_point now, const send_progress& sends);
  actions end(action_type report, const error_code& why);
  actions close(const error_code& why);
  bool watch_sends(time_point now, const send_progress& sends);
  void send(actions& to, time_point now, frame_type type);
  void arm(actions& to, time_point time);
  void end_orderly(actions& to, time_point now);
  void start_closing(actions& to, time_point now, const error_code& why);

  phase phase_ = phase::handshake;
  error_code reason_;
  heartbeat_times times_;
  time_point received_;       // last bytes of the peer
  time_point sent_;           // last frame of this side
  time_point due_;            // time that the timer was set to
  time_point drain_end_;      // latest end of phase::draining
  bool probing_ = false;      // no bytes have arrived since the action `probe`
  bool probed_ = false;       // nor before on_probe_answered(), nor since
  bool unwritten_ = false;    // frames wait to be written
  bool write_failed_ = false; // nothing is written any more
  bool finished_ = false;     // this side has sent frame_type::finished
  bool peer_finished_ = false;
  struct
  {
    bool outstanding = false;
    bool logged = false;
    std::uint64_t completed = 0;
    time_point since;
  } sends_; // the send queue at `since`, the last check that saw progress or nothing outstanding
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_CONTROL_CHANNEL_FSM_HPP
