//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "completion/source_table.hpp"

#include <utility>

namespace rdma::detail {

std::optional<std::uint32_t> source_table::add(std::shared_ptr<work_source> source)
{
  std::uint32_t index = size_;
  if (!vacant_.empty())
  {
    index = vacant_.back();
    vacant_.pop_back();
  }
  else if (size_ == size_max)
    return std::nullopt;
  else
  {
    if (vacant_.capacity() <= size_)
      vacant_.reserve(std::size_t{size_} * 2 + 1); // so that remove() does not throw
    const std::uint32_t chunk = place(index).chunk;
    if (!chunks_[chunk])
    {
      chunks_[chunk] = std::make_unique<entry[]>(place::size_of(chunk));
      published_[chunk].store(chunks_[chunk].get(), std::memory_order_release);
    }
    ++size_;
  }
  entry& taken = at(index);
  taken.owner = std::move(source);
  taken.source.store(taken.owner.get(), std::memory_order_seq_cst);
  return index;
}

std::shared_ptr<work_source> source_table::remove(std::uint32_t index) noexcept
{
  if (index >= size_)
    return nullptr; // after clear()
  entry& left = at(index);
  left.source.store(nullptr, std::memory_order_seq_cst);
  vacant_.push_back(index);
  return std::move(left.owner);
}

void source_table::clear(std::vector<std::shared_ptr<work_source>>& to) noexcept
{
  for (std::uint32_t i = 0; i < size_; ++i)
  {
    entry& each = at(i);
    each.source.store(nullptr, std::memory_order_seq_cst);
    if (each.owner)
      to.push_back(std::move(each.owner));
  }
  size_ = 0;
  vacant_.clear();
}

} // namespace rdma::detail
