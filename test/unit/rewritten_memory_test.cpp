//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "unit/hostile_local_end.hpp"
#include "unit/lane_rewriter.hpp"
#include "unit/local_wire_fixture.hpp"
#include "unit/simulated_seeds.hpp"

#include "common/sanitizers.hpp"

#include <cstddef>
#include <memory>

#if BOOST_RDMA_TEST_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

// Tests one end of the local wire, whose peer rewrites the memory that both use at any time: a
// value can differ each time that it is read.

using namespace local_wire_test;

namespace {

/// Makes accesses to the other lanes a failure, if the address sanitizer is there.
class lone_lane
{
public:
  explicit lone_lane(wire::segment& of)
    : begin_(reinterpret_cast<std::byte*>(&of.side(wire_and_peer::lane.lane, 0)))
    , first_(reinterpret_cast<std::byte*>(&of.side(0, 0)))
  {
#if BOOST_RDMA_TEST_ADDRESS_SANITIZER
    __asan_poison_memory_region(first_, before());
    __asan_poison_memory_region(begin_ + wire::segment::lane_size, behind());
#endif
  }
  ~lone_lane()
  {
#if BOOST_RDMA_TEST_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(first_, before());
    __asan_unpoison_memory_region(begin_ + wire::segment::lane_size, behind());
#endif
  }
  lone_lane(const lone_lane&) = delete;
  lone_lane& operator=(const lone_lane&) = delete;

private:
  std::size_t before() const { return static_cast<std::size_t>(begin_ - first_); }
  std::size_t behind() const
  {
    return wire::segment::size - wire::segment::lanes_at - before() - wire::segment::lane_size;
  }

  std::byte* const begin_;
  std::byte* const first_;
};

/// Runs one queue pair until the peer has broken it, at most for some steps. Most records of the
/// peer are valid before the other process changes them.
void run(const std::shared_ptr<wire::segment>& memory, unsigned seed)
{
  constexpr unsigned steps_max = 100;
  test::dice random(seed);
  wire_and_peer of(memory);
  attacked_program program(of, random);
  hostile_local_end peer(of, random);
  bool goes_on = true;
  for (unsigned step = 0; goes_on && step != steps_max && !program.is_over(); ++step)
  {
    for (unsigned i = 0; i != depth; ++i)
      program.post_receive();
    peer.request(random.one_in(4));
    for (std::size_t left = random.any(0, depth - 1); left != 0; --left)
      peer.request(false);
    if (random.one_in(16))
      peer.step();
    if (random.one_in(64))
      if (const std::uint32_t key = program.bind_or_withdraw(); key != 0)
        peer.use_window(key);
    if (random.one_in(4))
    {
      program.post_send();
      of.under_test.transmit(random.one_in(2));
    }
    if (random.one_in(4))
      peer.permit();
    else
      peer.read();
    goes_on = of.hear() && of.under_test.receive(random.one_in(2));
    of.under_test.transmit(random.one_in(2));
    program.check();
  }
  of.under_test.receive_the_rest();
  of.under_test.say_the_last();
  of.under_test.close();
  program.end();
}

} // namespace

TEST_CASE("the end of a local wire keeps the rules while a process rewrites the shared memory")
{
  descriptor fd;
  const auto memory = wire::segment::create(fd);
  REQUIRE(memory != nullptr);
  offered_memory();
  const lone_lane others(*memory);
  const test::lane_rewriter rewriter(fd.get(), wire_and_peer::lane.lane, 1, 1);
  test::run_seeds(1, 2000,
    [&](unsigned seed)
    {
      INFO("seed " << seed);
      run(memory, seed);
    });
}
