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

/// A client's request to be connected, before anything has been made for it. What it says is not to
/// be trusted.
/**
 * What acceptor_options::authorise is given. Valid only while that callback runs.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for assignment.
 */
class upgrade_request_view
{
public:
  /// For the library itself. `fields` is a boost::beast::http::fields.
  upgrade_request_view(const boost::asio::ip::tcp::endpoint& from, std::string_view target,
    std::string_view data, const void* fields) noexcept
    : from_(from)
    , target_(target)
    , data_(data)
    , fields_(fields)
  {
  }

  /// Where it came from.
  [[nodiscard]] const boost::asio::ip::tcp::endpoint& remote_endpoint() const noexcept
  {
    return from_;
  }

  /// The request's target (RFC 9112, 3.2), with what follows a question mark.
  [[nodiscard]] std::string_view target() const noexcept { return target_; }

  /// The client's connect_options::data.
  [[nodiscard]] std::string_view data() const noexcept { return data_; }

  /// A field of the HTTP request, the first of that name; no difference is made between upper and
  /// lower case.
  /** Nothing where there is none. */
  [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const;

private:
  boost::asio::ip::tcp::endpoint from_;
  std::string_view target_;
  std::string_view data_;
  const void* fields_; // boost::beast::http::fields, which this header does without
};

/// Whether a client is let in: what acceptor_options::authorise returns.
struct authorisation
{
  /// 0 to let it in; else the HTTP status of the refusal, 400 to 599 (500 is sent for others).
  unsigned status = 0;

  /// Of a refusal, for the client's log: one line of printable text.
  std::string reason;

  /// For the client's program (queue_pair::peer_data()), at most connect_options::data_size_max
  /// bytes.
  std::string data;

  /// Lets the client in, with these bytes for its program.
  [[nodiscard]] static authorisation accept(std::string data = std::string())
  {
    return {0, {}, std::move(data)};
  }

  /// Sends the client away: connecting ends with error::refused there, of 409 with
  /// error::no_common_transport.
  [[nodiscard]] static authorisation refuse(
    unsigned status = 403, std::string reason = "not authorised")
  {
    return {status, std::move(reason), {}};
  }
};

} // namespace rdma

#endif // BOOST_RDMA_AUTHORISATION_HPP
