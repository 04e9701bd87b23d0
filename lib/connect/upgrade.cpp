//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/upgrade.hpp"

#include <boost/asio/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/verb.hpp>

#include <algorithm>
#include <iterator>

namespace rdma::detail {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr char endpoint_field[] = "Rdma-Endpoint";
constexpr char reason_field[] = "Rdma-Reason";
constexpr std::string_view protocol_name = "boost-rdma/"; // any version of it
constexpr unsigned http_1_1 = 11;

std::string_view trim(std::string_view text)
{
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

// Calls visit for each element of a comma separated field, which may be repeated (RFC 9110 5.6.1).
// Beast's token_list will not do: the elements of Upgrade are no tokens, there is a slash in them.
template <class Visitor>
void for_each_element(const http::fields& fields, http::field name, Visitor visit)
{
  for (auto [line, end] = fields.equal_range(name); line != end; ++line)
  {
    const beast::string_view value = line->value();
    std::string_view rest(value.data(), value.size());
    while (!rest.empty())
    {
      const std::string_view element = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), element.size() + 1));
      visit(trim(element));
    }
  }
}

bool same_text(std::string_view a, std::string_view b)
{
  return beast::iequals(beast::string_view(a.data(), a.size()), beast::string_view(b.data(), b.size()));
}

struct offered_protocols
{
  bool ours = false;          // this version
  bool other_version = false; // of boost-rdma
};

offered_protocols read_protocols(const http::fields& fields)
{
  offered_protocols result;
  for_each_element(fields, http::field::upgrade,
    [&](std::string_view element)
    {
      if (same_text(element, upgrade_protocol))
        result.ours = true;
      else if (same_text(element.substr(0, protocol_name.size()), protocol_name))
        result.other_version = true;
    });
  return result;
}

bool wants_upgrade(const http::fields& fields)
{
  bool found = false;
  for_each_element(fields, http::field::connection,
    [&](std::string_view element) { found = found || same_text(element, "upgrade"); });
  return found;
}

// No endpoint and two of them are one error: which one counts must not be left to chance.
endpoint_description read_endpoint(const http::fields& fields, error_code& ec)
{
  const auto [first, last] = fields.equal_range(endpoint_field);
  if (first == last || std::next(first) != last)
  {
    ec = error::malformed_description;
    return {};
  }
  const beast::string_view value = first->value();
  return endpoint_description::parse(std::string_view(value.data(), value.size()), ec);
}

bool is_target(beast::string_view target)
{
  // What follows a question mark is for later versions.
  return target.substr(0, target.find('?')) == beast::string_view(upgrade_target.data(), upgrade_target.size());
}

upgrade_verdict refuse(http::status status, std::string reason)
{
  return {.status = status, .reason = std::move(reason), .peer = {}};
}

template <class Fields>
void announce(Fields& message)
{
  message.set(http::field::upgrade, beast::string_view(upgrade_protocol.data(), upgrade_protocol.size()));
}

} // namespace

upgrade_request make_upgrade_request(std::string_view host, const endpoint_description& local)
{
  upgrade_request request(http::verb::get,
    beast::string_view(upgrade_target.data(), upgrade_target.size()), http_1_1);
  request.set(http::field::host, beast::string_view(host.data(), host.size()));
  request.set(http::field::connection, "Upgrade");
  announce(request);
  request.set(endpoint_field, local.text());
  return request;
}

upgrade_verdict judge_upgrade(const http::request_header<>& request)
{
  const offered_protocols protocols = read_protocols(request);
  if (request.version() != http_1_1 || !wants_upgrade(request) || (!protocols.ours && !protocols.other_version))
    return refuse(http::status::upgrade_required, "this port speaks RDMA: upgrade to boost-rdma/1");
  if (!protocols.ours)
    return refuse(http::status::upgrade_required, "of boost-rdma, only version 1 is spoken here");
  if (request.method() != http::verb::get)
    return refuse(http::status::method_not_allowed, "the upgrade is a GET");
  if (!is_target(request.target()))
    return refuse(http::status::not_found, "the upgrade is for /rdma");
  // What follows the request belongs to the protocol that is upgraded to; a body would be taken for it.
  if (request.count(http::field::transfer_encoding) != 0
    || (request.count(http::field::content_length) != 0 && request[http::field::content_length] != "0"))
    return refuse(http::status::bad_request, "the upgrade has no body");
  upgrade_verdict verdict;
  error_code ec;
  verdict.peer = read_endpoint(request, ec);
  if (ec)
    return refuse(http::status::bad_request, "the field Rdma-Endpoint is missing or cannot be read");
  return verdict;
}

http::status status_of_unreadable(const error_code& ec)
{
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return http::status::request_header_fields_too_large;
  if (ec == http::error::body_limit)
    return http::status::payload_too_large;
  return http::status::bad_request;
}

upgrade_response make_upgrade_response(const endpoint_description& local)
{
  upgrade_response response(http::status::switching_protocols, http_1_1);
  response.set(http::field::connection, "Upgrade");
  announce(response);
  response.set(endpoint_field, local.text());
  return response;
}

upgrade_refusal make_upgrade_refusal(http::status status, std::string_view reason)
{
  upgrade_refusal response(status, http_1_1);
  // Every refusal says what is spoken here: by this a client knows an acceptor from a web server.
  announce(response);
  response.set(http::field::connection, "Upgrade, close");
  if (status == http::status::method_not_allowed)
    response.set(http::field::allow, "GET");
  response.set(http::field::content_type, "text/plain");
  response.set(reason_field, beast::string_view(reason.data(), reason.size()));
  response.body() = reason;
  response.body() += '\n';
  response.prepare_payload();
  return response;
}

endpoint_description judge_answer(const http::response_header<>& answer, error_code& ec)
{
  const offered_protocols protocols = read_protocols(answer);
  if (!protocols.ours && !protocols.other_version)
    ec = error::not_an_acceptor;
  else if (answer.result() == http::status::switching_protocols)
  {
    if (answer.version() != http_1_1 || !wants_upgrade(answer))
      ec = error::not_an_acceptor;
    else if (!protocols.ours || protocols.other_version)
      ec = error::version_mismatch; // it chose one that was not offered
    else
      return read_endpoint(answer, ec);
  }
  else if (answer.result() == http::status::upgrade_required && !protocols.ours)
    ec = error::version_mismatch;
  else if (answer.result() == http::status::conflict)
    ec = error::no_common_transport;
  else
    ec = error::refused;
  return {};
}

std::string_view refusal_reason(const http::response_header<>& answer)
{
  const auto found = answer.find(reason_field);
  if (found == answer.end())
    return {};
  return {found->value().data(), found->value().size()};
}

error_code error_of_unreadable(const error_code& ec)
{
  namespace asio = boost::asio;
  if (ec == http::error::end_of_stream || ec == http::error::partial_message || ec == asio::error::eof
    || ec == asio::error::connection_reset || ec == asio::error::broken_pipe)
    return error::peer_lost;
  if (ec.category() == http::make_error_code(http::error::end_of_stream).category())
    return error::not_an_acceptor;
  return ec;
}

} // namespace rdma::detail
