//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_UNIT_SIMULATION_HPP
#define BOOST_RDMA_TEST_UNIT_SIMULATION_HPP

#include "common/catch.hpp"
#include "common/shared_bytes.hpp"
#include "verbs/software/protocol/requester.hpp"
#include "verbs/software/protocol/responder.hpp"
#include "verbs/software/wire/local_wire.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

// Two reliable queue pairs on the local wire, in one thread. A seed decides which end takes the
// next step, and which step. The real requester, responder, rings and direct access run; time is
// simulated: a wait is over when the seed says so. An oracle checks the rules of IBA chapter 9.

namespace simulation {

using namespace rdma::software;
using namespace rdma::software::protocol;

inline constexpr std::uint32_t depth = 16;       // of the send queue
inline constexpr std::size_t place_size = 49152; // room for one message
inline constexpr std::size_t places = 8;         // that the peer writes and reads
inline constexpr std::uint64_t counter_at = places * place_size;

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
  std::size_t place = 0;            // writes and reads
  std::uint64_t written_before = 0; // reads: the id of the last write to the place
  std::uint64_t counted_before = 0; // atomics
  bool signalled = false;
};

/// The requests that one end has posted. The other end reads them too: one program simulates both.
struct message_log
{
  std::vector<posted> all; // by id
};

/// One end: a queue pair, its memory, and the program that uses it.
class end final : public host
{
public:
  /// `shares`: it announces no credits, as with a shared receive queue.
  end(std::uint32_t number, std::uint32_t peer, std::uint32_t segment, bool shares)
    : shares_(shares)
    , memory_(counter_at + 64)
    , sources_(depth * place_size)
    , targets_(places * place_size)
  {
    with_.keys = &keys_;
    with_.pd = with_.receive_pd = &pd_;
    with_.qp = number;
    with_.peer_qp = peer;
    with_.segment = segment;
    with_.sq_psn = number * 0xfffffe; // near the end of the PSN space for one of them
    with_.rq_psn = peer * 0xfffffe;
    with_.sq_psn &= psn_mask;
    with_.rq_psn &= psn_mask;
    with_.rnr_retry = 7;
    with_.max_read_atomic = with_.max_peer_read_atomic = 4;
    constexpr unsigned remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    with_.access = remote;
    exposed_ = publish(memory_, remote, exposed_key);
    publish(sources_, 0, source_key_);
    publish(targets_, 0, target_key_);
    responses.start();
    requests.start();
  }
  ~end() { close(); }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  void connect(end& peer, std::shared_ptr<wire::segment> by, unsigned which, int socket)
  {
    peer_ = &peer;
    lane_ = {0, 1};
    link_.emplace(wire::descriptor(socket), std::move(by), which);
    if (which == 0)
      REQUIRE(link_->take(with_.qp));
    else
      REQUIRE(link_->adopt(lane_, with_.qp));
    link.open(*link_, lane_);
  }

  // --- the program ---

  bool may_post() const { return !over_ && unretired_ < depth; }

  void post(std::mt19937& random)
  {
    static constexpr std::uint32_t lengths[] = {8, 9, 44, 64, 1000, 16376, 20000, 20001, 45000};
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
    if (writes)
      last_write_[what.place] = what.id;
    counted_ += atomic ? 1 : 0;

    send_request& r = *queue.enter(index);
    r = {};
    r.id = what.id;
    r.opcode = what.opcode;
    r.flags = (what.signalled ? unsigned{IBV_SEND_SIGNALED} : 0u)
      | (random() % 8 == 0 ? unsigned{IBV_SEND_FENCE} : 0u);
    r.immediate = static_cast<std::uint32_t>(what.id);
    r.rkey = peer_->exposed_key;
    r.remote = peer_->address(peer_->memory_) + (atomic ? counter_at : what.place * place_size);
    r.compare_add = 1;
    r.length = what.length;
    r.elements = 1;
    std::byte* const bytes = sources_.data() + index % depth * place_size;
    for (std::size_t i = 0; i != what.length; ++i)
      bytes[i] = byte_of(what.id, i);
    r.elements_begin()[0] = {reinterpret_cast<std::uintptr_t>(bytes), what.length, source_key_};
    log.all.push_back(what);
    outstanding_.push_back(what);
    ++unretired_;
    queue.posted.store(index + 1);
  }

  bool may_post_receive() const { return !over_ && receives_.size() < places; }
  void post_receive()
  {
    receives_.push_back(next_receive_++ % places);
    if (!responses.awaits_receive())
      return;
    responses.receive_posted();
    transmit(true); // the thread that posts does this
  }

  /// Withdraws the memory that the peer uses. It must not change any more.
  void deregister()
  {
    grant_table* const book = exposed_->book.load();
    key_table::revoke(*exposed_);
    if (book != nullptr)
      book->revoke(*exposed_);
    kept_.assign(memory_.data(), memory_.data() + memory_.size());
  }
  bool deregistered() const { return !kept_.empty(); }

  // --- progress ---

  void receive()
  {
    if (over_ || !has_news())
      return;
    // Before the rings are read, as in connection::read_local().
    const bool ended = link_->is_over(lane_);
    if (ended ? !link.receive_the_rest() : !link.receive(polls_ == polls::lane))
      fail("the peer's frames are malformed");
    if (ended)
      lose();
    look();
  }

  void transmit(bool acknowledge)
  {
    if (over_)
      return;
    link.transmit(acknowledge);
    look();
  }

  void resume()
  {
    if (requests.take_wait() != 0)
      ++waits;
    requests.resume();
  }

  /// Does all that can be done now. No wait is over: an acknowledgement must end it.
  void work()
  {
    receive();
    transmit(true);
  }

  /// Waits for the socket, unless something is there.
  void sleep()
  {
    transmit(true); // the thread that posts a request does this
    if (over_)
      return;
    polls_ = polls::nothing;
    link.want_bell(true);
    link_->look(false);
    rung_ = rung_ || link_->has_bells() || link.ready(); // as engine::look_away()
    asleep_ = !rung_ && !link.unfinished() && !requests.unfinished();
  }
  bool asleep() const { return asleep_; }

  /// Reads the socket. Returns false if there is nothing. An end that was asleep polls for a while:
  /// its lane, or the bells, by turns.
  bool wake()
  {
    pollfd p{link_ ? link_->socket() : -1, POLLIN, 0};
    if (over_ || ::poll(&p, 1, 0) != 1)
      return false;
    wire::attach_message hello;
    wire::local_link::heard what;
    do
      what = link_->hear(hello);
    while (what == wire::local_link::heard::message || what == wire::local_link::heard::wake);
    link_->rearm();
    rung_ = rung_ || what == wire::local_link::heard::end;
    take_bells();
    asleep_ = false;
    polls_ = ++wakes_ % 3 == 0 ? polls::nothing : wakes_ % 3 == 1 ? polls::lane : polls::bells;
    link.want_bell(polls_ != polls::lane);
    link_->look(polls_ != polls::nothing);
    if (polls_ != polls::nothing)
      rung_ = true; // the thread that begins to poll looks once
    return true;
  }

  /// The process is killed.
  void close()
  {
    over_ = true;
    if (link.is_open())
      link.close();
    link_.reset();
  }

  bool idle() const { return over_ || !requests.outstanding(); }
  bool over() const { return over_; }
  bool failed() const { return failed_; }

  // --- the oracle ---

  /// Checks what must hold between any two steps. A wrong access leaves its traces.
  void check() const
  {
    if (deregistered())
      REQUIRE(std::memcmp(kept_.data(), memory_.data(), kept_.size()) == 0); // no access after it
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
      // A peer that refuses a request says so before it ends.
      const ibv_wc_status expected =
        peer_->deregistered() ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR;
      const bool permitted =
        wc.status == IBV_WC_WR_FLUSH_ERR || (!failed_ && wc.status == expected);
      CAPTURE(wc.status, wc.vendor_err);
      REQUIRE(permitted);
      failed_ = true;
      return;
    }
    REQUIRE_FALSE(failed_);
    REQUIRE(what.signalled);
    const std::byte* const bytes = sources_.data() + source * place_size;
    if (what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
      REQUIRE(id_at(bytes) == what.counted_before);
    if (what.opcode == IBV_WR_RDMA_READ)
      check_content(bytes, what.written_before, what.length);
  }

  void receive_completed(const ibv_wc& wc, bool) override
  {
    if (wc.status != IBV_WC_SUCCESS)
    {
      REQUIRE((over_ || (wc.status == IBV_WC_LOC_ACCESS_ERR && deregistered())));
      return;
    }
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
    if (!written)
    {
      const std::byte* const bytes = targets_.data() + wc.wr_id * place_size;
      for (std::size_t i = 0; i != message.length; ++i)
        if (bytes[i] != byte_of(message.id, i))
          fail("a message has arrived with other bytes");
    }
    // Every write before it is visible (IBA 9.5, o9-20).
    std::array<std::uint64_t, places> before{};
    for (std::uint64_t id = 0; id <= message.id; ++id)
      if (sent[id].opcode == IBV_WR_RDMA_WRITE || sent[id].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        before[sent[id].place] = id;
    for (std::size_t place = 0; place != places && !deregistered(); ++place)
      peer_->check_content(memory_.data() + place * place_size, before[place],
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
    to.storage[0] = {address(targets_) + place * place_size, place_size, target_key_};
    return true;
  }

  std::optional<std::uint64_t> posted_receives() noexcept override
  {
    return shares_ ? std::nullopt : std::optional<std::uint64_t>(receives_.size());
  }

  message_log log{{posted{}}}; // message 0 is what memory contains at first
  std::uint32_t exposed_key = 0;
  unsigned waits = 0; // after RNR NAKs

private:
  static bool uses_receive(const posted& what)
  {
    return what.opcode == IBV_WR_SEND || what.opcode == IBV_WR_SEND_WITH_IMM
      || what.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
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

  key_slot* publish(std::span<std::byte> bytes, unsigned remote, std::uint32_t& key)
  {
    key_slot* const slot = keys_.allocate(key);
    slot->memory = bytes.data();
    slot->address = address(bytes);
    slot->length = bytes.size();
    if (rdma::software::shared_memory::find(bytes.data(), bytes.size()))
      slot->shared = {0, bytes.size(), bytes.data()};
    slot->pd = &pd_;
    slot->access = IBV_ACCESS_LOCAL_WRITE | remote;
    key_table::publish(*slot, key);
    return slot;
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

  // As served_link::work(): without a bell nobody looks at a lane that is not polled.
  bool has_news()
  {
    take_bells();
    return std::exchange(rung_, false) || polls_ == polls::lane || link.unfinished();
  }

  void take_bells()
  {
    link_->take_bells([this](unsigned lane) { rung_ = rung_ || lane == lane_.lane; });
  }

  // As queue_pair::look_for_the_end().
  void look()
  {
    if (!over_ && (requests.failed() || responses.failed()))
      end_now();
  }

  void lose()
  {
    if (requests.expecting() && !requests.failed())
      requests.fail(IBV_WC_RETRY_EXC_ERR, detail_connection_lost);
    end_now();
  }

  void end_now()
  {
    over_ = true;
    requests.halt();
    link.say_the_last();
    link.close();
    link_->release(lane_);
    requests.flush();
    responses.flush();
  }

  const bool shares_;
  key_table keys_;
  ibv_pd pd_{};
  test::shared_bytes memory_;      // which the peer may access, directly as well
  std::vector<std::byte> sources_; // of sends and writes, and the memory that reads fill
  std::vector<std::byte> targets_; // of receives
  std::vector<std::byte> kept_;    // memory_ when it was deregistered
  key_slot* exposed_ = nullptr;
  std::uint32_t source_key_ = 0;
  std::uint32_t target_key_ = 0;
  parameters with_;
  end* peer_ = nullptr;
  std::optional<wire::local_link> link_;
  wire::lane_use lane_;
  enum class polls
  {
    nothing,
    lane,
    bells,
  } polls_ = polls::nothing;
  bool rung_ = false;
  unsigned wakes_ = 0;

  std::deque<posted> outstanding_;
  std::deque<std::size_t> receives_;
  std::size_t next_receive_ = 0;
  std::array<std::uint64_t, places> last_write_{};
  std::uint64_t counted_ = 0;
  std::uint64_t last_received_ = 0;
  std::uint64_t retired_ = 0;
  std::uint32_t unretired_ = 0;
  bool over_ = false;
  bool failed_ = false;
  bool asleep_ = false;

public:
  send_queue queue{depth, sizeof(ibv_sge)};
  requester requests{queue, with_, *this};
  responder responses{with_, *this, 1};
  grant_table grants;
  wire::local_wire link{with_, requests, responses, grants, 20000};
};

} // namespace simulation

#endif // BOOST_RDMA_TEST_UNIT_SIMULATION_HPP
