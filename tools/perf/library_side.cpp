//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/pipeline.hpp"
#include "perf/rdma_link.hpp"
#include "perf/side.hpp"
#include "perf/turns.hpp"

#include <boost_rdma/batch.hpp>

#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace perf {
namespace {

// This library, through its Asio operations, on one io_context thread.
class library_side final : public side
{
public:
  library_side(const test_case& what, bench::control_channel& control)
    : what_(what)
    , link_(io_, what, what.mode, control)
  {
  }

  ~library_side() override
  {
    link_.close();
    // During stack unwinding the handlers' frames are gone, and they would only report follow-up
    // errors.
    if (std::uncaught_exceptions() == 0)
    {
      io_.restart();
      io_.run();
    }
  }

  // The interface that turns.hpp requires.
  asio::io_context& io() { return io_; }
  template <class CompletionToken>
  auto receive(CompletionToken&& token)
  {
    return peer().async_receive(
      link_.local(link_.incoming(), what_.size), std::forward<CompletionToken>(token));
  }
  template <class CompletionToken>
  auto send(CompletionToken&& token)
  {
    return peer().async_send(link_.local(0, what_.size), std::forward<CompletionToken>(token));
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    if (what_.measure == measure::latency && what_.operation == operation::send)
      return take_turns(*this, what_.token, count, true, latencies, [] {});
    const seconds elapsed =
      what_.measure == measure::latency ? one_at_a_time(count, latencies) : in_flight(count);
    if (what_.operation != operation::send)
      notify_server();
    return elapsed;
  }

  void serve(std::uint64_t count, const std::function<void()>& ready) override
  {
    if (what_.operation != operation::send)
      await_end(ready);
    else if (what_.measure == measure::latency)
      take_turns(*this, what_.token, count, false, nullptr, ready);
    else
      take_all(count, ready);
  }

  [[nodiscard]] std::string wire() const override { return link_.wire(); }
  [[nodiscard]] std::uint64_t unit() const override
  {
    return std::uint64_t{what_.batch} * what_.queue_pairs;
  }

private:
  rdma::queue_pair& peer(std::size_t i = 0) { return link_.peer(i); }

  template <class Handler>
  void start(rdma::queue_pair& peer, std::uint64_t index, Handler handler)
  {
    const std::size_t offset = index % what_.buffers * what_.size;
    switch (what_.operation)
    {
    case operation::send:
      return peer.async_send(link_.local(offset, what_.size), handler);
    case operation::write:
      return peer.async_write(
        link_.local(offset, what_.size), link_.remote(offset, what_.size), handler);
    case operation::read:
      return peer.async_read(
        link_.local(offset, what_.size), link_.remote(offset, what_.size), handler);
    case operation::fetch_add:
      return peer.async_fetch_add(link_.remote(0, sizeof(std::uint64_t)), 1, handler);
    default:
      throw std::logic_error("not an operation of a queue pair");
    }
  }

  seconds one_at_a_time(std::uint64_t count, histogram* latencies)
  {
    io_.restart();
    const clock::time_point begin = clock::now();
    clock::time_point last = begin;
    std::uint64_t left = count;
    const std::function<void()> next = [&]
    {
      start(peer(), left,
        [&](rdma::error_code ec, std::uint64_t)
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
    return clock::now() - begin;
  }

  seconds in_flight(std::uint64_t count)
  {
    io_.restart();
    const std::uint64_t each = count / what_.queue_pairs;
    if (what_.batch > 1)
      return batches_in_flight(each / what_.batch);
    const clock::time_point begin = clock::now();
    const auto starter = [this](std::size_t i)
    { return [this, i](std::uint64_t index, auto handler) { start(peer(i), index, handler); }; };
    std::deque<pipeline<decltype(starter(0))>> pipelines; // which do not move
    for (std::size_t i = 0; i < what_.queue_pairs; ++i)
      pipelines.emplace_back(what_.depth, each, starter(i));
    io_.run();
    return clock::now() - begin;
  }

  seconds batches_in_flight(std::uint64_t each)
  {
    if (batches_.empty())
      make_batches();
    const clock::time_point begin = clock::now();
    const auto starter = [this](std::size_t i)
    {
      return [this, i](std::uint64_t index, auto handler)
      {
        // Batches complete in order, so the batch of `depth` submissions ago has completed.
        peer(i).async_submit(batches_[index % what_.depth], handler);
      };
    };
    std::deque<pipeline<decltype(starter(0))>> pipelines;
    for (std::size_t i = 0; i < what_.queue_pairs; ++i)
      pipelines.emplace_back(what_.depth, each, starter(i));
    io_.run();
    return clock::now() - begin;
  }

  void make_batches()
  {
    // A batch belongs to one queue pair, so several queue pairs cannot share them.
    if ((what_.operation != operation::write && what_.operation != operation::read)
      || what_.queue_pairs != 1)
      throw std::logic_error("batches are of writes or reads on one queue pair");
    batches_.resize(what_.depth);
    std::uint64_t index = 0;
    for (rdma::batch& each : batches_)
      for (std::uint32_t i = 0; i < what_.batch; ++i)
      {
        const std::size_t offset = index++ % what_.buffers * what_.size;
        if (what_.operation == operation::read)
          each.read(link_.local(offset, what_.size), link_.remote(offset, what_.size));
        else
          each.write(link_.local(offset, what_.size), link_.remote(offset, what_.size));
      }
  }

  void take_all(std::uint64_t count, const std::function<void()>& ready)
  {
    io_.restart();
    const auto starter = [this](std::size_t i)
    {
      return [this, i](std::uint64_t index, auto handler)
      {
        const std::size_t offset = link_.incoming() + index % what_.buffers * what_.size;
        peer(i).async_receive(link_.local(offset, what_.size), handler);
      };
    };
    std::deque<pipeline<decltype(starter(0))>> pipelines;
    for (std::size_t i = 0; i < what_.queue_pairs; ++i)
      pipelines.emplace_back(link_.receive_depth(), count / what_.queue_pairs, starter(i));
    ready();
    io_.run();
  }

  // For one-sided operations: the server takes no part and waits for a message that they are
  // complete.
  void notify_server()
  {
    io_.restart();
    peer().async_send(rdma::no_data, sent);
    io_.run();
  }

  void await_end(const std::function<void()>& ready)
  {
    io_.restart();
    peer().async_receive(rdma::no_data, sent);
    ready();
    io_.run();
  }

  test_case what_;
  asio::io_context io_{1};
  rdma_link link_;
  std::vector<rdma::batch> batches_;
};

} // namespace

std::unique_ptr<side> make_library_side(const test_case& what, bench::control_channel& control)
{
  return std::make_unique<library_side>(what, control);
}

} // namespace perf
