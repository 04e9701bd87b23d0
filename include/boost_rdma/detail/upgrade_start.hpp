//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_UPGRADE_START_HPP
#define BOOST_RDMA_DETAIL_UPGRADE_START_HPP

#include <boost_rdma/connect_options.hpp>
#include <boost_rdma/detail/control_stream.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/mapped_handler.hpp>
#include <boost_rdma/detail/user_stream.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/protection_domain.hpp>
#include <boost_rdma/upgrade_options.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace rdma::detail {

class queue_pair_core;

// Returns true if the request has Connection: upgrade, and boost-rdma in any version among the
// protocols of Upgrade.
bool asks_for_upgrade(const boost::beast::http::request_header<>& request);

// Returns the data of the client's program; sets error::malformed_description.
std::string data_of_upgrade(const boost::beast::http::request_header<>& request, error_code& ec);

// A stream for the connection service of its executor's context; or null and the reason.
struct upgradable_stream
{
  boost::asio::any_io_executor executor; // the stream's
  std::unique_ptr<control_stream> stream;
  error_code ec;
};

upgradable_stream make_upgradable(
  const boost::asio::any_io_executor& executor, std::unique_ptr<user_stream> stream);

template <class Stream>
upgradable_stream make_upgradable(Stream stream)
{
  const boost::asio::any_io_executor executor = stream.get_executor();
  return make_upgradable(executor, std::make_unique<basic_user_stream<Stream>>(std::move(stream)));
}

// Copies a request. Beast's copy constructor (Boost 1.81) leaks what it has copied if there is no
// memory for the rest.
template <class Allocator>
boost::beast::http::request_header<> copy_of_request(
  const boost::beast::http::request_header<boost::beast::http::basic_fields<Allocator>>& request)
{
  boost::beast::http::request_header<> result;
  if constexpr (std::is_same_v<Allocator, std::allocator<char>>)
    result = request;
  else
    result = boost::beast::http::request_header<>(request);
  return result;
}

// The answer of the server's program.
struct upgrade_answer
{
  boost::asio::any_io_executor inner; // the stream's executor; the inner one if it is a strand
  bool same_context;                  // true if the stream's executor is not a strand
  protection_domain domain;
  boost::beast::http::request_header<> request;
  upgrade_options options;
};

void start_upgrade(upgradable_stream stream, upgrade_answer answer,
  boost::asio::any_completion_handler<void(error_code, std::shared_ptr<queue_pair_core>)> handler);

// `executor` is that of the queue pair. `core` is null if the queue pair was moved from.
void start_upgrade(const boost::asio::any_io_executor& executor,
  std::shared_ptr<queue_pair_core> core, upgradable_stream stream, const connect_options& options,
  boost::asio::any_completion_handler<void(error_code)> handler);

template <class QueuePair, class Executor, class Handler, class Stream>
void start_server_upgrade(const Executor& executor, Handler&& handler, Stream stream,
  boost::beast::http::request_header<> request, const protection_domain& domain,
  const upgrade_options& options)
{
  const auto inner = inner_executor(executor);
  const bool same_context = inner == boost::asio::any_io_executor(executor);
  start_upgrade(make_upgradable(std::move(stream)),
    upgrade_answer{inner, same_context, domain, std::move(request), options},
    handler_of_object<QueuePair>(executor, std::forward<Handler>(handler)));
}

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_UPGRADE_START_HPP
