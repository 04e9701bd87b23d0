//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#include "info/checks.hpp"

#include <boost_rdma/memory_pool.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

// Memory that is registered: how much may be, and what it costs.

namespace info {
namespace {

constexpr std::uint64_t kib = 1024;

std::string in_kib(std::uint64_t bytes)
{
  return std::to_string(bytes / kib) + " KiB";
}

std::optional<std::uint64_t> parsed(const std::string& text, int base = 10)
{
  std::uint64_t result = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), result, base);
  return failure == std::errc() && end != text.data() ? std::optional(result) : std::nullopt;
}

// CAP_IPC_LOCK lifts the limit, and only where it is the machine's: the kernel asks for it outside
// of user namespaces.
bool may_lock_everything(const file_tree& files)
{
  constexpr int ipc_lock = 14;           // linux/capability.h
  constexpr char whole[] = "4294967295"; // the range of a user namespace that is none
  const auto status = files.read("/proc/self/status").text;
  const auto effective = status ? value_of(*status, "CapEff") : std::nullopt;
  const auto bits = effective ? parsed(*effective, 16) : std::nullopt;
  const auto users = files.read("/proc/self/uid_map").text;
  return bits && (*bits >> ipc_lock & 1) != 0 && (!users || users->ends_with(whole));
}

} // namespace

findings check_locked_memory(const machine& on)
{
  if (!on.has_nic())
    return {{level::ok,
      "no limit of locked memory matters: there is no NIC, and the software device locks none", {},
      {}}};
  // siw counts what it locks by itself, and asks for no capability (siw_mem.c, Linux 6.1).
  const auto nics = on.nics();
  const bool counts_all =
    std::ranges::any_of(nics, [](const device_report* each) { return each->driver == "siw"; });
  if (!counts_all && may_lock_everything(on.files))
    return {{level::ok, "this user may lock any memory (CAP_IPC_LOCK)", {}, {}}};
  const reading limits = on.files.read("/proc/self/limits");
  if (!limits.text)
    return {cannot_tell("how much memory may be locked", limits.why_not)};
  const std::string value = value_of(*limits.text, "Max locked memory").value_or("");
  if (value.starts_with("unlimited"))
    return {{level::ok, "any amount of memory may be locked", {}, {}}};
  const auto bytes = parsed(value);
  if (!bytes)
    return {cannot_tell(
      "how much memory may be locked", "no number in /proc/self/limits: \"" + value + '"')};
  // The hard limit stands behind it, and is as far as `ulimit -l` goes without root.
  const std::size_t second = value.find_first_not_of(' ', value.find(' '));
  const std::string hard = second == std::string::npos ? std::string() : value.substr(second);
  const rdma::memory_pool_options pool;
  const std::string seen = "this process may lock " + in_kib(*bytes) + " (RLIMIT_MEMLOCK)";
  if (*bytes >= pool.size_max)
    return {{level::ok, seen, {}, {}}};
  const bool within_hard =
    hard.starts_with("unlimited") || parsed(hard).value_or(0) >= pool.size_max;
  return {
    {level::stops, seen + "; " + in_kib(pool.size_max) + " are needed for what a pool may grow to",
      "memory registered with a NIC is locked, and registering more fails with ENOMEM. "
      "A pool begins with "
        + in_kib(pool.arena_size)
        + " (memory_pool_options); regions and buffers of the program's come on top. This is the "
          "limit of the shell "
          "that rdma_info ran in; a service has its own",
      (within_hard ? "ulimit -l " + std::to_string(pool.size_max / kib) + "; " : std::string())
        + "for logins, a line \"* - memlock unlimited\" in /etc/security/limits.d/rdma.conf; "
          "LimitMEMLOCK=infinity for a systemd service; --ulimit memlock=-1 for a container"}};
}

findings check_registration_cache(const machine& on)
{
  if (!on.by_default || on.by_default->device.empty())
    return {};
  if (on.by_default->keeps_registrations)
    return {{level::ok, "registrations of plain memory are kept (userfaultfd works)", {}, {}}};
  return {{on.has_nic() ? level::slows : level::note,
    "registrations of plain memory are not kept: " + on.by_default->why_not_kept,
    "every operation on a large buffer that is not registered registers it anew, which costs a NIC "
    "tens of microseconds",
    "before Linux 5.11: sysctl vm.unprivileged_userfaultfd=1; in a container: a seccomp profile "
    "that allows userfaultfd; "
    "or registered buffers"}};
}

findings check_huge_pages(const machine& on)
{
  const reading enabled = on.files.read("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!enabled.text)
    return {cannot_tell("whether there are transparent huge pages", enabled.why_not)};
  const std::string mode = chosen_word(*enabled.text).value_or(*enabled.text);
  if (mode == "never")
    return {{level::slows, "transparent huge pages are off (never)",
      "pools ask for them (huge_pages::transparent): a NIC and the processor need fewer entries of "
      "their tables for 2 MiB pages",
      "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"}};
  const auto reserved = on.files.number("/proc/sys/vm/nr_hugepages");
  return {{level::ok,
    "transparent huge pages: " + mode
      + (reserved ? ", and " + std::to_string(*reserved) + " set apart (for huge_pages::reserved)"
                  : ""),
    {}, {}}};
}

findings check_shared_huge_pages(const machine& on)
{
  const reading enabled = on.files.read("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (!enabled.text)
    return {}; // a kernel without huge pages, of which check_huge_pages tells
  const std::string mode = chosen_word(*enabled.text).value_or(*enabled.text);
  if (mode != "never" && mode != "deny")
    return {{level::ok, "huge pages in shared memory: " + mode, {}, {}}};
  return {{level::note, "there are no huge pages in shared memory (" + mode + ')',
    "memory that processes share is in small pages then; private memory is not concerned",
    "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"}};
}

findings check_overcommit(const machine& on)
{
  const auto mode = on.files.number("/proc/sys/vm/overcommit_memory");
  if (!mode)
    return {cannot_tell(
      "how memory is committed", on.files.read("/proc/sys/vm/overcommit_memory").why_not)};
  if (*mode != 2)
    return {{level::ok,
      "memory is committed freely (vm.overcommit_memory=" + std::to_string(*mode) + ')', {}, {}}};
  const std::string memory = on.files.read("/proc/meminfo").text.value_or("");
  return {{level::note,
    "memory is committed strictly (vm.overcommit_memory=2): "
      + value_of(memory, "Committed_AS").value_or("unknown") + " of "
      + value_of(memory, "CommitLimit").value_or("unknown"),
    "beyond that, pools cannot grow (ENOMEM), whatever memory is free",
    "sysctl vm.overcommit_memory=0, or vm.overcommit_ratio higher"}};
}

findings check_fork(const machine& on)
{
  if (!on.has_nic())
    return {};
  const reading release = on.files.read("/proc/sys/kernel/osrelease");
  if (!release.text)
    return {cannot_tell("which kernel this is", release.why_not)};
  const auto major = parsed(*release.text);
  const auto minor =
    parsed(release.text->substr(std::min(release.text->find('.'), release.text->size() - 1) + 1));
  if (!major || !minor)
    return {cannot_tell("which kernel this is", '"' + *release.text + '"')};
  // From then on the kernel copies pinned pages for the child at once.
  if (std::pair(*major, *minor) >= std::pair<std::uint64_t, std::uint64_t>(5, 12))
    return {{level::ok,
      "Linux " + *release.text + " keeps registered memory with the parent after fork()", {}, {}}};
  return {{level::note, "Linux " + *release.text + " is older than 5.12",
    "a parent that writes to registered memory after fork() gets a copy, while the NIC goes on "
    "with the old page",
    "for programs that fork without exec: RDMAV_FORK_SAFE=1 in their environment "
    "(ibv_fork_init(3))"}};
}

} // namespace info
