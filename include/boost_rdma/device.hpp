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

/// Kind of a device.
enum class device_kind
{
  nic,      ///< a device of rdma-core: hardware, or a software device of the kernel (rxe, siw)
  software, ///< the software device of this library
};

/// Link and transport protocol that carries a queue pair's packets.
enum class wire : std::uint8_t
{
  unknown,       ///< not connected yet, or the peer's version does not report it
  infiniband,    ///< native InfiniBand
  roce_v1,       ///< Ethernet frames, limited to one link (IBTA Annex A16)
  roce_v2,       ///< UDP over IPv4 or IPv6 (IBTA Annex A17)
  iwarp,         ///< RDMA over TCP, in the NIC (RFC 5040)
  tcp,           ///< TCP, on the software device
  shared_memory, ///< shared memory between processes of one host and user, on the software device
  socket,        ///< no RDMA: a stream over a TCP socket
};

/// Returns a name for display, for instance "RoCE v2".
const char* name_of(wire value) noexcept;

/// A device in the list of rdma::list_devices().
struct device_info
{
  /// Value for context_options::device (ibv_get_device_name(3)).
  std::string name;
  /// NIC or software device.
  device_kind kind = device_kind::software;
  /// True if at least one port is up.
  bool active = false;
  /// Reason why the device cannot be used; empty if it can.
  std::string remark;
};

/// Returns the devices of this host: those of libibverbs, then the software device.
/**
 * Never fails. If libibverbs cannot be used, the list contains only the software device, and
 * system_library_remark() returns the reason. Safe to call from any thread.
 */
std::vector<device_info> list_devices();

/// Returns the file of the loaded libibverbs, or the reason why it was not loaded. Safe to call
/// from any thread.
std::string system_library_remark();

/// A handle to a device that a context has opened. Cheap to copy; valid as long as the context is.
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

  /// Returns the name, as in device_info::name.
  [[nodiscard]] std::string name() const;
  /// Returns the kind: NIC or software device.
  [[nodiscard]] device_kind kind() const noexcept;

  /// Returns the maximum number of work requests in a queue (ibv_device_attr::max_qp_wr).
  [[nodiscard]] std::uint32_t max_work_requests() const noexcept;
  /// Returns the maximum number of scatter/gather elements in a work request (max_sge).
  [[nodiscard]] std::uint32_t max_sge() const noexcept;
  /// Returns the maximum number of entries of a completion queue (max_cqe).
  [[nodiscard]] std::uint32_t max_completions() const noexcept;
  /// Returns the maximum number of RDMA reads and atomics in flight per queue pair
  /// (max_qp_rd_atom).
  [[nodiscard]] std::uint32_t max_read_atomic() const noexcept;
  /// Returns the size of the largest message in bytes (ibv_port_attr::max_msg_sz).
  [[nodiscard]] std::uint64_t max_message_size() const noexcept;
  /// Returns true if the device supports 8-byte atomics (ibv_device_attr::atomic_cap).
  [[nodiscard]] bool has_atomics() const noexcept;
  /// Returns true if the device supports type 2 memory windows.
  [[nodiscard]] bool has_memory_windows() const noexcept;
  /// Returns true if sends and writes can carry immediate data. iWARP has none (RFC 5040).
  [[nodiscard]] bool has_immediate_data() const noexcept;
  /// Returns true if the device supports shared receive queues.
  [[nodiscard]] bool has_shared_receive_queues() const noexcept;
  /// Returns the IP addresses of the ports' current GIDs, by which peers can reach this device.
  [[nodiscard]] std::vector<boost::asio::ip::address> addresses() const;

  /// Returns the verbs context, for direct calls (<boost_rdma/native.hpp>).
  [[nodiscard]] ibv_context* native_handle() const noexcept;

private:
  const detail::device_impl* impl_;
};

} // namespace rdma

#endif // BOOST_RDMA_DEVICE_HPP
