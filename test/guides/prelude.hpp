//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_GUIDES_PRELUDE_HPP
#define BOOST_RDMA_TEST_GUIDES_PRELUDE_HPP

// Declarations that every C++ block of the guides can use.

#include <boost_rdma.hpp>
#include <boost_rdma/upgrade.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

/// The parameters of the coroutine that contains a block.
#define BOOST_RDMA_GUIDE_NAMES                                                                     \
  [[maybe_unused]] asio::io_context &io, [[maybe_unused]] rdma::context &rdma,                     \
    [[maybe_unused]] rdma::queue_pair &peer, [[maybe_unused]] rdma::acceptor &acceptor,            \
    [[maybe_unused]] rdma::registered_buffer &buffer,                                              \
    [[maybe_unused]] rdma::remote_buffer &remote, [[maybe_unused]] boost::system::error_code &ec

#endif // BOOST_RDMA_TEST_GUIDES_PRELUDE_HPP
