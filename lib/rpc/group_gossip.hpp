//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_GOSSIP_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_GOSSIP_HPP

#include "boost_rdma/detail/rpc/group_core.hpp"
#include "boost_rdma/rpc/client.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/alarm.hpp"
#include "rpc/group_message.hpp"
#include "rpc/swim.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

// Carries out the failure detection of a group's member: sends the pings that `swim` wants, answers
// those of others, and completes the operations that wait for a change.
class group_gossip : public std::enable_shared_from_this<group_gossip>
{
public:
  using io_executor = group_core::io_executor;
  using endpoint_type = group_core::endpoint_type;
  using membership = rdma::rpc::group_membership;
  using client_ptr = std::shared_ptr<rdma::rpc::client>;
  using answer = rdma::rpc::responder<gossip_transport>;
  using handler_type = waiting_handler<membership>;

  // Pings for other members at a time.
  static constexpr std::size_t relays_max = 16;

  // The group provides these functions. They are called without a mutex of this class.
  struct hooks
  {
    std::function<client_ptr(std::uint32_t)> connection; // that is open, if there is one
    std::function<void(const membership&)> changed;
  };

  group_gossip(const io_executor& executor, const protection_domain& domain,
    const std::vector<endpoint_type>& members, std::uint32_t rank,
    const rdma::rpc::group_options& options, std::uint64_t incarnation);

  void start(hooks h);
  void take(std::span<const std::byte> request, answer to);
  [[nodiscard]] bool has_failed(std::uint32_t rank) const;
  [[nodiscard]] membership current() const;
  // Completes when the version is not this one.
  void wait(std::uint64_t known, handler_type handler, boost::asio::cancellation_slot slot);
  // Ends all with operation_aborted.
  void close();

  void on_alarm();

private:
  using lock_type = std::unique_lock<std::mutex>;
  using time_point = swim::time_point;

  // A ping that was not answered yet.
  struct outgoing
  {
    swim::ping what;
    std::optional<answer> asker; // if it is for another member
    std::uint32_t rank_of_asker = 0;
    client_ptr by;
    bool is_own = false; // the connection ends with the ping
  };
  using outgoing_ptr = std::shared_ptr<outgoing>;

  // Calls function(now) with the mutex, and reports a change of the membership after that. Returns
  // false if the group is closed. Without memory it throws after function(now), or that does, and a
  // later call reports the change.
  template <class Function>
  bool update(Function function);
  void post_time();
  void on_time();
  void set_alarm() noexcept;
  template <class Step>
  void or_fail(const outgoing_ptr& of, Step step);
  void send(const outgoing_ptr& of);
  void submit(const outgoing_ptr& of);
  void on_answer(const outgoing_ptr& of, error_code ec, std::span<const std::byte> content);
  void release(const outgoing_ptr& of);
  [[nodiscard]] membership membership_now() const { return {state_.version(), state_.failed()}; }

  const io_executor executor_;
  const protection_domain domain_;
  const std::vector<endpoint_type> endpoints_;
  const std::uint32_t rank_;
  const rdma::rpc::group_options options_;
  hooks hooks_; // constant after start()
  alarm alarm_;
  const std::shared_ptr<late_call<group_gossip>> late_time_ =
    std::make_shared<late_call<group_gossip>>(&group_gossip::post_time);
  mutable std::mutex mutex_;
  swim state_;
  std::multimap<time_point, outgoing_ptr> own_; // with connections of their own, by `until`
  std::size_t relays_ = 0;
  std::map<std::uint64_t, handler_type> waiting_;
  std::uint64_t next_waiting_ = 0;
  std::uint64_t reported_ = 0; // version
  time_point alarm_at_ = time_point::max();
  bool closed_ = false;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_GOSSIP_HPP
