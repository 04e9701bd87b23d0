//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_DEVICE_EVENTS_CORE_HPP
#define BOOST_RDMA_DETAIL_DEVICE_EVENTS_CORE_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/device_event.hpp>
#include <boost_rdma/device_events_options.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace rdma {

namespace detail {

// A device_events, independent of the types of executor and handlers.
class device_events_core
{
public:
  using handler_type = boost::asio::any_completion_handler<void(error_code, device_event)>;

  // Throws system_error.
  static std::shared_ptr<device_events_core> make(const boost::asio::any_io_executor& inner,
    const rdma::context& context, const device_events_options& options);

  virtual ~device_events_core() = default;
  virtual void wait(const boost::asio::any_io_executor& executor, handler_type handler) = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
};

// Waits, or completes with error::closed if `core` is null: the object was moved from.
void start_wait(const boost::asio::any_io_executor& executor, device_events_core* core,
  device_events_core::handler_type handler);

} // namespace detail
} // namespace rdma

#endif // BOOST_RDMA_DETAIL_DEVICE_EVENTS_CORE_HPP
