//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/self_test.hpp"

#include "info/words.hpp"

#include <boost_rdma/context.hpp>
#include <boost_rdma/error.hpp>
#include <boost_rdma/queue_pair.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

namespace info {
namespace {

using clock = std::chrono::steady_clock;

// Longer than the retries of a device with the timers of queue_pair_options.
constexpr std::chrono::seconds time_limit{15};
constexpr std::size_t message_size = 4096;
constexpr std::string_view request = "request from one side";
constexpr std::string_view answer = "answer from the other";

rdma::registered_buffer filled(const rdma::context& context, std::string_view text)
{
  rdma::registered_buffer result = context.allocate(text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), result.data());
  return result;
}

// One end of the connection, with its own context as on another host.
struct side
{
  side(boost::asio::io_context& io, const rdma::context_options& options, std::string_view text)
    : context(options)
    , pair(io, context)
    , outgoing(filled(context, text))
    , incoming(context.allocate(message_size))
  {
  }

  [[nodiscard]] std::string_view received(std::size_t size) const
  {
    return {reinterpret_cast<const char*>(incoming.data()), size};
  }

  rdma::context context;
  rdma::queue_pair pair;
  rdma::registered_buffer outgoing;
  rdma::registered_buffer incoming;
};

std::string words_of(const rdma::error_code& ec, const rdma::queue_pair& pair)
{
  const rdma::diagnosis known = pair.diagnose();
  if (known.code)
    return known.text();
  const std::string cause = rdma::likely_cause(ec);
  return ec.message() + (cause.empty() ? "" : ". " + cause);
}

class exchange
{
public:
  explicit exchange(const rdma::context_options& options)
    : near_(io_, options, request)
    , far_(io_, options, answer)
  {
  }

  test_report run(const std::string& device)
  {
    const rdma::endpoint_description near = near_.pair.local_endpoint();
    const rdma::endpoint_description far = far_.pair.local_endpoint();
    near_.pair.connect(far);
    far_.pair.connect(near);
    far_.pair.async_receive(far_.incoming,
      [this](rdma::error_code ec, std::size_t n)
      {
        if (note("receive", ec, far_, n, request))
          far_.pair.async_send(far_.outgoing,
            [this](rdma::error_code failed, std::size_t) { note("send", failed, far_); });
      });
    near_.pair.async_receive(near_.incoming,
      [this](rdma::error_code ec, std::size_t n)
      {
        if (note("receive", ec, near_, n, answer))
          end_ = clock::now();
      });
    const clock::time_point start = clock::now();
    near_.pair.async_send(
      near_.outgoing, [this](rdma::error_code ec, std::size_t) { note("send", ec, near_); });
    while (!end_ && trouble_.empty() && clock::now() < start + time_limit)
      if (io_.run_one_until(start + time_limit) == 0)
        break;
    test_report result{device, test_outcome::failed, trouble_};
    if (end_)
    {
      char text[96];
      std::snprintf(text, sizeof text,
        "connected and exchanged a message each way by %s in %.0f us",
        rdma::name_of(near_.pair.transport().wire),
        std::chrono::duration<double, std::micro>(*end_ - start).count());
      result = {device, test_outcome::passed, text};
    }
    else if (trouble_.empty())
      result.text = "no message got through within " + std::to_string(time_limit.count()) + " s";
    near_.pair.close();
    far_.pair.close();
    io_.restart();
    io_.run_for(time_limit); // outstanding operations end with the queue pairs
    return result;
  }

private:
  bool note(const char* what, const rdma::error_code& ec, const side& at)
  {
    if (!ec)
      return true;
    if (trouble_.empty() && !end_)
      trouble_ = std::string(what) + ": " + words_of(ec, at.pair);
    return false;
  }

  bool note(const char* what, const rdma::error_code& ec, const side& at, std::size_t size,
    std::string_view expected)
  {
    if (!note(what, ec, at))
      return false;
    if (at.received(size) == expected)
      return true;
    trouble_ = "the received message differs from the sent one";
    return false;
  }

  boost::asio::io_context io_;
  side near_;
  side far_;
  std::optional<clock::time_point> end_;
  std::string trouble_;
};

} // namespace

test_report test_device(const std::string& name)
{
  rdma::context_options options;
  options.device = name;
  try
  {
    return exchange(options).run(name);
  }
  catch (const rdma::system_error& e)
  {
    if (e.code() == boost::asio::error::operation_not_supported)
      return {name, test_outcome::not_made,
        "iWARP connects only by RDMA-CM. Run rping -s on one host and rping -c -a "
        "ADDRESS on the other."};
    return {name, test_outcome::failed, words_of(e)};
  }
}

} // namespace info
