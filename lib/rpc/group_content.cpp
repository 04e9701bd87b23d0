//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "rpc/group_content.hpp"

#include <algorithm>
#include <utility>

namespace rdma::detail::rpc {

group_content::offer group_content::take_offer(std::uint64_t offset, std::uint64_t bytes)
{
  if (bytes == 0 || offset > size_ || bytes > size_ - offset)
    return {verdict::malformed};
  if (offset != here_)
    return {verdict::not_next};
  const std::uint64_t former = std::exchange(pull_, ++last_pull_);
  return {former != 0 ? verdict::pull_aside : verdict::pull, pull_, former};
}

void group_content::refuse(const offer& what)
{
  pull_ = what.superseded;
}

bool group_content::take_pulled(std::uint64_t number, std::uint64_t bytes)
{
  if (number != pull_)
    return false;
  pull_ = 0;
  here_ += bytes;
  return bytes != 0 && is_complete();
}

void group_content::add_child(std::uint32_t place)
{
  children_[place] = {};
}

void group_content::remove_child(std::uint32_t place)
{
  children_.erase(place);
}

std::vector<group_content::part> group_content::take_parts()
{
  std::vector<part> result;
  for (auto& [place, each] : children_)
    if (!each.is_asked && each.here < here_)
    {
      each.is_asked = true;
      result.push_back({place, each.here, std::min<std::uint64_t>(here_ - each.here, part_max)});
    }
  return result;
}

bool group_content::take_progress(std::uint32_t place, std::uint64_t bytes)
{
  const auto found = children_.find(place);
  if (found == children_.end() || !found->second.is_asked || bytes <= found->second.here
    || bytes > size_)
    return false;
  found->second = {bytes, false};
  return true;
}

} // namespace rdma::detail::rpc
