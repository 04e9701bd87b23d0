//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// The half of a local link that lets the other end into this end's memory, and asks to be let into
// the other's.

#include "verbs/software/memory/key_table.hpp"
#include "verbs/software/memory/shared_memory.hpp"
#include "verbs/software/wire/local_wire.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace rdma::software::wire {

namespace {

// A record that is no frame; its first byte is an opcode that IBA 9.2.1 leaves to manufacturers. It
// asks for a grant: the key of the last request that was begun.
constexpr std::uint8_t note_key = 0xc0;

struct key_note
{
  std::uint8_t kind = note_key;
  std::uint32_t key = 0;
};

} // namespace

void local_wire::open_page() noexcept
{
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
    page_.peer.reset(); // no grants: frames, then
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

// Asks for a grant with the key of the request whose first frame was sent last: the peer answers
// only behind that request. Returns false if there is no room now.
bool local_wire::show_key() noexcept
{
  key_note note;
  std::byte* const at = room(requests_out_, sizeof note, false, true);
  if (at == nullptr)
    return false;
  const auto key = direct_.take_wanted();
  if (!key)
    return true;
  note.key = *key;
  std::memcpy(at, &note, sizeof note);
  requests_out_.end(sizeof note);
  news_ = true;
  return true;
}

// Takes a record that is no frame.
local_wire::note_is local_wire::take_note(std::span<const std::byte> body) noexcept
{
  key_note note;
  if (static_cast<std::uint8_t>(body.front()) != note_key || body.size() < sizeof note)
    return note_is::none;
  std::memcpy(&note, body.data(), sizeof note);
  // Only behind a request that was permitted: a wrong key must end the queue pair as on TCP, and
  // asking must not show which keys exist.
  const bool permitted =
    note.key == responder_.accepted_key() && with_.kind == protocol::service_rc;
  return !permitted || answer(note.key) ? note_is::taken : note_is::early;
}

// Grants a key to the peer, or not: without an answer the peer goes on to send frames. Returns
// false if the socket is full.
bool local_wire::answer(std::uint32_t key) noexcept
{
  // What a request with this key would have to show (key_table::pin_remote()), but for the place,
  // which is checked where it is used.
  const key_pin pinned(with_.keys->pin(key));
  constexpr unsigned remote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (!pinned || pinned->pd != with_.pd || (pinned->access & remote) == 0
    || (pinned->window
      && (!pinned->bound || (pinned->owner_qp != 0 && pinned->owner_qp != with_.qp))))
    return true;
  // Other memory of this process is accessed by this process only. A peer could be stopped between
  // its check of a grant and a copy to an address, which may have another use when it continues.
  // And a process that copies from or to a hostile peer's addresses may wait for that peer for
  // ever, in a page fault (userfaultfd(2), FUSE).
  const auto area = shared_memory::find(pinned->memory, pinned->length);
  if (!area)
    return true;
  // A peer that may only read must not map memory that it could write to. One that may write could
  // not do so in sealed memory.
  const bool writes = (pinned->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (writes != (area->who_writes() == writers::all))
    return true;
  const auto given = grants_.give(page_, *pinned.slot());
  if (!given)
    return true;
  grant_message grant;
  grant.key = key;
  grant.index = given->index;
  grant.generation = given->generation;
  grant.rights = pinned->access;
  grant.address = pinned->address;
  grant.length = pinned->length;
  grant.place = static_cast<std::uint64_t>(pinned->memory - area->base());
  return link_->send(lane_, grant, area->fd()) || errno != EAGAIN;
}

// Through the socket, because a descriptor comes with each.
void local_wire::take_grants() noexcept
{
  if (!link_->has_grants())
    return;
  for (descriptor memory; const auto grant = link_->take_grant(lane_, memory);)
    direct_.grant(*grant, memory, link_->areas());
}

} // namespace rdma::software::wire
