//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_GROUP_HPP
#define BOOST_RDMA_RPC_GROUP_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/rpc/group_core.hpp>
#include <boost_rdma/detail/rpc/typed_handler.hpp>
#include <boost_rdma/rpc/group_options.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/responder.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma::rpc {

/// A member of a group of processes that call methods of all members.
/**
 * @code
 * using count = rdma::rpc::method<"count/1", std::string_view, std::uint64_t>;
 *
 * rdma::rpc::server server(io, context, members[rank]);
 * rdma::rpc::group group(server, context, members, rank);
 * group.handle<count>([&](std::string_view word) { return table.count(word); }, std::plus<>());
 * server.start();
 * ...
 * auto result = co_await group.async_broadcast<count>("rdma", asio::use_awaitable);
 * for (const auto& [rank, ec] : result.missing) ...
 * @endcode
 * A call travels along a tree, and the replies are combined on the way back. The members below one
 * that fails or is silent are called without it, so that only that member is missing.
 *
 * @par Members
 * Every member is made with the same list of endpoints. Its rank is its place in the list. It
 * connects to other members when it needs them, and again if a connection has ended.
 *
 * @par Failure detection
 * With group_options::probe_period, members ping each other and exchange which of them have failed.
 * Calls and barriers then bypass these members at once, with error::peer_lost.
 *
 * @par Handlers
 * They have the forms of basic_server, and run on the server's executor, at most once for each call
 * in a process. A member that does not return to its executor for group_call_options::silence is
 * bypassed. When the time of the call is over, a coroutine gets a terminal cancellation.
 *
 * @par Lifetime
 * Destroying or closing a group ends its operations with operation_aborted. Other members are then
 * answered with error::closed. A group must be destroyed before its execution context.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_group : public rdma::detail::io_object<Executor, rdma::detail::rpc::group_core>
{
  using core_type = rdma::detail::rpc::group_core;
  using base = rdma::detail::io_object<Executor, core_type>;

public:
  /// The executor type of handlers.
  using executor_type = Executor;

  /// Address and TCP port of a member's server.
  using endpoint_type = boost::asio::ip::tcp::endpoint;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_group<OtherExecutor>;
  };

  /// Makes a member, with the executor of its server.
  /**
   * @param server The server of this process. It has at most one group, and was not started.
   * @param domain Protection domain of the connections to other members; a context converts to one.
   * @param members The servers of all members. They are the same at each member.
   * @param rank The place of `server` in this list.
   * @param options Options of the member.
   *
   * @throws system_error
   * @li boost::asio::error::invalid_argument: the rank is not in the list, or an option is out of
   *     range.
   * @li the error of starting the thread of connections.
   */
  basic_group(basic_server<Executor>& server, const protection_domain& domain,
    std::vector<endpoint_type> members, std::uint32_t rank,
    const group_options& options = group_options())
    : base(server.get_executor(),
      core_type::make(server.get_executor(), domain, std::move(members), rank, options))
  {
    using transport = rdma::detail::rpc::group_transport;
    server.template handle<transport>(
      [core = this->core_](std::span<const std::byte> request, const call_info& info,
        responder<transport> answer) { core->take(request, info, std::move(answer)); });
    using gossip = rdma::detail::rpc::gossip_transport;
    if (options.probe_period.count() > 0)
      server.template handle<gossip>(
        [core = this->core_](std::span<const std::byte> request, responder<gossip> answer)
        { core->take_gossip(request, std::move(answer)); });
  }

  /// Makes a member in the context's own protection domain. Throws system_error.
  basic_group(basic_server<Executor>& server, const rdma::context& context,
    std::vector<endpoint_type> members, std::uint32_t rank,
    const group_options& options = group_options())
    : basic_group(server, protection_domain(context), std::move(members), rank, options)
  {
  }

  /// Sets the handler of a method at this member, and how replies are combined.
  /**
   * @tparam Method A method. A server's method of the same name is another one.
   * @param handler See the description of the class. call_info::deadline() is the time at which
   * this member answers without the handler. call_info::content() has the bytes that the root
   * exposes.
   * @param reduction Is called as `reduction(const Reply& a, const Reply& b)` and returns the
   * combined reply. It is associative. The replies of `a` come from ranks before those of `b`,
   * counted from the root: root, root + 1, ..., the last rank, 0, ..., root - 1. If it throws, this
   * member fails, as if its handler had.
   *
   * Precondition: the server was not started, and the method has no handler.
   */
  template <class Method, class Handler, class Reduction>
  void handle(Handler&& handler, Reduction&& reduction)
  {
    using handler_type = rdma::detail::rpc::typed_handler<Method, Executor, std::decay_t<Handler>>;
    using made = rdma::detail::rpc::typed_group_method<Method, std::decay_t<Reduction>>;
    this->core_->add(std::make_unique<made>(
      std::make_unique<handler_type>(this->executor_, std::forward<Handler>(handler)),
      std::forward<Reduction>(reduction)));
  }

  /// Calls a method at all members, also at this one.
  /**
   * @tparam Method A method for which handle() was called.
   * @param request Is encoded in the initiating call. A span or a view in it is not used later,
   * unless the token starts the operation later, as use_awaitable does.
   * @param options The time limits, and the memory that all members receive.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, group_result<typename Method::result_type>) @endcode
   * No member can access the memory any more.
   * Without an error, each member is counted in `answered` or named in `missing`. A member that is
   * missing may have run its handler.
   *
   * @par Errors
   * @li error::no_such_method, error::method_mismatch: this member has no handler for the method.
   * @li boost::asio::error::invalid_argument: an option is out of range.
   * @li error::overloaded: 4096 calls were made since the oldest one of this member that has not
   *     ended.
   * @li the error of a reduction that throws at this member, as in basic_client::async_call().
   * @li operation_aborted: the operation was cancelled, or the group was closed.
   * @li error::forked: the call was made in a child of the process that made the group.
   * @li error::closed: the group was closed or moved from before.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation at once. The members go on with the call. If it
   * exposes memory, the operation ends as described at basic_client::async_call(), and members that
   * do not have all bytes time out.
   */
  template <class Method,
    boost::asio::completion_token_for<void(error_code, group_result<typename Method::result_type>)>
      CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_broadcast(const typename Method::request_type& request,
    const group_call_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    using request_type = typename Method::request_type;
    using result_type = typename Method::result_type;
    return boost::asio::async_initiate<CompletionToken,
      void(error_code, group_result<result_type>)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const request_type& what,
          const group_call_options& how)
        {
          std::vector<std::byte> bytes;
          output to(bytes);
          detail::codec_of<request_type>::encode(what, to);
          rdma::detail::rpc::start_broadcast(executor, core.get(), detail::description_of<Method>,
            bytes, how,
            rdma::detail::rpc::handler_of_outcome<result_type>(
              std::forward<decltype(handler)>(handler)));
        }),
      token, request, options);
  }

  /// Calls a method at all members with the default options.
  /**
   * @param request See the other function.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, group_result<typename Method::result_type>) @endcode
   *
   * @par Per-operation cancellation
   * See the other function.
   */
  template <class Method,
    boost::asio::completion_token_for<void(error_code, group_result<typename Method::result_type>)>
      CompletionToken = boost::asio::default_completion_token_t<executor_type>>
    requires(!std::convertible_to<CompletionToken, group_call_options>)
  auto async_broadcast(const typename Method::request_type& request,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return async_broadcast<Method>(
      request, group_call_options(), std::forward<CompletionToken>(token));
  }

  /// Waits until all members have called this function as often as this one.
  /**
   * Rank 0 asks the other members along the tree, and then tells them the result. Members that
   * fail, or do not come until three quarters of rank 0's time are over, are named at all others.
   *
   * @param options The time limits. A barrier exposes no memory.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::vector<missing_member>) @endcode
   * Without an error, all members have entered the barrier except those that are named.
   *
   * @par Errors
   * @li boost::asio::error::timed_out: the barrier has ended without this member, which came too
   *     late, or group_call_options::timeout is over: rank 0 has failed or was not here in time.
   * @li error::peer_lost: rank 0 is known to have failed. See membership().
   * @li boost::asio::error::invalid_argument, error::forked, error::closed: see async_broadcast().
   * @li error::overloaded: 4096 calls were made since the oldest one of rank 0 that has not ended.
   *     At rank 0 only.
   * @li operation_aborted: the operation was cancelled, or the group was closed.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation at once. This member has entered the barrier all
   * the same.
   */
  template <boost::asio::completion_token_for<void(error_code, std::vector<missing_member>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
  auto async_barrier(const group_call_options& options,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken,
      void(error_code, std::vector<missing_member>)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, const group_call_options& how)
        {
          rdma::detail::rpc::start_barrier(
            executor, core.get(), how, std::forward<decltype(handler)>(handler));
        }),
      token, options);
  }

  /// Returns the members that are known to have failed.
  /**
   * All members are taken as alive at first. A member has failed if it has not answered pings for
   * group_options::suspicion_time after it was suspected. It is alive again when it answers, or was
   * started again. The same changes reach all members, but not at the same time.
   *
   * Without group_options::probe_period, no member is known to have failed.
   */
  [[nodiscard]] group_membership membership() const
  {
    return this->core_ ? this->core_->membership() : group_membership();
  }

  /// Waits until the membership has another version.
  /**
   * @param known The version that the program has. If it is not the current one, the operation
   * completes at once, so that no change is missed.
   * @param token A completion token for the signature below.
   *
   * @code
   * auto now = group.membership();
   * for (;;)
   *   now = co_await group.async_wait_change(now.version, asio::use_awaitable);
   * @endcode
   *
   * @par Completion signature
   * @code void(rdma::error_code, group_membership) @endcode
   *
   * @par Errors
   * @li boost::asio::error::operation_not_supported: group_options::probe_period is 0.
   * @li operation_aborted: the operation was cancelled, or the group was closed.
   * @li error::forked, error::closed: see async_broadcast().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation at once.
   */
  template <boost::asio::completion_token_for<void(error_code, group_membership)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_change(std::uint64_t known,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, group_membership)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const auto& executor, auto&& handler, std::uint64_t version)
        {
          rdma::detail::rpc::start_wait_change(
            executor, core.get(), version, std::forward<decltype(handler)>(handler));
        }),
      token, known);
  }
};

/// A member with any executor.
using group = basic_group<>;

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_GROUP_HPP
