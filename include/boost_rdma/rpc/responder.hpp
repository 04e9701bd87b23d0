//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_RESPONDER_HPP
#define BOOST_RDMA_RPC_RESPONDER_HPP

#include <boost_rdma/detail/rpc/server_core.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/rpc/bulk.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/trace_context.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace rdma::rpc {

/// What a server's handler can know of a call.
class call_info
{
public:
  /// @cond
  explicit call_info(const rdma::detail::rpc::arrived_call& of)
    : deadline_(of.deadline)
    , trace_(of.trace)
    , exposed_(of.exposed)
    , received_(of.received)
  {
  }
  /// @endcond

  /// Returns the time after which the client does not wait any more; time_point::max(): never.
  /** The time between the two hosts is not known, and not subtracted. */
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const noexcept
  {
    return deadline_;
  }

  /// Returns call_options::trace. It is not valid if the client has set none.
  [[nodiscard]] const trace_context& trace() const noexcept { return trace_; }

  /// Returns the number of elements of call_options::exposed.
  [[nodiscard]] std::size_t exposed_count() const noexcept
  {
    return exposed_ ? exposed_->count() : 0;
  }

  /// Returns an element of call_options::exposed.
  /** Throws system_error with error::not_exposed if there are not so many. */
  [[nodiscard]] bulk exposed(std::size_t index) const
  {
    if (index >= exposed_count())
      throw system_error(error::not_exposed, "call_info::exposed");
    return {exposed_, index};
  }

  /// Returns the bytes of group_call_options::exposed, all of which are here; empty if there are
  /// none.
  /** They are valid as long as this object or another copy of content_owner() exists; at the root,
   * until the operation has ended. */
  [[nodiscard]] std::span<const std::byte> content() const noexcept { return received_.bytes; }

  /// Returns the memory of content(), which the handler can keep; null at the root, which has it.
  [[nodiscard]] const std::shared_ptr<const registered_buffer>& content_owner() const noexcept
  {
    return received_.owner;
  }

private:
  std::chrono::steady_clock::time_point deadline_;
  trace_context trace_;
  std::shared_ptr<rdma::detail::rpc::exposed_by_client> exposed_;
  rdma::detail::rpc::received_content received_;
};

/// Answers a call later, for handlers that are no coroutines.
/**
 * Destroying it without an answer fails the call with error::call_failed.
 *
 * @par Thread safety
 * Distinct objects: safe; it can be used by any thread. Shared objects: unsafe.
 */
template <class Method>
class responder
{
public:
  /// @cond
  explicit responder(std::shared_ptr<rdma::detail::rpc::running_call> call)
    : call_(std::move(call))
  {
  }
  /// @endcond

  /// Moves the duty to answer.
  responder(responder&&) noexcept = default;
  /// Fails this object's call if it was not answered, and takes the duty of the other.
  responder& operator=(responder&& other) noexcept
  {
    responder moved(std::move(other));
    call_.swap(moved.call_);
    return *this;
  }
  /// Fails the call with error::call_failed if it was not answered.
  ~responder()
  {
    if (call_)
      call_->fail(error::call_failed);
  }

  /// Answers the call. Precondition: not answered yet.
  /** A view in the request is valid until then. */
  void reply(const typename Method::reply_type& value)
  {
    std::exchange(call_, nullptr)
      ->reply({&value,
        [](const void* what, output& to)
        {
          using type = typename Method::reply_type;
          detail::codec_of<type>::encode(*static_cast<const type*>(what), to);
        }});
  }

  /// Fails the call. Precondition: not answered yet.
  /** Codes of this library and of the system reach the client; others become error::call_failed. */
  void fail(const error_code& ec) { std::exchange(call_, nullptr)->fail(ec); }

private:
  std::shared_ptr<rdma::detail::rpc::running_call> call_;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_RESPONDER_HPP
