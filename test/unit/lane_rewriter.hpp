//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_LANE_REWRITER_HPP
#define BOOST_RDMA_TEST_UNIT_LANE_REWRITER_HPP

#include "common/dice.hpp"
#include "common/process.hpp"
#include "verbs/software/wire/segment.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <sys/mman.h>
#include <sys/prctl.h>

namespace test {

/// A process that rewrites the shared memory of a lane while the other end uses it, as a peer can.
/**
 * It changes a word and, after a moment, usually restores it. The end under test then sees a valid
 * value and another one in any order. Most words are those of the record that it is reading.
 */
class lane_rewriter
{
public:
  /// `segment`: the descriptor of the link's memory. `attacked`: the end under test.
  lane_rewriter(int segment, unsigned lane, unsigned attacked, unsigned seed)
    : lane_(lane)
    , attacked_(attacked)
    , random_(seed)
    , process_([this, segment] { return run(segment); })
  {
  }

private:
  using segment = rdma::software::wire::segment;
  using lane_side = rdma::software::wire::lane_side;
  using link_side = rdma::software::wire::link_side;

  bool run(int fd)
  {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* const at = ::mmap(nullptr, segment::size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
      return false;
    // The registry of segments has the parent's mapping, which fork() has replaced.
    segment memory(static_cast<std::byte*>(at), rdma::software::fork_record::take());
    for (;;)
    {
      const unsigned where = random_() % 64;
      for (std::size_t left = random_.any(1, 1u << random_() % 10); left != 0; --left)
        rewrite(some_word(memory, where));
      wait(1u << random_() % 16);
    }
  }

  std::uint32_t* some_word(segment& in, unsigned where)
  {
    const unsigned peer = 1 - attacked_;
    switch (where)
    {
    case 0:
      return word_of(in.side(lane_, peer));
    case 1:
      return word_of(in.side(lane_, attacked_));
    case 2:
      return word_of(in.side(random_() % 2));
    case 3: // anywhere in the rings of both ends
      return word_at(in.requests_of(lane_, 0), random_() % (2 * segment::end_size));
    case 4: // a record of the end under test
      return word_at(in.requests_of(lane_, attacked_), random_() % 2048);
    default:
      if (where < 20)
        return next_record(
          in.responses_of(lane_, peer), in.side(lane_, attacked_).responses_taken.load());
      return next_record(
        in.requests_of(lane_, peer), in.side(lane_, attacked_).requests_taken.load());
    }
  }

  // A word of the record that the end under test reads now or next. Null: there is none.
  std::uint32_t* next_record(std::byte* ring, std::uint64_t taken)
  {
    std::byte* const at = ring + taken % segment::ring_size / line * line;
    if (__atomic_load_n(word_at(at, 0), __ATOMIC_RELAXED) == 0 && !random_.one_in(1024))
      return nullptr;
    return word_at(at, random_() % (random_.one_in(4) ? line : 32)); // mostly its headers
  }

  // Most of the words of a side, e.g. all those of its grants but the first ones, do nothing.
  template <class Side>
  std::uint32_t* word_of(Side& which)
  {
    const std::size_t most = random_.one_in(8) ? sizeof which : 6 * line;
    return word_at(reinterpret_cast<std::byte*>(&which), random_() % std::min(most, sizeof which));
  }

  static std::uint32_t* word_at(std::byte* base, std::size_t offset)
  {
    return reinterpret_cast<std::uint32_t*>(
      base + offset / sizeof(std::uint32_t) * sizeof(std::uint32_t));
  }

  void rewrite(std::uint32_t* at)
  {
    if (at == nullptr)
      return;
    const std::uint32_t before = __atomic_load_n(at, __ATOMIC_RELAXED);
    const std::uint32_t value = other(before);
    for (std::size_t times = random_.any(1, 8); times != 0; --times)
    {
      __atomic_store_n(at, value, __ATOMIC_RELAXED);
      wait(random_() % 32);
      __atomic_store_n(at, before, __ATOMIC_RELAXED);
      wait(random_() % 128);
    }
    if (random_.one_in(256))
      __atomic_store_n(at, value, __ATOMIC_RELAXED);
  }

  std::uint32_t other(std::uint32_t than)
  {
    // Lengths, keys, positions and flags around the bounds of the library.
    static constexpr std::uint32_t chosen[] = {0, 1, 63, 64, 65, 128, 511, 512, 513, 4096, 4097,
      8192, 8193, 16384, 65536, 131072 - 64, 131072, 131072 + 64, 0x7fff'ffff, 0x8000'0000,
      0xffff'ffc0, 0xffff'fffe, 0xffff'ffff};
    switch (random_() % 8)
    {
    case 0:
      return random_();
    case 1:
      return than ^ 1u << random_() % 32;
    case 2:
      return than + random_() % 5 - 2;
    case 3:
      return than + (random_() % 5 - 2) * line;
    case 4: // an opcode, or a length in network order
      return (than & ~0xffu) | random_() % 256;
    case 5:
      return __builtin_bswap32(chosen[random_() % std::size(chosen)]);
    default:
      return chosen[random_() % std::size(chosen)];
    }
  }

  // Not a wait for anything: the end under test goes on meanwhile.
  static void wait(unsigned turns)
  {
    for (unsigned i = 0; i != turns; ++i)
      asm volatile("" ::: "memory");
  }

  static constexpr std::uint32_t line = rdma::software::wire::ring::line;

  const unsigned lane_;
  const unsigned attacked_;
  dice random_;
  process process_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_UNIT_LANE_REWRITER_HPP
