//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/wire/engine.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/served_link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

// Making, accepting and ending the engine's links to other contexts.

namespace rdma::software::wire {
namespace {

// The bound on links of peers to which no queue pair has attached yet.
constexpr std::ptrdiff_t unused_max = 64;
constexpr std::int64_t unused_time = 2'000'000'000;

} // namespace

std::shared_ptr<link> engine::attach(std::uint32_t qp, const path& to, lane_use& lane) noexcept
{
  try
  {
    const std::lock_guard lock(links_mutex_);
    for (const auto& each : links_)
    {
      if (!each->leads_to(to))
        continue;
      if (const auto taken = each->take(qp))
      {
        lane = *taken;
        return each;
      }
    }
    const std::shared_ptr<link> made = to.is_local ? make_link(to) : connect_link(to);
    const auto taken = made ? made->take(qp) : std::nullopt;
    if (!taken || !add(made))
      return nullptr;
    lane = *taken;
    return made;
  }
  catch (const std::bad_alloc&)
  {
    return nullptr;
  }
}

const char* engine::linked_by(const protocol::endpoint_name& peer) noexcept
{
  const std::lock_guard lock(links_mutex_);
  for (const bool locally : {true, false})
  {
    const auto connects = [there = path_to(peer, locally)](const auto& each)
    { return each->connects(there); };
    if (std::any_of(links_.begin(), links_.end(), connects))
      return locally ? "local" : "tcp";
  }
  return "";
}

// Makes a local link. Returns null if the peer's context is not on this host. May throw
// std::bad_alloc, as all functions below.
std::shared_ptr<link> engine::make_link(const path& to)
{
  const address remote = to_local_address(to_gid(to.to), to.port);
  descriptor socket = make_local_socket();
  if (!socket || ::connect(socket.get(), remote.get(), remote.size) != 0
    || !is_same_user(socket.get()))
    return nullptr;
  descriptor fd;
  std::shared_ptr<segment> memory = segment::create(fd);
  if (!memory)
    return nullptr;
  return std::make_shared<served_link>(
    *this, std::move(socket), std::move(memory), to, std::move(fd));
}

// Begins to connect a link over TCP.
std::shared_ptr<link> engine::connect_link(const path& to)
{
  const address local = to_address(to_gid(to.from), 0);
  const address remote = to_address(to_gid(to.to), to.port);
  descriptor socket = make_socket(remote.storage.ss_family);
  if (!socket)
    return nullptr;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (is_of_this_host(to_gid(to.to)))
    set_no_pacing(socket.get());
  set_route(socket.get(), to.by);
  // Bound to the address of the GID, because the peer admits no other.
  if (local.storage.ss_family != remote.storage.ss_family
    || ::bind(socket.get(), local.get(), local.size) != 0
    || (::connect(socket.get(), remote.get(), remote.size) != 0 && errno != EINPROGRESS))
    return nullptr;
  return std::make_shared<tcp_link>(*this, std::move(socket), to, true);
}

// Adds a new link to the engine. The caller holds links_mutex_.
bool engine::add(const std::shared_ptr<link>& made)
{
  links_.reserve(links_.size() + 1);
  const std::lock_guard lock(targets_mutex_);
  const std::uint32_t number = numbers_end + sockets_added_++;
  if (!watch(made->socket(), number, EPOLLIN))
    return false;
  try
  {
    insert(*made, number);
  }
  catch (const std::bad_alloc&)
  {
    unwatch(made->socket());
    throw;
  }
  links_.push_back(made);
  return true;
}

// Reads the first message of a peer that makes a link. Returns true if it has arrived, or cannot
// arrive any more.
bool engine::read_local_hello(accepted_socket& g) noexcept
try
{
  attach_message hello;
  std::array<std::byte, sizeof hello + 1> bytes; // one byte more detects a message that is too long
  descriptor fd;
  attached count = attached::none;
  const ssize_t n = receive_with_descriptor(g.fd.get(), bytes, fd, count);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n != sizeof hello || count != attached::one)
    return true;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  const auto content = protocol::decode_hello(hello.bytes);
  std::shared_ptr<segment> memory = content ? segment::map(fd) : nullptr;
  if (!memory)
    return true;
  if (g.until != 0)
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, g.fd.get(), nullptr);
  adopt(std::make_shared<served_link>(
          *this, std::move(g.fd), std::move(memory), path_to(content->from, true)),
    hello);
  return true;
}
catch (const std::bad_alloc&)
{
  return true; // the peer tries again
}

// Does the same over TCP, for a message that has arrived.
void engine::adopt(accepted_socket& g) noexcept
try
{
  const auto hello = decode_attach(g.bytes);
  const auto content = hello ? protocol::decode_hello(hello->bytes) : std::nullopt;
  if (!content)
    return;
  if (g.until != 0)
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, g.fd.get(), nullptr);
  if (is_of_this_host(g.from))
    set_no_pacing(g.fd.get());
  path from = path_to(content->from, false);
  std::copy(std::begin(g.from.raw), std::end(g.from.raw), from.to.begin());
  adopt(std::make_shared<tcp_link>(*this, std::move(g.fd), from, false), *hello);
}
catch (const std::bad_alloc&)
{
  // The peer tries again.
}

// Adds a link that a peer has made, and introduces its first queue pair.
void engine::adopt(const std::shared_ptr<link>& made, const attach_message& hello)
{
  std::shared_ptr<link> oldest;
  {
    const std::lock_guard lock(links_mutex_);
    if (!add(made))
      return;
    // A pending hello keeps its link.
    const auto unused = [&made](const auto& each)
    { return each != made && each->is_unused() && each.use_count() == 1; };
    if (std::count_if(links_.begin(), links_.end(), unused) >= unused_max)
    {
      const auto found = std::find_if(links_.begin(), links_.end(),
        [&unused](const auto& each) { return unused(each) && each->retire(); });
      if (found != links_.end())
      {
        oldest = std::move(*found);
        links_.erase(found);
      }
    }
  }
  if (oldest)
    end(*oldest);
  made->expect_use(unused_time);
  made->introduce(hello);
}

void engine::end(link& which) noexcept
{
  unwatch(which.socket());
  remove(which);
  which.end(); // a pending hello may keep the object
}

void engine::end_links() noexcept
{
  std::vector<std::shared_ptr<link>> all;
  {
    const std::lock_guard lock(links_mutex_);
    all.swap(links_);
  }
  for (const auto& each : all)
    end(*each);
}

// Called by the engine's thread while it serves no link.
void engine::end_unused_links() noexcept
{
  if (!links_are_due_.exchange(false, std::memory_order_relaxed))
    return;
  const std::int64_t at = now();
  std::vector<std::shared_ptr<link>> gone;
  {
    const std::lock_guard lock(links_mutex_);
    try
    {
      gone.reserve(links_.size());
    }
    catch (const std::bad_alloc&)
    {
      return; // repeated with the next one
    }
    std::erase_if(links_,
      [&gone, at](std::shared_ptr<link>& each)
      {
        const bool ends = each->has_expired(at) && each.use_count() == 1 && each->retire();
        if (ends)
          gone.push_back(std::move(each));
        return ends;
      });
    // A thread is using it, or a hello is pending.
    for (const auto& each : links_)
      if (each->has_expired(at))
        each->expect_use(unused_time);
  }
  for (const auto& each : gone)
    end(*each);
}

} // namespace rdma::software::wire
