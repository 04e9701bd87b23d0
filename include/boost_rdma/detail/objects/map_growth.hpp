//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_GROWTH_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_GROWTH_HPP

#include <boost_rdma/detail/objects/map_change.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The state machine of the owner that moves the entries of a map to a larger table.

namespace rdma::detail::objects {

// One operation of the map's owner at a time. It may be repeated after an error, and then goes on.
class map_growth
{
public:
  // `current` is the table to grow to, whose buckets are pending; `previous` has the entries. Two
  // rooms: for a bucket of the one and of the other.
  step begin(const map_tables& tables, const map_room& from, const map_room& to);
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  // Stops between buckets.
  step next(bool cancelled);

private:
  enum class stage : std::uint8_t
  {
    announce, // the tables
    read_old,
    freeze, // the old bucket
    read_new,
    take,  // a block
    write, // its entries
    open,  // the new bucket
    free,  // the blocks of a bucket that could not be opened
  };

  step store(stage entered, const map_table& table, std::uint64_t bucket, const map_room& value,
    tag expected);
  step read_old();
  step old_was_read();
  step read_new();
  step new_was_read();
  step fill() noexcept;
  step open();
  step next_bucket(bool cancelled);

  [[nodiscard]] const map_table& old_table() const noexcept { return tables_.previous; }
  [[nodiscard]] const map_table& new_table() const noexcept { return tables_.current; }
  [[nodiscard]] std::uint64_t new_bucket() const noexcept { return 2 * bucket_ + half_; }

  map_tables tables_;
  map_room from_;
  map_room to_;
  map_directory directory_;
  std::array<std::uint64_t, map_directory_words> directory_cell_{};
  stage stage_ = stage::announce;
  std::uint64_t bucket_ = 0; // of the old table
  std::uint64_t half_ = 0;   // of its positions
  map_read read_;
  cell_store store_;
  block_taking taking_;
  std::size_t links_ = 0;  // blocks that have been written
  std::size_t wanted_ = 0; // blocks
  tag pending_ = 0;        // version of the new bucket
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_GROWTH_HPP
