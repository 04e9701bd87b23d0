//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_METHOD_HPP
#define BOOST_RDMA_RPC_METHOD_HPP

#include <boost_rdma/rpc/codec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rdma::rpc {

/// The name of a method as a template argument.
template <std::size_t Size>
struct method_name
{
  static_assert(Size > 1 && Size <= 129, "a name has 1 to 128 characters");

  /// Converts a literal.
  consteval method_name(const char (&literal)[Size]) // NOLINT(google-explicit-constructor)
  {
    std::copy_n(literal, Size, text);
  }

  /// Characters and a zero.
  char text[Size]{};
};

/// A method that a server offers and clients call.
/**
 * @code
 * using get = rdma::rpc::method<"kv.get/1", key, value>;
 * @endcode
 * Both sides use the same type. When a client connects, it compares the names and the types of
 * request and reply (see codec). A name usually ends with a version: another form of the request or
 * the reply needs another name, and a server can offer both.
 */
template <method_name Name, class Request, class Reply>
  requires detail::encodable<Request> && detail::encodable<Reply>
struct method
{
  /// The type of the argument that the caller passes.
  using request_type = Request;
  /// The type of the value that the server's handler returns.
  using reply_type = Reply;
  /// The type of the caller's result: Reply, or the container that owns what a view refers to.
  using result_type = typename detail::codec_of<Reply>::owned;

  /// The name.
  static constexpr std::string_view name{Name.text, sizeof(Name.text) - 1};
};

/// A method whose calls also send items, one after the other, in one direction or in both.
/**
 * @code
 * using tail = rdma::rpc::streaming_method<"tail/1", log_name, std::uint64_t, rdma::rpc::nothing,
 *   std::string_view>;
 * @endcode
 * A client calls it by basic_client::open(). The types of the items are compared, too, when a
 * client connects.
 *
 * @tparam ToServer The type of the items that the client sends; `nothing`: none.
 * @tparam ToClient The type of the items that the server sends before its reply; `nothing`: none.
 */
template <method_name Name, class Request, class Reply, class ToServer, class ToClient>
  requires detail::encodable<Request> && detail::encodable<Reply> && detail::encodable<ToServer>
  && detail::encodable<ToClient>
struct streaming_method : method<Name, Request, Reply>
{
  /// The type of the client's items.
  using to_server_type = ToServer;
  /// The type of the server's items.
  using to_client_type = ToClient;
};

/// A method that a server offers, with the types of its request and reply as numbers.
/** A streaming_method has numbers that are made of four types (doc/rpc_protocol.md). */
struct offered_method
{
  std::string name;          ///< name; chosen by the server, at most 255 characters of any kind
  std::uint64_t request = 0; ///< codec::type of the request
  std::uint64_t reply = 0;   ///< codec::type of the reply
};

/// @cond
namespace detail {

template <class Method>
concept streaming = requires {
  typename Method::to_server_type;
  typename Method::to_client_type;
};

// The type of a request with the client's items, or of a reply with the server's.
constexpr std::uint64_t with_items(std::uint64_t type, std::uint64_t items)
{
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  return (type * factor + items) * factor + 1;
}

// A method without its types.
struct method_description
{
  std::string_view name;
  std::uint64_t request = 0; // codec::type
  std::uint64_t reply = 0;
};

template <class Method>
inline constexpr method_description description_of{Method::name,
  codec_of<typename Method::request_type>::type, codec_of<typename Method::reply_type>::type};

template <streaming Method>
inline constexpr method_description description_of<Method>{Method::name,
  with_items(
    codec_of<typename Method::request_type>::type, codec_of<typename Method::to_server_type>::type),
  with_items(
    codec_of<typename Method::reply_type>::type, codec_of<typename Method::to_client_type>::type)};

} // namespace detail
/// @endcond

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_METHOD_HPP
