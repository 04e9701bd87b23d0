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
  // buffers: for a bucket of the other and of the one.
  step begin(const map_tables& tables, const map_buffers& from, const map_buffers& to);
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  // Stops between buckets.
  step next(bool cancelled);

private:
  enum class stage : std::uint8_t
  {
    announce, // the tables
    read_old,
    take,   // a block
    freeze, // the old bucket
    read_new,
    write, // the entries of a block
    open,  // the new bucket
    free,  // blocks that are not needed
  };

  step store(stage entered, const map_table& table, std::uint64_t bucket, const map_buffers& value,
    tag expected);
  step read_old();
  step old_was_read();
  step reserve();
  step read_new();
  step new_was_read(bool cancelled);
  step write() noexcept;
  step next_bucket(bool cancelled);
  step advance(bool cancelled);
  step end(const error_code& ec) noexcept;

  [[nodiscard]] const map_table& old_table() const noexcept { return tables_.previous; }
  [[nodiscard]] const map_table& new_table() const noexcept { return tables_.current; }
  [[nodiscard]] std::uint64_t new_bucket() const noexcept { return 2 * bucket_ + half_; }
  // The entry in a slot of the old bucket belongs to the new one.
  [[nodiscard]] bool moves(std::size_t slot) const noexcept;

  map_tables tables_;
  map_buffers from_;
  map_buffers to_;
  map_directory directory_;
  std::array<std::uint64_t, map_directory_words> directory_cell_{};
  stage stage_ = stage::announce;
  std::uint64_t bucket_ = 0; // of the old table
  std::uint64_t half_ = 0;   // of its positions
  map_read read_;
  cell_store store_;
  block_taking taking_;
  std::array<map_link, map_links> spare_{}; // blocks that are taken, and not named
  std::size_t spare_count_ = 0;
  std::size_t wanted_ = 0; // blocks
  std::size_t links_ = 0;  // blocks that have been written
  tag announced_ = 0;      // version of the directory
  tag pending_ = 0;        // version of the new bucket
  error_code end_;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_GROWTH_HPP
