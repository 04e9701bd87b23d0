//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/wire_probe.hpp"

#include "perf/counted.hpp"
#include "perf/side.hpp"
#include "perf/transports.hpp"

#include <boost_rdma/completion_queue.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/native.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace perf {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t size = 64;
constexpr std::uint64_t depth = 64;

// One end: a context with a queue pair that the library has connected and uses no more.
class wire_end
{
public:
  wire_end(asio::io_context& io, rdma::context context)
    : context_(std::move(context))
    , memory_(context_, 2 * size, rdma::access::local_write | rdma::access::remote_write)
    , pair_(io, context_, options(io, context_))
    , index_(context_.default_device().kind() == rdma::device_kind::nic
          ? rdma::detail::nic_index
          : rdma::detail::software_index)
    , key_(memory_.registration()->local_keys[index_])
  {
  }

  rdma::queue_pair& pair() { return pair_; }

  void take_handle() { native_ = pair_.native_handle(); }

  void receive()
  {
    ibv_sge buffer{reinterpret_cast<std::uint64_t>(memory_.data() + size), size, key_};
    ibv_recv_wr request{};
    request.sg_list = &buffer;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(native_, &request, &bad), "ibv_post_recv");
  }

  void send()
  {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    post(request);
  }

  void write_to(const wire_end& there)
  {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    const rdma::remote_buffer target = there.memory_.remote();
    request.wr.rdma = {target.address(), target.key(index_)};
    post(request);
  }

  // Returns the number of completions that were found; none may have failed.
  std::uint64_t poll()
  {
    std::array<ibv_wc, 32> found;
    const int count = ibv_poll_cq(native_->send_cq, static_cast<int>(found.size()), found.data());
    for (int i = 0; i < count; ++i)
      if (found[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS)
        throw std::runtime_error("a raw verbs work request failed");
    return static_cast<std::uint64_t>(count);
  }

  void poll_for(std::uint64_t count)
  {
    while (count != 0)
      count -= poll();
  }

private:
  static rdma::queue_pair_options options(asio::io_context& io, const rdma::context& context)
  {
    rdma::completion_queue_options completions;
    completions.mode = rdma::completion_mode::manual;
    rdma::queue_pair_options result;
    result.completions.emplace(io, context, completions);
    return result;
  }

  static void check(int error, const char* what)
  {
    if (error != 0)
      throw std::system_error(error, std::generic_category(), what);
  }

  void post(ibv_send_wr& request)
  {
    ibv_sge buffer{reinterpret_cast<std::uint64_t>(memory_.data()), size, key_};
    request.sg_list = &buffer;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(native_, &request, &bad), "ibv_post_send");
  }

  rdma::context context_;
  rdma::memory_region memory_; // destroyed after the queue pair
  rdma::queue_pair pair_;
  std::size_t index_;
  std::uint32_t key_;
  ibv_qp* native_ = nullptr;
};

// The device's own threads sleep, so that they do not change the counts.
rdma::context open_quiet_context()
{
  rdma::context_options options;
  if (transports().front().software)
  {
    options.device = rdma::software::device_name;
    options.software.wires = {transports().front().name};
    options.software.engine_delay = std::chrono::minutes(1);
  }
  return rdma::context(options);
}

class wire_bench
{
public:
  wire_bench()
    : here_(io_, open_quiet_context())
    , there_(io_, open_quiet_context())
  {
    const auto ours = here_.pair().local_endpoint(asio::ip::address_v4::loopback());
    const auto theirs = there_.pair().local_endpoint(asio::ip::address_v4::loopback());
    here_.pair().connect(theirs);
    there_.pair().connect(ours);
    here_.take_handle();
    there_.take_handle();
    // Until both ends are connected, a poll finds nothing.
    there_.receive();
    here_.send();
    std::uint64_t found = 0;
    while (found != 2)
    {
      found += here_.poll() + there_.poll();
      std::this_thread::yield();
    }
  }

  ~wire_bench()
  {
    here_.pair().close();
    there_.pair().close();
    io_.run();
  }

  // Each end polls for two completions, of its receive and of its send: the receiver answers at
  // once, and the answer carries the acknowledgement.
  void sends(std::uint64_t count)
  {
    here_.receive();
    there_.receive();
    here_.send();
    for (std::uint64_t i = 0; i < count; i += 2)
    {
      there_.poll_for(i == 0 ? 1 : 2);
      there_.receive();
      there_.send();
      here_.poll_for(2);
      here_.receive();
      here_.send();
    }
    there_.poll_for(2);
    while (here_.poll() == 0) // nothing carries the last acknowledgement
      there_.poll();
  }

  void writes(std::uint64_t count)
  {
    std::uint64_t posted = 0;
    while (posted < depth && posted < count)
    {
      here_.write_to(there_);
      ++posted;
    }
    for (std::uint64_t left = count; left != 0;)
    {
      const std::uint64_t found = here_.poll();
      left -= found;
      if (found == 0)
        there_.poll();
      for (std::uint64_t i = 0; i < found && posted < count; ++i, ++posted)
        here_.write_to(there_);
    }
  }

  // Waits until writes go directly: their completion is found without a poll of the other end. The
  // peer's grant comes over a socket, when the scheduler has let other threads run.
  void wait_for_direct_writes()
  {
    for (;;)
    {
      here_.write_to(there_);
      if (here_.poll() == 1)
        return;
      while (here_.poll() == 0)
        there_.poll();
    }
  }

  void run(std::string_view name, std::uint64_t count)
  {
    name == "wire_send" ? sends(count) : writes(count);
  }

private:
  asio::io_context io_{1};
  wire_end here_;
  wire_end there_;
};

} // namespace

void probe_wire(std::string_view name, std::uint64_t count)
{
  wire_bench on;
  on.run(name, 1000); // one-time work comes before the counting
  if (transports().front().name == "local" && name == "wire_write")
    on.wait_for_direct_writes();
  count_calls([&] { on.run(name, count); });
}

} // namespace perf
