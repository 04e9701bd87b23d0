//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_PERF_PIPELINE_HPP
#define BOOST_RDMA_TOOLS_PERF_PIPELINE_HPP

#include "perf/side.hpp"

#include <cstdint>
#include <utility>

namespace perf {

/// Keeps `depth` of `count` operations in flight. start(index, handler) starts one.
/** Must not move until the last operation has completed. */
template <class Start>
class pipeline
{
public:
  pipeline(std::uint64_t depth, std::uint64_t count, Start start)
    : count_(count)
    , start_(std::move(start))
  {
    while (started_ < depth && started_ < count_)
      next();
  }
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;

private:
  void next()
  {
    start_(started_++,
      [this](rdma::error_code ec, auto)
      {
        check(ec);
        if (started_ < count_)
          next();
      });
  }

  std::uint64_t count_;
  Start start_;
  std::uint64_t started_ = 0;
};

} // namespace perf

#endif // BOOST_RDMA_TOOLS_PERF_PIPELINE_HPP
