//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_OBJECTS_MAP_OPERATIONS_HPP
#define BOOST_RDMA_DETAIL_OBJECTS_MAP_OPERATIONS_HPP

#include <boost_rdma/detail/objects/map_change.hpp>
#include <boost_rdma/detail/objects/map_layout.hpp>
#include <boost_rdma/detail/objects/map_lookup.hpp>

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace rdma::detail::objects {

// The state machines of a map's operations with the types of keys and values, with memory for a
// bucket, and with the tables that its handles share.
template <class Key, class Value>
struct map_operations
{
  using buffers_type = map_buffers_for<sizeof(Key), sizeof(Value)>;

  static Value value_of(std::span<const std::byte> entry) noexcept
  {
    Value result{};
    std::memcpy(&result, entry.data() + sizeof(Key), sizeof result);
    return result;
  }

  struct find
    : map_lookup
    , map_lookup_buffers<sizeof(Key), sizeof(Value)>
  {
    find(std::shared_ptr<shared_tables> map, const Key& looked_up)
      : shared(std::move(map))
      , key(looked_up)
    {
    }

    step begin()
    {
      return map_lookup::begin(shared.get(), std::as_bytes(std::span(&key, 1)), {}, this->all());
    }
    auto results() const
    {
      const auto& read = map_lookup::reading();
      const auto slot = read.found();
      return std::make_tuple(slot
          ? std::optional(value_of(read.buffers().entry(buffers_type::shape, *slot)))
          : std::optional<Value>());
    }

    std::shared_ptr<shared_tables> shared;
    Key key;
  };

  struct change
    : map_change
    , buffers_type
  {
    change(std::shared_ptr<shared_tables> map, map_action what, const Key& key, const Value& value)
      : shared(std::move(map))
      , what(what)
    {
      std::memcpy(entry.data(), &key, sizeof key);
      std::memcpy(entry.data() + sizeof key, &value, sizeof value);
    }

    step begin()
    {
      return map_change::begin(
        shared.get(), what, std::span(entry).first(sizeof(Key)), entry, this->all());
    }
    auto results() const
    {
      return std::make_tuple(
        this->changed() && !(what == map_action::insert_or_assign && this->was_present()));
    }

    std::shared_ptr<shared_tables> shared;
    map_action what;
    std::array<std::byte, sizeof(Key) + sizeof(Value)> entry;
  };

  struct scan
    : map_lookup
    , buffers_type
  {
    scan(std::shared_ptr<shared_tables> map, std::uint64_t first, std::uint64_t count)
      : shared(std::move(map))
    {
      const map_shape parts = shared ? shared->get().first.shape : map_shape();
      if (parts.buckets == 0)
        return; // begin() fails
      first = std::min(first, parts.buckets);
      count = std::min(count, parts.buckets - first);
      position = first == 0 ? 0 : parts.end_of(first - 1);
      end = count == 0 ? position : parts.end_of(first + count - 1);
    }

    step begin()
    {
      if (position >= end)
        return step::finish();
      return map_lookup::begin(
        shared.get(), {}, {.all_slots = true}, this->all(), static_cast<map_position>(position));
    }
    step next(bool cancelled)
    {
      const auto looks = map_lookup::next(cancelled);
      if (looks.what != step::action::finish || looks.ec)
        return looks;
      const auto& read = map_lookup::reading();
      for (std::size_t slot = 0; slot != map_slots; ++slot)
        if (read.buffers().head().is_used(slot))
          add(read.buffers().entry(buffers_type::shape, slot));
      position = read.table().shape.end_of(read.bucket());
      return cancelled && position < end ? step::finish(boost::asio::error::operation_aborted)
                                         : begin();
    }
    // A bucket of the table before has positions that were read before, too.
    void add(std::span<const std::byte> entry)
    {
      if (this->tables().first.shape.position_of(entry.first(sizeof(Key))) < position)
        return;
      Key key{};
      std::memcpy(&key, entry.data(), sizeof key);
      entries.emplace_back(key, value_of(entry));
    }
    auto results() { return std::make_tuple(std::move(entries)); }

    std::shared_ptr<shared_tables> shared;
    std::uint64_t position = 0; // of a key; all before it have been read
    std::uint64_t end = 1;
    std::vector<std::pair<Key, Value>> entries;
  };
};

} // namespace rdma::detail::objects

#endif // BOOST_RDMA_DETAIL_OBJECTS_MAP_OPERATIONS_HPP
