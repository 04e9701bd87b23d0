//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_JSON_HPP
#define BOOST_RDMA_RPC_JSON_HPP

#include <boost_rdma/error.hpp>
#include <boost_rdma/rpc/codec.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string_view.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

/// Encodes values of Boost.JSON as text, for methods whose request or reply is any JSON.
/**
 * The umbrella header does not include this one. A program that uses it links Boost.JSON, or
 * compiles <boost/json/src.hpp> in one of its files. Values with more than 32 levels are refused.
 */
template <>
struct rdma::rpc::codec<boost::json::value>
{
  /// The number of JSON text in UTF-8.
  static constexpr std::uint64_t type = 0x6a736f6e00;

  /// Appends the text of a value.
  static void encode(const boost::json::value& value, output& to)
  {
    const std::string text = boost::json::serialize(value);
    to.append(std::as_bytes(std::span(text)));
  }

  /// Returns the value of a text, or nothing if it is no JSON.
  static std::optional<boost::json::value> decode(std::span<const std::byte> from)
  {
    error_code ec;
    auto value = boost::json::parse(
      boost::json::string_view(reinterpret_cast<const char*>(from.data()), from.size()), ec);
    return ec ? std::nullopt : std::optional(std::move(value));
  }
};

#endif // BOOST_RDMA_RPC_JSON_HPP
