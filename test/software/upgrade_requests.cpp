//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "software/upgrade_fixture.hpp"

#include <boost_rdma/upgrade.hpp>

#include <boost/asio/recycling_allocator.hpp>
#include <boost/beast/http.hpp>

#include <optional>
#include <string>
#include <thread>

// Tests HTTP requests and responses of an upgrade.

using namespace test;

TEST_CASE("async_connect reports the refusal of a program and the answer of a web server")
{
  const bool by_us = GENERATE(true, false);
  web_site<plain> site;
  site.decide = [&](const auto&) -> std::optional<http::response<http::string_body>>
  {
    if (by_us)
      return rdma::refuse_upgrade();
    http::response<http::string_body> answer(http::status::forbidden, 11, "no");
    answer.prepare_payload();
    return answer;
  };
  plain_record connected;
  site.serve();
  site.client.async_connect(site.listener.local_endpoint(), connected.handler());
  REQUIRE(run_until(site.io, [&] { return connected.done(); }));
  CHECK(connected.ec == (by_us ? error::refused : error::not_an_acceptor));
  CHECK((site.client.diagnose().reason.find("not authorised") != std::string::npos) == by_us);
}

TEST_CASE("refuse_upgrade makes a closing response with an error status and a one-line reason")
{
  const auto refusal = rdma::refuse_upgrade(http::status::service_unavailable, "full,\r\nsorry");
  CHECK(refusal.result() == http::status::service_unavailable);
  CHECK(refusal[http::field::upgrade] == "boost-rdma/1");
  CHECK(refusal["Rdma-Reason"] == "full,??sorry");
  CHECK_FALSE(refusal.keep_alive());
  CHECK(refusal.has_content_length());
  CHECK(rdma::refuse_upgrade().result() == http::status::forbidden);
  for (const http::status none :
    {http::status::ok, http::status::switching_protocols, http::status(600), http::status(0)})
    CHECK(rdma::refuse_upgrade(none, "why").result() == http::status::internal_server_error);
}

TEST_CASE("upgrade_data returns the data of a request or fails with malformed_description")
{
  http::request<http::empty_body> request(http::verb::get, "/rdma", 11);
  error_code ec = error::refused;
  CHECK(rdma::upgrade_data(request, ec).empty());
  CHECK(!ec);
  request.set("Rdma-Data", "68656C6c6f");
  CHECK(rdma::upgrade_data(request, ec) == "hello");
  CHECK(!ec);
  CHECK(rdma::upgrade_data(
    http::request<http::empty_body, http::basic_fields<asio::recycling_allocator<char>>>(), ec)
          .empty());
  for (const std::string& bad :
    {std::string("6"), std::string("hello"), std::string(2 * 1024 + 2, '0')})
  {
    request.set("Rdma-Data", bad);
    CHECK(rdma::upgrade_data(request, ec).empty());
    CHECK(ec == error::malformed_description);
  }
  request.set("Rdma-Data", "68");
  request.insert("Rdma-Data", "69");
  CHECK_THROWS_AS(rdma::upgrade_data(request), rdma::system_error);
}

TEST_CASE("async_upgrade of a server refuses a request of another version")
{
  web_site<plain> site;
  site.serve();
  plain_peer client = plain_peer::connect(site.io, site.listener.local_endpoint());
  client.send("GET /rdma HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "
              "boost-rdma/9\r\n\r\n");
  std::string header;
  std::jthread reader(
    [&]
    {
      header = client.read_header();
      client.finish_sending();
    });
  REQUIRE(run_until(site.io, [&] { return site.accepts == 1; }));
  CHECK(site.accepted == error::refused);
  CHECK(!site.peer->is_open());
  reader.join();
  CHECK(header.find("HTTP/1.1 426 ") == 0);
  CHECK(header.find("Upgrade: boost-rdma/1") != std::string::npos);
}

TEST_CASE("async_upgrade of a server fails with invalid_argument when its data is too large")
{
  web_site<plain> site;
  site.options.data.assign(rdma::connect_options::data_size_max + 1, 'x');
  plain_record connected;
  site.serve();
  site.upgrade(connected);
  REQUIRE(run_until(site.io, [&] { return connected.done() && site.accepts == 1; }));
  CHECK(site.accepted == asio::error::invalid_argument);
  CHECK(connected.ec == error::peer_lost);
}

TEST_CASE("async_upgrade fails when the queue pair is of another execution context than the stream")
{
  web_site<plain> site;
  asio::io_context other;
  rdma::queue_pair client(other, site.client_context);
  plain_record connected;
  rdma::async_upgrade(tcp::socket(site.io), client, {}, connected.handler());
  REQUIRE(run_until(other, [&] { return connected.done(); }));
  CHECK(connected.ec == asio::error::invalid_argument);
}

TEST_CASE("is_upgrade recognises requests for RDMA")
{
  const auto asks = [](unsigned version, std::string_view connection, std::string_view upgrade)
  {
    http::request<http::empty_body> request(http::verb::get, "/", version);
    request.set(http::field::connection, beast::string_view(connection.data(), connection.size()));
    if (!upgrade.empty())
      request.set(http::field::upgrade, beast::string_view(upgrade.data(), upgrade.size()));
    return rdma::is_upgrade(request);
  };
  CHECK(asks(11, "Upgrade", "boost-rdma/1"));
  CHECK(asks(11, "keep-alive, upgrade", "websocket, Boost-RDMA/2"));
  CHECK(!asks(10, "Upgrade", "boost-rdma/1"));
  CHECK(!asks(11, "keep-alive", "boost-rdma/1"));
  CHECK(!asks(11, "Upgrade", "websocket"));
  CHECK(!asks(11, "Upgrade", "boost-rdmax/1"));
  CHECK(!asks(11, "Upgrade", ""));
}
