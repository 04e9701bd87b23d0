//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP
#define BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP

#include <boost_rdma/context.hpp>
#include <boost_rdma/detail/device_events_core.hpp>
#include <boost_rdma/detail/inner_executor.hpp>
#include <boost_rdma/detail/io_object.hpp>
#include <boost_rdma/device_event.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace rdma {

/// What a device of a context reports by itself, as an Asio I/O object: ports that go down,
/// addresses that come and go, queues that fail, the device's end (ibv_get_async_event(3)).
/**
 * @code
 * rdma::device_events events(io, rdma);
 * for (;;)
 * {
 *   rdma::device_event event = co_await events.async_wait_event(asio::use_awaitable);
 *   std::cerr << event.text() << '\n';
 * }
 * @endcode
 *
 * Listening is voluntary. Whether or not anybody does, the library reads every event and does what
 * it must: a device that failed or was removed ends all operations of its queue pairs with
 * error::device_lost; a queue pair that the device reports as failed goes to the error state, and
 * its operations end; a failed completion queue or shared receive queue ends its queue pairs with
 * error::completion_queue_failed or error::shared_receive_queue_failed. A port that went down ends
 * nothing: operations are repeated until queue_pair_options::retry_count is used up.
 *
 * close(), as destruction, stops listening; cancel() ends the waits alone: events go on being kept.
 * is_open() and get_executor() are as Asio's I/O objects have them.
 *
 * Any number of objects may listen to one device: each gets every event that comes after it was
 * made, those between two waits included, up to device_events_options::capacity. Events of other
 * contexts' queue pairs are not seen; events of ports and of the device are seen by everyone.
 *
 * The library reads the events of every device it opened, on one thread for the process: do not
 * call ibv_get_async_event() on device::native_handle() yourself.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe, as with Asio's sockets. The context may run on
 * any number of threads.
 */
template <class Executor = boost::asio::any_io_executor>
class basic_device_events : public detail::io_object<Executor, detail::device_events_core>
{
public:
  /// What handlers run on that have no executor of their own.
  using executor_type = Executor;

  /// Rebinds the type to another executor.
  template <class OtherExecutor>
  struct rebind_executor
  {
    /// The same type with that executor.
    using other = basic_device_events<OtherExecutor>;
  };

  /// Listens from here on.
  /**
   * @param executor For handlers that have none of their own.
   * @param context Whose device it is.
   * @param options `device` is the name of one of the context's devices, empty for the default one;
   * `capacity` is how many events are kept between two waits, 256 unless it is set: beyond it the
   * oldest gives way, and device_event::lost counts them.
   *
   * Throws system_error: error::no_device when the context has not opened a device of that name,
   * error::device_lost, error::forked, or that there is no thread to be had.
   */
  basic_device_events(const executor_type& executor, const rdma::context& context,
    const device_events_options& options = device_events_options())
    : detail::io_object<Executor, detail::device_events_core>(executor,
      detail::device_events_core::make(detail::inner_executor(executor), context, options))
  {
  }

  /// As above, with the executor of an execution context.
  template <class ExecutionContext>
    requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
  basic_device_events(ExecutionContext& owner, const rdma::context& context,
    const device_events_options& options = device_events_options())
    : basic_device_events(executor_type(owner.get_executor()), context, options)
  {
  }

  /// Waits for the next event, or takes the oldest that is kept.
  /**
   * Any number of waits may be outstanding; the oldest gets the next event.
   *
   * @param token A completion token for the signature below.
   *
   * @par Completion signature
   * @code void(rdma::error_code, rdma::device_event) @endcode
   * With an error the event has no meaning.
   *
   * What can go wrong: operation_aborted; error::closed; error::forked; error::device_lost, once
   * device_event_type::device_fatal was delivered, as nothing comes after it.
   *
   * An outstanding wait keeps io_context::run() from returning, as a timer's does.
   *
   * @par Per-operation cancellation
   * terminal, partial and total withdraw the wait. No event is lost by it.
   */
  template <boost::asio::completion_token_for<void(error_code, device_event)> CompletionToken =
              boost::asio::default_completion_token_t<executor_type>>
  auto async_wait_event(
    CompletionToken&& token = boost::asio::default_completion_token_t<executor_type>())
  {
    return boost::asio::async_initiate<CompletionToken, void(error_code, device_event)>(
      detail::initiate_wait_event<executor_type>(this->executor_, this->core_), token);
  }
};

} // namespace rdma

#endif // BOOST_RDMA_BASIC_DEVICE_EVENTS_HPP
