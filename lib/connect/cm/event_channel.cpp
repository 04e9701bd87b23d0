//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/cm/event_channel.hpp"

#include "connect/cm/errors.hpp"
#include "connect/log.hpp"
#include "verbs/software/cm/cm.hpp"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/error.hpp>

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <span>
#include <system_error>
#include <utility>

namespace rdma::cm::detail {

namespace asio = boost::asio;

namespace {

verbs::cm_library library_of(device_kind kind)
{
  return kind == device_kind::software ? verbs::cm_library{&software::cm_api(), {}, {}}
                                       : verbs::system_cm();
}

template <device_kind Kind>
class channel_of_kind final : public event_channel
{
public:
  using key_type = channel_of_kind;
  static asio::execution_context::id id;

  explicit channel_of_kind(asio::execution_context& owner)
    : event_channel(owner, library_of(Kind))
  {
  }
};

template <device_kind Kind>
asio::execution_context::id channel_of_kind<Kind>::id;

} // namespace

event_channel::event_channel(asio::execution_context& owner, verbs::cm_library library)
  : asio::execution_context::service(owner)
  , io_(static_cast<asio::io_context&>(owner))
  , library_(std::move(library))
{
}

event_channel* event_channel::of(
  rdma::detail::connection_service& service, device_kind kind, error_code& ec)
{
  event_channel* channel = nullptr;
  if (kind == device_kind::software)
    channel = &asio::use_service<channel_of_kind<device_kind::software>>(service.io());
  else
    channel = &asio::use_service<channel_of_kind<device_kind::nic>>(service.io());
  std::lock_guard lock(channel->mutex_);
  ec = {};
  if (!channel->native_)
  {
    channel->inbox_ = service.service_inbox();
    channel->open(ec);
  }
  return ec ? nullptr : channel;
}

void event_channel::open(error_code& ec)
{
  if (library_.functions == nullptr)
  {
    rdma::detail::log_line(spdlog::level::warn, "RDMA-CM: {}", library_.reason);
    ec = error::no_connection_manager;
    return;
  }
  errno = 0;
  rdma_event_channel* made = library_.functions->create_event_channel();
  if (made == nullptr)
  {
    ec = last_cm_error();
    rdma::detail::log_line(spdlog::level::warn,
      "RDMA-CM: cannot open an event channel (/dev/infiniband/rdma_cm): {}", ec.message());
    // Other errors mean that the device or the kernel's module is missing.
    if (ec != boost::system::errc::permission_denied
      && ec != boost::system::errc::too_many_files_open)
      ec = error::no_connection_manager;
    return;
  }
  auto native = std::make_shared<native_channel>(*library_.functions, made);
  const int flags = ::fcntl(made->fd, F_GETFL);
  if (flags < 0 || ::fcntl(made->fd, F_SETFL, flags | O_NONBLOCK) != 0)
  {
    ec = last_cm_error();
    return;
  }
  descriptor_.emplace(io_);
  descriptor_->assign(made->fd, ec);
  if (ec)
    return descriptor_.reset();
  native_ = std::move(native);
  wait();
}

void event_channel::shutdown()
{
  held_.clear();
  if (descriptor_)
    descriptor_->release(); // librdmacm closes it
  descriptor_.reset();
  native_.reset(); // ids that handlers own keep it
}

unique_id event_channel::make_id(event_sink& sink, error_code& ec)
{
  rdma_cm_id* made = nullptr;
  errno = 0;
  if (native_->api().create_id(native_->native(), &made, &sink, RDMA_PS_TCP) != 0)
  {
    ec = last_cm_error();
    return {};
  }
  return {native_, made};
}

// Takes no memory from the heap: if it failed, the channel would receive no more events.
void event_channel::wait()
{
  descriptor_->async_wait(asio::posix::descriptor_base::wait_read,
    asio::bind_allocator(rdma::detail::slot_allocator<void>(wait_slot_),
      [this](const error_code& ec)
      {
        if (ec)
          return;
        wait(); // first, as take_events() may throw
        take_events();
      }));
}

// Takes all events, because the reactor is edge-triggered.
void event_channel::take_events()
{
  rdma_cm_event* found = nullptr;
  while (native_->api().get_cm_event(native_->native(), &found) == 0)
  {
    event copy{found->event, found->status, found->id, found->param.conn, {}};
    const auto* bytes = static_cast<const std::byte*>(found->param.conn.private_data);
    if (bytes != nullptr)
      copy.data = private_data(std::span(bytes, found->param.conn.private_data_len));
    copy.parameters.private_data = nullptr;
    // Before on_event(): an id cannot be destroyed until its events are acknowledged
    // (rdma_destroy_id(3)).
    native_->api().ack_cm_event(found);
    try
    {
      static_cast<event_sink*>(copy.id->context)->on_event(copy);
    }
    catch (const std::exception& e)
    {
      // Only a lack of memory throws here. That connection is lost, the others continue.
      rdma::detail::log_line(
        spdlog::level::err, "RDMA-CM: {}: {}", native_->api().event_str(copy.type), e.what());
    }
  }
  if (errno != EAGAIN)
    rdma::detail::log_line(
      spdlog::level::err, "RDMA-CM: cannot read events: {}", last_cm_error().message());
}

} // namespace rdma::cm::detail
