//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_COMPANION_HPP
#define BOOST_RDMA_DETAIL_COMPANION_HPP

#include <boost_rdma/error.hpp>

#include <memory>
#include <string>

namespace rdma::detail {

class queue_pair_core;

// What companions tell each other by the control channel: which queue pair their own messages go
// by.
enum class lane_word
{
  offer, // my queue pair; the text describes it
  over,  // no more; the text says why
};

// What a higher floor keeps beside a queue pair, for as long as that is connected. Owned by the
// queue pair, which it refers to weakly.
class companion
{
public:
  virtual ~companion() = default;

  // From the control channel's thread.
  virtual void hear_of_lane(lane_word word, const std::string& text) = 0;

  // The connection has ended, so. The queue pair's mutex is held.
  virtual void on_end(const error_code& reason) noexcept = 0;

  // The io_context is going: no handler is called any more.
  virtual void abandon() noexcept = 0;
};

// Makes one when it is first needed.
class companion_source
{
public:
  virtual ~companion_source() = default;
  virtual std::shared_ptr<companion> make(const std::shared_ptr<queue_pair_core>& beside) = 0;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_COMPANION_HPP
