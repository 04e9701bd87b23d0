//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/connection_fsm.hpp"

#include "common/catch.hpp"

#include <boost/asio/error.hpp>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

// Tests each state with each event, and the errors that follow from a connection's history.

namespace {

namespace asio = boost::asio;
using rdma::error;
using rdma::error_code;
using rdma::wc_status;
using rdma::detail::connection_fsm;
using event = rdma::detail::connection_event;
using state = rdma::detail::connection_state;

constexpr std::array state_names{"open", "open_failed", "unconfirmed", "unconfirmed_failed",
  "connected", "draining", "finished", "failed", "broken", "closed", "abandoned"};
constexpr std::array event_names{"settled", "established", "connected", "moved", "shut_down",
  "peer_finished", "drained", "ended", "failed", "device_failed", "terminated", "disconnected",
  "closed", "lost", "timed_out", "forked", "abandoned"};
constexpr std::array action_names{"release_receives", "report_end", "end_waiting", "move_to_error",
  "start_flush_timer", "destroy", "notify_peer", "close_channel"};

// Events that take a new connection to each state, in the order of the states.
const std::vector<std::vector<event>> paths{
  {},
  {event::terminated},
  {event::established},
  {event::established, event::terminated},
  {event::connected},
  {event::connected, event::shut_down},
  {event::connected, event::shut_down, event::drained},
  {event::connected, event::terminated},
  {event::connected, event::disconnected},
  {event::connected, event::closed},
  {event::abandoned},
};

connection_fsm in_state(std::size_t index)
{
  connection_fsm made(false);
  for (const event each : paths[index])
    made.apply(each, error::peer_lost);
  REQUIRE(static_cast<std::size_t>(made.state()) == index);
  return made;
}

// A column for each state. "." no transition; "=" the state stays; "5 em" the state with index 5
// and the actions whose letters are e and m. Letters: r release_receives, e report_end, w
// end_waiting, m move_to_error, t start_flush_timer, d destroy, n notify_peer, c close_channel.
constexpr const char* letters = "rewmtdnc";
const std::vector<std::string> expected{
  // 0      1      2      3      4       5       6       7      8    9    10
  "  =r     =r     =r     =r     .       .       .       .      .    .    .", // settled
  "  2      .      .      .      .       .       .       .      .    .    .", // established
  "  4r     7r     4r     .      .       .       .       .      .    .    .", // connected
  "  .      0      0      0      .       .       .       .      .    .    .", // moved
  "  .      .      .      .      5       .       .       .      .    .    .", // shut_down
  "  .      .      .      .      5       .       .       =c     .    .    .", // peer_finished
  "  .      .      .      .      .       6n      .       .      .    .    .", // drained
  "  .      .      .      .      8ewmt   8ewmt   8ewmt   8ewt   .    .    .", // ended
  "  1et    =et    3      .      7et     7et     7et     =et    =t   =t   .", // failed
  "  1mt    =t     3m     .      7emt    7emt    7emt    =et    =t   =t   .", // device_failed
  "  1mt    =t     3m     .      7mt     7mt     7mt     =t     =t   =t   .", // terminated
  "  8ewmt  8ewt   8ewmt  8ewt   8ewmt   8ewmt   8ewmt   8ewt   .    .    .", // disconnected
  "  9ewmt  9ewt   9ewmt  9ewt   9ewmt   9ewmt   9ewmt   9ewt   9wt  .    .", // closed
  "  8ed    8ed    8ed    8ed    8ed     8ed     8ed     8ed    =d   =d   .", // lost
  "  8ed    8ed    8ed    8ed    8ed     8ed     8ed     8ed    =d   =d   .", // timed_out
  "  =e     =e     =e     =e     =e      =e      =e      =e     .    .    .", // forked
  "  10     10     10     10     10      10      10      10     10   10   .", // abandoned
};

std::string cell(std::size_t before, std::size_t after, unsigned actions)
{
  if (before == after && actions == 0)
    return ".";
  std::string result = before == after ? "=" : std::to_string(after);
  for (std::size_t i = 0; i < action_names.size(); ++i)
    if ((actions & (1u << i)) != 0)
      result += letters[i];
  return result;
}

TEST_CASE("every event has the listed transition and actions in every state")
{
  REQUIRE(paths.size() == state_names.size());
  REQUIRE(expected.size() == event_names.size());
  std::size_t transitions = 0;
  for (std::size_t e = 0; e < event_names.size(); ++e)
  {
    std::istringstream row(expected[e]);
    for (std::size_t s = 0; s < state_names.size(); ++s)
    {
      connection_fsm connection = in_state(s);
      const unsigned actions = connection.apply(static_cast<event>(e), error::device_lost);
      const auto after = static_cast<std::size_t>(connection.state());
      std::string wanted;
      row >> wanted;
      INFO(event_names[e] << " in " << state_names[s]);
      CHECK(cell(s, after, actions) == wanted);
      if (wanted == ".")
        continue;
      ++transitions;
      std::string names;
      for (std::size_t i = 0; i < action_names.size(); ++i)
        if ((actions & (1u << i)) != 0)
          names += std::string(" ") + action_names[i];
      std::printf("%-18s %-13s -> %-18s%s\n", state_names[s], event_names[e], state_names[after],
        names.c_str());
    }
  }
  std::printf("%zu states, %zu events, %zu transitions, all covered\n", state_names.size(),
    event_names.size(), transitions);
}

TEST_CASE("receives are released once")
{
  connection_fsm connection(false);
  CHECK(connection.apply(event::settled) == rdma::detail::connection_action::release_receives);
  CHECK(connection.device_final());
  CHECK(connection.apply(event::settled) == 0);
  CHECK(connection.apply(event::connected) == 0);
  CHECK(connection_fsm(true).apply(event::connected) == 0);
}

TEST_CASE("the side that shuts down first ends without error in an orderly end")
{
  connection_fsm connection;
  connection.apply(event::connected);
  connection.apply(event::shut_down);
  CHECK(connection.send_refusal() == asio::error::shut_down);
  CHECK(connection.submit_error(false) == asio::error::shut_down);
  CHECK_FALSE(connection.submit_error(true));
  connection.apply(event::drained);
  connection.apply(event::peer_finished);
  CHECK(connection.send_refusal() == asio::error::shut_down);
  connection.apply(event::ended);
  REQUIRE(connection.end());
  CHECK(connection.end()->reason == asio::error::operation_aborted);
  CHECK_FALSE(connection.end()->of_close);
  CHECK_FALSE(connection.end()->of_shutdown);
  CHECK(connection.reason() == asio::error::operation_aborted);
}

TEST_CASE("the side that does not shut down ends with peer_closed in an orderly end")
{
  connection_fsm connection;
  connection.apply(event::connected);
  connection.apply(event::peer_finished);
  CHECK(connection.submit_error(false) == error::peer_closed);
  connection.apply(event::drained);
  connection.apply(event::ended);
  REQUIRE(connection.end());
  CHECK(connection.end()->of_close == error::peer_closed);
  CHECK_FALSE(connection.end()->of_shutdown);
  CHECK(connection.submit_error(true) == error::peer_closed);
}

TEST_CASE("both sides may shut down, and the first refusal of sends stays")
{
  connection_fsm connection;
  connection.apply(event::connected);
  connection.apply(event::peer_finished);
  connection.apply(event::shut_down);
  CHECK(connection.send_refusal() == error::peer_closed);
  connection.apply(event::drained);
  connection.apply(event::ended);
  CHECK_FALSE(connection.end()->of_close);
}

TEST_CASE("the first reason of an end is reported, later ones are not")
{
  connection_fsm connection;
  connection.apply(event::connected);
  connection.apply(event::failed, error::peer_lost);
  REQUIRE(connection.end());
  CHECK(connection.end()->of_close == error::peer_lost);
  CHECK(connection.end()->of_shutdown == error::peer_lost);
  CHECK_FALSE(connection.reason());
  CHECK(connection.use_error() == wc_status::flushed);
  connection.apply(event::disconnected, error::device_lost);
  CHECK(connection.end()->of_close == error::peer_lost);
  CHECK(connection.reason() == error::device_lost);
  connection.apply(event::disconnected, error::peer_lost);
  CHECK(connection.reason() == error::device_lost);
  connection.apply(event::closed);
  CHECK(connection.reason() == asio::error::operation_aborted);
  CHECK(connection.submit_error(true) == error::closed);
  connection.apply(event::lost, error::device_lost);
  CHECK(connection.reason() == asio::error::operation_aborted);
}

TEST_CASE("an asynchronous event of the queue pair determines the reason when the flush times out")
{
  connection_fsm connection;
  connection.apply(event::connected);
  connection.apply(event::device_failed);
  CHECK(connection.end()->reason == error::queue_pair_failed);
  CHECK(connection.use_error() == error::queue_pair_failed);
  CHECK(connection.flush_reason() == wc_status::flushed);
  connection.apply(event::timed_out);
  CHECK(connection.reason() == error::queue_pair_failed);

  connection_fsm other;
  other.apply(event::connected);
  other.apply(event::terminated);
  other.apply(event::timed_out);
  CHECK(other.reason() == wc_status::flushed);
}

TEST_CASE("a move to another device forgets the failure of the first one")
{
  connection_fsm connection(false);
  connection.apply(event::established);
  CHECK(connection.was_connected());
  CHECK(connection.connect_error() == error::already_connected);
  CHECK_FALSE(connection.confirmation_error());
  connection.apply(event::device_failed);
  CHECK(connection.confirmation_error() == error::path_not_confirmed);
  CHECK_FALSE(connection.end());
  connection.apply(event::moved);
  CHECK_FALSE(connection.was_connected());
  CHECK_FALSE(connection.device_final());
  CHECK_FALSE(connection.connect_error());
  connection.apply(event::connected);
  CHECK_FALSE(connection.use_error());
  connection.apply(event::terminated);
  connection.apply(event::timed_out);
  CHECK(connection.reason() == wc_status::flushed);
}

TEST_CASE("errors of submitting, connecting and using depend on the state")
{
  const auto check = [](std::size_t index, const error_code& send, const error_code& receive,
                       const error_code& connect, const error_code& use, const error_code& confirm)
  {
    const connection_fsm connection = in_state(index);
    INFO(state_names[index]);
    CHECK(connection.submit_error(false) == send);
    CHECK(connection.submit_error(true) == receive);
    CHECK(connection.connect_error() == connect);
    CHECK(connection.use_error() == use);
    CHECK(connection.confirmation_error() == confirm);
  };
  const error_code none;
  const error_code early = error::not_connected;
  const error_code again = error::already_connected;
  const error_code path = error::path_not_confirmed;
  const error_code closed = error::closed;
  const error_code lost = error::peer_lost;
  const error_code refused = asio::error::shut_down;
  const error_code aborted = asio::error::operation_aborted;
  check(0, early, none, none, early, path);
  check(1, early, none, none, early, path);
  check(2, early, none, again, early, none);
  check(3, early, none, again, early, path);
  check(4, none, none, again, none, path);
  check(5, refused, none, again, none, path);
  check(6, refused, none, again, none, path);
  check(7, none, none, again, wc_status::flushed, path);
  check(8, lost, lost, closed, lost, lost);
  check(9, closed, closed, closed, closed, aborted);
  check(10, closed, closed, closed, closed, closed);
}

TEST_CASE("the predicates name the listed states")
{
  struct
  {
    const char* name;
    bool (connection_fsm::*predicate)() const noexcept;
    const char* states; // one digit for each state
  } const rows[] = {
    {"is_open", &connection_fsm::is_open, "11111111100"},
    {"is_alive", &connection_fsm::is_alive, "11111111000"},
    {"is_initial", &connection_fsm::is_initial, "11000000000"},
    {"is_unconfirmed", &connection_fsm::is_unconfirmed, "00110000000"},
    {"is_connected", &connection_fsm::is_connected, "00001110000"},
    {"carries", &connection_fsm::carries, "00001111000"},
    {"in_error", &connection_fsm::in_error, "01010001111"},
  };
  for (const auto& row : rows)
    for (std::size_t i = 0; i < state_names.size(); ++i)
    {
      INFO(row.name << " in " << state_names[i]);
      const connection_fsm connection = in_state(i);
      CHECK((connection.*row.predicate)() == (row.states[i] == '1'));
    }
}

} // namespace
