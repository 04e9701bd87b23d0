//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/protocol/hello.hpp"

#include "common/catch.hpp"

#include <optional>

using namespace rdma::software::protocol;

TEST_CASE("two hellos agree on packet sequence numbers unless a known one differs")
{
  hello a;
  hello b;
  a.expected_psn = 10;
  b.expected_psn = 20;
  CHECK(agree_on_psns(a, b));
  a.first_psn = 20;
  b.first_psn = 10;
  CHECK(agree_on_psns(a, b));
  SECTION("the first end's")
  {
    a.first_psn = 21;
  }
  SECTION("the second end's, while the first end's is not known")
  {
    a.first_psn = std::nullopt;
    b.first_psn = 9;
  }
  CHECK_FALSE(agree_on_psns(a, b));
}
