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

#include <sys/epoll.h>

// The engine's links to other contexts on this host: made, accepted and ended.

namespace rdma::software::wire {
namespace {

// Links of peers that no queue pair has attached to yet.
constexpr std::ptrdiff_t unused_max = 64;
constexpr std::int64_t unused_time = 2'000'000'000;

} // namespace

std::shared_ptr<served_link> engine::attach(
  std::uint32_t qp, const ibv_gid& peer, std::uint32_t peer_qp, lane_use& lane) noexcept
{
  const std::uint16_t port = port_of(peer_qp);
  try
  {
    const std::lock_guard lock(links_mutex_);
    for (const auto& each : links_)
    {
      if (!each->leads_to(peer, port))
        continue;
      if (const auto taken = each->link().take(qp))
      {
        lane = *taken;
        return each;
      }
    }
    const address remote = to_local_address(peer, port);
    descriptor socket = make_local_socket();
    if (!socket || ::connect(socket.get(), remote.get(), remote.size) != 0
      || !is_same_user(socket.get()))
      return nullptr;
    descriptor fd;
    std::shared_ptr<segment> memory = segment::create(fd);
    if (!memory)
      return nullptr;
    const auto made = std::make_shared<served_link>(
      *this, std::move(socket), std::move(memory), peer, port, std::move(fd));
    const auto taken = made->link().take(qp);
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

// Serves a new link from now on. With links_mutex_ held. May throw std::bad_alloc.
bool engine::add(const std::shared_ptr<served_link>& made)
{
  links_.reserve(links_.size() + 1);
  const int socket = made->link().socket();
  const std::lock_guard lock(targets_mutex_);
  const std::uint32_t number = numbers_end + sockets_added_++;
  if (!watch(socket, number, EPOLLIN))
    return false;
  try
  {
    insert(*made, number);
  }
  catch (const std::bad_alloc&)
  {
    unwatch(socket);
    throw;
  }
  links_.push_back(made);
  return true;
}

// Reads the first message of a peer that makes a link. Returns true if it has come, or never will.
bool engine::hear_locally(accepted_socket& g) noexcept
try
{
  attach_message hello;
  std::array<std::byte, sizeof hello + 1> bytes; // one more shows that a message is too long
  descriptor fd;
  attached count = attached::none;
  const ssize_t n = receive_with_descriptor(g.fd.get(), bytes, fd, count);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n != sizeof hello || count != attached::one)
    return true;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  std::shared_ptr<segment> memory = segment::map(fd);
  if (!memory)
    return true;
  if (g.until != 0)
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, g.fd.get(), nullptr);
  const auto made = std::make_shared<served_link>(*this, std::move(g.fd), std::move(memory));
  std::shared_ptr<served_link> oldest;
  {
    const std::lock_guard lock(links_mutex_);
    if (!add(made))
      return true;
    // A hello that waits for its queue pair keeps its link.
    const auto unused = [&made](const auto& each)
    { return each != made && each->link().is_unused() && each.use_count() == 1; };
    if (std::count_if(links_.begin(), links_.end(), unused) >= unused_max)
    {
      const auto found = std::find_if(links_.begin(), links_.end(),
        [&unused](const auto& each) { return unused(each) && each->link().retire(); });
      if (found != links_.end())
      {
        oldest = std::move(*found);
        links_.erase(found);
      }
    }
  }
  if (oldest)
    end(*oldest);
  alarm(*made, now() + unused_time);
  made->introduce(hello);
  return true;
}
catch (const std::bad_alloc&)
{
  return true; // the peer tries again
}

void engine::end(served_link& which) noexcept
{
  unwatch(which.link().socket());
  which.link().shut_down(); // a hello that waits for its queue pair may keep it
  remove(which);
}

// For the engine's thread: it serves no link at this time.
void engine::end_unused_links() noexcept
{
  if (!links_are_due_.exchange(false, std::memory_order_relaxed))
    return;
  std::vector<std::shared_ptr<served_link>> gone;
  {
    const std::lock_guard lock(links_mutex_);
    try
    {
      gone.reserve(links_.size());
    }
    catch (const std::bad_alloc&)
    {
      return; // with the next one
    }
    std::erase_if(links_,
      [&gone](std::shared_ptr<served_link>& each)
      {
        const bool ends = each.use_count() == 1 && each->link().retire();
        if (ends)
          gone.push_back(std::move(each));
        return ends;
      });
    // Somebody is looking at it, or a hello waits for its queue pair.
    for (const auto& each : links_)
      if (each->link().is_unused())
        alarm(*each, now() + unused_time);
  }
  for (const auto& each : gone)
    end(*each);
}

} // namespace rdma::software::wire
