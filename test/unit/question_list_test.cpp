//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/question_list.hpp"

#include "common/catch.hpp"
#include "common/in_child.hpp"

namespace test::asking {
namespace {

using boost::asio::ip::make_address;
using rdma::detail::question_list;

question_list::token_type token(int number)
{
  question_list::token_type result{};
  result[0] = std::byte(number & 255);
  result[1] = std::byte(number >> 8);
  return result;
}

} // namespace

TEST_CASE("a question is found by the client's address until its connection has arrived")
{
  question_list list;
  const auto client = make_address("192.0.2.1");
  CHECK_FALSE(list.contains(client));
  list.add(token(1), client);
  list.add(token(2), client);
  list.add(token(3), make_address("2001:db8::1"));
  CHECK(list.contains(client));
  CHECK(list.contains(make_address("::ffff:192.0.2.1")));
  CHECK(list.contains(make_address("2001:db8::1")));
  CHECK_FALSE(list.contains(make_address("192.0.2.2")));
  CHECK_FALSE(list.contains(make_address("2001:db8::2")));
  list.remove(token(1));
  CHECK(list.contains(client));
  list.remove(token(2));
  CHECK_FALSE(list.contains(client));
}

TEST_CASE("the list keeps the latest questions when there are too many")
{
  question_list list;
  list.add(token(0), make_address("192.0.2.1"));
  for (int i = 1; i <= 1024; ++i)
    list.add(token(i), make_address("192.0.2.2"));
  CHECK_FALSE(list.contains(make_address("192.0.2.1")));
  CHECK(list.contains(make_address("192.0.2.2")));
}

TEST_CASE("a child of fork() shares the list with its parent")
{
  question_list list;
  list.add(token(1), make_address("192.0.2.1"));
  CHECK(in_child(
          [&]
          {
            const bool found = list.contains(make_address("192.0.2.1"));
            list.remove(token(1));
            list.add(token(2), make_address("192.0.2.2"));
            return std::string(found ? "" : "not found");
          })
    == "");
  CHECK_FALSE(list.contains(make_address("192.0.2.1")));
  CHECK(list.contains(make_address("192.0.2.2")));
}

} // namespace test::asking
