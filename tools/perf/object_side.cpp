//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Operations on remote objects, and calls of a server that do the same.

#include "perf/rdma_link.hpp"
#include "perf/side.hpp"

#include <boost_rdma/objects/map.hpp>
#include <boost_rdma/objects/remote_ring.hpp>
#include <boost_rdma/objects/ring.hpp>
#include <boost_rdma/objects/versioned.hpp>

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>
#include <variant>

namespace perf {
namespace {

struct sample
{
  std::array<std::uint64_t, 8> values;
};

struct small_record
{
  std::array<std::uint64_t, 2> values;
};

using sample_map = rdma::remote_map<std::uint64_t, std::uint64_t>;

// The map has as many entries as it is made for: 80 % of the slots that one read finds are used.
constexpr std::uint64_t entries = 5000;
constexpr std::size_t ring_capacity = 65'536;

std::uint64_t key(std::uint64_t number)
{
  return number % entries * 7919; // not adjacent
}

// The server owns an object, or memory to read from, and the client uses it.
class object_side final : public side
{
public:
  object_side(const test_case& what, bench::control_channel& control, bool server)
    : what_(what)
    , link_(io_, what, what.mode, control)
  {
    if (server)
    {
      control.send(make_object().encode());
      return;
    }
    rdma::remote_buffer::encoded handle{};
    if (!control.receive(handle))
      throw std::runtime_error("the other process has ended; see its message");
    open(rdma::remote_buffer::decode(handle));
  }

  ~object_side() override
  {
    link_.close();
    if (std::uncaught_exceptions() == 0) // else the handlers' frames are gone
    {
      io_.restart();
      io_.run();
    }
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    io_.restart();
    const clock::time_point begin = clock::now();
    if (what_.operation == operation::push)
      push(count);
    else
      one_by_one(count, latencies);
    const seconds elapsed = clock::now() - begin;
    io_.restart();
    peer().async_send(link_.local(0, 1), done); // the end
    io_.run();
    return elapsed;
  }

  void serve(std::uint64_t count, const std::function<void()>& ready) override
  {
    io_.restart();
    answer();
    ready();
    if (what_.operation == operation::push)
      pop(count);
    io_.run();
  }

  [[nodiscard]] std::string wire() const override { return link_.wire(); }

private:
  using own_map = rdma::map<std::uint64_t, std::uint64_t>;
  using own_ring = rdma::ring<small_record>;

  static void done(const rdma::error_code& ec, std::size_t) { check(ec); }

  rdma::queue_pair& peer() { return link_.peer(0); }
  [[nodiscard]] rdma::mutable_buffer incoming() const
  {
    return link_.local(link_.incoming(), what_.size);
  }

  rdma::remote_buffer make_object()
  {
    const rdma::context& context = context_of(what_.transport);
    switch (what_.operation)
    {
    case operation::load:
    case operation::store:
      return owned_.emplace<rdma::versioned<sample>>(io_, context).remote();
    case operation::find:
      return full(owned_.emplace<own_map>(io_, context, rdma::map_options{.capacity = entries}));
    case operation::push:
      return owned_.emplace<own_ring>(io_, context, ring_capacity).remote();
    default:
      return {};
    }
  }

  rdma::remote_buffer full(own_map& map)
  {
    for (std::uint64_t i = 0; i != entries; ++i)
    {
      map.async_insert(key(i), i, [](rdma::error_code ec, bool) { check(ec); });
      io_.run();
      io_.restart();
    }
    return map.remote();
  }

  // The client's end of the object.
  void open(const rdma::remote_buffer& memory)
  {
    const auto opened = [](auto& handle)
    {
      return [&handle](rdma::error_code ec, auto object)
      {
        check(ec);
        handle = std::move(object);
      };
    };
    switch (what_.operation)
    {
    case operation::load:
    case operation::store:
      rdma::remote_versioned<sample>::async_open(peer(), memory, opened(value_));
      break;
    case operation::find:
      sample_map::async_open(peer(), memory, opened(map_));
      break;
    case operation::push:
      rdma::remote_ring<small_record>::async_open(peer(), memory, opened(ring_));
      break;
    default:
      return;
    }
    io_.run();
  }

  void one_by_one(std::uint64_t count, histogram* latencies)
  {
    clock::time_point last = clock::now();
    std::uint64_t left = count;
    const std::function<void()> next = [&]
    {
      start(left,
        [&](rdma::error_code ec)
        {
          check(ec);
          if (latencies != nullptr)
          {
            const clock::time_point now = clock::now();
            latencies->record(
              static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last).count()));
            last = now;
          }
          if (--left != 0)
            next();
        });
    };
    next();
    io_.run();
  }

  template <class Handler>
  void start(std::uint64_t number, Handler handler)
  {
    switch (what_.operation)
    {
    case operation::load:
      return value_.async_load([handler](rdma::error_code ec, const auto&) { handler(ec); });
    case operation::store:
      return value_.async_store(
        sample{}, [handler](rdma::error_code ec, std::uint32_t) { handler(ec); });
    case operation::find:
      return map_.async_find(key(number),
        [handler](rdma::error_code ec, const auto& found)
        {
          if (!ec && !found)
            throw std::runtime_error("an entry of the map is missing");
          handler(ec);
        });
    case operation::call:
      peer().async_receive(
        incoming(), [handler](rdma::error_code ec, std::size_t) { handler(ec); });
      return peer().async_send(link_.local(0, sizeof(std::uint64_t)), done);
    default:
      return peer().async_read(link_.local(0, what_.size),
        link_.remote(number * 7919 % what_.buffers * what_.size, what_.size),
        [handler](rdma::error_code ec, std::size_t) { handler(ec); });
    }
  }

  // Ends when the server has taken all records.
  void push(std::uint64_t count)
  {
    std::uint64_t left = count;
    const std::function<void()> next = [&]
    {
      while (left != 0 && ring_.try_push(small_record{{left, 0}}))
        --left;
      if (left != 0)
        ring_.async_push(small_record{{left, 0}},
          [&](rdma::error_code ec)
          {
            check(ec);
            --left;
            next();
          });
    };
    peer().async_receive(incoming(), done);
    next();
    io_.run();
  }

  void pop(std::uint64_t count)
  {
    own_ring& ring = std::get<own_ring>(owned_);
    std::array<small_record, 256> some; // NOLINT: filled by pop_some()
    std::uint64_t expected = count;
    const auto take = [&expected](const small_record& each)
    {
      if (each.values.front() != expected--)
        throw std::runtime_error("a record of the ring is missing");
    };
    const std::function<void()> next = [&]
    {
      while (const std::size_t taken = ring.pop_some(some))
        std::for_each_n(some.begin(), taken, take);
      if (expected == 0)
        return peer().async_send(link_.local(0, what_.size), done);
      ring.async_pop(
        [&](rdma::error_code ec, const small_record& first)
        {
          check(ec);
          take(first);
          next();
        });
    };
    next();
    io_.run();
  }

  // Answers calls, until a message of one byte ends the case.
  void answer()
  {
    peer().async_receive(incoming(),
      [this](rdma::error_code ec, std::size_t size)
      {
        check(ec);
        if (size == 1)
          return;
        answer();
        peer().async_send(link_.local(0, what_.size), done);
      });
  }

  test_case what_;
  asio::io_context io_{1};
  rdma_link link_;
  std::variant<std::monostate, rdma::versioned<sample>, own_map, own_ring> owned_; // server
  rdma::remote_versioned<sample> value_;                                           // client
  sample_map map_;
  rdma::remote_ring<small_record> ring_;
};

} // namespace

std::unique_ptr<side> make_object_side(
  const test_case& what, bench::control_channel& control, bool server)
{
  return std::make_unique<object_side>(what, control, server);
}

} // namespace perf
