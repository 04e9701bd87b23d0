//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_CONNECT_CM_EVENT_CHANNEL_HPP
#define BOOST_RDMA_LIB_CONNECT_CM_EVENT_CHANNEL_HPP

#include "boost_rdma/cm/private_data.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "boost_rdma/device.hpp"
#include "boost_rdma/error.hpp"
#include "completion/handler_slot.hpp"
#include "completion/inbox.hpp"
#include "connect/connection_service.hpp"
#include "verbs/cm_api.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace rdma::cm::detail {

// An rdma_cm_event, copied: the original has been acknowledged.
struct event
{
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_conn_param parameters; // without private_data
  private_data data;
};

// Receives the events of an id; rdma_cm_id::context points to it.
class event_sink
{
public:
  virtual void on_event(const event& what) = 0;

protected:
  ~event_sink() = default;
};

// An rdma_event_channel, which must outlive its ids.
class native_channel
{
public:
  native_channel(const verbs::cm_api& api, rdma_event_channel* native) noexcept
    : api_(api)
    , native_(native)
  {
  }
  ~native_channel()
  {
    if (!process_.foreign())
      api_.destroy_event_channel(native_);
  }
  native_channel(const native_channel&) = delete;
  native_channel& operator=(const native_channel&) = delete;

  [[nodiscard]] const verbs::cm_api& api() const noexcept { return api_; }
  [[nodiscard]] rdma_event_channel* native() const noexcept { return native_; }
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

private:
  const verbs::cm_api& api_;
  rdma_event_channel* native_;
  const rdma::detail::process_mark process_;
};

// Owns an rdma_cm_id. Destroying it on another thread than the service's is safe only if no event
// can be in transit to the sink. A child process does not destroy the id, because it shares the
// parent's descriptor.
class unique_id
{
public:
  unique_id() noexcept = default;
  unique_id(std::shared_ptr<native_channel> channel, rdma_cm_id* id) noexcept
    : channel_(std::move(channel))
    , id_(id)
  {
  }
  unique_id(unique_id&& other) noexcept
    : channel_(std::move(other.channel_))
    , id_(std::exchange(other.id_, nullptr))
  {
  }
  unique_id& operator=(unique_id&& other) noexcept
  {
    reset();
    channel_ = std::move(other.channel_);
    id_ = std::exchange(other.id_, nullptr);
    return *this;
  }
  ~unique_id() { reset(); }

  explicit operator bool() const noexcept { return id_ != nullptr; }
  rdma_cm_id* operator->() const noexcept { return id_; }
  [[nodiscard]] rdma_cm_id* get() const noexcept { return id_; }
  [[nodiscard]] const verbs::cm_api& api() const noexcept { return channel_->api(); }
  void reset() noexcept
  {
    if (id_ != nullptr && !channel_->forked())
      channel_->api().destroy_id(id_);
    id_ = nullptr;
    channel_.reset();
  }

private:
  std::shared_ptr<native_channel> channel_;
  rdma_cm_id* id_ = nullptr;
};

// Reads RDMA-CM's events for all that a connection_service connects on devices of one kind, on its
// thread.
class event_channel : public boost::asio::execution_context::service
{
public:
  // Any thread. Returns the service's channel for this kind of device after opening it, or null if
  // RDMA-CM cannot be used.
  static event_channel* of(
    rdma::detail::connection_service& service, device_kind kind, error_code& ec);

  [[nodiscard]] const verbs::cm_api& api() const noexcept { return native_->api(); }

  [[nodiscard]] boost::asio::io_context& io() noexcept { return io_; }

  // For threads that may outlive the service.
  [[nodiscard]] const std::shared_ptr<rdma::detail::inbox>& service_inbox() const noexcept
  {
    return inbox_;
  }

  // Returns true in a child of the process with the service's thread: nothing runs here.
  [[nodiscard]] bool forked() const noexcept { return process_.foreign(); }

  // Any thread. Events go to `sink` from here on, at once.
  unique_id make_id(event_sink& sink, error_code& ec);

  // On the service's thread. Takes ownership of an id that came with an event.
  unique_id adopt(rdma_cm_id* native) { return {native_, native}; }

  // On the service's thread. Keeps an object alive until drop() or the end of the service.
  void hold(std::shared_ptr<void> object) { held_.insert(std::move(object)); }
  void drop(const std::shared_ptr<void>& object) { held_.erase(object); }

protected:
  event_channel(boost::asio::execution_context& owner, verbs::cm_library library);

private:
  void shutdown() override;
  void open(error_code& ec);
  void wait();
  void take_events();

  boost::asio::io_context& io_;
  const verbs::cm_library library_;
  const rdma::detail::process_mark process_;
  std::mutex mutex_; // for opening
  std::shared_ptr<rdma::detail::inbox> inbox_;
  std::shared_ptr<native_channel> native_;
  std::optional<boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>>
    descriptor_;
  rdma::detail::handler_slot wait_slot_;
  std::set<std::shared_ptr<void>> held_;
};

} // namespace rdma::cm::detail

#endif // BOOST_RDMA_LIB_CONNECT_CM_EVENT_CHANNEL_HPP
