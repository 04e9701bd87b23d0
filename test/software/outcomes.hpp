//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_OUTCOMES_HPP
#define BOOST_RDMA_TEST_SOFTWARE_OUTCOMES_HPP

#include "common/rdma_fixture.hpp"

#include <vector>

// The results of many handlers.

namespace test {

// Records the order and the results of many handlers.
struct outcomes
{
  struct entry
  {
    int id;
    error_code ec;
  };
  std::vector<entry> list;

  auto handler(int id)
  {
    return [this, id](error_code ec, auto...) { list.push_back({id, ec}); };
  }
  [[nodiscard]] int calls(int id) const
  {
    return static_cast<int>(
      std::count_if(list.begin(), list.end(), [id](const entry& e) { return e.id == id; }));
  }
  [[nodiscard]] error_code of(int id) const
  {
    for (const entry& e : list)
      if (e.id == id)
        return e.ec;
    return {};
  }
  [[nodiscard]] bool each_once(int n) const
  {
    for (int i = 0; i < n; ++i)
      if (calls(i) != 1)
        return false;
    return list.size() == static_cast<std::size_t>(n);
  }
};

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_OUTCOMES_HPP
