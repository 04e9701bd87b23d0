//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_EARLY_RECEIVE_HPP
#define BOOST_RDMA_LIB_COMPLETION_EARLY_RECEIVE_HPP

#include "boost_rdma/buffer.hpp"
#include "boost_rdma/context.hpp"
#include "boost_rdma/error.hpp"
#include "boost_rdma/registered_buffer.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace rdma::detail {

class queue_pair_core;

// The receive of queue_pair_options::for_stream, which is posted before the queue pair connects.
//
// It takes the first message of the peer, which may arrive before the program has made its stream.
// The operation owns this object.
class early_receive final : public std::enable_shared_from_this<early_receive>
{
public:
  static constexpr std::size_t size_max = 256;

  explicit early_receive(const context& owner);

  // Call once.
  void post(queue_pair_core& by);

  // Calls `by` once: before hand_over() returns, or on the queue pair's executor. The message is
  // valid during the call. Call once.
  using taker = std::function<void(const error_code& ec, const const_buffer& message)>;
  void hand_over(taker by);

private:
  // The second of two calls delivers: the result and the taker are there.
  void come();

  const registered_buffer memory_;
  std::atomic_flag one_came_;
  error_code ec_;
  std::size_t size_ = 0;
  taker taker_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_EARLY_RECEIVE_HPP
