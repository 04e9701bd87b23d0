//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/wire/local_wire.hpp"

#include "verbs/software/wire/checked_copy.hpp"
#include "verbs/software/wire/hostile_copy.hpp"
#include "verbs/software/wire/unordered_access.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace rdma::software::wire {

namespace {

// The largest body of a record, which has a whole frame: after a part of one, no refusal could
// follow. Several records fit into a ring, so that one side can write while the other one reads.
constexpr std::size_t body_max = protocol::max_header_size + local_wire::segment_bytes;

// A writer may wait if less room than this is free. It is twice the longest record, because the
// writer may have to skip the end of the ring, plus the lines behind and the reserve.
constexpr std::size_t room_max = 2 * ring::record_size(body_max) + 8 * ring::line;

// A reader checks for a waiting writer each time that it has taken this much. When it has taken
// less, a writer can wait only if more is left to take.
constexpr std::size_t told_every = segment::ring_size / 4;
static_assert(segment::ring_size - room_max > told_every);

// The room that only answers without payload may use: a refusal must be stored even if the peer
// takes no responses.
constexpr std::size_t response_reserve = 4 * ring::line;

// The time after which this end repeats a message that a full socket has refused. A peer that reads
// nothing must not keep the engine busy.
constexpr std::int64_t again_time = 10'000'000;

// The header of a record that contains a send of one frame, in host order. The payload follows. The
// first byte is an opcode that IBA 9.2.1 leaves to manufacturers.
constexpr std::uint8_t short_send = 0xc1;
constexpr std::uint8_t short_solicited = 1;

struct short_header
{
  std::uint8_t kind = short_send;
  protocol::opcode op{};
  std::uint8_t flags = 0;
  std::uint8_t unused = 0;
  std::uint32_t psn = 0;
  std::uint32_t payload = 0;
  std::uint32_t extra = 0; ///< immediate data, in network order, or the key to invalidate
};
static_assert(sizeof(short_header) == 16);

// The largest payload of such a record. The peer's segment size is not smaller.
constexpr std::uint32_t short_max = 512;

// The bound on one call, so that a poller also serves other links when one link is busy.
constexpr unsigned records_max = 256;

// Copies to or from registered memory. Returns false if the program has unmapped it. Memory that
// the device has made shared remains mapped while it is registered.
bool copy(void* to, const void* from, std::size_t size, bool is_shared, program_side which) noexcept
{
  if (!is_shared)
    return checked_copy(to, from, size, which);
  std::memcpy(to, from, size);
  return true;
}

} // namespace

void local_wire::open(local_link& link, lane_use lane) noexcept
{
  segment& s = *link.memory();
  const unsigned end = link.end();
  const unsigned peer = 1 - end;
  lane_ = lane;
  mine_ = &s.side(lane.lane, end);
  theirs_ = &s.side(lane.lane, peer);
  requests_in_ =
    ring::reader(s.requests_of(lane.lane, peer), segment::ring_size, mine_->requests_taken);
  responses_in_ =
    ring::reader(s.responses_of(lane.lane, peer), segment::ring_size, mine_->responses_taken);
  requests_out_ =
    ring::writer(s.requests_of(lane.lane, end), segment::ring_size, theirs_->requests_taken, 0);
  responses_out_ = ring::writer(
    s.responses_of(lane.lane, end), segment::ring_size, theirs_->responses_taken, response_reserve);
  request_out_.pending = response_out_.pending = false;
  declined_.reset();
  acknowledged_seen_.store(0, std::memory_order_relaxed);
  piggybacked_ack_seen_ = 0;
  idle_.store(false, std::memory_order_relaxed);
  owes_.store(false, std::memory_order_relaxed);
  blocked_.store(false, std::memory_order_relaxed);
  requests_blocked_ = responses_blocked_ = more_to_take_ = more_to_send_ = false;
  unfinished_.store(false, std::memory_order_relaxed);
  at_rest_ = news_ = malformed_ = responses_first_ = ending_ = false;
  requests_told_ = responses_told_ = 0;
  wake_again_at_ = note_again_at_ = answer_until_ = 0;
  link_ = &link;
  open_page();
  if (direct_.open(*mine_, *theirs_))
    requester_.set_direct_path(&direct_); // otherwise all requests are sent as frames
}

void local_wire::close() noexcept
{
  requester_.set_direct_path(nullptr);
  direct_.close();
  mine_->rights.store(0, std::memory_order_seq_cst);
  grants_.close(page_);
  page_ = {};
  more_to_take_ = more_to_send_ = at_rest_ = false;
  wake_again_at_ = note_again_at_ = answer_until_ = 0;
  link_ = nullptr;
}

// --- receiving ---

bool local_wire::receive(bool looked_at)
{
  one_at_a_time_ = looked_at && idle_.load(std::memory_order_relaxed);
  idle_.store(false, std::memory_order_relaxed);
  note_again_at_ = 0;
  take_grants();
  // acquire, and read before the responses: this end then finds all responses that the peer stored
  // before the acknowledgement.
  const std::uint32_t word = theirs_->acknowledged.load(std::memory_order_acquire);
  const bool all_responses = take_responses();
  if (all_responses && word != acknowledged_seen_.load(std::memory_order_relaxed))
  {
    acknowledged_seen_.store(word, std::memory_order_relaxed);
    take_acknowledgement(word);
  }
  const bool all_requests = take_requests();
  more_to_take_ = !malformed_ && (!all_responses || !all_requests);
  return !malformed_;
}

void local_wire::take_acknowledgement(std::uint32_t word)
{
  protocol::header h;
  h.op = protocol::opcode::acknowledge;
  h.syndrome = (word >> protocol::psn_bits) & protocol::credit_mask;
  h.psn = word & protocol::psn_mask;
  if (with_.kind == protocol::service_uc
    || (word & lane_side::acknowledged_unused) != lane_side::acknowledged_bit
    || requester_.receive(h) == protocol::verdict::malformed)
    malformed_ = true;
  ++taken_;
}

// Handles the piggybacked acknowledgement of a record. Returns true if the record may be taken now.
// The responses that the peer stored before the acknowledgement are taken first.
bool local_wire::take_piggybacked_ack(std::uint32_t piggybacked_ack)
{
  if (piggybacked_ack == 0 || piggybacked_ack == piggybacked_ack_seen_)
    return true;
  if (!take_responses())
  {
    responses_first_ = true;
    return false;
  }
  piggybacked_ack_seen_ = piggybacked_ack;
  take_acknowledgement(piggybacked_ack);
  return !malformed_;
}

bool local_wire::receive_the_rest()
{
  ending_ = true;
  std::uint64_t before = ~taken_;
  // The bound covers all records that were in the rings when the peer detached or the link
  // ended. Records of a peer that continues to write are ignored.
  constexpr unsigned rounds_max = 2 * segment::ring_size / ring::line / records_max + 2;
  for (unsigned round = 0; round != rounds_max && taken_ != before; ++round)
  {
    before = taken_;
    if (!receive(false))
      return false;
  }
  more_to_take_ = false;
  return true;
}

// Returns true if all responses have been taken.
bool local_wire::take_responses()
{
  if (!responses_in_.ready())
    return true;
  for (unsigned i = 0; i != records_max; ++i)
    if (!take_record(responses_in_, false))
      return !malformed_;
  return false;
}

bool local_wire::take_requests()
{
  const std::uint32_t before = responder_.receives();
  for (unsigned i = 0; i != records_max; ++i)
  {
    if (take_record(requests_in_, true))
    {
      // A thread that polls again soon does not check for another message now. The next record's
      // word is still in the cache of the writer's processor, and fetching it takes as long as all
      // the work for this message.
      if (one_at_a_time_ && responder_.receives() != before)
        return true;
      continue;
    }
    return !std::exchange(responses_first_, false);
  }
  return false;
}

// Takes the next record of a ring. Returns true if one was taken.
bool local_wire::take_record(ring::reader& from, bool request)
{
  std::span<const std::byte> body = from.front();
  if (body.empty() || malformed_)
  {
    malformed_ = malformed_ || from.broken();
    return false;
  }
  if (request && !take_piggybacked_ack(from.piggybacked_ack()))
    return false;
  if (request && take_short(body))
  {
    ++taken_;
    from.pop();
    return true;
  }
  const note_is note = take_note(body, request);
  if (note == note_is::early)
  {
    note_again_at_ = now() + again_time;
    return false;
  }
  if (note == note_is::taken)
  {
    from.pop();
    return true;
  }
  if (!take_frame(body, request))
  {
    malformed_ = true;
    return false;
  }
  ++taken_;
  from.pop();
  return true;
}

// Reads the header of a short send. Returns nothing if the record is not a valid short send.
std::optional<protocol::header> local_wire::read_short(std::span<const std::byte> body) noexcept
{
  if (static_cast<std::uint8_t>(body.front()) != short_send)
    return std::nullopt;
  short_header s;
  std::memcpy(&s, body.data(), sizeof s); // once: the peer can write here at any time
  const bool is_send = s.op == protocol::opcode::send_only
    || s.op == protocol::opcode::send_only_immediate
    || s.op == protocol::opcode::send_only_invalidate;
  if (!is_send || (s.flags & ~short_solicited) != 0 || s.unused != 0 || s.psn > protocol::psn_mask
    || s.payload > short_max || s.payload > body.size() - sizeof s
    || with_.kind != protocol::service_rc)
    return std::nullopt; // the record is then malformed: decode() rejects this opcode
  protocol::header h;
  h.op = s.op;
  h.solicited = s.flags != 0;
  h.ack_request = true;
  h.dest_qp = with_.qp;
  h.psn = s.psn;
  h.payload = s.payload;
  h.immediate = h.key = s.extra;
  return h;
}

// Returns true if the record is a short send, and the responder has received all of it.
bool local_wire::take_short(std::span<const std::byte> body) noexcept
{
  const auto h = read_short(body);
  return h && responder_.receive_short(*h, body.data() + sizeof(short_header));
}

// Returns false if the frame is malformed.
bool local_wire::take_frame(std::span<const std::byte> body, bool request)
{
  if (const auto h = request ? read_short(body) : std::nullopt)
    return take_frame(*h, body.subspan(sizeof(short_header)), true);
  // The header is copied before it is checked: the peer can write here at any time.
  protocol::header_bytes bytes;
  const std::size_t there = std::min(body.size(), bytes.size());
  std::memcpy(bytes.data(), body.data(), there);
  const std::size_t size = protocol::header_size(static_cast<std::uint8_t>(bytes[0]));
  const auto h = size != 0 && size <= there ? protocol::decode({bytes.data(), size}) : std::nullopt;
  return h && h->dest_qp == with_.qp && h->payload <= with_.segment && h->kind == with_.kind
    && request == ((protocol::traits_of(h->op) & protocol::trait_request) != 0)
    && take_frame(*h, body.subspan(size), request);
}

bool local_wire::take_frame(
  const protocol::header& h, std::span<const std::byte> payload, bool request)
{
  if (h.payload > payload.size())
    return false;
  const protocol::verdict what = request ? responder_.receive(h) : requester_.receive(h);
  if (what != protocol::verdict::accept)
    return what != protocol::verdict::malformed;
  protocol::detail why = protocol::detail_none;
  const bool placed = place(payload.first(h.payload), request, why);
  if (request)
    placed ? void(responder_.finish()) : responder_.unplaceable(why);
  else
    placed ? void(requester_.finish()) : requester_.unplaceable(why);
  moved_ += request ? 0 : 1;
  return true;
}

// Returns false and sets `why` if the memory cannot be accessed.
bool local_wire::place(std::span<const std::byte> bytes, bool request, protocol::detail& why)
{
  const auto whole = static_cast<std::uint32_t>(bytes.size());
  hostile_memory* const hostile = request ? responder_.hostile_target() : nullptr;
  if (hostile != nullptr) [[unlikely]]
    return place_frame(*hostile, responder_, bytes.data(), whole, why);
  for (std::uint32_t copied = 0; copied != whole;)
  {
    pinned_buffers to;
    std::uint64_t done = 0;
    const std::uint32_t left = whole - copied;
    const bool permitted =
      request ? responder_.place(copied, left, to, done) : requester_.place(copied, left, to, done);
    bool mapped = true;
    if (permitted && done != 0)
    {
      const unordered_access overlooked(to.unordered());
      const std::byte* from = bytes.data() + copied;
      for (std::size_t i = 0; i != to.count() && mapped; ++i)
      {
        const iovec& v = to.view()[i];
        mapped = copy(v.iov_base, from, v.iov_len, to.is_shared(i), program_side::target);
        from += v.iov_len;
      }
      copied += static_cast<std::uint32_t>(done);
    }
    why = mapped ? protocol::detail_local_key : protocol::detail_local_fault;
    if (!permitted || done == 0 || !mapped)
      return false;
  }
  return true;
}

// --- sending ---

void local_wire::transmit(bool acknowledge_too)
{
  direct_.begin();
  for (unsigned i = 0; i != records_max && send_short(); ++i)
  {
  }
  at_rest_ = has_nothing_to_send();
  more_to_send_ = !at_rest_;
  if (more_to_send_)
    transmit_rest();
  else
    show_blocked(false);
  if (answer_until_ != 0)
    time_the_answer();
  direct_.let_go();
  unfinished_.store(unfinished() || requester_.unfinished(), std::memory_order_relaxed);
  publish_rights();
  if (acknowledge_too)
    acknowledge();
  owes_.store(
    responder_.acknowledgement_wanted() && !response_out_.pending, std::memory_order_relaxed);
  notify();
}

bool local_wire::write_at_once() noexcept
{
  if (!requester_.next_is_write() || !with_.has_short_sends)
    return false;
  direct_.begin();
  const bool all = requester_.write_short(short_max);
  direct_.let_go();
  return all;
}

// Sends records of all kinds.
void local_wire::transmit_rest()
{
  time_the_answer();
  for (unsigned i = 0; i != records_max && more_to_send_; ++i)
  {
    if (declined_)
      decline();
    const bool answers = response_out_.pending || responder_.has_next();
    const bool answered = answers && send_record(responses_out_, response_out_, false);
    const bool asks = request_out_.pending || requester_.has_next();
    const bool asked = asks && (send_short() || send_record(requests_out_, request_out_, true));
    more_to_send_ = answered || asked;
  }
  direct_.let_go();
  if (direct_.wants() && !request_out_.pending)
    show_keys(); // otherwise send_record() calls it after the pending frame
  time_the_answer();
}

bool local_wire::has_nothing_to_send() const noexcept
{
  return !request_out_.pending && !response_out_.pending && !responder_.has_next()
    && !requester_.has_next() && !requester_.unfinished() && !direct_.wants() && !declined_;
}

// Sends the next request if it is short. Returns false if it is not, or cannot be sent now.
bool local_wire::send_short() noexcept
{
  if (request_out_.pending || direct_.wants() || !with_.has_short_sends)
    return false;
  protocol::send_request* const r = requester_.next_short(short_max);
  if (r == nullptr)
    return false;
  // The peer polls the record's first cache line. All stores to the line are close to each other,
  // so that it moves between the processors only once.
  struct
  {
    short_header header;
    std::array<std::byte, short_max> payload;
  } record;
  std::byte* to = record.payload.data();
  const auto put = [&to](const std::byte* from, std::size_t size)
  {
    std::memcpy(to, from, size);
    to += size;
  };
  if ((r->flags & IBV_SEND_INLINE) != 0)
    put(r->inline_bytes(), r->length);
  else if (!copy_elements(r->list(), r->length, 0, *with_.keys, with_.pd, put))
    return false; // send_record() then reports the error
  short_header& h = record.header;
  h = {};
  h.op = r->opcode == IBV_WR_SEND       ? protocol::opcode::send_only
    : r->opcode == IBV_WR_SEND_WITH_IMM ? protocol::opcode::send_only_immediate
                                        : protocol::opcode::send_only_invalidate;
  h.flags = (r->flags & IBV_SEND_SOLICITED) != 0 ? short_solicited : 0;
  h.psn = requester_.short_psn();
  h.payload = static_cast<std::uint32_t>(r->length);
  h.extra = r->immediate;
  const std::size_t body = sizeof h + r->length;
  std::byte* const at = requests_out_.begin(body, false);
  if (at == nullptr)
    return false;
  const std::uint32_t acknowledgement = next_acknowledgement();
  std::memcpy(at, &record, body);
  requests_out_.end(body, acknowledgement);
  requester_.short_sent(*r);
  news_ = true;
  ++moved_;
  return true;
}

// Sends the next frame of a request or a response. Returns false if there is none, or no room.
bool local_wire::send_record(ring::writer& to, departure& what, bool request)
{
  protocol::frame& f = what.frame;
  if (!what.pending)
  {
    if (request && direct_.wants() && !show_keys())
      return false;
    if (request ? !requester_.next(f) : !responder_.next(f))
      return false;
    what.pending = true;
  }
  if (request && f.generation != requester_.generation())
  {
    what.pending = false;
    return true;
  }
  const bool has_payload = f.source != protocol::frame::origin::none;
  const std::size_t body = has_payload ? f.size() : f.header_size;
  std::byte* const at = room(to, body, !request && f.payload == 0, request);
  if (at == nullptr)
    return false;
  what.pending = false;
  std::memcpy(at, f.bytes.data(), f.header_size);
  protocol::detail why = protocol::detail_none;
  if (has_payload && !gather(at + f.header_size, f, why))
  {
    if (request)
      requester_.unreadable(f, why);
    else
      responder_.unreadable(f, why);
    return true;
  }
  to.end(body, request ? next_acknowledgement() : 0);
  news_ = true;
  if (request)
  {
    ++moved_;
    requester_.sent(f);
  }
  return true;
}

std::byte* local_wire::room(ring::writer& to, std::size_t body, bool urgent, bool request) noexcept
{
  std::byte* at = to.begin(body, urgent);
  if (at == nullptr && !ending_)
    at = mine_->waits.begin_blocked([&] { return to.begin(body, urgent); });
  malformed_ = malformed_ || to.broken();
  (request ? requests_blocked_ : responses_blocked_) = at == nullptr;
  show_blocked(requests_blocked_ || responses_blocked_);
  return at;
}

void local_wire::show_blocked(bool blocked) noexcept
{
  if (blocked == blocked_.load(std::memory_order_relaxed))
    return;
  blocked_.store(blocked, std::memory_order_relaxed);
  if (blocked)
    return; // basic_lane_waits::begin_blocked() has shown it
  requests_blocked_ = responses_blocked_ = false;
  mine_->waits.blocked.store(0, std::memory_order_relaxed);
}

// Copies the payload. Returns false as place().
bool local_wire::gather(std::byte* to, const protocol::frame& from, protocol::detail& why)
{
  if (hostile_memory* const hostile = responder_.hostile_source(from)) [[unlikely]]
    return gather_frame(*hostile, responder_, from, to, why);
  for (std::uint32_t copied = 0; copied != from.payload;)
  {
    pinned_buffers some;
    std::uint64_t done = 0;
    const std::uint32_t left = from.payload - copied;
    const bool permitted = from.response ? responder_.gather(from, copied, left, some, done)
                                         : requester_.gather(from, copied, left, some, done);
    if (!permitted || done == 0)
    {
      why = protocol::detail_local_key;
      return false;
    }
    const unordered_access overlooked(some.unordered());
    for (std::size_t i = 0; i != some.count(); ++i)
    {
      const iovec& v = some.view()[i];
      if (!copy(to, v.iov_base, v.iov_len, some.is_shared(i), program_side::source))
      {
        why = protocol::detail_local_fault;
        return false;
      }
      to += v.iov_len;
    }
    copied += static_cast<std::uint32_t>(done);
  }
  return true;
}

// Returns the word of the next acknowledgement; 0: there is none. The caller publishes it after the
// responses that precede it, which are already in their ring.
std::uint32_t local_wire::next_acknowledgement() noexcept
{
  if (response_out_.pending)
    return 0;
  const std::optional<std::uint32_t> psn = responder_.take_acknowledgement();
  return psn ? *psn | lane_side::acknowledged_bit : 0;
}

void local_wire::acknowledge() noexcept
{
  const std::uint32_t word = next_acknowledgement();
  if (word == 0)
    return;
  // release: the responses that precede it
  mine_->acknowledged.store(word, std::memory_order_release);
  news_ = true;
}

void local_wire::say_the_last() noexcept
{
  ending_ = true;
  for (unsigned i = 0; i != records_max && send_record(responses_out_, response_out_, false); ++i)
  {
  }
  acknowledge();
}

// Rings the bell if a peer that does not poll this lane has new records, or new room that it waits
// for. Repeats a wake-up later if the socket refuses it.
void local_wire::notify() noexcept
{
  const bool makes_room = requests_in_.taken() - requests_told_ >= told_every
    || responses_in_.taken() - responses_told_ >= told_every;
  if (!news_ && !makes_room)
    return;
  requests_told_ = requests_in_.taken();
  responses_told_ = responses_in_.taken();
  const bool rings = theirs_->waits.is_to_ring(news_);
  news_ = false;
  wake_again_at_ = 0;
  if (!rings || link_->ring(lane_.lane))
    return;
  news_ = true;
  wake_again_at_ = now() + again_time;
}

} // namespace rdma::software::wire
