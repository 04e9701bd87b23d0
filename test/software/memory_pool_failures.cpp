//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/limited_device.hpp"

#include "resource/pool_impl.hpp"

#include <cerrno>
#include <memory_resource>
#include <thread>
#include <vector>

// Tests a pool whose device refuses registrations.

using namespace test;

TEST_CASE("a pool reports each failed registration and still works afterwards")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  for (int fail_at = 1; fail_at <= 8; ++fail_at)
  {
    CAPTURE(fail_at);
    registrations reset;
    {
      rdma::context context = counted_context();
      rdma::memory_pool_options options;
      options.arena_size = options.arena_size_max = 65536;
      rdma::memory_pool pool(context, options);
      registrations::fail_at = fail_at;
      std::vector<rdma::registered_buffer> buffers;
      std::vector<void*> blocks;
      int failures = 0;
      for (int i = 0; i < 4; ++i)
      {
        error_code ec;
        buffers.push_back(pool.make_buffer(50'000, 64, ec));
        if (ec)
        {
          ++failures;
          CHECK(ec == error_code(ENOMEM, boost::system::system_category()));
          CHECK(buffers.back().data() == nullptr);
        }
        try
        {
          blocks.push_back(pool.allocate(60'000));
        }
        catch (const rdma::pool_bad_alloc& e)
        {
          ++failures;
          CHECK(e.code() == error_code(ENOMEM, boost::system::system_category()));
          CHECK(std::string(e.what()).find("register") != std::string::npos);
        }
      }
      CHECK(failures == 1);
      CHECK(pool.statistics().failures == 1);
      CHECK(pool.statistics().buffers == (fail_at % 2 == 1 ? 3 : 4));
      CHECK(static_cast<std::size_t>(registrations::standing) == pool.statistics().arenas);
      for (void* each : blocks)
        pool.deallocate(each, 60'000);
    }
    CHECK(registrations::standing == 0);
  }
}

TEST_CASE("a pool falls back to a small arena when the device refuses a large one")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations reset;
  rdma::context context = counted_context();
  rdma::memory_pool_options options;
  options.arena_size = 65536;
  options.arena_size_max = 1u << 20;
  rdma::memory_pool pool(context, options);
  registrations::size_max = 65536;
  std::vector<rdma::registered_buffer> all;
  for (int i = 0; i < 64; ++i)
    all.push_back(pool.make_buffer(65536));
  CHECK(pool.statistics().arenas == 64);
  CHECK(pool.statistics().failures == 0);
  CHECK_THROWS_AS(pool.make_buffer(65537), rdma::system_error);
  CHECK(pool.statistics().failures == 1);
}

TEST_CASE("a pool frees idle arenas when the limit of locked memory is reached")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  constexpr std::size_t mib = std::size_t{1} << 20;
  registrations reset;
  registrations::bytes_max = 4 * mib;
  rdma::context context = counted_context();
  rdma::memory_pool_options options;
  options.arena_size = options.arena_size_max = mib;
  rdma::memory_pool pool(context, options);
  {
    std::vector<rdma::registered_buffer> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(pool.make_buffer(mib));
  }
  REQUIRE(registrations::bytes == 4 * mib); // not freed, because it is below the high watermark
  error_code ec;
  const rdma::registered_buffer large = pool.make_buffer(3 * mib, 64, ec);
  CHECK(ec == error_code());
  CHECK(large.size() == 3 * mib);
  CHECK(pool.statistics().failures == 0);
  CHECK(pool.make_buffer(2 * mib, 64, ec).size() == 0);
  CHECK(ec == error_code(ENOMEM, boost::system::system_category()));
  CHECK(pool.statistics().failures == 1);
}

TEST_CASE("all memory is deregistered after the last buffer is destroyed in any thread")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations reset;
  {
    std::vector<rdma::registered_buffer> late;
    {
      rdma::context context = counted_context();
      rdma::memory_pool pool(context);
      std::thread(
        [&]
        {
          for (const std::size_t size : {10, 1000, 100'000, 10'000'000})
          {
            late.push_back(context.allocate(size));
            late.push_back(pool.make_buffer(size));
          }
        })
        .join();
      CHECK(registrations::standing >= 2);
    }
    CHECK(registrations::standing >= 2);
    std::thread([&] { late.erase(late.begin(), late.begin() + 4); }).join();
    CHECK(registrations::standing >= 1);
  }
  CHECK(registrations::standing == 0);
}
