//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/hostile_memory.hpp"

#include <atomic>
#include <cstring>
#include <new>
#include <thread>

namespace rdma::software {

std::mutex hostile_memory::atomics_;

void hostile_memory::write(std::byte* to, const std::byte* from, std::size_t size) noexcept
{
  // Writes take effect in order (IBA 9.5); only the words of one write do not.
  std::atomic_thread_fence(std::memory_order_release);
  visit_words(
    random_, reinterpret_cast<std::uintptr_t>(to), size,
    [&](std::size_t offset, std::size_t part)
    {
      std::uint64_t word;
      if (part == sizeof word)
      {
        std::memcpy(&word, from + offset, sizeof word);
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + offset), word, __ATOMIC_RELAXED);
        return;
      }
      for (std::size_t i = offset; i != offset + part; ++i)
        __atomic_store_n(reinterpret_cast<unsigned char*>(to + i),
          std::to_integer<unsigned char>(from[i]), __ATOMIC_RELAXED);
    },
    [this] { pause(); });
}

void hostile_memory::read(std::byte* to, const std::byte* from, std::size_t size) noexcept
{
  visit_words(
    random_, reinterpret_cast<std::uintptr_t>(from), size,
    [&](std::size_t offset, std::size_t part)
    {
      if (part == sizeof(std::uint64_t))
      {
        const std::uint64_t word =
          __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from + offset), __ATOMIC_RELAXED);
        std::memcpy(to + offset, &word, sizeof word);
        return;
      }
      for (std::size_t i = offset; i != offset + part; ++i)
        to[i] = std::byte{
          __atomic_load_n(reinterpret_cast<const unsigned char*>(from + i), __ATOMIC_RELAXED)};
    },
    [this] { pause(); });
  // The words are read before a later request, and before the completion.
  std::atomic_thread_fence(std::memory_order_acquire);
}

void hostile_memory::delay_completion() noexcept
{
  constexpr std::uint32_t one_in = 4;
  constexpr std::uint32_t pauses_max = 8;
  if (random_.below(one_in) == 0)
    for (std::uint32_t i = random_.below(pauses_max) + 1; i != 0; --i)
      pause();
}

// Takes up to a few microseconds, or lets another thread run.
void hostile_memory::pause() noexcept
{
  constexpr std::uint32_t yields_one_in = 8;
  constexpr std::uint32_t rounds_max = 4096;
  if (random_.below(yields_one_in) == 0)
    std::this_thread::yield();
  else
    for (std::uint32_t i = random_.below(rounds_max); i != 0; --i)
      std::atomic_signal_fence(std::memory_order_seq_cst); // keeps the loop
}

std::byte* hostile_memory::enlarge(std::vector<std::byte>& what, std::size_t size) noexcept
try
{
  if (what.size() < size)
    what.resize(size);
  return what.data();
}
catch (const std::bad_alloc&)
{
  return nullptr;
}

} // namespace rdma::software
