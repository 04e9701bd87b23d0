//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BENCH_QUEUE_PAIRS_SIDE_HPP
#define BOOST_RDMA_BENCH_QUEUE_PAIRS_SIDE_HPP

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/context.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

// Parts of all processes of rdma_queue_pairs.

namespace bench {

namespace asio = boost::asio;
using asio::ip::tcp;

inline void check(const rdma::error_code& ec)
{
  if (ec)
    throw rdma::system_error(ec);
}

/// Properties of the connections of one process.
struct connection_plan
{
  std::string wire; // "local" or "tcp"; "asio" for plain sockets
  std::optional<rdma::completion_mode> mode;
  std::uint32_t in_flight = 1; // messages of each connection
};

/// The objects that all queue pairs of a process share.
class rdma_side
{
public:
  rdma_side(asio::io_context& to_run, const connection_plan& plan)
    : io(to_run)
    , context(context_of(plan.wire))
  {
    if (plan.mode)
    {
      rdma::completion_queue_options how;
      how.mode = *plan.mode;
      options.completions.emplace(io, context, how);
    }
    options.send_depth = std::max(options.send_depth, 2 * plan.in_flight);
    options.receive_depth = std::max(options.receive_depth, 2 * plan.in_flight);
    options.confirm_timeout = options.connect_timeout; // many connect at the same time
  }

  /// Opens the software device with one wire. The process must not have opened it before.
  static rdma::context context_of(const std::string& wire)
  {
    ::setenv("BOOST_RDMA_WIRES", wire.c_str(), 1);
    rdma::context_options how;
    how.device = rdma::software::device_name;
    return rdma::context(how);
  }

  static void check_wire(const rdma::queue_pair& peer, const std::string& wanted)
  {
    const rdma::wire wire = peer.transport().wire;
    if (wire != (wanted == "tcp" ? rdma::wire::tcp : rdma::wire::shared_memory))
      throw std::runtime_error(std::string("the connection uses the wire ") + rdma::name_of(wire));
  }

  asio::io_context& io;
  rdma::context context;
  rdma::queue_pair_options options;
};

/// Echoes on one queue pair until it fails. Each slot has one operation outstanding: the receive of
/// a message, then the send of the answer.
class rdma_echo
{
public:
  rdma_echo(const rdma::context& context, rdma::queue_pair accepted, std::size_t slots,
    std::size_t message_max, std::size_t answer_max = SIZE_MAX)
    : memory_(context.allocate(slots * message_max))
    , message_max_(message_max)
    , answer_max_(answer_max)
    , live_(slots)
    , peer_(std::move(accepted))
  {
  }

  [[nodiscard]] rdma::queue_pair& peer() { return peer_; }

  /// Begins. `ended` is called when the last slot has failed.
  void start(std::function<void()> ended)
  {
    ended_ = std::move(ended);
    for (std::size_t i = live_; i-- != 0;)
      receive(i);
  }

private:
  void receive(std::size_t slot)
  {
    peer_.async_receive(memory_.slice(slot * message_max_, message_max_),
      [this, slot](rdma::error_code receive_ec, std::size_t size)
      {
        if (receive_ec)
          return fail();
        peer_.async_send(memory_.slice(slot * message_max_, std::min(size, answer_max_)),
          [this, slot](rdma::error_code ec, std::size_t) { ec ? fail() : receive(slot); });
      });
  }

  void fail()
  {
    if (--live_ == 0)
      ended_();
  }

  rdma::registered_buffer memory_;
  std::size_t message_max_;
  std::size_t answer_max_;
  std::size_t live_;
  std::function<void()> ended_;
  rdma::queue_pair peer_; // destroyed first
};

/// The shares of `whole` differ by at most one.
inline std::uint32_t share(std::uint32_t whole, std::uint32_t parts, std::uint32_t index)
{
  return whole / parts + (index < whole % parts ? 1 : 0);
}

} // namespace bench

#endif // BOOST_RDMA_BENCH_QUEUE_PAIRS_SIDE_HPP
