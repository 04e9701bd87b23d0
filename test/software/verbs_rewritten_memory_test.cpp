//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "common/shared_bytes.hpp"
#include "software/local_raw_peer.hpp"
#include "unit/hostile_local_end.hpp"
#include "unit/lane_rewriter.hpp"
#include "unit/simulated_seeds.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Tests a device whose peer on this host rewrites the memory of their link while the device uses
// it. Another process does so, and this one sends records and messages of a hostile peer.

using namespace test;

namespace {

using local_wire_test::hostile_local_end;

/// Registered memory between two pages that are not registered.
class guarded_region
{
public:
  explicit guarded_region(const verbs_device& on)
    : on_(on)
  {
    std::ranges::fill(std::span<std::byte>(bytes_), canary);
    mr_ = on.api().reg_mr(on.pd(), bytes_.data() + page, size, all_access);
    must(mr_ != nullptr, "reg_mr");
  }
  ~guarded_region() { must(on_.api().dereg_mr(mr_) == 0, "dereg_mr"); }
  guarded_region(const guarded_region&) = delete;
  guarded_region& operator=(const guarded_region&) = delete;

  [[nodiscard]] std::uint64_t begin() const
  {
    return reinterpret_cast<std::uintptr_t>(bytes_.data()) + page;
  }
  [[nodiscard]] std::uint32_t key() const { return mr_->rkey; }

  [[nodiscard]] ibv_sge sge(std::size_t offset, std::uint32_t length) const
  {
    return {begin() + offset, length, mr_->lkey};
  }

  [[nodiscard]] bool is_kept() const
  {
    const std::span<const std::byte> all(bytes_);
    const auto kept = [](std::byte each) { return each == canary; };
    return std::ranges::all_of(all.first(page), kept) && std::ranges::all_of(all.last(page), kept);
  }

  static constexpr std::uint32_t size = protocol_test::exposed;

private:
  static constexpr std::size_t page = 4096;
  static constexpr std::byte canary{0xa5};

  const verbs_device& on_;
  shared_bytes bytes_{size + 2 * page};
  ibv_mr* mr_ = nullptr;
};

/// A queue pair of the device, as hostile_local_end sees it.
struct attacked_endpoint
{
  attacked_endpoint(target_endpoint& v, local_raw_peer& peer, const guarded_region& region)
    : shared(peer.memory())
    , lane(peer.lane())
    , key(region.key())
    , region(region)
    , peer(peer)
  {
    with.qp = v.e.qp()->qp_num;
    with.segment = 4096;
    const unsigned n = lane.lane;
    wire::lane_side& mine = shared->side(n, 0);
    const wire::lane_side& theirs = shared->side(n, 1);
    constexpr std::size_t size = wire::segment::ring_size;
    requests_out = {shared->requests_of(n, 0), size, theirs.requests_taken, 0};
    responses_out = {shared->responses_of(n, 0), size, theirs.responses_taken, 0};
    requests_in = wire::ring::reader(shared->requests_of(n, 1), size, mine.requests_taken);
    responses_in = wire::ring::reader(shared->responses_of(n, 1), size, mine.responses_taken);
  }

  [[nodiscard]] std::uint64_t begin() const { return region.begin(); }

  bool send(const void* what, std::size_t size) const
  {
    return ::send(peer.link().socket(), what, size, MSG_DONTWAIT | MSG_NOSIGNAL)
      == static_cast<ssize_t>(size);
  }
  bool send(const void* what, std::size_t size, std::span<const int> descriptors) const
  {
    return local_wire_test::send_with(peer.link().socket(), what, size, descriptors);
  }
  bool has_granted() const { return local_wire_test::take_granted(peer.link().socket()); }

  std::shared_ptr<wire::segment> shared;
  wire::lane_use lane;
  std::uint32_t key;
  protocol::parameters with;
  wire::ring::writer requests_out;
  wire::ring::writer responses_out;
  wire::ring::reader requests_in;
  wire::ring::reader responses_in;
  const guarded_region& region;
  local_raw_peer& peer;
};

/// The program of the attacked queue pair.
class attacked_program
{
public:
  attacked_program(const endpoint& of, const guarded_region& region, dice& random)
    : of_(of)
    , region_(region)
    , random_(random)
  {
  }

  void post_send()
  {
    static constexpr ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
      IBV_WR_ATOMIC_CMP_AND_SWP};
    static constexpr std::uint32_t lengths[] = {
      0, 1, 8, 64, 500, 512, 513, 4096, guarded_region::size};
    if (posted_ - sent_ == outstanding_max)
      return;
    const ibv_wr_opcode opcode = opcodes[random_() % std::size(opcodes)];
    const bool is_atomic =
      opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const std::uint32_t length = is_atomic ? 8 : lengths[random_() % std::size(lengths)];
    const std::size_t offset = (guarded_region::size - length) / 8 * (random_() % 9);
    request r(opcode, {region_.sge(offset, length)}, posted_);
    if (is_atomic)
      r.atomic(peers_address + random_() % 16 * 8, peers_key, 1, 2);
    else
      r.remote(peers_address + random_() % 16 * 8, peers_key);
    REQUIRE(of_.post(r.wr) == 0);
    ++posted_;
  }

  void post_receive()
  {
    if (posted_receives_ - received_ == outstanding_max)
      return;
    const auto length =
      static_cast<std::uint32_t>(random_.one_in(2) ? guarded_region::size : random_() % 1000);
    REQUIRE(
      of_.receive(posted_receives_++, region_.sge(guarded_region::size - length, length)) == 0);
  }

  /// Takes completions. Returns true after a failure.
  bool poll()
  {
    for (auto wc = of_.sent().poll(); wc; wc = of_.sent().poll())
    {
      REQUIRE(wc->wr_id == sent_++);
      REQUIRE(sent_ <= posted_);
      failed_ = failed_ || wc->status != IBV_WC_SUCCESS;
    }
    for (auto wc = of_.received().poll(); wc; wc = of_.received().poll())
    {
      REQUIRE(wc->wr_id == received_++);
      REQUIRE(received_ <= posted_receives_);
      failed_ = failed_ || wc->status != IBV_WC_SUCCESS;
    }
    return failed_;
  }

  /// Waits until everything that was posted has completed.
  void end()
  {
    REQUIRE(of_.to(IBV_QPS_ERR) == 0);
    REQUIRE(until(
      [&]
      {
        poll();
        return sent_ == posted_ && received_ == posted_receives_;
      }));
  }

private:
  static constexpr std::uint64_t outstanding_max = 16;
  static constexpr std::uint32_t peers_key = 77;
  static constexpr std::uint64_t peers_address = 0x10000;

  const endpoint& of_;
  const guarded_region& region_;
  dice& random_;
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t posted_receives_ = target_endpoint::receives_posted;
  std::uint64_t received_ = 0;
  bool failed_ = false;
};

/// A connected pair whose other end is honest.
struct honest_pair
{
  explicit honest_pair(const verbs_device& device)
    : a(device)
    , b(other)
    , from(device, 64)
    , to(other, 64)
  {
    connect(a, b);
  }

  void exchange(std::uint8_t what)
  {
    from.fill(what);
    to.fill(kept_byte);
    REQUIRE(b.receive(1, to.sge()) == 0);
    REQUIRE(a.send(2, from.sge()) == 0);
    REQUIRE(b.received().next().status == IBV_WC_SUCCESS);
    REQUIRE(a.sent().next().status == IBV_WC_SUCCESS);
    REQUIRE(to.holds(what));
  }

  verbs_device other;
  endpoint a;
  endpoint b;
  memory from;
  memory to;
};

void run(const verbs_device& device, const guarded_region& region, unsigned seed)
{
  constexpr unsigned steps_max = 500;
  dice random(seed);
  target_endpoint v(device, 0, {});
  local_raw_peer attacker(v);
  attacker.attach();
  attacked_endpoint of(v, attacker, region);
  attacked_program program(v.e, region, random);
  hostile_local_end peer(of, random, endpoint::first_psn);
  prepare_to_fork();
  const lane_rewriter rewriter(attacker.memory_fd(), attacker.lane().lane, 1, seed);
  for (unsigned step = 0; step != steps_max && !program.poll(); ++step)
  {
    for (std::size_t left = random.any(1, 8); left != 0; --left)
    {
      program.post_receive();
      peer.request(random.one_in(8));
    }
    if (random.one_in(16))
      peer.step();
    if (random.one_in(4))
      program.post_send();
    if (random.one_in(4))
      peer.permit();
    attacker.ring();
  }
  program.end();
  REQUIRE(region.is_kept());
}

} // namespace

TEST_CASE("a device keeps the rules while a peer process rewrites the memory of their link")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  local_wire_test::offered_memory();
  const verbs_device device;
  const guarded_region region(device);
  honest_pair honest(device);
  run_seeds(1, 60,
    [&](unsigned seed)
    {
      INFO("seed " << seed);
      run(device, region, seed);
      honest.exchange(static_cast<std::uint8_t>(seed));
    });
}
