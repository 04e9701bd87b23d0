//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_COMMON_REPORT_HPP
#define BOOST_RDMA_EXAMPLE_COMMON_REPORT_HPP

#include <boost_rdma/error.hpp>

#include <boost/asio/multiple_exceptions.hpp>

#include <exception>
#include <iostream>
#include <string>
#include <string_view>

namespace example {

/// Returns the error's message with its likely cause and remedy.
inline std::string explain(const rdma::error_code& ec)
{
  std::string text = ec.message();
  if (const std::string cause = rdma::likely_cause(ec); !cause.empty())
    text += "\n  " + cause;
  return text;
}

inline void complain(std::string_view what, const rdma::error_code& ec)
{
  std::cerr << "error: " << what << ": " << explain(ec) << '\n';
}

/// Prints an exception and, for library errors, its likely cause.
inline void complain(const std::exception& failure)
{
  std::cerr << "error: " << failure.what() << '\n';
  if (const auto* system = dynamic_cast<const rdma::system_error*>(&failure))
    if (const std::string cause = rdma::likely_cause(system->code()); !cause.empty())
      std::cerr << "  " << cause << '\n';
}

/// As above, for the result of a coroutine. Prints nothing on success.
inline void complain(const std::exception_ptr& failure)
{
  try
  {
    if (failure)
      std::rethrow_exception(failure);
  }
  catch (const boost::asio::multiple_exceptions& thrown) // thrown by `a && b`
  {
    complain(thrown.first_exception());
  }
  catch (const std::exception& thrown)
  {
    complain(thrown);
  }
}

} // namespace example

#endif // BOOST_RDMA_EXAMPLE_COMMON_REPORT_HPP
