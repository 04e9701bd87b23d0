//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/overhead.hpp"

#include "perf/child_program.hpp"
#include "perf/counted.hpp"
#include "perf/pipeline.hpp"
#include "perf/plain_coroutine.hpp"
#include "perf/side.hpp"
#include "perf/transports.hpp"
#include "perf/wire_probe.hpp"

#include "common/allocations.hpp"

#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/native.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace perf {
namespace {

namespace asio = boost::asio;

constexpr std::uint64_t depth = 64;
constexpr std::uint32_t size = 64;
constexpr std::size_t poll_max = 32; // like the library

// Replaces the functions behind ibv_post_send and ibv_poll_cq (in ibv_context::ops) during its
// lifetime.
class instant_device
{
public:
  explicit instant_device(ibv_context& context)
    : context_(context)
    , before_(context.ops)
  {
    first = last = 0;
    context_.ops.post_send = &post_send;
    context_.ops.poll_cq = &poll_cq;
  }
  instant_device(const instant_device&) = delete;
  instant_device& operator=(const instant_device&) = delete;
  ~instant_device() { context_.ops = before_; }

private:
  struct entry
  {
    std::uint64_t id;
    std::uint32_t queue_pair;
  };

  static int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**)
  {
    for (; request != nullptr; request = request->next)
      if ((request->send_flags & IBV_SEND_SIGNALED) != 0)
        completed[last++ % completed.size()] = {request->wr_id, qp->qp_num};
    return 0;
  }

  static int poll_cq(ibv_cq*, int count, ibv_wc* to)
  {
    int found = 0;
    for (; found < count && first != last; ++found, ++to)
    {
      const entry& each = completed[first++ % completed.size()];
      to->wr_id = each.id;
      to->status = IBV_WC_SUCCESS;
      to->opcode = IBV_WC_RDMA_WRITE;
      to->byte_len = size;
      to->qp_num = each.queue_pair;
      to->wc_flags = 0;
    }
    return found;
  }

  // One thread posts and polls, so no synchronization is needed.
  static inline std::array<entry, 2 * depth> completed{};
  static inline std::uint64_t first = 0;
  static inline std::uint64_t last = 0;

  ibv_context& context_;
  ibv_context_ops before_;
};

// Two queue pairs of this process. Operations go from the first to the memory of the second.
class instant_bench
{
public:
  instant_bench()
    : context_(context_of(0))
    , memory_(context_, 2 * size, rdma::access::local_write | rdma::access::remote_write)
    , completions_(io_, context_, {.mode = rdma::completion_mode::busy_poll})
    , here_(io_, context_, options())
    , there_(io_, context_, options())
  {
    const auto ours = here_.local_endpoint(asio::ip::address_v4::loopback());
    const auto theirs = there_.local_endpoint(asio::ip::address_v4::loopback());
    here_.connect(theirs);
    there_.connect(ours);
    // A first message ensures that both are connected before the device is replaced.
    there_.async_receive(rdma::no_data, on_message);
    here_.async_send(rdma::no_data, on_message);
    io_.run();
    native_ = here_.native_handle();
    instant_.emplace(*native_->context);
    index_ = context_.default_device().kind() == rdma::device_kind::nic
      ? rdma::detail::nic_index
      : rdma::detail::software_index;
  }

  ~instant_bench()
  {
    instant_.reset();
    here_.close();
    there_.close();
    io_.restart();
    io_.run();
  }

  void library(
    std::uint64_t count, const std::function<void()>& half_way = [] {})
  {
    const std::uint64_t half = count / 2;
    run_pipeline(count,
      [&](std::uint64_t index, auto handler)
      {
        if (index == half)
          half_way();
        here_.async_write(local_, remote_, handler);
      });
  }

  void deferred(std::uint64_t count)
  {
    run_pipeline(count,
      [this](std::uint64_t, auto handler)
      { here_.async_write(local_, remote_, asio::deferred)(handler); });
  }

  void coroutines(std::uint64_t count)
  {
    io_.restart();
    std::uint64_t started = 0;
    std::vector<plain_coroutine> all;
    for (std::uint64_t i = 0; i < depth; ++i)
      all.push_back(write_until(count, started));
    io_.run();
  }

  void futures(std::uint64_t count)
  {
    for (; count != 0; --count)
    {
      io_.restart();
      std::future<std::size_t> written = here_.async_write(local_, remote_, asio::use_future);
      io_.run();
      written.get();
    }
  }

  void raw(std::uint64_t count)
  {
    const std::uint32_t local_key = memory_.registration()->local_keys[index_];
    const std::uint32_t remote_key = remote_.key(index_);
    const auto post = [&](std::uint64_t id)
    {
      ibv_sge buffer{reinterpret_cast<std::uint64_t>(memory_.data()), size, local_key};
      ibv_send_wr request{};
      request.wr_id = id;
      request.sg_list = &buffer;
      request.num_sge = 1;
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags =
        static_cast<unsigned>(IBV_SEND_SIGNALED) | static_cast<unsigned>(IBV_SEND_INLINE);
      request.wr.rdma = {remote_.address(), remote_key};
      ibv_send_wr* bad = nullptr;
      if (const int error = ibv_post_send(native_, &request, &bad); error != 0)
        throw std::system_error(error, std::generic_category(), "ibv_post_send");
    };
    std::array<ibv_wc, poll_max> completions;
    std::uint64_t posted = 0;
    while (posted < depth && posted < count)
      post(posted++);
    for (std::uint64_t left = count; left != 0;)
    {
      const int found =
        ibv_poll_cq(native_->send_cq, static_cast<int>(completions.size()), completions.data());
      for (int i = 0; i < found; ++i, --left)
      {
        if (completions[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS)
          throw std::runtime_error("a raw write failed");
        if (posted < count)
          post(posted++);
      }
    }
  }

private:
  template <class Start>
  void run_pipeline(std::uint64_t count, Start start)
  {
    io_.restart();
    pipeline run(depth, count, std::move(start));
    io_.run();
  }

  plain_coroutine write_until(std::uint64_t count, std::uint64_t& started)
  {
    while (started++ < count)
      co_await result_of(here_.async_write(local_, remote_, asio::deferred));
  }

  static void on_message(rdma::error_code ec, std::size_t) { check(ec); }

  rdma::queue_pair_options options() const
  {
    rdma::queue_pair_options result;
    result.completions = completions_;
    return result;
  }

  rdma::context context_;
  rdma::memory_region memory_;
  const rdma::mutable_buffer local_ = memory_.first(size);
  const rdma::remote_buffer remote_ = memory_.remote().slice(size, size);
  asio::io_context io_{1};
  rdma::completion_queue completions_;
  rdma::queue_pair here_;
  rdma::queue_pair there_;
  ibv_qp* native_ = nullptr;
  std::optional<instant_device> instant_;
  std::size_t index_ = 0;
};

std::uint64_t operations_each_round(const settings& how)
{
  return how.quick ? 20'000 : 500'000;
}

void run(instant_bench& on, std::string_view side, std::uint64_t count)
{
  if (side == "callback")
    on.library(count);
  else if (side == "deferred")
    on.deferred(count);
  else if (side == "coroutine")
    on.coroutines(count);
  else if (side == "future")
    on.futures(count);
  else if (side == "raw")
    on.raw(count);
  else
    throw std::runtime_error("unknown case: " + std::string(side));
}

double nanoseconds_each(std::uint64_t count, const std::function<void(std::uint64_t)>& run)
{
  const clock::time_point begin = clock::now();
  run(count);
  return seconds(clock::now() - begin).count() * 1e9 / static_cast<double>(count);
}

// Returns the instructions per operation of one side.
std::optional<double> count_instructions(const std::string& side, std::string& problem)
{
  constexpr std::uint64_t count = 20'000;
  constexpr auto limit = std::chrono::seconds(120);
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof(self));
  if (find_program("valgrind").empty())
    problem = "not installed (valgrind)";
  else if (length <= 0)
    problem = "cannot find this program's file";
  if (!problem.empty())
    return std::nullopt;
  std::vector<std::string> arguments{"valgrind", "--tool=callgrind",
    "--callgrind-out-file=/dev/null", "--toggle-collect=rdma_perf_counted",
    std::string(self, static_cast<std::size_t>(length)), "--instruction-probe", side,
    "--instruction-count", std::to_string(count), "--wire", transports().front().name};
  if (!transports().front().software)
    arguments.resize(arguments.size() - 2);
  child_program counted(arguments, {}, std::nullopt);
  const std::string before = "Collected : ";
  const bool ended = counted.wait(limit);
  const std::size_t at = counted.output().rfind(before);
  if (!ended || at == std::string::npos)
  {
    problem = "valgrind failed: " + counted.output().substr(0, 200);
    return std::nullopt;
  }
  return std::strtod(counted.output().c_str() + at + before.size(), nullptr) / count;
}

} // namespace

void probe_instructions(const std::string& side, std::uint64_t count)
{
  if (std::ranges::find(wire_probes, side) != wire_probes.end())
    return probe_wire(side, count);
  instant_bench on;
  run(on, side, 1000); // one-time work comes before the counting
  count_calls([&] { run(on, side, count); });
}

std::size_t overhead_steps(const settings& how)
{
  return static_cast<std::size_t>(how.rounds);
}

overhead measure_overhead(const settings& how, progress& shown)
{
  overhead result;
  {
    instant_bench on;
    const std::uint64_t count = operations_each_round(how);
    on.library(count / 10);
    on.raw(count / 10);
    for (int round = 0; round < how.rounds; ++round)
    {
      shown.begin("the library without a device", "round " + std::to_string(round + 1));
      const double library = nanoseconds_each(count, [&on](std::uint64_t n) { on.library(n); });
      const double raw = nanoseconds_each(count, [&on](std::uint64_t n) { on.raw(n); });
      result.library_ns.add(library);
      result.raw_ns.add(raw);
      result.added_ns.add(library - raw);
      shown.step();
    }
    // Only the second half is counted, so that one-time allocations are complete.
    std::optional<test::allocation_count> allocations;
    on.library(count, [&allocations] { allocations.emplace(); });
    allocations->stop();
    result.allocations = static_cast<double>(allocations->value()) / static_cast<double>(count / 2);
  }
  if (!how.instructions)
    result.absent_instructions = "not requested (--instructions)";
  else
  {
    shown.begin("the library without a device", "instructions, by callgrind");
    result.library_instructions = count_instructions("callback", result.absent_instructions);
    if (result.library_instructions)
      result.raw_instructions = count_instructions("raw", result.absent_instructions);
  }
  return result;
}

} // namespace perf
