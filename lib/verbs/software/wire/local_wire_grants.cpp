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
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/local_wire.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include <sys/stat.h>

namespace rdma::software::wire {

namespace {

// Records that are no frames; their first byte is an opcode that IBA 9.2.1 leaves to manufacturers.
enum note : std::uint8_t
{
  note_key = 0xc0,   ///< asks for a grant: the key of the last request that was begun
  note_grant = 0xc1, ///< the answer
};

struct key_note
{
  std::uint8_t kind = note_key;
  std::uint32_t key = 0;
};

struct grant_note
{
  std::uint8_t kind = note_grant;
  grant_message what;
};

// Through the socket, with the descriptor of the memory.
struct area_note
{
  std::uint64_t name = 0;
};

} // namespace

void local_wire::open_page(const std::shared_ptr<segment>& with) noexcept
{
  page_ = {};
  page_.words = mine_->grants.data();
  page_.socket = socket_;
  try
  {
    page_.peer = std::make_shared<memory_peer>();
    page_.peer->keep_mapped = with;
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
  switch (static_cast<std::uint8_t>(body.front()))
  {
  case note_key:
  {
    key_note note;
    if (body.size() < sizeof note)
      return note_is::none;
    std::memcpy(&note, body.data(), sizeof note);
    // Only behind a request that was permitted: a wrong key must end the queue pair as on TCP, and
    // asking must not show which keys exist.
    if (note.key == responder_.accepted_key() && with_.kind == protocol::service_rc)
      answer(note.key);
    return note_is::taken;
  }
  case note_grant:
  {
    grant_note note;
    if (body.size() < sizeof note)
      return note_is::none;
    std::memcpy(&note, body.data(), sizeof note);
    // The memory that it names was sent before it.
    if (!direct_.has_area(note.what.area))
    {
      read_messages();
      if (messages_left_ == 0 && !direct_.has_area(note.what.area))
        return note_is::early;
    }
    direct_.grant(note.what);
    return note_is::taken;
  }
  default:
    return note_is::none;
  }
}

// Grants a key to the peer. Without an answer the peer goes on to send frames.
void local_wire::answer(std::uint32_t key) noexcept
{
  // What a request with this key would have to show (key_table::pin_remote()), but for the place,
  // which is checked where it is used.
  const key_pin pinned(with_.keys->pin(key));
  constexpr unsigned remote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (!pinned || pinned->pd != with_.pd || (pinned->access & remote) == 0
    || (pinned->window
      && (!pinned->bound || (pinned->owner_qp != 0 && pinned->owner_qp != with_.qp))))
    return;
  grant_note note;
  note.what.key = key;
  note.what.rights = pinned->access;
  note.what.address = pinned->address;
  note.what.length = pinned->length;
  // Other memory of this process is accessed by this process only. A peer could be stopped between
  // its check of a grant and a copy to an address, which may have another use when it continues.
  // And a process that copies from or to a hostile peer's addresses may wait for that peer for
  // ever, in a page fault (userfaultfd(2), FUSE).
  const auto area = shared_memory::find(pinned->memory, pinned->length);
  if (!area || !send_area(*area, note.what.area))
    return;
  note.what.place = static_cast<std::uint64_t>(pinned->memory - area->base());
  if (response_out_.pending && response_out_.frame.sent != 0)
    return; // its records follow each other; the key is shown again
  std::byte* const at = responses_out_.begin(sizeof note, false);
  if (at == nullptr)
    return;
  const auto given = grants_.give(page_, *pinned.slot());
  if (!given)
    return;
  note.what.index = given->index;
  note.what.generation = given->generation;
  std::memcpy(at, &note, sizeof note);
  responses_out_.end(sizeof note);
  news_ = true;
}

bool local_wire::send_area(const shared_memory& what, std::uint64_t& name) noexcept
{
  struct stat status
  {
  };
  if (::fstat(what.fd(), &status) != 0)
    return false;
  name = status.st_ino;
  if (std::find(areas_sent_.begin(), areas_sent_.end(), name) != areas_sent_.end())
    return true;
  const area_note note{name};
  try
  {
    areas_sent_.reserve(areas_sent_.size() + 1);
  }
  catch (const std::bad_alloc&)
  {
    return false;
  }
  if (send_with_descriptor(socket_, std::as_bytes(std::span(&note, 1)), what.fd()) != sizeof note)
    return false;
  areas_sent_.push_back(name);
  return true;
}

bool local_wire::hear() noexcept
{
  messages_left_ = messages_max;
  return read_messages();
}

// Reads the messages of the socket up to this call's bound. Returns false at its end.
bool local_wire::read_messages() noexcept
{
  for (; messages_left_ != 0; --messages_left_)
  {
    area_note note;
    std::array<std::byte, sizeof note + 1> bytes; // one more shows that a message is too long
    descriptor with;
    attached count = attached::none;
    const ssize_t n = receive_with_descriptor(socket_, bytes, with, count);
    if (n < 0)
      return errno == EAGAIN || errno == EINTR;
    if (n == 0)
      return false;
    heard_ = true;
    const bool wakes = n == 1 && count == attached::none;
    const bool offers = n == sizeof note && (count == attached::one || count == attached::lost);
    if (!wakes && !offers)
    {
      malformed_ = true;
      return true;
    }
    if (!with)
      continue;
    std::memcpy(&note, bytes.data(), sizeof note);
    direct_.add_area(note.name, with);
  }
  return true;
}

} // namespace rdma::software::wire
