//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SIMULATED_PROGRAM_HPP
#define BOOST_RDMA_TEST_UNIT_SIMULATED_PROGRAM_HPP

#include "common/catch.hpp"
#include "common/shared_bytes.hpp"
#include "verbs/software/memory/grant_table.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

// The programs of a reliable connection that is simulated, without its wire. An oracle checks the
// rules of IBA chapter 9.

namespace simulation {

using namespace rdma::software;
using namespace rdma::software::protocol;

inline constexpr std::uint32_t depth = 16;       // of the send queue
inline constexpr std::size_t place_size = 49152; // room for one message
inline constexpr std::size_t places = 8;         // that the peer writes and reads
inline constexpr std::uint64_t counter_at = places * place_size;
inline constexpr std::uint32_t shared_queue = 7; // XRC
inline constexpr std::byte poison{0xee}; // the content of memory that must not be accessed any more

/// The bytes of message `id`: its first 8 bytes are the id.
inline std::byte byte_of(std::uint64_t id, std::size_t at)
{
  return at < sizeof id ? static_cast<std::byte>(id >> (8 * at))
                        : static_cast<std::byte>(id * 131 + at * 7 + (at >> 8));
}

inline std::uint64_t id_at(const std::byte* at)
{
  std::uint64_t id = 0;
  std::memcpy(&id, at, sizeof id);
  return id;
}

/// A request that the simulated program has posted, and what the oracle knows of it.
struct posted
{
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint32_t length = 0;
  std::size_t place = 0;                    // writes and reads
  std::uint64_t written_before = 0;         // reads: the id of the last write to the place
  std::uint64_t written_after = UINT64_MAX; // reads: the id of the first write behind a fence
  std::uint64_t counted_before = 0;         // atomics
  bool fenced = false;                      // reads: a later request waits for it
  bool signalled = false;
};

/// The requests that one end has posted. The other end reads them too: one program simulates both.
struct message_log
{
  std::vector<posted> all; // by id
};

/// Conditions that ends have met.
struct coverage
{
  std::uint64_t steps = 0;
  unsigned full_rings = 0;
  unsigned refused_bells = 0; // by a full socket
  unsigned rnr_waits = 0;
  unsigned rnr_failures = 0; // the limit of retries was reached
  unsigned remote_failures = 0;
  unsigned local_failures = 0;
  unsigned lost_peers = 0;
};

/// Memory of an end, whose key can be withdrawn.
struct region
{
  std::span<std::byte> bytes;
  key_slot* slot = nullptr;
  std::uint32_t key = 0;
  bool withdrawn = false;

  /// The bytes must not change or be read afterwards.
  void withdraw()
  {
    if (std::exchange(withdrawn, true))
      return;
    grant_table* const book = slot->book.load();
    key_table::revoke(*slot);
    if (book != nullptr)
      book->revoke(*slot);
    std::ranges::fill(bytes, poison);
  }

  void check() const
  {
    if (withdrawn)
      REQUIRE(
        std::ranges::all_of(bytes, [](std::byte each) { return each == poison; })); // no access
  }
};

/// A queue pair, its memory, and the program that uses it. The oracle checks what it sees.
class program : public host
{
public:
  struct kind
  {
    std::uint32_t segment = 0;
    std::uint8_t rnr_retry = 7;    ///< 7: no limit
    std::uint8_t rnr_timer = 0;    ///< code of IBA table 45
    bool shares = false;           ///< it announces no credits, as with a shared receive queue
    bool is_xrc = false;           ///< then it shares, too
    bool has_direct_access = true; ///< to its memory; otherwise everything travels in frames
  };

  program(std::uint32_t number, std::uint32_t peer, const kind& is, coverage& found)
    : is_(is)
    , found_(found)
    , memory_(counter_at + 64)
    , source_bytes_(depth * place_size)
    , target_bytes_(places * place_size)
  {
    with_.keys = &keys_;
    with_.pd = with_.receive_pd = &pd_;
    with_.qp = number;
    with_.peer_qp = peer;
    with_.segment = is.segment;
    with_.sq_psn = number * 0xfffffe; // near the end of the PSN space for one of them
    with_.rq_psn = peer * 0xfffffe;
    with_.sq_psn &= psn_mask;
    with_.rq_psn &= psn_mask;
    with_.rnr_retry = is.rnr_retry;
    with_.min_rnr_timer = is.rnr_timer;
    with_.kind = is.is_xrc ? service_xrc : service_rc;
    with_.max_read_atomic = with_.max_peer_read_atomic = 4;
    constexpr unsigned remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    with_.access = remote;
    publish(exposed, memory_, remote);
    publish(sources, source_bytes_, 0);
    publish(targets, target_bytes_, 0);
    responses.start();
    requests.start();
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  // --- the program ---

  bool may_post() const { return !over_ && unretired_ < depth; }

  void post(std::mt19937& random)
  {
    static constexpr std::uint32_t lengths[] = {
      8, 8, 9, 9, 44, 44, 64, 64, 1000, 1000, 16376, 20000, 20001, 45000};
    static constexpr ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
      IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    queue.take_back(retired_);
    const std::uint64_t index = queue.posted.load();
    posted what;
    what.id = log.all.size();
    what.opcode = opcodes[random() % std::size(opcodes)];
    const bool atomic = what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    what.length = atomic ? 8 : lengths[random() % std::size(lengths)];
    what.place = random() % places;
    what.written_before = last_write_[what.place];
    what.counted_before = counted_;
    what.signalled = unretired_ + 2 >= depth || random() % 4 != 0;
    const bool writes =
      what.opcode == IBV_WR_RDMA_WRITE || what.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const bool fence = random() % 8 == 0;
    for (posted& each : outstanding_)
    {
      each.fenced = each.fenced || fence;
      if (writes && each.fenced && each.place == what.place)
        each.written_after = std::min(each.written_after, what.id);
    }
    if (writes)
      last_write_[what.place] = what.id;
    counted_ += atomic ? 1 : 0;

    send_request& r = *queue.enter(index);
    r = {};
    r.id = what.id;
    r.opcode = what.opcode;
    r.srq = shared_queue;
    r.flags =
      (what.signalled ? unsigned{IBV_SEND_SIGNALED} : 0u) | (fence ? unsigned{IBV_SEND_FENCE} : 0u);
    r.immediate = static_cast<std::uint32_t>(what.id);
    r.rkey = peer_->exposed.key;
    r.remote = peer_->address(peer_->memory_) + (atomic ? counter_at : what.place * place_size);
    r.compare_add = 1;
    r.length = what.length;
    r.elements = 1;
    std::byte* const bytes = source_bytes_.data() + index % depth * place_size;
    for (std::size_t i = 0; i != what.length && !sources.withdrawn; ++i)
      bytes[i] = byte_of(what.id, i);
    r.elements_begin()[0] = {reinterpret_cast<std::uintptr_t>(bytes), what.length, sources.key};
    log.all.push_back(what);
    outstanding_.push_back(what);
    ++unretired_;
    queue.posted.store(index + 1);
  }

  bool may_post_receive() const { return !over_ && receives_.size() < places; }

  /// Returns true if the peer waits for it: the thread that posts then transmits.
  bool post_receive()
  {
    receives_.push_back(next_receive_++ % places);
    if (!responses.awaits_receive())
      return false;
    responses.receive_posted();
    return true;
  }

  /// The time of a wait after an RNR NAK is over.
  void resume() { requests.resume(); }

  bool idle() const { return over_ || !requests.outstanding(); }
  bool over() const { return over_; }
  bool failed() const { return failed_; }
  bool killed() const { return killed_; } // or destroyed

  /// The number of completions so far.
  std::uint64_t completions() const { return completions_; }

  // --- the oracle ---

  /// Checks what must hold between any two steps. A wrong access leaves its traces.
  void check() const
  {
    exposed.check();
    sources.check();
    targets.check();
  }

  /// Checks that everything has completed.
  void check_end() const
  {
    REQUIRE(requests.outstanding() == false);
    for (const posted& each : outstanding_)
      REQUIRE_FALSE(each.signalled);
  }

  // --- host ---

  void send_completed(const ibv_wc& wc, std::uint64_t next) override
  {
    ++completions_;
    // In order, each signalled one once; an unsignalled one only with an error.
    while (!outstanding_.empty() && outstanding_.front().id != wc.wr_id)
    {
      REQUIRE_FALSE(outstanding_.front().signalled);
      REQUIRE_FALSE(failed_);
      outstanding_.pop_front();
    }
    REQUIRE_FALSE(outstanding_.empty());
    const posted what = outstanding_.front();
    outstanding_.pop_front();
    const std::size_t source = (next - 1) % depth;
    unretired_ -= static_cast<std::uint32_t>(next - retired_);
    retired_ = next;
    if (wc.status != IBV_WC_SUCCESS)
    {
      CAPTURE(wc.status, wc.vendor_err);
      // One request fails, or none if the peer's error has ended the queue pair. All behind it are
      // flushed (IBA 10.3.1.7).
      if (failed_)
        REQUIRE(wc.status == IBV_WC_WR_FLUSH_ERR);
      else
        REQUIRE(may_fail(wc.status));
      failed_ = true;
      return;
    }
    REQUIRE_FALSE(failed_);
    REQUIRE(what.signalled);
    const std::byte* const bytes = source_bytes_.data() + source * place_size;
    if (sources.withdrawn)
      return;
    if (what.opcode == IBV_WR_RDMA_READ)
      REQUIRE_FALSE(std::search_n(bytes, bytes + what.length, 8, poison) != bytes + what.length);
    if (what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      REQUIRE(id_at(bytes) == what.counted_before);
    if (what.opcode == IBV_WR_RDMA_READ)
    {
      check_content(bytes, what.written_before, what.length);
      REQUIRE(id_at(bytes) < what.written_after); // IBA 10.8.3.3
    }
  }

  void receive_completed(const ibv_wc& wc, bool) override
  {
    ++completions_;
    if (wc.status != IBV_WC_SUCCESS)
    {
      CAPTURE(wc.status, wc.vendor_err);
      REQUIRE(((over_ && wc.status == IBV_WC_WR_FLUSH_ERR)
        || (wc.status == IBV_WC_LOC_ACCESS_ERR && exposed.withdrawn)
        || (wc.status == IBV_WC_LOC_PROT_ERR && targets.withdrawn)));
      receive_failed_ = true;
      return;
    }
    REQUIRE_FALSE(receive_failed_);
    // The messages of the peer that use a receive arrive in the order of their ids.
    const std::vector<posted>& sent = peer_->log.all;
    for (++last_received_; !uses_receive(sent.at(last_received_)); ++last_received_)
    {
    }
    const posted& message = sent[last_received_];
    const bool written = message.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    REQUIRE((wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) == written);
    REQUIRE(wc.byte_len == message.length);
    if (message.opcode != IBV_WR_SEND)
      REQUIRE(wc.imm_data == static_cast<std::uint32_t>(message.id));
    if (!written && !targets.withdrawn)
    {
      const std::byte* const bytes = target_bytes_.data() + wc.wr_id * place_size;
      for (std::size_t i = 0; i != message.length; ++i)
        if (bytes[i] != byte_of(message.id, i))
          fail("a message has arrived with other bytes");
    }
    // Every write before it is visible (IBA 9.5, o9-20).
    for (; written_until_ <= message.id; ++written_until_)
      if (is_write(sent[written_until_]))
        written_before_[sent[written_until_].place] = written_until_;
    for (std::size_t place = 0; place != places && !exposed.withdrawn; ++place)
      peer_->check_content(memory_.data() + place * place_size, written_before_[place],
        place == message.place ? place_size : sizeof(std::uint64_t));
  }

  void raise(ibv_event_type) override {}

  bool take_receive(receive_work& to) override
  {
    if (receives_.empty())
      return false;
    const std::size_t place = receives_.front();
    receives_.pop_front();
    to.id = place;
    to.length = place_size;
    to.elements = 1;
    to.storage[0] = {address(target_bytes_) + place * place_size, place_size, targets.key};
    return true;
  }

  std::optional<std::uint64_t> posted_receives() noexcept override
  {
    return is_.shares || is_.is_xrc ? std::nullopt : std::optional<std::uint64_t>(receives_.size());
  }

  bool select_queue(std::uint32_t number) noexcept override { return number == shared_queue; }

  message_log log{{posted{}}}; // message 0 is what memory contains at first
  region exposed;              // to the peer
  region sources;              // of sends and writes, and the memory that reads fill
  region targets;              // of receives

protected:
  ~program() = default;

  static bool uses_receive(const posted& what)
  {
    return what.opcode == IBV_WR_SEND || what.opcode == IBV_WR_SEND_WITH_IMM
      || what.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }

  static bool is_write(const posted& what)
  {
    return what.opcode == IBV_WR_RDMA_WRITE || what.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }

  // Returns true if there is a reason for this to be the first status that is not a success.
  bool may_fail(ibv_wc_status status)
  {
    switch (status)
    {
    case IBV_WC_WR_FLUSH_ERR: // this end has refused a request of the peer
      return responses.failed();
    case IBV_WC_RETRY_EXC_ERR:
      ++found_.lost_peers;
      return lost_;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      ++found_.rnr_failures;
      return with_.rnr_retry != 7 && retries_ == with_.rnr_retry;
    case IBV_WC_REM_ACCESS_ERR:
      ++found_.remote_failures;
      return peer_->exposed.withdrawn;
    case IBV_WC_REM_OP_ERR:
      ++found_.remote_failures;
      return peer_->targets.withdrawn;
    case IBV_WC_LOC_PROT_ERR:
      ++found_.local_failures;
      return sources.withdrawn;
    default:
      return false;
    }
  }

  // Counts the retries of a message for which the peer had no receive (IBA 9.7.5.2.8).
  // Returns the time of a new wait in ns, or 0.
  std::int64_t count_waits()
  {
    if (std::exchange(progress_, requests.progress()) != requests.progress())
      retries_ = 0;
    const std::int64_t wait = requests.take_wait();
    if (wait == 0)
      return 0;
    ++found_.rnr_waits;
    ++retries_;
    if (with_.rnr_retry != 7)
      REQUIRE(retries_ <= with_.rnr_retry);
    return wait;
  }

  static std::uint64_t address(std::span<const std::byte> of)
  {
    return reinterpret_cast<std::uintptr_t>(of.data());
  }

  [[noreturn]] static void fail(const char* why)
  {
    FAIL(why);
    std::abort();
  }

  void publish(region& what, std::span<std::byte> bytes, unsigned remote)
  {
    what.bytes = bytes;
    what.slot = keys_.allocate(what.key);
    what.slot->memory = bytes.data();
    what.slot->address = address(bytes);
    what.slot->length = bytes.size();
    if (is_.has_direct_access && rdma::software::shared_memory::find(bytes.data(), bytes.size()))
      what.slot->shared = {0, bytes.size(), bytes.data()};
    what.slot->pd = &pd_;
    what.slot->access = IBV_ACCESS_LOCAL_WRITE | remote;
    key_table::publish(*what.slot, what.key);
  }

  // The content of a place that was last written by message `least` of this end, or by a later
  // one: a write may overtake a read that was posted before it (IBA 10.8.3.3).
  void check_content(const std::byte* bytes, std::uint64_t least, std::size_t size) const
  {
    const std::uint64_t found = id_at(bytes);
    CAPTURE(found, least);
    REQUIRE(found >= least);
    REQUIRE(found < log.all.size());
    const posted& write = log.all[least];
    if (least == 0 || last_write_[write.place] != least)
      return;
    size = std::min<std::size_t>(size, write.length);
    for (std::size_t i = 0; i != size; ++i)
      if (bytes[i] != byte_of(least, i))
        fail("a write's bytes are not there");
  }

  const kind is_;
  coverage& found_;
  key_table keys_;
  ibv_pd pd_{};
  test::shared_bytes memory_; // which the peer may access, directly as well
  std::vector<std::byte> source_bytes_;
  std::vector<std::byte> target_bytes_;
  parameters with_;
  program* peer_ = nullptr;
  std::deque<posted> outstanding_;
  std::deque<std::size_t> receives_;
  std::size_t next_receive_ = 0;
  std::array<std::uint64_t, places> last_write_{};
  std::uint64_t counted_ = 0;
  std::uint64_t last_received_ = 0;
  std::uint64_t written_until_ = 0;                    // messages of the peer
  std::array<std::uint64_t, places> written_before_{}; // of these messages, the last write
  std::uint64_t completions_ = 0;
  std::uint64_t retired_ = 0;
  std::uint32_t unretired_ = 0;
  std::uint32_t progress_ = 0;
  unsigned retries_ = 0;
  bool over_ = false;
  bool killed_ = false;
  bool lost_ = false; // the peer
  bool failed_ = false;
  bool receive_failed_ = false;

public:
  send_queue queue{depth, sizeof(ibv_sge)};
  requester requests{queue, with_, *this};
  responder responses{with_, *this, 1};
};

} // namespace simulation

#endif // BOOST_RDMA_TEST_UNIT_SIMULATED_PROGRAM_HPP
