//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include <boost_rdma/detail/objects/map_layout.hpp>

#include <bit>
#include <random>

namespace rdma::detail::objects {

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept
{
  std::uint64_t hash = mix(seed ^ bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 8)
  {
    std::uint64_t part = 0;
    std::memcpy(&part, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    hash = mix(hash ^ part) + seed;
  }
  return mix(hash);
}

bool map_tables::set(const map_directory& directory) noexcept
{
  const auto table = [this](const map_directory::table& from)
  {
    if (from.buckets == 0)
      return first;
    map_table result = first;
    result.shape.buckets = from.buckets;
    result.shape.blocks = from.blocks;
    result.memory = remote_buffer(static_cast<device_kind>(from.kind), from.address,
      result.shape.is_valid() ? result.shape.size() : 0, from.key, first.memory.rights());
    return result;
  };
  const auto possible = [](const map_directory::table& t)
  {
    return t.kind <= static_cast<std::uint32_t>(device_kind::software)
      && t.address % sizeof(std::uint64_t) == 0;
  };
  const map_table now = table(directory.current);
  const map_table before = table(directory.previous);
  const bool has_grown = directory.current.buckets != 0;
  // Each table has twice the buckets of the one before. So nobody sees more than 31 of them, and
  // their buckets are parts of those of the first one.
  const auto doubled = [&]
  {
    const std::uint64_t times = now.shape.buckets / first.shape.buckets;
    return now.shape.buckets == times * first.shape.buckets && std::has_single_bit(times)
      && now.shape.buckets == 2 * before.shape.buckets && times != 1;
  };
  if (!possible(directory.current) || !possible(directory.previous) || !now.shape.is_valid()
    || !before.shape.is_valid() || (has_grown && !doubled()))
    return false;
  current = now;
  previous = has_grown ? before : map_table();
  return true;
}

header with_shape(header of_type, const map_shape& shape) noexcept
{
  of_type.capacity = shape.buckets;
  of_type.parameters[0] = shape.blocks;
  of_type.parameters[1] = shape.seed;
  return of_type;
}

std::uint64_t random_seed()
{
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void encode_pending(const map_shape& shape, std::span<std::uint64_t> image)
{
  std::vector<std::byte> value(shape.bucket_size());
  map_head head;
  head.set_state(bucket_state::pending);
  std::memcpy(value.data(), &head, sizeof head);
  std::ranges::fill(image, 0);
  for (std::uint64_t i = 0; i != shape.buckets; ++i)
    encode_cell(image.subspan(shape.cell_offset(i) / 8, shape.cell_size() / 8), value);
}

} // namespace rdma::detail::objects
