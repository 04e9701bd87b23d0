//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_AGENT_CORE_HPP
#define BOOST_RDMA_DETAIL_AGENT_CORE_HPP

#include <boost_rdma/agent_options.hpp>
#include <boost_rdma/buffer.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/registered_buffer.hpp>
#include <boost_rdma/remote_memory.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace rdma::detail {

class queue_pair_core;

// An agent, independent of the types of handlers. All members may be called from any thread.
class agent_core
{
public:
  template <class... Results>
  using handler_of = boost::asio::any_completion_handler<void(error_code, Results...)>;
  using io_executor = boost::asio::any_io_executor;

  // Returns the agent of a queue pair; the first call creates it. Returns null and sets ec if the
  // queue pair cannot have an agent.
  static std::shared_ptr<agent_core> of(
    const std::shared_ptr<queue_pair_core>& core, error_code& ec);

  virtual ~agent_core() = default;
  virtual void allocate(const io_executor& executor, std::size_t size,
    const allocation_options& options, handler_of<remote_memory> handler) = 0;
  virtual void renew(const io_executor& executor, const std::shared_ptr<held_lease>& lease,
    std::chrono::milliseconds lifetime, std::chrono::milliseconds time_limit,
    handler_of<> handler) = 0;
  virtual void release(const io_executor& executor, std::shared_ptr<held_lease> lease,
    std::chrono::milliseconds time_limit, handler_of<> handler) = 0;
  virtual void hand_over(const io_executor& executor, std::shared_ptr<held_lease> lease,
    std::chrono::milliseconds time_limit, handler_of<> handler) = 0;
  virtual void lend(const io_executor& executor, const mutable_buffer& region,
    const lend_options& options, handler_of<loan> handler) = 0;
  virtual void wait_return(const io_executor& executor, const std::shared_ptr<lent_lease>& lease,
    handler_of<> handler) = 0;
  virtual void receive_remote(const io_executor& executor, handler_of<remote_memory> handler) = 0;
  virtual void receive_local(
    const io_executor& executor, handler_of<registered_buffer> handler) = 0;

  // Notify the peer without waiting for its answer.
  virtual void drop(held_lease& lease) noexcept = 0;
  virtual void take_back(lent_lease& lease) noexcept = 0;
};

// Completes an operation of a queue pair without an agent.
template <class... Results>
void refuse_request(const agent_core::io_executor& executor, const error_code& ec,
  agent_core::handler_of<Results...> handler);
extern template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<>);
extern template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<remote_memory>);
extern template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<loan>);
extern template void refuse_request(
  const agent_core::io_executor&, const error_code&, agent_core::handler_of<registered_buffer>);

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_AGENT_CORE_HPP
