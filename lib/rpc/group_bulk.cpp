//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_impl.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/error.hpp>

#include <cstring>
#include <utility>

// The content of bulk calls: parts that arrive, and parts for the members below this one.

namespace rdma::detail::rpc {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {

// Memory that counts as this member's as long as a call, a transfer or a handler uses it.
struct counted_room
{
  counted_room(registered_buffer of, std::shared_ptr<std::atomic<std::size_t>> in)
    : buffer(std::move(of))
    , bytes(std::move(in))
  {
    *bytes += buffer.size();
  }
  ~counted_room() { *bytes -= buffer.size(); }
  counted_room(const counted_room&) = delete;
  counted_room& operator=(const counted_room&) = delete;

  registered_buffer buffer;
  const std::shared_ptr<std::atomic<std::size_t>> bytes;
};

// Bytes that travel in messages are dropped from now on. One-sided operations that were posted
// still write to their memory.
void stop_pulling(std::shared_ptr<asio::cancellation_signal>& what)
{
  if (const auto signal = std::exchange(what, nullptr))
    signal->emit(asio::cancellation_type::terminal);
}

} // namespace

// --- parts that arrive ---

// Allocates memory for the content, and copies what is here.
error_code group_impl::make_room(const lock_type&, bulk_content& of)
{
  const std::uint64_t size = of.state.size();
  if (size > options_.content_max)
    return error::message_too_large;
  // Less by now, if another thread releases some.
  const std::size_t used = *content_bytes_;
  if (used > options_.content_max - size)
    return error::overloaded;
  error_code ec;
  registered_buffer made = domain_.context().allocate(size, ec);
  if (ec)
    return ec;
  const auto room = std::make_shared<counted_room>(std::move(made), content_bytes_);
  if (of.state.here() != 0)
    std::memcpy(room->buffer.data(), of.memory.data(), of.state.here());
  of.owner = std::shared_ptr<registered_buffer>(room, &room->buffer);
  of.memory = *of.owner;
  return {};
}

// Another member exposes a part of the content.
void group_impl::take_part(const lock_type& lock, const record_ptr& of, const group_request& r,
  const rdma::rpc::call_info& info, answer to)
{
  if (!of->bulk || info.exposed_count() != 1)
    return to.fail(error::malformed_message);
  bulk_content& bulk = *of->bulk;
  if (of->finishing && !bulk.state.is_complete())
    return to.fail(asio::error::timed_out);
  const rdma::rpc::bulk from = info.exposed(0);
  const auto offered = bulk.state.take_offer(r.bytes, from.size());
  using verdict = group_content::verdict;
  if (offered.is == verdict::malformed)
    return to.fail(error::malformed_message);
  if (offered.is == verdict::not_next)
  {
    std::vector<std::byte> bytes;
    append_progress(bytes, bulk.state.here());
    return to.reply(bytes);
  }
  if (offered.is == verdict::pull_aside)
    if (const error_code ec = make_room(lock, bulk))
    {
      bulk.state.refuse(offered);
      return to.fail(ec);
    }
  const auto pulling = std::make_shared<asio::cancellation_signal>();
  stop_pulling(bulk.pulling);
  bulk.pulling = pulling;
  from.async_pull(0, bulk.owner->slice(r.bytes, from.size()),
    asio::bind_cancellation_slot(pulling->slot(),
      [self = shared_from_this(), of, number = offered.number, offset = r.bytes, pulling,
        owner = bulk.owner, to = std::move(to)](const error_code& ec, std::size_t bytes) mutable
      { self->on_pulled(of, number, offset, std::move(to), ec, bytes); }));
}

void group_impl::on_pulled(const record_ptr& of, std::uint64_t number, std::uint64_t offset,
  answer to, const error_code& ec, std::size_t bytes)
{
  bool is_complete = false;
  {
    const lock_type lock(mutex_);
    is_complete = of->bulk->state.take_pulled(number, ec ? 0 : bytes);
    or_end(lock, of,
      [&]
      {
        of->bulk->pulled.emplace_back(offset, std::move(to));
        answer_offers(lock, *of->bulk, ec);
        advance(lock, of);
      });
  }
  if (is_complete)
    start_own(of);
}

// An offer whose pull was superseded is answered when the bytes are here, or no pull goes on.
void group_impl::answer_offers(const lock_type&, bulk_content& of, const error_code& ec)
{
  std::erase_if(of.pulled,
    [&](std::pair<std::uint64_t, answer>& each)
    {
      if (of.state.here() > each.first)
      {
        std::vector<std::byte> bytes;
        append_progress(bytes, of.state.here());
        each.second.reply(bytes);
        return true;
      }
      if (of.state.is_pulling())
        return false;
      each.second.fail(ec ? ec : make_error_code(asio::error::operation_aborted));
      return true;
    });
}

// --- parts for the members below this one ---

// The child has received the call.
void group_impl::add_feed(
  const lock_type& lock, const member& to, const record_ptr& of, group_range range)
{
  bulk_content::feed& found = of->bulk->feeds[range.first];
  if (found.by == to.by)
    return;
  found = {to.by, range, nullptr};
  of->bulk->state.add_child(range.first);
  feed(lock, of);
}

// Exposes the parts that children lack, and withdraws those of members that are bypassed.
void group_impl::feed(const lock_type&, const record_ptr& of)
{
  if (!of->bulk || of->finishing || of->ending)
    return;
  bulk_content& bulk = *of->bulk;
  for (auto each = bulk.feeds.begin(); each != bulk.feeds.end();)
  {
    if (of->state.waits_for(each->first))
    {
      ++each;
      continue;
    }
    bulk.state.remove_child(each->first);
    const auto offered = std::move(each->second.offered);
    each = bulk.feeds.erase(each);
    if (offered)
      offered->emit(asio::cancellation_type::terminal);
  }
  for (const group_content::part& each : bulk.state.take_parts())
  {
    bulk_content::feed& to = bulk.feeds.at(each.place);
    group_request r = of->header;
    r.kind = group_request_kind::part;
    r.range = to.range;
    r.left = r.patience;
    r.bytes = each.offset;
    std::vector<std::byte> bytes;
    append_group_request(bytes, r);
    const auto offered = std::make_shared<asio::cancellation_signal>();
    to.by->async_call<group_transport>(bytes,
      {.timeout = of->header.patience,
        .exposed = rdma::rpc::expose(bulk.memory.slice(each.offset, each.bytes))},
      asio::bind_cancellation_slot(offered->slot(),
        [self = shared_from_this(), of, place = each.place, offered, owner = bulk.owner](
          const error_code& ec, const std::vector<std::byte>& content)
        { self->on_part(of, place, offered, ec, content); }));
    to.offered = offered; // the call's handler waits for the mutex
    ++bulk.exposed;
  }
}

void group_impl::on_part(const record_ptr& of, std::uint32_t place,
  const std::shared_ptr<asio::cancellation_signal>& offered, error_code ec,
  std::span<const std::byte> content)
{
  const auto answer = ec ? std::nullopt : decode_progress(content);
  const lock_type lock(mutex_);
  bulk_content& bulk = *of->bulk;
  --bulk.exposed;
  complete_if_withdrawn(lock, *of);
  const auto found = bulk.feeds.find(place);
  if (closed_ || found == bulk.feeds.end() || found->second.offered != offered)
    return;
  found->second.offered.reset();
  if (!ec && !(answer && bulk.state.take_progress(place, *answer)))
    ec = error::malformed_message;
  // The call was sent by the same connection, so its answer decides if there is another one.
  if (ec && ec != asio::error::timed_out && !found->second.by->is_open())
    return;
  or_end(lock, of,
    [&]
    {
      if (ec)
        of->state.take_failure(place, ec, steady_clock::now());
      advance(lock, of);
    });
}

// No member gets further parts, and this one releases its memory.
void group_impl::withdraw(const lock_type&, record& of)
{
  if (!of.bulk)
    return;
  for (const auto& [place, each] : std::exchange(of.bulk->feeds, {}))
    if (each.offered)
      each.offered->emit(asio::cancellation_type::terminal);
  stop_pulling(of.bulk->pulling);
  of.bulk->owner.reset();
  of.bulk->memory = {};
}

} // namespace rdma::detail::rpc
