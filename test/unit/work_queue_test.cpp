//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/work_queue.hpp"

#include "common/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <set>
#include <vector>

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

TEST_CASE("a receive queue is full until a request is taken, and its place is not used before")
{
  constexpr std::uint32_t depth = 4;
  receive_queue queue(depth, sizeof(ibv_sge));
  std::set<const receive_request*> places;
  const auto post = [&queue, &places]
  {
    const std::uint64_t index = queue.posted.load();
    receive_request* const place = queue.enter(index);
    REQUIRE(place != nullptr);
    place->id = index;
    queue.posted.store(index + 1);
    return places.insert(place).second; // not used before
  };
  for (std::uint32_t i = 0; i != depth; ++i)
  {
    CHECK_FALSE(queue.is_full());
    CHECK(post());
  }
  CHECK(queue.is_full());
  REQUIRE(queue.oldest() != nullptr);
  CHECK(queue.oldest()->id == 0);
  CHECK(queue.is_full());
  queue.take();
  CHECK_FALSE(queue.is_full());
  CHECK_FALSE(post());
  CHECK(queue.is_full());
  CHECK(queue.oldest()->id == 1);
}

TEST_CASE("requests of a work queue keep their places when its depth changes")
{
  receive_queue queue(4, sizeof(ibv_sge));
  std::vector<const receive_request*> places;
  const auto post = [&queue, &places](std::uint64_t index)
  {
    receive_request* const place = queue.enter(index);
    REQUIRE(place != nullptr);
    queue.posted.store(index + 1);
    places.push_back(place);
  };
  for (std::uint64_t i = 0; i != 4; ++i)
    post(i);
  queue.take();
  REQUIRE(queue.resize(9));
  for (std::uint64_t i = 4; i != 10; ++i)
  {
    CHECK_FALSE(queue.is_full());
    post(i);
  }
  CHECK(queue.is_full());
  for (std::uint64_t i = 1; i != places.size(); ++i)
    CHECK(&queue[i] == places[i]);
}

TEST_CASE("a program's allocator provides the memory of all requests at once")
{
  static int calls = 0;
  calls = 0;
  queue_memory memory;
  memory.allocate = [](ibv_pd*, void*, std::size_t size, std::size_t alignment, std::uint64_t)
  {
    ++calls;
    return ::operator new(size, std::align_val_t{alignment});
  };
  memory.deallocate = [](ibv_pd*, void*, void* gone, std::uint64_t)
  {
    --calls;
    ::operator delete(gone, std::align_val_t{64});
  };
  {
    receive_queue queue(100, sizeof(ibv_sge), &memory);
    for (std::uint64_t i = 0; i != queue.depth(); ++i)
      REQUIRE(queue.enter(i) != nullptr);
    CHECK(calls == 1);
  }
  CHECK(calls == 0);
}
