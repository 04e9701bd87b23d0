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

/// Bytes that RDMA-CM transports with a connect, accept or reject. The program defines their
/// meaning.
/**
 * Do not trust data of a peer. On InfiniBand and RoCE it arrives padded with zeros to the maximum
 * size, so its size carries no information (IBA 12.6). On iWARP the size is that of the sender.
 *
 * @par Thread safety
 * Distinct objects: safe. Shared objects: unsafe.
 */
class private_data
{
public:
  /// Maximum number of bytes that RDMA-CM accepts.
  static constexpr std::size_t size_max = 255;

  /// Maximum number of bytes of a connect on InfiniBand and RoCE (IBA 12.6.5 defines 92, of which
  /// Annex A11 uses 36).
  static constexpr std::size_t connect_size_max = 56;
  /// Maximum number of bytes of an accept on InfiniBand and RoCE (IBA 12.6.8).
  static constexpr std::size_t accept_size_max = 196;
  /// Maximum number of bytes of a reject on InfiniBand and RoCE (IBA 12.6.7).
  static constexpr std::size_t reject_size_max = 148;

  /// Creates empty data.
  private_data() = default;

  /// Copies `bytes`. Throws std::length_error if there are more than size_max.
  explicit private_data(std::span<const std::byte> bytes)
  {
    if (bytes.size() > size_max)
      throw std::length_error("rdma::cm::private_data");
    bytes_.assign(bytes.begin(), bytes.end());
  }

  /// Copies a text without a terminating zero. Throws std::length_error if it is longer than
  /// size_max.
  explicit private_data(std::string_view text)
    : private_data(std::as_bytes(std::span(text.data(), text.size())))
  {
  }

  /// Returns all bytes. The span is valid until the object is changed or destroyed.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept
  {
    return {bytes_.data(), bytes_.size()};
  }

  /// Returns the bytes before the first zero as text. Valid until the object is changed or
  /// destroyed.
  [[nodiscard]] std::string_view text() const noexcept
  {
    const std::string_view all(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    return all.substr(0, all.find('\0'));
  }

  /// Returns the number of bytes. For data of a peer it includes the padding.
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  /// Returns true if there are no bytes.
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

private:
  boost::container::static_vector<std::byte, size_max> bytes_;
};

} // namespace rdma::cm

#endif // BOOST_RDMA_CM_PRIVATE_DATA_HPP
