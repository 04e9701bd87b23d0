//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_AUTHORISATION_HPP
#define BOOST_RDMA_AUTHORISATION_HPP

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rdma {

/// A client's request to connect, before anything has been created for it. Do not trust its
/// contents.
/**
 * The argument of acceptor_options::authorise. Copies share their contents and can be kept.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class client_request
{
public:
  /// Used by the library only.
  struct contents;

  /// Used by the library only.
  explicit client_request(std::shared_ptr<const contents> of) noexcept
    : contents_(std::move(of))
  {
  }

  /// Returns the client's address and port.
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept;

  /// Returns the request's target (RFC 9112, 3.2), including a query.
  [[nodiscard]] std::string_view target() const noexcept;

  /// Returns the client's connect_options::data.
  [[nodiscard]] std::string_view data() const noexcept;

  /// Returns the value of the first field of the HTTP request with this name, or nullopt.
  /** The name is not case-sensitive. */
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const;

private:
  std::shared_ptr<const contents> contents_;
};

/// The decision about a client, which acceptor_options::authorise makes.
struct authorisation
{
  /// 0 admits the client. Other values are the HTTP status of the refusal, 400 to 599; 500 is sent
  /// instead of any other value.
  unsigned status = 0;

  /// The reason of a refusal, for the client's log: one line of printable text.
  std::string reason;

  /// Data for the client's program (queue_pair::peer_data()), at most
  /// connect_options::data_size_max bytes.
  std::string data;

  /// Returns a decision that admits the client and sends it this data.
  [[nodiscard]] static authorisation accept(std::string data = std::string())
  {
    return {0, {}, std::move(data)};
  }

  /// Returns a decision that refuses the client: its async_connect fails with error::refused, or
  /// with error::no_common_transport if the status is 409.
  [[nodiscard]] static authorisation refuse(
    unsigned status = 403, std::string reason = "not authorised")
  {
    return {status, std::move(reason), {}};
  }
};

/// Receives the decision of an asynchronous acceptor_options::authorise.
/**
 * Call it once, from any thread: `std::move(handler)(rdma::authorisation::accept())`. Its
 * associated executor is the acceptor's executor. If it is destroyed without a call, the client is
 * refused with status 500. A call after handshake_timeout, or after the acceptor was closed, has no
 * effect.
 *
 * The handler holds the acceptor's executor. If that is a strand, call or destroy the handler
 * before the execution context is destroyed. Do not assign to a handler with Boost 1.81, whose
 * move assignment does not return: store it by std::optional::emplace() or in a container.
 */
using authorisation_handler = boost::asio::any_completion_handler<void(authorisation)>;

class authoriser;

namespace detail {

// Functions of the type To, without authoriser's own copies and null.
template <class Function, class To>
concept authorises_as = !std::same_as<std::remove_cvref_t<Function>, authoriser>
  && !std::same_as<std::remove_cvref_t<Function>, std::nullptr_t>
  && std::constructible_from<To, Function>;

} // namespace detail

/// A function that decides whether a client is admitted: the type of acceptor_options::authorise.
/**
 * It holds a function of one of these forms, or none:
 * @code
 * rdma::authorisation decide(const rdma::client_request& request);
 * asio::awaitable<rdma::authorisation> decide(const rdma::client_request& request);
 * void decide(rdma::client_request request, rdma::authorisation_handler handler);
 * @endcode
 * The first decides at once, the second is a coroutine, and the third calls the handler later. The
 * function must be copyable.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class authoriser
{
  using decision = std::function<authorisation(const client_request&)>;
  using coroutine = std::function<boost::asio::awaitable<authorisation>(const client_request&)>;
  using initiation = std::function<void(client_request, authorisation_handler)>;

public:
  /// Holds no function: every client is admitted.
  authoriser() noexcept = default;

  /// Holds no function: every client is admitted.
  authoriser(std::nullptr_t) noexcept {}

  /// Holds a function that decides at once.
  template <class Function>
    requires detail::authorises_as<Function, decision>
  authoriser(Function&& function)
    : start_(start_of(decision(std::forward<Function>(function))))
  {
  }

  /// Holds a coroutine. It runs on the acceptor's executor.
  template <class Function>
    requires detail::authorises_as<Function, coroutine>
  authoriser(Function&& function)
    : start_(start_of(coroutine(std::forward<Function>(function))))
  {
  }

  /// Holds a function that calls a handler with the decision.
  template <class Function>
    requires detail::authorises_as<Function, initiation>
  authoriser(Function&& function)
    : start_(start_of(initiation(std::forward<Function>(function))))
  {
  }

  /// Returns true if it holds a function.
  explicit operator bool() const noexcept { return static_cast<bool>(start_); }

  /// Calls the function, on the executor that is passed. Used by the library only.
  void operator()(const boost::asio::any_io_executor& executor, client_request request,
    authorisation_handler handler) const
  {
    start_(executor, std::move(request), std::move(handler));
  }

private:
  using start_function =
    std::function<void(const boost::asio::any_io_executor&, client_request, authorisation_handler)>;

  static start_function start_of(decision function);
  static start_function start_of(coroutine function);
  static start_function start_of(initiation function);

  start_function start_;
};

} // namespace rdma

#endif // BOOST_RDMA_AUTHORISATION_HPP
