//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP
#define BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP

#include <boost_rdma/acceptor_options.hpp>
#include <boost_rdma/basic_queue_pair.hpp>
#include <boost_rdma/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <utility>

namespace rdma::detail {

// An acceptor without the executor's and the handlers' types.
class acceptor_core
{
public:
  using handler_type =
    boost::asio::any_completion_handler<void(error_code, std::shared_ptr<queue_pair_core>)>;

  // `inner` is inside strands; same_context says that there were none.
  static std::shared_ptr<acceptor_core> make(const boost::asio::any_io_executor& inner,
    bool same_context, const protection_domain& domain, const boost::asio::ip::tcp::endpoint& endpoint,
    const acceptor_options& options, error_code& ec);

  virtual ~acceptor_core() = default;
  [[nodiscard]] virtual boost::asio::ip::tcp::endpoint local_endpoint() const = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  virtual void accept(const boost::asio::any_io_executor& executor, handler_type handler) = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
};

// accept() for a null core: the acceptor was moved from, or could not be opened.
void refuse_accept(
  const boost::asio::any_io_executor& executor, acceptor_core::handler_type handler);

// Makes the queue pair of the acceptor's type for a handler that waits for one.
template <class Executor, class Handler>
class accept_handler
{
public:
  template <class H>
  accept_handler(const Executor& executor, H&& handler)
    : handler_(std::forward<H>(handler))
    , executor_(executor)
  {
  }

  void operator()(const error_code& ec, std::shared_ptr<queue_pair_core> core)
  {
    std::move(handler_)(ec, basic_queue_pair<Executor>(executor_, std::move(core)));
  }

  Handler handler_;

private:
  Executor executor_;
};

template <class Executor>
class initiate_accept
{
public:
  using executor_type = Executor;

  initiate_accept(const Executor& executor, std::shared_ptr<acceptor_core> core)
    : executor_(executor)
    , core_(std::move(core))
  {
  }

  executor_type get_executor() const noexcept { return executor_; }

  template <class Handler>
  void operator()(Handler&& handler) const
  {
    accept_handler<Executor, std::decay_t<Handler>> wrapped(executor_, std::forward<Handler>(handler));
    if (core_)
      core_->accept(executor_, std::move(wrapped));
    else
      refuse_accept(executor_, std::move(wrapped));
  }

private:
  Executor executor_;
  std::shared_ptr<acceptor_core> core_;
};

} // namespace rdma::detail

// The wrapped handler's executor, allocator and cancellation slot are the handler's own.
template <template <class, class> class Associator, class Executor, class Handler, class Candidate>
struct boost::asio::associator<Associator, rdma::detail::accept_handler<Executor, Handler>, Candidate>
  : Associator<Handler, Candidate>
{
  using wrapped_type = rdma::detail::accept_handler<Executor, Handler>;

  static typename Associator<Handler, Candidate>::type get(const wrapped_type& wrapped) noexcept
  {
    return Associator<Handler, Candidate>::get(wrapped.handler_);
  }

  static auto get(const wrapped_type& wrapped, const Candidate& candidate) noexcept
    -> decltype(Associator<Handler, Candidate>::get(wrapped.handler_, candidate))
  {
    return Associator<Handler, Candidate>::get(wrapped.handler_, candidate);
  }
};

#endif // BOOST_RDMA_DETAIL_ACCEPTOR_CORE_HPP
