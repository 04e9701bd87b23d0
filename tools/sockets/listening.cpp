//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "sockets/listening.hpp"

#include "sockets/endpoints.hpp"
#include "sockets/rules.hpp"
#include "sockets/runtime.hpp"
#include "sockets/system.hpp"

#include "connect/connection_service.hpp"

#include <cstdint>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

namespace rdma::sockets {

using boost::asio::ip::tcp;

namespace {

// The listeners of this process and its parents, for yield_udp_port().
struct listeners
{
  std::mutex mutex;
  std::vector<std::weak_ptr<listening>> all;

  static listeners& of_process()
  {
    static auto* const made = new listeners; // other threads may use it at exit
    return *made;
  }
};

// Returns false if the program has closed all descriptors, and has another one with this number.
bool is_udp_socket_of(int fd, std::uint16_t port)
{
  int type = 0;
  socklen_t size = sizeof type;
  const auto at = local_endpoint(fd);
  return at && at->port() == port && ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0
    && type == SOCK_DGRAM;
}

} // namespace

listening::listening(const tcp::endpoint& at, int fd)
  : at_(at)
  , questions_(std::make_shared<detail::question_list>())
  , used_in_(runtime::generation())
{
  const boost::asio::any_io_executor executor = runtime::of_process().io().get_executor();
  discovery_ = std::make_shared<detail::discovery_server>(
    detail::connection_service::of(executor).io(), questions_);
  error_code ec;
  discovery_->open(at, fd, ec);
  if (ec)
    throw system_error(ec, "cannot answer UDP");
  native_ = discovery_->native_handle();
}

listening::listening()
  : questions_(std::make_shared<detail::question_list>())
  , used_in_(runtime::generation() - 1) // not in this process yet
{
}

std::shared_ptr<listener> listener::open(int fd) noexcept
try
{
  const internal_call internal;
  const auto at = local_endpoint(fd);
  if (!at || at->port() == 0 || !rules::allow(true, at->data()))
    return nullptr;
  const auto made = std::make_shared<listening>(*at, fd);
  listeners& known = listeners::of_process();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.all, [](const auto& each) { return each.expired(); });
  known.all.push_back(made);
  return made;
}
catch (const std::exception&)
{
  return nullptr;
}

void listening::use() noexcept
{
  if (used_in_ != runtime::generation())
    static_cast<void>(discovery());
}

std::shared_ptr<detail::discovery_server> listening::discovery() noexcept
{
  const internal_call internal;
  const std::lock_guard lock(mutex_);
  if (std::exchange(used_in_, runtime::generation()) == runtime::generation())
    return discovery_;
  leave_to_parent();
  try
  {
    const boost::asio::any_io_executor executor = runtime::of_process().io().get_executor();
    discovery_ = std::make_shared<detail::discovery_server>(
      detail::connection_service::of(executor).io(), questions_);
    error_code unanswered; // the parent may answer
    if (native_ >= 0)
      discovery_->assign(at_.protocol(), native_, unanswered);
  }
  catch (const std::exception&)
  {
    // Without threads, clients that ask are refused.
  }
  return discovery_;
}

// The parent's object watches its socket by the parent's epoll set: it is leaked.
void listening::leave_to_parent() noexcept
{
  static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(discovery_)));
  discovery_ = nullptr;
}

// A process that closes its listener still decides on the clients that it has accepted.
void listening::close() noexcept
{
  const internal_call internal;
  const std::lock_guard lock(mutex_);
  const int native = std::exchange(native_, -1);
  if (used_in_ == runtime::generation())
  {
    if (discovery_)
      discovery_->close();
  }
  else if (is_udp_socket_of(native, at_.port()))
    ::close(native);
}

void yield_udp_port(const sockaddr* address, socklen_t size) noexcept
{
  const auto wanted = to_endpoint(address, size);
  if (!wanted || wanted->port() == 0 || runtime::existing() == nullptr)
    return;
  listeners& known = listeners::of_process();
  const std::lock_guard lock(known.mutex);
  for (const auto& each : known.all)
    if (const auto alive = each.lock(); alive && alive->endpoint().port() == wanted->port())
      alive->close();
}

} // namespace rdma::sockets
