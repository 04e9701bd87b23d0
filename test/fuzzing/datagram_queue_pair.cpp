//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/dice.hpp"
#include "fuzzing/common/require.hpp"
#include "verbs/software/foreign/exports.hpp"
#include "verbs/software/protocol/packet.hpp"
#include "verbs/software/queue_pair_number.hpp"
#include "verbs/software/software.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// Fuzzes datagram queue pairs of a device, through its real port: the code that takes datagrams
// has no part without I/O. The input decides about the datagrams of a hostile network, the states
// of the queue pairs, their receives and what they send. A datagram for another queue pair of the
// same port follows: when it has arrived, the device has taken all before it.

namespace {

namespace software = rdma::software;
namespace protocol = rdma::software::protocol;
using test::require;

constexpr std::uint32_t key = 0x11111111;
constexpr std::uint32_t route = 40; // bytes before each message
constexpr std::size_t page = 4096;
constexpr std::size_t exposed = 2 * page;
constexpr std::byte canary{0xa5};

/// The device, with registered memory between two pages that are not registered.
struct fixture
{
  fixture()
  {
    software::device_settings settings;
    settings.addresses = {"127.0.0.1"};
    context = software::open_device(settings);
    require(context != nullptr, "the device opens");
    pd = api.alloc_pd(context);
    std::ranges::fill(bytes, canary);
    mr = api.reg_mr(pd, bytes.data() + page, exposed, IBV_ACCESS_LOCAL_WRITE);
    ibv_ah_attr attr{};
    attr.is_global = attr.port_num = 1;
    require(api.query_gid(context, 1, 0, &attr.grh.dgid) == 0, "it has a GID");
    handle = software::create_ah(pd, &attr);
    require(pd != nullptr && mr != nullptr && handle != nullptr, "its objects are made");
    network = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }

  [[nodiscard]] ibv_sge sge(std::size_t offset, std::uint32_t length) const
  {
    return {reinterpret_cast<std::uintptr_t>(bytes.data()) + page + offset, length, mr->lkey};
  }

  void send(std::span<const std::byte> what, std::uint32_t qp) const
  {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(software::port_of(qp));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    [[maybe_unused]] const ssize_t n = ::sendto(
      network, what.data(), what.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }

  void check() const
  {
    const std::span all(bytes);
    const auto kept = [](std::byte each) { return each == canary; };
    require(std::ranges::all_of(all.first(page), kept) && std::ranges::all_of(all.last(page), kept),
      "memory that is not registered does not change");
  }

  const rdma::verbs::api& api = software::api();
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_ah* handle = nullptr;
  int network = -1;
  std::vector<std::byte> bytes = std::vector<std::byte>(exposed + 2 * page);
};

/// A queue pair and what its program knows of it.
class queue_pair
{
public:
  explicit queue_pair(fixture& on)
    : of_(on)
    , sent_(on.api.create_cq(on.context, 64, nullptr, nullptr, 0))
    , received_(on.api.create_cq(on.context, 64, nullptr, nullptr, 0))
  {
    ibv_qp_init_attr attr{};
    attr.send_cq = sent_;
    attr.recv_cq = received_;
    attr.qp_type = IBV_QPT_UD;
    attr.sq_sig_all = 1;
    attr.cap = {8, 8, 2, 2, 64};
    qp_ = on.api.create_qp(on.pd, &attr);
    require(qp_ != nullptr, "a queue pair is made");
  }
  ~queue_pair()
  {
    require(of_.api.destroy_qp(qp_) == 0 && of_.api.destroy_cq(sent_) == 0
        && of_.api.destroy_cq(received_) == 0,
      "a queue pair is destroyed");
  }
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;

  [[nodiscard]] std::uint32_t number() const { return qp_->qp_num; }

  void to(ibv_qp_state state)
  {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qkey = key;
    const int mask = state == IBV_QPS_INIT
      ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
      : state == IBV_QPS_RTS ? IBV_QP_STATE | IBV_QP_SQ_PSN
                             : IBV_QP_STATE;
    if (of_.api.modify_qp(qp_, &attr, mask) != 0)
      return;
    hears_ = hears_ || (state == IBV_QPS_RTR);
    if (state == IBV_QPS_RESET) // what was posted is gone, and so are its completions
    {
      receives_.clear();
      sends_.clear();
      hears_ = false;
    }
  }

  void receive(std::uint32_t length, bool is_valid)
  {
    if (receives_.size() == 8)
      return;
    ibv_sge list = of_.sge(exposed - length, length);
    list.lkey ^= is_valid ? 0 : 1;
    ibv_recv_wr wr{};
    wr.wr_id = ++last_;
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(qp_, &wr, &bad) == 0)
      receives_.push_back({wr.wr_id, length});
  }

  void send(std::uint32_t to, std::uint32_t with_key, std::uint32_t length, bool is_valid)
  {
    if (sends_.size() == 8)
      return;
    ibv_sge list = of_.sge(0, length);
    list.lkey ^= is_valid ? 0 : 1;
    ibv_send_wr wr{};
    wr.wr_id = ++last_;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {of_.handle, to, with_key};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &wr, &bad) == 0)
      sends_.push_back({wr.wr_id, length});
  }

  /// Takes the completions. Returns true if there was one of a receive.
  bool poll()
  {
    ibv_wc wc{};
    while (ibv_poll_cq(sent_, 1, &wc) == 1)
      take(sends_, wc);
    bool any = false;
    while (ibv_poll_cq(received_, 1, &wc) == 1)
    {
      any = true;
      const std::uint32_t length = take(receives_, wc);
      if (wc.status != IBV_WC_SUCCESS)
        continue;
      require(hears_, "only a queue pair that is ready to receive does so");
      require(wc.byte_len >= route && wc.byte_len <= length, "a message fits into its receive");
      require((wc.wc_flags & IBV_WC_GRH) != 0 && wc.src_qp <= protocol::psn_mask,
        "a message has a route and a sender");
    }
    return any;
  }

  void end()
  {
    to(IBV_QPS_ERR);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require(of_.api.query_qp(qp_, &attr, IBV_QP_STATE, &init) == 0, "its state is known");
    while (attr.qp_state == IBV_QPS_ERR && !(receives_.empty() && sends_.empty()))
      poll();
  }

private:
  struct posted
  {
    std::uint64_t id;
    std::uint32_t length;
  };

  static std::uint32_t take(std::deque<posted>& from, const ibv_wc& wc)
  {
    require(!from.empty() && from.front().id == wc.wr_id, "each request completes once, in order");
    const std::uint32_t length = from.front().length;
    from.pop_front();
    return length;
  }

  fixture& of_;
  ibv_cq* const sent_;
  ibv_cq* const received_;
  ibv_qp* qp_ = nullptr;
  std::uint64_t last_ = 0;
  std::deque<posted> receives_;
  std::deque<posted> sends_;
  bool hears_ = false;
};

std::vector<std::byte> encoded(const protocol::header& h, std::size_t payload)
{
  protocol::header_bytes bytes;
  std::vector<std::byte> all(encode(h, bytes) + payload, std::byte{0xee});
  std::copy_n(bytes.begin(), all.size() - payload, all.begin());
  return all;
}

protocol::header to(std::uint32_t qp, std::uint32_t payload)
{
  protocol::header h;
  h.op = protocol::opcode::send_only;
  h.kind = protocol::service_ud;
  h.dest_qp = qp;
  h.queue_key = key;
  h.source_qp = 5;
  h.payload = payload;
  return h;
}

/// Sends what a hostile network may send to this queue pair.
void attack(fixture& by, test::dice& random, std::uint32_t qp)
{
  static constexpr std::uint32_t sizes[] = {0, 1, 24, 60, 216, 4095, 4096, 4097, 9000};
  std::size_t payload = sizes[random() % std::size(sizes)];
  protocol::header h = to(qp, static_cast<std::uint32_t>(payload));
  if (random.one_in(8))
    h.payload = random();
  if (random.one_in(8))
    h.op = static_cast<protocol::opcode>(random() % 32);
  else if (random.one_in(3))
    h.op = protocol::opcode::send_only_immediate;
  if (random.one_in(16))
    h.kind = static_cast<protocol::service>(random() % 8 << 5);
  if (random.one_in(8))
    h.queue_key = random();
  h.solicited = random.one_in(2);
  h.source_qp = random() & protocol::psn_mask;
  std::vector<std::byte> bytes = encoded(h, payload);
  if (random.one_in(8))
    bytes[random() % std::min<std::size_t>(bytes.size(), 32)] = random.byte();
  if (random.one_in(16))
    bytes.resize(random() % bytes.size());
  by.send(bytes, qp);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  static auto& of = *new fixture; // its threads outlive main()
  static auto& last = *[]
  {
    auto* const made = new queue_pair(of);
    for (const ibv_qp_state each : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
      made->to(each);
    return made;
  }();
  test::dice random(std::span(data, size));
  std::array<std::unique_ptr<queue_pair>, 2> attacked;
  for (auto& each : attacked)
  {
    each = std::make_unique<queue_pair>(of);
    each->to(IBV_QPS_INIT);
  }
  // Returns when the device has taken all datagrams before.
  const auto settle = [&]
  {
    last.receive(route, true);
    of.send(encoded(to(last.number(), 0), 0), last.number());
    while (!last.poll())
    {
    }
    for (const auto& each : attacked)
      each->poll();
    of.check();
  };
  static constexpr ibv_qp_state states[] = {
    IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};
  static constexpr std::uint32_t lengths[] = {0, 39, 40, 41, 100, 256, 4136, exposed};
  for (unsigned step = 0; step != 200 && !random.is_over(); ++step)
  {
    queue_pair& one = *attacked[random() % attacked.size()];
    switch (random() % 8)
    {
    case 0: // mostly the next state
      one.to(random.one_in(4) ? states[random() % std::size(states)]
          : random.one_in(2)  ? IBV_QPS_RTR
                              : IBV_QPS_RTS);
      break;
    case 1:
    case 2:
      one.receive(lengths[random() % std::size(lengths)], !random.one_in(20));
      break;
    case 3:
      one.send(
        attacked[random() % attacked.size()]->number() ^ (random.one_in(8) ? random() % 4 : 0),
        random.one_in(4) ? random() : key, random.one_in(8) ? 4097 : random() % 300,
        !random.one_in(20));
      break;
    case 4:
      settle();
      break;
    default:
      attack(of, random, one.number());
    }
  }
  settle();
  for (const auto& each : attacked)
    each->end();
  of.check();
  return 0;
}
