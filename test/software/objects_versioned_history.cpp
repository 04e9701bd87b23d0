//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/object_history.hpp"

#include <boost_rdma/objects/versioned.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace test::objects_versioned_history {

// Tests that histories of versioned values of many processes are linearizable.

namespace {

constexpr std::size_t words = 8;

struct sample
{
  std::array<std::uint64_t, words> values;
};

sample all(std::uint64_t value)
{
  sample result;
  result.values.fill(value);
  return result;
}

// A value that is stored if the current one is the expected one. No value is stored twice.
struct value_model
{
  enum class kind : std::uint32_t
  {
    load,
    store,
    compare_store,
  };
  struct Operation
  {
    value_model::kind kind;
    std::uint64_t expected;
    std::uint64_t value;
    friend bool operator==(const Operation&, const Operation&) = default;
  };
  struct Result
  {
    std::uint64_t value; // of a load
    bool stored;
    friend bool operator==(const Result&, const Result&) = default;
  };
  using State = std::uint64_t;

  static State initial() { return 0; }
  static std::size_t hash(State state) { return std::hash<State>()(state); }
  static std::optional<State> step(
    State state, const Operation& what, const std::optional<Result>& result)
  {
    if (what.kind == kind::load)
      return !result || result->value == state ? std::optional(state) : std::nullopt;
    const bool stores = what.kind == kind::store || what.expected == state;
    if (result && result->stored != stores)
      return std::nullopt;
    return stores ? what.value : state;
  }
  static std::string text(State state) { return std::to_string(state); }
  static std::string text(const Operation& what, const std::optional<Result>& result)
  {
    const std::string before = what.kind == kind::load ? "load"
      : what.kind == kind::store
      ? "store " + std::to_string(what.value)
      : "store " + std::to_string(what.value) + " over " + std::to_string(what.expected);
    return before
      + (!result                    ? ": unknown"
          : what.kind == kind::load ? ": " + std::to_string(result->value)
          : result->stored          ? ": stored"
                                    : ": not stored");
  }
};

void use(history_client<value_model>& client)
{
  auto object = client.open<rdma::remote_versioned<sample>>();
  std::map<std::uint32_t, std::uint64_t> seen{{0, 0}}; // version to value
  while (client.more(200))
    switch (client.below(3))
    {
    case 0:
    {
      record<rdma::versioned_value<sample>> r;
      client.record_operation(
        {value_model::kind::load, 0, 0}, r, [&] { object.async_load(r.handler()); },
        [&]
        {
          const auto& found = r.value().value.values;
          for (const std::uint64_t each : found)
            if (each != found[0])
              throw std::runtime_error("a torn value");
          seen.emplace(r.value().version, found[0]);
          return value_model::Result{found[0], false};
        });
      break;
    }
    case 1:
    {
      const std::uint64_t value = client.unique();
      record<std::uint32_t> r;
      client.record_operation(
        {value_model::kind::store, 0, value}, r,
        [&] { object.async_store(all(value), r.handler()); },
        [&]
        {
          seen.emplace(r.value(), value);
          return value_model::Result{0, true};
        });
      break;
    }
    default:
    {
      const auto [version, expected] = *seen.rbegin();
      const std::uint64_t value = client.unique();
      record<bool, std::uint32_t> r;
      client.record_operation(
        {value_model::kind::compare_store, expected, value}, r,
        [&, version = version] { object.async_compare_store(version, all(value), r.handler()); },
        [&]
        {
          const auto [stored, found] = r.values;
          if (stored)
            seen.emplace(found, value);
          return value_model::Result{0, stored};
        });
    }
    }
}

} // namespace

TEST_CASE("the history of a versioned value of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<value_model>(
    {wire, hostile}, 6, 1000,
    [](asio::io_context& io, const rdma::context& context, auto&)
    { return std::make_unique<rdma::versioned<sample>>(io, context); },
    use);
  CHECK(why_not_linearizable(history) == "");
}

} // namespace test::objects_versioned_history
