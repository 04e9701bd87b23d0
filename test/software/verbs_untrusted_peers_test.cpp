//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests peers on this host: one that names addresses for direct access, and those of other users.

#include "software/local_raw_peer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

using namespace test;

namespace {

// As in local_wire_grants.cpp.
constexpr std::uint8_t key_kind = 0xc0;

/// Gives this thread, and no other, another effective user while it exists.
class other_user
{
public:
  other_user()
    : possible_(change(1))
  {
  }
  ~other_user()
  {
    if (!possible_)
      return;
    must(change(::getuid()), "be the same user again");
    ::prctl(PR_SET_DUMPABLE, 1); // cleared with the change; leak checkers trace this process
  }
  other_user(const other_user&) = delete;
  other_user& operator=(const other_user&) = delete;

  bool possible() const noexcept { return possible_; }

private:
  // The function of the C library changes the user of all threads.
  static bool change(uid_t to) noexcept { return ::syscall(SYS_setresuid, -1, to, -1) == 0; }

  bool possible_;
};

} // namespace

TEST_CASE("direct access uses no address that a peer claims to have in this process")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  // The peer's socket is this process's own, as with a listener that another process inherited.
  const bool writes = GENERATE(true, false);
  CAPTURE(writes);
  target_endpoint v(nullptr, 0);
  local_raw_peer attacker(v);
  attacker.attach();
  std::vector<std::uint8_t> victim(4096, kept_byte);
  constexpr std::uint64_t address = 0x10000;
  constexpr std::uint32_t key = 77;
  const auto access = [&](std::uint64_t id)
  {
    REQUIRE((writes ? v.e.write(id, v.m.sge(0, 8), address, key)
                    : v.e.read(id, v.m.sge(0, 8), address, key))
      == 0);
  };
  REQUIRE(v.e.write(1, v.m.sge(0, 8), address, key) == 0);
  bool shown = false;
  bool sent = false;
  REQUIRE(until(
    [&]
    {
      (void)v.e.sent().poll();
      const auto record = attacker.next_request();
      if (!record.empty())
        (record[0] == std::byte{key_kind} ? shown : sent) = true;
      return shown && sent;
    }));
  wire::grant_message grant;
  grant.key = key;
  grant.generation = 1;
  grant.rights = all_access;
  grant.address = address;
  grant.length = victim.size();
  grant.place = reinterpret_cast<std::uintptr_t>(victim.data());
  const wire::descriptor memory(::memfd_create("untrusted", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(memory.get(), 4096) == 0);
  REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  attacker.grant(grant, memory);
  attacker.acknowledge(endpoint::first_psn);
  REQUIRE(v.e.sent().next().status == IBV_WC_SUCCESS); // and it has seen the grant before
  access(2);
  // The second request travels as a frame, as the first one did.
  CHECK(until(
    [&]
    {
      const bool completed = v.e.sent().poll().has_value();
      return completed || !attacker.next_request().empty();
    }));
  CHECK(
    std::all_of(victim.begin(), victim.end(), [](std::uint8_t byte) { return byte == kept_byte; }));
  CHECK(v.m.holds(0x5a, 0, 8));
}

TEST_CASE("a device accepts no link from a process of another user")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  target_endpoint v(nullptr, 0);
  {
    const other_user stranger;
    if (!stranger.possible())
    {
      WARN("skipped here: only root can be another user");
      return;
    }
    CHECK_FALSE(local_raw_peer(v).is_answered());
  }
  CHECK(local_raw_peer(v).is_answered());
}

TEST_CASE("a device shows nothing to a listener of another user")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  verbs_device near;
  verbs_device far;
  const endpoint a(near);
  const endpoint b(far);
  const bool is_first = a.qp()->qp_num < b.qp()->qp_num; // which connects
  const endpoint& connecting = is_first ? a : b;
  const endpoint& other = is_first ? b : a; // does not listen: the test does at its address
  const wire::descriptor listener = wire::make_local_socket();
  const wire::address at =
    wire::to_local_address(other.device().gid(), rdma::software::port_of(other.qp()->qp_num));
  REQUIRE(::bind(listener.get(), at.get(), at.size) == 0);
  {
    const other_user stranger;
    if (!stranger.possible())
    {
      WARN("skipped here: only root can be another user");
      return;
    }
    REQUIRE(::listen(listener.get(), 1) == 0); // records the user: unix(7)
  }
  REQUIRE(connecting.to_init() == 0);
  REQUIRE(connecting.to_ready_to_receive(other) == 0);
  wire::descriptor client;
  REQUIRE(until(
    [&]
    {
      client = wire::descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(client);
    }));
  char c = 0;
  CHECK(::recv(client.get(), &c, 1, 0) == 0);
}
