//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_COMPLETION_WAITING_LIST_HPP
#define BOOST_RDMA_LIB_COMPLETION_WAITING_LIST_HPP

#include "completion/waiting_handler.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

namespace rdma::detail {

// Handlers that wait for the same event, the oldest first. Each can be withdrawn by its number.
// The functions return lists, because moving list nodes does not throw.
template <class... Results>
class waiting_list
{
public:
  struct entry
  {
    std::uint64_t number;
    waiting_handler<Results...> handler;
  };
  using list_type = std::list<entry>;

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  void add(std::uint64_t number, waiting_handler<Results...> handler)
  {
    entries_.push_back({number, std::move(handler)});
  }

  list_type take_front()
  {
    list_type taken;
    if (!entries_.empty())
      taken.splice(taken.end(), entries_, entries_.begin());
    return taken;
  }

  void put_back(list_type taken) noexcept { entries_.splice(entries_.begin(), taken); }

  list_type take(std::uint64_t number)
  {
    list_type taken;
    const auto found = std::find_if(
      entries_.begin(), entries_.end(), [&](const entry& each) { return each.number == number; });
    if (found != entries_.end())
      taken.splice(taken.end(), entries_, found);
    return taken;
  }

  list_type take_all() { return std::exchange(entries_, {}); }

  // Completes operations that were taken from a list.
  static void fail(list_type taken, const error_code& ec)
  {
    for (entry& each : taken)
      std::move(each.handler).complete(ec, Results()...);
  }

private:
  list_type entries_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_COMPLETION_WAITING_LIST_HPP
