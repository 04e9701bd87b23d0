//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_FLOW_HPP
#define BOOST_RDMA_RPC_FLOW_HPP

#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>
#include <boost_rdma/detail/rpc/flow_core.hpp>
#include <boost_rdma/rpc/method.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace rdma::rpc {

/// Reads and writes the items of one call of a streaming_method: see client_flow and server_flow.
/**
 * Items arrive in the order in which they were written. The receiver gives credit for a limited
 * number of bytes (client_options::flow_bytes, server_options::flow_bytes), and more of it as its
 * program reads. Without credit a write waits. Other calls of the connection go on.
 *
 * One read and one write can be outstanding at a time.
 *
 * @par Lifetime
 * An operation may be outstanding when the object is destroyed; see close().
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Read, class Write>
class basic_flow
  : public rdma::detail::io_object<boost::asio::any_io_executor, rdma::detail::rpc::flow_core>
{
  using core_type = rdma::detail::rpc::flow_core;
  using base = rdma::detail::io_object<boost::asio::any_io_executor, core_type>;

public:
  /// The executor type of handlers: that of the client or the server.
  using executor_type = boost::asio::any_io_executor;
  /// The type of the items that this side reads, or the container that owns what a view refers to.
  using read_type = typename detail::codec_of<Read>::owned;
  /// The type of the items that this side writes.
  using write_type = Write;

  /// @cond
  basic_flow(const executor_type& executor, std::shared_ptr<core_type> core)
    : base(executor, std::move(core))
  {
  }
  /// @endcond

  /// Reads the next item, or nothing at the end of the items.
  /**
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::optional<read_type>) @endcode
   * Without a value and an error the other side has ended its items: the client by
   * client_flow::end_writing(), the server by its reply.
   *
   * @par Errors
   * @li error::malformed_message: the codec has not accepted the item. The next read reads the
   *     next one.
   * @li boost::asio::error::already_started: another read is outstanding.
   * @li operation_aborted: the read or the call was cancelled, client_flow::async_finish() was
   *     called, or the flow was closed. At the server also: the connection has ended.
   * @li error::forked: the call was made in a child of the process that made the client or server.
   * @li error::closed: the flow was moved from.
   * @li at the client, behind the items that have arrived: the error of the call, as of
   *     basic_client::async_call().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the read. No item is lost.
   */
  template <boost::asio::completion_token_for<void(error_code, std::optional<read_type>)>
              CompletionToken = boost::asio::default_completion_token_t<executor_type>>
    requires(!std::is_same_v<Read, nothing>)
  auto async_read(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::optional<read_type>)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const executor_type& executor, auto&& handler)
        {
          rdma::detail::rpc::start_read(executor, core.get(),
            rdma::detail::map_handler(
              [](auto own, error_code ec, const std::optional<core_type::bytes>& bytes)
              {
                std::optional<read_type> item;
                if (bytes)
                  item = rdma::detail::rpc::decode_content<read_type>(ec, *bytes);
                std::move(own)(ec, std::move(item));
              },
              std::forward<decltype(handler)>(handler)));
        }),
      token);
  }

  /// Writes an item. Completes when there was credit and the item is on its way.
  /**
   * @param item Is encoded in the initiating call. A span or a view in it is not used later,
   * unless the token starts the operation later, as use_awaitable does.
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code) @endcode
   *
   * @par Errors
   * @li error::message_too_large: the item is larger than half of the receiver's `flow_bytes`.
   * @li boost::asio::error::broken_pipe: this side has ended its items, or the server has replied.
   * @li boost::asio::error::already_started: another write is outstanding.
   * @li operation_aborted: the write or the call was cancelled, or the flow was closed. At the
   *     server also: the connection has ended.
   * @li error::forked: the call was made in a child of the process that made the client or server.
   * @li error::closed: the flow was moved from.
   * @li at the client: the error of the call, as of basic_client::async_call().
   *
   * @par Per-operation cancellation
   * terminal, partial and total end a write that waits. The item is not sent.
   */
  template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
    requires(!std::is_same_v<Write, nothing>)
  auto async_write(const write_type& item,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const executor_type& executor, auto&& handler, const write_type& what)
        {
          rdma::detail::rpc::start_write(executor, core.get(),
            {&what,
              [](const void* value, output& to)
              { detail::codec_of<Write>::encode(*static_cast<const Write*>(value), to); }},
            std::forward<decltype(handler)>(handler));
        }),
      token, item);
  }
};

/// The items of a call, at the client that makes it: from basic_client::open().
/**
 * @code
 * using tail = rdma::rpc::streaming_method<"tail/1", log_name, std::uint64_t, rdma::rpc::nothing,
 *   std::string_view>;
 *
 * auto lines = client.open<tail>(name, {.timeout = 10s});
 * while (const auto line = co_await lines.async_read(asio::use_awaitable))
 *   std::cout << *line;
 * const std::uint64_t count = co_await lines.async_finish(asio::use_awaitable);
 * @endcode
 * Destroying or closing it cancels the call, unless the call has ended. The time limit of the call
 * holds for all of its items. Errors of the call, also those of starting it, are reported by the
 * operations.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Method>
class client_flow
  : public basic_flow<typename Method::to_client_type, typename Method::to_server_type>
{
  using base = basic_flow<typename Method::to_client_type, typename Method::to_server_type>;
  using core_type = rdma::detail::rpc::flow_core;

public:
  using typename base::executor_type;
  /// The type of the reply, or the container that owns what a view refers to.
  using result_type = typename Method::result_type;

  using base::base;

  /// Ends the items of this side: the server's reads end behind those that were written.
  /** Later writes fail. Reads go on. Precondition: not moved from. */
  void end_writing()
    requires(!std::is_same_v<typename base::write_type, nothing>)
  {
    this->core_->end_writing();
  }

  /// Ends the items of both sides, and waits for the reply.
  /**
   * Calls end_writing(). Items that were not read are dropped: read them to their end before.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, typename Method::result_type) @endcode
   *
   * @par Errors
   * @li those of the call, as of basic_client::async_call().
   * @li boost::asio::error::already_started: another async_finish() is outstanding.
   * @li operation_aborted: the operation or the call was cancelled, or the flow was closed.
   * @li error::closed: the flow was moved from.
   *
   * Precondition: no earlier async_finish() has completed without an error.
   *
   * @par Per-operation cancellation
   * terminal, partial and total end the operation, and not the call; it can be started again. To
   * cancel the call, close the flow.
   */
  template <boost::asio::completion_token_for<void(error_code, result_type)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_finish(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, result_type)>(
      rdma::detail::initiation(this->executor_,
        [core = this->core_](const executor_type& executor, auto&& handler)
        {
          rdma::detail::rpc::start_finish(executor, core.get(),
            rdma::detail::map_handler(
              [](auto own, error_code ec, const std::optional<core_type::bytes>& bytes)
              {
                std::optional<result_type> reply;
                if (bytes)
                  reply = rdma::detail::rpc::decode_content<result_type>(ec, *bytes);
                std::move(own)(ec, reply ? std::move(*reply) : result_type());
              },
              std::forward<decltype(handler)>(handler)));
        }),
      token);
  }
};

/// The items of a call, at the server: its handler gets it.
/**
 * @code
 * using lines_of = rdma::rpc::server_flow<tail>;
 * server.handle<tail>(
 *   [&](const log_name& name, lines_of& lines) -> asio::awaitable<std::uint64_t>
 *   {
 *     std::uint64_t count = 0;
 *     for (const std::string& line : log_of(name))
 *     {
 *       co_await lines.async_write(line, asio::use_awaitable);
 *       ++count;
 *     }
 *     co_return count;
 *   });
 * @endcode
 * It is destroyed when the handler's coroutine has ended. The reply follows the items that were
 * written. Items of the client that were not read are dropped.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
template <class Method>
class server_flow
  : public basic_flow<typename Method::to_server_type, typename Method::to_client_type>
{
  using base = basic_flow<typename Method::to_server_type, typename Method::to_client_type>;

public:
  using base::base;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_FLOW_HPP
