//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TOOLS_CALL_VALUES_HPP
#define BOOST_RDMA_TOOLS_CALL_VALUES_HPP

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// JSON as the bytes of requests and replies, and back.

namespace call {

/// The command line does not fit the method. The text tells what to change.
struct usage_error : std::invalid_argument
{
  using std::invalid_argument::invalid_argument;
};

/// Members of a trivially copyable type, as a C++ compiler lays them out in a structure.
class layout
{
public:
  /// The type of a member.
  struct scalar;

  /// Reads "i32 a, char[16] name", or types without names. Throws usage_error.
  explicit layout(std::string_view text);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }

  /// Writes a value. Padding is not changed. Throws usage_error.
  void encode(const boost::json::value& value, std::byte* to) const;

  /// Returns an object of the members, or an array without names, or the value of a single member.
  [[nodiscard]] boost::json::value decode(const std::byte* from) const;

private:
  struct member
  {
    const scalar* type;
    std::string name;
    std::size_t offset;
    std::optional<std::size_t> count; // of an array
  };

  [[nodiscard]] bool has_names() const noexcept { return !members_.front().name.empty(); }

  std::vector<member> members_;
  std::size_t size_ = 0;
  std::size_t alignment_ = 1;
};

/// The type of a request or a reply, of which a server tells only a number (codec::type).
class wire_type
{
public:
  explicit wire_type(std::uint64_t number);

  /// Describes it for a person.
  [[nodiscard]] std::string text() const;

  /// Throws usage_error if values of this type cannot be converted with the layout, or without one.
  /** @param what Names the option, "request" or "reply". */
  void check(std::string_view what, const std::optional<layout>& members) const;

  /// Returns the bytes of a value. Throws usage_error. Precondition: checked.
  [[nodiscard]] std::vector<std::byte> encode(
    const boost::json::value& value, const std::optional<layout>& members) const;

  /// Returns the value of bytes. Throws std::runtime_error. Precondition: checked.
  [[nodiscard]] boost::json::value decode(
    std::span<const std::byte> from, const std::optional<layout>& members) const;

private:
  enum class kind : std::uint8_t
  {
    nothing,
    value,
    sequence,
    json,
    other
  };

  [[nodiscard]] bool is_text() const noexcept { return kind_ == kind::sequence && size_ == 1; }

  std::uint64_t number_;
  kind kind_ = kind::other;
  std::size_t size_ = 0; // of a value or an element
  std::size_t alignment_ = 0;
};

} // namespace call

#endif // BOOST_RDMA_TOOLS_CALL_VALUES_HPP
