//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"

#include <boost_rdma/endpoint_description.hpp>

#include <random>
#include <string>
#include <vector>

namespace {

rdma::endpoint_description sample()
{
  rdma::endpoint_description d;
  d.kind = rdma::device_kind::nic;
  for (std::size_t i = 0; i < 16; ++i)
  {
    d.gid[i] = static_cast<std::uint8_t>(i * 16 + i);
    d.nonce[i] = static_cast<std::uint8_t>(255 - i);
  }
  d.lid = 65535;
  d.queue_pair_number = 0xffffff;
  d.packet_sequence_number = 0;
  d.path_mtu = 1024;
  d.read_atomic_depth = 255;
  d.wire = rdma::wire::roce_v2;
  d.timeout = 31;
  d.receive_depth = 0xffffff;
  d.send_depth = 0xffffff;
  d.retry_count = 7;
  d.rnr_retry_count = 6;
  d.min_rnr_timer = 31;
  d.features = ~std::uint64_t{1};
  d.device = std::string(rdma::endpoint_description::device_name_max, 'x');
  return d;
}

bool malformed(const std::string& text)
{
  rdma::error_code ec;
  const rdma::endpoint_description d = rdma::endpoint_description::parse(text, ec);
  return ec == rdma::error::malformed_description && d == rdma::endpoint_description();
}

// Returns `text` with the value of `field` replaced.
std::string with(std::string text, const std::string& field, const std::string& value)
{
  const std::size_t at = text.find(field + "=") + field.size() + 1;
  return text.replace(at, text.find(';', at) - at, value);
}

} // namespace

TEST_CASE("an endpoint description survives text and parse")
{
  const rdma::endpoint_description d = sample();
  const std::string text = d.text();
  CHECK(text.size() <= rdma::endpoint_description::text_size_max);
  for (char c : text)
    CHECK((c > ' ' && c < 127));
  CHECK(rdma::endpoint_description::parse(text) == d);

  rdma::endpoint_description software = d;
  software.kind = rdma::device_kind::software;
  CHECK(rdma::endpoint_description::parse(software.text()) == software);
}

TEST_CASE("parse skips fields of later versions at any position")
{
  const std::string text = sample().text();
  CHECK(rdma::endpoint_description::parse("future=1;" + text) == sample());
  CHECK(rdma::endpoint_description::parse(text + ";future=a=b;other=") == sample());
}

TEST_CASE("parse accepts fields in any order")
{
  std::string text = sample().text();
  const std::size_t cut = text.find("lid=");
  CHECK(rdma::endpoint_description::parse(text.substr(cut) + ";" + text.substr(0, cut - 1))
    == sample());
}

TEST_CASE("parse fails with malformed_description when a value is out of range")
{
  const std::string text = sample().text();
  const std::pair<const char*, std::vector<const char*>> bad[] = {
    {"v", {"0", "2", "", "one", "1 "}},
    {"device", {"", "NIC", "hardware", "nic "}},
    {"gid",
      {"", "00", "00112233445566778899aabbccddeeff0", "00112233445566778899aabbccddeef",
        "g0112233445566778899aabbccddeeff"}},
    {"lid", {"", "-1", "65536", "0x1", "+1", "1.0", "99999999999999999999"}},
    {"qpn", {"16777216", "-1", ""}},
    {"psn", {"16777216", "4294967296", ""}},
    {"mtu", {"0", "128", "255", "257", "1500", "8192", "4097"}},
    {"reads", {"256", "-1", ""}},
    {"nonce", {"", "ff", "zz112233445566778899aabbccddeeff"}},
    {"timeout", {"", "32", "-1"}},
    {"receives", {"", "16777216"}},
    {"sends", {"", "16777216"}},
    {"retries", {"", "8", "-1"}},
    {"rnr-retries", {"", "8"}},
    {"rnr-timer", {"", "32"}},
    {"features", {"", "-1", "0x1", "10000000000000000", "g"}},
    {"name", {"", "a b", "rxe0\"", "\x7f", "../rxe0"}},
  };
  for (const auto& [field, values] : bad)
    for (const char* value : values)
    {
      CAPTURE(field, value);
      CHECK(malformed(with(text, field, value)));
    }
}

TEST_CASE("parse fails with malformed_description when a field is missing or repeated")
{
  const std::string text = sample().text();
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= text.size();)
  {
    const std::size_t end = std::min(text.find(';', at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  constexpr std::size_t required = 9; // later versions added the rest
  REQUIRE(fields.size() == 18);
  for (std::size_t left_out = 0; left_out < fields.size(); ++left_out)
  {
    std::string shorter;
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (i != left_out)
        shorter += (shorter.empty() ? "" : ";") + fields[i];
    CAPTURE(shorter);
    CHECK(malformed(shorter) == (left_out < required));
    CHECK(malformed(text + ";" + fields[left_out]));
  }
}

TEST_CASE("parse leaves the wire unknown when the field is missing or names a later wire")
{
  rdma::endpoint_description d = sample();
  const std::string text = d.text();
  d.wire = rdma::wire::unknown;
  CHECK(rdma::endpoint_description::parse(with(text, "wire", "carrier-pigeon")) == d);
  const rdma::endpoint_description unsaid;
  d.timeout = unsaid.timeout;
  d.receive_depth = unsaid.receive_depth;
  d.send_depth = unsaid.send_depth;
  d.retry_count = unsaid.retry_count;
  d.rnr_retry_count = unsaid.rnr_retry_count;
  d.min_rnr_timer = unsaid.min_rnr_timer;
  d.features = unsaid.features;
  d.device.clear();
  CHECK(rdma::endpoint_description::parse(text.substr(0, text.find(";wire="))) == d);
}

TEST_CASE("parse fails with malformed_description when the text is not a description")
{
  for (const char* text : {"", ";", "=", "v", "v=1", "hello", "v=1;;", "\n", "v=1;device=nic"})
    CHECK(malformed(text));
  CHECK(malformed(sample().text() + ";junk"));
  CHECK(malformed(
    sample().text() + ";x=" + std::string(rdma::endpoint_description::text_size_max, 'x')));
  CHECK(malformed(std::string(1u << 20, ';')));
  CHECK(malformed(sample().text() + std::string(1, '\0')));
  CHECK_THROWS_AS(rdma::endpoint_description::parse("nonsense"), rdma::system_error);
}

TEST_CASE("parse fails and reads no byte past the end when a description is truncated")
{
  // These fields may be missing, and parse then uses defaults.
  rdma::endpoint_description earliest = sample();
  earliest.wire = rdma::wire::unknown;
  earliest.receive_depth = 0;
  earliest.device.clear();
  const std::string all = earliest.text();
  const std::string text = all.substr(0, all.find(";timeout="));
  for (std::size_t n = 0; n < text.size(); ++n)
  {
    const std::vector<char> exact(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
    rdma::error_code ec;
    (void)rdma::endpoint_description::parse({exact.data(), exact.size()}, ec);
    CHECK(ec == rdma::error::malformed_description);
  }
}

TEST_CASE(
  "parse refuses a randomly changed description or returns values that survive text and parse")
{
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string text = sample().text();
  for (int i = 0; i < 20'000; ++i)
  {
    std::string mutated = text;
    for (unsigned k = 1 + random() % 4; k != 0; --k)
    {
      const std::size_t at = random() % mutated.size();
      switch (random() % 4)
      {
      case 0:
        mutated[at] = static_cast<char>(random());
        break;
      case 1:
        mutated.erase(at, 1 + random() % 5);
        break;
      case 2:
        mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 20));
        break;
      default:
        std::swap(mutated[at], mutated[random() % mutated.size()]);
      }
      if (mutated.empty())
        mutated = ";";
    }
    rdma::error_code ec;
    const auto d = rdma::endpoint_description::parse(mutated, ec);
    if (ec)
    {
      REQUIRE(d == rdma::endpoint_description());
      continue;
    }
    REQUIRE(d.queue_pair_number <= 0xffffff);
    REQUIRE(d.packet_sequence_number <= 0xffffff);
    REQUIRE(d.path_mtu >= 256);
    REQUIRE(d.path_mtu <= 4096);
    REQUIRE(rdma::endpoint_description::parse(d.text()) == d);
  }
}
