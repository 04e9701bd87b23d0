//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_GROUP_CORE_HPP
#define BOOST_RDMA_DETAIL_RPC_GROUP_CORE_HPP

#include <boost_rdma/detail/mapped_handler.hpp>
#include <boost_rdma/detail/rpc/server_core.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/rpc/codec.hpp>
#include <boost_rdma/rpc/group_options.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/responder.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

// The method by which members call each other: the messages of lib/rpc/group_message.hpp.
using group_transport =
  rdma::rpc::method<"rdma.group/1", std::span<const std::byte>, std::span<const std::byte>>;

// The method of failure detection, likewise.
using gossip_transport =
  rdma::rpc::method<"rdma.gossip/1", std::span<const std::byte>, std::span<const std::byte>>;

// The handler of a method at this member, and the reduction of its replies.
class group_method
{
public:
  explicit group_method(std::unique_ptr<method_handler> by)
    : handler(std::move(by))
  {
  }
  virtual ~group_method() = default;

  // Returns true if the bytes are a reply.
  [[nodiscard]] virtual bool accepts(std::span<const std::byte> reply) const noexcept = 0;

  // Precondition: both are accepted. Throws what the program's function throws.
  virtual std::vector<std::byte> reduce(
    std::span<const std::byte> first, std::span<const std::byte> second) = 0;

  const std::unique_ptr<method_handler> handler;
};

template <class Method, class Reduction>
class typed_group_method final : public group_method
{
  using reply_type = typename Method::reply_type;
  using codec = rdma::rpc::detail::codec_of<reply_type>;

public:
  typed_group_method(std::unique_ptr<method_handler> by, Reduction reduction)
    : group_method(std::move(by))
    , reduction_(std::move(reduction))
  {
  }

  [[nodiscard]] bool accepts(std::span<const std::byte> reply) const noexcept override
  try
  {
    return codec::decode(reply).has_value();
  }
  catch (...)
  {
    return false;
  }

  std::vector<std::byte> reduce(
    std::span<const std::byte> first, std::span<const std::byte> second) override
  {
    const std::optional<reply_type> a = codec::decode(first);
    const std::optional<reply_type> b = codec::decode(second);
    // A view may refer to what the function has returned.
    auto&& returned = reduction_(*a, *b);
    const reply_type value(returned);
    std::vector<std::byte> result;
    rdma::rpc::output to(result);
    codec::encode(value, to);
    return result;
  }

private:
  Reduction reduction_;
};

// The result of a call, independent of the type of replies.
struct group_outcome
{
  std::vector<std::byte> value; // if any have answered
  std::uint32_t answered = 0;
  std::vector<rdma::rpc::missing_member> missing;
};

// A member of a group, independent of the types of methods and handlers.
class group_core
{
public:
  using io_executor = boost::asio::any_io_executor;
  using endpoint_type = boost::asio::ip::tcp::endpoint;
  using outcome_handler = boost::asio::any_completion_handler<void(error_code, group_outcome)>;
  using missing_handler =
    boost::asio::any_completion_handler<void(error_code, std::vector<rdma::rpc::missing_member>)>;
  using membership_handler =
    boost::asio::any_completion_handler<void(error_code, rdma::rpc::group_membership)>;
  using answer = rdma::rpc::responder<group_transport>;

  // Throws system_error.
  static std::shared_ptr<group_core> make(const io_executor& executor,
    const protection_domain& domain, std::vector<endpoint_type> members, std::uint32_t rank,
    const rdma::rpc::group_options& options);

  virtual ~group_core() = default;
  virtual void add(std::unique_ptr<group_method> method) = 0;
  // A member has sent this.
  virtual void take(
    std::span<const std::byte> request, const rdma::rpc::call_info& info, answer to) = 0;
  virtual void broadcast(const io_executor& executor,
    const rdma::rpc::detail::method_description& method, std::span<const std::byte> request,
    const rdma::rpc::group_call_options& options, outcome_handler handler) = 0;
  virtual void enter_barrier(const io_executor& executor,
    const rdma::rpc::group_call_options& options, missing_handler handler) = 0;
  // Precondition: group_options::probe_period is positive.
  virtual void take_gossip(
    std::span<const std::byte> request, rdma::rpc::responder<gossip_transport> to) = 0;
  [[nodiscard]] virtual rdma::rpc::group_membership membership() const = 0;
  virtual void wait_change(
    const io_executor& executor, std::uint64_t known, membership_handler handler) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
};

// Complete with error::closed if there is no core.
void start_broadcast(const group_core::io_executor& executor, group_core* core,
  const rdma::rpc::detail::method_description& method, std::span<const std::byte> request,
  const rdma::rpc::group_call_options& options, group_core::outcome_handler handler);
void start_barrier(const group_core::io_executor& executor, group_core* core,
  const rdma::rpc::group_call_options& options, group_core::missing_handler handler);
void start_wait_change(const group_core::io_executor& executor, group_core* core,
  std::uint64_t known, group_core::membership_handler handler);

// The handler for an outcome that calls one for the result.
template <class Result, class Handler>
auto handler_of_outcome(Handler&& handler)
{
  return map_handler(
    // mutable: GCC 12 warns of an uninitialised object if an empty one is passed as const
    [](auto own, error_code ec, group_outcome outcome) mutable
    {
      rdma::rpc::group_result<Result> result;
      result.answered = outcome.answered;
      result.missing = std::move(outcome.missing);
      if (outcome.answered != 0)
        try
        {
          if (auto decoded = rdma::rpc::detail::codec_of<Result>::decode(outcome.value))
            result.reply = std::move(*decoded);
          else
            ec = error::malformed_message;
        }
        catch (...)
        {
          ec = error::malformed_message;
        }
      std::move(own)(ec, std::move(result));
    },
    std::forward<Handler>(handler));
}

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_GROUP_CORE_HPP
