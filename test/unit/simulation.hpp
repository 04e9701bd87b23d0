//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_SIMULATION_HPP

#include "unit/simulated_program.hpp"
#include "verbs/software/wire/local_wire.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

// Two reliable queue pairs on the local wire, in one thread. A seed decides which end takes the
// next step, and which step. The real requester, responder, rings and direct access run; time is
// simulated: a wait is over when the seed says so. An oracle checks the rules of IBA chapter 9.
// The two ends are on one host, so no partition can separate them.

namespace simulation {

/// One end on the local wire.
class end final : public program
{
public:
  using program::program;
  ~end() { close(); }

  void connect(end& peer, std::shared_ptr<wire::segment> by, unsigned which, int socket)
  {
    peer_ = peer_end_ = &peer;
    lane_ = {0, 1};
    link_.emplace(wire::descriptor(socket), std::move(by), which);
    if (which == 0)
      REQUIRE(link_->take(with_.qp));
    else
      REQUIRE(link_->adopt(lane_, with_.qp));
    link.open(*link_, lane_);
  }

  void post_receive()
  {
    if (program::post_receive())
      transmit(true);
  }

  // --- progress ---

  void receive()
  {
    if (over_ || !has_news())
      return;
    // Before the rings are read, as in connection::read_local().
    const bool ended = link_->is_over(lane_);
    if (ended ? !link.receive_the_rest() : !link.receive(polls_ == polls::lane))
      fail("the peer's frames are malformed");
    if (const std::int64_t wait = count_waits(); wait != 0)
      wait_ = wait;
    if (ended)
      lose();
    look();
  }

  void transmit(bool acknowledge)
  {
    if (over_)
      return;
    link.transmit(acknowledge);
    const wire::lane_side& mine = link_->memory()->side(lane_.lane, link_->end());
    found_.full_rings += mine.waits.blocked.load() != 0 ? 1 : 0;
    found_.refused_bells += link.wake_again_at() != 0 && socket_filled_ ? 1 : 0;
    look();
  }

  /// Does all that can be done now. No wait is over: an acknowledgement must end it.
  void work()
  {
    receive();
    transmit(true);
  }

  /// Waits for the socket, unless something is there.
  void sleep()
  {
    transmit(true); // the thread that posts a request does this
    if (over_)
      return;
    poll_memory(polls::nothing);
    asleep_ = !rung_ && !link.unfinished() && !requests.unfinished();
  }
  bool asleep() const { return asleep_; }

  /// The peer's wake-ups are refused until this end's socket is read: it is full of others.
  void fill_socket_of_peer()
  {
    const std::byte wake_up{};
    if (link_)
      while (::send(link_->socket(), &wake_up, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        socket_filled_ = true;
  }

  /// Transmits while the socket refuses wake-ups. The peer finds nothing in it afterwards.
  void transmit_unheard()
  {
    if (over_ || peer_end_->over_)
      return;
    pollfd p{peer_end_->link_->socket(), POLLIN, 0};
    if (::poll(&p, 1, 0) != 0)
      return; // messages of this end
    fill_socket_of_peer();
    transmit(true);
    std::byte wake_up{};
    while (::recv(p.fd, &wake_up, 1, MSG_DONTWAIT) == 1)
    {
    }
  }

  /// Repeats a wake-up that the socket has refused, when its time has come. Returns false if there
  /// is none.
  bool repeat_wake_up()
  {
    if (wake_due_)
    {
      wake_due_ = !link_->wake(); // as served_link::come_due()
      return true;
    }
    if (!socket_filled_ || over_ || link.wake_again_at() == 0)
      return false;
    asleep_ = false;
    rung_ = true;
    work();
    sleep();
    return true;
  }

  /// Returns true if there is something in the socket.
  bool is_readable() const
  {
    pollfd p{link_ ? link_->socket() : -1, POLLIN, 0};
    return !over_ && ::poll(&p, 1, 0) == 1;
  }

  /// Reads the socket, as served_link::work().
  void hear()
  {
    wire::attach_message hello;
    wire::local_link::heard what;
    do
      what = link_->hear(hello);
    while (what == wire::local_link::heard::message || what == wire::local_link::heard::wake);
    link_->rearm();
    rung_ = rung_ || what == wire::local_link::heard::end;
    take_bells();
  }

  enum class polls
  {
    nothing,
    lane,
    bells,
  };

  /// A thread begins to poll this memory, or ends, as engine::look_at() and look_away().
  void poll_memory(polls what)
  {
    polls_ = what;
    if (!link.is_open())
      return;
    link.want_bell(what != polls::lane);
    link_->look(what != polls::nothing);
    rung_ = rung_ || link_->has_bells() || link.ready(); // it looks once more
  }

  /// Returns true if receive() would find something.
  bool is_rung() const
  {
    return !over_
      && (rung_ || link_->has_bells() || (polls_ == polls::lane && link.ready())
        || link.unfinished());
  }

  /// The time of the next resume(), in ns from now on, after receive(). 0: there is none.
  std::int64_t take_wait() { return std::exchange(wait_, 0); }

  /// Reads the socket. Returns false if there is nothing. An end that was asleep polls for a while:
  /// its lane, or the bells, by turns.
  bool wake()
  {
    if (!is_readable())
      return false;
    hear();
    asleep_ = false;
    poll_memory(++wakes_ % 3 == 0 ? polls::nothing : wakes_ % 3 == 1 ? polls::lane : polls::bells);
    if (polls_ != polls::nothing)
      rung_ = true; // the thread that begins to poll looks once
    return true;
  }

  /// The process is killed: nothing tells the peer but the end of the socket.
  void kill()
  {
    over_ = killed_ = true;
    if (link_)
      ::shutdown(link_->socket(), SHUT_RDWR);
  }

  /// The program destroys the queue pair, as connection::close().
  void destroy()
  {
    if (over_)
      return;
    over_ = killed_ = true;
    link.say_the_last();
    link.close();
    wake_due_ = !link_->release(lane_);
  }

  void close()
  {
    over_ = true;
    if (link.is_open())
      link.close();
    link_.reset();
  }

private:
  // As served_link::work(): without a bell nobody looks at a lane that is not polled.
  bool has_news()
  {
    take_bells();
    return std::exchange(rung_, false) || polls_ == polls::lane || link.unfinished();
  }

  void take_bells()
  {
    link_->take_bells([this](unsigned lane) { rung_ = rung_ || lane == lane_.lane; });
  }

  // As queue_pair::look_for_the_end().
  void look()
  {
    if (!over_ && (requests.failed() || responses.failed()))
      end_now();
  }

  void lose()
  {
    lost_ = peer_end_->over_;
    if (requests.expecting() && !requests.failed())
      requests.fail(IBV_WC_RETRY_EXC_ERR, detail_connection_lost);
    end_now();
  }

  void end_now()
  {
    over_ = true;
    requests.halt();
    link.say_the_last();
    link.close();
    wake_due_ = !link_->release(lane_);
    requests.flush();
    responses.flush();
  }

  end* peer_end_ = nullptr;
  std::optional<wire::local_link> link_;
  wire::lane_use lane_;
  polls polls_ = polls::nothing;
  bool rung_ = false;
  unsigned wakes_ = 0;
  std::int64_t wait_ = 0;

  bool asleep_ = false;
  bool wake_due_ = false;      // for the last time
  bool socket_filled_ = false; // that of the peer, once

public:
  grant_table grants;
  wire::local_wire link{with_, requests, responses, grants, 20000};
};

} // namespace simulation

#endif // BOOST_RDMA_TEST_UNIT_SIMULATION_HPP
