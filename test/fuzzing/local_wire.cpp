//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "fuzzing/common/fixture.hpp"
#include "unit/hostile_local_end.hpp"
#include "unit/local_wire_fixture.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

// Fuzzes one end of the local wire. The input decides what the other end, another process, writes
// to the rings and to every other word of the shared memory, which messages and descriptors it
// sends, and what the program of this end does in between.

using namespace local_wire_test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  test::dice random(std::span(data, size));
  offered_memory();
  wire_and_peer of;
  attacked_program program(of, random);
  hostile_local_end peer(of, random);
  bool goes_on = true;
  while (goes_on && !random.is_over() && !program.is_over())
  {
    switch (random() % 16)
    {
    case 0:
    case 1:
    case 2:
      goes_on = of.under_test.receive(random.one_in(2));
      break;
    case 3:
    case 4:
      of.under_test.transmit(random.one_in(2));
      break;
    case 5:
    case 6:
      program.post_send();
      break;
    case 7:
      program.post_receive();
      break;
    case 8:
      goes_on = of.hear();
      break;
    case 9:
      if (random.one_in(2))
        of.requests.resume();
      else if (const std::uint32_t key = program.bind_or_withdraw(); key != 0)
        peer.use_window(key);
      break;
    case 10:
      of.under_test.transmit(true); // the question
      peer.permit();
      goes_on = of.hear() && of.under_test.receive(true);
      break;
    default:
      peer.step();
    }
    program.check();
  }
  of.under_test.say_the_last();
  of.under_test.close();
  program.end();
  return 0;
}
