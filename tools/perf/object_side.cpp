//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Operations on remote objects, and calls of a server that do the same.

#include "perf/rdma_link.hpp"
#include "perf/side.hpp"

#include <boost_rdma/objects/versioned.hpp>

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace perf {
namespace {

class object_side final : public side
{
public:
  object_side(const test_case& what, bench::control_channel& control, bool server)
    : what_(what)
    , link_(io_, what, what.mode, control)
    , value_(io_, context_of(what.transport))
  {
    control.send(value_.remote().encode());
    rdma::remote_buffer::encoded handle{};
    if (!control.receive(handle))
      throw std::runtime_error("the other process has ended; see its message");
    if (!server)
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
    clock::time_point last = begin;
    std::uint64_t left = count;
    const std::function<void()> next = [&]
    {
      start(
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
    const seconds elapsed = clock::now() - begin;
    io_.restart();
    peer().async_send(link_.local(0, 1), done); // the end
    io_.run();
    return elapsed;
  }

  // Answers calls, until a message of one byte ends the case.
  void serve(std::uint64_t, const std::function<void()>& ready) override
  {
    io_.restart();
    const std::function<void()> next = [&]
    {
      peer().async_receive(incoming(),
        [&](rdma::error_code ec, std::size_t size)
        {
          check(ec);
          if (size == 1)
            return;
          next();
          peer().async_send(link_.local(0, what_.size), done);
        });
    };
    next();
    ready();
    io_.run();
  }

  [[nodiscard]] std::string wire() const override { return link_.wire(); }

private:
  struct sample
  {
    std::array<std::uint64_t, 8> values;
  };

  static void done(const rdma::error_code& ec, std::size_t) { check(ec); }

  rdma::queue_pair& peer() { return link_.peer(0); }
  [[nodiscard]] rdma::mutable_buffer incoming() const
  {
    return link_.local(link_.incoming(), what_.size);
  }

  void open(const rdma::remote_buffer& memory)
  {
    rdma::remote_versioned<sample>::async_open(peer(), memory,
      [this](rdma::error_code ec, const rdma::remote_versioned<sample>& opened)
      {
        check(ec);
        remote_ = opened;
      });
    io_.run();
  }

  template <class Handler>
  void start(Handler handler)
  {
    switch (what_.operation)
    {
    case operation::load:
      return remote_.async_load([handler](rdma::error_code ec, const auto&) { handler(ec); });
    case operation::store:
      return remote_.async_store(
        sample{}, [handler](rdma::error_code ec, std::uint32_t) { handler(ec); });
    case operation::call:
      peer().async_receive(
        incoming(), [handler](rdma::error_code ec, std::size_t) { handler(ec); });
      return peer().async_send(link_.local(0, sizeof(std::uint64_t)), done);
    default:
      return peer().async_read(link_.local(0, what_.size), link_.remote(0, what_.size),
        [handler](rdma::error_code ec, std::size_t) { handler(ec); });
    }
  }

  test_case what_;
  asio::io_context io_{1};
  rdma_link link_;
  rdma::versioned<sample> value_;
  rdma::remote_versioned<sample> remote_;
};

} // namespace

std::unique_ptr<side> make_object_side(
  const test_case& what, bench::control_channel& control, bool server)
{
  return std::make_unique<object_side>(what, control, server);
}

} // namespace perf
