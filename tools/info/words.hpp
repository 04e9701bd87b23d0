//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_INFO_WORDS_HPP
#define BOOST_RDMA_TOOLS_INFO_WORDS_HPP

#include <boost_rdma/error.hpp>

#include <string>

namespace info {

/// Returns the text of a library exception, with the likely cause unless the text contains it.
inline std::string words_of(const rdma::system_error& e)
{
  std::string result = e.what();
  const std::string cause = rdma::likely_cause(e.code());
  if (!cause.empty() && result.find(cause) == std::string::npos)
    result += ". " + cause;
  return result;
}

} // namespace info

#endif // BOOST_RDMA_TOOLS_INFO_WORDS_HPP
