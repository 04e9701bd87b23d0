//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_content.hpp"

#include "common/catch.hpp"

#include <cstdint>
#include <vector>

// The content of a bulk call at one member, transition by transition.

namespace test::rpc_group_content_test {
namespace {

using rdma::detail::rpc::group_content;
using verdict = group_content::verdict;
constexpr std::uint64_t part = group_content::part_max;

struct expected_part
{
  std::uint32_t place;
  std::uint64_t offset;
  std::uint64_t bytes;
};

void check_parts(group_content& of, const std::vector<expected_part>& expected)
{
  const auto parts = of.take_parts();
  REQUIRE(parts.size() == expected.size());
  for (std::size_t i = 0; i != parts.size(); ++i)
  {
    CHECK(parts[i].place == expected[i].place);
    CHECK(parts[i].offset == expected[i].offset);
    CHECK(parts[i].bytes == expected[i].bytes);
  }
}

// Pulls the next bytes, and returns true if they complete the content.
bool pull(group_content& to, std::uint64_t bytes)
{
  const auto offer = to.take_offer(to.here(), bytes);
  REQUIRE(offer.is == verdict::pull);
  return to.take_pulled(offer.number, bytes);
}

} // namespace

TEST_CASE("the root of a bulk call has the content, and gives each child one part at a time")
{
  group_content c(2 * part + 1, true);
  CHECK(c.is_complete());
  CHECK(c.here() == 2 * part + 1);
  c.add_child(1);
  check_parts(c, {{1, 0, part}});
  check_parts(c, {});
  c.add_child(9);
  check_parts(c, {{9, 0, part}});
  CHECK(c.take_progress(1, part));
  check_parts(c, {{1, part, part}});
  CHECK(c.take_progress(1, 2 * part));
  check_parts(c, {{1, 2 * part, 1}});
  CHECK(c.take_progress(1, 2 * part + 1));
  CHECK(c.take_progress(9, part));
  check_parts(c, {{9, part, part}});
}

TEST_CASE("a member passes on the bytes that it has while it waits for the others")
{
  group_content c(3 * part, false);
  CHECK_FALSE(c.is_complete());
  c.add_child(2);
  check_parts(c, {});
  CHECK_FALSE(pull(c, part));
  check_parts(c, {{2, 0, part}});
  CHECK_FALSE(pull(c, 100)); // the root chooses the size of its parts
  check_parts(c, {});
  CHECK(c.take_progress(2, part));
  check_parts(c, {{2, part, 100}});
  CHECK(pull(c, 2 * part - 100));
  CHECK(c.is_complete());
  CHECK(c.take_progress(2, part + 100));
  check_parts(c, {{2, part + 100, part}});
}

TEST_CASE("a member pulls the next bytes, and answers other offers with what it has")
{
  group_content c(3 * part, false);
  CHECK(c.take_offer(part, part).is == verdict::not_next);
  CHECK(c.take_offer(0, 0).is == verdict::malformed);
  CHECK(c.take_offer(0, 3 * part + 1).is == verdict::malformed);
  CHECK(c.take_offer(3 * part, 1).is == verdict::malformed);
  CHECK(c.take_offer(3 * part + 1, 1).is == verdict::malformed);
  CHECK(c.take_offer(UINT64_MAX, 2).is == verdict::malformed);
  CHECK(c.take_offer(1, UINT64_MAX).is == verdict::malformed);
  CHECK_FALSE(pull(c, part));
  CHECK(c.take_offer(0, part).is == verdict::not_next);
  CHECK(pull(c, 2 * part));
  CHECK(c.take_offer(0, part).is == verdict::not_next);
}

TEST_CASE("a pull that fails can be repeated")
{
  group_content c(part, false);
  const auto first = c.take_offer(0, part);
  CHECK_FALSE(c.take_pulled(first.number, 0));
  CHECK(c.here() == 0);
  CHECK(pull(c, part));
}

TEST_CASE("a pull supersedes one that has not ended, whose end has no effect then")
{
  group_content c(2 * part, false);
  const auto first = c.take_offer(0, part);
  CHECK(first.is == verdict::pull);
  const auto second = c.take_offer(0, part);
  CHECK(second.is == verdict::pull_aside);
  CHECK(second.number != first.number);
  CHECK_FALSE(c.take_pulled(first.number, part));
  CHECK(c.here() == 0);
  CHECK_FALSE(c.take_pulled(second.number, part));
  CHECK(c.here() == part);
  CHECK_FALSE(c.take_pulled(second.number, part));
  CHECK(c.here() == part);
  CHECK(pull(c, part));
}

TEST_CASE("an offer that is refused leaves the pull before it under way")
{
  group_content c(2 * part, false);
  const auto first = c.take_offer(0, part);
  const auto second = c.take_offer(0, part);
  CHECK(second.is == verdict::pull_aside);
  c.refuse(second);
  CHECK(c.is_pulling());
  SECTION("another one does not use its memory")
  {
    CHECK(c.take_offer(0, part).is == verdict::pull_aside);
  }
  SECTION("which counts")
  {
    CHECK_FALSE(c.take_pulled(first.number, part));
    CHECK(c.here() == part);
    CHECK_FALSE(c.is_pulling());
    CHECK(c.take_offer(part, part).is == verdict::pull);
  }
}

TEST_CASE("a child goes on behind the bytes that it has from another member")
{
  group_content c(3 * part, false);
  CHECK_FALSE(pull(c, part));
  c.add_child(4);
  check_parts(c, {{4, 0, part}});
  CHECK(c.take_progress(4, 2 * part)); // more than this member has
  check_parts(c, {});
  CHECK_FALSE(pull(c, part));
  check_parts(c, {});
  CHECK(pull(c, part));
  check_parts(c, {{4, 2 * part, part}});
}

TEST_CASE("an answer to a part that is no progress, or more than there is, is malformed")
{
  group_content c(2 * part, true);
  c.add_child(1);
  CHECK_FALSE(c.take_progress(1, part)); // nothing was offered
  check_parts(c, {{1, 0, part}});
  CHECK_FALSE(c.take_progress(1, 0));
  CHECK_FALSE(c.take_progress(1, 2 * part + 1));
  CHECK_FALSE(c.take_progress(2, part));
  CHECK(c.take_progress(1, part));
  CHECK_FALSE(c.take_progress(1, 2 * part));
  check_parts(c, {{1, part, part}});
  CHECK_FALSE(c.take_progress(1, part));
}

TEST_CASE("a child that is removed gets no more parts, and one that is added again all")
{
  group_content c(2 * part, true);
  c.add_child(1);
  check_parts(c, {{1, 0, part}});
  c.remove_child(1);
  CHECK_FALSE(c.take_progress(1, part));
  check_parts(c, {});
  c.add_child(1);
  check_parts(c, {{1, 0, part}});
  CHECK(c.take_progress(1, part));
  check_parts(c, {{1, part, part}});
  c.add_child(1); // its process was started again
  check_parts(c, {{1, 0, part}});
}

} // namespace test::rpc_group_content_test
