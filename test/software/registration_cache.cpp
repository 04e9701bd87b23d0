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
#include "software/limited_device.hpp"

#include "resource/domain_impl.hpp"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Tests registrations of plain memory, which are reused until the memory is unmapped. A stale
// registration is visible in the data on devices that pin pages, and in the choice of the
// registration on the software device.

using namespace test;

namespace {

constexpr std::size_t page = 4096;

/// Anonymous memory that is unmapped at the end.
class mapping
{
public:
  explicit mapping(std::size_t pages)
    : size_(pages * page)
    , there_(pages, true)
    , data_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
  {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~mapping()
  {
    for (std::size_t i = 0; i < there_.size(); ++i)
      if (there_[i])
        ::munmap(at(i), page);
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  [[nodiscard]] char* at(std::size_t n) const { return static_cast<char*>(data_) + n * page; }
  [[nodiscard]] std::size_t size() const { return size_; }

  void unmap(std::size_t first, std::size_t pages)
  {
    REQUIRE(::munmap(at(first), pages * page) == 0);
    gone(first, pages);
  }

  /// Records that the pages were unmapped or moved away.
  void gone(std::size_t first, std::size_t pages)
  {
    std::fill_n(there_.begin() + static_cast<std::ptrdiff_t>(first), pages, false);
  }

  /// Maps new memory in a hole. Returns false if another thread, of the library or of the
  /// sanitizer, has used the hole; the memory is then its own.
  [[nodiscard]] bool map_where_nothing_is(std::size_t first, std::size_t pages)
  {
    void* const made = ::mmap(at(first), pages * page, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made == MAP_FAILED)
      return false;
    if (made != at(first)) // a kernel before Linux 4.17
    {
      ::munmap(made, pages * page);
      return false;
    }
    std::fill_n(there_.begin() + static_cast<std::ptrdiff_t>(first), pages, true);
    return true;
  }

  /// Maps new memory over the existing memory at the same address.
  void map_anew(std::size_t first, std::size_t pages) const
  {
    REQUIRE(::mmap(at(first), pages * page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      == at(first));
  }

private:
  std::size_t size_;
  std::vector<bool> there_; // per page
  void* data_;
};

rdma::context context_with(const rdma::registration_cache_options& bounds)
{
  rdma::context_options options;
  options.cache = bounds;
  return make_context(options);
}

struct release
{
  void operator()(rdma::detail::registration* r) const { r->release(); }
};
using held = std::unique_ptr<rdma::detail::registration, release>;

/// A context's cache, used like operations use it.
struct cache_user
{
  explicit cache_user(rdma::registration_cache_options bounds = {})
    : context(context_with(bounds))
  {
  }
  explicit cache_user(rdma::context other)
    : context(std::move(other))
  {
  }

  [[nodiscard]] held acquire(const void* data, std::size_t size, bool writable = true) const
  {
    error_code ec;
    held result(context.impl()->cache().acquire(data, size, writable, ec));
    CHECK(ec == error_code());
    REQUIRE(result);
    return result;
  }
  [[nodiscard]] rdma::registration_cache_statistics statistics() const
  {
    return context.registration_cache_statistics();
  }
  /// Returns true if a lookup of the range is a hit.
  [[nodiscard]] bool finds(const void* data, std::size_t size, bool writable = true) const
  {
    const auto before = statistics().hits;
    const held found = acquire(data, size, writable);
    return statistics().hits != before;
  }

  rdma::context context;
};

} // namespace

// If memory cannot be watched, nothing is cached; another test covers this.
#define NEEDS_WATCHED_MEMORY(user)                                                                 \
  do                                                                                               \
  {                                                                                                \
    if (const auto s = (user).statistics(); !s.enabled)                                            \
    {                                                                                              \
      WARN("skipped here: " << s.disabled_reason);                                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

TEST_CASE("memory is registered once and found for every range inside")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(8);
  const rdma::detail::registration* first = nullptr;
  {
    const held made = user.acquire(memory.at(1) + 100, 2 * page);
    first = made.get();
    CHECK(made->base == reinterpret_cast<std::byte*>(memory.at(1)));
    CHECK(made->size == 3 * page); // whole pages
    CHECK(user.statistics().in_use == 1);
  }
  auto s = user.statistics();
  CHECK(s.misses == 1);
  CHECK(s.entries == 1);
  CHECK(s.bytes == 3 * page);
  CHECK(s.in_use == 0);
  CHECK(user.acquire(memory.at(1), 3 * page).get() == first);
  CHECK(user.acquire(memory.at(3) + 7, 1).get() == first);
  CHECK(user.acquire(memory.at(2), page, false).get() == first); // writable memory is readable, too
  CHECK_FALSE(user.finds(memory.at(0), 1));
  CHECK_FALSE(user.finds(memory.at(3), page + 1));
  s = user.statistics();
  CHECK(s.hits == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 3);
  CHECK(s.uncached == 0);
}

TEST_CASE("a read-only registration is not used for writable access")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(4);
  CHECK(user.acquire(memory.at(0), 2 * page, false)->rights == rdma::access::local_read);
  CHECK(user.finds(memory.at(1), page, false));
  CHECK_FALSE(user.finds(memory.at(0), page, true));
  CHECK(user.finds(memory.at(0), page, true));
  CHECK(user.statistics().entries == 2);
  // a larger writable registration replaces it
  CHECK_FALSE(user.finds(memory.at(0), 3 * page, true));
  CHECK(user.statistics().entries == 1);
}

TEST_CASE("a larger range replaces contained ones and overlapping ranges coexist")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(16);
  static_cast<void>(user.acquire(memory.at(1), page));
  static_cast<void>(user.acquire(memory.at(3), 2 * page));
  const held in_use = user.acquire(memory.at(1), page);
  static_cast<void>(user.acquire(memory.at(0), 8 * page));
  auto s = user.statistics();
  CHECK(s.entries == 1);
  CHECK(s.bytes == 8 * page);
  CHECK(s.evicted == 2);
  // The operation keeps its registration.
  CHECK(in_use->base == reinterpret_cast<std::byte*>(memory.at(1)));
  static_cast<void>(user.acquire(memory.at(4), 8 * page));
  static_cast<void>(user.acquire(memory.at(8), 8 * page));
  CHECK(user.statistics().entries == 3);
  CHECK(user.finds(memory.at(0), 8 * page));
  CHECK(user.finds(memory.at(4), 8 * page));
  CHECK(user.finds(memory.at(8), 8 * page));
  CHECK(user.finds(memory.at(7), 4 * page));
  CHECK_FALSE(user.finds(memory.at(3), 9 * page));
}

TEST_CASE("the cache evicts the least recently used entry that is not in use at its limits")
{
  cache_user user({.bytes_max = 4 * page, .entries_max = 3});
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(16);
  static_cast<void>(user.acquire(memory.at(0), page));
  static_cast<void>(user.acquire(memory.at(2), page));
  static_cast<void>(user.acquire(memory.at(4), page));
  CHECK(user.finds(memory.at(0), page));
  static_cast<void>(user.acquire(memory.at(6), page)); // a fourth entry
  CHECK(user.statistics().entries == 3);
  CHECK(user.finds(memory.at(0), page));
  CHECK(user.finds(memory.at(4), page));
  CHECK(user.finds(memory.at(6), page));
  // 0 is the least recently used, but in use
  const held kept = user.acquire(memory.at(0), page);
  CHECK(user.finds(memory.at(4), page));
  CHECK(user.finds(memory.at(6), page));
  static_cast<void>(user.acquire(memory.at(8), 3 * page)); // the maximum number of bytes
  auto s = user.statistics();
  CHECK(s.entries == 2);
  CHECK(s.bytes == 4 * page);
  CHECK(user.finds(memory.at(0), page));
  CHECK(user.finds(memory.at(8), 3 * page));
  // A range that does not fit in addition to those in use, or at all, is registered for one
  // operation.
  const held large = user.acquire(memory.at(8), 3 * page);
  const auto before = user.statistics().uncached;
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(0), 5 * page));
  s = user.statistics();
  CHECK(s.uncached == before + 3);
  CHECK(s.bytes == 4 * page);
}

TEST_CASE("every operation registers its memory when the limits of the cache are zero")
{
  using bounds = rdma::registration_cache_options;
  const cache_user user(GENERATE(
    bounds{.bytes_max = 0}, bounds{.entries_max = 0}, bounds{.bytes_max = 0, .entries_max = 0}));
  const std::size_t threads = inventory::count_threads();
  CHECK_FALSE(user.statistics().enabled);
  CHECK(user.statistics().disabled_reason.find("registration_cache_options") != std::string::npos);
  mapping memory(1);
  {
    const held first = user.acquire(memory.at(0), page);
    const held second = user.acquire(memory.at(0), page, false);
    CHECK(first.get() != second.get());
  }
  CHECK_FALSE(user.finds(memory.at(0), page));
  memory.unmap(0, 1); // the unmap does not block
  CHECK(inventory::count_threads() == threads);
  const auto s = user.statistics();
  CHECK(s.uncached == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 0);
  CHECK(s.bytes == 0);
}

TEST_CASE("unused entries of every domain are evicted when the limit of locked memory is reached")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations limit;
  registrations::bytes_max = 4 * page;
  const cache_user first(counted_context());
  const cache_user second(counted_context());
  NEEDS_WATCHED_MEMORY(first);
  const mapping memory(8);
  {
    const held in_use = first.acquire(memory.at(0), page);
    static_cast<void>(first.acquire(memory.at(2), 3 * page));
    static_cast<void>(second.acquire(memory.at(4), 2 * page));
    CHECK(first.statistics().entries == 1);
    CHECK(first.statistics().evicted == 1);
    CHECK(first.finds(memory.at(0), page));
    error_code ec;
    CHECK(second.context.impl()->cache().acquire(memory.at(4), 4 * page, true, ec) == nullptr);
    CHECK(ec == error_code(ENOMEM, boost::system::system_category()));
    // Its own entry was evicted before the allocation failed.
    CHECK(second.statistics().evicted == 1);
    CHECK(first.statistics().entries == 1);
  }
  CHECK_FALSE(second.finds(memory.at(4), 4 * page));
  CHECK(second.finds(memory.at(4), 4 * page));
  CHECK(first.statistics().entries == 0);
  CHECK(registrations::standing == 1);
}

TEST_CASE("domains can be destroyed while other domains reclaim their entries")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  registrations limit;
  registrations::bytes_max = 16 * page;
  {
    const cache_user lasting(counted_context());
    NEEDS_WATCHED_MEMORY(lasting);
    const mapping memory(64);
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    // Each user holds at most four pages, so the limit suffices when all unused entries are
    // evicted.
    const auto use = [&](const cache_user& user, std::size_t from)
    {
      for (std::size_t i = 0; i < 16; i += 4)
      {
        error_code ec;
        const held made(
          user.context.impl()->cache().acquire(memory.at(from + i), 4 * page, true, ec));
        if (!made && ec != error_code(ENOMEM, boost::system::system_category()))
          ++wrong;
      }
    };
    std::thread other(
      [&]
      {
        while (!over)
          use(lasting, 0);
      });
    for (int i = 0; i < (emulated() ? 20 : 300); ++i)
    {
      const cache_user passing(counted_context());
      use(passing, 16);
    }
    over = true;
    other.join();
    CHECK(wrong == 0);
  }
  CHECK(registrations::standing == 0);
  CHECK(registrations::bytes == 0);
}

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
              sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
              };
              const sock_fprog program{4, code};
              if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
                return std::string("prctl: ") + std::strerror(errno);
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
  wait_for_sleeping_threads();
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
