//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_ATTACKED_QUEUE_PAIR_HPP
#define BOOST_RDMA_TEST_UNIT_ATTACKED_QUEUE_PAIR_HPP

#include "unit/protocol_fixture.hpp"

#include "common/dice.hpp"
#include "fuzzing/common/require.hpp"
#include "verbs/software/memory/grant_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

// A queue pair's program and its peer, for any wire.

namespace protocol_test {

/// Only this part of the memory is registered. The bytes behind it must never change.
inline constexpr std::size_t exposed = 8192;
inline constexpr std::uint32_t depth = 4; // of the send queue

/// The program of a queue pair, and what must hold after each step. `Queue_pair` is a
/// registered_memory with a send queue and both state machines.
template <class Queue_pair>
class attacked_program
{
public:
  attacked_program(Queue_pair& of, test::dice& random)
    : of_(of)
    , random_(random)
  {
    of.slot->length = exposed;
    of.slot->shared.length = exposed;
    of.with.rnr_retry = static_cast<std::uint8_t>(random.any(0, 7));
    of.with.max_read_atomic = static_cast<std::uint8_t>(random.any(0, 3));
    of.told.shares = random.one_in(4);
    std::ranges::fill(guard(), canary);
  }

  void post_send()
  {
    static constexpr ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
      IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND_WITH_INV};
    static constexpr std::uint32_t lengths[] = {0, 1, 8, 44, 64, 1000, 1024, 1025, 3000, exposed};
    if (posted_ - of_.told.sent.size() == depth)
      return;
    of_.queue.take_back(of_.told.sent.size());
    send_request& r = *of_.queue.enter(posted_);
    r = {};
    r.id = posted_;
    r.opcode = opcodes[random_() % std::size(opcodes)];
    r.flags = IBV_SEND_SIGNALED | (random_.one_in(8) ? unsigned{IBV_SEND_FENCE} : 0u);
    r.rkey = peers_key;
    r.remote = peers_address + random_() % 16 * 8;
    r.length = r.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r.opcode == IBV_WR_ATOMIC_CMP_AND_SWP
      ? 8
      : lengths[random_() % std::size(lengths)];
    r.elements = 1;
    r.elements_begin()[0] = {of_.begin() + (exposed - r.length) / 8 * (random_() % 9),
      static_cast<std::uint32_t>(r.length), of_.key ^ (random_.one_in(30) ? 1 : 0)};
    of_.queue.posted.store(++posted_);
  }

  void post_receive()
  {
    if (of_.told.receives.size() == depth)
      return;
    const auto length = static_cast<std::uint32_t>(random_.one_in(2) ? exposed : random_() % 100);
    // It ends where the registered memory ends.
    of_.told.receives.push_back({of_.begin() + exposed - length, length, of_.key});
    lengths_.push_back(length);
    if (of_.answers.awaits_receive())
      of_.answers.receive_posted();
  }

  /// Binds a window, and returns its key, or deregisters the memory, whichever comes first: memory
  /// with windows cannot be deregistered.
  std::uint32_t bind_or_withdraw()
  {
    if (std::exchange(changed_, true))
      return 0;
    if (random_.one_in(2))
      return of_.bind();
    grant_table* const book = of_.slot->book.load();
    key_table::revoke(*of_.slot);
    if (book != nullptr)
      book->revoke(*of_.slot);
    return 0;
  }

  void check()
  {
    const auto& sent = of_.told.sent;
    test::require(sent.size() <= posted_, "only requests that were posted complete");
    for (; checked_ != sent.size(); ++checked_)
    {
      const ibv_wc& wc = sent[checked_];
      test::require(wc.wr_id == checked_, "requests complete in their order, once");
      test::require(wc.status != IBV_WC_SUCCESS || !failed_, "nothing succeeds after a failure");
      test::require(wc.status != IBV_WC_SUCCESS || checked_ < of_.requests.begun_below(),
        "nothing succeeds that was not sent");
      failed_ = failed_ || wc.status != IBV_WC_SUCCESS;
    }
    test::require(of_.told.received.size() + of_.told.receives.size() <= lengths_.size(),
      "a receive completes once");
    for (; checked_receives_ != of_.told.received.size(); ++checked_receives_)
    {
      const ibv_wc& wc = of_.told.received[checked_receives_];
      test::require(wc.status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM
          || wc.byte_len <= lengths_[checked_receives_],
        "a message is not longer than its receive");
    }
  }

  [[nodiscard]] bool is_over() const { return of_.requests.failed() || of_.answers.failed(); }

  /// The queue pair has entered the error state, and its wire is closed.
  void end()
  {
    of_.requests.halt();
    of_.requests.flush();
    of_.answers.flush();
    check();
    test::require(of_.told.sent.size() == posted_, "every request completes");
    test::require(of_.told.received.size() + of_.told.receives.size() == lengths_.size(),
      "every receive that was taken completes");
    test::require(std::ranges::all_of(guard(), [](std::byte each) { return each == canary; }),
      "memory that is not registered does not change");
  }

  static constexpr std::uint32_t peers_key = 77;
  static constexpr std::uint64_t peers_address = 0x10000;

private:
  static constexpr std::byte canary{0xa5};

  [[nodiscard]] std::span<std::byte> guard() const
  {
    return std::span<std::byte>(of_.bytes).subspan(exposed);
  }

  Queue_pair& of_;
  test::dice& random_;
  std::uint64_t posted_ = 0;
  std::uint64_t checked_ = 0;
  std::vector<std::uint32_t> lengths_; // of all receives
  std::size_t checked_receives_ = 0;
  bool failed_ = false;
  bool changed_ = false; // windows or deregistration
};

/// The peer's frames: usually the next ones, with some fields that are wrong. `Target` has the
/// members `with`, `key` and `begin()` of a registered_memory.
struct attacking_peer
{
  std::uint32_t request_psn = 0;  ///< of its next request
  std::uint32_t answered_psn = 0; ///< the last one of the program that it has seen
  bool may_acknowledge = false;   ///< it has seen requests, and none that has a response
  std::uint32_t window_key = 0;

  template <class Target>
  header request(const Target& of, test::dice& random)
  {
    static constexpr opcode opcodes[] = {opcode::send_first, opcode::send_middle, opcode::send_last,
      opcode::send_last_immediate, opcode::send_only, opcode::send_only_immediate,
      opcode::write_first, opcode::write_middle, opcode::write_last, opcode::write_last_immediate,
      opcode::write_only, opcode::write_only_immediate, opcode::read_request, opcode::compare_swap,
      opcode::fetch_add, opcode::send_last_invalidate, opcode::send_only_invalidate,
      opcode::atomic_write};
    header h = frame(of, random, request_psn);
    h.op = opcodes[random() % std::size(opcodes)];
    h.ack_request = !random.one_in(3);
    const unsigned traits = traits_of(h.op);
    if ((traits & trait_payload) == 0)
      h.payload = 0;
    h.key = random.one_in(10)               ? random()
      : window_key != 0 && random.one_in(2) ? window_key
                                            : of.key;
    h.address = of.begin() + (random.one_in(4) ? random() : random() % 9 * 1024);
    h.length = random.one_in(4) ? random() : (traits & trait_ends) != 0 ? h.payload : 2000;
    if (h.op == opcode::read_request)
      h.length = random.one_in(10) ? random() : static_cast<std::uint32_t>(random.any(0, 5000));
    h.swap_add = h.compare = random() % 3;
    request_psn =
      psn_add(h.psn, h.op == opcode::read_request ? frame_count(h.length, of.with.segment) : 1);
    return h;
  }

  template <class Target>
  header response(const Target& of, test::dice& random) const
  {
    static constexpr opcode opcodes[] = {opcode::acknowledge, opcode::acknowledge,
      opcode::read_response_first, opcode::read_response_middle, opcode::read_response_last,
      opcode::read_response_only, opcode::atomic_acknowledge};
    static constexpr std::uint8_t syndromes[] = {syndrome_ack, 0, 2, syndrome_rnr | 1, nak_sequence,
      nak_invalid_request, nak_remote_access, nak_remote_operation};
    header h = frame(of, random, answered_psn);
    h.op = opcodes[random() % std::size(opcodes)];
    if ((traits_of(h.op) & trait_payload) == 0)
      h.payload = 0;
    h.syndrome = random.one_in(10) ? static_cast<std::uint8_t>(random())
                                   : syndromes[random() % std::size(syndromes)];
    h.msn = random() % 8;
    return h;
  }

  /// Looks at a frame of the program.
  void see(std::span<const std::byte> bytes)
  {
    header_bytes copied{}; // the bytes may be rewritten meanwhile
    const std::size_t there = std::min(bytes.size(), copied.size());
    std::copy_n(bytes.begin(), there, copied.begin());
    const std::size_t size = header_size(static_cast<std::uint8_t>(copied[0]));
    if (size == 0 || size > there)
      return;
    if (const auto h = decode({copied.data(), size}); h && (traits_of(h->op) & trait_request) != 0)
    {
      answered_psn = h->psn;
      asks_ = asks_ || h->op == opcode::read_request || (traits_of(h->op) & trait_atomic) != 0;
      may_acknowledge = !asks_;
    }
  }

private:
  template <class Target>
  static header frame(const Target& of, test::dice& random, std::uint32_t psn)
  {
    static constexpr std::uint32_t payloads[] = {0, 1, 8, 64, 976, 1000, segment, segment};
    header h;
    h.kind = random.one_in(30) ? service_uc : of.with.kind;
    h.dest_qp = of.with.qp ^ (random.one_in(30) ? 1 : 0);
    h.psn = psn_add(psn, random.one_in(6) ? random() % 7 - 3 : 0);
    h.solicited = random.one_in(4);
    h.payload = random.one_in(30) ? random() % 70'000 : payloads[random() % std::size(payloads)];
    return h;
  }

  bool asks_ = false;
};

} // namespace protocol_test

#endif // BOOST_RDMA_TEST_UNIT_ATTACKED_QUEUE_PAIR_HPP
