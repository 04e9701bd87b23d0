//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_MEASURE_CHILD_PROCESS_HPP
#define BOOST_RDMA_TOOLS_MEASURE_CHILD_PROCESS_HPP

#include "measure/control_channel.hpp"
#include "measure/two_processes.hpp"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>

#include <signal.h>

namespace bench {

template <class T>
T receive_from(control_channel& control)
{
  T value{};
  if (!control.receive(value))
    throw std::runtime_error("the other process has ended; see its message");
  return value;
}

/// A child process that runs a function of its control channel and the channel's descriptor.
/// Killed if it is destroyed before wait().
class child_process
{
public:
  template <class Body>
  explicit child_process(const Body& body)
    : control_(sides_.descriptor())
  {
    if (!sides_.in_child())
      return;
    try
    {
      body(control_, sides_.descriptor());
    }
    catch (const std::exception& failure)
    {
      std::cerr << "error: " << failure.what() << '\n';
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process()
  {
    if (!ended_)
      end_by(SIGKILL);
  }

  [[nodiscard]] control_channel& control() { return control_; }
  [[nodiscard]] pid_t pid() const { return sides_.child(); }
  void signal(int number) const { ::kill(sides_.child(), number); }

  void end_by(int number)
  {
    signal(number);
    ended_ = true;
    (void)sides_.wait();
  }

  /// Sends the message that ends the child's function. Throws if the child failed.
  void end()
  {
    control_.send(true);
    ended_ = true;
    if (!sides_.wait())
      throw std::runtime_error("a process failed; its own message is above");
  }

private:
  two_processes sides_;
  control_channel control_;
  bool ended_ = false;
};

} // namespace bench

#endif // BOOST_RDMA_TOOLS_MEASURE_CHILD_PROCESS_HPP
