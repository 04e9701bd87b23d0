//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_EXAMPLE_RPC_PROTOBUF_CODEC_HPP
#define BOOST_RDMA_EXAMPLE_RPC_PROTOBUF_CODEC_HPP

#include <boost_rdma/rpc/codec.hpp>

#include <google/protobuf/message_lite.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

/// Encodes messages of protobuf.
/**
 * All messages have the same number, because protobuf itself permits that the two sides have
 * different versions of a message. A method that takes another message has another name. The parser
 * accepts any bytes from a peer.
 */
template <std::derived_from<google::protobuf::MessageLite> T>
struct rdma::rpc::codec<T>
{
  static constexpr std::uint64_t type = 0x70726f746f00; // with a last byte of 0

  static void encode(const T& value, output& to)
  {
    std::string text;
    if (!value.SerializeToString(&text))
      throw std::length_error("a message has a missing field or more than 2 GiB");
    to.append(std::as_bytes(std::span(text)));
  }

  static std::optional<T> decode(std::span<const std::byte> from)
  {
    std::optional<T> value(std::in_place);
    if (from.size() > std::numeric_limits<int>::max()
      || !value->ParseFromArray(from.data(), static_cast<int>(from.size())))
      return std::nullopt;
    return value;
  }
};

#endif // BOOST_RDMA_EXAMPLE_RPC_PROTOBUF_CODEC_HPP
