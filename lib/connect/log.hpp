//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_LOG_HPP
#define BOOST_RDMA_LIB_CONNECT_LOG_HPP

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace rdma::detail {

// What is worth a line goes to the logger that the program registered with spdlog as "boost_rdma". A
// program that registered none hears nothing: a library does not print by itself.
template <class... Args>
void log_line(
  spdlog::level::level_enum level, spdlog::format_string_t<Args...> format, Args&&... args)
{
  if (const std::shared_ptr<spdlog::logger> logger = spdlog::get("boost_rdma"))
    logger->log(level, format, std::forward<Args>(args)...);
}

// Text of a peer's as it may be shown: in quotes, without control characters, cut.
std::string untrusted(std::string_view text);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_LOG_HPP
