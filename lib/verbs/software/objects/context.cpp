//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "verbs/software/objects/context.hpp"

#include "verbs/software/objects/completion_queue.hpp"
#include "verbs/software/objects/host_guid.hpp"
#include "verbs/software/objects/memory.hpp"
#include "verbs/software/objects/queue_pair.hpp"
#include "verbs/software/objects/shared_receive_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <endian.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>

namespace rdma::software {
namespace {

constexpr std::size_t gids_max = 255; // the largest sgid_index

// Regions and windows share the table of keys.
constexpr std::uint32_t keys_max = key_table::capacity / 2;

// The attributes of ibv_query_device are int.
int reported(std::uint64_t limit) noexcept
{
  return static_cast<int>(std::min<std::uint64_t>(limit, INT_MAX));
}

bool same(const ibv_gid& a, const ibv_gid& b)
{
  return std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
}

bool parse(const std::string& text, ibv_gid& to)
{
  wire::address at;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1)
  {
    v4.sin_family = AF_INET;
    std::memcpy(&at.storage, &v4, sizeof v4);
  }
  else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1)
  {
    v6.sin6_family = AF_INET6;
    std::memcpy(&at.storage, &v6, sizeof v6);
  }
  else
  {
    return false;
  }
  to = wire::to_gid(at);
  return true;
}

// An address of the host.
struct host_address
{
  ibv_gid gid;
  std::uint32_t interface;
  bool loopback;
  bool usable; ///< up, and not ambiguous without its interface, as link-local addresses are
};

int list_addresses(std::vector<host_address>& to)
{
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return errno;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
  {
    wire::address at;
    if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET)
      std::memcpy(&at.storage, i->ifa_addr, sizeof(sockaddr_in));
    else if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET6)
      std::memcpy(&at.storage, i->ifa_addr, sizeof(sockaddr_in6));
    else
      continue;
    const ibv_gid gid = wire::to_gid(at);
    const bool link_local =
      at.storage.ss_family == AF_INET6 && gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
    to.push_back({gid, ::if_nametoindex(i->ifa_name), (i->ifa_flags & IFF_LOOPBACK) != 0,
      (i->ifa_flags & IFF_UP) != 0 && !link_local});
  }
  return 0;
}

// All usable addresses, loopback first.
int host_gids(std::vector<ibv_gid>& to)
{
  std::vector<host_address> list;
  if (const int error = list_addresses(list); error != 0)
    return error;
  for (const bool loopback : {true, false})
    for (const host_address& each : list)
      if (each.usable && each.loopback == loopback && to.size() != gids_max
        && std::none_of(
          to.begin(), to.end(), [&](const ibv_gid& gid) { return same(gid, each.gid); }))
        to.push_back(each.gid);
  return to.empty() ? EADDRNOTAVAIL : 0;
}

// The interfaces of the device's GIDs. All of 127.0.0.0/8 belongs to the loopback interface.
int find_interfaces(const std::vector<ibv_gid>& gids, std::vector<std::uint32_t>& to)
{
  std::vector<host_address> list;
  if (const int error = list_addresses(list); error != 0)
    return error;
  for (const ibv_gid& gid : gids)
  {
    const bool in_loopback_net =
      gid.raw[12] == 127 && wire::to_address(gid, 0).storage.ss_family == AF_INET;
    const auto found = std::find_if(list.begin(), list.end(),
      [&](const host_address& each)
      { return same(each.gid, gid) || (in_loopback_net && each.loopback); });
    to.push_back(found != list.end() ? found->interface : 0);
  }
  return 0;
}

int choose_gids(const device_settings& settings, std::vector<ibv_gid>& to)
{
  if (settings.addresses.empty())
    return host_gids(to);
  for (const std::string& text : settings.addresses)
  {
    ibv_gid gid;
    if (!parse(text, gid) || to.size() == gids_max)
      return EINVAL;
    to.push_back(gid);
  }
  return 0;
}

// Sets the wires from the environment if the settings name none; 0 or an errno.
int choose_wires(device_settings& settings)
{
  if (settings.wires.empty())
  {
    const char* const listed = ::secure_getenv("BOOST_RDMA_WIRES");
    std::istringstream text(listed != nullptr ? listed : "");
    for (std::string name; std::getline(text, name, ',');)
      settings.wires.push_back(name);
  }
  return std::all_of(settings.wires.begin(), settings.wires.end(),
           [](const std::string& name) { return name == "local" || name == "tcp"; })
    ? 0
    : EINVAL;
}

// Sets the seed of hostile mode from the environment if the settings have none; 0 or an errno.
int choose_hostile_seed(device_settings& settings)
{
  const char* const given = ::secure_getenv("BOOST_RDMA_HOSTILE_MEMORY");
  if (settings.hostile_seed != 0 || given == nullptr)
    return 0;
  const std::string_view text(given);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), settings.hostile_seed);
  return text.empty() || (read.ec == std::errc() && read.ptr == text.data() + text.size()) ? 0
                                                                                           : EINVAL;
}

bool is_not_off(const char* setting)
{
  return setting == nullptr || std::string_view(setting) != "off";
}

int query_port_attributes(
  ibv_context* context, std::uint8_t port, ibv_port_attr* to, std::size_t size)
{
  const device_context& owner = device_context::of(context);
  if (owner.removed)
    return EIO;
  if (port != port_number)
    return EINVAL;
  ibv_port_attr attributes{};
  attributes.state = IBV_PORT_ACTIVE;
  attributes.max_mtu = attributes.active_mtu = IBV_MTU_4096;
  attributes.gid_tbl_len = static_cast<int>(owner.gids.size());
  attributes.max_msg_sz = static_cast<std::uint32_t>(protocol::max_message);
  attributes.qkey_viol_cntr = owner.key_violations.load(std::memory_order_relaxed);
  attributes.pkey_tbl_len = 1;
  attributes.max_vl_num = 1;
  attributes.active_width = 2;  // 4X
  attributes.active_speed = 32; // EDR, a placeholder
  attributes.phys_state = 5;    // LinkUp
  attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes.flags = IBV_QPF_GRH_REQUIRED;
  // The caller's structure may be shorter or longer than this one.
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &attributes, std::min(size, sizeof attributes));
  return 0;
}

static_assert(std::string_view(device_name) == "soft0");

// Providers' libraries test if a device is theirs (mlx5dv_is_supported) by a pointer behind it,
// where libibverbs' devices have their driver's functions. Here they find null.
struct listed : ibv_device
{
  void* no_driver[8];
};

std::array<listed, devices_max>& all_devices() noexcept
{
  static std::array<listed, devices_max> devices = []
  {
    std::array<listed, devices_max> made{};
    for (unsigned i = 0; i != devices_max; ++i)
    {
      listed& d = made[i];
      d.node_type = IBV_NODE_CA;
      d.transport_type = IBV_TRANSPORT_IB;
      std::snprintf(d.name, sizeof d.name, "soft%u", i);
      std::snprintf(d.dev_name, sizeof d.dev_name, "soft%u", i);
      // The kernel's path for a device of this name; it does not exist.
      std::snprintf(d.dev_path, sizeof d.dev_path, "/sys/class/infiniband_verbs/soft%u", i);
      std::snprintf(d.ibdev_path, sizeof d.ibdev_path, "/sys/class/infiniband/soft%u", i);
    }
    return made;
  }();
  return devices;
}

} // namespace

ibv_device* the_device(unsigned index) noexcept
{
  return &all_devices()[index];
}

unsigned index_of(const ibv_device* device) noexcept
{
  const auto& all = all_devices();
  return static_cast<unsigned>(
    std::find_if(all.begin(), all.end(), [device](const listed& each) { return device == &each; })
    - all.begin());
}

__be64 guid_of(const ibv_device& device) noexcept
{
  return host_guid() ^ htobe64(index_of(&device));
}

device_context::device_context(ibv_device* as, const device_settings& with)
  : verbs_context{}
  , settings(with)
  , commands(::epoll_create1(EPOLL_CLOEXEC))
  , has_short_sends(is_not_off(::secure_getenv("BOOST_RDMA_SHORT_SENDS")))
  , queue_pairs(with.max_queue_pairs)
  , completion_queues(with.max_completion_queues)
  , shared_receive_queues(with.max_shared_receive_queues)
  , domains(with.max_protection_domains)
  , regions(std::min(with.max_memory_regions, keys_max))
  , windows(std::min(with.max_memory_windows, keys_max))
  , address_handles(with.max_address_handles)
  , engine(settings)
{
  context.device = as;
  context.ops.alloc_mw = &software::alloc_mw;
  context.ops.dealloc_mw = &software::dealloc_mw;
  context.ops.bind_mw = &software::bind_mw;
  context.ops.poll_cq = &software::poll_cq;
  context.ops.req_notify_cq = &software::req_notify_cq;
  context.ops.post_srq_recv = &software::post_srq_recv;
  context.ops.post_send = &software::post_send;
  context.ops.post_recv = &software::post_recv;
  context.cmd_fd = commands.get();
  context.async_fd = events.fd();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  sz = sizeof(verbs_context);
  verbs_context::query_port = &query_port_attributes;
  add_extended_verbs(*this);
}

ibv_context* open_device(const device_settings& settings, unsigned index)
{
  try
  {
    device_settings chosen = settings;
    int error = choose_wires(chosen);
    if (error == 0)
      error = choose_hostile_seed(chosen);
    if (error != 0)
      return fail(error);
    auto made = std::make_unique<device_context>(the_device(index), chosen);
    error = made->context.async_fd < 0 || made->context.cmd_fd < 0
      ? EMFILE
      : choose_gids(settings, made->gids);
    if (error == 0)
      error = made->engine.start(made->gids, !settings.addresses.empty());
    if (error == 0)
      error = find_interfaces(made->gids, made->interfaces);
    if (error == 0)
      return &made.release()->context;
    return fail(error);
  }
  catch (const std::bad_alloc&)
  {
    return fail(ENOMEM);
  }
}

int close_device(ibv_context* context)
{
  device_context& gone = device_context::of(context);
  if (gone.children.load(std::memory_order_acquire) != 0)
    return fail_call(EBUSY);
  delete &gone;
  return 0;
}

void share_registered_memory(ibv_context* context)
{
  device_context::of(context).moves_pages.store(true, std::memory_order_relaxed);
}

void remove_device(ibv_context* context)
{
  device_context& gone = device_context::of(context);
  gone.removed.store(true, std::memory_order_release);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  gone.events.raise(event);
}

int abandon_device(ibv_context* context)
{
  device_context& gone = device_context::of(context);
  gone.removed.store(true, std::memory_order_release);
  try
  {
    gone.engine.visit_all([](wire::progress_target& s) { s.leave(); });
  }
  catch (const std::bad_alloc&)
  {
    return ENOMEM;
  }
  return 0;
}

int query_device(ibv_context* context, ibv_device_attr* to)
{
  const device_context& owner = device_context::of(context);
  const device_settings& s = owner.settings;
  if (owner.removed)
    return EIO;
  *to = {};
  std::strncpy(to->fw_ver, "0.1", sizeof to->fw_ver - 1);
  to->node_guid = guid_of(*context->device);
  to->sys_image_guid = host_guid();
  to->max_mr_size = UINT64_MAX;
  to->page_size_cap = 4096;
  to->vendor_id = 0x02'00'00; // of no company: a locally administered identifier (IEEE 802)
  to->vendor_part_id = 1;
  to->hw_ver = 1;
  to->max_qp = reported(owner.queue_pairs.most());
  to->max_qp_wr = static_cast<int>(s.max_work_requests);
  to->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_BAD_QKEY_CNTR
    | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_RC_RNR_NAK_GEN
    | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
  to->max_sge = to->max_sge_rd = static_cast<int>(s.max_sge);
  to->max_cq = reported(owner.completion_queues.most());
  to->max_cqe = static_cast<int>(s.max_completions);
  to->max_mr = reported(owner.regions.most());
  to->max_mw = reported(owner.windows.most());
  to->max_pd = reported(owner.domains.most());
  to->max_qp_rd_atom = to->max_qp_init_rd_atom =
    static_cast<int>(std::min(s.max_read_atomic, 255u)); // the maximum of ibv_qp_attr's fields
  to->max_ah = reported(owner.address_handles.most());
  to->max_res_rd_atom = reported(
    std::uint64_t{owner.queue_pairs.most()} * static_cast<std::uint32_t>(to->max_qp_rd_atom));
  // Without hostile mode they are processor atomics.
  to->atomic_cap = s.hostile_seed == 0 ? IBV_ATOMIC_GLOB : IBV_ATOMIC_HCA;
  to->max_srq = reported(owner.shared_receive_queues.most());
  to->max_srq_wr = static_cast<int>(s.max_work_requests);
  to->max_srq_sge = static_cast<int>(s.max_sge);
  to->max_pkeys = 1;
  to->local_ca_ack_delay = 16;
  to->phys_port_cnt = 1;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* to)
{
  // The leading part of ibv_port_attr; its last member is link_layer (see ___ibv_query_port).
  return query_port_attributes(
    context, port, reinterpret_cast<ibv_port_attr*>(to), offsetof(ibv_port_attr, link_layer) + 1);
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* to)
{
  const device_context& owner = device_context::of(context);
  if (port != port_number || index < 0 || static_cast<std::size_t>(index) >= owner.gids.size())
    return fail_call(EINVAL);
  *to = owner.gids[static_cast<std::size_t>(index)];
  return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* to,
  std::uint32_t flags, std::size_t size)
{
  const device_context& owner = device_context::of(context);
  if (port != port_number || flags != 0 || index >= owner.gids.size()
    || size < sizeof(ibv_gid_entry))
    return EINVAL;
  *to = {};
  to->gid = owner.gids[index];
  to->gid_index = index;
  to->port_num = port_number;
  to->gid_type = IBV_GID_TYPE_ROCE_V2;
  to->ndev_ifindex = owner.interfaces[index];
  return 0;
}

int query_pkey(ibv_context*, std::uint8_t port, int index, __be16* to)
{
  if (port != port_number || index != 0)
    return -1;
  *to = 0xffff; // the default partition, full member (IBA 10.9.1)
  return 0;
}

int get_async_event(ibv_context* context, ibv_async_event* to)
{
  return device_context::of(context).events.get(*to);
}

void ack_async_event(ibv_async_event* event)
{
  ibv_context* context = nullptr;
  switch (event->event_type)
  {
  case IBV_EVENT_CQ_ERR:
    context = event->element.cq->context;
    break;
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    context = event->element.srq->context;
    break;
  case IBV_EVENT_DEVICE_FATAL:
    return; // concerns no object, so no call waits for it
  default:
    context = event->element.qp->context;
    break;
  }
  device_context::of(context).events.acknowledge(*event);
}

} // namespace rdma::software
