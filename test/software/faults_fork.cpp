//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "software/faults.hpp"

#include <optional>
#include <string>

// Children of fork() while some step fails. A child reports by text: Catch's state belongs to the
// parent.

namespace test::faults_fork {

namespace {

/// A parent with a receive that is outstanding at fork(), and its children.
class family
{
public:
  family() { parents_.far.async_receive(room_, received_.handler()); }

  /// Returns what went wrong in a child in which events of this kind fail by start(). Sets `failed`
  /// to false if not so many events happened.
  template <class Start>
  std::string child(fault kind, Start start, bool& failed)
  {
    parents_.io.notify_fork(asio::execution_context::fork_prepare);
    std::string report = in_child(
      [&]
      {
        parents_.io.notify_fork(asio::execution_context::fork_child);
        faulty_round round(parents_.io, kind);
        std::optional<linked_pair> own;
        bool has_failed = false;
        std::string wrong;
        {
          auto faults = start();
          const auto& send = round.start([&](auto h) { parents_.near.async_send(text_, h); });
          const auto& receive = round.start([&](auto h) { parents_.far.async_receive(room_, h); });
          if (round.make([&] { own.emplace(); }))
            own->near.close();
          faults.stop();
          has_failed = faults.failed() != 0;
          round.await(send, receive);
          for (const auto* each : {&send, &receive})
            if (each->calls != (each->is_started ? 1 : 0) || each->succeeded())
              wrong += "an operation of the parent's: " + each->ec.message() + "; ";
        }
        if (!run_until(parents_.io, [&] { return received_.done(); })
          || received_.ec != rdma::error::forked)
          wrong += "the outstanding receive: " + received_.ec.message() + "; ";
        own.reset();
        linked_pair next;
        bytes_record sent;
        bytes_record arrived;
        next.far.async_receive(next.far_context.allocate(5), arrived.handler());
        next.near.async_send(buffer_of(next.near_context, "child"), sent.handler());
        if (!run_until(next.io, [&] { return arrived.done() && sent.done(); }) || arrived.ec)
          wrong += "the next operation: " + arrived.ec.message() + "; ";
        return !wrong.empty() ? wrong : std::string(has_failed ? "" : none_failed);
      });
    parents_.io.notify_fork(asio::execution_context::fork_parent);
    failed = report != none_failed;
    return failed ? report : std::string();
  }

  /// Ends the receive that is outstanding.
  [[nodiscard]] bool still_works()
  {
    bytes_record sent;
    parents_.near.async_send(text_, sent.handler());
    return run_until(parents_.io, [&] { return sent.done() && received_.done(); }) && !received_.ec
      && text_of(room_) == "hello" && received_.calls == 1;
  }

private:
  static constexpr const char* none_failed = "none failed";
  linked_pair parents_;
  const rdma::registered_buffer text_ = buffer_of(parents_.near_context, "hello");
  const rdma::registered_buffer room_ = parents_.far_context.allocate(5);
  bytes_record received_;
};

/// Events fail by start(n, is_lasting, choice).
template <class Start>
void check_children(fault kind, Start start)
{
  BOOST_RDMA_TEST_FORKS();
  BOOST_RDMA_TEST_NEEDS(software_device); // rdma-core ends the process at some places
  const bool is_lasting = kind == fault::allocations || kind == fault::descriptors;
  const std::uint_fast32_t seed = std::random_device()();
  std::minstd_rand random(seed);
  family f;
  std::uint64_t rounds = 0;
  bool failed = true;
  for (std::size_t n = 0; failed; n += exhaustive() ? 1 : 1 + random() % 60)
  {
    const auto choice = static_cast<unsigned>(random() % failing_calls::choices);
    CAPTURE(n, static_cast<int>(kind), choice, seed);
    const std::string wrong = f.child(
      kind, [&] { return start(n, is_lasting, choice); }, failed);
    REQUIRE(wrong == "");
    rounds += failed ? 1 : 0;
  }
  CHECK(rounds != 0);
  CHECK(f.still_works());
  add_figure(kind == fault::call || kind == fault::descriptors ? "rounds without a call"
                                                               : "rounds without memory",
    rounds);
}

} // namespace

TEST_CASE("children of fork() that begin while allocations fail end operations once")
{
  check_children(GENERATE(fault::allocation, fault::allocations),
    [](std::size_t n, bool lasting, unsigned) { return failing_allocations(n, lasting); });
}

TEST_CASE("children of fork() that begin while system calls fail end operations once")
{
  if (!failing_calls::are_supported())
  {
    WARN("skipped: sanitizers make system calls themselves");
    return;
  }
  check_children(GENERATE(fault::call, fault::descriptors),
    [](std::size_t n, bool lasting, unsigned choice) { return failing_calls(n, lasting, choice); });
}

} // namespace test::faults_fork
