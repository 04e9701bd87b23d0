//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_DICE_HPP
#define BOOST_RDMA_TEST_COMMON_DICE_HPP

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace test {

/// The decisions of a simulation. A seed makes them, or the bytes that a fuzzer has chosen.
class dice
{
public:
  using result_type = std::uint32_t;

  explicit dice(unsigned seed)
    : random_(seed)
  {
  }
  explicit dice(std::span<const std::uint8_t> input)
    : input_(input)
    , has_input_(true)
  {
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT32_MAX; }

  /// Most decisions are between few possibilities, and take one byte of the input.
  result_type operator()()
  {
    if (input_.empty())
      return static_cast<result_type>(random_());
    const result_type first = take();
    return first < 0xf0 ? first : (first & 0xf) << 28 | take() << 16 | take() << 8 | take();
  }

  /// Returns true when the bytes are used up. A seed makes the decisions from then on, so that
  /// every loop ends.
  [[nodiscard]] bool is_over() const { return has_input_ && input_.empty(); }

  [[nodiscard]] bool one_in(unsigned n) { return (*this)() % n == 0; }
  [[nodiscard]] std::size_t any(std::size_t least, std::size_t most)
  {
    return least + (*this)() % (most - least + 1);
  }
  [[nodiscard]] std::byte byte() { return static_cast<std::byte>((*this)() & 0xff); }

private:
  result_type take()
  {
    if (input_.empty())
      return 0;
    const std::uint8_t first = input_.front();
    input_ = input_.subspan(1);
    return first;
  }

  std::span<const std::uint8_t> input_;
  const bool has_input_ = false;
  std::mt19937 random_;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_DICE_HPP
