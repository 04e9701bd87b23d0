//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/processor_sharing.hpp"
#include "perf/rdma_link.hpp"
#include "perf/side.hpp"

#include <boost_rdma/native.hpp>

#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace perf {
namespace {

[[noreturn]] void fail(int error, const char* what)
{
  throw std::system_error(error, std::generic_category(), what);
}

// Verbs calls on queue pairs that the library created and connected but does not use any more:
// their completion queue is manual. The difference to library_side is the library's overhead.
class raw_side final : public side
{
public:
  raw_side(const test_case& what, bench::control_channel& control)
    : what_(what)
    , link_(io_, what, rdma::completion_mode::manual, control)
    , key_index_(context_of(what.transport).default_device().kind() == rdma::device_kind::nic
          ? rdma::detail::nic_index
          : rdma::detail::software_index)
    // No public function returns a region's local key.
    , local_key_(link_.memory().registration()->local_keys[key_index_])
    , requests_(what.batch)
    , pieces_(what.batch)
  {
    for (std::uint32_t i = 0; i < what.queue_pairs; ++i)
      pairs_.push_back(link_.peer(i).native_handle());
    max_inline_ = link_.peer(0).options().max_inline_data; // the library's value
  }

  ~raw_side() override
  {
    link_.close();
    io_.run();
  }

  seconds run(std::uint64_t count, histogram* latencies) override
  {
    const clock::time_point begin = clock::now();
    if (what_.measure == measure::latency)
      one_at_a_time(count, latencies);
    else
      in_flight(count);
    const seconds elapsed = clock::now() - begin;
    if (what_.operation != operation::send)
    {
      post(0, 0, operation::send, 0);
      wait_for(1, IBV_WC_SEND);
    }
    return elapsed;
  }

  void serve(std::uint64_t count, const std::function<void()>& ready) override
  {
    if (what_.operation != operation::send)
    {
      receive(0, 0);
      ready();
      wait_for(1, IBV_WC_RECV);
    }
    else if (what_.measure == measure::latency)
    {
      receive(0, what_.size);
      ready();
      for (std::uint64_t i = 0; i < count; ++i)
      {
        wait_for(1, IBV_WC_RECV);
        if (i + 1 < count)
          receive(0, what_.size);
        post(0, 0, what_.operation, what_.size);
      }
      wait_for_sends();
    }
    else
      take_all(count, ready);
  }

  [[nodiscard]] std::string wire() const override { return link_.wire(); }
  [[nodiscard]] std::uint64_t unit() const override
  {
    return std::uint64_t{what_.batch} * what_.queue_pairs;
  }

private:
  void receive(std::size_t pair, std::uint32_t size, std::uint64_t index = 0)
  {
    const std::size_t offset = link_.incoming() + index % what_.buffers * what_.size;
    ibv_sge buffer{
      reinterpret_cast<std::uint64_t>(link_.memory().data() + offset), size, local_key_};
    ibv_recv_wr request{};
    request.wr_id = pair;
    request.sg_list = &buffer;
    request.num_sge = size != 0 ? 1 : 0;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pairs_[pair], &request, &bad); error != 0)
      fail(error, "ibv_post_recv");
  }

  // Posts `batch` requests with one doorbell; the last one is signalled.
  void post(std::size_t pair, std::uint64_t index, operation what, std::uint32_t size)
  {
    const std::size_t batch = size != 0 ? what_.batch : 1;
    for (std::size_t i = 0; i < batch; ++i)
    {
      const std::size_t offset = (index + i) % what_.buffers * what_.size;
      ibv_send_wr& request = requests_[i];
      request.wr_id = pair;
      request.next = i + 1 < batch ? &requests_[i + 1] : nullptr;
      pieces_[i] = {
        reinterpret_cast<std::uint64_t>(link_.memory().data() + offset), size, local_key_};
      request.sg_list = &pieces_[i];
      request.num_sge = size != 0 ? 1 : 0;
      request.send_flags = i + 1 < batch ? 0u : static_cast<unsigned>(IBV_SEND_SIGNALED);
      const rdma::remote_buffer remote = link_.remote(offset, size);
      const std::uint32_t remote_key = remote.key(key_index_);
      switch (what)
      {
      case operation::send:
        request.opcode = IBV_WR_SEND;
        break;
      case operation::write:
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma = {remote.address(), remote_key};
        break;
      case operation::read:
        request.opcode = IBV_WR_RDMA_READ;
        request.wr.rdma = {remote.address(), remote_key};
        break;
      case operation::fetch_add:
        request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        request.wr.atomic = {remote.address(), 1, 0, remote_key};
        break;
      default:
        throw std::logic_error("not an operation of verbs");
      }
      if (size <= max_inline_ && (what == operation::send || what == operation::write))
        request.send_flags |= IBV_SEND_INLINE;
    }
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(pairs_[pair], requests_.data(), &bad); error != 0)
      fail(error, "ibv_post_send");
    ++sends_;
  }

  // Polls for completions of sends and receives, as many at a time as the library.
  std::span<const ibv_wc> poll()
  {
    const int count = ibv_poll_cq(
      pairs_.front()->send_cq, static_cast<int>(completions_.size()), completions_.data());
    if (count < 0)
      fail(EIO, "ibv_poll_cq");
    // As the library does: a peer of the software device may need this processor to answer.
    if (count == 0 && software_ && ++in_vain_ % 16 == 0)
      sharing_.offer(clock::now());
    const std::span<const ibv_wc> found(completions_.data(), static_cast<std::size_t>(count));
    for (const ibv_wc& each : found)
    {
      if (each.status != IBV_WC_SUCCESS)
        throw std::runtime_error(
          "a raw verbs work request failed with status " + std::to_string(each.status));
      if ((each.opcode & IBV_WC_RECV) == 0)
        --sends_;
    }
    return found;
  }

  void wait_for(std::uint64_t count, ibv_wc_opcode opcode)
  {
    while (count != 0)
      for (const ibv_wc& each : poll())
        count -= each.opcode == opcode ? 1 : 0;
  }

  void wait_for_sends()
  {
    while (sends_ != 0)
      poll();
  }

  void one_at_a_time(std::uint64_t count, histogram* latencies)
  {
    const bool there_and_back = what_.operation == operation::send;
    clock::time_point last = clock::now();
    for (std::uint64_t i = 0; i < count; ++i)
    {
      if (there_and_back)
        receive(0, what_.size);
      post(0, i, what_.operation, what_.size);
      if (there_and_back)
        wait_for(1, IBV_WC_RECV);
      else
        wait_for_sends();
      if (latencies != nullptr)
      {
        const clock::time_point now = clock::now();
        const auto time = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last).count());
        latencies->record(there_and_back ? time / 2 : time);
        last = now;
      }
    }
    wait_for_sends();
  }

  void in_flight(std::uint64_t count)
  {
    const std::uint64_t each = count / what_.queue_pairs / what_.batch;
    std::vector<std::uint64_t> posted(what_.queue_pairs);
    const auto next = [&](std::size_t pair)
    { post(pair, posted[pair]++ * what_.batch, what_.operation, what_.size); };
    for (std::size_t pair = 0; pair < what_.queue_pairs; ++pair)
      while (posted[pair] < std::min<std::uint64_t>(what_.depth, each))
        next(pair);
    for (std::uint64_t left = each * what_.queue_pairs; left != 0;)
      for (const ibv_wc& completion : poll())
      {
        --left;
        if (posted[completion.wr_id] < each)
          next(completion.wr_id);
      }
  }

  void take_all(std::uint64_t count, const std::function<void()>& ready)
  {
    const std::uint64_t each = count / what_.queue_pairs;
    std::vector<std::uint64_t> posted(what_.queue_pairs);
    for (std::size_t pair = 0; pair < what_.queue_pairs; ++pair)
      while (posted[pair] < std::min<std::uint64_t>(link_.receive_depth(), each))
        receive(pair, what_.size, posted[pair]++);
    ready();
    for (std::uint64_t left = each * what_.queue_pairs; left != 0;)
      for (const ibv_wc& completion : poll())
      {
        --left;
        if (posted[completion.wr_id] < each)
          receive(completion.wr_id, what_.size, posted[completion.wr_id]++);
      }
  }

  test_case what_;
  asio::io_context io_{1};
  rdma_link link_;
  std::size_t key_index_;
  std::uint32_t local_key_;
  bool software_ = transports()[what_.transport].software;
  std::uint32_t max_inline_ = 0;
  std::vector<ibv_qp*> pairs_;
  std::vector<ibv_send_wr> requests_; // zeroed once, as in perftest: it takes as long as the write
  std::vector<ibv_sge> pieces_;
  std::array<ibv_wc, 32> completions_;
  unsigned in_vain_ = 0;
  rdma::detail::processor_sharing sharing_;
  std::uint64_t sends_ = 0; // signalled, not completed
};

} // namespace

std::unique_ptr<side> make_raw_side(const test_case& what, bench::control_channel& control)
{
  return std::make_unique<raw_side>(what, control);
}

} // namespace perf
