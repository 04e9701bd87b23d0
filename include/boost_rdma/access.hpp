//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_ACCESS_HPP
#define BOOST_RDMA_ACCESS_HPP

namespace rdma {

/// Access rights of registered memory (ibv_access_flags, value for value).
/**
 * Local reading is always permitted. remote_write and remote_atomic require local_write
 * (ibv_reg_mr(3)). A peer cannot reach the memory unless at least one of the remote_ rights is
 * given. Combine rights with |.
 */
enum class access : unsigned
{
  local_read = 0,         ///< sends and the source of writes
  local_write = 1 << 0,   ///< receives, the destination of reads and atomics
  remote_write = 1 << 1,  ///< a peer with the key may write
  remote_read = 1 << 2,   ///< a peer with the key may read
  remote_atomic = 1 << 3, ///< a peer with the key may do atomics
  window_bind = 1 << 4,   ///< memory windows may be bound to the region
};

/// Returns the rights that are in at least one of `a` and `b`.
constexpr access operator|(access a, access b) noexcept
{
  return static_cast<access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Returns the rights that are in both `a` and `b`.
constexpr access operator&(access a, access b) noexcept
{
  return static_cast<access>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// Returns `rights` without those in `taken`.
constexpr access without(access rights, access taken) noexcept
{
  return static_cast<access>(static_cast<unsigned>(rights) & ~static_cast<unsigned>(taken));
}

/// Returns true if `granted` contains all rights of `wanted`.
constexpr bool permits(access granted, access wanted) noexcept
{
  return (granted & wanted) == wanted;
}

/// All rights that a peer can have.
inline constexpr access remote_access =
  access::remote_write | access::remote_read | access::remote_atomic;

} // namespace rdma

#endif // BOOST_RDMA_ACCESS_HPP
