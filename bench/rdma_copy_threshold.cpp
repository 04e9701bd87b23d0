//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Measures the cost of unregistered memory for an operation, by size: copied, registered and found
// in the cache, or newly registered. Memory that the program registered is the base line. The
// operations run between two queue pairs of this process, on one device:
//
//   rdma_copy_threshold [--device NAME] [--rounds N] [--milliseconds N] [--whole]
//
// By default only the library's part is measured: the remote range is one byte too small, so the
// library refuses each write after it has prepared everything for the device. With --whole,
// complete writes and reads are measured as well; the device's part dominates these. Every round
// runs each case once, one after the other, so that other load on the machine affects all of them.
// The output has the median, the least and the greatest of the rounds, and the value of
// queue_pair_options::copy_max that fits this machine.

#include "measure/host.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t size_min = 256;
constexpr std::size_t size_max = std::size_t{1} << 20;

enum way
{
  registered,
  copied,
  cached,
  fresh,
  way_count
};
constexpr std::array<const char*, way_count> way_names{
  "registered", "copied", "cached", "newly registered"};

enum kind
{
  refused,
  writes,
  reads,
};

// Refused writes in progress: they share the cost of one io_context iteration.
constexpr int at_a_time = 32;

rdma::context open(const std::string& device, way which)
{
  rdma::context_options options;
  options.device = device;
  if (which == fresh)
    options.cache.bytes_max = 0;
  return rdma::context(options);
}

rdma::queue_pair_options options_of(way which)
{
  rdma::queue_pair_options options;
  options.max_inline_data = 0; // inline data needs neither a copy nor a registration
  options.copy_max = which == copied ? size_max : 0;
  return options;
}

// Two connected queue pairs, with memory on both sides.
class link
{
public:
  link(asio::io_context& io, const std::string& device, way which)
    : io_(io)
    , which_(which)
    , context_(open(device, which))
    , near_(io, context_, options_of(which))
    , far_(io, context_)
    , own_(context_, size_max)
    , target_(context_, size_max, rdma::access::local_write | rdma::remote_access)
    , plain_(size_max)
  {
    const rdma::endpoint_description near = near_.local_endpoint();
    near_.connect(far_.local_endpoint());
    far_.connect(near);
  }

  // Returns the mean time of an operation, in microseconds.
  double measure(kind what, std::size_t size, std::chrono::milliseconds duration)
  {
    size_ = size;
    kind_ = what;
    count_ = 0;
    ec_ = {};
    remote_ = target_.remote().first(what == refused ? size - 1 : size);
    const auto start = clock_type::now();
    limit_ = start + duration;
    for (int i = 0; i < (what == refused ? at_a_time : 1); ++i)
      next();
    io_.restart();
    io_.run();
    if (ec_)
      throw rdma::system_error(
        ec_, std::string(way_names[which_]) + ", " + std::to_string(size) + " bytes");
    return std::chrono::duration<double, std::micro>(clock_type::now() - start).count() / count_;
  }

  [[nodiscard]] const rdma::context& context() const { return context_; }

private:
  void next()
  {
    const auto done = [this](rdma::error_code ec, std::size_t)
    {
      ++count_;
      if (kind_ == refused && ec == rdma::error::remote_range_too_small)
        ec = {};
      if (ec)
        ec_ = ec;
      else if (count_ % at_a_time != 0 || clock_type::now() < limit_)
        next();
    };
    const rdma::mutable_buffer local =
      which_ == registered ? own_.first(size_) : rdma::mutable_buffer(asio::buffer(plain_, size_));
    if (kind_ == reads)
      near_.async_read(local, remote_, done);
    else
      near_.async_write(local, remote_, done);
  }

  asio::io_context& io_;
  const way which_;
  rdma::context context_;
  rdma::queue_pair near_;
  rdma::queue_pair far_;
  rdma::memory_region own_;
  rdma::memory_region target_;
  std::vector<char> plain_;
  std::size_t size_ = 0;
  kind kind_ = refused;
  rdma::remote_buffer remote_;
  std::size_t count_ = 0;
  clock_type::time_point limit_;
  rdma::error_code ec_;
};

struct spread
{
  double least = 0;
  double median = 0;
  double greatest = 0;
};

spread spread_of(std::vector<double> values)
{
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

// Returns the largest size up to which copying is faster at every measured size.
std::size_t threshold(const std::vector<std::array<spread, way_count>>& by_size, way other)
{
  std::size_t size = size_min;
  std::size_t result = 0;
  for (const auto& each : by_size)
  {
    if (each[copied].median > each[other].median)
      break;
    result = size;
    size *= 2;
  }
  return result;
}

void measure_all(
  const std::string& device, int rounds, std::chrono::milliseconds duration, bool whole)
{
  asio::io_context io(1);
  std::vector<std::unique_ptr<link>> links;
  for (int i = 0; i < way_count; ++i)
    links.push_back(std::make_unique<link>(io, device, static_cast<way>(i)));
  const rdma::context& context = links[cached]->context();
  std::printf("processor: %s\nkernel: %s\nload: %s\ndevice: %s\n",
    bench::processors_online().c_str(), bench::kernel().c_str(),
    bench::first_line("/proc/loadavg").c_str(), context.default_device().name().c_str());
  std::printf(
    "rounds: %d of %d ms per case; warm memory\n", rounds, static_cast<int>(duration.count()));
  if (const auto s = context.registration_cache_statistics(); !s.enabled)
    std::printf("the registration cache is off: %s\n", s.disabled_reason.c_str());
#ifndef NDEBUG
  std::printf("build: with assertions enabled, do not use these figures\n");
#endif
  for (const kind what : {refused, writes, reads})
  {
    if (what != refused && !whole)
      break;
    std::printf("\n%s, us per operation: median (least .. greatest)\n%10s",
      what == refused    ? "the library's part"
        : what == writes ? "complete writes"
                         : "complete reads",
      "bytes");
    for (const char* name : way_names)
      std::printf(" %28s", name);
    std::printf("\n");
    std::vector<std::array<spread, way_count>> by_size;
    for (std::size_t size = size_min; size <= size_max; size *= 2)
    {
      std::array<std::vector<double>, way_count> samples;
      for (int round = -1; round < rounds; ++round)
        for (int i = 0; i < way_count; ++i)
        {
          const double each = links[static_cast<std::size_t>(i)]->measure(what, size, duration);
          if (round >= 0) // round -1 is a warm-up
            samples[static_cast<std::size_t>(i)].push_back(each);
        }
      std::printf("%10zu", size);
      auto& row = by_size.emplace_back();
      for (std::size_t i = 0; i < way_count; ++i)
      {
        row[i] = spread_of(samples[i]);
        std::printf("  %8.2f (%7.2f .. %7.2f)", row[i].median, row[i].least, row[i].greatest);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    if (what == refused)
      std::printf("copying is faster than a cached registration up to %zu bytes, "
                  "and faster than a new registration up to %zu bytes\n",
        threshold(by_size, cached), threshold(by_size, fresh));
  }
}

} // namespace

int main(int argc, char** argv)
{
  std::string device;
  int rounds = 7;
  int milliseconds = 20;
  CLI::App app("Measures the cost of unregistered memory for an operation: copied, cached or "
               "newly registered.");
  app.add_option("--device", device,
    "soft0, or the name of an RDMA device (default: the context's default device)");
  app.add_option("--rounds", rounds, "number of rounds")->check(CLI::Range(1, 1000));
  app.add_option("--milliseconds", milliseconds, "duration of each case in a round")
    ->check(CLI::Range(1, 10'000));
  bool whole = false;
  app.add_flag("--whole", whole, "measure complete operations as well");
  CLI11_PARSE(app, argc, argv);
  try
  {
    measure_all(device, rounds, std::chrono::milliseconds(milliseconds), whole);
  }
  catch (const std::exception& e)
  {
    std::cerr << "error: " << e.what() << '\n';
    return 1;
  }
  return 0;
}
