//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_STEP_SCRIPT_HPP
#define BOOST_RDMA_TEST_UNIT_STEP_SCRIPT_HPP

#include "common/catch.hpp"

#include <boost_rdma/error.hpp>

#include <boost/asio/error.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace test {

/// Expected steps of a state machine, from `begin` to an end. check() runs them all, and then once
/// for each step with an error in its place.
///
/// A machine is copyable and has these members:
///  - std::string fail(error_code): passes an error to the machine as the result of the step that
///  it
///    waits for; returns the requested actions as text
///  - error_code result() const: the error with which the machine has ended
///  - std::string clean_up() const: the actions that an error must result in, as text
template <class Machine>
class step_script
{
public:
  /// An event, and the actions that it must result in, as text.
  struct step
  {
    std::string name;
    std::function<std::string(Machine&)> event;
    std::string actions;
  };

  step_script(Machine begin, std::vector<step> steps)
    : begin_(std::move(begin))
    , steps_(std::move(steps))
  {
  }

  /// Returns the machine after all steps without an error.
  Machine check() const
  {
    for (std::size_t failing = 0; failing != steps_.size(); ++failing)
      check_failure(failing);
    return run(steps_.size());
  }

private:
  Machine run(std::size_t count) const
  {
    Machine machine = begin_;
    for (std::size_t i = 0; i != count; ++i)
    {
      INFO("step " << i + 1 << ", " << steps_[i].name);
      CHECK(steps_[i].event(machine) == steps_[i].actions);
    }
    return machine;
  }

  void check_failure(std::size_t failing) const
  {
    INFO("an error instead of step " << failing + 1 << ", " << steps_[failing].name);
    const rdma::error_code injected = boost::asio::error::network_down;
    Machine machine = run(failing);
    const std::string clean_up = machine.clean_up();
    CHECK(machine.fail(injected) == clean_up);
    CHECK(machine.result() == injected);
    machine.fail(boost::asio::error::no_memory);
    CHECK(machine.result() == injected); // only the first error counts
  }

  const Machine begin_;
  const std::vector<step> steps_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_STEP_SCRIPT_HPP
