//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_IMPL_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_IMPL_HPP

#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/detail/rpc/group_core.hpp"
#include "boost_rdma/rpc/client.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/alarm.hpp"
#include "rpc/group_barrier.hpp"
#include "rpc/group_call.hpp"
#include "rpc/group_content.hpp"
#include "rpc/group_gossip.hpp"
#include "rpc/group_history.hpp"
#include "rpc/group_message.hpp"

#include <boost/asio/cancellation_signal.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

// Carries out the calls of a group at one of its members: sends what group_call wants, and runs the
// program's handlers and reductions, on the executor and without the mutex.
class group_impl final
  : public group_core
  , public std::enable_shared_from_this<group_impl>
{
public:
  group_impl(const io_executor& executor, const protection_domain& domain,
    std::vector<endpoint_type> members, std::uint32_t rank,
    const rdma::rpc::group_options& options);

  void add(std::unique_ptr<group_method> method) override;
  void take(
    std::span<const std::byte> request, const rdma::rpc::call_info& info, answer to) override;
  void broadcast(const io_executor& executor, const method_description& method,
    std::span<const std::byte> request, const rdma::rpc::group_call_options& options,
    outcome_handler handler) override;
  void enter_barrier(const io_executor& executor, const rdma::rpc::group_call_options& options,
    missing_handler handler) override;
  void take_gossip(
    std::span<const std::byte> request, rdma::rpc::responder<gossip_transport> to) override;
  [[nodiscard]] rdma::rpc::group_membership membership() const override;
  void wait_change(
    const io_executor& executor, std::uint64_t known, membership_handler handler) override;
  void close() override;
  [[nodiscard]] bool is_open() const override;

  // Precondition: called once, before other functions.
  void start_gossip();
  void on_alarm();

private:
  using lock_type = std::unique_lock<std::mutex>;
  using time_point = group_call::time_point;
  using task = group_call::task;
  using client = rdma::rpc::client;

  class own_call;
  class own_arrival;

  // Posts on_time() again.
  // The content of a bulk call at this member.
  struct bulk_content
  {
    bulk_content(std::uint64_t size, bool is_root)
      : state(size, is_root)
    {
    }

    // The parts that a child gets are exposed through one client.
    struct feed
    {
      std::shared_ptr<client> by;
      group_range range;
      std::shared_ptr<boost::asio::cancellation_signal> offered; // null: no part
    };

    group_content state;
    const_buffer memory;
    std::shared_ptr<registered_buffer> owner; // null at the root
    std::map<std::uint32_t, feed> feeds;      // by place
    std::size_t exposed = 0;                  // parts, also those that are being withdrawn
    std::shared_ptr<boost::asio::cancellation_signal> pulling; // the pull that was begun last
    std::vector<std::pair<std::uint64_t, answer>> pulled;      // offers to answer, by offset
  };

  // A call at this member.
  struct record
  {
    record(group_method& by, const group_request& r, const group_call::plan& plan, time_point now)
      : method(by)
      , header(r)
      , ends(plan.ends)
      , keep_until(plan.ends + plan.patience * (std::int64_t{height_of(r.members, r.fan_out)} + 1))
      , state(plan, now)
    {
    }

    group_method& method;
    group_request header;           // its method and content are in `message`
    std::vector<std::byte> message; // to the members below; empty when the call has ended
    const time_point ends;
    const time_point keep_until; // the root's time is over
    group_call state;
    std::map<std::uint64_t, answer> callers;
    std::uint64_t next_caller = 0;
    std::optional<waiting_handler<group_outcome>> handler;      // of the root
    std::optional<std::pair<error_code, group_outcome>> ending; // for it, when nothing is exposed
    std::unique_ptr<bulk_content> bulk;                         // null: the call has no content
    std::weak_ptr<running_call> own;                            // until the handler has answered
    bool finishing = false;
    std::optional<std::vector<std::byte>> result; // the answer to callers, when it is known
    error_code failure;                           // instead of it, if the reduction has thrown
    time_point queued_at = time_point::max();
    bool removed = false; // from the history
  };
  using record_ptr = std::shared_ptr<record>;

  struct member
  {
    std::shared_ptr<client> by;
    bool connected = false;
    std::vector<std::pair<record_ptr, task>> waiting; // for the connection
  };

  [[nodiscard]] std::uint32_t rank_of(const record& of, std::uint32_t place) const
  {
    return static_cast<std::uint32_t>((std::uint64_t{of.header.root} + place) % endpoints_.size());
  }
  [[nodiscard]] std::uint32_t place_of(const record& of, std::uint32_t rank) const
  {
    return static_cast<std::uint32_t>(
      (std::uint64_t{rank} + endpoints_.size() - of.header.root) % endpoints_.size());
  }
  [[nodiscard]] bool has_failed(std::uint32_t rank) const
  {
    return gossip_ && gossip_->has_failed(rank);
  }
  // Without memory for the step, the call ends at this member.
  template <class Step>
  void or_end(const lock_type& lock, const record_ptr& of, Step step) noexcept
  try
  {
    step();
  }
  catch (const std::bad_alloc&)
  {
    end_without_memory(lock, of);
  }
  void end_without_memory(const lock_type& lock, const record_ptr& of) noexcept;
  void on_membership(const rdma::rpc::group_membership& now);
  [[nodiscard]] error_code find(const method_description& what, group_method*& found) const;
  [[nodiscard]] error_code accept(
    const lock_type& lock, const group_request& r, record_ptr& found, bool& is_fresh);
  void start_own(const record_ptr& of);
  void take_own(const record_ptr& of, const error_code& ec, std::vector<std::byte> value);
  void advance(const lock_type& lock, const record_ptr& of);
  void finish(const record_ptr& of);
  void combine(const record_ptr& of);
  void answer_callers(const record_ptr& of, time_point now);
  void enqueue(const lock_type& lock, const record_ptr& of);
  void set_alarm();
  void on_time();
  void on_time(const lock_type& lock, const record_ptr& of, time_point now,
    std::vector<std::shared_ptr<running_call>>& late);
  void end_operation(
    const lock_type& lock, record& of, const error_code& ec, group_outcome outcome);
  void complete_if_withdrawn(const lock_type& lock, record& of);

  [[nodiscard]] error_code make_room(const lock_type& lock, bulk_content& of);
  void take_part(const lock_type& lock, const record_ptr& of, const group_request& r,
    const rdma::rpc::call_info& info, answer to);
  void on_pulled(const record_ptr& of, std::uint64_t number, std::uint64_t offset, answer to,
    const error_code& ec, std::size_t bytes);
  static void answer_offers(const lock_type& lock, bulk_content& of, const error_code& ec);
  void add_feed(const lock_type& lock, const member& to, const record_ptr& of, group_range range);
  void feed(const lock_type& lock, const record_ptr& of);
  void on_part(const record_ptr& of, std::uint32_t place,
    const std::shared_ptr<boost::asio::cancellation_signal>& offered, error_code ec,
    std::span<const std::byte> content);
  void withdraw(const lock_type& lock, record& of);

  // `may_repeat`: over a new connection, if the one that was there before has ended.
  void send(const lock_type& lock, const record_ptr& of, const task& what, bool may_repeat);
  void submit(
    const lock_type& lock, member& to, const record_ptr& of, const task& what, bool may_repeat);
  void connect(std::uint32_t rank);
  void on_connected(std::uint32_t rank, const std::shared_ptr<client>& by, const error_code& ec);
  void on_answer(const record_ptr& of, const task& what, const std::shared_ptr<client>& by,
    bool may_repeat, error_code ec, std::span<const std::byte> content);

  const io_executor executor_;
  const process_mark process_;
  const protection_domain domain_;
  const std::vector<endpoint_type> endpoints_;
  const std::uint32_t rank_;
  const rdma::rpc::group_options options_;
  const std::uint64_t incarnation_;
  alarm alarm_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<group_method>, std::less<>> methods_;
  std::map<std::uint32_t, member> members_; // that were called
  group_history<record> history_;
  std::map<std::uint64_t, record_ptr> own_calls_; // as the root, that have not ended
  std::uint64_t next_sequence_ = 1;
  std::set<std::pair<time_point, record_ptr>> queue_;
  time_point alarm_at_ = time_point::max();
  const std::shared_ptr<late_call<group_impl>> late_alarm_ =
    std::make_shared<late_call<group_impl>>(&group_impl::on_alarm);
  bool closed_ = false;
  // Bytes of the memory that content_max limits. Grows with the mutex only.
  const std::shared_ptr<std::atomic<std::size_t>> content_bytes_ =
    std::make_shared<std::atomic<std::size_t>>(0);
  const std::shared_ptr<group_barrier> barrier_;
  const std::shared_ptr<group_gossip> gossip_; // empty without a period
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_IMPL_HPP
