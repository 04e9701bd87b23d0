//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Requests and replies that are messages of protobuf. In two terminals:
//
//   rpc_protobuf serve --port 7471
//   rpc_protobuf connect 127.0.0.1 7471
//
// The codec is in rpc_protobuf/codec.hpp, and the messages in rpc_protobuf/library.proto.

#include "2_simple/rpc_protobuf/codec.hpp"
#include "common/command_line.hpp"
#include "common/run.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/client.hpp>
#include <boost_rdma/rpc/method.hpp>
#include <boost_rdma/rpc/server.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <library.pb.h>

#include <algorithm>
#include <iostream>
#include <stdexcept>

namespace asio = boost::asio;
namespace rpc = rdma::rpc;
using asio::use_awaitable;
using asio::ip::tcp;

using add = rpc::method<"add/1", library::Book, rpc::nothing>;
using find = rpc::method<"find/1", library::Search, library::Books>;
using stop = rpc::method<"stop/1", rpc::nothing, rpc::nothing>;

asio::awaitable<void> serve(const rdma::context& context, const tcp::endpoint& endpoint)
{
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer stopped(executor, asio::steady_timer::time_point::max());
  library::Books all;
  rpc::server server(executor, context, endpoint);
  server.handle<add>(
    [&all](const library::Book& book)
    {
      *all.add_book() = book;
      return rpc::nothing();
    });
  server.handle<find>(
    [&all](const library::Search& wanted)
    {
      library::Books result;
      for (const library::Book& each : all.book())
        if (std::ranges::find(each.authors(), wanted.author()) != each.authors().end())
          *result.add_book() = each;
      return result;
    });
  server.handle<stop>(
    [&stopped](rpc::nothing)
    {
      stopped.cancel();
      return rpc::nothing();
    });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;
  co_await stopped.async_wait(asio::as_tuple(use_awaitable));
  co_await server.async_shutdown(use_awaitable);
}

asio::awaitable<void> connect(const rdma::context& context, const tcp::endpoint& endpoint)
{
  rpc::client client(co_await asio::this_coro::executor, context);
  co_await client.async_connect(endpoint, use_awaitable);
  library::Book book;
  book.set_title("The Art of Computer Programming");
  book.add_authors("Knuth");
  book.set_year(1968);
  co_await client.async_call<add>(book, use_awaitable);
  book.set_title("Concrete Mathematics");
  book.add_authors("Graham");
  book.set_year(1989);
  co_await client.async_call<add>(book, use_awaitable);

  library::Search wanted;
  wanted.set_author("Graham");
  const library::Books found = co_await client.async_call<find>(wanted, use_awaitable);
  for (const library::Book& each : found.book())
    std::cout << each.title() << ", " << each.year() << '\n';
  if (found.book_size() != 1 || found.book(0).year() != 1989)
    throw std::logic_error("the server has found other books than expected");
  co_await client.async_call<stop>({}, use_awaitable);
}

int main(int argc, char** argv)
{
  const auto options =
    example::parse_command_line(argc, argv, "Requests and replies that are messages of protobuf");
  return example::run(
    [&options](const rdma::context& context) {
      return options.serve ? serve(context, options.endpoint) : connect(context, options.endpoint);
    });
}
