//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_RPC_FLOW_CORE_HPP
#define BOOST_RDMA_DETAIL_RPC_FLOW_CORE_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/codec.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rdma::detail::rpc {

// An item of any type that is encoded at once.
struct item_source
{
  const void* value;
  void (*encode)(const void* value, rdma::rpc::output& to);
};

// One side of the items of a call, independent of their types and of handlers.
class flow_core
{
public:
  using io_executor = boost::asio::any_io_executor;
  using bytes = std::vector<std::byte>;
  using plain_handler = boost::asio::any_completion_handler<void(error_code)>;
  // Without bytes: an error, or the end of the items.
  using bytes_handler = boost::asio::any_completion_handler<void(error_code, std::optional<bytes>)>;

  virtual ~flow_core() = default;
  virtual void read(const io_executor& executor, bytes_handler handler) = 0;
  // Throws what the codec throws.
  virtual void write(
    const io_executor& executor, const item_source& what, plain_handler handler) = 0;
  // Only a client calls these two.
  virtual void end_writing() = 0;
  virtual void finish(const io_executor& executor, bytes_handler handler) = 0;

  virtual void cancel() = 0; // the operations
  virtual void close() = 0;  // of a caller: ends the call
  [[nodiscard]] virtual bool is_open() const = 0;
};

// They complete with error::closed if there is no core.
void start_read(
  const flow_core::io_executor& executor, flow_core* core, flow_core::bytes_handler handler);
void start_write(const flow_core::io_executor& executor, flow_core* core, const item_source& what,
  flow_core::plain_handler handler);
void start_finish(
  const flow_core::io_executor& executor, flow_core* core, flow_core::bytes_handler handler);

// A codec's exception means that the bytes are no value.
template <class Value>
std::optional<Value> decode_content(error_code& ec, std::span<const std::byte> from)
{
  try
  {
    if (auto value = rdma::rpc::detail::codec_of<Value>::decode(from))
      return value;
  }
  catch (...)
  {
  }
  ec = error::malformed_message;
  return std::nullopt;
}

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_DETAIL_RPC_FLOW_CORE_HPP
