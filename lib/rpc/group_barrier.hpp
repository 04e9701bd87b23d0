//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_BARRIER_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_BARRIER_HPP

#include "boost_rdma/detail/rpc/group_core.hpp"
#include "completion/waiting_handler.hpp"
#include "connect/alarm.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

// The barriers of one member: two broadcasts of rank 0 for each. The handlers of the first answer
// when this member has entered the barrier; the second one ends it.
class group_barrier : public std::enable_shared_from_this<group_barrier>
{
public:
  using io_executor = group_core::io_executor;
  using missing_list = std::vector<rdma::rpc::missing_member>;
  using handler_type = waiting_handler<missing_list>;
  using time_point = std::chrono::steady_clock::time_point;

  // `incarnation`: of the group's member. The epoch of barriers is that of rank 0.
  group_barrier(const io_executor& executor, const alarm& by, std::uint32_t members,
    std::uint32_t rank, std::uint64_t incarnation)
    : executor_(executor)
    , alarm_(by)
    , members_(members)
    , rank_(rank)
    , epoch_(rank == 0 ? incarnation : 0)
  {
  }

  // Adds the handlers to the group.
  void add_methods(group_core& group);

  void enter(const std::shared_ptr<group_core>& group, const rdma::rpc::group_call_options& options,
    handler_type handler, boost::asio::cancellation_slot slot);

  // Rank 0 is known to have failed: ends all with peer_lost.
  void lose_root();

  // Ends all with operation_aborted.
  void close();

  // Ends those whose time is over.
  void on_alarm();

private:
  struct entry
  {
    time_point limit;
    handler_type handler;
  };

  // Identifies a barrier for all members.
  struct name
  {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0; // from 1 on
  };
  using enter_method = rdma::rpc::method<"rdma.enter/1", name, rdma::rpc::nothing>;
  // The content is a name and the members that are missing.
  using leave_method =
    rdma::rpc::method<"rdma.leave/1", std::span<const std::byte>, rdma::rpc::nothing>;

  void on_asked(const name& of, rdma::rpc::responder<enter_method> answer);
  void on_left(std::span<const std::byte> content);
  [[nodiscard]] std::uint64_t local_number(const name& of);
  void ask_all(const std::shared_ptr<group_core>& group, std::uint64_t number,
    const rdma::rpc::group_call_options& options);
  void tell_all(const std::shared_ptr<group_core>& group, std::uint64_t number,
    const rdma::rpc::group_call_options& options, const missing_list& missing);
  template <class Step>
  void or_end(std::uint64_t number, Step step);
  void set_alarm() noexcept;
  void end_all(const error_code& ec, const missing_list& missing);
  void end(std::uint64_t number, const error_code& ec, const missing_list& missing);

  const io_executor executor_;
  alarm alarm_;
  const std::uint32_t members_;
  const std::uint32_t rank_;
  std::mutex mutex_;
  // A member counts the barriers that it enters. Numbers of rank 0 differ by `offset_`, if one of
  // the two was started again.
  std::uint64_t epoch_;
  std::uint64_t offset_ = 0;
  std::uint64_t entered_ = 0;
  std::uint64_t left_ = 0; // the last one that rank 0 has ended
  std::map<std::uint64_t, entry> waiting_;
  std::map<std::uint64_t, rdma::rpc::responder<enter_method>> asked_; // not entered yet
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_BARRIER_HPP
