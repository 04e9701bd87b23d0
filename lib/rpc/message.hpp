//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_MESSAGE_HPP
#define BOOST_RDMA_LIB_RPC_MESSAGE_HPP

#include "boost_rdma/access.hpp"
#include "boost_rdma/error.hpp"
#include "boost_rdma/rpc/method.hpp"
#include "boost_rdma/rpc/trace_context.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// The bytes of the RPC protocol (doc/rpc_protocol.md).

namespace rdma::detail::rpc {

using rdma::rpc::offered_method;
using rdma::rpc::detail::method_description;

enum class message_type : std::uint8_t
{
  hello = 1,   // the first message of each side; the server's has its methods
  call = 2,    // the request follows
  reply = 3,   // the reply follows
  failure = 4, // instead of a reply
  cancel = 5,  // the caller does not wait any more
  goodbye = 6, // the server takes no more calls
  // Bulk transfers
  expose = 7,    // the client's next call exposes memory; what follows describes it
  pull = 8,      // the server wants a part of exposed memory
  push = 9,      // the server changes a part of exposed memory; the bytes follow
  part = 10,     // the client answers a pull, with the bytes, or a push
  released = 11, // the server does not use the memory of a cancelled call any more
  // Flows of items
  item = 12,         // an item; its bytes follow
  credit = 13,       // the receiver has room for more items
  end_of_items = 14, // the client sends no more items
  // Traces
  trace = 15 // the client's next call belongs to a trace
};

enum class failure_kind : std::uint16_t
{
  library = 1, // error
  system = 2,  // errno
  refused = 3, // error; the call has not been started
};

struct message
{
  static constexpr std::size_t header_size = 16;
  static constexpr std::uint16_t version = 1;
  static constexpr std::size_t size_max = std::size_t{1} << 30;

  message_type type{};
  // call: index of the method; hello: version; failure: failure_kind; pull, push: index of the
  // memory; part: 1 if the client refuses
  std::uint16_t selector = 0;
  std::uint32_t number = 0; // of the call; part: of the transfer
  std::uint32_t size = 0;   // of what follows
  // call: time that is left, in us, 0: any; failure: the error; pull, push: number of the transfer;
  // credit: bytes
  std::uint32_t detail = 0;

  void encode(std::span<std::byte, header_size> to) const noexcept;

  // Returns nothing for bytes that are no message.
  static std::optional<message> decode(std::span<const std::byte, header_size> from) noexcept;
};

// Memory that a call exposes, as it is described in `expose`.
struct exposed_range
{
  enum class form_type : std::uint8_t
  {
    window = 1,  // one-sided operations with the key
    message = 2, // pull and push
    content = 3, // the bytes follow; they can only be read
  };
  static constexpr std::size_t most = 16;          // of a call
  static constexpr std::size_t content_max = 4096; // bytes

  form_type form{};
  access rights = access::local_read;
  std::uint64_t size = 0;
  std::uint64_t address = 0; // of a window
  std::uint32_t key = 0;
  std::vector<std::byte> content;
};
void append_range(
  std::vector<std::byte>& to, const exposed_range& what, std::span<const std::byte> content);
std::optional<std::vector<exposed_range>> decode_ranges(std::span<const std::byte> from);

// A pull asks for this part. In a push it stands in front of the bytes.
struct exposed_part
{
  static constexpr std::size_t encoded_size = 12;
  static constexpr std::uint32_t size_max = 256 * 1024;
  static constexpr std::size_t most = 16; // that the client has not answered

  std::uint64_t offset = 0;
  std::uint32_t size = 0;
};
void append_part(std::vector<std::byte>& to, const exposed_part& what);
exposed_part decode_part(std::span<const std::byte, exposed_part::encoded_size> from) noexcept;

// The content of `trace`.
constexpr std::size_t trace_size = 16 + 8 + 1;
void append_trace(std::vector<std::byte>& to, const rdma::rpc::trace_context& what);
rdma::rpc::trace_context decode_trace(std::span<const std::byte, trace_size> from) noexcept;

// Appends a message whose content is appended behind it. Returns its place for end_message().
std::size_t begin_message(std::vector<std::byte>& to, const message& what);
void end_message(std::vector<std::byte>& to, std::size_t at) noexcept;

// The client's first credit, behind the request of a call with items.
constexpr std::size_t first_credit_size = 4;
void append_first_credit(std::vector<std::byte>& to, std::uint32_t credit);
std::uint32_t decode_first_credit(std::span<const std::byte, first_credit_size> from) noexcept;

// The time of a call as it travels: rounded up, and "any" if it is too long for that.
std::uint32_t encode_time(std::chrono::nanoseconds left) noexcept;
// Changes it in an encoded call.
void set_time(std::span<std::byte> call, std::chrono::nanoseconds left) noexcept;

message failure_message(std::uint32_t number, const error_code& ec) noexcept;
message refusal_message(std::uint32_t number, error why) noexcept;
error_code failure_of(const message& m) noexcept;
[[nodiscard]] inline bool is_refusal(const message& m) noexcept
{
  return m.type == message_type::failure
    && m.selector == static_cast<std::uint16_t>(failure_kind::refused);
}

// The content of a server's hello.
void append_method(std::vector<std::byte>& to, const method_description& what);

std::optional<std::vector<offered_method>> decode_methods(std::span<const std::byte> from);

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_MESSAGE_HPP
