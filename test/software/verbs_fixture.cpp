//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "software/verbs_fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <poll.h>

namespace test {

namespace {

rdma::software::device_settings for_tests(rdma::software::device_settings s)
{
  if (s.addresses.empty())
    s.addresses = {"127.0.0.1"};
  return s;
}

bool software_device_under_test()
{
  return missing(feature::software_device).empty();
}

ibv_context* open_device_under_test()
{
  if (software_device_under_test())
    return rdma::software::open_device(for_tests({}));
  const rdma::verbs::api& api = api_under_test();
  ibv_context* context = nullptr;
  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  for (int i = 0; list != nullptr && i < count && context == nullptr; ++i)
    if (device_name() == api.get_device_name(list[i]))
      context = api.open_device(list[i]);
  if (list != nullptr)
    api.free_device_list(list);
  return context;
}

// Returns a RoCE v2 GID that is not link-local, if possible.
std::uint8_t find_gid(const rdma::verbs::api& api, ibv_context* context)
{
  std::uint8_t found = 0;
  int found_rank = -1;
  for (std::uint8_t i = 0; i < 16; ++i)
  {
    ibv_gid_entry entry{};
    if (api.query_gid_ex(context, 1, i, &entry, 0, sizeof entry) != 0)
      continue; // an empty table entry
    const bool link_local = entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80;
    const int rank = (entry.gid_type != IBV_GID_TYPE_ROCE_V1 ? 2 : 0) + (link_local ? 0 : 1);
    if (rank > found_rank)
    {
      found = i;
      found_rank = rank;
    }
  }
  must(found_rank >= 0, "a GID");
  return found;
}

} // namespace

const rdma::verbs::api& api_under_test()
{
  if (software_device_under_test())
    return rdma::software::api();
  const rdma::verbs::system_library& library = rdma::verbs::system();
  must(library.functions != nullptr, library.reason.c_str());
  return *library.functions;
}

void must(bool good, const char* what)
{
  if (!good)
    throw std::runtime_error(std::string("failed: ") + what);
}

verbs_device::verbs_device()
  : verbs_device(api_under_test(), open_device_under_test())
{
}

verbs_device::verbs_device(const rdma::software::device_settings& with)
  : verbs_device(rdma::software::api(), rdma::software::open_device(for_tests(with)))
{
}

verbs_device::verbs_device(const rdma::verbs::api& api, ibv_context* context)
  : api_(api)
  , context_(context)
  , pd_(context_ != nullptr ? api_.alloc_pd(context_) : nullptr)
  , gid_index_(pd_ != nullptr ? find_gid(api_, context_) : std::uint8_t{0})
{
  must(pd_ != nullptr, "open_device, alloc_pd");
}

verbs_device::~verbs_device()
{
  must(api_.dealloc_pd(pd_) == 0, "dealloc_pd");
  must(api_.close_device(context_) == 0, "close_device");
}

std::uint16_t verbs_device::lid() const
{
  ibv_port_attr attr{};
  must(api_.query_port(context_, 1, reinterpret_cast<_compat_ibv_port_attr*>(&attr)) == 0,
    "query_port");
  return attr.lid;
}

ibv_gid verbs_device::gid(int index) const
{
  ibv_gid gid{};
  must(api_.query_gid(context_, 1, index, &gid) == 0, "query_gid");
  return gid;
}

bool verbs_device::has_event() const
{
  pollfd p{context_->async_fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

ibv_event_type verbs_device::event() const
{
  pollfd p{context_->async_fd, POLLIN, 0};
  constexpr std::chrono::milliseconds limit = patience;
  must(::poll(&p, 1, static_cast<int>(limit.count())) == 1, "an asynchronous event");
  ibv_async_event event{};
  must(api_.get_async_event(context_, &event) == 0, "get_async_event");
  api_.ack_async_event(&event);
  return event.event_type;
}

memory::memory(const verbs_device& on, std::size_t size, int access, ibv_pd* in)
  : api_(on.api())
  , bytes_(size)
  , mr_(api_.reg_mr(in != nullptr ? in : on.pd(), bytes_.data(), size, access))
{
  must(mr_ != nullptr, "reg_mr");
}

memory::~memory()
{
  if (mr_ != nullptr)
    must(api_.dereg_mr(mr_) == 0, "dereg_mr");
}

void memory::fill(std::uint8_t with) noexcept
{
  std::fill(bytes_.begin(), bytes_.end(), with);
}

bool memory::holds(std::uint8_t what, std::size_t offset, std::size_t size) const
{
  must(offset <= bytes_.size(), "an offset inside the memory");
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
  const auto end = begin + static_cast<std::ptrdiff_t>(std::min(size, bytes_.size() - offset));
  return std::all_of(begin, end, [what](std::uint8_t b) { return b == what; });
}

void memory::deregister()
{
  must(api_.dereg_mr(mr_) == 0, "dereg_mr");
  mr_ = nullptr;
}

unsigned flags_of(const ibv_wc& wc)
{
  return has(feature::completion_details) ? wc.wc_flags : wc.wc_flags & ~unsigned{IBV_WC_GRH};
}

completions::completions(const verbs_device& on, int depth, ibv_comp_channel* channel)
  : api_(on.api())
  , cq_(api_.create_cq(on.context(), depth, nullptr, channel, 0))
{
  must(cq_ != nullptr, "create_cq");
}

completions::~completions()
{
  must(api_.destroy_cq(cq_) == 0, "destroy_cq");
}

std::optional<ibv_wc> completions::poll() const
{
  ibv_wc wc{};
  const int n = cq_->context->ops.poll_cq(cq_, 1, &wc);
  if (n < 0)
    must(false, "poll_cq");
  return n == 1 ? std::optional(wc) : std::nullopt;
}

ibv_wc completions::next() const
{
  std::optional<ibv_wc> wc;
  must(until([&] { return (wc = poll()).has_value(); }), "a completion in time");
  return *wc;
}

endpoint::endpoint(const verbs_device& on, const pair_options& with, ibv_pd* in)
  : device_(on)
  , options_(with)
  , sent_((need(feature::endpoint_descriptions), on), with.completions, with.channel)
  , received_(on, with.completions, with.channel)
{
  ibv_qp_init_attr attr{};
  attr.send_cq = sent_.get();
  attr.recv_cq = received_.get();
  attr.srq = with.shared;
  attr.qp_type = with.service;
  attr.sq_sig_all = with.signal_all;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = with.depth;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = with.elements;
  attr.cap.max_inline_data = with.inline_max;
  qp_ = on.api().create_qp(in != nullptr ? in : on.pd(), &attr);
  must(qp_ != nullptr, "create_qp");
}

endpoint::~endpoint()
{
  destroy();
}

void endpoint::destroy()
{
  if (qp_ != nullptr)
    must(device_.api().destroy_qp(qp_) == 0, "destroy_qp");
  qp_ = nullptr;
}

int endpoint::modify(ibv_qp_attr& attr, int mask) const
{
  return device_.api().modify_qp(qp_, &attr, mask);
}

int endpoint::to(ibv_qp_state state) const
{
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modify(attr, IBV_QP_STATE);
}

int endpoint::to_init() const
{
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = options_.access;
  return modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

end_name endpoint::name() const
{
  end_name n;
  n.gid = device_.gid();
  n.lid = device_.lid();
  n.qp = qp_->qp_num;
  return n;
}

end_name endpoint::name(const memory& with) const
{
  end_name n = name();
  n.address = with.address();
  n.key = with.key();
  return n;
}

int endpoint::to_ready_to_receive(const end_name& peer) const
{
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qp;
  attr.rq_psn = first_psn;
  attr.max_dest_rd_atomic = options_.max_peer_read_atomic;
  attr.min_rnr_timer = options_.rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = device_.gid_index();
  attr.ah_attr.grh.hop_limit = 1;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.port_num = 1;
  const int reliable =
    options_.service == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
  return modify(
    attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | reliable);
}

int endpoint::to_ready_to_send() const
{
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = first_psn;
  attr.timeout = options_.timeout;
  attr.retry_cnt = options_.retry_count;
  attr.rnr_retry = options_.rnr_retry;
  attr.max_rd_atomic = options_.max_read_atomic;
  const int reliable = options_.service != IBV_QPT_UC
    ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
    : 0;
  return modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | reliable);
}

ibv_qp_state endpoint::state() const
{
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  must(device_.api().query_qp(qp_, &attr, IBV_QP_STATE, &init) == 0, "query_qp");
  return attr.qp_state;
}

int endpoint::post(ibv_send_wr& wr) const
{
  ibv_send_wr* bad = nullptr;
  return qp_->context->ops.post_send(qp_, &wr, &bad);
}

int endpoint::send(std::uint64_t id, const ibv_sge& what, unsigned flags) const
{
  request r(IBV_WR_SEND, {what}, id);
  return post(r.flags(flags).wr);
}

int endpoint::write(
  std::uint64_t id, const ibv_sge& what, std::uint64_t to, std::uint32_t key, unsigned flags) const
{
  request r(IBV_WR_RDMA_WRITE, {what}, id);
  return post(r.remote(to, key).flags(flags).wr);
}

int endpoint::read(std::uint64_t id, const ibv_sge& into, std::uint64_t from, std::uint32_t key,
  unsigned flags) const
{
  request r(IBV_WR_RDMA_READ, {into}, id);
  return post(r.remote(from, key).flags(flags).wr);
}

int endpoint::receive(std::uint64_t id, const ibv_sge& into) const
{
  return receive(id, std::vector<ibv_sge>{into});
}

int endpoint::receive(std::uint64_t id, std::vector<ibv_sge> into) const
{
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = into.data();
  wr.num_sge = static_cast<int>(into.size());
  ibv_recv_wr* bad = nullptr;
  return qp_->context->ops.post_recv(qp_, &wr, &bad);
}

void connect(const endpoint& a, const endpoint& b)
{
  must(a.to_init() == 0, "a.to_init");
  must(b.to_init() == 0, "b.to_init");
  must(a.to_ready_to_receive(b) == 0, "a.to_ready_to_receive");
  must(b.to_ready_to_receive(a) == 0, "b.to_ready_to_receive");
  must(a.to_ready_to_send() == 0, "a.to_ready_to_send");
  must(b.to_ready_to_send() == 0, "b.to_ready_to_send");
}

} // namespace test
