//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/client_impl.hpp"
#include "rpc/flow.hpp"

#include <boost/asio/error.hpp>

#include <memory>
#include <utility>

namespace rdma::detail::rpc {

namespace asio = boost::asio;

// The items of a call at the client that makes it.
class client_impl::caller_flow final : public flow
{
public:
  class call_type;

  caller_flow(std::shared_ptr<client_impl> by, std::uint32_t window)
    : flow(std::move(by), 0, window)
  {
  }

  // Cancels the call. Its end completes the operations.
  void close() override
  {
    if (client().forked())
      return;
    {
      const lock_type lock(client().mutex_);
      drop(lock);
      if (fsm_.is_closed())
        return;
    }
    client().cancel(number_);
  }

private:
  friend class client_impl;

  [[nodiscard]] client_impl& client() const { return static_cast<client_impl&>(*by_); }

  // The call may wait for room. The end of the items follows it.
  std::vector<std::byte>& messages(const lock_type& lock) override;

  call* what_ = nullptr; // exists until the state machine is closed
};

class client_impl::caller_flow::call_type final : public call
{
public:
  explicit call_type(std::shared_ptr<caller_flow> of)
    : of_(of)
  {
    of->what_ = this;
    items = std::move(of);
  }

  error_code take_result(const error_code& ec, std::span<const std::byte> reply) noexcept override
  {
    error_code outcome = ec;
    try
    {
      of_->reply_.assign(reply.begin(), reply.end());
    }
    catch (const std::bad_alloc&)
    {
      outcome = asio::error::no_memory;
    }
    of_->fsm_.close(outcome);
    return outcome;
  }

  void finish(bool) override
  {
    const std::shared_ptr<caller_flow> of = of_;
    remove();
    const lock_type lock(of->client().mutex_);
    of->settle(lock);
  }

  void remove() noexcept override { delete this; }

private:
  const std::shared_ptr<caller_flow> of_;
};

std::vector<std::byte>& client_impl::caller_flow::messages(const lock_type& lock)
{
  return client().calls_.with_server(number_) != nullptr ? client().connection::messages(lock)
                                                         : what_->kept;
}

std::shared_ptr<flow_core> client_impl::open_flow(
  const request& r, const rdma::rpc::call_options& options, bool reads)
{
  auto made = std::make_shared<caller_flow>(self(), reads ? flow_bytes_ : 0);
  auto* const what = new caller_flow::call_type(made);
  if (const error_code ec = add(*what))
  {
    // Without the mutex: in a child process another thread may have held it.
    what->store(ec, {});
    what->remove();
    made->settled_ = true;
    return made;
  }
  made->number_ = what->number;
  try
  {
    submit(*what, r, options);
  }
  catch (...)
  {
    withdraw(*what);
    what->remove();
    throw;
  }
  return made;
}

error_code client_impl::take_items(const message& m, std::vector<std::byte>& content)
{
  const lock_type lock(mutex_);
  call* const found = calls_.with_server(m.number);
  if (found == nullptr) // it has been cancelled
    return {};
  return found->items && found->items->take(lock, m, content)
    ? error_code()
    : make_error_code(error::malformed_message);
}

} // namespace rdma::detail::rpc
