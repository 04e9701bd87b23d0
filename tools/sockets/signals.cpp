//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/signals.hpp"

#include "sockets/system.hpp"

#include <atomic>

namespace rdma::sockets {
namespace {

constinit std::atomic<unsigned> changes{1};

signal_handlers look_up() noexcept
{
  signal_handlers found;
  ::sigemptyset(&found.restarting);
  for (int number = 1; number < NSIG; ++number)
  {
    struct sigaction action;
    if (original::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL
      || action.sa_handler == SIG_IGN)
      continue;
    if ((action.sa_flags & SA_RESTART) != 0)
    {
      ::sigaddset(&found.restarting, number);
      found.has_restarting = true;
    }
    else
      found.has_interrupting = true;
  }
  return found;
}

// The change is counted when it has been made, and a thread that looks before counts none.
template <class Call>
auto changing(Call call)
{
  const auto result = call();
  changes.fetch_add(1);
  return result;
}

} // namespace

const signal_handlers& handlers_of_program() noexcept
{
  thread_local signal_handlers known;
  thread_local unsigned known_changes = 0;
  const unsigned now = changes.load();
  if (known_changes != now)
  {
    const kept_errno kept;
    known = look_up();
    known_changes = now;
  }
  return known;
}

BOOST_RDMA_SOCKETS_EXPORT(
  int, sigaction, (int number, const struct sigaction* to, struct sigaction* before))
{
  if (to == nullptr)
    return original::sigaction(number, to, before);
  return changing([=] { return original::sigaction(number, to, before); });
}

BOOST_RDMA_SOCKETS_EXPORT(signal_handler, signal, (int number, signal_handler to))
{
  return changing([=] { return original::signal(number, to); });
}

BOOST_RDMA_SOCKETS_EXPORT(signal_handler, __sysv_signal, (int number, signal_handler to))
{
  return changing([=] { return original::__sysv_signal(number, to); });
}

BOOST_RDMA_SOCKETS_EXPORT(signal_handler, sigset, (int number, signal_handler to))
{
  return changing([=] { return original::sigset(number, to); });
}

BOOST_RDMA_SOCKETS_EXPORT(int, siginterrupt, (int number, int interrupts))
{
  return changing([=] { return original::siginterrupt(number, interrupts); });
}

} // namespace rdma::sockets
