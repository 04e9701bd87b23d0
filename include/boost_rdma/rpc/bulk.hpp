//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_BULK_HPP
#define BOOST_RDMA_RPC_BULK_HPP

#include <boost_rdma/buffer.hpp>
#include <boost_rdma/detail/initiation.hpp>
#include <boost_rdma/detail/rpc/server_core.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace rdma::rpc {

/// Memory of the client that a call exposes (exposure); from call_info::exposed().
/**
 * A server's handler uses it until it has answered. Any number of transfers may run at a time, in
 * any order. An answer aborts the transfers of its call that have not ended.
 *
 * @code
 * server.handle<store>([&](const key& k, const rdma::rpc::call_info& call) ->
 * asio::awaitable<nothing> { const rdma::rpc::bulk value = call.exposed(0);
 *   rdma::registered_buffer& room = table.room_for(k, value.size());
 *   co_await value.async_pull(0, room, asio::use_awaitable);
 *   co_return nothing();
 * });
 * @endcode
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class bulk
{
public:
  /// The executor type of handlers: that of the server.
  using executor_type = boost::asio::any_io_executor;

  /// @cond
  bulk(std::shared_ptr<rdma::detail::rpc::exposed_by_client> of, std::size_t index)
    : of_(std::move(of))
    , index_(index)
  {
  }
  /// @endcond

  /// Returns the server's executor.
  [[nodiscard]] executor_type get_executor() const noexcept { return of_->executor(); }

  /// Returns the size in bytes. The client chooses it: check it before you allocate memory.
  [[nodiscard]] std::size_t size() const noexcept { return of_->size(index_); }

  /// Returns access::remote_read, access::remote_write, or both.
  [[nodiscard]] access rights() const noexcept { return of_->rights(index_); }

  /// Copies bytes of the client's memory to memory of this side.
  /**
   * @param offset Of the first byte in the client's memory.
   * @param to Registered or plain memory; it belongs to the operation until its handler is called.
   * @param token A completion token for the signature below. The size is 0 after an error.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   *
   * @par Errors
   * @li error::out_of_range: the client does not expose so many bytes.
   * @li error::remote_right_missing: the client does not permit it.
   * @li operation_aborted: the client does not wait for the call any more, the call was answered,
   *     the connection has ended, or the operation was cancelled.
   * @li error::forked: the call was made in a child of the process that made the server.
   * @li those of basic_queue_pair::async_read().
   *
   * @par Per-operation cancellation
   * terminal, partial and total: no further parts are transferred; the operation ends when those
   * under way have arrived.
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_pull(std::size_t offset, const mutable_buffer& to,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return start(true, offset, to, token);
  }

  /// Copies bytes of memory of this side to the client's memory.
  /**
   * The bytes are there before an answer of the call.
   *
   * @param offset Of the first byte in the client's memory.
   * @param from Registered or plain memory; it belongs to the operation until its handler is
   * called.
   * @param token A completion token for the signature below. The size is 0 after an error.
   *
   * @par Completion signature
   * @code void(rdma::error_code, std::size_t) @endcode
   *
   * @par Errors
   * See async_pull(); those of basic_queue_pair::async_write().
   *
   * @par Per-operation cancellation
   * See async_pull().
   */
  template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_push(std::size_t offset, const const_buffer& from,
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>()) const
  {
    return start(false, offset, from, token);
  }

private:
  template <class CompletionToken>
  auto start(
    bool pulls, std::size_t offset, const const_buffer& local, CompletionToken& token) const
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
      rdma::detail::initiation(of_->executor(),
        [of = of_, index = index_, pulls, offset, local](
          const executor_type& executor, auto&& handler)
        {
          of->transfer(
            executor, {index, pulls, offset, local}, std::forward<decltype(handler)>(handler));
        }),
      token);
  }

  std::shared_ptr<rdma::detail::rpc::exposed_by_client> of_;
  std::size_t index_;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_BULK_HPP
