//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include "info/print.hpp"

#include <sstream>

// Tests the output. A ctest test of the program itself checks the structure of the JSON.

namespace {

std::string text_of(const info::report& what)
{
  std::ostringstream to;
  info::print_text(to, what);
  return to.str();
}

std::string json_of(const info::report& what)
{
  std::ostringstream to;
  info::print_json(to, what);
  return to.str();
}

bool has(const std::string& text, const std::string& part)
{
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a device is printed with its port and GIDs as text and as JSON")
{
  test::fake_tree tree;
  tree.add_nic();
  const info::machine on = tree.machine();
  info::report what;
  what.looked_at = &on;
  const std::string text = text_of(what);
  CAPTURE(text);
  CHECK(has(text, "mlx5_0"));
  CHECK(has(text, "active (LinkUp), Ethernet, 100 Gb/sec (4X EDR), eth0, interface's 9000"));
  CHECK(has(text, "GID 3         RoCE v2, 10.0.0.1, eth0"));
  const std::string json = json_of(what);
  CAPTURE(json);
  CHECK(has(json, R"("name":"mlx5_0")"));
  CHECK(has(json,
    R"({"index":3,"type":"RoCE v2","gid":"0000:0000:0000:0000:0000:ffff:0a00:0001",)"
    R"("address":"10.0.0.1","interface":"eth0"})"));
  CHECK(has(json, R"("active_mtu":null)")); // known only for an opened device
}

TEST_CASE("the brief report prints only stops and slowdowns and the number of other findings")
{
  info::report what;
  what.doctor.emplace();
  what.doctor->push_back({"a", {info::level::slows, "slow thing", "because", "command"}});
  what.doctor->push_back({"b", {info::level::note, "small thing", "because", ""}});
  what.doctor->push_back({"c", {info::level::ok, "good thing", "", ""}});
  const std::string all = text_of(what);
  CHECK(has(all, "small thing"));
  what.briefly = true;
  const std::string brief = text_of(what);
  CAPTURE(brief);
  CHECK(has(brief, "a: slow thing"));
  CHECK(has(brief, "remedy        command"));
  CHECK_FALSE(has(brief, "small thing"));
  CHECK(has(brief, "2 other findings"));
  what.doctor->erase(what.doctor->begin());
  CHECK(has(text_of(what), "Nothing that would stop RDMA or slow it down was found. 2 findings"));
}

TEST_CASE("long texts wrap within their column")
{
  info::report what;
  what.doctor.emplace();
  std::string seen;
  for (int i = 0; i < 40; ++i)
    seen += "word" + std::to_string(i) + ' ';
  seen += "end";
  what.doctor->push_back({"x", {info::level::note, seen, "", ""}});
  std::istringstream lines(text_of(what));
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(line.starts_with("note              x: word0 word1"));
  int more = 0;
  for (; std::getline(lines, line); ++more)
  {
    CHECK(line.size() <= 110);
    CHECK(line.find_first_not_of(' ') == 18);
  }
  CHECK(more >= 2);
}
