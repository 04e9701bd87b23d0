//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_TEXTS_HPP
#define BOOST_RDMA_TEST_COMMON_TEXTS_HPP

#include "common/catch.hpp"

#include <initializer_list>
#include <string>

namespace test {

/// Checks that a text for the user contains all these parts.
inline void contains_all(const std::string& text, std::initializer_list<const char*> parts)
{
  CAPTURE(text);
  for (const char* part : parts)
  {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_TEXTS_HPP
