//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/container_models.hpp"
#include "software/object_history.hpp"

#include <boost_rdma/error.hpp>
#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/objects/remote_map.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace test::objects_map_history {

// Tests that histories of maps of many processes are linearizable while the maps grow.

namespace {

using small_map = rdma::remote_map<std::uint64_t, std::uint64_t>;
using kind = map_model::kind;

constexpr std::uint64_t keys = 40;
constexpr std::uint64_t last_key = 1000; // inserted by the owner after the last growth

// Grows three times while the clients change the map.
struct growing_owner
{
  growing_owner(asio::io_context& io, const rdma::context& context)
    : map(io, context, rdma::map_options{.capacity = 16})
  {
    look();
  }

  [[nodiscard]] rdma::remote_buffer remote() const { return map.remote(); }

  void look()
  {
    map.async_entries(0, map.part_count(),
      [this](rdma::error_code ec, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& found)
      {
        if (ec)
          return;
        if (found.size() < keys / 4)
          look();
        else
          map.async_grow([this](rdma::error_code ec) { has_grown(ec); });
      });
  }

  // The clients wait for the last key, so an error fails the test.
  void has_grown(rdma::error_code ec)
  {
    if (ec == rdma::error::object_full || (!ec && ++grown != 3))
      look();
    else if (!ec)
      map.async_insert(last_key, 0, [](rdma::error_code, bool) {});
  }

  rdma::map<std::uint64_t, std::uint64_t> map;
  int grown = 0;
};

void use_once(history_client<map_model>& client, small_map& map)
{
  const std::uint64_t key = client.below(keys);
  record<std::optional<std::uint64_t>> found;
  record<bool> r;
  const auto change = [&](map_model::Operation what, auto start)
  {
    // Processes that died have lost blocks, and others have taken some.
    client.record_operation(what, r, start,
      [&] { return r.ec ? std::nullopt : std::optional(map_model::Result{r.value()}); },
      {rdma::error::object_full});
  };
  switch (client.below(6))
  {
  case 0:
    return change({kind::erase, key}, [&] { map.async_erase(key, r.handler()); });
  case 1:
  {
    const std::uint64_t value = client.unique();
    return change({kind::update, key, value}, [&] { map.async_update(key, value, r.handler()); });
  }
  case 2:
  case 3:
  {
    const std::uint64_t value = client.unique();
    return change({kind::insert, key, value}, [&] { map.async_insert(key, value, r.handler()); });
  }
  default:
    return client.record_operation(
      {kind::find, key}, found, [&] { map.async_find(key, found.handler()); },
      [&] {
        return map_model::Result{found.value().has_value(), found.value().value_or(0)};
      });
  }
}

bool has_grown(history_client<map_model>& client, const small_map& map)
{
  record<std::optional<std::uint64_t>> r;
  map.async_find(last_key, r.handler());
  client.wait(r);
  return r.value().has_value();
}

void use(history_client<map_model>& client)
{
  record<small_map> opened;
  small_map::async_open(client.peer(), client.memory(), opened.handler());
  client.wait(opened);
  small_map map = opened.value();
  for (unsigned i = 0; client.more(200) || i % 20 != 0 || !has_grown(client, map); ++i)
    use_once(client, map);
}

} // namespace

TEST_CASE("the history of a map of many processes that grows is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<map_model>(
    {wire, hostile}, 6, 20'000,
    [](asio::io_context& io, const rdma::context& context, auto&)
    { return std::make_unique<growing_owner>(io, context); },
    use);
  CHECK(why_not_linearizable(history) == "");
}

} // namespace test::objects_map_history
