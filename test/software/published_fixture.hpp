//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_PUBLISHED_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_PUBLISHED_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/object_fixture.hpp"

#include <boost_rdma/objects/published.hpp>
#include <boost_rdma/objects/published_snapshot.hpp>
#include <boost_rdma/objects/remote_published.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

// A published value of this process, and a reader's handle to it.

namespace test {

// Larger than one request.
struct table
{
  std::uint64_t number;
  std::array<std::uint64_t, 300'000> words;
};

using remote_table = rdma::remote_published<table>;
using table_snapshot = remote_table::snapshot_type;

inline std::unique_ptr<table> make_table(std::uint64_t number)
{
  auto result = std::make_unique<table>();
  result->number = number;
  result->words.fill(number);
  return result;
}

inline bool is_table(const table& found, std::uint64_t number)
{
  return found.number == number
    && std::ranges::all_of(found.words, [number](std::uint64_t word) { return word == number; });
}

struct published_table : linked_pair
{
  explicit published_table(const rdma::published_options& options = {})
    : owner(io, far_context, options)
  {
    remote = open<remote_table>(*this, owner.remote());
  }

  void publish(std::uint64_t number)
  {
    const auto value = make_table(number);
    record<std::uint64_t> r;
    owner.async_publish(*value, r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE_FALSE(r.ec);
    REQUIRE(r.value() == number);
  }

  table_snapshot snapshot()
  {
    record<table_snapshot> r;
    remote.async_snapshot(r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    REQUIRE_FALSE(r.ec);
    table_snapshot taken = r.value();
    return taken;
  }

  // Completes an operation without a result.
  template <class Start>
  error_code result_of(Start start)
  {
    plain_record r;
    start(r.handler());
    CHECK_FALSE(r.done());
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r.ec;
  }

  rdma::published<table> owner;
  remote_table remote;
};

inline rdma::published_options of_lease(std::chrono::milliseconds lease, std::size_t buffers = 3)
{
  rdma::published_options options;
  options.buffers = buffers;
  options.lease = lease;
  return options;
}

inline constexpr auto never = std::chrono::hours(24);

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_PUBLISHED_FIXTURE_HPP
