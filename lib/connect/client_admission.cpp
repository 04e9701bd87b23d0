//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "connect/client_admission.hpp"

#include "boost_rdma/connect_options.hpp"
#include "boost_rdma/detail/process_mark.hpp"
#include "connect/log.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <exception>
#include <optional>
#include <utility>

namespace rdma {

namespace asio = boost::asio;

const asio::ip::tcp::endpoint& client_request::remote_endpoint() const noexcept
{
  return contents_->from;
}

std::string_view client_request::target() const noexcept
{
  return contents_->target;
}

std::string_view client_request::data() const noexcept
{
  return contents_->data;
}

std::optional<std::string_view> client_request::field(std::string_view name) const
{
  const auto found = contents_->fields.find(boost::beast::string_view(name.data(), name.size()));
  if (found == contents_->fields.end())
    return std::nullopt;
  return std::string_view(found->value().data(), found->value().size());
}

authoriser::start_function authoriser::start_of(decision function)
{
  if (!function)
    return nullptr;
  return [function = std::move(function)](const asio::any_io_executor&, client_request request,
           authorisation_handler handler) { std::move(handler)(function(request)); };
}

namespace {

using coroutine_function = std::function<asio::awaitable<authorisation>(const client_request&)>;

// The function and the request stay until the coroutine has ended: it may refer to both.
asio::awaitable<authorisation> run(
  std::shared_ptr<const coroutine_function> function, client_request request)
{
  co_return co_await (*function)(request);
}

void log_exception(const std::exception_ptr& problem)
{
  try
  {
    std::rethrow_exception(problem);
  }
  catch (const std::exception& e)
  {
    detail::log_line(spdlog::level::err, "acceptor_options::authorise failed: {}", e.what());
  }
  catch (...)
  {
    detail::log_line(spdlog::level::err, "acceptor_options::authorise failed: unknown exception");
  }
}

} // namespace

authoriser::start_function authoriser::start_of(coroutine function)
{
  if (!function)
    return nullptr;
  return
    [function = std::make_shared<const coroutine>(std::move(function))](
      const asio::any_io_executor& executor, client_request request, authorisation_handler handler)
  {
    asio::co_spawn(executor, run(function, std::move(request)),
      [handler = std::move(handler)](
        const std::exception_ptr& problem, authorisation decided) mutable
      {
        if (problem)
          log_exception(problem);
        else
          std::move(handler)(std::move(decided));
      });
  };
}

authoriser::start_function authoriser::start_of(initiation function)
{
  if (!function)
    return nullptr;
  return [function = std::move(function)](const asio::any_io_executor&, client_request request,
           authorisation_handler handler) { function(std::move(request), std::move(handler)); };
}

namespace detail {

namespace {

authorisation no_decision()
{
  return authorisation::refuse(500, "the server's authorisation failed");
}

// A decision that the handshake waits for. Only the service's thread owns it, because of the timer.
struct question
{
  explicit question(asio::io_context& io)
    : decided(io, asio::steady_timer::time_point::max())
  {
  }

  asio::steady_timer decided; // is cancelled then
  std::optional<authorisation> answer;
};

// The program's handler. It may be called or destroyed at any time, also after the end of the
// handshake, the acceptor or the service.
class answer_handler
{
public:
  answer_handler(std::shared_ptr<inbox> to_service, std::weak_ptr<question> to)
    : inbox_(std::move(to_service))
    , to_(std::move(to))
  {
  }
  answer_handler(answer_handler&&) noexcept = default;
  answer_handler& operator=(answer_handler&&) = delete;
  ~answer_handler()
  {
    if (!inbox_)
      return;
    try
    {
      send(no_decision());
    }
    catch (const std::exception&)
    {
      // There is no memory: the handshake ends by its time limit.
    }
  }

  void operator()(authorisation decided) { send(std::move(decided)); }

private:
  void send(authorisation decided)
  {
    const auto to_service = std::exchange(inbox_, nullptr);
    to_service->post(
      [to = std::move(to_), decided = std::move(decided)]() mutable
      {
        const auto asked = to.lock();
        if (!asked || asked->answer)
          return;
        asked->answer = std::move(decided);
        asked->decided.cancel();
      });
  }

  std::shared_ptr<inbox> inbox_; // null after a call or a move
  std::weak_ptr<question> to_;
};

// Withdraws the question and wakes the coroutine before the stream is closed: a client that sees
// the end must not be asked about any more.
class withdrawn_by_close
{
public:
  withdrawn_by_close(connection& link, asio::steady_timer& timer, std::atomic<bool>& wanted)
    : link_(link)
  {
    link_.on_close = [&timer, &wanted]
    {
      wanted.store(false);
      timer.cancel();
    };
  }
  ~withdrawn_by_close() { link_.on_close = nullptr; }
  withdrawn_by_close(const withdrawn_by_close&) = delete;
  withdrawn_by_close& operator=(const withdrawn_by_close&) = delete;

private:
  connection& link_;
};

// Returns false for a decision that cannot be sent.
bool can_be_sent(const authorisation& decided)
{
  if (decided.status == 0)
    return decided.data.size() <= connect_options::data_size_max;
  return decided.status >= 400 && decided.status <= 599;
}

} // namespace

struct client_admission::shared
{
  authoriser by;
  asio::any_io_executor executor;
  process_mark process;
  std::atomic<bool> open{true};

  // On the acceptor's executor.
  void call(client_request request, answer_handler answer) const
  {
    try
    {
      by(executor, std::move(request),
        authorisation_handler(asio::bind_executor(executor, std::move(answer))));
    }
    catch (...)
    {
      log_exception(std::current_exception());
    }
  }
};

client_admission::client_admission(authoriser by, const asio::any_io_executor& executor)
  : shared_(by ? std::make_shared<shared>() : nullptr)
{
  if (!shared_)
    return;
  shared_->by = std::move(by);
  shared_->executor = executor;
}

client_admission::operator bool() const noexcept
{
  return shared_ != nullptr;
}

void client_admission::close() const noexcept
{
  // seq_cst: the caller's executor orders it before calls that are posted there
  if (shared_)
    shared_->open.store(false);
}

service_awaitable<authorisation> client_admission::ask(
  connection& link, client_request request) const
{
  const auto asked = std::make_shared<question>(link.io());
  const auto wanted = std::make_shared<std::atomic<bool>>(true);
  asio::post(shared_->executor,
    [by = shared_, wanted, request = std::move(request),
      answer = answer_handler(link.service_inbox(), asked)]() mutable
    {
      // In a child of fork() it is the parent's client.
      if (!by->process.foreign() && by->open.load() && wanted->load())
        by->call(std::move(request), std::move(answer));
    });
  const withdrawn_by_close withdrawal(link, asked->decided, *wanted);
  while (!asked->answer && !link.stopped())
  {
    error_code ignored;
    co_await asked->decided.async_wait(into(ignored));
  }
  wanted->store(false);
  if (!asked->answer)
  {
    if (link.failure({}) == error::handshake_timeout)
      log_line(spdlog::level::warn,
        "acceptor_options::authorise made no decision within handshake_timeout: "
        "run the acceptor's executor, or raise handshake_timeout");
    co_return no_decision();
  }
  if (can_be_sent(*asked->answer))
    co_return std::move(*asked->answer);
  log_line(spdlog::level::err,
    "acceptor_options::authorise returned invalid values: status {}, {} bytes of data",
    asked->answer->status, asked->answer->data.size());
  co_return no_decision();
}

} // namespace detail
} // namespace rdma
