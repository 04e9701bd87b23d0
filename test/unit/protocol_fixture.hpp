//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_PROTOCOL_FIXTURE_HPP
#define BOOST_RDMA_TEST_UNIT_PROTOCOL_FIXTURE_HPP

#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"

#include "common/catch.hpp"
#include "common/shared_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

// A requester and a responder without a wire: tests pass frames and answers by hand.

namespace protocol_test {

using namespace rdma::software;
using namespace rdma::software::protocol;

inline constexpr std::uint32_t segment = 1024;

/// Message lengths around each boundary between two frames.
inline constexpr std::uint32_t split_lengths[] = {
  0, 1, segment - 1, segment, segment + 1, 2 * segment, 2 * segment + 1, 3 * segment};

struct recording_host final : host
{
  void send_completed(const ibv_wc& wc, std::uint64_t) override { sent.push_back(wc); }
  void receive_completed(const ibv_wc& wc, bool is_solicited) override
  {
    received.push_back(wc);
    solicited = is_solicited;
  }
  void raise(ibv_event_type type) override { events.push_back(type); }
  bool take_receive(receive_work& to) override
  {
    if (receives.empty())
      return false;
    to.id = 200;
    to.length = receives.front().length;
    to.elements = 1;
    to.storage[0] = receives.front();
    receives.pop_front();
    return true;
  }
  std::optional<std::uint64_t> posted_receives() noexcept override
  {
    return shares ? std::nullopt : std::optional<std::uint64_t>(receives.size());
  }

  bool select_queue(std::uint32_t number) noexcept override
  {
    selected.push_back(number);
    return number == queue;
  }

  std::uint32_t queue = 0; // XRC: the number of the only queue
  std::vector<std::uint32_t> selected;
  bool shares = false; // the receive queue, with other queue pairs
  std::vector<ibv_wc> sent;
  std::vector<ibv_wc> received;
  bool solicited = false;
  std::vector<ibv_event_type> events;
  std::deque<ibv_sge> receives;
};

/// Four pages of registered memory, and the parameters of a queue pair that may use them.
struct registered_memory
{
  registered_memory()
  {
    with.keys = &keys;
    with.pd = with.receive_pd = &pd;
    with.qp = 5;
    with.peer_qp = 6;
    with.segment = segment;
    with.rnr_retry = 7;
    with.max_read_atomic = 2;
    with.max_peer_read_atomic = 1;
    with.access = remote;
    slot = keys.allocate(key);
    slot->memory = bytes.data();
    slot->address = begin();
    slot->length = bytes.size();
    slot->shared = {0, bytes.size(), bytes.data()};
    slot->pd = &pd;
    slot->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | remote;
    key_table::publish(*slot, key);
  }

  std::uint64_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes.data()); }

  /// A window that queue pair 5 has bound to the first page. Returns its key.
  std::uint32_t bind()
  {
    std::uint32_t first = 0;
    window = keys.allocate(first);
    window->window = window->type2 = true;
    window->pd = &pd;
    window->first_key = first;
    REQUIRE(bind_window(
      keys, {first, key, IBV_ACCESS_REMOTE_WRITE, begin(), 4096}, first ^ 1, &pd, with.qp));
    return first ^ 1;
  }

  static constexpr unsigned remote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  key_table keys;
  ibv_pd pd{};
  std::uint32_t key = 0;
  key_slot* slot = nullptr;
  key_slot* window = nullptr;
  test::shared_bytes bytes{16384}; // a peer on this host may be granted it
  parameters with;
  recording_host told;
};

struct sender : registered_memory
{
  explicit sender(service kind = service_rc)
  {
    with.kind = kind;
    requests.start();
  }

  send_request& post(ibv_wr_opcode what, std::uint32_t length)
  {
    const std::uint64_t index = queue.posted.load();
    send_request& r = *queue.enter(index);
    r.id = 100 + index;
    r.opcode = what;
    r.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    r.immediate = 0x1234;
    r.rkey = 77;
    r.remote = 0x10000;
    r.length = length;
    r.elements = 1;
    r.elements_begin()[0] = {begin(), length, key};
    queue.posted.store(index + 1);
    return r;
  }

  /// Returns the next frame and marks it as sent.
  frame take()
  {
    frame f;
    REQUIRE(requests.next(f));
    requests.sent(f);
    return f;
  }

  /// Sends all that may be sent now.
  std::vector<frame> take_all()
  {
    std::vector<frame> all;
    for (frame f; requests.next(f); all.push_back(f))
      requests.sent(f);
    return all;
  }

  verdict answer(std::uint8_t syndrome, std::uint32_t psn, opcode what = opcode::acknowledge,
    std::uint32_t payload = 0)
  {
    header h;
    h.op = what;
    h.dest_qp = with.qp;
    h.psn = psn;
    h.syndrome = syndrome;
    h.payload = payload;
    h.swap_add = 4711;
    return requests.receive(h);
  }

  send_queue queue{4, sizeof(ibv_sge)};
  requester requests{queue, with, told};
};

struct target : registered_memory
{
  explicit target(service kind = service_rc)
  {
    with.kind = kind;
    answers.start();
  }

  void post_receive(std::uint32_t length) { told.receives.push_back({begin(), length, key}); }

  /// A request for the beginning of the memory, with the next PSN.
  header request(opcode what, std::uint32_t length, std::uint32_t payload = 0) const
  {
    header h;
    h.op = what;
    h.ack_request = true;
    h.solicited = true;
    h.psn = psn;
    h.address = begin();
    h.key = key;
    h.length = length;
    h.payload = payload;
    h.immediate = 0x1234;
    h.swap_add = 5;
    return h;
  }

  /// Receives a frame; its payload is a count of bytes that begins at `first`.
  verdict take(const header& h, unsigned first = 0)
  {
    verdict what = answers.receive(h);
    ++psn;
    if (what != verdict::accept)
      return what;
    for (std::uint32_t offset = 0; offset != h.payload;)
    {
      pinned_buffers to;
      std::uint64_t done = 0;
      if (!answers.place(offset, h.payload - offset, to, done))
      {
        answers.unplaceable(detail_local_key);
        return verdict::discard;
      }
      REQUIRE(done != 0);
      auto* at = static_cast<std::byte*>(to.data()->iov_base);
      for (std::uint64_t i = 0; i != done; ++i)
        at[i] = static_cast<std::byte>(first + offset + i);
      offset += static_cast<std::uint32_t>(done);
    }
    return answers.finish();
  }

  /// The next read or atomic response or refusal.
  header next_answer()
  {
    frame f;
    REQUIRE(answers.next(f));
    const auto h = decode({f.bytes.data(), f.header_size});
    REQUIRE(h);
    return *h;
  }

  std::uint32_t psn = 0;
  responder answers{with, told, 1};
};

} // namespace protocol_test

#endif // BOOST_RDMA_TEST_UNIT_PROTOCOL_FIXTURE_HPP
