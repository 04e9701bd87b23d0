//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/client_impl.hpp"

#include <cstring>
#include <span>
#include <utility>

// The memory that calls of a client expose.

namespace rdma::detail::rpc {

// The handler of a bind. Not one that is called at once: a write of the stream may poll while this
// thread has the mutex.
struct client_impl::bound
{
  void operator()(const error_code& ec, const remote_buffer&) { self->on_bound(*what, ec); }
  std::shared_ptr<client_impl> self;
  std::shared_ptr<exposed_memory> what;
};

// The call's messages are posted behind the binds, so the server has the keys when they are valid.
void client_impl::bind(const std::shared_ptr<exposed_memory>& what, queue_pair_core* by)
{
  for (const exposed_memory::range& each : what->ranges())
    if (each.window)
    {
      start_operation<window_result>{by}(by->io_executor(), bound{self(), what},
        rdma::detail::request{.kind = request_kind::bind_window, .window_rights = each.rights},
        each.memory, each.window);
      ++what->binds; // its handler waits for the mutex
    }
}

void client_impl::on_bound(exposed_memory& what, const error_code& ec)
{
  if (forked())
    return;
  call* ended = nullptr;
  {
    const lock_type lock(mutex_);
    if (--what.binds == 0)
      ended = std::exchange(what.ended, nullptr);
    if (ended != nullptr)
    {
      --ended_bindings_;
      flush(lock);
    }
  }
  if (ec) // the server has a key that opens nothing
    end(ec);
  if (ended != nullptr)
  {
    what.close();
    finish_soon(*ended);
  }
}

// Without memory, the handler is called later.
void client_impl::finish_soon(call& what) noexcept
try
{
  what.finish(false);
}
catch (const std::bad_alloc&)
{
  {
    const lock_type lock(mutex_);
    unfinished_.push_back(what);
  }
  do_later(false);
}

// Calls the handler when the server can access nothing of the call.
void client_impl::conclude(call& what, bool here)
{
  if (const auto exposed = std::exchange(what.exposed, nullptr))
  {
    const lock_type lock(mutex_);
    if (exposed->binds != 0)
    {
      exposed->ended = &what; // the handlers of the binds own it
      ++ended_bindings_;
      return flush(lock); // unless somebody reads, nobody polls the queue pair
    }
    exposed->close();
  }
  if (here)
    what.finish(true);
  else
    finish_soon(what);
}

// Pulls and pushes are done while the mutex is held, so that no call ends meanwhile.
error_code client_impl::take_transfer(const message& m, std::span<const std::byte> content)
{
  const lock_type lock(mutex_);
  // The server may have the parts that are being sent, and ask for as many again.
  if (++parts_ > 2 * exposed_part::most)
    return error::malformed_message;
  const bool pulls = m.type == message_type::pull;
  exposed_part part = decode_part(content.first<exposed_part::encoded_size>());
  const auto pushed = content.subspan(exposed_part::encoded_size);
  message answer;
  answer.type = message_type::part;
  answer.number = m.detail;
  std::span<const std::byte> memory;
  call* const found = calls_.with_server(m.number);
  if (found != nullptr && found->exposed && part.size <= exposed_part::size_max
    && (pulls || part.size == pushed.size()))
    memory =
      found->exposed->find(m.selector, part, pulls ? access::remote_read : access::remote_write);
  answer.selector = memory.empty() ? 1 : 0;
  const std::size_t at = begin_message(messages(lock), answer);
  if (pulls)
    messages(lock).insert(messages(lock).end(), memory.begin(), memory.end());
  else if (!memory.empty())
    std::memcpy(const_cast<std::byte*>(memory.data()), pushed.data(), memory.size());
  end_message(messages(lock), at);
  return {};
}

} // namespace rdma::detail::rpc
