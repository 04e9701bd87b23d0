//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_SWIM_HPP
#define BOOST_RDMA_LIB_RPC_SWIM_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// Which members of a group are alive: SWIM (Das, Gupta, Motivala, DSN 2002) with suspicion, for a
// fixed list of members. No I/O, and no clock. Not thread-safe. A function that returns a list
// throws std::bad_alloc before it changes anything.

namespace rdma::detail::rpc {

enum class swim_health : std::uint32_t
{
  alive = 1,
  suspected = 2,
  failed = 3,
};

// A report on a member is newer than one with a smaller incarnation. If both are equal, the one
// with the worse health is newer: only the member itself takes the next incarnation.
struct swim_report
{
  static constexpr std::uint64_t incarnation_max = std::uint64_t{1} << 63;

  std::uint32_t rank = 0;
  swim_health health = swim_health::alive;
  std::uint64_t incarnation = 0;

  friend bool operator==(const swim_report&, const swim_report&) = default;
};

class swim
{
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  // Reports in a message, without those on its sender and its receiver.
  static constexpr std::size_t reports_max = 64;

  struct settings
  {
    std::uint32_t members = 0;
    std::uint32_t rank = 0; // of this member
    std::uint64_t incarnation = 0;
    duration period{};
    duration suspicion{}; // 0: suspicion_periods(members) periods
    std::uint32_t helpers = 3;
    std::uint32_t seed = 0;
  };

  // The suspicion time by default: enough for a report to reach all members, and for the answer.
  static std::uint32_t suspicion_periods(std::uint32_t members);
  // The number of messages of a member that contain one report; a third of it if only the
  // incarnation is new.
  static std::uint32_t repeats(std::uint32_t members);

  // A ping that must be sent to `target`, or to a helper that is to ping it.
  struct ping
  {
    std::uint32_t to = 0;
    std::uint32_t target = 0;
    time_point until; // the answer is not used after this time

    friend bool operator==(const ping&, const ping&) = default;
  };

  swim(const settings& s, time_point now);

  // Starts a probe in each period, asks helpers after a third of it, and ends suspicions. Returns
  // 2 + settings::helpers pings in a period at most.
  std::vector<ping> on_time(time_point now);
  // Returns the time of the next on_time().
  [[nodiscard]] time_point alarm() const;

  // The member has sent a message or answered, also by a helper.
  void take_contact(std::uint32_t rank, std::uint64_t incarnation, time_point now) noexcept;
  // Another member has sent this report.
  void take(const swim_report& what, time_point now) noexcept;

  // Returns the reports for a message to this member, and counts them. The first one is on the
  // receiver if it is not alive, so that it can refute this. Every message also has the incarnation
  // of its sender.
  std::vector<swim_report> take_reports(std::uint32_t to);

  [[nodiscard]] std::uint64_t incarnation() const { return members_[settings_.rank].incarnation; }
  [[nodiscard]] swim_health health(std::uint32_t rank) const { return members_[rank].health; }
  // In ascending order.
  [[nodiscard]] std::vector<std::uint32_t> failed() const;
  // Is larger after each change of failed().
  [[nodiscard]] std::uint64_t version() const { return version_; }

private:
  struct member
  {
    swim_health health = swim_health::alive;
    std::uint64_t incarnation = 0;
    std::uint32_t repeats = 0; // messages that are to contain its report
    bool is_urgent = false;    // its health has changed since the last of them
  };
  struct suspicion
  {
    std::uint32_t rank = 0;
    std::uint64_t incarnation = 0;
    time_point ends;
  };
  struct probe
  {
    std::uint32_t target = 0;
    bool answered = false;
    bool helped = false;
  };

  void set(const swim_report& what, time_point now) noexcept;
  void end_suspicions(time_point now);
  void start_probe(std::vector<ping>& to);
  void ask_helpers(std::vector<ping>& to);
  [[nodiscard]] time_point helpers_at() const { return period_ends_ - 2 * settings_.period / 3; }
  [[nodiscard]] bool wants_helpers() const
  {
    return probe_ && !probe_->answered && !probe_->helped
      && health(probe_->target) != swim_health::failed;
  }
  [[nodiscard]] swim_report report_on(std::uint32_t rank) const
  {
    return {rank, members_[rank].health, members_[rank].incarnation};
  }

  const settings settings_;
  const duration suspicion_;
  std::vector<member> members_;
  std::vector<suspicion> suspicions_; // by the time of their end; at most one for each member
  std::vector<std::uint32_t> news_;   // members whose reports are to be repeated, each once
  std::vector<std::uint32_t> order_;  // all other members
  std::size_t next_ = 0;              // in `order_`
  std::optional<probe> probe_;
  time_point period_ends_;
  std::uint64_t version_ = 0;
  std::minstd_rand random_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_SWIM_HPP
