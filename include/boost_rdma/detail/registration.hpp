//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DETAIL_REGISTRATION_HPP
#define BOOST_RDMA_DETAIL_REGISTRATION_HPP

#include <boost_rdma/access.hpp>
#include <boost_rdma/verbs_fwd.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdma::detail {

// A context opens at most one NIC and the software device; memory has a key for each.
inline constexpr std::size_t nic_index = 0;
inline constexpr std::size_t software_index = 1;
inline constexpr std::size_t device_count_max = 2;

using device_keys = std::array<std::uint32_t, device_count_max>;

class domain_impl;

// Registered memory as operations use it: the keys, and a reference count. The owner
// (memory_region, registered_buffer) holds one reference, and every operation in flight another.
// Memory is therefore neither deregistered nor allocated again while a device may access it.
struct registration
{
  device_keys local_keys{};
  device_keys remote_keys{};
  std::array<ibv_mr*, device_count_max> natives{}; // for regions that windows can be bound to
  const domain_impl* domain = nullptr;
  std::byte* base = nullptr;
  std::size_t size = 0;
  access rights = access::local_read;
  bool read_only = false; // the program's memory is const
  void (*destroy)(registration*) noexcept = nullptr;
  std::atomic<std::uint32_t> references{1};

  // relaxed: the caller holds a reference already, or borrows one from a holder
  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }

  void release() noexcept
  {
    // acquire-release: all accesses through other references happen before destroy
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy(this);
  }

  // Releases the owner's reference, for registrations that are not found by address. A count of one
  // is the owner's reference. No other thread can then increment it, so the decrement is omitted.
  void release_owned() noexcept
  {
    // acquire: as in release()
    if (references.load(std::memory_order_acquire) == 1)
      destroy(this);
    else
      release();
  }
};

} // namespace rdma::detail

#endif // BOOST_RDMA_DETAIL_REGISTRATION_HPP
