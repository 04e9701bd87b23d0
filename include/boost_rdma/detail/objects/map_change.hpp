//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_CHANGE_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_CHANGE_HPP

#include <boost_rdma/detail/objects/map_lookup.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The state machine that changes maps, and its part that takes blocks.

namespace rdma::detail::objects {

// Takes a free block of a table.
class block_taking
{
public:
  // Looks for a free block until the operation fails with error::object_full.
  static constexpr unsigned looks_max = 16;

  // Processes with different numbers try different blocks.
  step begin(const map_table& table, std::uint64_t random) noexcept;
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t, std::uint64_t was) noexcept;
  step next() noexcept;

  [[nodiscard]] const std::optional<map_link>& taken() const noexcept { return taken_; }

  // Frees a block that no bucket names.
  [[nodiscard]] static access_request free(const map_table& table, const map_link& block) noexcept;

private:
  step look() noexcept;
  [[nodiscard]] std::size_t count() const noexcept
  {
    return std::min<std::uint64_t>(states_.size(), table_.shape.blocks);
  }

  map_table table_;
  std::uint64_t random_ = 0;
  unsigned looks_ = 0;
  std::array<std::uint64_t, 16> states_{};
  std::uint64_t first_ = 0; // block of the first of them
  std::size_t chosen_ = 0;  // one of them
  bool looking_ = true;
  std::optional<map_link> taken_;
};

// Writes the words of a block with the entries of its slots, to be sent with one request.
void encode_block(const map_shape& shape, const map_buffers& buffers, std::size_t link,
  std::uint32_t number, std::span<std::uint64_t> image) noexcept;

enum class map_action : std::uint8_t
{
  insert,           // if the key is absent
  update,           // if the key is present
  insert_or_assign, // always
  erase,            // if the key is present
};

// Changes an entry. Needs the rights to read, to write and to do atomics.
class map_change
{
public:
  // Reads and stores that others forestalled until the operation fails with error::contended.
  static constexpr unsigned attempts_max = map_read::reads_max;

  // The entry is the key and, unless it is erased, a value.
  step begin(shared_tables* shared, map_action action, std::span<const std::byte> key,
    std::span<const std::byte> entry, const map_buffers& buffers);
  access_request request(std::size_t i) noexcept;
  void answered(std::size_t i, std::uint64_t was) noexcept;
  step next(bool cancelled);

  // Valid after success.
  [[nodiscard]] bool was_present() const noexcept { return was_present_; }
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  [[nodiscard]] tag version() const noexcept { return version_; }

  [[nodiscard]] const map_tables& tables() const noexcept { return lookup_.tables(); }
  // Number of reads and stores that others forestalled.
  [[nodiscard]] unsigned retries() const noexcept { return retries_; }
  [[nodiscard]] const map_read& reading() const noexcept { return lookup_.reading(); }

private:
  enum class stage : std::uint8_t
  {
    look_up, // the bucket
    take,    // a block
    write,   // its entries
    store,   // the bucket
    free,    // blocks that no bucket names
  };

  step look_up();
  step decide() noexcept;
  step put(std::size_t slot) noexcept;
  step put_out_of_line(std::size_t slot) noexcept;
  void clear(std::size_t slot) noexcept;
  step write() noexcept;
  step store() noexcept;
  step stored(const step& ended);
  step end(error_code ec = {}) noexcept;

  [[nodiscard]] const map_table& table() const noexcept { return reading().table(); }
  [[nodiscard]] std::span<std::byte> slot_entry(std::size_t slot) const noexcept
  {
    return buffers_.entry(table().shape, slot);
  }
  [[nodiscard]] std::span<std::uint64_t> block_image() const noexcept
  {
    return buffers_.words.first(table().shape.block_words());
  }

  map_action action_ = map_action::insert;
  shared_tables* shared_ = nullptr;
  std::span<const std::byte> key_;
  std::span<const std::byte> entry_; // the key and a value
  map_buffers buffers_;
  stage stage_ = stage::look_up;
  map_lookup lookup_;
  block_taking taking_;
  cell_store store_;
  map_head head_;                         // of the value that is stored
  std::size_t link_ = 0;                  // to the block that is written
  std::optional<map_link> replaced_;      // by the store: not named any more
  std::optional<map_link> spare_;         // taken, and not named yet
  map_table spare_table_;                 // to which it belongs
  bool names_spare_ = false;              // the value that is stored
  std::array<access_request, 2> freed_{}; // that free blocks
  std::size_t freed_count_ = 0;
  error_code end_;
  bool was_present_ = false;
  bool changed_ = false;
  tag version_ = 0;
  unsigned retries_ = 0;
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_CHANGE_HPP
