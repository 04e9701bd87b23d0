//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/completion_queue.hpp"

#include "completion/completion_queue_impl.hpp"

#include <cerrno>

#include <sys/epoll.h>
#include <unistd.h>

namespace rdma {

completion_queue::completion_queue(
  make_tag, executor_type executor, const context& context, const completion_queue_options& options)
{
  for (std::size_t i = 0; i < detail::device_count_max; ++i)
    if (context.impl()->device_at(i) != nullptr)
      impls_[i] = std::make_shared<detail::completion_queue_impl>(
        executor, context.impl()->devices(), i, options);
  if (options.mode != completion_mode::external)
    return;
  const auto check = [](int result)
  {
    if (result < 0)
      throw system_error(
        error_code(errno, boost::system::system_category()), "cannot make descriptors to sleep on");
    return result;
  };
  sleep_set_ = std::make_shared<sleep_set>(check(::epoll_create1(EPOLL_CLOEXEC)));
  for (const auto& impl : impls_)
    if (impl)
      for (const int each : impl->sleep_descriptors())
      {
        epoll_event event{};
        event.events = EPOLLIN;
        check(::epoll_ctl(sleep_set_->fd, EPOLL_CTL_ADD, each, &event));
      }
}

completion_queue::sleep_set::~sleep_set()
{
  ::close(fd);
}

// Every context opens the software device, so that its place is always taken.

completion_queue::executor_type completion_queue::get_executor() const
{
  return impls_[detail::software_index]->executor();
}

completion_mode completion_queue::mode() const noexcept
{
  return impls_[detail::software_index]->mode();
}

void completion_queue::mode(completion_mode mode) noexcept
{
  for (const auto& impl : impls_)
    if (impl)
      impl->mode(mode);
}

std::size_t completion_queue::poll()
{
  std::size_t count = 0;
  const bool in_context = mode() == completion_mode::external;
  for (const auto& impl : impls_)
    if (impl)
      count += impl->poll(in_context).handlers;
  return count;
}

bool completion_queue::arm()
{
  bool armed = true;
  for (const auto& impl : impls_)
    if (impl)
      armed = impl->arm() && armed;
  return armed;
}

} // namespace rdma
