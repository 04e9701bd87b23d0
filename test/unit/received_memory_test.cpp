//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/catch.hpp"
#include "common/shared_bytes.hpp"
#include "verbs/software/wire/direct_access.hpp"
#include "verbs/software/wire/local_socket.hpp"
#include "verbs/software/wire/segment.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// Descriptors of memory that a peer sends. The peer must not be able to change the memory's size
// afterwards: access behind its end raises SIGBUS.

namespace {

using namespace rdma::software::wire;

off_t size_of(const descriptor& fd)
{
  struct stat status
  {
  };
  REQUIRE(::fstat(fd.get(), &status) == 0);
  return status.st_size;
}

// The size of a link's segment.
off_t segment_size()
{
  descriptor fd;
  REQUIRE(segment::create(fd));
  return size_of(fd);
}

// A file without a name, of a file system that has no seals; none where /var/tmp and /tmp are
// tmpfs.
descriptor plain_file(off_t size)
{
  for (const char* directory : {"/var/tmp", "/tmp"})
  {
    std::string name = std::string(directory) + "/boost_rdma_XXXXXX";
    descriptor fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd)
      continue;
    ::unlink(name.c_str());
    if (::fcntl(fd.get(), F_GET_SEALS) == -1 && ::ftruncate(fd.get(), size) == 0)
      return fd;
  }
  return {};
}

descriptor memory_file(off_t size, int seals)
{
  descriptor fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(fd);
  REQUIRE(::ftruncate(fd.get(), size) == 0);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

} // namespace

TEST_CASE(
  "memory with one writer can be mapped for reading only, also if its descriptor is reopened")
{
  const test::shared_bytes memory(4096, rdma::software::writers::owner);
  memory.data()[0] = std::byte{7}; // the owner writes through the mapping that it has
  const std::string again = "/proc/self/fd/" + std::to_string(memory.fd());
  const descriptor reopened(::open(again.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(reopened);
  for (const int fd : {memory.fd(), reopened.get()})
  {
    CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(::pwrite(fd, "x", 1, 0) == -1);
    void* const at = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    CHECK(::mprotect(at, 4096, PROT_READ | PROT_WRITE) == -1);
    CHECK(*static_cast<const std::byte*>(at) == std::byte{7});
    ::munmap(at, 4096);
  }
}

TEST_CASE("a link maps no segment that the peer can truncate")
{
  const off_t size = segment_size();
  CHECK(segment::map(memory_file(size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)));
  CHECK_FALSE(segment::map(memory_file(size, 0)));
  CHECK_FALSE(segment::map(memory_file(size, F_SEAL_GROW | F_SEAL_SEAL)));
  CHECK_FALSE(segment::map(memory_file(size + 1, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)));
  CHECK_FALSE(segment::map(descriptor()));
  const descriptor file = plain_file(size);
  if (!file)
  {
    WARN("skipped here: neither /var/tmp nor /tmp is on a file system without seals");
    return;
  }
  CHECK_FALSE(segment::map(file));
}

TEST_CASE("direct access maps no memory that the peer can truncate")
{
  constexpr off_t size = 8192;
  CHECK(mapped_area::map(memory_file(size, F_SEAL_SHRINK | F_SEAL_GROW)));
  CHECK_FALSE(mapped_area::map(memory_file(size, 0)));
  CHECK_FALSE(mapped_area::map(memory_file(0, F_SEAL_SHRINK | F_SEAL_GROW)));
  CHECK_FALSE(mapped_area::map(descriptor()));
  const descriptor file = plain_file(size);
  if (!file)
  {
    WARN("skipped here: neither /var/tmp nor /tmp is on a file system without seals");
    return;
  }
  CHECK_FALSE(mapped_area::map(file));
}
