//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_AUTHORISATION_HPP
#define BOOST_RDMA_AUTHORISATION_HPP

#include <boost/asio/ip/tcp.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rdma {

/// A client's request for a connection, as acceptor_options::authorise receives it. Do not trust
/// its content.
/**
 * No resources have been allocated for the client yet. The object is valid only during the
 * callback.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class upgrade_request_view
{
public:
  /// For the library itself. `fields` points to a boost::beast::http::fields.
  upgrade_request_view(const boost::asio::ip::tcp::endpoint& from, std::string_view target,
    std::string_view data, const void* fields) noexcept
    : from_(from)
    , target_(target)
    , data_(data)
    , fields_(fields)
  {
  }

  /// Returns the client's address and port.
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept
  {
    return from_;
  }

  /// Returns the request's target (RFC 9112, 3.2), including the query after a question mark.
  [[nodiscard]] std::string_view target() const noexcept { return target_; }

  /// Returns the client's connect_options::data.
  [[nodiscard]] std::string_view data() const noexcept { return data_; }

  /// Returns the first field of the HTTP request with this name, or nothing if there is none. The
  /// comparison of names is case-insensitive.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const;

private:
  boost::asio::ip::tcp::endpoint from_;
  std::string_view target_;
  std::string_view data_;
  const void* fields_; // boost::beast::http::fields, which this header does not include
};

/// Decision on a client's request: the result of acceptor_options::authorise.
struct authorisation
{
  /// 0 accepts the client. Other values refuse it: the HTTP status, 400 to 599 (500 is sent for
  /// others).
  unsigned status = 0;

  /// Reason of a refusal for the client's log: one line of printable text.
  std::string reason;

  /// Data for the client's program (queue_pair::peer_data()): at most
  /// connect_options::data_size_max bytes.
  std::string data;

  /// Accepts the client, with data for its program.
  [[nodiscard]] static authorisation accept(std::string data = std::string())
  {
    return {0, {}, std::move(data)};
  }

  /// Refuses the client. Its connect fails with error::refused or, for status 409, with
  /// error::no_common_transport.
  [[nodiscard]] static authorisation refuse(
    unsigned status = 403, std::string reason = "not authorised")
  {
    return {status, std::move(reason), {}};
  }
};

} // namespace rdma

#endif // BOOST_RDMA_AUTHORISATION_HPP
