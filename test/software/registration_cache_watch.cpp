//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/in_child.hpp"
#include "common/inventory.hpp"
#include "common/rdma_fixture.hpp"
#include "common/sanitizers.hpp"
#include "resource/domain_impl.hpp"
#include "software/registration_cache_fixture.hpp"

#include <boost/asio/buffer.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Tests that a registration of plain memory is not reused after the memory was unmapped. A stale
// registration is visible in the data on devices that pin pages, and in the choice of the
// registration on the software device.

using namespace test;

TEST_CASE("registrations of unmapped, remapped, discarded or moved memory are not found")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  mapping memory(8);
  static_cast<void>(user.acquire(memory.at(0), 8 * page));
  REQUIRE(user.finds(memory.at(5), page));
  std::size_t first = 0; // the page of the later lookup
  SECTION("unmapped and mapped again")
  {
    memory.unmap(0, 8);
    if (!memory.map_where_nothing_is(0, 8))
      return;
  }
  SECTION("another mapping over it")
  {
    memory.map_anew(0, 8);
  }
  SECTION("another mapping over one page")
  {
    memory.map_anew(3, 1);
  }
  SECTION("unmapped at the end")
  {
    memory.unmap(6, 2);
    if (!memory.map_where_nothing_is(6, 2))
      return;
  }
  SECTION("discarded")
  {
    REQUIRE(::madvise(memory.at(2), page, MADV_DONTNEED) == 0);
    first = 2;
  }
  SECTION("freed with MADV_FREE")
  {
    REQUIRE(::madvise(memory.at(0), 8 * page, MADV_FREE) == 0);
  }
  SECTION("shrunk and grown")
  {
    REQUIRE(::mremap(memory.at(0), 8 * page, 4 * page, 0) == memory.at(0));
    memory.gone(4, 4);
    if (!memory.map_where_nothing_is(4, 4))
      return;
    first = 4;
  }
  SECTION("moved away")
  {
    void* const to = ::mremap(memory.at(0), 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_FIXED,
      ::mmap(nullptr, 8 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(to != MAP_FAILED);
    memory.gone(0, 8);
    CHECK_FALSE(user.finds(to, 8 * page));
    CHECK(user.finds(to, 8 * page));
    ::munmap(to, 8 * page);
    if (!memory.map_where_nothing_is(0, 8))
      return;
  }
#if defined(MREMAP_DONTUNMAP)
  SECTION("its pages moved away")
  {
    void* const to =
      ::mremap(memory.at(0), 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
    REQUIRE(to != MAP_FAILED);
    ::munmap(to, 8 * page);
  }
#endif
  CHECK(user.statistics().invalidated >= 1);
  CHECK_FALSE(user.finds(memory.at(first), page));
  CHECK(user.finds(memory.at(first), page)); // the new registration
  CHECK_FALSE(user.finds(memory.at(0), 8 * page));
  CHECK(user.finds(memory.at(0), 8 * page));
  // Again, to check that the new registration is watched as well.
  memory.map_anew(0, 8);
  CHECK_FALSE(user.finds(memory.at(0), 8 * page));
}

TEST_CASE("a registration whose memory is unmapped stays with its operations but is not found")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(4);
  const held in_use = user.acquire(memory.at(0), 4 * page);
  memory.map_anew(0, 4);
  const held again = user.acquire(memory.at(0), 4 * page);
  CHECK(again.get() != in_use.get());
  CHECK(user.statistics().entries == 1);
}

TEST_CASE("unmapping other memory keeps cached registrations")
{
  cache_user user;
  cache_user other; // both share one watch
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(8);
  static_cast<void>(user.acquire(memory.at(0), 4 * page));
  static_cast<void>(other.acquire(memory.at(2), 4 * page));
  memory.map_anew(6, 2);
  CHECK(user.finds(memory.at(0), 4 * page));
  CHECK(other.finds(memory.at(2), 4 * page));
  memory.map_anew(4, 1);
  CHECK(user.finds(memory.at(0), 4 * page));
  CHECK_FALSE(other.finds(memory.at(2), 4 * page));
  memory.map_anew(3, 1);
  CHECK_FALSE(user.finds(memory.at(0), 4 * page));
  CHECK_FALSE(other.finds(memory.at(2), 4 * page));
  // The other cache still watches memory that one cache has released.
  other = cache_user();
  memory.map_anew(3, 1);
  CHECK_FALSE(user.finds(memory.at(0), 4 * page));
}

TEST_CASE("files and shared memory are registered for one operation each")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // NICs do not support the pages of every file system
  cache_user user;
  const int fd = ::memfd_create("registration_cache", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, 4 * page) == 0);
  const int how = GENERATE(MAP_SHARED, MAP_PRIVATE, MAP_SHARED | MAP_ANONYMOUS);
  void* const memory =
    ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, how, (how & MAP_ANONYMOUS) != 0 ? -1 : fd, 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK_FALSE(user.finds(memory, 4 * page));
  CHECK_FALSE(user.finds(memory, 4 * page));
  CHECK(user.statistics().uncached == 2);
  CHECK(user.statistics().entries == 0);
  ::munmap(memory, 4 * page);
  ::close(fd);
}

TEST_CASE("messages contain the new data when their address was mapped again")
{
  rdma::queue_pair_options registering;
  registering.copy_max = 0;
  linked_pair l(registering, registering);
  mapping mine(64);
  const mapping theirs(64);
  const auto exchange = [&](char with)
  {
    std::memset(mine.at(0), with, mine.size());
    bytes_record sent;
    bytes_record received;
    l.far.async_receive(asio::buffer(theirs.at(0), theirs.size()), received.handler());
    l.near.async_send(asio::buffer(mine.at(0), mine.size()), sent.handler());
    REQUIRE(run_until(l.io, [&] { return sent.done() && received.done(); }));
    CHECK(sent.ec == error_code());
    CHECK(received.ec == error_code());
    CHECK(received.value() == theirs.size());
    CHECK(std::string(theirs.at(0), theirs.size()) == std::string(mine.size(), with));
  };
  exchange('a');
  exchange('b');
  const bool keeps = l.near_context.registration_cache_statistics().enabled;
  if (keeps)
    CHECK(l.near_context.registration_cache_statistics().hits == 1);
  SECTION("the sender's, unmapped in between")
  {
    mine.unmap(0, 64);
    if (!mine.map_where_nothing_is(0, 64))
      return;
  }
  SECTION("the sender's, replaced at once")
  {
    mine.map_anew(0, 64);
  }
  SECTION("one page of the sender's")
  {
    mine.map_anew(17, 1);
  }
  SECTION("the receiver's")
  {
    theirs.map_anew(0, 64);
  }
  SECTION("both, discarded")
  {
    REQUIRE(::madvise(mine.at(0), mine.size(), MADV_DONTNEED) == 0);
    REQUIRE(::madvise(theirs.at(0), theirs.size(), MADV_DONTNEED) == 0);
  }
  exchange('c');
  exchange('d');
  if (keeps)
    CHECK(l.near_context.registration_cache_statistics().hits >= 2);
}

TEST_CASE("threads that register and unmap memory concurrently find no stale registration")
{
  // Each thread maps memory that others have just unmapped, so addresses are reused at once.
  cache_user user({.bytes_max = 64 * page, .entries_max = 8});
  NEEDS_WATCHED_MEMORY(user);
  constexpr int thread_count = 4;
  const int rounds = emulated() ? 200 : 2000;
  std::array<std::atomic<int>, 2> found{}; // numbers of stale and correct hits
  std::atomic<int> failed{0};
  std::vector<std::thread> running;
  for (int t = 0; t < thread_count; ++t)
    running.emplace_back(
      [&, t]
      {
        for (int i = 0; i < rounds; ++i)
        {
          const std::size_t pages = 1 + static_cast<std::size_t>(i + t) % 7;
          void* memory = ::mmap(
            nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          if (memory == MAP_FAILED)
          {
            ++failed;
            return;
          }
          // The cache does not use the remote keys, so the test stores the owner of a registration
          // there. A registration that was made before this memory was mapped has another owner.
          const auto own = static_cast<std::uint32_t>((t + 1) << 16 | i);
          const auto acquire = [&](std::size_t size, bool writable)
          {
            error_code ec;
            held result(user.context.impl()->cache().acquire(memory, size, writable, ec));
            if (!result)
              ++failed;
            else if (std::exchange(result->remote_keys[0], own) != 0)
              ++found[result->remote_keys[1] == own ? 1 : 0];
            if (result)
              result->remote_keys[1] = own;
            return result;
          };
          const held first = acquire(pages * page, true);
          const bool discarded = i % 3 == 0;
          if (discarded)
            static_cast<void>(::madvise(memory, page, MADV_DONTNEED));
          const held second = acquire(page, i % 2 == 0);
          if (discarded && second.get() == first.get())
            ++found[0];
          ::munmap(memory, pages * page);
        }
      });
  for (std::thread& each : running)
    each.join();
  CHECK(failed == 0);
  CHECK(found[0] == 0);
  CHECK(found[1] > 0);
  const auto s = user.statistics();
  CHECK(s.entries <= 8);
  CHECK(s.bytes <= 64 * page);
  CHECK(s.in_use == 0);
  CHECK(s.invalidated > 0);
}

TEST_CASE("the watch and its threads end with the last context and can start again")
{
  const mapping memory(4);
  {
    cache_user first;
    NEEDS_WATCHED_MEMORY(first);
  }
  const std::size_t before = inventory::count_threads();
  for (int i = 0; i < 3; ++i)
  {
    auto user = std::make_unique<cache_user>();
    CHECK_FALSE(user->finds(memory.at(0), 4 * page));
    CHECK(user->finds(memory.at(0), 4 * page));
    user.reset();
    CHECK(inventory::count_threads() == before);
    memory.map_anew(0, 4); // the mapping does not block
  }
}

TEST_CASE(
  "every operation registers its memory without userfaultfd and the statistics name the reason")
{
  BOOST_RDMA_TEST_FORKS();
  const auto check = [](const cache_user& user, const char* why)
  {
    std::string wrong;
    const mapping memory(4);
    const auto s = user.statistics();
    if (s.enabled || s.disabled_reason.find(why) == std::string::npos)
      wrong += "enabled=" + std::to_string(s.enabled) + " why='" + s.disabled_reason + "'; ";
    for (int i = 0; i < 2; ++i)
    {
      error_code ec;
      const held made(user.context.impl()->cache().acquire(memory.at(0), 4 * page, true, ec));
      if (!made || ec)
        wrong += ec.message() + "; ";
    }
    if (user.statistics().uncached != 2 || user.statistics().entries != 0)
      wrong += "kept";
    return wrong;
  };
  SECTION("refused by a seccomp filter, as in a container")
  {
    CHECK(in_child(
            [&]() -> std::string
            {
              if (const std::string refused = refuse_system_call(SYS_userfaultfd); !refused.empty())
                return refused;
              return check(cache_user(), std::strerror(EPERM));
            })
      == "");
  }
#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER // with UBSan it inspects exceptions through its own pipe
  SECTION("without a free descriptor")
  {
    CHECK(in_child(
            [&]() -> std::string
            {
              const cache_user user;
              const int next = ::dup(0);
              const rlimit none{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
              ::close(next);
              if (next < 0 || ::setrlimit(RLIMIT_NOFILE, &none) != 0)
                return std::string("setrlimit: ") + std::strerror(errno);
              return check(user, std::strerror(EMFILE));
            })
      == "");
  }
#endif
}

TEST_CASE("the registration cache of the parent is not affected by a child of fork()")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(4);
  static_cast<void>(user.acquire(memory.at(0), 4 * page));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  prepare_to_fork();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0)
  {
    ::alarm(100);
    // Unmapping in the child sends no notification, and the parent's objects report that they
    // belong to the parent.
    bool good = ::munmap(memory.at(0), 2 * page) == 0 && !user.statistics().enabled
      && !user.statistics().disabled_reason.empty();
    {
      const rdma::context copy = std::move(user.context); // destroyed in the child
    }
    char byte = 0;
    good = good && ::read(ends[0], &byte, 1) == 1; // until the parent has finished
    ::_exit(good ? 0 : 1);
  }
  CHECK(user.finds(memory.at(0), 4 * page));
  memory.map_anew(0, 4); // would block forever if the child held the parent's descriptor
  CHECK_FALSE(user.finds(memory.at(0), 4 * page));
  user = cache_user();
  memory.map_anew(0, 4);
  REQUIRE(::write(ends[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(ends[0]);
  ::close(ends[1]);
}
