//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests registrations that move the program's pages into shared memory (tools/rdma_soft
// --share-memory).

#include "common/in_child.hpp"
#include "common/sanitizers.hpp"
#include "software/verbs_processes.hpp"

#include "verbs/descriptor.hpp"
#include "verbs/software/memory/mapping_reader.hpp"
#include "verbs/software/memory/moved_pages.hpp"
#include "verbs/software/objects/memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace test;

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t size = 256 * 1024;

/// A device whose registrations move pages.
class moving_device : public verbs_device
{
public:
  moving_device()
    : verbs_device(rdma::software::device_settings{})
  {
    rdma::software::share_registered_memory(context());
  }
};

/// Whole pages of private memory, filled with kept_byte.
class pages
{
public:
  explicit pages(std::size_t bytes = size, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
    : bytes_(bytes)
    , at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0))
  {
    must(at_ != MAP_FAILED, "mmap");
    fill(kept_byte);
  }
  ~pages() { ::munmap(at_, bytes_); }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;

  std::uint8_t* data(std::size_t offset = 0) const noexcept
  {
    return static_cast<std::uint8_t*>(at_) + offset;
  }
  void fill(std::uint8_t with) const noexcept { std::memset(at_, with, bytes_); }
  bool holds(std::uint8_t what, std::size_t offset = 0, std::size_t count = size) const
  {
    return std::all_of(
      data(offset), data(offset) + count, [what](std::uint8_t each) { return each == what; });
  }

private:
  std::size_t bytes_;
  void* at_;
};

/// A registration of a part of them.
class registration
{
public:
  registration(const verbs_device& on, const pages& of, std::size_t offset = 0,
    std::size_t count = size, int access = all_access)
    : on_(on)
    , mr_(on.api().reg_mr(on.pd(), of.data(offset), count, access))
  {
    must(mr_ != nullptr, "reg_mr");
  }
  ~registration() { end(); }
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;

  void end()
  {
    if (mr_ != nullptr)
      must(on_.api().dereg_mr(std::exchange(mr_, nullptr)) == 0, "dereg_mr");
  }
  std::uint32_t key() const noexcept { return mr_->rkey; }
  std::uint64_t address(std::size_t offset = 0) const noexcept
  {
    return reinterpret_cast<std::uintptr_t>(mr_->addr) + offset;
  }
  ibv_sge sge(std::size_t offset = 0, std::size_t count = size) const noexcept
  {
    return {address(offset), static_cast<std::uint32_t>(count), mr_->lkey};
  }
  end_name named(end_name name) const
  {
    name.address = address();
    name.key = key();
    return name;
  }

private:
  const verbs_device& on_;
  ibv_mr* mr_;
};

/// Returns the mapping that contains an address.
std::optional<rdma::software::mapping> mapping_of(const void* at)
{
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const rdma::detail::descriptor fd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  rdma::software::mapping_reader mappings(fd.get());
  while (auto each = mappings.next())
    if (each->begin <= address && address < each->end)
    {
      each->name = {};
      return each;
    }
  return std::nullopt;
}

bool is_moved(const void* at)
{
  const auto found = mapping_of(at);
  return found && !found->is_private;
}

bool is_private(const void* at)
{
  const auto found = mapping_of(at);
  return found && found->is_private && found->protection == (PROT_READ | PROT_WRITE);
}

/// Maps the file behind moved pages, as a peer does.
class peer_view
{
public:
  explicit peer_view(const void* at)
  {
    const auto found = mapping_of(at);
    must(found && !found->is_private, "pages that are not moved");
    for (int fd = 0; fd != 1024 && at_ == MAP_FAILED; ++fd)
    {
      struct stat status;
      if (::fstat(fd, &status) == 0 && status.st_ino == found->inode
        && status.st_dev == found->device)
        at_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    must(at_ != MAP_FAILED, "map the file");
  }
  ~peer_view() { ::munmap(at_, size); }
  peer_view(const peer_view&) = delete;
  peer_view& operator=(const peer_view&) = delete;

  std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(at_); }

private:
  void* at_ = MAP_FAILED;
};

void complete_write(const endpoint& e, const ibv_sge& what, std::uint64_t to, std::uint32_t key)
{
  must(e.write(1, what, to, key) == 0, "write");
  must(e.sent().next().status == IBV_WC_SUCCESS, "complete a write");
}

/// Two connected devices that move pages.
struct moving_pair
{
  moving_device near;
  moving_device far;
  endpoint a{near};
  endpoint b{far};

  moving_pair() { connect(a, b); }
};

} // namespace

TEST_CASE("a peer accesses moved pages without their owner")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  // The registration may begin and end anywhere in a page: `inside` is whole pages of it.
  const std::size_t offset = GENERATE(std::size_t{0}, std::size_t{100});
  const std::size_t inside = (offset + page_bytes - 1) / page_bytes * page_bytes - offset;
  const std::size_t count = size - 2 * page_bytes;
  CAPTURE(offset);
  child other(
    [=](const out_of_band& line)
    {
      const pages memory;
      moving_device d;
      endpoint e(d);
      const registration far(d, memory, offset, size - 2 * offset);
      connect_to(e, line.exchange(far.named(e.name())));
      line.meet();
      line.meet(); // the peer has a grant
      ::raise(SIGSTOP);
      line.meet();
      return memory.holds(kept_byte, 0, offset + inside)
        && memory.holds(sent_byte, offset + inside, count)
        && memory.holds(kept_byte, offset + inside + count, size - offset - inside - count);
    });
  const pages memory;
  moving_device d;
  endpoint e(d);
  const registration near(d, memory, offset, size - 2 * offset);
  const end_name peer = other.line().exchange(near.named(e.name()));
  connect_to(e, peer);
  other.line().meet();
  complete_write(e, near.sge(inside, count), peer.address + inside, peer.key);
  other.line().meet();
  REQUIRE(other.stopped_itself());
  memory.fill(sent_byte);
  REQUIRE(e.write(2, near.sge(inside, count), peer.address + inside, peer.key) == 0);
  CHECK(e.sent().next().status == IBV_WC_SUCCESS);
  memory.fill(kept_byte);
  REQUIRE(e.read(3, near.sge(inside, count), peer.address + inside, peer.key) == 0);
  CHECK(e.sent().next().status == IBV_WC_SUCCESS);
  CHECK(memory.holds(sent_byte, offset + inside, count));
  other.resume();
  other.line().meet();
  CHECK(other.succeeded());
}

TEST_CASE("pages that are registered in part are not moved and carry data all the same")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_pair c;
  const pages near_memory;
  const pages far_memory;
  constexpr std::size_t offset = 100;
  constexpr std::size_t count = size - 2 * offset;
  const registration near(c.near, near_memory, offset, count);
  const registration far(c.far, far_memory, offset, count);
  for (const pages* each : {&near_memory, &far_memory})
  {
    CHECK(is_private(each->data()));
    CHECK(is_moved(each->data(page_bytes)));
    CHECK(is_moved(each->data(size - page_bytes - 1)));
    CHECK(is_private(each->data(size - 1)));
    CHECK(each->holds(kept_byte));
  }
  const bool sends = GENERATE(true, false);
  CAPTURE(sends);
  for (std::uint8_t round = 1; round != 4; ++round)
  {
    std::fill_n(near_memory.data(offset), count, round);
    if (sends)
    {
      REQUIRE(c.b.receive(1, far.sge(0, count)) == 0);
      REQUIRE(c.a.send(1, near.sge(0, count)) == 0);
      REQUIRE(c.b.received().next().status == IBV_WC_SUCCESS);
    }
    else
    {
      REQUIRE(c.a.write(1, near.sge(0, count), far.address(), far.key()) == 0);
    }
    REQUIRE(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(far_memory.holds(kept_byte, 0, offset));
    CHECK(far_memory.holds(round, offset, count));
    CHECK(far_memory.holds(kept_byte, offset + count, offset));
    std::fill_n(near_memory.data(offset), count, std::uint8_t{0});
    REQUIRE(c.a.read(2, near.sge(0, count), far.address(), far.key()) == 0);
    REQUIRE(c.a.sent().next().status == IBV_WC_SUCCESS);
    CHECK(near_memory.holds(round, offset, count));
  }
}

TEST_CASE("pages that only peers with the right to read may access are not mapped by them")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_pair c;
  const pages near_memory;
  const pages far_memory;
  const registration near(c.near, near_memory);
  const registration far(
    c.far, far_memory, 0, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  const auto mapped_by_peer = [&]
  {
    const auto moved = mapping_of(far_memory.data());
    int count = 0;
    const rdma::detail::descriptor fd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    rdma::software::mapping_reader mappings(fd.get());
    while (const auto each = mappings.next())
      count += moved && each->inode == moved->inode && each->device == moved->device ? 1 : 0;
    return count - 2; // the program's and the device's
  };
  far_memory.fill(sent_byte);
  for (int i = 0; i != 3; ++i)
  {
    REQUIRE(c.a.read(1, near.sge(), far.address(), far.key()) == 0);
    REQUIRE(c.a.sent().next().status == IBV_WC_SUCCESS);
  }
  CHECK(near_memory.holds(sent_byte));
  CHECK(mapped_by_peer() == 0);
  const registration writable(c.far, far_memory);
  for (int i = 0; i != 3; ++i)
    complete_write(c.a, near.sge(), writable.address(), writable.key());
  CHECK(mapped_by_peer() == 1);
}

TEST_CASE("moved pages are private again after deregistration")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_pair c;
  const pages near_memory;
  const pages far_memory;
  const registration near(c.near, near_memory);
  registration far(c.far, far_memory);
  const std::uint32_t key = far.key();
  near_memory.fill(sent_byte);
  complete_write(c.a, near.sge(), far.address(), key);
  const peer_view peer(far_memory.data());
  CHECK(peer.data()[0] == sent_byte);

  far.end();
  CHECK(is_private(far_memory.data()));
  CHECK(far_memory.holds(sent_byte));
  // A hostile peer still has the file.
  far_memory.data()[0] = 1;
  CHECK(std::all_of(peer.data(), peer.data() + size, [](std::uint8_t each) { return each == 0; }));
  peer.data()[1] = 2;
  CHECK(far_memory.data()[1] == sent_byte);
  // Allocators rely on this.
  REQUIRE(::madvise(far_memory.data(page_bytes), size - page_bytes, MADV_DONTNEED) == 0);
  CHECK(far_memory.holds(0, page_bytes, size - page_bytes));

  SECTION("a request with the old key is refused")
  {
    REQUIRE(
      c.a.write(1, near.sge(), reinterpret_cast<std::uintptr_t>(far_memory.data()), key) == 0);
    CHECK(c.a.sent().next().status == IBV_WC_REM_ACCESS_ERR);
    CHECK(far_memory.holds(0, page_bytes, size - page_bytes));
  }
  SECTION("they can be registered again")
  {
    const registration again(c.far, far_memory);
    CHECK(is_moved(far_memory.data()));
    CHECK(far_memory.data()[0] == 1);
    for (int i = 0; i != 2; ++i)
      complete_write(c.a, near.sge(), again.address(), again.key());
    CHECK(far_memory.holds(sent_byte));
  }
}

#if !BOOST_RDMA_TEST_THREAD_SANITIZER // for which mmap(2) is a write
TEST_CASE("threads that write to moved pages while they are deregistered lose no write")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_device d;
  const pages memory;
  const auto word = [&](std::size_t i)
  { return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data(i * page_bytes))); };
  for (std::size_t i = 0; i != size / page_bytes; ++i)
    word(i) = 0;
  std::uint64_t written = 0;
  for (int round = 0; round != 20; ++round)
  {
    registration r(d, memory);
    REQUIRE(is_moved(memory.data()));
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> turns{0};
    std::thread writes(
      [&]
      {
        do
        {
          for (std::size_t i = 0; i != size / page_bytes; ++i)
            ++word(i);
          ++turns;
        } while (!stop);
      });
    REQUIRE(until([&] { return turns != 0; }));
    r.end();
    const std::uint64_t before = turns;
    REQUIRE(until([&] { return turns > before + 1; }));
    stop = true;
    writes.join();
    written += turns;
  }
  for (std::size_t i = 0; i != size / page_bytes; ++i)
    REQUIRE(word(i) == written);
}
#endif

TEST_CASE("registrations that overlap share moved pages or none")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_pair c;
  const pages near_memory;
  const pages far_memory;
  const registration near(c.near, near_memory);
  near_memory.fill(sent_byte);
  constexpr std::size_t half = size / 2;
  SECTION("one inside another")
  {
    registration outer(c.far, far_memory);
    registration inner(c.far, far_memory, half, half);
    for (int i = 0; i != 2; ++i)
      complete_write(c.a, near.sge(0, half), inner.address(), inner.key());
    outer.end();
    CHECK(is_moved(far_memory.data(half)));
    CHECK(far_memory.holds(kept_byte, 0, half));
    CHECK(far_memory.holds(sent_byte, half, half));
    near_memory.fill(7);
    complete_write(c.a, near.sge(0, half), inner.address(), inner.key());
    inner.end();
    CHECK(far_memory.holds(7, half, half));
    CHECK(is_private(far_memory.data()));
    CHECK(is_private(far_memory.data(half)));
  }
  SECTION("one partly in another")
  {
    registration first(c.far, far_memory, 0, half + page_bytes);
    registration second(c.far, far_memory, half, half);
    CHECK(is_moved(far_memory.data(half)));
    CHECK(is_private(far_memory.data(half + page_bytes)));
    for (int i = 0; i != 2; ++i)
      complete_write(c.a, near.sge(0, half), second.address(), second.key());
    CHECK(far_memory.holds(sent_byte, half, half));
    first.end();
    CHECK(far_memory.holds(sent_byte, half, half));
    near_memory.fill(7);
    complete_write(c.a, near.sge(0, half), second.address(), second.key());
    CHECK(far_memory.holds(7, half, half));
  }
  SECTION("one around another that is too small to be moved")
  {
    const registration small(c.far, far_memory, page_bytes, page_bytes);
    const registration large(c.far, far_memory);
    CHECK(is_private(far_memory.data(page_bytes)));
    complete_write(c.a, near.sge(), large.address(), large.key());
    CHECK(far_memory.holds(sent_byte));
  }
}

TEST_CASE("a change of a registration moves the new pages and moves back the old ones")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_device d;
  const pages first;
  const pages second;
  ibv_mr* const mr = d.api().reg_mr(d.pd(), first.data(), size, all_access);
  REQUIRE(mr != nullptr);
  REQUIRE(
    rdma::software::rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.data(), size, 0)
    == 0);
  CHECK(is_private(first.data()));
  CHECK(is_moved(second.data()));
  CHECK(first.holds(kept_byte));
  CHECK(second.holds(kept_byte));
  CHECK(d.api().dereg_mr(mr) == 0);
  CHECK(is_private(second.data()));
}

TEST_CASE("a program may unmap moved pages before it deregisters them")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_pair c;
  const pages near_memory;
  const pages far_memory;
  const registration near(c.near, near_memory);
  registration far(c.far, far_memory);
  near_memory.fill(sent_byte);
  for (int i = 0; i != 2; ++i)
    complete_write(c.a, near.sge(), far.address(), far.key());
  // Other memory takes the place of a part.
  constexpr std::size_t part = 128 * 1024;
  REQUIRE(::mmap(far_memory.data(), part, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
    != MAP_FAILED);
  std::fill_n(far_memory.data(), part, std::uint8_t{7});
  complete_write(c.a, near.sge(), far.address(), far.key());
  CHECK(far_memory.holds(7, 0, part));
  SECTION("other memory at their place is left as it is")
  {
    far.end();
    CHECK(far_memory.holds(7, 0, part));
    CHECK(far_memory.holds(sent_byte, part, size - part));
    CHECK(is_private(far_memory.data(part)));
  }
  SECTION("a new registration at their place is of the new memory")
  {
    const registration again(c.far, far_memory, 0, part);
    for (int i = 0; i != 2; ++i)
      complete_write(c.a, near.sge(0, part), again.address(), again.key());
    CHECK(far_memory.holds(sent_byte, 0, part));
  }
}

TEST_CASE("only private anonymous memory is moved")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_device d;
  SECTION("not a file")
  {
    const rdma::detail::descriptor file(::memfd_create("test", MFD_CLOEXEC));
    REQUIRE(::ftruncate(file.get(), size) == 0);
    const pages memory(size, MAP_PRIVATE, file.get());
    const registration r(d, memory);
    CHECK(is_private(memory.data()));
  }
  SECTION("not shared memory")
  {
    const pages memory(size, MAP_SHARED | MAP_ANONYMOUS);
    const auto before = mapping_of(memory.data());
    const registration r(d, memory);
    CHECK(mapping_of(memory.data())->inode == before->inode);
  }
  SECTION("not memory that has a protected page")
  {
    const pages memory;
    REQUIRE(::mprotect(memory.data(page_bytes), page_bytes, PROT_READ) == 0);
    const registration r(d, memory);
    CHECK(is_private(memory.data()));
  }
  SECTION("not the heap")
  {
    auto* const heap = static_cast<std::uint8_t*>(::sbrk(size));
    REQUIRE(heap != reinterpret_cast<std::uint8_t*>(-1));
    ibv_mr* const mr = d.api().reg_mr(d.pd(), heap, size, all_access);
    CHECK(is_private(heap + page_bytes));
    CHECK(d.api().dereg_mr(mr) == 0);
  }
  SECTION("not the stack")
  {
    std::array<std::uint8_t, size> bytes;
    ibv_mr* const mr = d.api().reg_mr(d.pd(), bytes.data(), size, all_access);
    CHECK(is_private(bytes.data() + page_bytes));
    CHECK(d.api().dereg_mr(mr) == 0);
  }
  SECTION("not a few pages")
  {
    const pages memory;
    const registration r(d, memory, 0, rdma::software::moved_pages::size_min - 1);
    CHECK(is_private(memory.data()));
  }
}

TEST_CASE("a limited number of ranges is moved at a time")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  moving_device d;
  constexpr std::size_t each = rdma::software::moved_pages::size_min;
  constexpr std::size_t most = rdma::software::moved_pages::areas_max;
  const pages memory((most + 1) * each);
  std::vector<std::unique_ptr<registration>> all;
  for (std::size_t i = 0; i != most + 1; ++i)
    all.push_back(std::make_unique<registration>(d, memory, i * each, each));
  CHECK(is_moved(memory.data((most - 1) * each)));
  CHECK(is_private(memory.data(most * each)));
  all.front().reset();
  all.back() = std::make_unique<registration>(d, memory, most * each, each);
  CHECK(is_private(memory.data(most * each))); // the first registration of it still exists
  all.pop_back();
  const registration again(d, memory, most * each, each);
  CHECK(is_moved(memory.data(most * each)));
}

TEST_CASE("a child of fork() does not have moved pages")
{
  BOOST_RDMA_TEST_FORKS();
  BOOST_RDMA_TEST_NEEDS(software_device);
  const pages memory;
  {
    moving_device d;
    const registration r(d, memory, 100, size - 100);
    CHECK(in_child(
            [&]
            {
              std::string wrong;
              if (memory.data()[0] != kept_byte)
                wrong += "no page that is registered in part; ";
              if (mapping_of(memory.data(page_bytes)))
                wrong += "a moved page; ";
              return wrong;
            })
      == "");
  }
  CHECK(in_child(
          [&]
          {
            memory.data(page_bytes)[0] = 1;
            return std::string(
              memory.holds(kept_byte, page_bytes + 1, size - page_bytes - 1) ? "" : "no page");
          })
    == "");
  CHECK(memory.data(page_bytes)[0] == kept_byte);
}
