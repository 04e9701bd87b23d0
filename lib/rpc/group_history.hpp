//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RPC_GROUP_HISTORY_HPP
#define BOOST_RDMA_LIB_RPC_GROUP_HISTORY_HPP

#include "rpc/group_message.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace rdma::detail::rpc {

// The calls that have reached a member, so that none is started there twice (doc/rpc_protocol.md).
template <class Record>
class group_history
{
public:
  enum class verdict : std::uint8_t
  {
    fresh, // the caller makes a record and calls add()
    known, // `record` has it
    ended, // must not start
  };
  struct found
  {
    verdict is{};
    std::shared_ptr<Record> record;
  };

  // Appends the records that are not found any more to `removed`.
  found find(const group_request& what, std::vector<std::shared_ptr<Record>>& removed)
  {
    root& of = roots_[what.root];
    if (what.incarnation < of.incarnation)
      return {verdict::ended, nullptr};
    if (what.incarnation > of.incarnation)
    {
      remove(of, of.calls.end(), removed);
      of.incarnation = what.incarnation;
      of.oldest = what.oldest;
    }
    else if (what.oldest > of.oldest)
    {
      remove(of, of.calls.lower_bound(what.oldest), removed);
      of.oldest = what.oldest;
    }
    if (what.sequence < of.oldest)
      return {verdict::ended, nullptr};
    const auto at = of.calls.find(what.sequence);
    if (at == of.calls.end())
      return {verdict::fresh, nullptr};
    return {at->second ? verdict::known : verdict::ended, at->second};
  }

  // The last find() of this request has returned fresh.
  void add(const group_request& what, std::shared_ptr<Record> record)
  {
    roots_[what.root].calls[what.sequence] = std::move(record);
  }

  // Keeps only the fact that the call has ended.
  void forget(std::uint32_t rank, std::uint64_t sequence, const Record& record)
  {
    root& of = roots_[rank];
    const auto at = of.calls.find(sequence);
    if (at != of.calls.end() && at->second.get() == &record)
      at->second = nullptr;
  }

  // Removes all records and appends them to `removed`.
  void clear(std::vector<std::shared_ptr<Record>>& removed)
  {
    for (auto& [rank, of] : roots_)
      remove(of, of.calls.end(), removed);
    roots_.clear();
  }

private:
  using call_map = std::map<std::uint64_t, std::shared_ptr<Record>>;
  struct root
  {
    std::uint64_t incarnation = 0;
    std::uint64_t oldest = 0;
    call_map calls; // at most group_request::calls_max
  };

  static void remove(
    root& of, typename call_map::iterator end, std::vector<std::shared_ptr<Record>>& removed)
  {
    for (auto at = of.calls.begin(); at != end; at = of.calls.erase(at))
      if (at->second)
        removed.push_back(at->second);
  }

  std::map<std::uint32_t, root> roots_;
};

} // namespace rdma::detail::rpc

#endif // BOOST_RDMA_LIB_RPC_GROUP_HISTORY_HPP
