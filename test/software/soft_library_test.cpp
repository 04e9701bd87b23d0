//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

// Tests which calls the library that tools/rdma_soft preloads refuses. The programs of
// test/programs/suite test its functions. It is not built with sanitizers.

#ifdef BOOST_RDMA_SOFT_LIBRARY

#include "common/catch.hpp"
#include "common/device_traits.hpp"

#include "verbs/api.hpp"
#include "verbs/descriptor.hpp"
#include "verbs/software/software.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

class soft_library
{
public:
  soft_library()
    : handle_(::dlopen(BOOST_RDMA_SOFT_LIBRARY, RTLD_NOW | RTLD_LOCAL))
  {
    if (handle_ == nullptr)
      throw std::runtime_error(::dlerror());
  }
  ~soft_library() { ::dlclose(handle_); }
  soft_library(const soft_library&) = delete;
  soft_library& operator=(const soft_library&) = delete;

  template <class Function>
  Function* get(const char* name) const
  {
    void* const found = ::dlsym(handle_, name);
    if (found == nullptr)
      throw std::runtime_error(std::string("no ") + name);
    return reinterpret_cast<Function*>(found);
  }

private:
  void* handle_;
};

#define CALL(library, function) library.get<decltype(::function)>(#function)

/// A context of the library's device.
class opened
{
public:
  explicit opened(const soft_library& library)
    : library_(library)
  {
    int count = 0;
    ibv_device** list = CALL(library, ibv_get_device_list)(&count);
    if (list == nullptr || count != 1)
      throw std::runtime_error("not one device");
    context_ = CALL(library, ibv_open_device)(list[0]);
    CALL(library, ibv_free_device_list)(list);
    if (context_ == nullptr)
      throw std::runtime_error("the device does not open");
  }
  ~opened()
  {
    if (context_ != nullptr)
      close();
  }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;

  ibv_context* get() const noexcept { return context_; }
  int close() { return CALL(library_, ibv_close_device)(std::exchange(context_, nullptr)); }

private:
  const soft_library& library_;
  ibv_context* context_ = nullptr;
};

} // namespace

TEST_CASE("the preloaded library refuses foreign objects")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  // Objects of this program's copy of the software device are as foreign to the library as those of
  // libibverbs.
  const auto& others = rdma::software::api();
  ibv_context* const context = rdma::software::open_device({});
  REQUIRE(context != nullptr);
  ibv_pd* const pd = others.alloc_pd(context);
  ibv_cq* const cq = others.create_cq(context, 4, nullptr, nullptr, 0);
  char bytes[8] = {};
  ibv_mr* const mr = others.reg_mr(pd, bytes, sizeof bytes, 0);
  REQUIRE(mr != nullptr);

  errno = 0;
  CHECK(CALL(library, ibv_open_device)(context->device) == nullptr);
  CHECK(errno == EINVAL);
  ibv_device_attr attributes;
  CHECK(CALL(library, ibv_query_device)(context, &attributes) == EINVAL);
  CHECK(CALL(library, ibv_alloc_pd)(context) == nullptr);
  CHECK(CALL(library, ibv_dealloc_pd)(pd) == EINVAL);
  CHECK(CALL(library, ibv_reg_mr)(pd, bytes, sizeof bytes, 0) == nullptr);
  errno = 0;
  CHECK(CALL(library, ibv_reg_dmabuf_mr)(pd, 0, sizeof bytes, 0, 0, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(CALL(library, ibv_dereg_mr)(mr) == EINVAL);
  CHECK(CALL(library, ibv_destroy_cq)(cq) == EINVAL);
  CALL(library, ibv_ack_cq_events)(cq, 1);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = cq;
  CALL(library, ibv_ack_async_event)(&event);
  event.event_type = IBV_EVENT_PORT_ACTIVE;
  event.element.port_num = 1;
  CALL(library, ibv_ack_async_event)(&event);
  CHECK(CALL(library, ibv_close_device)(context) == -1);

  CHECK(others.dereg_mr(mr) == 0);
  CHECK(others.destroy_cq(cq) == 0);
  CHECK(others.dealloc_pd(pd) == 0);
  CHECK(others.close_device(context) == 0);
}

TEST_CASE(
  "dlopen() finds the library by the names of libibverbs and librdmacm, with their versions")
{
  const std::string library = BOOST_RDMA_SOFT_LIBRARY;
  const std::string names = library.substr(0, library.rfind('/')) + "/drop_in/";
  const soft_library ours;
  for (const auto& [file, function, version] :
    {std::array{"libibverbs.so.1", "ibv_get_device_list", "IBVERBS_1.1"},
      std::array{"libibverbs.so", "ibv_reg_mr_iova2", "IBVERBS_1.8"},
      std::array{"librdmacm.so.1", "rdma_create_id", "RDMACM_1.0"},
      std::array{"librdmacm.so", "rdma_establish", "RDMACM_1.2"}})
  {
    CAPTURE(file);
    void* const opened = ::dlopen((names + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(opened != nullptr);
    CHECK(::dlvsym(opened, function, version) != nullptr);
    CHECK(::dlvsym(opened, function, version) == ::dlsym(opened, function));
    CHECK(::dlvsym(opened, function, "IBVERBS_1.99") == nullptr);
    // Not a second copy of the device:
    CHECK(::dlsym(opened, function) == reinterpret_cast<void*>(ours.get<void()>(function)));
    CHECK(::dlclose(opened) == 0);
  }
}

TEST_CASE("the preloaded library fails with EOPNOTSUPP for features that its device lacks")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  const opened device(library);
  ibv_pd* const pd = CALL(library, ibv_alloc_pd)(device.get());
  REQUIRE(pd != nullptr);
  const auto not_supported = [](const void* made)
  { return made == nullptr && errno == EOPNOTSUPP; };

  CHECK(not_supported(CALL(library, ibv_import_device)(0)));
  CHECK(not_supported(CALL(library, ibv_import_pd)(device.get(), 0)));
  CHECK(not_supported(CALL(library, ibv_import_mr)(pd, 0)));
  CHECK(not_supported(CALL(library, ibv_import_dm)(device.get(), 0)));
  CHECK(not_supported(library.get<ibv_context*(ibv_device*, void*)>("verbs_open_device")(
    device.get()->device, nullptr)));
  CHECK(CALL(library, ibv_get_device_index)(device.get()->device) == -1);
  CHECK(CALL(library, ibv_fork_init)() == 0);
  CHECK(CALL(library, ibv_dealloc_pd)(pd) == 0);
}

TEST_CASE("the preloaded library registers the pages of a DMA buffer")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  const opened device(library);
  ibv_pd* const pd = CALL(library, ibv_alloc_pd)(device.get());
  REQUIRE(pd != nullptr);
  const rdma::detail::descriptor buffer(::memfd_create("buffer", MFD_CLOEXEC));
  REQUIRE(::ftruncate(buffer.get(), 4096) == 0);
  ibv_mr* const mr = CALL(library, ibv_reg_dmabuf_mr)(pd, 0, 4096, 0, buffer.get(), 0);
  REQUIRE(mr != nullptr);
  CHECK(mr->length == 4096);
  CHECK(CALL(library, ibv_dereg_mr)(mr) == 0);
  CHECK(CALL(library, ibv_dealloc_pd)(pd) == 0);
}

TEST_CASE("the preloaded library closes a device that has remaining objects as libibverbs does")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  opened device(library);
  ibv_pd* const pd = CALL(library, ibv_alloc_pd)(device.get());
  ibv_cq* const cq = CALL(library, ibv_create_cq)(device.get(), 4, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  CHECK(device.close() == 0);
  CHECK(CALL(library, ibv_destroy_cq)(cq) == 0);
  CHECK(CALL(library, ibv_dealloc_pd)(pd) == 0);
}

TEST_CASE("the preloaded library provides the kernel's files of its device")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  const auto content = [&](const std::string& path)
  {
    const int file = library.get<int(const char*, int, ...)>("open")(path.c_str(), O_RDONLY);
    REQUIRE(file >= 0);
    char text[100];
    const ssize_t size = ::read(file, text, sizeof text);
    ::close(file);
    REQUIRE(size > 0);
    return std::string(text, static_cast<std::size_t>(size));
  };
  errno = 7;
  struct ::stat found
  {
  };
  CHECK(CALL(library, access)("/dev/infiniband/soft0", R_OK | W_OK) == 0);
  CHECK(
    library.get<int(const char*, struct ::stat*)>("stat")("/dev/infiniband/soft0", &found) == 0);
  CHECK(S_ISCHR(found.st_mode));
  const std::string device = "/sys/class/infiniband/soft0";
  CHECK(content(device + "/ports/1/state") == "4: ACTIVE\n");
  CHECK(content(device + "/ports/1/gids/0") == "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
  CHECK(content(device + "/ports/1/gid_attrs/types/0") == "RoCE v2\n");
  CHECK(content(device + "/ports/1/gid_attrs/ndevs/0") == "lo\n");
  CHECK(content(device + "/device/numa_node") == "-1\n");
  CHECK(errno == 7);

  DIR* const all = CALL(library, opendir)("/sys/class/infiniband");
  REQUIRE(all != nullptr);
  std::vector<std::string> names;
  while (const dirent* each = ::readdir(all))
    if (each->d_name[0] != '.')
      names.emplace_back(each->d_name);
  ::closedir(all);
  CHECK(names == std::vector<std::string>{"soft0"});
  for (const char* absent : {"/sys/class/infiniband/soft1", "/dev/infiniband/soft1"})
    CHECK((CALL(library, access)(absent, F_OK) == -1 && errno == ENOENT));
  CHECK(CALL(library, access)("/sys/class", F_OK) == 0);
  CHECK((CALL(library, access)(nullptr, F_OK) == -1 && errno == EFAULT));
}

// libfabric resolves an address with a blocking id, and then moves it to its own channel.
TEST_CASE("rdma_migrate_id moves an id whose blocking call has an event")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(1);
  rdma_cm_id* id = nullptr;
  REQUIRE(CALL(library, rdma_create_id)(nullptr, &id, nullptr, RDMA_PS_TCP) == 0);
  REQUIRE(
    CALL(library, rdma_resolve_addr)(id, nullptr, reinterpret_cast<sockaddr*>(&to), 1000) == 0);
  REQUIRE(id->event != nullptr);
  rdma_event_channel* const channel = CALL(library, rdma_create_event_channel)();
  REQUIRE(channel != nullptr);
  CHECK(CALL(library, rdma_migrate_id)(id, channel) == 0);
  CHECK(id->event == nullptr);
  REQUIRE(CALL(library, rdma_resolve_route)(id, 1000) == 0);
  rdma_cm_event* event = nullptr;
  REQUIRE(CALL(library, rdma_get_cm_event)(channel, &event) == 0);
  CHECK(event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
  CHECK(CALL(library, rdma_ack_cm_event)(event) == 0);
  CHECK(CALL(library, rdma_destroy_id)(id) == 0);
  CALL(library, rdma_destroy_event_channel)(channel);
}

// libfabric resolves the address that its peer told it.
TEST_CASE("rdma_getaddrinfo without a name reports the family of the address in its hints")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  for (const bool passive : {false, true})
  {
    rdma_addrinfo hints{};
    (passive ? hints.ai_src_addr : hints.ai_dst_addr) = reinterpret_cast<sockaddr*>(&address);
    (passive ? hints.ai_src_len : hints.ai_dst_len) = sizeof address;
    rdma_addrinfo* found = nullptr;
    REQUIRE(CALL(library, rdma_getaddrinfo)(nullptr, nullptr, &hints, &found) == 0);
    CHECK(found->ai_family == AF_INET6);
    CALL(library, rdma_freeaddrinfo)(found);
  }
}

TEST_CASE("the preloaded library reads the settings of its device from the environment")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  REQUIRE(::setenv("BOOST_RDMA_SOFT_ADDRESSES", "::1,127.0.0.1", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_SGE", "3", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_QUEUE_PAIRS", "4", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_COMPLETION_QUEUES", "5", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_SHARED_RECEIVE_QUEUES", "6", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_PROTECTION_DOMAINS", "7", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_MEMORY_REGIONS", "8", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_MEMORY_WINDOWS", "9", 1) == 0);
  REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_ADDRESS_HANDLES", "10", 1) == 0);
  {
    const opened device(library);
    ibv_device_attr attributes{};
    REQUIRE(CALL(library, ibv_query_device)(device.get(), &attributes) == 0);
    CHECK(attributes.max_sge == 3);
    CHECK(attributes.max_qp == 4);
    CHECK(attributes.max_cq == 5);
    CHECK(attributes.max_srq == 6);
    CHECK(attributes.max_pd == 7);
    CHECK(attributes.max_mr == 8);
    CHECK(attributes.max_mw == 9);
    CHECK(attributes.max_ah == 10);
    ibv_gid_entry entries[3];
    REQUIRE(
      CALL(library, _ibv_query_gid_table)(device.get(), entries, 3, 0, sizeof entries[0]) == 2);
    CHECK(entries[0].gid.raw[15] == 1);
    CHECK(entries[1].gid.raw[12] == 127);
  }
  for (const char* wrong : {"0", "1025", "3 ", "-3", "three", "99999999999"})
  {
    REQUIRE(::setenv("BOOST_RDMA_SOFT_MAX_SGE", wrong, 1) == 0);
    CHECK_THROWS_WITH(opened(library), "the device does not open");
  }
  REQUIRE(::unsetenv("BOOST_RDMA_SOFT_MAX_SGE") == 0);
  for (const char* wrong : {"-1", "3600001", "3 s"})
  {
    REQUIRE(::setenv("BOOST_RDMA_SOFT_RETRY_TIME_MIN", wrong, 1) == 0);
    CHECK_THROWS_WITH(opened(library), "the device does not open");
  }
  REQUIRE(::setenv("BOOST_RDMA_SOFT_RETRY_TIME_MIN", "0", 1) == 0);
  CHECK_NOTHROW(opened(library));
  REQUIRE(::setenv("BOOST_RDMA_SOFT_ADDRESSES", "::1,", 1) == 0);
  CHECK_THROWS_WITH(opened(library), "the device does not open");
  REQUIRE(::unsetenv("BOOST_RDMA_SOFT_ADDRESSES") == 0);
}

TEST_CASE("the preloaded library lists as many devices as BOOST_RDMA_SOFT_DEVICES demands")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  const auto name = [&](ibv_device* which)
  { return std::string(CALL(library, ibv_get_device_name)(which)); };
  REQUIRE(::setenv("BOOST_RDMA_SOFT_DEVICES", "3", 1) == 0);
  int count = 0;
  ibv_device** const list = CALL(library, ibv_get_device_list)(&count);
  REQUIRE(list != nullptr);
  REQUIRE(count == 3);
  CHECK(list[3] == nullptr);
  CHECK(name(list[0]) == "soft0");
  CHECK(name(list[2]) == "soft2");
  ibv_context* const first = CALL(library, ibv_open_device)(list[0]);
  ibv_context* const last = CALL(library, ibv_open_device)(list[2]);
  REQUIRE(first != nullptr);
  REQUIRE(last != nullptr);
  CHECK(last->device == list[2]);
  ibv_device_attr of_first{};
  ibv_device_attr of_last{};
  REQUIRE(CALL(library, ibv_query_device)(first, &of_first) == 0);
  REQUIRE(CALL(library, ibv_query_device)(last, &of_last) == 0);
  CHECK(of_first.node_guid != of_last.node_guid);
  CHECK(of_first.sys_image_guid == of_last.sys_image_guid);
  CHECK(of_last.node_guid == CALL(library, ibv_get_device_guid)(list[2]));
  CHECK(CALL(library, ibv_close_device)(first) == 0);
  CHECK(CALL(library, ibv_close_device)(last) == 0);
  CALL(library, ibv_free_device_list)(list);
  for (const char* wrong : {"0", "17", "two"})
  {
    REQUIRE(::setenv("BOOST_RDMA_SOFT_DEVICES", wrong, 1) == 0);
    CHECK_THROWS_WITH(opened(library), "the device does not open");
  }
  REQUIRE(::unsetenv("BOOST_RDMA_SOFT_DEVICES") == 0);
}

TEST_CASE("the preloaded library shares registered memory when BOOST_RDMA_SHARE_MEMORY is 1")
{
  BOOST_RDMA_TEST_NEEDS(software_device);
  const soft_library library;
  constexpr std::size_t size = 1 << 20;
  void* const memory =
    ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  std::memset(memory, 7, size);
  const auto is_shared = [&]
  {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.starts_with(
            (std::ostringstream() << std::hex << std::uintptr_t(memory)).str() + "-"))
        return line.find(" rw-s ") != std::string::npos;
    return false;
  };
  for (const char* value : {"1", "0", ""})
  {
    CAPTURE(value);
    REQUIRE(::setenv("BOOST_RDMA_SHARE_MEMORY", value, 1) == 0);
    const opened device(library);
    ibv_pd* const pd = CALL(library, ibv_alloc_pd)(device.get());
    ibv_mr* const mr = CALL(library, ibv_reg_mr)(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(mr != nullptr);
    CHECK(is_shared() == (std::string(value) == "1"));
    CHECK(CALL(library, ibv_dereg_mr)(mr) == 0);
    CHECK(CALL(library, ibv_dealloc_pd)(pd) == 0);
  }
  CHECK(std::all_of(static_cast<const char*>(memory), static_cast<const char*>(memory) + size,
    [](char each) { return each == 7; }));
  REQUIRE(::setenv("BOOST_RDMA_SHARE_MEMORY", "2", 1) == 0);
  CHECK_THROWS_WITH(opened(library), "the device does not open");
  REQUIRE(::unsetenv("BOOST_RDMA_SHARE_MEMORY") == 0);
  ::munmap(memory, size);
}

TEST_CASE("the preloaded library's dlopen resolves $ORIGIN to the directory of its caller")
{
  const soft_library library;
  const auto program = std::filesystem::read_symlink("/proc/self/exe").filename();
  REQUIRE(CALL(library, dlopen)((std::filesystem::path("$ORIGIN") / program).c_str(), RTLD_NOW)
    == nullptr);
  // It has found the program, which is not a shared library.
  CHECK(std::string(::dlerror()).find("cannot dynamically load") != std::string::npos);
}

#endif // BOOST_RDMA_SOFT_LIBRARY
