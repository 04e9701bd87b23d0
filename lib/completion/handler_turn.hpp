//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_HANDLER_TURN_HPP
#define BOOST_RDMA_LIB_COMPLETION_HANDLER_TURN_HPP

#include <utility>

namespace rdma::detail {

// A completion queue's chain polls for a while before other handlers of its execution context run.
// Code of the library that posts such a handler ends the chain's turn, if this thread runs it.
class handler_turn
{
public:
  static void want() noexcept { wanted_ = true; }
  [[nodiscard]] static bool take_wanted() noexcept { return std::exchange(wanted_, false); }

private:
  static inline thread_local constinit bool wanted_ = false;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_HANDLER_TURN_HPP
