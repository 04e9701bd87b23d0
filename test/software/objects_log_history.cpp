//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/container_models.hpp"
#include "software/object_history.hpp"

#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_log.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>

namespace test::objects_log_history {

// Tests that the history of a log of many processes is linearizable.

namespace {

using kind = log_model::kind;
using metric_log = rdma::remote_log<std::uint64_t>;

// A recorded read has the index of the entry above 32 bits of the value.
constexpr unsigned index_shift = 32;

void append_and_read(history_client<log_model>& client)
{
  auto log = client.open<metric_log>();
  std::uint64_t end = 0; // entries before it exist
  for (std::uint64_t i = 0; client.more(100); ++i)
    if (end == 0 || client.below(2) == 0)
    {
      const std::uint64_t value = client.unique() >> 32 << 16 | i;
      record<std::uint64_t> r;
      client.record_operation(
        {kind::append, value}, r, [&] { log.async_append(value, r.handler()); },
        [&]
        {
          end = std::max(end, r.value() + 1);
          return log_model::Result{r.value()};
        });
    }
    else
    {
      const std::uint64_t index = client.below(end);
      std::uint64_t value = 0;
      record<std::size_t, std::uint64_t> r;
      client.record_operation(
        {kind::read, index}, r, [&] { log.async_read(index, std::span(&value, 1), r.handler()); },
        [&] { return log_model::Result{(std::get<1>(r.values) - 1) << index_shift | value}; });
    }
}

// Dead processes leave indexes without an entry. Replaces indexes by the number of entries before
// them.
history<log_model> without_holes(const history<log_model>& recorded)
{
  std::set<std::uint64_t> indexes;
  for (const auto& one : recorded.operations())
    if (one.result)
      indexes.insert(
        one.operation.what == kind::append ? one.result->value : one.result->value >> index_shift);
  const auto before = [&](std::uint64_t index) {
    return static_cast<std::uint64_t>(std::distance(indexes.begin(), indexes.lower_bound(index)));
  };
  history<log_model> result;
  for (const auto& one : recorded.operations())
  {
    log_model::Operation what = one.operation;
    if (what.what == kind::read)
      what.value = before(what.value);
    if (!one.result)
      result.add_unknown(one.process, one.called, what);
    else if (what.what == kind::append)
      result.add(one.process, one.called, one.returned, what, {before(one.result->value)});
    else
    {
      // The entry that was found is the next one.
      CHECK(before(one.result->value >> index_shift) == what.value);
      result.add(one.process, one.called, one.returned, what, {one.result->value & 0xffff'ffffu});
    }
  }
  return result;
}

} // namespace

TEST_CASE("the history of a log of many processes is linearizable")
{
  BOOST_RDMA_TEST_FORKS();
  need(feature::endpoint_descriptions); // of the owner's queue pair
  const std::string wire = GENERATE("local", "tcp");
  const std::uint64_t hostile = GENERATE(0, 7);
  CAPTURE(wire, hostile);
  const auto history = history_of<log_model>(
    {wire, hostile}, 6, 1000,
    [](asio::io_context& io, const rdma::context& context, auto&)
    {
      return std::make_unique<rdma::owned<metric_log>>(
        io, context, rdma::log_options{.capacity = 1024, .lease = std::chrono::milliseconds(20)});
    },
    append_and_read);
  CHECK(why_not_linearizable(without_holes(history)) == "");
}

} // namespace test::objects_log_history
