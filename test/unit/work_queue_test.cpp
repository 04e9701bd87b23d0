//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/work_queue.hpp"

#include "common/catch.hpp"

#include <cstdint>
#include <set>

using namespace rdma::software::protocol;

TEST_CASE("a work queue uses only as many slots as it held requests at the same time")
{
  receive_queue queue(1000, sizeof(ibv_sge));
  std::set<const receive_request*> places;
  std::uint64_t taken = 0;
  for (std::uint64_t posted = 0; posted < 100'000; ++posted)
  {
    receive_request* const place = queue.enter(posted);
    REQUIRE(place != nullptr);
    place->id = posted;
    places.insert(place);
    if (posted - taken == 2)
    {
      REQUIRE(queue[taken].id == taken);
      queue.leave(taken++);
    }
  }
  CHECK(places.size() <= 4);
}

TEST_CASE("a work queue of any depth holds that many requests, each in its own slot")
{
  const std::uint32_t depth = GENERATE(1u, 2u, 3u, 5u, 128u, 1000u);
  CAPTURE(depth);
  receive_queue queue(depth, sizeof(ibv_sge));
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{depth}})
  {
    for (std::uint64_t i = first; i < first + depth; ++i)
    {
      receive_request* const place = queue.enter(i);
      REQUIRE(place != nullptr);
      place->id = i;
      place->elements_begin()[0] = {i, 1, 2};
    }
    for (std::uint64_t i = first; i < first + depth; ++i)
    {
      CHECK(queue[i].id == i);
      CHECK(queue[i].elements_begin()[0].addr == i);
      queue.leave(i);
    }
  }
}
