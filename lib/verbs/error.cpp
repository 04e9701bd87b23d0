//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "boost_rdma/error.hpp"

#include <boost/system/errc.hpp>

#include <cerrno>
#include <sys/resource.h>

namespace rdma {
namespace {

struct text
{
  const char* message;
  const char* cause;
};

text describe(error value)
{
  switch (value)
  {
  case error::no_device:
    return {"no RDMA device fits",
      "List what there is with rdma::list_devices(), or `rdma_info`; the software device "
      "is named soft0 and is always there."};
  case error::not_connected:
    return {"the queue pair is not connected",
      "Connect it (async_connect, an acceptor, or connect() "
      "with the peer's endpoint description) before sending; before connect(), call "
      "local_endpoint(). Receives may be posted earlier."};
  case error::already_connected:
    return {"the queue pair was connected before", "A queue pair connects once. Make a new one."};
  case error::closed:
    return {"the object is closed", "It was closed, or moved from."};
  case error::wrong_context:
    return {"the buffer is registered in another context",
      "Register the buffer in, or allocate it "
      "from, the context that the queue pair was made with."};
  case error::empty_buffer:
    return {"the buffer is empty",
      "A message without bytes is sent and received with rdma::no_data; "
      "registrations and one-sided operations need at least one byte."};
  case error::too_many_buffers:
    return {"more buffers in the sequence than the queue pair takes",
      "Raise "
      "queue_pair_options::max_send_sge or max_receive_sge, or gather fewer pieces."};
  case error::message_too_large:
    return {
      "the message is larger than the device carries", "Split it; see device::max_message_size()."};
  case error::remote_range_too_small:
    return {"the remote range is too small for the operation",
      "The local buffers hold more bytes than "
      "the remote buffer: take first(n) of the local one, or expose more."};
  case error::no_remote_key:
    return {"the remote memory has no key for this device",
      "It was registered in a context that does "
      "not have the kind of device that this queue pair uses."};
  case error::misaligned_atomic:
    return {"atomic operations need 8 bytes at an address aligned to 8",
      "Align the exposed value to 8 "
      "and pass a remote buffer of at least 8 bytes."};
  case error::queue_too_deep:
    return {"a queue depth beyond the device's limit, or too many operations",
      "Lower the depth; the device's limits are in "
      "device::max_work_requests(), max_sge() and max_completions(). At most 32768 operations of a "
      "queue pair are outstanding."};
  case error::bad_batch:
    return {"a batch that is empty or larger than the send queue",
      "Split the batch, or raise "
      "queue_pair_options::send_depth."};
  case error::not_exposed:
    return {"the memory is not exposed to remote access",
      "Register it with access::remote_read, "
      "remote_write or remote_atomic; for a window, with access::window_bind."};
  case error::bad_access:
    return {"these access rights do not go together",
      "remote_write and remote_atomic need local_write; const memory can only be read, by this "
      "side and with "
      "remote_read by peers."};
  case error::pool_exhausted:
    return {"the memory pool reached its limit",
      "Raise memory_pool_options::size_max, or let buffers "
      "and containers go earlier; memory_pool::statistics() says what is in use."};
  case error::malformed_description:
    return {
      "the description cannot be read", "It was cut, changed, or written by another version."};
  case error::no_common_transport:
    return {"both sides have no transport in common",
      "queue_pair::diagnose() lists what was tried. "
      "Let queue pairs fall back (queue_pair_options::fall_back), or open both contexts on the "
      "same kind of device."};
  case error::peer_lost:
    return {"the peer went away without closing",
      "Its process ended or was stopped, its host is gone, or the network between."};
  case error::peer_closed:
    return {"the peer closed the connection", ""};
  case error::not_an_acceptor:
    return {"the peer does not answer as an RDMA acceptor", "Something else listens on this port."};
  case error::version_mismatch:
    return {"the peer speaks another version of the RDMA upgrade", "Update the older side."};
  case error::refused:
    return {"the peer refused the connection",
      "queue_pair::diagnose() has the peer's reason where it gave one; its log "
      "says more."};
  case error::handshake_timeout:
    return {"the handshake took too long",
      "The peer, or the network to it, does not answer. An acceptor answers while an "
      "async_accept is outstanding."};
  case error::no_connection_manager:
    return {"RDMA-CM cannot be used",
      "Install librdmacm1 and load the kernel's module rdma_ucm: /dev/infiniband/rdma_cm "
      "must exist and be open to this user. The software device connects by async_connect and "
      "acceptors."};
  case error::unreachable:
    return {"no RDMA device leads to the address",
      "See with `rdma link` which network interfaces have an RDMA device, "
      "and with `ip route get ADDRESS` which one leads there; the peer must answer ARP."};
  case error::other_device:
    return {"the address leads through another RDMA device than the context's",
      "Open the context with "
      "context_options::device set to the device that `rdma link` names for that network "
      "interface."};
  case error::device_lost:
    return {"the RDMA device failed or was removed",
      "Close what uses it, and make a new context when it is back."};
  case error::forked:
    return {"the object belongs to the parent process",
      "RDMA objects do not survive fork(). Make contexts and "
      "queue pairs in the process that uses them, or fork before."};
  case error::no_local_gid:
    return {"the RDMA device has no GID for the local address",
      "The address is of another network interface than the "
      "device. Connect by an address out of device::addresses(), open the device of that interface "
      "(`rdma link` names "
      "it), or say which address to use with queue_pair_options::local_address."};
  case error::other_address_family:
    return {"one side is reached by IPv4, the other by IPv6",
      "Connect by an address of a family that both devices have "
      "a GID for, or choose it with queue_pair_options::local_address on both sides."};
  case error::queue_pair_failed:
    return {"the device reported the queue pair as failed",
      "queue_pair::diagnose() says what the device reported. The "
      "peer may have violated the protocol or reached for memory that is not exposed."};
  case error::completion_queue_failed:
    return {"the completion queue failed",
      "It overran: more completions came than it holds, for instance of work posted "
      "past this library. Make a new one, and new queue pairs."};
  case error::shared_receive_queue_failed:
    return {"the shared receive queue failed", "Make a new one, and new queue pairs."};
  case error::path_not_confirmed:
    return {"no RDMA message got through between the peers",
      "The TCP connection works and the RDMA path does not: a "
      "firewall, another VLAN or subnet, or a switch that drops it. RoCE v2 is UDP port 4791; the "
      "software device listens "
      "on a TCP port of its own (software::device_settings). queue_pair::diagnose() names the "
      "path."};
  case error::bad_alignment:
    return {"the pool has no such alignment",
      "It is a power of two, and 4096 (memory_pool::alignment_max) at most."};
  case error::not_pool_memory:
    return {"the memory was not allocated from this pool",
      "Allocate it there (std::pmr with &context.pool(), or "
      "make_buffer()), or register it as a memory_region."};
  case error::wrong_size:
    return {"the memory does not have the size of the objects",
      "as<T>() needs sizeof(T) bytes or more, as_span<T>() a "
      "multiple of it: take a slice, or elements<T>()."};
  case error::misaligned:
    return {"the address does not suit the type",
      "Put the object at a multiple of alignof(T), or copy it out with memcpy."};
  case error::read_only:
    return {"the memory was registered as const",
      "Look at it as const T, and receive and read into other memory."};
  case error::out_of_range:
    return {"the elements do not lie inside the memory",
      "Check the number of the first one, and how many there are."};
  case error::remote_right_missing:
    return {"the remote buffer does not permit this",
      "Its owner is to expose the memory with access::remote_write for "
      "writes, remote_read for reads, remote_atomic for atomics, and to send the handle anew."};
  case error::not_registered:
    return {"the operation needs registered memory",
      "Batches and memory windows take no plain memory: use a "
      "registered_buffer, a memory_region, or register_buffer() on the memory."};
  case error::no_lessor:
    return {"the peer grants no memory",
      "Its program is to give a lessor to its queue pairs "
      "(queue_pair_options::grant_from)."};
  case error::quota_exceeded:
    return {"the peer grants no more memory",
      "Release what is not needed any more, ask for less, or raise the peer's "
      "lessor_options."};
  case error::lease_ended:
    return {"the lease has ended",
      "It was released, taken back or handed over, or its time is over: renew it in time, "
      "or ask for a new one."};
  case error::inbox_full:
    return {"the peer does not take what it is lent",
      "Its program is to call async_receive_remote() as often as it is lent "
      "something."};
  case error::lease_failed:
    return {"the peer could not expose the memory",
      "Its device, its limit of locked memory, or its queue pair is in trouble: "
      "the peer's log tells."};
  case error::agent_ended:
    return {"the peers' agents have parted",
      "One of them could not go on, or heard what no agent says: the connection itself "
      "may be well. Its leases are over."};
  }
  return {"unknown rdma error", ""};
}

text describe(wc_status value)
{
  switch (value)
  {
  case wc_status::success:
    return {"success", ""};
  case wc_status::local_length_error:
    return {"local length error",
      "A message came that is longer than the receive posted for it, or "
      "one was sent that is longer than the port carries. Post larger receives."};
  case wc_status::local_qp_operation_error:
    return {"local QP operation error",
      "The work request asks for what this queue pair cannot do, for "
      "instance a read with read_atomic_depth 0."};
  case wc_status::local_eec_operation_error:
    return {"local EE context operation error", ""};
  case wc_status::local_protection_error:
    return {"local protection error",
      "A local buffer lies outside its registration, was deregistered, "
      "or is written to without access::local_write."};
  case wc_status::flushed:
    return {"work request flushed",
      "The queue pair went to the error state before; the first failed "
      "operation tells why."};
  case wc_status::memory_window_bind_error:
    return {"memory window bind error",
      "The region lacks access::window_bind, or the range lies outside it."};
  case wc_status::bad_response_error:
    return {"bad response error", "The peer answered out of turn."};
  case wc_status::local_access_error:
    return {"local access error", ""};
  case wc_status::remote_invalid_request_error:
    return {"remote invalid request error",
      "The peer's receive is smaller than the message, or the "
      "operation is one that its queue pair does not permit."};
  case wc_status::remote_access_error:
    return {"remote access error",
      "The remote key is unknown or no longer valid, the range leaves the "
      "exposed memory, or the right to do this was not given."};
  case wc_status::remote_operation_error:
    return {
      "remote operation error", "The peer could not finish the operation; its own receive failed."};
  case wc_status::retry_exceeded:
    return {"transport retry counter exceeded",
      "The peer does not answer: its process ended, its queue "
      "pair is not connected to this one, or the path (GID, address, MTU, firewall) does not "
      "carry."};
  case wc_status::rnr_retry_exceeded:
    return {"RNR retry counter exceeded",
      "The peer has no receive posted. Post receives before the "
      "peer sends, or allow more retries (queue_pair_options::rnr_retry_count)."};
  case wc_status::local_rdd_violation_error:
    return {"local RDD violation error", ""};
  case wc_status::remote_invalid_read_request_error:
    return {"remote invalid read request", ""};
  case wc_status::remote_aborted_error:
    return {"remote aborted error", ""};
  case wc_status::invalid_eec_number:
    return {"invalid EE context number", ""};
  case wc_status::invalid_eec_state:
    return {"invalid EE context state", ""};
  case wc_status::fatal_error:
    return {"fatal device error", "The device failed; open the context anew."};
  case wc_status::response_timeout_error:
    return {"response timeout error", ""};
  case wc_status::general_error:
    return {"general error", ""};
  }
  return {"unknown work completion status", ""};
}

std::string memory_lock_limit()
{
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "there is no limit to that (RLIMIT_MEMLOCK), so that it is the memory or the device "
           "that has no more";
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
      + ". Raise it to at least all bytes registered at a "
        "time: `ulimit -l KIB` in a shell, a line `* - memlock unlimited` in "
        "/etc/security/limits.d/rdma.conf for logins, "
        "LimitMEMLOCK=infinity for a systemd service, --ulimit memlock=-1 for a container "
        "(`rdma_info --doctor`).";
  case EPERM:
  case EACCES:
    return "The RDMA device may not be opened: give the user access to /dev/infiniband/uverbs* "
           "(`rdma_info --doctor` names it).";
  case EOPNOTSUPP:
    return "The device cannot do this: see device::has_atomics(), has_memory_windows(), "
           "has_immediate_data() and "
           "has_shared_receive_queues(), and queue_pair::diagnose().";
  case EFAULT:
    return "Part of the memory is not mapped, or may not be written to: memory that the program "
           "itself cannot write is "
           "registered for reading only (register_buffer() of a const buffer). Files on some file "
           "systems cannot be "
           "registered.";
  case EMFILE:
  case ENFILE:
    return "Too many open files: raise the limit (ulimit -n).";
  default:
    return {};
  }
}

} // namespace rdma
