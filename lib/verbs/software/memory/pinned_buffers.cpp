//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/memory/pinned_buffers.hpp"

#include <algorithm>

namespace rdma::software {

bool add_elements(pinned_buffers& to, std::span<const ibv_sge> list, std::uint64_t offset,
  std::uint64_t size, unsigned access, key_table& keys, const ibv_pd* pd,
  std::uint64_t& done) noexcept
{
  done = 0;
  std::uint64_t part = 0;
  for (const ibv_sge& element : list)
  {
    for (; offset < element.length; offset += part)
    {
      if (size == 0 || to.room() == 0)
        return true;
      part = std::min<std::uint64_t>(element.length - offset, size);
      const std::uint64_t address = element.addr + offset;
      key_slot* slot = keys.pin_local(element.lkey, pd, address, part, access);
      if (slot == nullptr)
        return false;
      part = to.add(*slot, address - slot->address, part);
      size -= part;
      done += part;
    }
    offset -= element.length;
  }
  return true;
}

bool permitted(
  std::span<const ibv_sge> list, unsigned access, key_table& keys, const ibv_pd* pd) noexcept
{
  return std::all_of(list.begin(), list.end(),
    [&](const ibv_sge& e)
    { return e.length == 0 || key_pin(keys.pin_local(e.lkey, pd, e.addr, e.length, access)); });
}

} // namespace rdma::software
