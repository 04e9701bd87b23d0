//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_LOOKUP_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_LOOKUP_HPP

#include <boost_rdma/detail/objects/map_layout.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// The state machines that read maps.

namespace rdma::detail::objects {

// Reads a bucket of a table, and looks for a key. Needs the right to read, and waits for no other
// process.
class map_read
{
public:
  // Reads of blocks without success until the operation fails with error::contended.
  static constexpr unsigned reads_max = cell_load::reads_max;

  struct options
  {
    bool all_slots = false; // read the blocks also if the key is in the cell
    bool frozen = false;    // look for the key in a frozen bucket, too
  };

  // With an empty key, the blocks are read only for `all_slots`. The table must remain.
  step begin(const map_table& table, std::uint64_t bucket, std::span<const std::byte> key,
    const options& how, const map_buffers& buffers);
  access_request request(std::size_t i) const noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled);

  // The slot of the key among the buffers.
  [[nodiscard]] std::optional<std::size_t> found() const noexcept { return found_; }
  [[nodiscard]] const map_table& table() const noexcept { return *table_; }
  [[nodiscard]] std::uint64_t bucket() const noexcept { return bucket_; }
  [[nodiscard]] std::span<const std::byte> key() const noexcept { return key_; }
  [[nodiscard]] const map_buffers& buffers() const noexcept { return buffers_; }
  [[nodiscard]] tag version() const noexcept { return load_.version(); }

  // For another cell while no bucket is being read.
  [[nodiscard]] cell_load& load() noexcept { return load_; }
  [[nodiscard]] const cell_load& load() const noexcept { return load_; }

  // Number of times that the blocks of this bucket were other ones than the version named, and of
  // all reads without success.
  [[nodiscard]] unsigned stale() const noexcept { return stale_; }
  [[nodiscard]] unsigned failed() const noexcept { return stale_ + load_.torn(); }
  // Number of times that blocks were read.
  [[nodiscard]] unsigned block_reads() const noexcept { return block_reads_; }

private:
  step load_cell();
  step loaded() noexcept;
  // The links whose blocks are being read, and the place of such a block among the buffers.
  [[nodiscard]] std::span<const std::uint8_t> reading() const noexcept;
  [[nodiscard]] std::size_t place_of(std::size_t link) const noexcept;
  bool take_block(std::size_t link, const map_head& head) const noexcept;
  bool find(std::size_t slot, std::size_t place, const map_head& head) noexcept;

  const map_table* table_ = nullptr;
  std::uint64_t bucket_ = 0;
  std::span<const std::byte> key_;
  options how_;
  map_buffers buffers_;
  cell_load load_;
  bool loading_ = true;
  std::array<std::uint8_t, map_links> wanted_{}; // links whose blocks are read
  std::uint8_t wanted_count_ = 0;
  std::uint8_t taken_ = 0; // of the wanted ones
  std::optional<std::size_t> found_;
  unsigned block_reads_ = 0;
  unsigned stale_ = 0;
};

// Reads the bucket that has the entries of a position, whichever table it is in.
class map_lookup
{
public:
  struct options
  {
    bool all_slots = false;      // read the blocks also if the key is in the cell
    bool wait_if_frozen = false; // for a change: until the owner has moved the entries
  };

  // Fails with error::closed if there are no tables, or none with buckets. `position` is used if
  // the key is empty.
  step begin(shared_tables* shared, std::span<const std::byte> key, const options& how,
    const map_buffers& buffers, map_position position = 0);
  access_request request(std::size_t i) const noexcept;
  void answered(std::size_t, std::uint64_t) noexcept {}
  step next(bool cancelled);

  // The bucket.
  [[nodiscard]] const map_read& reading() const noexcept { return read_; }
  // The tables as they were seen last.
  [[nodiscard]] const map_tables& tables() const noexcept { return *tables_; }

private:
  enum class stage : std::uint8_t
  {
    read_current,
    read_previous,
    read_directory,
    pause,
  };

  step read(stage entered, const map_table& from, std::span<const std::byte> key,
    const map_buffers& buffers);
  step read(stage entered, const map_table& from)
  {
    return read(entered, from, read_.key(), read_.buffers());
  }
  step was_read();
  step follow();

  static inline const map_tables no_tables{};

  shared_tables* shared_ = nullptr;
  const map_tables* tables_ = &no_tables;
  map_position position_ = 0;
  options how_;
  stage stage_ = stage::read_current;
  map_read read_;
  back_off pause_{std::chrono::microseconds(400)};
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_LOOKUP_HPP
