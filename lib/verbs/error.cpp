//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/error.hpp"

#include <boost/system/errc.hpp>

#include <cerrno>
#include <cstddef>
#include <span>
#include <sys/resource.h>

namespace rdma {
namespace {

template <class Code>
struct text
{
  Code code;
  const char* message;
  const char* cause;
};

constexpr text<error> error_texts[] = {
  {error::no_device, "no RDMA device fits",
    "List the devices with rdma::list_devices() or `rdma_info`. The software device is named "
    "soft0 and always exists."},
  {error::not_connected, "the queue pair is not connected",
    "Connect it (async_connect, an acceptor, or connect() with the peer's endpoint description) "
    "before sending. Call local_endpoint() before connect(). Receives may be posted before the "
    "connection exists."},
  {error::already_connected, "the queue pair was connected before",
    "A queue pair can be connected once. Create a new one."},
  {error::closed, "the object is closed", "It was closed or moved from. Create a new one."},
  {error::wrong_context, "the buffer is registered in another context",
    "Register or allocate the buffer in the context of the queue pair."},
  {error::empty_buffer, "the buffer is empty",
    "Use rdma::no_data for empty messages. Registrations and one-sided operations need at least "
    "one byte."},
  {error::too_many_buffers, "more buffers in the sequence than the queue pair takes",
    "Raise queue_pair_options::max_send_sge or max_receive_sge, or use fewer buffers."},
  {error::message_too_large, "the message is larger than the device carries",
    "Split it. device::max_message_size() has the limit."},
  {error::remote_range_too_small, "the remote range is too small for the operation",
    "The local buffers hold more bytes than the remote buffer. Use first(n) of the local buffer, "
    "or expose more memory."},
  {error::no_remote_key, "the remote memory has no key for this device",
    "The peer registered it in a context that does not use this kind of device. Open both "
    "contexts on the same kind of device."},
  {error::misaligned_atomic, "atomic operations need 8 bytes at an address aligned to 8",
    "Align the exposed value to 8 bytes and pass a remote buffer of at least 8 bytes."},
  {error::queue_too_deep, "a queue depth beyond the device's limit, or too many operations",
    "Lower the depth. The device's limits are device::max_work_requests(), max_sge() and "
    "max_completions(). A queue pair can have at most 32768 outstanding operations."},
  {error::bad_batch, "a batch without operations",
    "Add an operation to the batch before you submit it."},
  {error::not_exposed, "the memory is not exposed to remote access",
    "Register it with access::remote_read, remote_write or remote_atomic. For a memory window, "
    "use access::window_bind."},
  {error::bad_access, "invalid combination of access rights",
    "remote_write and remote_atomic require local_write. Const memory can only be read: locally, "
    "and by peers with remote_read."},
  {error::pool_exhausted, "the memory pool reached its limit",
    "Raise memory_pool_options::size_max, or free buffers and containers earlier. "
    "memory_pool::statistics() shows the usage."},
  {error::malformed_description, "the description cannot be read",
    "It was truncated, modified, or written by another version. Send the text unchanged."},
  {error::no_common_transport, "both sides have no transport in common",
    "queue_pair::diagnose() lists the attempts. Permit fall-back (queue_pair_options::fall_back), "
    "or open both contexts on the same kind of device."},
  {error::peer_lost, "the peer went away without closing",
    "Its process ended or was stopped, or its host or the network failed."},
  {error::peer_closed, "the peer closed the connection", ""},
  {error::not_an_acceptor, "the peer does not answer as an RDMA acceptor",
    "Another program listens on this port. Check the port."},
  {error::version_mismatch, "the peer uses another version of the RDMA upgrade",
    "Update the older side."},
  {error::refused, "the peer refused the connection",
    "queue_pair::diagnose() has the peer's reason if it sent one. The peer's log has more "
    "details."},
  {error::handshake_timeout, "the handshake took too long",
    "The peer does not answer, or the network does not reach it. An acceptor answers only while "
    "an async_accept is outstanding."},
  {error::no_connection_manager, "RDMA-CM cannot be used",
    "Install librdmacm1 and load the kernel's module rdma_ucm: /dev/infiniband/rdma_cm must exist "
    "and be accessible to this user. The software device needs neither."},
  {error::unreachable, "no RDMA device has a route to the address",
    "`rdma link` shows the network interfaces with an RDMA device, and `ip route get ADDRESS` the "
    "interface of the route. The peer must answer ARP."},
  {error::other_device, "the route to the address uses another RDMA device than the context's",
    "Open the context with context_options::device set to the device that `rdma link` names for "
    "that network interface."},
  {error::device_lost, "the RDMA device failed or was removed",
    "Close the objects that use it, and create a new context when the device is available again."},
  {error::forked, "the object belongs to the parent process",
    "RDMA objects do not survive fork(). Create contexts and queue pairs in the process that uses "
    "them, or fork earlier."},
  {error::no_local_gid, "the RDMA device has no GID for the local address",
    "The address belongs to another network interface than the device. Connect to an address on a "
    "network of device::addresses(), open the device of that interface (`rdma link` shows it), or "
    "set queue_pair_options::local_address."},
  {error::other_address_family, "one side is reached by IPv4, the other by IPv6",
    "Connect to an address of a family for which both devices have a GID, or set "
    "queue_pair_options::local_address on both sides."},
  {error::queue_pair_failed, "the device reported the queue pair as failed",
    "queue_pair::diagnose() has the device's report. The peer may have violated the protocol or "
    "accessed memory that is not exposed."},
  {error::completion_queue_failed, "the completion queue failed",
    "It overran: there were more completions than it can hold, for instance of work posted "
    "without this library. Create a new one, and new queue pairs."},
  {error::shared_receive_queue_failed, "the shared receive queue failed",
    "Create a new one, and new queue pairs."},
  {error::path_not_confirmed, "no RDMA message got through between the peers",
    "The TCP connection works but the RDMA path does not. Possible causes: a firewall, another "
    "VLAN or subnet, or a switch that drops it. RoCE v2 is UDP port 4791; the software device "
    "listens on a TCP port of its own (software::device_settings). queue_pair::diagnose() has the "
    "path."},
  {error::bad_alignment, "the pool does not support this alignment",
    "Use a power of two up to 4096 (memory_pool::alignment_max)."},
  {error::not_pool_memory, "the memory was not allocated from this pool",
    "Allocate it there (std::pmr with &context.pool(), or make_buffer()), or register it as a "
    "memory_region."},
  {error::wrong_size, "the memory does not have the size of the objects",
    "as<T>() needs at least sizeof(T) bytes, and as_span<T>() a multiple of sizeof(T). Use a "
    "slice, or elements<T>()."},
  {error::misaligned, "the address is not aligned for the type",
    "Place the object at a multiple of alignof(T), or copy it with memcpy."},
  {error::read_only, "the memory was registered as const",
    "Access it as const T, and use other memory as the target of receives and reads."},
  {error::out_of_range, "the elements do not lie inside the memory",
    "Check the index of the first element and the number of elements."},
  {error::remote_right_missing, "the remote buffer does not permit this",
    "Its owner must expose the memory with access::remote_write for writes, remote_read for "
    "reads, remote_atomic for atomics, and send the handle again."},
  {error::not_registered, "the operation needs registered memory",
    "Batches and memory windows do not accept plain memory. Use a registered_buffer, a "
    "memory_region, or register_buffer() on the memory."},
  {error::no_lessor, "the peer grants no memory",
    "The peer's program must set a lessor for its queue pairs (queue_pair_options::grant_from)."},
  {error::quota_exceeded, "the peer grants no more memory",
    "Release unused leases, request less, or raise the limits in the peer's lessor_options."},
  {error::lease_ended, "the lease has ended",
    "It was released, recalled or handed over, or it expired. Renew leases in time, or request a "
    "new one."},
  {error::inbox_full, "the peer does not accept the lent memory",
    "The peer's program must call async_receive_remote() once for each loan."},
  {error::lease_failed, "the peer could not expose the memory",
    "The cause may be its device, its limit of locked memory, or its queue pair. The peer's log "
    "has the reason."},
  {error::agent_ended, "the session between the agents has ended",
    "One agent failed or received an invalid message. All leases have ended. The connection "
    "itself may still work."},
  {error::object_mismatch, "the memory contains another object than expected",
    "Both sides must use the same class, the same type of value (rdma::object_layout) and the same "
    "byte order, and the memory must be that of the whole object."},
  {error::contended, "other processes changed the object during every attempt",
    "Try again later, or reduce the number of stores."},
  {error::object_full, "the object has no room for more",
    "Remove elements, wait until the owner has made room, or create it with a larger capacity."},
  {error::overloaded, "too many calls are outstanding",
    "Call again later, or raise the limits of calls and of their queue (rpc::client_options, "
    "rpc::server_options)."},
  {error::no_such_method, "the server has no method of that name",
    "Register it by rpc::server::handle() before start(). Names include the version."},
  {error::method_mismatch, "the server's method has other types",
    "Both sides must use the same rpc::method. Give a method with other types another name."},
  {error::malformed_message, "a message of the peer cannot be read",
    "The peer is another program than expected, its message is larger than the limit, or the codec "
    "does not accept the value."},
  {error::call_failed, "the method's handler has failed",
    "The handler threw an exception, or did not answer. The server's log has the reason."},
};

constexpr text<wc_status> status_texts[] = {
  {wc_status::success, "success", ""},
  {wc_status::local_length_error, "local length error",
    "A message arrived that is longer than the receive posted for it, or a message was sent that "
    "is longer than the port's limit. Post larger receives."},
  {wc_status::local_qp_operation_error, "local QP operation error",
    "The queue pair does not support the work request, for instance a read with read_atomic_depth "
    "0."},
  {wc_status::local_eec_operation_error, "local EE context operation error", ""},
  {wc_status::local_protection_error, "local protection error",
    "A local buffer is outside its registration, was deregistered, or is written to without "
    "access::local_write."},
  {wc_status::flushed, "work request flushed",
    "The queue pair is in the error state. The first failed operation has the reason."},
  {wc_status::memory_window_bind_error, "memory window bind error",
    "The region lacks access::window_bind, or the range is outside it."},
  {wc_status::bad_response_error, "bad response error", "The peer sent an unexpected response."},
  {wc_status::local_access_error, "local access error", ""},
  {wc_status::remote_invalid_request_error, "remote invalid request error",
    "The peer's receive is smaller than the message, or the peer's queue pair does not permit the "
    "operation."},
  {wc_status::remote_access_error, "remote access error",
    "The remote key is unknown or no longer valid, the range exceeds the exposed memory, or the "
    "access right is missing."},
  {wc_status::remote_operation_error, "remote operation error",
    "The peer could not complete the operation: its own receive failed."},
  {wc_status::retry_exceeded, "transport retry counter exceeded",
    "The peer does not acknowledge: its process ended, its queue pair is not connected to this "
    "one, or the path (GID, address, MTU, firewall) does not work."},
  {wc_status::rnr_retry_exceeded, "RNR retry counter exceeded",
    "The peer has no receive posted. Post receives before the peer sends, or allow more retries "
    "(queue_pair_options::rnr_retry_count)."},
  {wc_status::local_rdd_violation_error, "local RDD violation error", ""},
  {wc_status::remote_invalid_read_request_error, "remote invalid read request", ""},
  {wc_status::remote_aborted_error, "remote aborted error", ""},
  {wc_status::invalid_eec_number, "invalid EE context number", ""},
  {wc_status::invalid_eec_state, "invalid EE context state", ""},
  {wc_status::fatal_error, "fatal device error", "The device failed. Create a new context."},
  {wc_status::response_timeout_error, "response timeout error", ""},
  {wc_status::general_error, "general error", ""},
};

// Returns true if the table has the codes from `first` to `last` in the order of their values.
template <class Code>
consteval bool is_complete(std::span<const text<Code>> table, Code first, Code last)
{
  int value = static_cast<int>(first);
  for (const text<Code>& each : table)
    if (static_cast<int>(each.code) != value++)
      return false;
  return value == static_cast<int>(last) + 1;
}
static_assert(is_complete<error>(error_texts, error::no_device, error::call_failed));
static_assert(is_complete<wc_status>(status_texts, wc_status::success, wc_status::general_error));

template <class Code>
text<Code> find(std::span<const text<Code>> table, Code code, const char* unknown)
{
  const auto at = static_cast<std::size_t>(code) - static_cast<std::size_t>(table.front().code);
  return at < table.size() ? table[at] : text<Code>{code, unknown, ""};
}

text<error> describe(error value)
{
  return find<error>(error_texts, value, "unknown rdma error");
}

text<wc_status> describe(wc_status value)
{
  return find<wc_status>(status_texts, value, "unknown work completion status");
}

std::string memory_lock_limit()
{
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "this process may lock any amount (RLIMIT_MEMLOCK), so the memory or the device "
           "is exhausted";
  return "this process may lock " + std::to_string(limit.rlim_cur / 1024) + " KiB (RLIMIT_MEMLOCK)";
}

struct rdma_category final : boost::system::error_category
{
  const char* name() const noexcept override { return "rdma"; }
  std::string message(int value) const override
  {
    return describe(static_cast<error>(value)).message;
  }
};

struct completion_category final : boost::system::error_category
{
  const char* name() const noexcept override { return "rdma.wc"; }

  std::string message(int value) const override
  {
    return describe(static_cast<wc_status>(value)).message;
  }

  boost::system::error_condition default_error_condition(int value) const noexcept override
  {
    if (static_cast<wc_status>(value) == wc_status::flushed)
      return boost::system::errc::make_error_condition(boost::system::errc::operation_canceled);
    return {value, *this};
  }
};

} // namespace

const boost::system::error_category& error_category() noexcept
{
  static const rdma_category category;
  return category;
}

const boost::system::error_category& wc_category() noexcept
{
  static const completion_category category;
  return category;
}

error_code make_error_code(error value) noexcept
{
  return {static_cast<int>(value), error_category()};
}

error_code make_error_code(wc_status value) noexcept
{
  return {static_cast<int>(value), wc_category()};
}

std::string likely_cause(const error_code& ec)
{
  if (ec.category() == error_category())
    return describe(static_cast<error>(ec.value())).cause;
  if (ec.category() == wc_category())
    return describe(static_cast<wc_status>(ec.value())).cause;
  if (ec.category() != boost::system::system_category())
    return {};
  switch (ec.value())
  {
  case ENOMEM:
    return "Registered memory is locked, and " + memory_lock_limit()
      + ". Raise the limit to at least the sum of all concurrent registrations: `ulimit -l KIB` "
        "in a shell, a line `* - memlock unlimited` in /etc/security/limits.d/rdma.conf for "
        "logins, LimitMEMLOCK=infinity for a systemd service, --ulimit memlock=-1 for a container "
        "(`rdma_info --doctor`).";
  case EPERM:
  case EACCES:
    return "This process may not open the RDMA device. Give the user access to "
           "/dev/infiniband/uverbs* (`rdma_info --doctor` has details).";
  case EOPNOTSUPP:
    return "The device does not support this. See device::has_atomics(), has_memory_windows(), "
           "has_immediate_data() and has_shared_receive_queues(), and queue_pair::diagnose().";
  case EFAULT:
    return "Part of the memory is not mapped or not writable. Memory that the program itself "
           "cannot write can only be registered for reading (register_buffer() of a const "
           "buffer). Files on some file systems cannot be registered.";
  case ECONNREFUSED:
    return "Nothing listens at that address and port. Start the server, or check the address, the "
           "port and the firewall.";
  case EADDRINUSE:
    return "Another process listens on that port; `ss -ltnp` shows it. Stop that process, or "
           "choose another port.";
  case EADDRNOTAVAIL:
    return "This host does not have that address; `ip address` lists its addresses.";
  case EHOSTUNREACH:
  case ENETUNREACH:
    return "No route leads to that address. Check the address and `ip route`.";
  case EMFILE:
  case ENFILE:
    return "Too many open files. Raise the limit (ulimit -n).";
  default:
    return {};
  }
}

} // namespace rdma
