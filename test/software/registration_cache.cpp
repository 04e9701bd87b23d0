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

// Registrations of plain memory: found again for as long as the memory stays, and no longer. What
// is stale shows in the data on devices that pin pages; on the software device, in which
// registration is used.

using namespace test;

namespace {

constexpr std::size_t page = 4096;

/// Anonymous memory, unmapped at the end.
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

  /// The pages were unmapped, or moved away.
  void gone(std::size_t first, std::size_t pages)
  {
    std::fill_n(there_.begin() + static_cast<std::ptrdiff_t>(first), pages, false);
  }

  /// Other memory where nothing is. False when another thread was quicker, the library's or the
  /// sanitizer's, whose memory it is then.
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

  /// Other memory, at the same address, in place of what is there.
  void map_anew(std::size_t first, std::size_t pages) const
  {
    REQUIRE(::mmap(at(first), pages * page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
      == at(first));
  }

private:
  std::size_t size_;
  std::vector<bool> there_; // by page
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

/// A context's cache, as operations use it.
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
  /// Whether the range is found again.
  [[nodiscard]] bool finds(const void* data, std::size_t size, bool writable = true) const
  {
    const auto before = statistics().hits;
    const held found = acquire(data, size, writable);
    return statistics().hits != before;
  }

  rdma::context context;
};

} // namespace

// Where memory cannot be watched there is nothing to be found again; another test is about that.
#define NEEDS_WATCHED_MEMORY(user)                                                                 \
  do                                                                                               \
  {                                                                                                \
    if (const auto s = (user).statistics(); !s.keeps)                                              \
    {                                                                                              \
      WARN("skipped here: " << s.why_not);                                                         \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

TEST_CASE("memory is registered once and found again for every range inside")
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
  CHECK(
    user.acquire(memory.at(2), page, false).get() == first); // what may be written to may be read
  CHECK_FALSE(user.finds(memory.at(0), 1));
  CHECK_FALSE(user.finds(memory.at(3), page + 1));
  s = user.statistics();
  CHECK(s.hits == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 3);
  CHECK(s.unkept == 0);
}

TEST_CASE("what was registered for reading is not found for writing")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  const mapping memory(4);
  CHECK(user.acquire(memory.at(0), 2 * page, false)->rights == rdma::access::local_read);
  CHECK(user.finds(memory.at(1), page, false));
  CHECK_FALSE(user.finds(memory.at(0), page, true));
  CHECK(user.finds(memory.at(0), page, true));
  CHECK(user.statistics().entries == 2);
  // and is not needed beside one that is larger and may be written to
  CHECK_FALSE(user.finds(memory.at(0), 3 * page, true));
  CHECK(user.statistics().entries == 1);
}

TEST_CASE("a larger range replaces what lies inside, and ranges that overlap stay side by side")
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
  CHECK(in_use->base == reinterpret_cast<std::byte*>(memory.at(1))); // the operation's, as before
  static_cast<void>(user.acquire(memory.at(4), 8 * page));
  static_cast<void>(user.acquire(memory.at(8), 8 * page));
  CHECK(user.statistics().entries == 3);
  CHECK(user.finds(memory.at(0), 8 * page));
  CHECK(user.finds(memory.at(4), 8 * page));
  CHECK(user.finds(memory.at(8), 8 * page));
  CHECK(user.finds(memory.at(7), 4 * page));
  CHECK_FALSE(user.finds(memory.at(3), 9 * page));
}

TEST_CASE("the bounds are kept: the one used least recently goes, and none that is in use")
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
  // 0 is the oldest now, and in use
  const held kept = user.acquire(memory.at(0), page);
  CHECK(user.finds(memory.at(4), page));
  CHECK(user.finds(memory.at(6), page));
  static_cast<void>(user.acquire(memory.at(8), 3 * page)); // as many bytes as there may be
  auto s = user.statistics();
  CHECK(s.entries == 2);
  CHECK(s.bytes == 4 * page);
  CHECK(user.finds(memory.at(0), page));
  CHECK(user.finds(memory.at(8), 3 * page));
  // What does not fit beside those in use, or at all, is its operation's alone.
  const held large = user.acquire(memory.at(8), 3 * page);
  const auto before = user.statistics().unkept;
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(12), page));
  CHECK_FALSE(user.finds(memory.at(0), 5 * page));
  s = user.statistics();
  CHECK(s.unkept == before + 3);
  CHECK(s.bytes == 4 * page);
}

TEST_CASE("with bounds of nothing every operation registers for itself")
{
  using bounds = rdma::registration_cache_options;
  const cache_user user(GENERATE(
    bounds{.bytes_max = 0}, bounds{.entries_max = 0}, bounds{.bytes_max = 0, .entries_max = 0}));
  const std::size_t threads = inventory::count_threads();
  CHECK_FALSE(user.statistics().keeps);
  CHECK(user.statistics().why_not.find("registration_cache_options") != std::string::npos);
  mapping memory(1);
  {
    const held first = user.acquire(memory.at(0), page);
    const held second = user.acquire(memory.at(0), page, false);
    CHECK(first.get() != second.get());
  }
  CHECK_FALSE(user.finds(memory.at(0), page));
  memory.unmap(0, 1); // waits for nobody
  CHECK(inventory::count_threads() == threads);
  const auto s = user.statistics();
  CHECK(s.unkept == 3);
  CHECK(s.misses == 3);
  CHECK(s.entries == 0);
  CHECK(s.bytes == 0);
}

TEST_CASE("when no more memory may be locked, what any domain keeps unused makes room, and what is "
          "in use stays")
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
    CHECK(second.statistics().evicted == 1); // its own went before it was found to be too little
    CHECK(first.statistics().entries == 1);
  }
  CHECK_FALSE(second.finds(memory.at(4), 4 * page));
  CHECK(second.finds(memory.at(4), 4 * page));
  CHECK(first.statistics().entries == 0);
  CHECK(registrations::standing == 1);
}

TEST_CASE("domains may go while others take back what they keep")
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
    // Each holds four pages at most, so that there is room when all that is unused has gone.
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

TEST_CASE("memory that is unmapped, mapped anew, discarded or moved is not found again")
{
  cache_user user;
  NEEDS_WATCHED_MEMORY(user);
  mapping memory(8);
  static_cast<void>(user.acquire(memory.at(0), 8 * page));
  REQUIRE(user.finds(memory.at(5), page));
  std::size_t first = 0; // what is looked for afterwards
  SECTION("unmapped, and mapped anew")
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
  SECTION("given up")
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
  CHECK(user.finds(memory.at(first), page)); // the new one
  CHECK_FALSE(user.finds(memory.at(0), 8 * page));
  CHECK(user.finds(memory.at(0), 8 * page));
  // And again, so that the new one is watched as well.
  memory.map_anew(0, 8);
  CHECK_FALSE(user.finds(memory.at(0), 8 * page));
}

TEST_CASE("a registration that operations use when its memory goes stays theirs, and is not found")
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

TEST_CASE("other memory of the process is free to go, watched neighbours or not")
{
  cache_user user;
  cache_user other; // one watch for both
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
  // What one of them lets go the other still watches.
  other = cache_user();
  memory.map_anew(3, 1);
  CHECK_FALSE(user.finds(memory.at(0), 4 * page));
}

TEST_CASE("files and memory that is shared are registered for one operation each")
{
  BOOST_RDMA_TEST_NEEDS(software_device); // NICs do not take every file system's pages
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
  CHECK(user.statistics().unkept == 2);
  CHECK(user.statistics().entries == 0);
  ::munmap(memory, 4 * page);
  ::close(fd);
}

TEST_CASE("what is sent from an address that was mapped anew is what lies there now")
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
  const bool keeps = l.near_context.registration_cache_statistics().keeps;
  if (keeps)
    CHECK(l.near_context.registration_cache_statistics().hits == 1);
  SECTION("the sender's, unmapped between")
  {
    mine.unmap(0, 64);
    if (!mine.map_where_nothing_is(0, 64))
      return;
  }
  SECTION("the sender's, at once")
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

TEST_CASE("threads that register and unmap all the time find nothing stale")
{
  // Each thread's memory comes from what the others have just given back, so that addresses are
  // used again at once.
  cache_user user({.bytes_max = 64 * page, .entries_max = 8});
  NEEDS_WATCHED_MEMORY(user);
  constexpr int thread_count = 4;
  const int rounds = emulated() ? 200 : 2000;
  std::array<std::atomic<int>, 2> found{}; // stale, right
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
          // The cache has no use for remote keys: here they say whose a registration is. One that
          // was made before this memory was mapped is somebody else's.
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

TEST_CASE("the watch and its threads end with the last context, and start again")
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
    memory.map_anew(0, 4); // waits for nobody
  }
}

TEST_CASE("without userfaultfd every operation registers for itself, and the statistics say why")
{
  BOOST_RDMA_TEST_FORKS();
  const auto check = [](const cache_user& user, const char* why)
  {
    std::string wrong;
    const mapping memory(4);
    const auto s = user.statistics();
    if (s.keeps || s.why_not.find(why) == std::string::npos)
      wrong += "keeps=" + std::to_string(s.keeps) + " why='" + s.why_not + "'; ";
    for (int i = 0; i < 2; ++i)
    {
      error_code ec;
      const held made(user.context.impl()->cache().acquire(memory.at(0), 4 * page, true, ec));
      if (!made || ec)
        wrong += ec.message() + "; ";
    }
    if (user.statistics().unkept != 2 || user.statistics().entries != 0)
      wrong += "kept";
    return wrong;
  };
  SECTION("as a container refuses it")
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
#if !BOOST_RDMA_TEST_ADDRESS_SANITIZER // which, with UBSan, looks at exceptions through a pipe of
                                       // its own
  SECTION("without a descriptor left")
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

TEST_CASE("a child of fork() neither hears of the parent's memory nor holds it up")
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
    // Its own copy goes without a word to anybody, and the parent's objects say that they are the
    // parent's.
    bool good = ::munmap(memory.at(0), 2 * page) == 0 && !user.statistics().keeps
      && !user.statistics().why_not.empty();
    {
      const rdma::context copy = std::move(user.context); // and goes, in the child
    }
    char byte = 0;
    good = good && ::read(ends[0], &byte, 1) == 1; // until the parent is done
    ::_exit(good ? 0 : 1);
  }
  CHECK(user.finds(memory.at(0), 4 * page));
  memory.map_anew(0, 4); // would wait for ever if the child kept the parent's descriptor
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
