//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "checker.hpp"

#include "verbs/software/wire/copy_in_order.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wire = rdma::software::wire;

namespace {

constexpr std::size_t word_size = sizeof(std::uint64_t);
constexpr std::size_t words = 4;
constexpr std::array<std::uint64_t, words> written{1, 2, 3, 4};

/// The target's memory. Its program polls the last word.
struct target_memory
{
  std::array<checker::plain<std::uint64_t>, words - 1> data;
  checker::atomic<std::uint64_t> last{0};
};

/// In the place of wire::peer_bytes.
struct polled_bytes : checker::atomics
{
  static inline target_memory* now = nullptr;
  alignas(word_size) static inline std::array<std::byte, words * word_size> addresses{};

  static void copy(std::byte* to, const std::byte* from, std::size_t size)
  {
    for (std::size_t done = 0; done != size; done += word_size)
    {
      std::uint64_t value = 0;
      std::memcpy(&value, from + done, word_size);
      const auto at = static_cast<std::size_t>(to + done - addresses.data()) / word_size;
      if (at == words - 1)
        now->last.store(value, std::memory_order_relaxed);
      else
        now->data[at].store(value);
    }
  }
};

/// An initiator that writes the words in parts, and a program that polls the last word. Data that
/// arrives later than the last word is a data race.
template <std::size_t... Parts>
struct polled_write : rl::test_suite<polled_write<Parts...>, 2>
{
  target_memory content;

  void before() { polled_bytes::now = &content; }

  void thread(unsigned index)
  {
    if (index == 0)
    {
      std::size_t at = 0;
      const auto write = [&at](std::size_t part)
      {
        const auto* const from = reinterpret_cast<const std::byte*>(written.data());
        wire::copy_in_order<polled_bytes>(polled_bytes::addresses.data() + at, from + at, part);
        at += part;
      };
      (write(Parts * word_size), ...);
      return;
    }
    while (content.last.load(std::memory_order_acquire) == 0)
      checker::yield();
    for (std::size_t i = 0; i != content.data.size(); ++i)
      checker::require(content.data[i].load() == written[i], "the bytes before have arrived");
  }
};

} // namespace

TEST_CASE("a program that polls the last word of a write finds the bytes before it")
{
  checker::check_interleavings<polled_write<words>>(20'000, checker::unlimited);
  checker::check_interleavings<polled_write<words - 2, 2>>(20'000, checker::unlimited);
}

TEST_CASE("a program that polls a word finds the writes before the write of the word")
{
  checker::check_interleavings<polled_write<words - 1, 1>>(20'000, checker::unlimited);
  checker::check_interleavings<polled_write<1, 1, 1, 1>>(20'000, checker::unlimited);
}
