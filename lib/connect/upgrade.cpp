//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/upgrade.hpp"

#include "boost_rdma/detail/upgrade_start.hpp"
#include "boost_rdma/upgrade.hpp"

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

constexpr char reason_field[] = "Rdma-Reason";
constexpr std::size_t options_size_max = 6 * 1024;        // of upgrade_header_size_max
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
// Not with Beast's token_list, because the elements of Upgrade contain a slash.
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
  return beast::iequals(
    beast::string_view(a.data(), a.size()), beast::string_view(b.data(), b.size()));
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

bool is_target(beast::string_view found, std::string_view wanted)
{
  // The part after a question mark is reserved for later versions.
  return wanted.empty()
    || found.substr(0, found.find('?')) == beast::string_view(wanted.data(), wanted.size());
}

bool is_token(std::string_view text)
{
  // RFC 9110 5.6.2
  constexpr std::string_view allowed =
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_printable(std::string_view text)
{
  return std::all_of(
    text.begin(), text.end(), [](unsigned char c) { return c >= ' ' && c != 0x7f; });
}

// Returns true for fields that the handshake sets, or that would give the request a body.
bool is_reserved(std::string_view name)
{
  constexpr std::string_view ours = "rdma-";
  if (same_text(name.substr(0, ours.size()), ours))
    return true;
  for (const std::string_view each :
    {"host", "connection", "upgrade", "content-length", "transfer-encoding"})
    if (same_text(name, each))
      return true;
  return false;
}

bool fits(const connect_options& options)
{
  std::size_t size = options.target.size() + options.host.size();
  bool good = is_printable(options.target) && options.target.starts_with('/')
    && options.target.find(' ') == std::string::npos && is_printable(options.host)
    && options.data.size() <= connect_options::data_size_max;
  for (const auto& [name, value] : options.fields)
  {
    good = good && is_token(name) && !is_reserved(name) && is_printable(value);
    size += name.size() + value.size() + 4;
  }
  return good && size + 2 * options.data.size() <= options_size_max;
}

upgrade_verdict refuse(http::status status, std::string reason)
{
  return {.status = status, .reason = std::move(reason), .client = {}};
}

template <class Fields>
void announce(Fields& message)
{
  message.set(
    http::field::upgrade, beast::string_view(upgrade_protocol.data(), upgrade_protocol.size()));
}

} // namespace

void limit_header(std::size_t size, error_code& ec)
{
  if (!ec && size > upgrade_header_size_max)
    ec = http::error::header_limit;
}

upgrade_request make_upgrade_request(std::string_view host, const connect_options& options,
  const handshake_parameters& client, error_code& ec)
{
  if (!fits(options))
  {
    ec = boost::asio::error::invalid_argument;
    return {};
  }
  upgrade_request request(http::verb::get, options.target, http_1_1);
  request.set(http::field::host,
    options.host.empty() ? beast::string_view(host.data(), host.size())
                         : beast::string_view(options.host));
  request.set(http::field::connection, "Upgrade");
  announce(request);
  write_handshake_parameters(client, request);
  for (const auto& [name, value] : options.fields)
    request.insert(name, value);
  return request;
}

bool asks_for_upgrade(const http::request_header<>& request)
{
  const offered_protocols protocols = read_protocols(request);
  return request.version() == http_1_1 && wants_upgrade(request)
    && (protocols.ours || protocols.other_version);
}

upgrade_verdict judge_upgrade(const http::request_header<>& request, std::string_view target)
{
  if (!asks_for_upgrade(request))
    return refuse(http::status::upgrade_required,
      "this port accepts RDMA connections: upgrade to boost-rdma/1");
  if (!read_protocols(request).ours)
    return refuse(http::status::upgrade_required, "only version 1 of boost-rdma is supported");
  if (request.method() != http::verb::get)
    return refuse(http::status::method_not_allowed, "the upgrade requires the method GET");
  if (!is_target(request.target(), target))
    return refuse(
      http::status::not_found, "the upgrade requires the target " + std::string(target));
  // The bytes after the request belong to the control channel; a body would be read as frames.
  if (request.count(http::field::transfer_encoding) != 0
    || (request.count(http::field::content_length) != 0
      && request[http::field::content_length] != "0"))
    return refuse(http::status::bad_request, "the upgrade must not have a body");
  upgrade_verdict verdict;
  error_code ec;
  verdict.client = read_handshake_parameters(request, ec);
  if (ec || verdict.client.endpoints.empty())
    return refuse(http::status::bad_request, "a field Rdma-... is missing or malformed");
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

upgrade_response make_upgrade_response(const handshake_parameters& server)
{
  upgrade_response response(http::status::switching_protocols, http_1_1);
  response.set(http::field::connection, "Upgrade");
  announce(response);
  write_handshake_parameters(server, response);
  return response;
}

upgrade_refusal make_upgrade_refusal(http::status status, std::string_view text)
{
  constexpr std::size_t reason_size_max = 512;
  std::string reason(text.substr(0, reason_size_max));
  std::replace_if(
    reason.begin(), reason.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  upgrade_refusal response(status, http_1_1);
  // Every refusal has the field Upgrade, by which a client distinguishes an acceptor from a web
  // server.
  announce(response);
  response.set(http::field::connection, "Upgrade, close");
  if (status == http::status::method_not_allowed)
    response.set(http::field::allow, "GET");
  response.set(http::field::content_type, "text/plain");
  response.set(reason_field, reason);
  response.body() = reason;
  response.body() += '\n';
  response.prepare_payload();
  return response;
}

std::string data_of_upgrade(const http::request_header<>& request, error_code& ec)
{
  return read_program_data(request, ec);
}

handshake_parameters judge_answer(const http::response_header<>& answer, error_code& ec)
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
    {
      handshake_parameters server = read_handshake_parameters(answer, ec);
      // Either an endpoint or software-next.
      if (!ec && server.endpoints.size() + (server.software_next ? 1 : 0) == 1)
        return server;
      ec = error::malformed_description;
    }
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
  if (ec == http::error::end_of_stream || ec == http::error::partial_message
    || ec == asio::error::eof || ec == asio::error::connection_reset
    || ec == asio::error::broken_pipe)
    return error::peer_lost;
  if (ec.category() == http::make_error_code(http::error::end_of_stream).category())
    return error::not_an_acceptor;
  return ec;
}

} // namespace rdma::detail

namespace rdma {

boost::beast::http::response<boost::beast::http::string_body> refuse_upgrade(
  boost::beast::http::status status, std::string_view reason)
{
  const auto number = static_cast<unsigned>(status);
  return detail::make_upgrade_refusal(
    number >= 400 && number <= 599 ? status : boost::beast::http::status::internal_server_error,
    reason);
}

} // namespace rdma
