//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/basic_models.hpp"
#include "common/history_recorder.hpp"

#include "common/catch.hpp"
#include "common/process.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include <sys/mman.h>

using test::counter_model;
using test::history_recorder;

namespace {

// A sum that children of fork() share.
class shared_counter
{
public:
  shared_counter()
  {
    void* const at =
      ::mmap(nullptr, sizeof *sum_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    sum_ = new (at) std::atomic<std::uint64_t>(0);
  }
  ~shared_counter() { ::munmap(sum_, sizeof *sum_); }
  shared_counter(const shared_counter&) = delete;
  shared_counter& operator=(const shared_counter&) = delete;

  std::atomic<std::uint64_t>& operator*() const { return *sum_; }

private:
  std::atomic<std::uint64_t>* sum_ = nullptr;
};

} // namespace

TEST_CASE("history_recorder merges the operations of processes, also of killed ones")
{
  constexpr std::uint32_t processes = 4;
  constexpr std::uint64_t additions = 2000;
  const shared_counter sum;
  history_recorder<counter_model> recorder(processes, additions);
  const auto add_all = [&](std::uint32_t number, std::uint64_t count)
  {
    for (std::uint64_t i = 0; i != count; ++i)
      recorder.record_call(number, {1}, [&] { return counter_model::Result{(*sum).fetch_add(1)}; });
  };
  // Killed before its last addition or after.
  const bool takes_effect = GENERATE(false, true);
  std::vector<std::unique_ptr<test::process>> running;
  for (std::uint32_t number = 0; number != processes; ++number)
    running.push_back(std::make_unique<test::process>(
      [&, number]
      {
        add_all(number, number != 0 ? additions : additions / 2);
        if (number != 0)
          return true;
        recorder.record_call(number, {1},
          [&]
          {
            if (takes_effect)
              (*sum).fetch_add(1);
            std::raise(SIGKILL);
            return counter_model::Result{};
          });
        return false;
      }));
  CHECK(!running[0]->succeeded());
  for (std::uint32_t number = 1; number != processes; ++number)
    CHECK(running[number]->succeeded());

  auto all = recorder.merged();
  const auto& some = all.operations();
  CHECK(some.size() == (processes - 1) * additions + additions / 2 + 1);
  CHECK(std::count_if(some.begin(), some.end(), [](const auto& one) { return !one.result; }) == 1);
  const auto now = (*sum).load();
  CHECK(now == some.size() - (takes_effect ? 0 : 1));
  CHECK(test::why_not_linearizable(all).empty());

  // A load by the process that called last of all.
  std::uint64_t end = 0;
  for (const auto& one : some)
    end = std::max(end, one.result ? one.returned : one.called);
  all.add(0, end + 1, end + 2, {0}, {some.size() - 2});
  CHECK(!test::why_not_linearizable(all).empty());
}

TEST_CASE("history_recorder has an unknown outcome when an operation throws")
{
  history_recorder<counter_model> recorder(1, 2);
  CHECK_THROWS_AS(recorder.record_call(0, {1},
                    []() -> counter_model::Result { throw std::runtime_error("cancelled"); }),
    std::runtime_error);
  recorder.record_call(0, {2}, [] { return counter_model::Result{1}; });
  const auto all = recorder.merged();
  REQUIRE(all.operations().size() == 2);
  CHECK(!all.operations()[0].result);
  CHECK(all.operations()[1].result->before == 1);
  CHECK(all.operations()[0].called <= all.operations()[1].called);
  CHECK(test::why_not_linearizable(all).empty());
}

TEST_CASE("history_recorder refuses more operations and processes than it has memory for")
{
  history_recorder<counter_model> recorder(1, 1);
  static_cast<void>(recorder.called(0, {1}));
  CHECK_THROWS_AS(recorder.called(0, {1}), std::length_error);
  CHECK_THROWS_AS(recorder.called(1, {1}), std::out_of_range);
  CHECK(recorder.merged().operations().size() == 1);
}
