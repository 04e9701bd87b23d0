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

// Checks of registered memory: its limits and its cost.

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

// CAP_IPC_LOCK lifts the limit, but only outside of user namespaces, because the kernel checks the
// capability in the initial namespace.
bool may_lock_everything(const file_tree& files)
{
  constexpr int ipc_lock = 14;           // linux/capability.h
  constexpr char whole[] = "4294967295"; // the full range: not in a user namespace
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
      "the limit of locked memory has no effect: there is no NIC, and the software device locks "
      "none",
      {}, {}}};
  // siw counts locked memory itself and ignores the capability (siw_mem.c, Linux 6.1).
  const auto nics = on.nics();
  const bool counts_all =
    std::ranges::any_of(nics, [](const device_report* each) { return each->driver == "siw"; });
  if (!counts_all && may_lock_everything(on.files))
    return {{level::ok, "this user may lock any memory (CAP_IPC_LOCK)", {}, {}}};
  const reading limits = on.files.read("/proc/self/limits");
  if (!limits.text)
    return {cannot_tell("the limit of locked memory", limits.why_not)};
  const std::string value = value_of(*limits.text, "Max locked memory").value_or("");
  if (value.starts_with("unlimited"))
    return {{level::ok, "any amount of memory may be locked", {}, {}}};
  const auto bytes = parsed(value);
  if (!bytes)
    return {cannot_tell(
      "the limit of locked memory", "no number in /proc/self/limits: \"" + value + '"')};
  // The hard limit follows. `ulimit -l` can raise the soft limit up to it without root.
  const std::size_t second = value.find_first_not_of(' ', value.find(' '));
  const std::string hard = second == std::string::npos ? std::string() : value.substr(second);
  const rdma::memory_pool_options pool;
  const std::string seen = "this process may lock " + in_kib(*bytes) + " (RLIMIT_MEMLOCK)";
  if (*bytes >= pool.size_max)
    return {{level::ok, seen, {}, {}}};
  const bool within_hard =
    hard.starts_with("unlimited") || parsed(hard).value_or(0) >= pool.size_max;
  return {{level::stops,
    seen + "; " + in_kib(pool.size_max) + " are needed for the maximum size of a pool",
    "memory registered with a NIC is locked, and beyond the limit registration fails with ENOMEM. "
    "A pool starts with "
      + in_kib(pool.arena_size)
      + " (memory_pool_options); the program's own regions and buffers need more. This is the "
        "limit of the shell "
        "in which rdma_info runs; a service has its own",
    (within_hard ? "ulimit -l " + std::to_string(pool.size_max / kib) + "; " : std::string())
      + "for logins, a line \"* - memlock unlimited\" in /etc/security/limits.d/rdma.conf; "
        "LimitMEMLOCK=infinity for a systemd service; --ulimit memlock=-1 for a container"}};
}

findings check_registration_cache(const machine& on)
{
  if (!on.by_default || on.by_default->device.empty())
    return {};
  if (on.by_default->keeps_registrations)
    return {{level::ok, "registrations of plain memory are cached (userfaultfd works)", {}, {}}};
  return {{on.has_nic() ? level::slows : level::note,
    "registrations of plain memory are not cached: " + on.by_default->why_not_kept,
    "every operation on a large unregistered buffer registers it again, which takes tens of "
    "microseconds on a NIC",
    "before Linux 5.11: sysctl vm.unprivileged_userfaultfd=1; in a container: a seccomp profile "
    "that allows userfaultfd; "
    "or use registered buffers"}};
}

findings check_huge_pages(const machine& on)
{
  const reading enabled = on.files.read("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!enabled.text)
    return {cannot_tell("if there are transparent huge pages", enabled.why_not)};
  const std::string mode = chosen_word(*enabled.text).value_or(*enabled.text);
  if (mode == "never")
    return {{level::slows, "transparent huge pages are off (never)",
      "pools request them (huge_pages::transparent): with 2 MiB pages, the NIC and the processor "
      "need "
      "fewer table entries",
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
    return {}; // check_huge_pages reports it
  const std::string mode = chosen_word(*enabled.text).value_or(*enabled.text);
  if (mode != "never" && mode != "deny")
    return {{level::ok, "huge pages in shared memory: " + mode, {}, {}}};
  return {{level::note, "huge pages in shared memory are off (" + mode + ')',
    "before Linux 6.1, memory shared between processes uses small pages; private memory is not "
    "affected",
    "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"}};
}

findings check_overcommit(const machine& on)
{
  const auto mode = on.files.number("/proc/sys/vm/overcommit_memory");
  if (!mode)
    return {
      cannot_tell("the overcommit mode", on.files.read("/proc/sys/vm/overcommit_memory").why_not)};
  if (*mode != 2)
    return {{level::ok,
      "memory overcommit is permitted (vm.overcommit_memory=" + std::to_string(*mode) + ')', {},
      {}}};
  const std::string memory = on.files.read("/proc/meminfo").text.value_or("");
  return {{level::note,
    "memory overcommit is off (vm.overcommit_memory=2): "
      + value_of(memory, "Committed_AS").value_or("unknown") + " of "
      + value_of(memory, "CommitLimit").value_or("unknown"),
    "at the limit, pools cannot grow (ENOMEM) even if memory is free",
    "sysctl vm.overcommit_memory=0, or a higher vm.overcommit_ratio"}};
}

findings check_fork(const machine& on)
{
  if (!on.has_nic())
    return {};
  const reading release = on.files.read("/proc/sys/kernel/osrelease");
  if (!release.text)
    return {cannot_tell("the kernel version", release.why_not)};
  const auto major = parsed(*release.text);
  const auto minor =
    parsed(release.text->substr(std::min(release.text->find('.'), release.text->size() - 1) + 1));
  if (!major || !minor)
    return {cannot_tell("the kernel version", '"' + *release.text + '"')};
  // Since Linux 5.12, fork() copies pinned pages for the child immediately.
  if (std::pair(*major, *minor) >= std::pair<std::uint64_t, std::uint64_t>(5, 12))
    return {{level::ok,
      "Linux " + *release.text + " keeps registered memory with the parent after fork()", {}, {}}};
  return {{level::note, "Linux " + *release.text + " is older than 5.12",
    "a parent that writes to registered memory after fork() gets a copy, while the NIC continues "
    "to use the old page",
    "for programs that fork without exec: RDMAV_FORK_SAFE=1 in their environment "
    "(ibv_fork_init(3))"}};
}

} // namespace info
