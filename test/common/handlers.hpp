//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_COMMON_HANDLERS_HPP
#define BOOST_RDMA_TEST_COMMON_HANDLERS_HPP

#include "common/rdma_fixture.hpp"

#include <boost/asio/async_result.hpp>

#include <memory>
#include <stdexcept>
#include <variant>

// Handlers and tokens with unusual properties.

namespace test {

/// Stores the result of any operation; `Value` is std::monostate if there is none.
template <class Value>
struct result
{
  int calls = 0;
  error_code ec;
  Value value{};

  void set(error_code e, Value v)
  {
    ++calls;
    ec = e;
    value = std::move(v);
  }
  void set(error_code e)
  {
    ++calls;
    ec = e;
  }
};

/// Move-only and without a default constructor.
template <class Value>
class move_only_handler
{
public:
  explicit move_only_handler(result<Value>& target)
    : target_(std::make_unique<result<Value>*>(&target))
  {
  }
  move_only_handler() = delete;
  move_only_handler(move_only_handler&&) noexcept = default;
  move_only_handler& operator=(move_only_handler&&) = delete;

  template <class... Arguments>
  void operator()(Arguments... arguments)
  {
    (**target_).set(std::move(arguments)...);
  }

private:
  std::unique_ptr<result<Value>*> target_;
};

/// Throws when it is copied: a movable handler must never be copied.
template <class Value>
class throwing_copy_handler
{
public:
  explicit throwing_copy_handler(result<Value>& target)
    : target_(&target)
  {
  }
  throwing_copy_handler() = delete;
  throwing_copy_handler(throwing_copy_handler&& other) noexcept
    : target_(other.target_)
  {
  }
  throwing_copy_handler(const throwing_copy_handler& other)
    : target_(other.target_)
  {
    throw std::logic_error("a handler was copied");
  }

  template <class... Arguments>
  void operator()(Arguments... arguments) const
  {
    target_->set(std::move(arguments)...);
  }

private:
  result<Value>* target_;
};

/// Larger than any storage that is reserved for handlers.
template <class Value>
struct large_handler
{
  result<Value>* target;
  std::array<char, 1024> ballast{};

  template <class... Arguments>
  void operator()(Arguments... arguments)
  {
    target->set(std::move(arguments)...);
  }
};

/// A user-defined token: the initiating function returns a shared result.
template <class Value>
struct watched_t
{
};

/// Counts allocations and live objects.
template <class T>
struct counting_allocator
{
  using value_type = T;

  explicit counting_allocator(int& allocations, int& live) noexcept
    : allocations_(&allocations)
    , live_(&live)
  {
  }
  template <class U>
  counting_allocator(const counting_allocator<U>& other) noexcept
    : allocations_(other.allocations_)
    , live_(other.live_)
  {
  }
  T* allocate(std::size_t n)
  {
    ++*allocations_;
    ++*live_;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) noexcept
  {
    --*live_;
    std::allocator<T>().deallocate(p, n);
  }
  template <class U>
  bool operator==(const counting_allocator<U>& other) const noexcept
  {
    return live_ == other.live_;
  }

  int* allocations_;
  int* live_;
};

} // namespace test

template <class Value, class... Arguments>
class boost::asio::async_result<test::watched_t<Value>, void(Arguments...)>
{
public:
  using return_type = std::shared_ptr<test::result<Value>>;

  template <class Initiation, class... InitArguments>
  static return_type initiate(
    Initiation initiation, test::watched_t<Value>, InitArguments&&... arguments)
  {
    auto outcome = std::make_shared<test::result<Value>>();
    std::move(initiation)([outcome](Arguments... a) { outcome->set(std::move(a)...); },
      std::forward<InitArguments>(arguments)...);
    return outcome;
  }
};

#endif // BOOST_RDMA_TEST_COMMON_HANDLERS_HPP
