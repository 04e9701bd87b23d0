//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/upgrade.hpp"
#include "common/catch.hpp"
#include "connect/control_frame.hpp"
#include "connect/log.hpp"
#include "connect/upgrade.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace http = boost::beast::http;
using rdma::error;
using rdma::error_code;
using namespace rdma::detail;

rdma::endpoint_description example()
{
  rdma::endpoint_description endpoint;
  endpoint.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
  endpoint.lid = 4711;
  endpoint.queue_pair_number = 0x1234;
  endpoint.packet_sequence_number = 0xabcdef;
  endpoint.path_mtu = 4096;
  endpoint.read_atomic_depth = 16;
  endpoint.nonce = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  return endpoint;
}

// Parses a header from text as the server or the client reads it.
template <bool is_request>
http::header<is_request> parse(const std::string& text, error_code& ec)
{
  http::parser<is_request, http::empty_body> parser;
  parser.header_limit(upgrade_header_size_max);
  parser.eager(false);
  parser.put(boost::asio::buffer(text), ec);
  if (!ec && !parser.is_header_done())
    ec = http::error::need_more;
  return parser.get().base();
}

http::header<true> request_of(const std::string& text)
{
  error_code ec;
  auto header = parse<true>(text, ec);
  INFO(text);
  REQUIRE(!ec);
  return header;
}

std::string request_text(const std::string& upgrade = "boost-rdma/1",
  const std::string& connection = "Upgrade", const std::string& start = "GET /rdma HTTP/1.1",
  const std::string& more = {})
{
  return start + "\r\nHost: h\r\nConnection: " + connection + "\r\nUpgrade: " + upgrade
    + "\r\nRdma-Endpoint: " + example().text() + "\r\n" + more + "\r\n";
}

handshake_parameters introduce()
{
  handshake_parameters self;
  self.endpoints = {example(), example()};
  self.endpoints[1].kind = rdma::device_kind::nic;
  self.endpoints[1].wire = rdma::wire::roce_v2;
  self.endpoints[1].device = "mlx5_0";
  self.falls_back = true;
  self.confirms = false;
  self.heartbeat_limit = std::chrono::milliseconds(5'000);
  self.declined = {{"RoCE v1 on rxe0", "no such GID (the device's are 10.0.0.1)"}};
  self.data = std::string("any\0thing\xff", 10);
  return self;
}

std::string request_of(const handshake_parameters& self, const rdma::connect_options& options = {})
{
  error_code ec;
  const std::string text = text_of(make_upgrade_request("h", options, self, ec));
  REQUIRE(!ec);
  return text;
}

http::status status_for(const std::string& text)
{
  return judge_upgrade(request_of(text), upgrade_target).status;
}

error_code answer_error(const std::string& text)
{
  error_code ec;
  const auto header = parse<false>(text, ec);
  INFO(text);
  REQUIRE(!ec);
  judge_answer(header, ec);
  return ec;
}

} // namespace

TEST_CASE("an upgrade request carries all handshake parameters of the client")
{
  const upgrade_verdict verdict =
    judge_upgrade(request_of(request_of(introduce())), upgrade_target);
  CHECK(verdict.accepted());
  CHECK(verdict.client == introduce());
}

TEST_CASE("an upgrade answer carries all handshake parameters of the server")
{
  handshake_parameters server = introduce();
  server.endpoints.pop_back();
  error_code ec;
  const auto header = parse<false>(text_of(make_upgrade_response(server)), ec);
  REQUIRE(!ec);
  CHECK(judge_answer(header, ec) == server);
  CHECK(!ec);

  server.endpoints.clear();
  server.software_next = true;
  const auto later = parse<false>(text_of(make_upgrade_response(server)), ec);
  CHECK(judge_answer(later, ec) == server);
  CHECK(!ec);
}

TEST_CASE(
  "make_upgrade_request accepts the client's target, host and fields but refuses invalid ones")
{
  rdma::connect_options options;
  options.target = "/deep/down?token=1";
  options.host = "rdma.example";
  options.fields = {{"Authorization", "Bearer abc"}, {"X-More", ""}};
  const auto header = request_of(request_of(introduce(), options));
  CHECK(header.target() == "/deep/down?token=1");
  CHECK(header[http::field::host] == "rdma.example");
  CHECK(header[http::field::authorization] == "Bearer abc");
  CHECK(judge_upgrade(header, "/deep/down").accepted());
  CHECK(judge_upgrade(header, "/deep").status == http::status::not_found);
  CHECK(judge_upgrade(header, {}).accepted());

  const auto invalid = [](auto change)
  {
    rdma::connect_options bad;
    change(bad);
    error_code ec;
    make_upgrade_request("h", bad, introduce(), ec);
    return ec == boost::asio::error::invalid_argument;
  };
  for (const char* target : {"", "rdma", "/a b", "/a\r\nX:y"})
    CHECK(invalid([&](auto& o) { o.target = target; }));
  CHECK(invalid([](auto& o) { o.host = "a\nb"; }));
  for (const char* name :
    {"", "a b", "a:", "Host", "upgrade", "Content-Length", "Rdma-Endpoint", "a\r\n"})
    CHECK(invalid([&](auto& o) { o.fields = {{name, "x"}}; }));
  CHECK(invalid([](auto& o) { o.fields = {{"X", "a\r\nY: b"}}; }));
  CHECK(invalid([](auto& o) { o.fields = {{"X", std::string(upgrade_header_size_max, 'x')}}; }));
  CHECK(
    invalid([](auto& o) { o.data = std::string(rdma::connect_options::data_size_max + 1, 'x'); }));
  CHECK(
    !invalid([](auto& o) { o.data = std::string(rdma::connect_options::data_size_max, '\0'); }));
}

TEST_CASE("judge_upgrade refuses handshake parameters that are out of range or too many")
{
  const auto with = [](const std::string& fields)
  { return status_for(request_text("boost-rdma/1", "Upgrade", "GET /rdma HTTP/1.1", fields)); };
  const auto good = http::status::switching_protocols;
  const auto bad = http::status::bad_request;
  const std::string endpoint = "Rdma-Endpoint: " + example().text() + "\r\n";
  CHECK(with(endpoint + endpoint + endpoint) == good);
  CHECK(with(endpoint + endpoint + endpoint + endpoint) == bad); // one too many
  for (const char* parameters : {"", "heartbeat=0", "heartbeat=100", "heartbeat=3600000;later=x",
         "fall-back=1", "fall-back=0;heartbeat=5000", "confirm=0", "confirm=1"})
    CHECK(with("Rdma-Parameters: " + std::string(parameters) + "\r\n") == good);
  for (const char* parameters : {"x", "heartbeat=", "heartbeat=99", "heartbeat=3600001",
         "heartbeat=-1", "heartbeat=1e3", "heartbeat=500x", "heartbeat=500;heartbeat=500",
         "fall-back=2", "fall-back=1;fall-back=1", "confirm=2", "confirm=", "confirm=0;confirm=0"})
    CHECK(with("Rdma-Parameters: " + std::string(parameters) + "\r\n") == bad);
  CHECK(with("Rdma-Parameters: fall-back=1\r\nRdma-Parameters: fall-back=1\r\n") == bad);
  CHECK(with("Rdma-Parameters: later=" + std::string(500, 'x') + "\r\n") == good);
  CHECK(with("Rdma-Parameters: later=" + std::string(600, 'x') + "\r\n") == bad);
  CHECK(with("Rdma-Data: 00ff\r\n") == good);
  CHECK(with("Rdma-Data: 00f\r\n") == bad);
  CHECK(with("Rdma-Data: xx\r\n") == bad);
  CHECK(with("Rdma-Data: " + std::string(2 * 1024 + 2, '0') + "\r\n") == bad);
  CHECK(with("Rdma-Declined: RoCE: why\r\n") == good);
  CHECK(with("Rdma-Declined: nothing\r\n") == bad);
  CHECK(with("Rdma-Declined: a: " + std::string(300, 'x') + "\r\n") == bad);
  std::string many;
  for (int i = 0; i < 9; ++i)
    many += "Rdma-Declined: a: b\r\n";
  CHECK(with(many) == bad);
}

TEST_CASE("declined reasons are sanitised and truncated to fit into a header line")
{
  handshake_parameters self = introduce();
  self.declined = {{"x", "two\r\nlines\xc3\xa4" + std::string(1000, 'x')}};
  const upgrade_verdict verdict = judge_upgrade(request_of(request_of(self)), upgrade_target);
  REQUIRE(verdict.accepted());
  REQUIRE(verdict.client.declined.size() == 1);
  CHECK(verdict.client.declined[0].reason.substr(0, 12) == "two??lines??");
  self.declined.assign(20, {"a", "b"});
  CHECK(judge_upgrade(request_of(request_of(self)), upgrade_target).client.declined.size()
    == handshake_parameters::declined_max);
}

TEST_CASE("judge_upgrade accepts fields, options and protocols of later versions")
{
  CHECK(
    status_for(request_text("boost-rdma/2, boost-rdma/1")) == http::status::switching_protocols);
  CHECK(status_for(request_text("h2c , BOOST-RDMA/1,")) == http::status::switching_protocols);
  CHECK(status_for(request_text("boost-rdma/1", "keep-alive, upgrade"))
    == http::status::switching_protocols);
  CHECK(status_for(request_text("boost-rdma/1", "Upgrade", "GET /rdma?x=1 HTTP/1.1"))
    == http::status::switching_protocols);
  CHECK(
    status_for(request_text("boost-rdma/1", "Upgrade", "GET /rdma HTTP/1.1", "Rdma-Later: x\r\n"))
    == http::status::switching_protocols);
  std::string text = request_text();
  text.replace(text.find("v=1;"), 4, "later=x;v=1;");
  CHECK(status_for(text) == http::status::switching_protocols);
}

TEST_CASE("judge_upgrade answers 426 Upgrade Required to a request without an upgrade")
{
  CHECK(status_for("GET / HTTP/1.1\r\nHost: h\r\n\r\n") == http::status::upgrade_required);
  CHECK(status_for(request_text("websocket")) == http::status::upgrade_required);
  CHECK(status_for(request_text("boost-rdma/1", "close")) == http::status::upgrade_required);
  CHECK(status_for(request_text("boost-rdma/1", "Upgrade", "GET /rdma HTTP/1.0"))
    == http::status::upgrade_required);
  CHECK(status_for(request_text("boost-rdma/2")) == http::status::upgrade_required);
  CHECK(status_for(request_text("boost-rdma/11")) == http::status::upgrade_required);

  const auto answer = make_upgrade_refusal(http::status::upgrade_required, "why");
  CHECK(answer[http::field::upgrade] == "boost-rdma/1");
}

TEST_CASE("a refusal has an error status and a reason of one line")
{
  CHECK(make_upgrade_refusal(http::status::conflict, "a\r\nX: \x7f")["Rdma-Reason"] == "a??X: ?");
  for (const unsigned status : {101u, 200u, 399u, 600u})
    CHECK(rdma::refuse_upgrade(static_cast<http::status>(status), "why").result()
      == http::status::internal_server_error);
  for (const http::status status : {http::status::bad_request, http::status{599}})
    CHECK(rdma::refuse_upgrade(status, "why").result() == status);
}

TEST_CASE("judge_upgrade answers a malformed request with the status of its fault")
{
  CHECK(status_for(request_text("boost-rdma/1", "Upgrade", "POST /rdma HTTP/1.1"))
    == http::status::method_not_allowed);
  CHECK(status_for(request_text("boost-rdma/1", "Upgrade", "GET /rdmax HTTP/1.1"))
    == http::status::not_found);
  CHECK(status_for(
          request_text("boost-rdma/1", "Upgrade", "GET /rdma HTTP/1.1", "Content-Length: 3\r\n"))
    == http::status::bad_request);
  CHECK(status_for(request_text(
          "boost-rdma/1", "Upgrade", "GET /rdma HTTP/1.1", "Transfer-Encoding: chunked\r\n"))
    == http::status::bad_request);
  CHECK(status_for("GET /rdma HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: boost-rdma/1\r\n\r\n")
    == http::status::bad_request);
  CHECK(status_for("GET /rdma HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: boost-rdma/1\r\n"
                   "Rdma-Endpoint: v=1;nonsense\r\n\r\n")
    == http::status::bad_request);
}

TEST_CASE("status_of_unreadable returns the status for the parse error")
{
  error_code ec;
  parse<true>(
    "GET /rdma HTTP/1.1\r\nX: " + std::string(upgrade_header_size_max, 'x') + "\r\n\r\n", ec);
  CHECK(status_of_unreadable(ec) == http::status::request_header_fields_too_large);
  ec = {};
  parse<true>("\x16\x03\x01 this is TLS, not HTTP\r\n\r\n", ec);
  CHECK(status_of_unreadable(ec) == http::status::bad_request);
}

TEST_CASE("limit_header limits the whole header but keeps an earlier error")
{
  error_code ec;
  limit_header(upgrade_header_size_max, ec);
  CHECK(!ec);
  limit_header(upgrade_header_size_max + 1, ec);
  CHECK(status_of_unreadable(ec) == http::status::request_header_fields_too_large);
  ec = http::error::bad_method;
  limit_header(upgrade_header_size_max + 1, ec);
  CHECK(ec == http::error::bad_method);
}

TEST_CASE("judge_answer distinguishes an acceptor's refusal from answers of other servers")
{
  const auto refusal = [](http::status status)
  { return text_of(make_upgrade_refusal(status, "why")); };
  CHECK(answer_error(refusal(http::status::conflict)) == error::no_common_transport);
  CHECK(answer_error(refusal(http::status::service_unavailable)) == error::refused);
  CHECK(answer_error(refusal(http::status::bad_request)) == error::refused);
  CHECK(answer_error("HTTP/1.1 426 Upgrade Required\r\nUpgrade: boost-rdma/2\r\n\r\n")
    == error::version_mismatch);
  CHECK(answer_error("HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.0\r\n\r\n")
    == error::not_an_acceptor);
  CHECK(answer_error("HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n") == error::not_an_acceptor);
  CHECK(answer_error("HTTP/1.1 404 Not Found\r\n\r\n") == error::not_an_acceptor);
  CHECK(answer_error(
          "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    == error::not_an_acceptor);
}

TEST_CASE("judge_answer refuses an answer that lacks a field or selects an unrequested protocol")
{
  const std::string start = "HTTP/1.1 101 Switching Protocols\r\n";
  const std::string endpoint = "Rdma-Endpoint: " + example().text() + "\r\n";
  CHECK(answer_error(start + "Connection: Upgrade\r\nUpgrade: boost-rdma/2\r\n" + endpoint + "\r\n")
    == error::version_mismatch);
  CHECK(answer_error(start + "Connection: Upgrade\r\nUpgrade: boost-rdma/1, boost-rdma/2\r\n"
          + endpoint + "\r\n")
    == error::version_mismatch);
  CHECK(answer_error("HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                     "Upgrade: boost-rdma/1\r\n"
          + endpoint + "\r\n")
    == error::not_an_acceptor);
  CHECK(answer_error(start + "Upgrade: boost-rdma/1\r\n" + endpoint + "\r\n")
    == error::not_an_acceptor);
  CHECK(answer_error(start + "Connection: Upgrade\r\nUpgrade: boost-rdma/1\r\n\r\n")
    == error::malformed_description);
  CHECK(answer_error(
          start + "Connection: Upgrade\r\nUpgrade: boost-rdma/1\r\n" + endpoint + endpoint + "\r\n")
    == error::malformed_description);
}

TEST_CASE("error_of_unreadable reports not_an_acceptor for garbage and peer_lost for a disconnect")
{
  CHECK(error_of_unreadable(http::error::end_of_stream) == error::peer_lost);
  CHECK(error_of_unreadable(http::error::partial_message) == error::peer_lost);
  CHECK(error_of_unreadable(boost::asio::error::connection_reset) == error::peer_lost);
  CHECK(error_of_unreadable(http::error::bad_version) == error::not_an_acceptor);
  CHECK(error_of_unreadable(http::error::header_limit) == error::not_an_acceptor);
  CHECK(error_of_unreadable(http::error::buffer_overflow) == error::not_an_acceptor);
  CHECK(error_of_unreadable(boost::asio::error::operation_aborted)
    == boost::asio::error::operation_aborted);
}

TEST_CASE("frame_reader reads frames regardless of how the bytes are split")
{
  // A frame of a later version with a payload, between frames of this version.
  const std::string text = encode_frame(frame_type::heartbeat)
    + std::string("\xc8\1\2\3\0\0\0\3abc", 11) + encode_frame(frame_type::unconfirmed, "why not")
    + encode_frame(frame_type::bye);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());

  for (std::size_t buffer = 1; buffer <= bytes.size(); ++buffer)
  {
    frame_reader reader;
    std::vector<int> types;
    std::string payloads;
    for (std::size_t at = 0; at < bytes.size(); at += buffer)
    {
      std::span<const std::uint8_t> input(bytes.data() + at, std::min(buffer, bytes.size() - at));
      while (reader.read(input) == frame_reader::result::frame)
      {
        types.push_back(reader.type());
        payloads += reader.payload() + '|';
      }
      CHECK(input.empty());
    }
    CHECK(types == std::vector<int>{2, 200, 4, 1});
    CHECK(payloads == "||why not||");
  }
}

TEST_CASE("frame_reader truncates a payload above the kept size and finds the next frame")
{
  std::string text = std::string("\5\0\0\0\0\0\x10\0", 8) + std::string(frame_payload_max, 'x');
  text += encode_frame(frame_type::heartbeat);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  std::span<const std::uint8_t> input(bytes);
  frame_reader reader;
  REQUIRE(reader.read(input) == frame_reader::result::frame);
  CHECK(reader.payload() == std::string(frame_payload_kept_max, 'x'));
  REQUIRE(reader.read(input) == frame_reader::result::frame);
  CHECK(reader.type() == static_cast<std::uint8_t>(frame_type::heartbeat));
  CHECK(reader.payload().empty());
}

TEST_CASE("frame_reader reports malformed permanently when a frame exceeds the size limit")
{
  const std::vector<std::uint8_t> bytes{1, 0, 0, 0, 0, 0, 0x10, 0x01, 1, 0, 0, 0, 0, 0, 0, 0};
  std::span<const std::uint8_t> input(bytes);
  frame_reader reader;
  CHECK(reader.read(input) == frame_reader::result::malformed);
  CHECK(reader.read(input) == frame_reader::result::malformed);
}

TEST_CASE("an example endpoint survives text and parse within the size limit")
{
  CHECK(rdma::endpoint_description::parse(example().text()) == example());
  CHECK(example().text().size() <= rdma::endpoint_description::text_size_max);
}

TEST_CASE("parse of a mutilated endpoint text fails or returns values that survive text and parse")
{
  const std::string good = example().text();
  std::mt19937 random(20260101);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 20000; ++round)
  {
    std::string text = good;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes)
    {
      const std::size_t at = below(text.size() + 1);
      switch (below(5))
      {
      case 0:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < text.size())
          text[at] = static_cast<char>(random());
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(40)));
        break;
      default:
        text.insert(at, below(2) == 0 ? ";" : "=");
        break;
      }
    }
    error_code ec;
    const auto read = rdma::endpoint_description::parse(text, ec);
    INFO(untrusted(text));
    if (ec)
      CHECK(ec == error::malformed_description);
    else
      CHECK(rdma::endpoint_description::parse(read.text()) == read);
  }
  error_code ec;
  rdma::endpoint_description::parse(std::string(100'000, ';'), ec);
  CHECK(ec == error::malformed_description);
}

TEST_CASE("untrusted quotes text of a peer, escapes control characters and truncates it")
{
  CHECK(untrusted("plain") == "\"plain\"");
  CHECK(untrusted("a\n\"b\"\x1b[31m") == "\"a\\x0a\\x22b\\x22\\x1b[31m\"");
  CHECK(untrusted(std::string(1000, 'x')).size() < 100);
  CHECK(untrusted(std::string(200, 'x'), untrusted_reason_size_max)
    == '"' + std::string(200, 'x') + '"');
  CHECK(untrusted(std::string(1000, 'x'), untrusted_reason_size_max).size() < 250);
}
