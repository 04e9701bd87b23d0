//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_PERSISTENT_SEQUENCE_HPP
#define BOOST_RDMA_TEST_COMMON_PERSISTENT_SEQUENCE_HPP

// A sequence whose copies share their elements: the state of a model is copied with each step.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace test {

/// Numbers, with constant time to copy and push_back, and logarithmic time for an element: Myers,
/// "An applicative random-access stack", 1983. Not thread-safe.
class persistent_sequence
{
public:
  std::uint64_t size() const noexcept { return length(last_.get()) - first_; }

  std::uint64_t operator[](std::uint64_t index) const noexcept
  {
    const std::uint64_t wanted = first_ + index + 1;
    const node* at = last_.get();
    while (at->length != wanted)
      at = length(at->jump) >= wanted ? at->jump : at->before.get();
    return at->value;
  }

  void push_back(std::uint64_t value)
  {
    hash_ = hash_ * factor + mixed(value);
    auto next = std::make_shared<node>();
    next->value = value;
    next->length = length(last_.get()) + 1;
    // Jumps have the lengths of a skew binary number.
    const node* const far = jump(last_.get());
    const bool doubles = length(last_.get()) - length(far) == length(far) - length(jump(far));
    next->jump = doubles ? jump(far) : last_.get();
    next->before = std::move(last_);
    last_ = std::move(next);
  }

  void pop_front() noexcept
  {
    std::uint64_t weight = 1;
    std::uint64_t square = factor;
    for (std::uint64_t n = size() - 1; n != 0; n /= 2, square *= square)
      if (n % 2 != 0)
        weight *= square;
    hash_ -= mixed((*this)[0]) * weight;
    ++first_;
  }

  /// Equal sequences have equal hashes, also if they have lost different elements.
  std::size_t hash() const noexcept { return hash_; }

  friend bool operator==(const persistent_sequence& a, const persistent_sequence& b) noexcept
  {
    if (a.size() != b.size() || a.hash_ != b.hash_)
      return false;
    const node* x = a.last_.get();
    const node* y = b.last_.get();
    for (std::uint64_t left = a.size(); left != 0 && x != y; --left)
    {
      if (x->value != y->value)
        return false;
      x = x->before.get();
      y = y->before.get();
    }
    return true;
  }

private:
  struct node
  {
    node() = default;
    node(const node&) = delete;
    node& operator=(const node&) = delete;
    // Not recursive, because a sequence can be longer than the stack permits.
    ~node()
    {
      while (before != nullptr && before.use_count() == 1)
        before = std::exchange(before->before, nullptr);
    }

    std::shared_ptr<node> before;
    const node* jump = nullptr; // `before` keeps it
    std::uint64_t length = 0;
    std::uint64_t value = 0;
  };

  static constexpr std::uint64_t factor = 0x9e3779b97f4a7c15u;

  static std::uint64_t length(const node* at) noexcept { return at == nullptr ? 0 : at->length; }
  static const node* jump(const node* at) noexcept { return at == nullptr ? nullptr : at->jump; }
  static std::uint64_t mixed(std::uint64_t value) noexcept
  {
    value = (value + 1) * 0xbf58476d1ce4e5b9u;
    return value ^ (value >> 31);
  }

  std::shared_ptr<node> last_;
  std::uint64_t first_ = 0; // this many elements were popped
  std::uint64_t hash_ = 0;
};

} // namespace test

#endif // BOOST_RDMA_TEST_COMMON_PERSISTENT_SEQUENCE_HPP
