//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_AGENT_REQUEST_TABLE_HPP
#define BOOST_RDMA_LIB_AGENT_REQUEST_TABLE_HPP

#include "agent/message.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace rdma::detail {

// Returns true if a peer may answer so. The number of a granted lease must be checked separately.
[[nodiscard]] bool is_answer_to(
  const agent_message& question, const agent_message& answer, std::size_t device_index) noexcept;

// The requests of one side of an agent channel, from their start to the peer's answer. No I/O and
// no clock: the user sends the messages, sets an alarm, and calls what waits. Not thread-safe.
template <class Waiting>
class request_table
{
public:
  using time_point = lease_clock::time_point;

  static constexpr std::uint32_t in_flight_max = 16; // the peer has as many receives for requests

  struct request
  {
    agent_message question;
    time_point since; // the lifetime in the answer is counted from then on
    time_point deadline;
    std::optional<Waiting> waiting; // none: given up
    bool sent = false;
  };
  using requests_type = std::unordered_map<std::uint32_t, request>;

  std::uint32_t next_id() noexcept
  {
    do
      ++last_id_;
    while (last_id_ == 0 || requests_.contains(last_id_));
    return last_id_;
  }

  // Registers what waits for an answer. The message may follow later.
  void add(std::uint32_t id, time_point now, time_point deadline, Waiting waiting)
  {
    requests_.emplace(id, request{{}, now, deadline, std::move(waiting)});
    deadlines_.emplace(deadline, id);
  }

  // Precondition: the request has been added and not given up.
  void ask(std::uint32_t id, agent_message question)
  {
    question.id = id;
    requests_.at(id).question = question;
    unsent_.push_back(id);
  }

  // Returns the message to send next, or null. The user calls on_sent() when it has sent it.
  [[nodiscard]] const agent_message* next() const noexcept
  {
    return unsent_.empty() || in_flight_ == in_flight_max
      ? nullptr
      : &requests_.find(unsent_.front())->second.question;
  }
  void on_sent() noexcept
  {
    requests_.find(unsent_.front())->second.sent = true;
    unsent_.pop_front();
    ++in_flight_;
  }

  // Returns the request that an answer is for, or null if the peer has received none.
  [[nodiscard]] const request* asked(std::uint32_t id) const noexcept
  {
    const auto found = requests_.find(id);
    return found == requests_.end() || !found->second.sent ? nullptr : &found->second;
  }

  // Returns the message that gives back what nothing waits for any more.
  [[nodiscard]] static std::optional<agent_message> give_back(
    const request& asked, const agent_message& answer) noexcept
  {
    if (asked.waiting || answer.type != message_type::granted)
      return std::nullopt;
    return agent_message{.type = message_type::release, .lease = answer.lease};
  }

  // The next request may be sent. finish() follows.
  void on_answered() noexcept { --in_flight_; }

  // Removes a request that was answered, and returns what waits for it.
  std::optional<Waiting> finish(std::uint32_t id) noexcept
  {
    std::optional<Waiting> waiting = stop_waiting(id);
    requests_.erase(id);
    return waiting;
  }

  // Ends the wait for an answer, and returns what has waited.
  std::optional<Waiting> give_up(std::uint32_t id) noexcept
  {
    std::optional<Waiting> waiting = stop_waiting(id);
    if (!waiting)
      return waiting;
    // The answer to a message that was sent still has effects. A lease must still end.
    const request& given_up = requests_.find(id)->second;
    const message_type what = given_up.question.type;
    if (!given_up.sent && what != message_type::release && what != message_type::hand_over)
    {
      std::erase(unsent_, id);
      requests_.erase(id);
    }
    return waiting;
  }

  [[nodiscard]] bool contains(std::uint32_t id) const { return requests_.contains(id); }
  [[nodiscard]] bool is_waiting() const noexcept { return !deadlines_.empty(); }

  [[nodiscard]] time_point next_deadline() const noexcept
  {
    return deadlines_.empty() ? time_point::max() : deadlines_.begin()->first;
  }

  // Returns a request whose deadline has come.
  [[nodiscard]] std::optional<std::uint32_t> overdue(time_point now) const noexcept
  {
    return deadlines_.empty() || deadlines_.begin()->first > now
      ? std::nullopt
      : std::optional(deadlines_.begin()->second);
  }

  requests_type take_all() noexcept
  {
    unsent_.clear();
    deadlines_.clear();
    return std::exchange(requests_, {});
  }

private:
  std::optional<Waiting> stop_waiting(std::uint32_t id) noexcept
  {
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second.waiting)
      return std::nullopt;
    deadlines_.erase({found->second.deadline, id});
    return std::exchange(found->second.waiting, std::nullopt);
  }

  std::uint32_t last_id_ = 0;
  requests_type requests_;
  std::deque<std::uint32_t> unsent_;
  std::uint32_t in_flight_ = 0;
  std::set<std::pair<time_point, std::uint32_t>> deadlines_; // of those that something waits for
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_AGENT_REQUEST_TABLE_HPP
