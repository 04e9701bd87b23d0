//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Callers that get and put values, and verify those that they get.

#ifndef BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_LOAD_GENERATOR_HPP
#define BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_LOAD_GENERATOR_HPP

#include "client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace key_value {

struct load_options
{
  std::size_t callers = 16;
  std::size_t operations = 1000;
  std::size_t keys = 100;
  unsigned puts_percent = 5;
};

class load_generator
{
public:
  load_generator(key_value_client& client, const rdma::context& context, const load_options& of)
    : client_(client)
    , context_(context)
    , of_(of)
    , newest_(of.keys)
  {
  }

  boost::asio::awaitable<void> run()
  {
    const rdma::registered_buffer block = context_.allocate(block_size);
    for (std::size_t i = 0; i != of_.keys; ++i)
      co_await put_next(i, block);
    const auto begin = clock::now();
    co_await call(of_.callers);
    const auto elapsed = clock::now() - begin;
    report("gets", gets_, elapsed);
    report("puts", puts_, elapsed);
    std::cout << client_.overwritten << " values were overwritten before they were read\n";
    for (std::size_t i = 0; i != of_.keys; ++i)
    {
      const bool removed =
        co_await client_.methods.async_call<erase>(key(i), boost::asio::use_awaitable);
      if (!removed || co_await client_.get(key(i), block))
        throw std::logic_error("a value was not removed");
    }
  }

private:
  using clock = std::chrono::steady_clock;
  using times = std::vector<clock::duration>;

  static void report(std::string_view what, times& all, std::chrono::duration<double> elapsed)
  {
    std::ranges::sort(all);
    std::cout << all.size() << ' ' << what << ", "
              << static_cast<std::uint64_t>(static_cast<double>(all.size()) / elapsed.count())
              << " per second";
    for (const std::size_t per_mille : {500, 990, 999})
      if (!all.empty())
        std::cout
          << ", " << static_cast<double>(per_mille) / 10 << " % within "
          << std::chrono::duration<double, std::micro>(all[all.size() * per_mille / 1000]).count()
          << " us";
    std::cout << '\n';
  }

  // Two load generators do not use the same keys.
  [[nodiscard]] static std::string key(std::size_t number)
  {
    return "load " + std::to_string(::getpid()) + ' ' + std::to_string(number);
  }

  // All words of a value are equal. They have the number of the key, and differ from those of other
  // values.
  boost::asio::awaitable<void> put_next(std::size_t number, const rdma::registered_buffer& block)
  {
    const rdma::mutable_buffer value = block.first(value_max);
    std::ranges::fill(value.as_span<std::uint64_t>(), ++last_ << 16 | number);
    const std::uint64_t version = co_await client_.methods.async_call<put>(
      key(number), {.exposed = rdma::rpc::expose(value)}, boost::asio::use_awaitable);
    newest_[number] = std::max(newest_[number], version);
  }

  boost::asio::awaitable<void> get_right(std::size_t number, const rdma::registered_buffer& block)
  {
    const std::uint64_t newest = newest_[number]; // of those that were put before
    const auto value = co_await client_.get(key(number), block);
    if (!value || value->version < newest || value->bytes.size() != value_max)
      throw std::logic_error("a value is missing or old");
    std::array<std::uint64_t, value_max / 8> words;
    std::memcpy(words.data(), value->bytes.data(), sizeof words);
    if (words[0] % (1 << 16) != number
      || std::ranges::count(words, words[0]) != std::ranges::ssize(words))
      throw std::logic_error("a value is another's or torn");
  }

  boost::asio::awaitable<void> call_often()
  {
    const rdma::registered_buffer block = context_.allocate(block_size);
    std::minstd_rand random(std::random_device{}());
    for (std::size_t i = 0; i != of_.operations; ++i)
    {
      const bool puts = random() % 100 < of_.puts_percent;
      const std::size_t number = random() % of_.keys;
      const auto begin = clock::now();
      if (puts)
        co_await put_next(number, block);
      else
        co_await get_right(number, block);
      (puts ? puts_ : gets_).push_back(clock::now() - begin);
    }
  }

  boost::asio::awaitable<void> call(std::size_t callers)
  {
    if (callers == 1)
      co_await call_often();
    else
    {
      using namespace boost::asio::experimental::awaitable_operators;
      co_await (call_often() && call(callers - 1));
    }
  }

  key_value_client& client_;
  const rdma::context& context_;
  const load_options& of_;
  std::vector<std::uint64_t> newest_; // versions of each key
  times gets_;
  times puts_;
  std::uint64_t last_ = 0;
};

} // namespace key_value

#endif // BOOST_RDMA_EXAMPLE_KEY_VALUE_SERVICE_LOAD_GENERATOR_HPP
