//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_OBJECT_FIXTURE_HPP
#define BOOST_RDMA_TEST_SOFTWARE_OBJECT_FIXTURE_HPP

#include "common/catch.hpp"
#include "common/rdma_fixture.hpp"

#include <boost_rdma/remote_buffer.hpp>

namespace test {

/// Opens an object through the near queue pair of a link.
template <class Object>
Object open(linked_pair& l, const rdma::remote_buffer& memory)
{
  record<Object> r;
  Object::async_open(l.near, memory, r.handler());
  REQUIRE(run_until(l.io, [&] { return r.done(); }));
  REQUIRE_FALSE(r.ec);
  return r.value();
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_OBJECT_FIXTURE_HPP
