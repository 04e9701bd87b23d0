//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_CM_PRIVATE_DATA_HPP
#define BOOST_RDMA_CM_PRIVATE_DATA_HPP

#include <boost/container/static_vector.hpp>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string_view>

namespace rdma::cm {

/// The few bytes that go along when RDMA-CM connects, accepts or rejects; what they mean is the
/// program's.
/**
 * What a peer sent is not to be trusted. On InfiniBand and RoCE it arrives filled up with zeros to
 * the most that fits, so that its size says nothing (IBA 12.6); on iWARP the size is the sender's.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class private_data
{
public:
  /// Bytes that RDMA-CM can hand over at all.
  static constexpr std::size_t size_max = 255;

  /// Bytes of a connect that fit on InfiniBand and RoCE (IBA 12.6.5, of whose 92 Annex A11 takes
  /// 36).
  static constexpr std::size_t connect_size_max = 56;
  /// Bytes of an accept that fit there (IBA 12.6.8).
  static constexpr std::size_t accept_size_max = 196;
  /// Bytes of a rejection that fit there (IBA 12.6.7).
  static constexpr std::size_t reject_size_max = 148;

  /// No bytes.
  private_data() = default;

  /// A copy of these bytes. Throws std::length_error when there are more than size_max.
  explicit private_data(std::span<const std::byte> bytes)
  {
    if (bytes.size() > size_max)
      throw std::length_error("rdma::cm::private_data");
    bytes_.assign(bytes.begin(), bytes.end());
  }

  /// As above, of a text without its terminator.
  explicit private_data(std::string_view text)
    : private_data(std::as_bytes(std::span(text.data(), text.size())))
  {
  }

  /// All of them; valid for as long as this object is, and as it is.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept
  {
    return {bytes_.data(), bytes_.size()};
  }

  /// The bytes up to the first zero, as text; valid as bytes() is.
  [[nodiscard]] std::string_view text() const noexcept
  {
    const std::string_view all(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    return all.substr(0, all.find('\0'));
  }

  /// Bytes; of what a peer sent, see above.
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  /// Whether there are none.
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

private:
  boost::container::static_vector<std::byte, size_max> bytes_;
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_PRIVATE_DATA_HPP
