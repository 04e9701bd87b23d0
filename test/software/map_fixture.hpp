//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_MAP_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_MAP_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"
#include "software/object_fixture.hpp"

#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/objects/remote_map.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace test {

/// A key.
using player = std::array<char, 12>;

/// A value.
struct score
{
  double points;
  std::uint32_t games;

  friend bool operator==(const score&, const score&) = default;
};
using score_map = rdma::remote_map<player, score>;

inline player named(std::uint32_t number)
{
  player result{};
  std::snprintf(result.data(), result.size(), "p%u", number);
  return result;
}

/// A map and a handle of its owner's peer.
struct shared_map : linked_pair
{
  explicit shared_map(const rdma::map_options& options = {.capacity = 16})
    : owner(io, far_context, options)
  {
    remote = open<score_map>(*this, owner.remote());
  }

  template <class... Values>
  auto end(record<Values...>& r)
  {
    CHECK_FALSE(r.done()); // not inside the initiating call
    REQUIRE(run_until(io, [&] { return r.done(); }));
    return r.value();
  }

  std::optional<score> find(const score_map& in, std::uint32_t key)
  {
    record<std::optional<score>> r;
    in.async_find(named(key), r.handler());
    const auto result = end(r);
    REQUIRE_FALSE(r.ec);
    return result;
  }

  template <class Start>
  bool change(Start start)
  {
    record<bool> r;
    start(r.handler());
    const bool result = end(r);
    REQUIRE_FALSE(r.ec);
    return result;
  }
  bool insert(score_map& in, std::uint32_t key, const score& value)
  {
    return change([&](auto handler) { in.async_insert(named(key), value, handler); });
  }
  bool update(score_map& in, std::uint32_t key, const score& value)
  {
    return change([&](auto handler) { in.async_update(named(key), value, handler); });
  }
  bool put(score_map& in, std::uint32_t key, const score& value)
  {
    return change([&](auto handler) { in.async_insert_or_assign(named(key), value, handler); });
  }
  bool erase(score_map& in, std::uint32_t key)
  {
    return change([&](auto handler) { in.async_erase(named(key), handler); });
  }

  std::map<player, score> all(const score_map& in)
  {
    record<std::vector<std::pair<player, score>>> r;
    in.async_entries(0, in.part_count(), r.handler());
    const auto found = end(r);
    REQUIRE_FALSE(r.ec);
    const std::map<player, score> result(found.begin(), found.end());
    CHECK(result.size() == found.size());
    return result;
  }

  rdma::map<player, score> owner;
  score_map remote;
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_MAP_FIXTURE_HPP
