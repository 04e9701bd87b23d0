//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_DEVICE_HPP
#define BOOST_RDMA_DEVICE_HPP

#include <boost_rdma/verbs_fwd.hpp>

#include <boost/asio/ip/address.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rdma {

namespace detail {
class device_impl;
}

/// What kind of device this is.
enum class device_kind
{
  nic,      ///< a device of rdma-core: hardware, or one of the kernel's (rxe, siw)
  software, ///< this library's own
};

/// What carries a queue pair's packets.
enum class wire : std::uint8_t
{
  unknown,       ///< not connected yet, or a peer of an earlier version that does not say
  infiniband,    ///< native InfiniBand
  roce_v1,       ///< Ethernet frames, which stay on one link (IBTA Annex A16)
  roce_v2,       ///< UDP over IPv4 or IPv6 (IBTA Annex A17)
  iwarp,         ///< RDMA over TCP, in the NIC (RFC 5040)
  tcp,           ///< the software device's
  shared_memory, ///< the software device's, between processes of one host and user
};

/// For people: "RoCE v2".
const char* name_of(wire value) noexcept;

/// A device as rdma::list_devices() found it.
struct device_info
{
  std::string name; ///< what context_options::device takes (ibv_get_device_name(3))
  device_kind kind = device_kind::software; ///< hardware's or the kernel's, or this library's own
  bool active = false;                      ///< some port is up
  std::string remark;                       ///< why it cannot be used, where it cannot
};

/// The devices of this host: those of libibverbs, then the software device.
/**
 * Never fails: where libibverbs cannot be used the list holds the software device alone, and
 * system_library_remark() says why. Safe to call from any thread, as is system_library_remark().
 */
std::vector<device_info> list_devices();

/// The libibverbs that was loaded (its file), or why none could be.
std::string system_library_remark();

/// A device that a context has opened. A cheap handle, valid as long as the context is.
/**
 * @par Thread safety
 * Distinct objects: safe. Shared objects: safe.
 */
class device
{
public:
  /// For the library itself.
  explicit device(const detail::device_impl& impl) noexcept
    : impl_(&impl)
  {
  }

  /// As in device_info::name.
  [[nodiscard]] std::string name() const;
  /// Whether it is the software device.
  [[nodiscard]] device_kind kind() const noexcept;

  /// Work requests that a queue can hold (ibv_device_attr::max_qp_wr).
  [[nodiscard]] std::uint32_t max_work_requests() const noexcept;
  /// Scatter/gather elements of a work request (max_sge).
  [[nodiscard]] std::uint32_t max_sge() const noexcept;
  /// Entries of a completion queue (max_cqe).
  [[nodiscard]] std::uint32_t max_completions() const noexcept;
  /// RDMA reads and atomics in flight per queue pair (max_qp_rd_atom).
  [[nodiscard]] std::uint32_t max_read_atomic() const noexcept;
  /// Bytes of the largest message (ibv_port_attr::max_msg_sz).
  [[nodiscard]] std::uint64_t max_message_size() const noexcept;
  /// Whether 8-byte atomics are atomic (ibv_device_attr::atomic_cap).
  [[nodiscard]] bool has_atomics() const noexcept;
  /// Whether type 2 memory windows can be had.
  [[nodiscard]] bool has_memory_windows() const noexcept;
  /// Whether sends and writes can carry immediate data; iWARP's cannot (RFC 5040).
  [[nodiscard]] bool has_immediate_data() const noexcept;
  /// Whether shared receive queues can be had.
  [[nodiscard]] bool has_shared_receive_queues() const noexcept;
  /// The IP addresses among the ports' GIDs, as they are now: where peers can reach this device.
  [[nodiscard]] std::vector<boost::asio::ip::address> addresses() const;

  /// The verbs context, for calls of one's own (<boost_rdma/native.hpp>).
  [[nodiscard]] ibv_context* native_handle() const noexcept;

private:
  const detail::device_impl* impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_HPP
