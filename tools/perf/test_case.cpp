//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "perf/test_case.hpp"

#include "perf/transports.hpp"

namespace perf {

const char* name_of(rdma::completion_mode mode)
{
  switch (mode)
  {
  case rdma::completion_mode::event:
    return "event";
  case rdma::completion_mode::busy_poll:
    return "busy_poll";
  case rdma::completion_mode::adaptive:
    return "adaptive";
  case rdma::completion_mode::manual:
    return "manual";
  case rdma::completion_mode::external:
    return "external";
  }
  return "";
}

const char* name_of(contender value)
{
  switch (value)
  {
  case contender::library:
    return "library";
  case contender::raw:
    return "raw verbs";
  case contender::stream:
    return "stream";
  case contender::object:
    return "object";
  case contender::rpc:
    return "rpc";
  case contender::tcp:
    return "Asio TCP";
  case contender::local_socket:
    return "Asio AF_UNIX";
  case contender::memory:
    return "memcpy";
  case contender::ucx:
    return "UCX";
  case contender::perftest:
    return "perftest";
  }
  return "";
}

const char* name_of(operation value)
{
  switch (value)
  {
  case operation::send:
    return "send";
  case operation::write:
    return "write";
  case operation::read:
    return "read";
  case operation::fetch_add:
    return "fetch_add";
  case operation::load:
    return "load";
  case operation::store:
    return "store";
  case operation::find:
    return "find";
  case operation::push:
    return "push";
  case operation::call:
    return "call";
  case operation::expire:
    return "deadline";
  }
  return "";
}

const char* name_of(token value)
{
  switch (value)
  {
  case token::callback:
    return "callback";
  case token::future:
    return "use_future";
  case token::awaitable:
    return "use_awaitable";
  case token::deferred:
    return "deferred";
  case token::coroutine:
    return "own coroutine";
  }
  return "";
}

std::string size_text(std::uint64_t bytes)
{
  if (bytes >= (1u << 20) && bytes % (1u << 20) == 0)
    return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= 1024 && bytes % 1024 == 0)
    return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

std::string name_of(const test_case& what)
{
  std::string text = name_of(what.contender);
  const auto add = [&text](const std::string& more) { text += ", " + more; };
  if (what.contender == contender::memory && what.own_memory)
    return "process_vm_writev";
  if (what.contender == contender::memory)
    return what.buffers > 1 ? text + ", " + std::to_string(what.buffers) + " buffers" : text;
  if (!what.is_plain_socket())
    text += " " + transports()[what.transport].name;
  if (what.contender == contender::ucx)
    return text
      + (what.measure == measure::latency     ? " tag_lat"
          : what.operation == operation::send ? " tag_bw"
                                              : " put_bw");
  if (what.contender == contender::perftest)
    return text + " ib_" + name_of(what.operation)
      + (what.measure == measure::latency ? "_lat" : "_bw");
  if (!what.is_plain_socket() && what.contender != contender::stream)
    add(name_of(what.operation));
  if ((what.contender == contender::library && what.use == 0) || what.contender == contender::stream
    || what.contender == contender::object || what.contender == contender::rpc)
    add(name_of(what.mode));
  if (what.contender == contender::tcp && what.mode == rdma::completion_mode::busy_poll)
    add("polled without Asio");
  else if (what.contender == contender::tcp && what.batch > 1)
    add("async_write of " + std::to_string(what.batch));
  else if (what.contender == contender::rpc && what.batch > 1)
    add(std::to_string(what.depth) + " of a call in flight");
  else if (what.batch > 1)
    add(std::to_string(what.depth) + " batches of " + std::to_string(what.batch));
  else if (what.depth > 1 && what.contender != contender::tcp)
    add(std::to_string(what.depth) + " in flight");
  if (what.measure == measure::latency && what.contender != contender::raw
    && !(what.contender == contender::tcp && what.mode == rdma::completion_mode::busy_poll))
    add(name_of(what.token));
  if (what.queue_pairs > 1)
    add(std::to_string(what.queue_pairs)
      + (what.is_plain_socket() || what.contender == contender::stream ? " connections"
                                                                       : " queue pairs"));
  if (what.buffers > 1)
    add(std::to_string(what.buffers) + " buffers");
  if (what.own_memory)
    add("the program's own memory");
  if (what.use != 0)
    add(what.use == 1 ? "first on a key" : "second on a key");
  return text;
}

} // namespace perf
