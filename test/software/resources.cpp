//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/register_buffer.hpp>

#include <limits>
#include <memory_resource>
#include <set>
#include <vector>

// Tests contexts, domains, regions and the pool.

using namespace test;

TEST_CASE("opening a device that does not exist fails and names it")
{
  rdma::context_options options;
  options.device = "no_such_device";
  try
  {
    rdma::context context(options);
    FAIL("the device was opened");
  }
  catch (const rdma::system_error& e)
  {
    CHECK(e.code() == rdma::error::no_device);
    CHECK(std::string(e.what()).find("no_such_device") != std::string::npos);
  }
  error_code ec;
  rdma::context context(options, ec);
  CHECK(ec == rdma::error::no_device);
  options.device = device_name();
  context = rdma::context(options, ec);
  CHECK(ec == error_code());
  CHECK(context.allocate(8).size() == 8);

  asio::io_context io;
  rdma::queue_pair_options elsewhere;
  elsewhere.device = "no_such_device";
  CHECK_THROWS_AS(rdma::queue_pair(io, context, elsewhere), rdma::system_error);
}

TEST_CASE("list_devices returns the software device last")
{
  const auto devices = rdma::list_devices();
  REQUIRE_FALSE(devices.empty());
  CHECK(devices.back().name == "soft0");
  CHECK(devices.back().kind == rdma::device_kind::software);
  CHECK(devices.back().active);
  CHECK_FALSE(rdma::system_library_remark().empty());
}

TEST_CASE("a context provides the properties of its devices")
{
  rdma::context context = make_context();
  const rdma::device device = context.default_device();
  CHECK(device.name() == device_name());
  CHECK(device.max_work_requests() >= 128);
  CHECK(device.max_sge() >= 4);
  CHECK(device.max_completions() >= 256);
  CHECK(device.max_message_size() >= 1u << 20);
  CHECK(device.has_atomics() == missing(feature::atomics).empty());
  CHECK(device.has_memory_windows() == missing(feature::memory_windows).empty());
  CHECK_FALSE(device.addresses().empty());
  CHECK(device.native_handle() != nullptr);
  CHECK(context.devices().back().kind() == rdma::device_kind::software);
}

TEST_CASE("several contexts in one process have separate memory")
{
  std::vector<rdma::context> contexts;
  for (int i = 0; i < 8; ++i)
    contexts.push_back(make_context());
  std::vector<rdma::registered_buffer> buffers;
  for (const auto& context : contexts)
    buffers.push_back(context.allocate(100));
  for (const auto& context : contexts)
    CHECK(context.pool_statistics().buffers == 1);
  contexts.clear(); // the buffers keep their resources alive
  for (auto& buffer : buffers)
    std::memset(buffer.data(), 1, buffer.size());
}

TEST_CASE("pool buffers have the requested size, are aligned and do not overlap")
{
  rdma::context context = make_context();
  std::vector<rdma::registered_buffer> buffers;
  const std::size_t sizes[] = {
    1, 2, 63, 64, 65, 100, 128, 1000, 4096, 4097, 65536, 262'144, 262'145, 3'000'000};
  for (std::size_t size : sizes)
    for (int i = 0; i < 3; ++i)
    {
      rdma::registered_buffer& b = buffers.emplace_back(context.allocate(size));
      CHECK(b.size() == size);
      CHECK(b.bytes().size() == size);
      CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 64 == 0);
      std::memset(b.data(), static_cast<int>(buffers.size()), size);
    }
  for (std::size_t i = 0; i < buffers.size(); ++i)
  {
    const auto wanted = std::byte(static_cast<unsigned char>(i + 1));
    CHECK(std::all_of(buffers[i].bytes().begin(), buffers[i].bytes().end(),
      [wanted](std::byte b) { return b == wanted; }));
  }
  CHECK(context.pool_statistics().buffers == buffers.size());
}

TEST_CASE("a freed pool buffer is reused for its size class")
{
  rdma::context context = make_context();
  std::byte* place = nullptr;
  {
    rdma::registered_buffer first = context.allocate(100);
    place = first.data();
  }
  const auto before = context.pool_statistics();
  rdma::registered_buffer again = context.allocate(128);
  CHECK(again.data() == place);
  rdma::registered_buffer other = context.allocate(129);
  CHECK(other.data() != place);
  const auto after = context.pool_statistics();
  CHECK(before.arenas == 1);
  CHECK(before.bytes_allocated == 0);
  CHECK(after.arenas == 1);
  CHECK(after.buffers == 2);
  CHECK(after.bytes_allocated == 128 + 192);
}

TEST_CASE("pool statistics return to zero and large buffers are not kept")
{
  rdma::context_options options;
  options.pool.arena_size = 1u << 20;
  options.pool.idle_bytes_high = 1u << 20;
  rdma::context context = make_context(options);
  {
    rdma::registered_buffer small = context.allocate(1);
    rdma::registered_buffer large = context.allocate(5'000'000);
    const auto s = context.pool_statistics();
    CHECK(s.buffers == 2);
    CHECK(s.bytes_allocated >= 5'000'064);
    CHECK(s.bytes_registered >= 5'000'000 + (1u << 20));
    CHECK(s.arenas == 2);

    rdma::registered_buffer moved = std::move(small);
    CHECK(context.pool_statistics().buffers == 2);
    moved = rdma::registered_buffer();
    CHECK(context.pool_statistics().buffers == 1);
  }
  const auto s = context.pool_statistics();
  CHECK(s.buffers == 0);
  CHECK(s.bytes_allocated == 0);
  CHECK(s.arenas == 1);
  CHECK(s.bytes_registered == 1u << 20);
}

TEST_CASE("allocations fail with pool_exhausted when the pool is at its limit")
{
  rdma::context_options options;
  options.pool.arena_size = 65536;
  options.pool.size_max = 4 * 65536;
  rdma::context context = make_context(options);
  error_code ec;
  std::vector<rdma::registered_buffer> buffers;
  for (;;)
  {
    rdma::registered_buffer b = context.allocate(16384, ec);
    if (ec)
      break;
    buffers.push_back(std::move(b));
    REQUIRE(buffers.size() <= 16);
  }
  CHECK(buffers.size() == 16);
  CHECK(ec == rdma::error::pool_exhausted);
  CHECK_THROWS_AS(context.allocate(64), rdma::system_error);
  buffers.pop_back();
  CHECK(context.allocate(16384, ec).size() == 16384);
  CHECK(ec == error_code());
  for (std::size_t size : {std::size_t{5 * 65536}, std::numeric_limits<std::size_t>::max(),
         std::numeric_limits<std::size_t>::max() / 2 + 2})
  {
    CHECK(context.allocate(size, ec).size() == 0);
    CHECK(ec == rdma::error::pool_exhausted);
  }
}

TEST_CASE("allocations of extreme sizes fail when the pool has no limit")
{
  rdma::context_options options;
  options.pool.size_max = std::numeric_limits<std::size_t>::max();
  rdma::context context = make_context(options);
  error_code ec;
  for (std::size_t size :
    {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 4095,
      std::numeric_limits<std::size_t>::max() / 2 + 2})
  {
    CHECK(context.allocate(size, ec).size() == 0);
    CHECK(ec);
  }
}

TEST_CASE("context::allocate fails with empty_buffer when the size is zero")
{
  rdma::context context = make_context();
  error_code ec;
  CHECK(context.allocate(0, ec).data() == nullptr);
  CHECK(ec == rdma::error::empty_buffer);
}

TEST_CASE("a memory region is zeroed, page-aligned and reports its rights")
{
  rdma::context context = make_context();
  rdma::memory_region region(context, 10'000, exposed);
  CHECK(region.size() == 10'000);
  CHECK(reinterpret_cast<std::uintptr_t>(region.data()) % 4096 == 0);
  CHECK(std::all_of(
    region.bytes().begin(), region.bytes().end(), [](std::byte b) { return b == std::byte(0); }));
  CHECK(region.rights() == exposed);
  const rdma::remote_buffer remote = region.remote();
  CHECK(remote.size() == 10'000);
  CHECK(remote.rights() == rdma::remote_access);
  CHECK(remote.address() == reinterpret_cast<std::uintptr_t>(region.data()));

  rdma::memory_region moved = std::move(region);
  CHECK(region.data() == nullptr);
  CHECK(region.size() == 0);
  CHECK(moved.size() == 10'000);
  moved = rdma::memory_region();
  CHECK(moved.data() == nullptr);
}

TEST_CASE("a memory region refuses a size of zero and contradictory rights")
{
  rdma::context context = make_context();
  error_code ec;
  rdma::memory_region(context, 0, rdma::access::local_write, ec);
  CHECK(ec == rdma::error::empty_buffer);
  char byte = 0;
  rdma::memory_region(context, &byte, 0, rdma::access::local_write, ec);
  CHECK(ec == rdma::error::empty_buffer);
  rdma::memory_region(context, nullptr, 8, rdma::access::local_write, ec);
  CHECK(ec == rdma::error::empty_buffer);
  for (rdma::access rights : {rdma::access::remote_write, rdma::access::remote_atomic,
         rdma::access::remote_read | rdma::access::remote_write})
  {
    rdma::memory_region(context, 8, rights, ec);
    CHECK(ec == rdma::error::bad_access);
    CHECK_THROWS_AS(rdma::memory_region(context, 8, rights), rdma::system_error);
  }
  rdma::memory_region fine(context, 8, rdma::access::remote_read, ec);
  CHECK(ec == error_code());
}

TEST_CASE("memory_region::remote fails with not_exposed when the region has no remote right")
{
  rdma::context context = make_context();
  rdma::memory_region region(context, 64, rdma::access::local_write);
  error_code ec;
  CHECK(region.remote(ec).size() == 0);
  CHECK(ec == rdma::error::not_exposed);
  CHECK_THROWS_AS(region.remote(), rdma::system_error);
  rdma::memory_region none;
  (void)none.remote(ec);
  CHECK(ec == rdma::error::not_exposed);
}

TEST_CASE("a memory region of user memory uses it in place")
{
  rdma::context context = make_context();
  std::vector<char> mine(100, 'm');
  rdma::memory_region region(context, mine.data() + 1, 50, exposed);
  CHECK(static_cast<void*>(region.data()) == mine.data() + 1);
  CHECK(text_of(region.first(50)) == std::string(50, 'm'));
}

TEST_CASE("memory is shared if the library allocated it for the software device")
{
  rdma::context context = make_context();
  const bool shares = has(feature::software_device);
  CHECK(rdma::memory_region(context, 100).is_shared() == shares);
  std::vector<char> own(1 << 20);
  CHECK_FALSE(rdma::register_buffer(context, own).is_shared());
  std::pmr::vector<char> pooled(1 << 20, &context.pool());
  CHECK(rdma::register_buffer(context, pooled).is_shared() == shares);
  CHECK_FALSE(rdma::memory_region().is_shared());
}

TEST_CASE("every memory region has its own key")
{
  rdma::context context = make_context();
  std::set<std::uint32_t> keys;
  std::vector<rdma::memory_region> regions;
  for (int i = 0; i < 64; ++i)
  {
    regions.emplace_back(context, 64, exposed);
    keys.insert(regions.back().remote().keys()[rdma::detail::software_index]);
  }
  CHECK(keys.size() == 64);
}

TEST_CASE("objects of a context outlive its handle")
{
  rdma::memory_region region;
  rdma::registered_buffer buffer;
  std::optional<rdma::memory_window> window;
  {
    rdma::context context = make_context();
    region = rdma::memory_region(context, 64);
    buffer = context.allocate(64);
    if (has(feature::memory_windows))
      window.emplace(context);
  }
  std::memset(region.data(), 1, region.size());
  std::memset(buffer.data(), 1, buffer.size());
  CHECK(text_of(region) == std::string(64, '\1'));
  CHECK(text_of(buffer) == std::string(64, '\1'));
}
