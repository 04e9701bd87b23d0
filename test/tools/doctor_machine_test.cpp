//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "tools/fake_tree.hpp"

#include <cerrno>

// Tests the doctor's checks of the machine: memory, processors, kernel and process limits.

using info::level;
using test::findings_of;
using test::finds;

namespace {

constexpr char ipc_lock[] = "0000000000004000";
constexpr char own_namespace[] = "         0       1000          1";
constexpr char no_namespace[] = "         0          0 4294967295";

} // namespace

TEST_CASE(
  "the doctor names the required amount when the limit of locked memory is too low for a NIC")
{
  test::fake_tree tree;
  tree.add_nic().limits("8388608").status("0-7");
  finds(findings_of(tree, "locked memory"), level::stops,
    {"8192 KiB", "4194304 KiB are needed", "2048 KiB", "ulimit -l 4194304",
      "LimitMEMLOCK=infinity"});
  tree.limits("8388608", "1024", "8388608"); // with this hard limit no shell can raise it
  const info::findings fixed = findings_of(tree, "locked memory");
  finds(fixed, level::stops, {"8192 KiB", "LimitMEMLOCK=infinity"});
  CHECK(fixed[0].remedy.find("ulimit -l") == std::string::npos);
  tree.limits("4294967296");
  finds(findings_of(tree, "locked memory"), level::ok, {"4194304 KiB"});
  tree.limits("unlimited");
  finds(findings_of(tree, "locked memory"), level::ok, {"any amount"});
}

TEST_CASE("the doctor accepts CAP_IPC_LOCK instead of a limit except inside a user namespace")
{
  test::fake_tree tree;
  tree.add_nic().limits("65536").status("0-7", ipc_lock).write("/proc/self/uid_map", no_namespace);
  finds(findings_of(tree, "locked memory"), level::ok, {"CAP_IPC_LOCK"});
  tree.write("/sys/class/infiniband/mlx5_0/node_desc", "Software iWARP stack");
  // The siw driver does not check for the capability.
  finds(findings_of(tree, "locked memory"), level::stops, {"64 KiB"});
  tree.remove("/sys/class/infiniband/mlx5_0/node_desc");
  tree.write("/proc/self/uid_map", own_namespace);
  finds(findings_of(tree, "locked memory"), level::stops, {"64 KiB"});
}

TEST_CASE("the doctor ignores the limit of locked memory without a NIC")
{
  test::fake_tree tree;
  tree.limits("65536").status("0-7");
  finds(findings_of(tree, "locked memory"), level::ok, {"no NIC"});
}

TEST_CASE("the doctor reports unknown and the reason when a limit cannot be read")
{
  test::fake_tree tree;
  tree.add_nic();
  finds(findings_of(tree, "locked memory"), level::unknown,
    {"cannot tell", "/proc/self/limits: No such file or directory"});
  finds(findings_of(tree, "descriptors"), level::unknown, {"cannot tell", "/proc/self/limits"});
  finds(findings_of(tree, "processors"), level::unknown, {"Cpus_allowed_list"});
  tree.limits("nonsense", "nonsense");
  finds(findings_of(tree, "locked memory"), level::unknown, {"nonsense"});
  finds(findings_of(tree, "descriptors"), level::unknown, {"nonsense"});
}

TEST_CASE("the doctor reports a slowdown when registrations of a NIC are not kept")
{
  test::fake_tree tree;
  tree.add_nic();
  info::machine on = tree.machine();
  on.by_default = info::default_report{};
  on.by_default->device = "mlx5_0";
  on.by_default->why_not_kept = "userfaultfd(2): Operation not permitted";
  finds(
    findings_of(on, "registration cache"), level::slows, {"Operation not permitted", "seccomp"});
  on.by_default->keeps_registrations = true;
  finds(findings_of(on, "registration cache"), level::ok, {});
}

TEST_CASE("the doctor names the command when transparent huge pages are off")
{
  test::fake_tree tree;
  finds(findings_of(tree, "huge pages"), level::unknown, {"transparent_hugepage/enabled"});
  tree.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  finds(findings_of(tree, "huge pages"), level::slows, {"never", "echo madvise"});
  tree.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  tree.write("/proc/sys/vm/nr_hugepages", "16");
  finds(findings_of(tree, "huge pages"), level::ok, {"madvise", "16 set apart"});
  CHECK(findings_of(tree, "shared huge pages").empty());
  tree.write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "always within_size advise [never] deny force");
  finds(findings_of(tree, "shared huge pages"), level::note, {"never", "shmem_enabled"});
  tree.write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "always within_size [advise] never deny force");
  finds(findings_of(tree, "shared huge pages"), level::ok, {"advise"});
}

TEST_CASE("the doctor notes the commit limit when memory is strictly committed")
{
  test::fake_tree tree;
  tree.write("/proc/sys/vm/overcommit_memory", "2");
  tree.write(
    "/proc/meminfo", "MemTotal:       1000 kB\nCommitLimit:     700 kB\nCommitted_AS:    650 kB");
  finds(
    findings_of(tree, "overcommit"), level::note, {"650 kB of 700 kB", "vm.overcommit_memory=0"});
  tree.write("/proc/sys/vm/overcommit_memory", "0");
  finds(findings_of(tree, "overcommit"), level::ok, {});
}

TEST_CASE("the doctor notes the limits of fork() on kernels before 5.12")
{
  test::fake_tree tree;
  CHECK(findings_of(tree, "fork").empty()); // without a NIC no memory is pinned
  tree.add_nic().write("/proc/sys/kernel/osrelease", "5.10.0-28-amd64");
  finds(findings_of(tree, "fork"), level::note, {"5.10.0-28-amd64", "RDMAV_FORK_SAFE=1"});
  for (const char* later : {"5.12.0", "6.1.0-56-amd64"})
  {
    tree.write("/proc/sys/kernel/osrelease", later);
    finds(findings_of(tree, "fork"), level::ok, {later});
  }
  tree.write("/proc/sys/kernel/osrelease", "strange");
  finds(findings_of(tree, "fork"), level::unknown, {"strange"});
}

TEST_CASE("the doctor reports a slowdown when there is only one processor")
{
  test::fake_tree tree;
  tree.status("3");
  finds(findings_of(tree, "processors"), level::slows, {"one processor", "completion_mode::event"});
  tree.status("0-1");
  finds(findings_of(tree, "processors"), level::ok, {"2 processors"});
}

TEST_CASE("the doctor uses the smallest processor quota of a control group and its parents")
{
  test::fake_tree tree;
  CHECK(findings_of(tree, "processor quota").empty());
  tree.write("/proc/self/cgroup", "1:cpu:/old\n0::/a.slice/b.service");
  tree.write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000");
  CHECK(findings_of(tree, "processor quota").empty());
  tree.write("/sys/fs/cgroup/a.slice/cpu.max", "400000 100000");
  finds(
    findings_of(tree, "processor quota"), level::ok, {"4.00", "/sys/fs/cgroup/a.slice/cpu.max"});
  tree.write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "50000 100000");
  finds(
    findings_of(tree, "processor quota"), level::slows, {"0.50", "b.service/cpu.max", "CPUQuota="});
}

TEST_CASE("the doctor evaluates a frequency governor according to its driver")
{
  test::fake_tree tree;
  finds(findings_of(tree, "frequency"), level::unknown, {"cannot tell"});
  const std::string directory = "/sys/devices/system/cpu/cpu0/cpufreq/";
  tree.write(directory + "scaling_governor", "performance")
    .write(directory + "scaling_driver", "acpi-cpufreq");
  // This is not a processor's directory.
  tree.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave");
  finds(findings_of(tree, "frequency"), level::ok, {"performance on 1"});
  tree.write(directory + "scaling_governor", "powersave");
  finds(findings_of(tree, "frequency"), level::slows,
    {"powersave on 1", "cpupower frequency-set -g performance"});
  // Its powersave governor raises the frequency under load.
  tree.write(directory + "scaling_driver", "intel_pstate");
  finds(findings_of(tree, "frequency"), level::note, {"intel_pstate"});
}

TEST_CASE("the doctor reports a slowdown when all processors are on another NUMA node than the NIC")
{
  test::fake_tree tree;
  tree.add_nic().status("0-3");
  CHECK(findings_of(tree, "NUMA").empty());
  tree.write("/sys/class/infiniband/mlx5_0/device/numa_node", "1");
  finds(findings_of(tree, "NUMA"), level::unknown, {"node1/cpulist"});
  tree.write("/sys/devices/system/node/node1/cpulist", "4-7");
  finds(findings_of(tree, "NUMA"), level::slows,
    {"node 1, 0 of this process's 4", "numactl --cpunodebind=1"});
  tree.status("2-5");
  finds(findings_of(tree, "NUMA"), level::note, {"2 of this process's 4"});
  tree.status("4-7");
  finds(findings_of(tree, "NUMA"), level::ok, {"4 of this process's 4"});
}

TEST_CASE("the doctor names both PCI links when the NIC runs below its maximum")
{
  test::fake_tree tree;
  tree.add_nic();
  const std::string device = "/sys/class/infiniband/mlx5_0/device/";
  finds(findings_of(tree, "PCI Express"), level::unknown, {"mlx5_0"});
  tree.write(device + "current_link_width", "8").write(device + "max_link_width", "16");
  tree.write(device + "current_link_speed", "8.0 GT/s PCIe")
    .write(device + "max_link_speed", "16.0 GT/s PCIe");
  finds(findings_of(tree, "PCI Express"), level::slows,
    {"8 lanes at 8.0 GT/s PCIe", "16 at 16.0 GT/s PCIe", "lspci -vv"});
  tree.write(device + "current_link_width", "16");
  finds(findings_of(tree, "PCI Express"), level::slows, {"16 lanes at 8.0"});
  tree.write(device + "current_link_speed", "16.0 GT/s PCIe");
  finds(findings_of(tree, "PCI Express"), level::ok, {"16 lanes at 16.0"});
}

TEST_CASE("the doctor reports an IOMMU only when it translates for a NIC")
{
  test::fake_tree tree;
  tree.add_nic();
  CHECK(findings_of(tree, "IOMMU").empty());
  const std::string group = "/sys/class/infiniband/mlx5_0/device/iommu_group/";
  tree.write(group + "name", "x");
  finds(findings_of(tree, "IOMMU"), level::unknown, {"type: No such file or directory"});
  tree.write(group + "type", "DMA-FQ");
  finds(findings_of(tree, "IOMMU"), level::slows, {"DMA-FQ", "iommu=pt"});
  tree.write(group + "type", "identity");
  finds(findings_of(tree, "IOMMU"), level::ok, {"identity"});
}

TEST_CASE("the doctor skips checks of the bus for Soft-RoCE")
{
  test::fake_tree tree;
  tree.add_nic().write("/sys/class/infiniband/mlx5_0/parent", "eth0");
  CHECK(findings_of(tree, "PCI Express").empty());
  CHECK(findings_of(tree, "NUMA").empty());
  CHECK(findings_of(tree, "IOMMU").empty());
}

TEST_CASE("the doctor names refused system calls with the reason")
{
  info::machine on;
  on.calls = {{"eventfd", ENOSYS}};
  finds(findings_of(on, "system calls"), level::stops, {"eventfd: Function not implemented"});
  on.calls = {{"memfd_create", EPERM}};
  finds(findings_of(on, "system calls"), level::note,
    {"memfd_create: Operation not permitted", "seccomp"});
  on.calls = {{"memfd_create", 0}};
  finds(findings_of(on, "system calls"), level::ok, {"memfd_create works"});
}

TEST_CASE("the doctor names the possible connections when the descriptor limit is low")
{
  test::fake_tree tree;
  tree.limits("unlimited", "1024");
  finds(findings_of(tree, "descriptors"), level::note, {"1024", "480 connections", "ulimit -n"});
  tree.limits("unlimited", "10");
  finds(findings_of(tree, "descriptors"), level::note, {"0 connections"});
  tree.limits("unlimited", "4096");
  finds(findings_of(tree, "descriptors"), level::ok, {"4096"});
}

TEST_CASE("the doctor notes a short listen backlog but not a long one")
{
  test::fake_tree tree;
  CHECK(findings_of(tree, "backlog").empty());
  tree.write("/proc/sys/net/core/somaxconn", "128");
  finds(findings_of(tree, "backlog"), level::note, {"128", "sysctl net.core.somaxconn=4096"});
  tree.write("/proc/sys/net/core/somaxconn", "4096");
  CHECK(findings_of(tree, "backlog").empty());
}

TEST_CASE(
  "the doctor notes a software device with loopback addresses and stops when it cannot be opened")
{
  info::machine on;
  info::device_report soft;
  soft.name = "soft0";
  soft.kind = rdma::device_kind::software;
  soft.usable = true;
  soft.ports.resize(1);
  soft.ports[0].gids = {{0, "TCP", {}, "127.0.0.1", {}}, {1, "TCP", {}, "::1", {}}};
  on.devices = {soft};
  finds(
    findings_of(on, "soft0 addresses"), level::note, {"loopback addresses only: 127.0.0.1, ::1"});
  on.devices[0].ports[0].gids.push_back({2, "TCP", {}, "10.0.0.1", {}});
  finds(findings_of(on, "soft0 addresses"), level::ok, {"by 10.0.0.1"});
  on.devices[0].usable = false;
  on.devices[0].remark = "Cannot assign requested address";
  finds(findings_of(on, "soft0 addresses"), level::stops,
    {"Cannot assign requested address", "ip link set lo up"});
}

TEST_CASE("the doctor reports a failed software device test and an unopened device only once")
{
  info::machine on;
  CHECK(findings_of(on, "soft0 test").empty());
  on.software_test = info::test_report{"soft0", info::test_outcome::passed, "quickly"};
  finds(findings_of(on, "soft0 test"), level::ok, {"soft0 works: quickly"});
  on.software_test->outcome = info::test_outcome::failed;
  on.software_test->text = "no message got through";
  finds(findings_of(on, "soft0 test"), level::stops, {"no message got through"});
  info::device_report soft;
  soft.kind = rdma::device_kind::software;
  on.devices = {soft};
  on.by_default = info::default_report{};
  on.by_default->trouble = "no address";
  CHECK(findings_of(on, "soft0 test").empty());
  CHECK(findings_of(on, "default device").empty());
  CHECK(findings_of(on, "soft0 addresses").size() == 1);
}

TEST_CASE("examine sorts the worst findings first")
{
  test::fake_tree tree;
  tree.add_nic().limits("65536", "1024").status("0").write("/sys/class/net/eth0/mtu", "1500");
  const auto found = info::examine(tree.machine());
  REQUIRE(found.size() > 5);
  CHECK(found.front().check == std::string("locked memory"));
  CHECK(found.front().what.how == level::stops);
  CHECK(found.back().what.how == level::ok);
  CHECK(std::ranges::is_sorted(
    found, std::ranges::greater(), [](const info::diagnosed& each) { return each.what.how; }));
}
