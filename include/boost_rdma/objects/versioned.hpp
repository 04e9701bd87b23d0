//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_OBJECTS_VERSIONED_HPP
#define BOOST_RDMA_OBJECTS_VERSIONED_HPP

#include <boost_rdma/objects/owned.hpp>
#include <boost_rdma/objects/remote_versioned.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rdma {

/// A value in memory of this process that peers load and store; see remote_versioned and owned.
/**
 * Peers that only load need access::remote_read; those that store need access::remote_atomic, too.
 *
 * @par Thread safety
 * As remote_versioned. load() may be called on any thread.
 */
template <class T, class Executor = boost::asio::any_io_executor>
class versioned : public owned<remote_versioned<T, Executor>>
{
public:
  /// Creates a value; see owned.
  using owned<remote_versioned<T, Executor>>::owned;

  /// Loads the value without the device. Returns nothing if stores change it during each of many
  /// attempts.
  [[nodiscard]] std::optional<versioned_value<T>> load() const
  {
    versioned_value<T> result{};
    const auto cell = this->words().subspan(this->cell_offset / 8, this->cell_size);
    for (unsigned i = 0; i != detail::objects::cell_load::reads_max; ++i)
    {
      std::array<std::uint64_t, versioned::cell_size> image;
      this->read(cell, image);
      if (detail::objects::decode_cell(
            image, std::as_writable_bytes(std::span(&result.value, 1)), result.version))
        return result;
    }
    return std::nullopt;
  }
};

} // namespace rdma

#endif // BOOST_RDMA_OBJECTS_VERSIONED_HPP
