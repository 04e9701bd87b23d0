//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_RPC_TRACE_CONTEXT_HPP
#define BOOST_RDMA_RPC_TRACE_CONTEXT_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma::rpc {

/// A place in a distributed trace, as in the traceparent header of HTTP (W3C Trace Context).
/**
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe, except for changes.
 */
struct trace_context
{
  /// Identifies the trace.
  std::array<std::uint8_t, 16> trace_id{};
  /// Identifies the span of the caller.
  std::array<std::uint8_t, 8> parent_id{};
  /// Bit 0: the caller may have recorded the trace.
  std::uint8_t flags = 0;

  /// Returns true if neither identifier is zero. Other values mean that there is no trace.
  [[nodiscard]] bool is_valid() const noexcept;

  /// Returns the value of a traceparent header, in version 00.
  [[nodiscard]] std::string text() const;

  /// Reads the value of a traceparent header.
  /** Returns nothing for other text, version ff, and identifiers of zeros. Of later versions it
   * reads what version 00 has. */
  [[nodiscard]] static std::optional<trace_context> parse(std::string_view text) noexcept;

  /// Compares all members.
  friend bool operator==(const trace_context&, const trace_context&) = default;
};

} // namespace rdma::rpc

#endif // BOOST_RDMA_RPC_TRACE_CONTEXT_HPP
