//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_VERBS_SIGNALS_BLOCKED_HPP
#define BOOST_RDMA_LIB_VERBS_SIGNALS_BLOCKED_HPP

#include <csignal>

namespace rdma::detail {

// Blocks all signals while the library starts a thread, which inherits the mask. Signals are for
// the program's own threads.
class signals_blocked
{
public:
  signals_blocked()
  {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

private:
  sigset_t before_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_VERBS_SIGNALS_BLOCKED_HPP
