//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Part of local_wire: grants the peer access to this end's memory, and asks for access to the
// peer's memory.

#include "verbs/software/memory/key_table.hpp"
#include "verbs/software/memory/shared_memory.hpp"
#include "verbs/software/wire/local_wire.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace rdma::software::wire {

namespace {

// Notes are records that are not frames. Their first byte is an opcode that IBA 9.2.1 leaves to
// manufacturers.

// The note in the request ring that asks for a grant. With `in_advance`, it describes a request
// that has not been sent. Otherwise the question is about the last request that was begun.
constexpr std::uint8_t note_question = 0xc0;

struct question_note
{
  std::uint8_t kind = note_question;
  std::array<std::uint8_t, 7> unused{};
  grant_question what;
};

// The note in the response ring that declines a grant for a key.
constexpr std::uint8_t note_declined = 0xc1;

struct declined_note
{
  std::uint8_t kind = note_declined;
  std::array<std::uint8_t, 3> unused{};
  std::uint32_t key = 0;
};

// The longest time that a request waits for the answer to its question. An answer can be lost, e.g.
// if this process has no free descriptor for it.
constexpr std::int64_t answer_time = 50'000'000;

} // namespace

void local_wire::open_page() noexcept
{
  grants_ended_ = false;
  page_ = {};
  page_.words = mine_->grants.data();
  page_.socket = link_->socket();
  try
  {
    page_.peer = std::make_shared<memory_peer>();
    page_.peer->keep_mapped = link_->memory();
    page_.peer->mark = &theirs_->touching;
  }
  catch (const std::bad_alloc&)
  {
    page_.peer.reset(); // the peer gets no grants, and sends frames
  }
}

void local_wire::publish_rights() noexcept
{
  const unsigned rights = responder_.direct_rights();
  if (rights == mine_->rights.load(std::memory_order_relaxed))
    return;
  mine_->read_depth.store(with_.max_peer_read_atomic, std::memory_order_relaxed);
  mine_->rights.store(rights, std::memory_order_release);
}

// Asks for grants. Returns false if there is no room now. Unless the question describes a request
// in advance, the last frame sent was the first one of a request with this key: the peer answers
// only after a request that it permits.
bool local_wire::show_keys() noexcept
{
  while (direct_.wants())
  {
    question_note note;
    std::byte* const at = room(requests_out_, sizeof note, false, true);
    if (at == nullptr)
      return false;
    note.what = direct_.take_wanted();
    std::memcpy(at, &note, sizeof note);
    requests_out_.end(sizeof note);
    news_ = true;
  }
  return true;
}

// Ends the wait for an answer that is late.
void local_wire::time_the_answer() noexcept
{
  if (!direct_.waits())
    answer_until_ = 0;
  else if (answer_until_ == 0)
    answer_until_ = now() + answer_time;
  else if (now() >= answer_until_)
    direct_.stop_waiting();
}

// Takes a note.
local_wire::note_is local_wire::take_note(std::span<const std::byte> body, bool request) noexcept
{
  if (!request)
    return take_answer(body);
  question_note note;
  if (static_cast<std::uint8_t>(body.front()) != note_question || body.size() < sizeof note)
    return note_is::none;
  std::memcpy(&note, body.data(), sizeof note);
  return with_.kind == protocol::service_rc ? answer(note.what) : note_is::taken;
}

local_wire::note_is local_wire::take_answer(std::span<const std::byte> body) noexcept
{
  declined_note note;
  if (static_cast<std::uint8_t>(body.front()) != note_declined || body.size() < sizeof note)
    return note_is::none;
  std::memcpy(&note, body.data(), sizeof note);
  direct_.answered(note.key);
  return note_is::taken;
}

// Answers a question, but grants access only for a request that is permitted. A question must not
// reveal which keys exist: after one for a request that is not permitted, there are no more grants.
// The request itself, in frames, ends the queue pair as on TCP.
local_wire::note_is local_wire::answer(const grant_question& what) noexcept
{
  if (declined_) // the answer to the question before has found no room
    return note_is::early;
  if (what.in_advance != 0)
  {
    protocol::header h;
    h.op = what.reads != 0 ? protocol::opcode::read_request : protocol::opcode::write_first;
    h.address = what.address;
    h.key = what.key;
    h.length = what.length;
    grants_ended_ = grants_ended_ || !responder_.would_permit(h);
  }
  else if (what.key != responder_.accepted_key())
  {
    return note_is::taken;
  }
  switch (grants_ended_ ? grant_is::none : grant(what.key))
  {
  case grant_is::sent:
    break;
  case grant_is::early:
    return note_is::early;
  case grant_is::none:
    declined_ = what.key;
    decline();
  }
  return note_is::taken;
}

// Answers that there is no grant, if there is room now. Otherwise transmit_rest() calls it again,
// because requests of the peer may wait for the answer.
void local_wire::decline() noexcept
{
  declined_note note;
  note.key = *declined_;
  // A note must not be stored between the records of one frame.
  std::byte* const at =
    response_out_.pending ? nullptr : room(responses_out_, sizeof note, false, false);
  if (at == nullptr)
    return;
  std::memcpy(at, &note, sizeof note);
  responses_out_.end(sizeof note);
  declined_.reset();
  news_ = true;
}

local_wire::grant_is local_wire::grant(std::uint32_t key) noexcept
{
  // The same checks as in key_table::pin_remote(), except for the range, which the peer checks for
  // each access.
  const key_pin pinned(with_.keys->pin(key));
  constexpr unsigned remote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (!pinned || pinned->pd != with_.pd || (pinned->access & remote) == 0
    || (pinned->window
      && (!pinned->bound || (pinned->owner_qp != 0 && pinned->owner_qp != with_.qp))))
    return grant_is::none;
  // Peers cannot access memory that is not shared_memory, for two reasons. A peer could be stopped
  // between its check of a grant and a copy to an address, which may have another use when it
  // continues.
  // And a process that copies from or to a hostile peer's addresses may wait for that peer without
  // end, in a page fault (userfaultfd(2), FUSE).
  const shared_part& shared = pinned->shared;
  const auto area = shared_memory::find(shared.memory, shared.length);
  if (!area)
    return grant_is::none;
  // A peer that may only read must not map memory that it could write to. A peer that may write
  // needs memory that is not sealed against writes.
  const bool writes = (pinned->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (writes != (area->who_writes() == writers::all))
    return grant_is::none;
  const auto given = grants_.give(page_, *pinned.slot());
  if (!given)
    return grant_is::none;
  grant_message grant;
  grant.key = key;
  grant.index = given->index;
  grant.generation = given->generation;
  // The atomics of hostile mode are only atomic among requests that this process carries out.
  grant.rights = with_.hostile == nullptr ? pinned->access | grant_message::atomic_writes
                                          : pinned->access & ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
  grant.address = pinned->address + shared.offset;
  grant.length = shared.length;
  grant.place = static_cast<std::uint64_t>(shared.memory - area->base());
  if (link_->send(lane_, grant, area->fd()) || errno != EAGAIN)
    return grant_is::sent;
  return grant_is::early;
}

// Takes the grants that have arrived. They arrive through the socket, because each one carries a
// descriptor.
void local_wire::take_grants() noexcept
{
  if (!link_->has_grants())
    return;
  for (descriptor memory; const auto grant = link_->take_grant(lane_, memory);)
    direct_.grant(*grant, memory, link_->areas());
}

} // namespace rdma::software::wire
