//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_LOG_HPP
#define BOOST_RDMA_LIB_CONNECT_LOG_HPP

#include <boost/asio/ip/tcp.hpp>

#include <spdlog/spdlog.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace rdma::detail {

// Logs to the logger that the program has registered with spdlog as "boost_rdma". There is no
// output without such a logger, or without memory for the line.
template <class... Args>
void log_line(
  spdlog::level::level_enum level, spdlog::format_string_t<Args...> format, Args&&... args) noexcept
try
{
  if (const std::shared_ptr<spdlog::logger> logger = spdlog::get("boost_rdma"))
    logger->log(level, format, std::forward<Args>(args)...);
}
catch (const std::bad_alloc&)
{
}

// Calls log(), which makes the texts of a line. Drops the line if there is no memory for them.
template <class Log>
void log_if_possible(Log log) noexcept
try
{
  log();
}
catch (const std::bad_alloc&)
{
}

// Returns text from a peer in a form that can be shown: in quotes, without control characters, and
// truncated. Reasons may be longer, because they contain sentences.
constexpr std::size_t untrusted_size_max = 80;
constexpr std::size_t untrusted_reason_size_max = 240; // handshake_parameters::declined_size_max
std::string untrusted(std::string_view text, std::size_t size_max = untrusted_size_max);

// Returns "192.0.2.7:7471" or "[2001:db8::7]:7471".
std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_CONNECT_LOG_HPP
