//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/sequential_model.hpp"
#include "software/object_history.hpp"

#include <boost_rdma/objects/published.hpp>
#include <boost_rdma/objects/remote_published.hpp>

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace test::objects_published_history {

// Tests that histories of published values of many processes are linearizable.

namespace {

constexpr std::uint32_t readers = 5;

// Many words, so that loads and publications overlap.
struct table
{
  std::array<std::uint64_t, 2000> words;
};

// A number that only grows.
struct generation_model
{
  struct Operation
  {
    std::uint64_t published; // 0: a load
    friend bool operator==(const Operation&, const Operation&) = default;
  };
  struct Result
  {
    std::uint64_t loaded; // of a load
    friend bool operator==(const Result&, const Result&) = default;
  };
  using State = std::uint64_t;

  static State initial() { return 0; }
  static std::size_t hash(State state) { return std::hash<State>()(state); }
  static std::optional<State> step(
    State state, const Operation& what, const std::optional<Result>& result)
  {
    if (what.published != 0)
      return what.published;
    return !result || result->loaded == state ? std::optional(state) : std::nullopt;
  }
  static std::string text(State state) { return std::to_string(state); }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    if (what.published != 0)
      return "publish " + std::to_string(what.published);
    return "load: " + (result ? std::to_string(result->loaded) : "unknown");
  }
};

// Publishes again and again, with pauses in which readers succeed.
class publisher
{
public:
  publisher(asio::io_context& io, const rdma::context& context,
    history_recorder<generation_model>& records, std::uint32_t number)
    : object_(io, context, {.snapshots = 8, .lease = std::chrono::milliseconds(50)})
    , pause_(io)
    , records_(records)
    , number_(number)
  {
    publish();
  }

  [[nodiscard]] rdma::remote_buffer remote() const { return object_.remote(); }

private:
  void publish()
  {
    const std::uint64_t next = object_.generation() + 1;
    value_->words.fill(next);
    const std::size_t recorded = records_.called(number_, {next});
    object_.async_publish(*value_,
      [this, recorded](rdma::error_code ec, std::uint64_t)
      {
        if (ec)
          return; // the object is being destroyed
        records_.returned(number_, recorded, {});
        pause_.expires_after(std::chrono::milliseconds(1));
        pause_.async_wait(
          [this](rdma::error_code stopped)
          {
            if (!stopped)
              publish();
          });
      });
  }

  rdma::published<table> object_;
  asio::steady_timer pause_;
  std::unique_ptr<table> value_ = std::make_unique<table>();
  history_recorder<generation_model>& records_;
  std::uint32_t number_;
};

void require_whole(const table& value, std::uint64_t generation)
{
  if (std::ranges::any_of(value.words, [&](std::uint64_t each) { return each != generation; }))
    throw std::runtime_error("a value of several generations");
}

void load(history_client<generation_model>& client)
{
  // A reader that was stopped is late, or finds all places of snapshots in use.
  const std::initializer_list<rdma::error> late{
    rdma::error::contended, rdma::error::object_full, rdma::error::lease_ended};
  const auto object = client.open<rdma::remote_published<table>>();
  const auto value = std::make_unique<table>();
  while (client.more(100))
    if (client.below(2) == 0)
    {
      record<std::uint64_t> r;
      client.record_operation(
        {}, r, [&] { object.async_load(*value, r.handler()); },
        [&]() -> std::optional<generation_model::Result>
        {
          if (r.ec)
            return std::nullopt;
          require_whole(*value, r.value());
          return generation_model::Result{r.value()};
        },
        late);
    }
    else
    {
      record<rdma::published_snapshot<table>> r;
      client.record_operation(
        {}, r, [&] { object.async_snapshot(r.handler()); },
        [&]() -> std::optional<generation_model::Result>
        {
          if (r.ec)
            return std::nullopt;
          return generation_model::Result{r.value().generation()};
        },
        late);
      if (r.ec)
        continue;
      // A snapshot that is not renewed ends when this process has been stopped for long.
      for (std::uint64_t reads = client.below(3); reads != 0; --reads)
      {
        plain_record read;
        r.value().async_read(*value, read.handler());
        client.wait(read, {rdma::error::lease_ended});
        if (!read.ec)
          require_whole(*value, r.value().generation());
      }
    }
}

} // namespace

TEST_CASE("the history of a published value and its readers is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<generation_model>(
    {wire, hostile}, readers, 100'000,
    [](asio::io_context& io, const rdma::context& context, auto& records)
    { return std::make_unique<publisher>(io, context, records, readers); },
    load);
  CHECK(why_not_linearizable(history) == "");
}

} // namespace test::objects_published_history
