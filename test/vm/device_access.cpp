//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "common/in_child.hpp"
#include "common/texts.hpp"
#include "completion/queue_pair_core.hpp"
#include "vm/device_machine.hpp"

#include <boost_rdma/memory_region.hpp>
#include <boost_rdma/memory_window.hpp>

#include <functional>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>

// Tests the error texts, including the remedy, for a device that cannot be used.

using namespace test;

namespace {

constexpr uid_t nobody = 65534;

/// Returns the text that `body` returns as another user. This process must not have loaded
/// libibverbs.
std::string as_nobody(const std::function<std::string()>& body)
{
  return in_child(
    [&]() -> std::string
    {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(nobody, nobody, nobody) != 0
        || ::setresuid(nobody, nobody, nobody) != 0)
        return "cannot become another user";
      return body();
    });
}

} // namespace

TEST_CASE("opening a device without permission fails and names its file, the user and the remedy")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  afterwards back("chmod 666 /dev/infiniband/uverbs0");
  shell("chmod 600 /dev/infiniband/uverbs0");
  contains_all(as_nobody([] { return make_context().default_device().name(); }),
    {"rxe0", "/dev/infiniband/uverbs0", "user 65534", "Permission denied", "group", "udev"});
  contains_all(as_nobody(
                 []
                 {
                   for (const rdma::device_info& each : rdma::list_devices())
                     if (each.name == "rxe0")
                       return each.remark;
                   return std::string("not listed");
                 }),
    {"/dev/infiniband/uverbs0", "user 65534", "Permission denied", "group", "udev"});
  // No device was requested by name: another device is used, the software device if there is no
  // other.
  contains_all(
    as_nobody(
      [] { return rdma::context().default_device().name() == "rxe0" ? "rxe0" : "another"; }),
    {"another"});
}

TEST_CASE("opening a device whose file is missing fails and names the container option")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  afterwards back("mv /dev/infiniband/kept /dev/infiniband/uverbs0");
  shell("mv /dev/infiniband/uverbs0 /dev/infiniband/kept");
  contains_all(as_nobody([] { return make_context().default_device().name(); }),
    {"rxe0", "/dev/infiniband/uverbs0", "container", "--device"});
}

TEST_CASE(
  "registering beyond the locked-memory limit fails and names the limit, the need and the remedy")
{
  BOOST_RDMA_TEST_IN_MACHINE("rxe0");
  auto limited = [](const std::function<void(const rdma::context&)>& body)
  {
    return as_nobody(
      [&]
      {
        const rdma::context context = make_context();
        const rlimit little{64 * 1024, 64 * 1024};
        if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0)
          return std::string("no limit");
        body(context);
        return std::string("registered");
      });
  };
  contains_all(limited([](const rdma::context& context) { rdma::memory_region(context, 1 << 20); }),
    {"1048576 bytes", "64 KiB", "RLIMIT_MEMLOCK", "ulimit -l", "/etc/security/limits.d",
      "LimitMEMLOCK="});
  contains_all(limited([](const rdma::context& context) { (void)context.allocate(64); }),
    {"cannot allocate", "bytes", "64 KiB", "ulimit -l", "LimitMEMLOCK="});
  contains_all(limited([](const rdma::context& context) { rdma::memory_region(context, 4096); }),
    {"registered"});
}

TEST_CASE("operations that the device does not support fail and name the missing feature")
{
  BOOST_RDMA_TEST_IN_MACHINE("siw0");
  asio::io_context io;
  rdma::context context = make_context();
  const rdma::device device = context.default_device();
  CHECK_FALSE(device.has_atomics());
  CHECK_FALSE(device.has_memory_windows());
  CHECK_FALSE(device.has_immediate_data());
  CHECK(device.has_shared_receive_queues());

  auto complaint = [](auto make)
  {
    try
    {
      make();
    }
    catch (const rdma::system_error& e)
    {
      CHECK(e.code() == asio::error::operation_not_supported);
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  contains_all(complaint([&] { const rdma::memory_window window(context); }),
    {"siw0", "type 2 memory window"});

  rdma::queue_pair pair(io, context);
  CHECK(complaint([&] { (void)pair.local_endpoint(); }) != "nothing");
  contains_all(pair.diagnose().text(), {"siw0", "RDMA-CM"});

  // Simulates the connection manager; the refused operations are not sent to a peer.
  pair.core()->note_connected({}, {});
  rdma::registered_buffer buffer = context.allocate(64);
  rdma::memory_region region(context, 64, exposed);
  value_record added;
  pair.async_fetch_add(region.remote().first(8), 1, added.handler());
  REQUIRE(run_until(io, [&] { return added.done(); }));
  CHECK(added.ec == asio::error::operation_not_supported);
  contains_all(pair.diagnose().text(), {"atomic failed on siw0", "IBV_ATOMIC_NONE"});
  bytes_record written;
  pair.async_write_with_immediate(buffer, region.remote(), 7, written.handler());
  REQUIRE(run_until(io, [&] { return written.done(); }));
  CHECK(written.ec == asio::error::operation_not_supported);
  contains_all(pair.diagnose().text(), {"write failed on siw0", "immediate", "iWARP"});
  CHECK(pair.is_connected()); // a refusal ends only the operation
}
