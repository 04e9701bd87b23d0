//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_RDMA_LINK_HPP
#define BOOST_RDMA_TOOLS_PERF_RDMA_LINK_HPP

#include "measure/control_channel.hpp"
#include "perf/test_case.hpp"
#include "perf/transports.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace perf {

namespace asio = boost::asio;

/// Queue pairs between the two processes, and memory on both sides: first the source of sends and
/// target of one-sided operations, then the receive buffers.
class rdma_link
{
public:
  rdma_link(asio::io_context& io, const test_case& what, rdma::completion_mode mode,
    bench::control_channel& control)
    : size_(what.memory())
    , receive_depth_(std::max<std::uint32_t>(2 * what.in_flight(), 4))
    , own_(what.own_memory ? memory_size(what) : 0)
    , memory_(make_memory(what))
  {
    rdma::completion_queue_options completions;
    completions.mode = mode;
    if (mode == rdma::completion_mode::busy_poll)
      completions.spin_slice = std::chrono::microseconds(100); // this thread has no other work
    rdma::queue_pair_options options;
    options.completions.emplace(io, context_of(what.transport), completions);
    options.send_depth = std::max(options.send_depth, 2 * what.in_flight());
    options.receive_depth = std::max(options.receive_depth, receive_depth_);
    // Faults in every page before the measurement.
    std::ranges::fill(memory_.bytes(), std::byte{1});
    control.send(memory_.remote().encode());
    rdma::remote_buffer::encoded handle{};
    if (!control.receive(handle))
      throw std::runtime_error("the other process has ended; see its message");
    remote_ = rdma::remote_buffer::decode(handle);
    // Both processes run the same program over a private channel, so no acceptor is needed.
    for (std::uint32_t i = 0; i < what.queue_pairs; ++i)
    {
      peers_.emplace_back(io, context_of(what.transport), options);
      control.send_text(peers_.back().local_endpoint(asio::ip::address_v4::loopback()).text());
      peers_.back().connect(rdma::endpoint_description::parse(control.receive_text()));
    }
  }

  [[nodiscard]] rdma::queue_pair& peer(std::size_t i) { return peers_[i]; }
  [[nodiscard]] const rdma::memory_region& memory() const { return memory_; }
  [[nodiscard]] rdma::mutable_buffer local(std::size_t offset, std::size_t size) const
  {
    return memory_.slice(offset, size);
  }
  [[nodiscard]] rdma::remote_buffer remote(std::size_t offset, std::size_t size) const
  {
    return remote_.slice(offset, size);
  }
  [[nodiscard]] std::size_t incoming() const { return size_; }
  [[nodiscard]] std::uint32_t receive_depth() const { return receive_depth_; }
  [[nodiscard]] std::string wire() const { return rdma::name_of(peers_.front().transport().wire); }

  [[nodiscard]] std::vector<rdma::queue_pair> take_peers() { return std::move(peers_); }

  void close()
  {
    for (rdma::queue_pair& each : peers_)
      each.close();
  }

private:
  static std::size_t memory_size(const test_case& what)
  {
    return (what.use != 0 ? 1 : 2) * what.memory();
  }

  rdma::memory_region make_memory(const test_case& what)
  {
    const rdma::access rights = rdma::access::local_write | rdma::access::remote_write
      | rdma::access::remote_read | rdma::access::remote_atomic;
    const rdma::context& context = context_of(what.transport);
    return what.own_memory ? rdma::memory_region(context, own_.data(), own_.size(), rights)
                           : rdma::memory_region(context, memory_size(what), rights);
  }

  std::size_t size_;
  std::uint32_t receive_depth_;
  std::vector<std::byte> own_;
  rdma::memory_region memory_; // destroyed after the queue pairs, whose operations use it
  rdma::remote_buffer remote_;
  std::vector<rdma::queue_pair> peers_;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_RDMA_LINK_HPP
