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

// Maps addresses to objects in granules of 2 MiB. Each granule belongs to one T or to none. It is a
// three-level tree, like a page table. find() takes no lock. The caller serializes set().
template <class T>
class address_map
{
public:
  static constexpr std::size_t granule_bytes = std::size_t{1} << 21;

  // Returns null if no object is at this address. This includes addresses above the 48 bits that
  // mmap(2) returns unless a hint requests more.
  [[nodiscard]] T* find(const void* address) const noexcept
  {
    const auto granule = reinterpret_cast<std::uintptr_t>(address) / granule_bytes;
    if (granule >= entries * entries * entries)
      return nullptr;
    // acquire: sees the node's contents from before it was published
    const middle* upper = root_[granule / (entries * entries)].view.load(std::memory_order_acquire);
    if (upper == nullptr)
      return nullptr;
    const leaf* lower = (*upper)[granule / entries % entries].view.load(std::memory_order_acquire);
    return lower == nullptr ? nullptr : (*lower)[granule % entries].load(std::memory_order_acquire);
  }

  // Sets all granules that [begin, begin + bytes) touches. Throws std::bad_alloc without having set
  // any.
  void set(const std::byte* begin, std::size_t bytes, T* value)
  {
    const auto first = reinterpret_cast<std::uintptr_t>(begin) / granule_bytes;
    const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / granule_bytes;
    for (auto granule = first; granule <= last; ++granule)
      static_cast<void>(at(granule)); // allocates the nodes
    for (auto granule = first; granule <= last; ++granule)
      at(granule).store(value, std::memory_order_release); // release: publishes *value
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
