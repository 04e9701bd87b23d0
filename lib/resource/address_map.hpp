//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_LIB_RESOURCE_ADDRESS_MAP_HPP
#define BOOST_RDMA_LIB_RESOURCE_ADDRESS_MAP_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rdma::detail {

// What lies at an address, by granules of 2 MiB of which each belongs to one T or to none: a tree
// of three levels, as the processor's own. Looking up takes no lock. Writing is the caller's to
// serialise.
template <class T>
class address_map
{
public:
  static constexpr std::size_t granule_bytes = std::size_t{1} << 21;

  // Null where nothing is; also for addresses beyond the 48 bits that mmap(2) gives without being
  // asked for more.
  [[nodiscard]] T* find(const void* address) const noexcept
  {
    const auto granule = reinterpret_cast<std::uintptr_t>(address) / granule_bytes;
    if (granule >= entries * entries * entries)
      return nullptr;
    // acquire: what a node held when it was hung up is seen
    const middle* upper = root_[granule / (entries * entries)].view.load(std::memory_order_acquire);
    if (upper == nullptr)
      return nullptr;
    const leaf* lower = (*upper)[granule / entries % entries].view.load(std::memory_order_acquire);
    return lower == nullptr ? nullptr : (*lower)[granule % entries].load(std::memory_order_acquire);
  }

  // Of the granules that [begin, begin + bytes) touches. Throws std::bad_alloc, and then sets none.
  void set(const std::byte* begin, std::size_t bytes, T* value)
  {
    const auto first = reinterpret_cast<std::uintptr_t>(begin) / granule_bytes;
    const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / granule_bytes;
    for (auto granule = first; granule <= last; ++granule)
      static_cast<void>(at(granule)); // makes the nodes
    for (auto granule = first; granule <= last; ++granule)
      at(granule).store(value, std::memory_order_release); // with all that was written of it
  }

private:
  static constexpr std::size_t entries = 512;

  template <class Node>
  struct link
  {
    std::unique_ptr<Node> owner;
    std::atomic<Node*> view{nullptr};

    Node& get()
    {
      if (!owner)
      {
        owner = std::make_unique<Node>();
        view.store(owner.get(), std::memory_order_release); // zeroed
      }
      return *owner;
    }
  };
  using leaf = std::array<std::atomic<T*>, entries>;
  using middle = std::array<link<leaf>, entries>;

  std::atomic<T*>& at(std::uintptr_t granule)
  {
    return root_[granule / (entries * entries)]
      .get()[granule / entries % entries]
      .get()[granule % entries];
  }

  std::array<link<middle>, entries> root_;
};

} // namespace rdma::detail

#endif // BOOST_RDMA_LIB_RESOURCE_ADDRESS_MAP_HPP
