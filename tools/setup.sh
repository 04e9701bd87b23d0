# shellcheck shell=bash
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# Functions of tools/demo, tools/check, tools/rdma_vm, tools/rdma_soft and the scripts of test/; sourced, not run.

setup_say() { printf '\n== %s\n' "$*"; }
setup_fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

setup_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Debian 12 has Boost 1.81 and, as its default, 1.74. The default of Debian 13 is 1.83.
setup_boost_installed() {
  local version
  for version in 1.{81..99}; do
    if setup_installed "libboost$version-dev"; then
      return 0
    fi
  done
  return 1
}

# Prints the package of Boost.Serialization of the installed Boost.
setup_boost_serialization() {
  dpkg-query -W -f='${db:Status-Status} ${Package}\n' 'libboost1.*-dev' 2>/dev/null |
    sed -n 's/^installed libboost\(1\.[0-9]*\)-dev$/libboost-serialization\1-dev/p' | sort -V | tail -n 1
}

# Runs apt-get as root, and prints its output only if it fails.
setup_apt_get() {
  local -a as_root=()
  local log
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      setup_fail "only root can install packages, and sudo is not installed. Install as root: ${setup_missing[*]}"
    fi
    as_root=(sudo)
    if [[ ! -t 0 ]]; then
      as_root=(sudo -n) # no terminal to ask for a password
    fi
  fi
  log=$(mktemp)
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -q "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# setup_packages [--no-install]: installs the packages that the build needs.
setup_packages() {
  local package
  setup_missing=()
  if ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian system; the packages listed in doc/building.md must be installed."
    return 0
  fi
  for package in g++ cmake ninja-build ccache pkg-config libibverbs-dev librdmacm-dev \
    libspdlog-dev catch2 libcli11-dev libssl-dev openssl; do
    setup_installed "$package" || setup_missing+=("$package")
  done
  setup_boost_installed || setup_missing+=("$setup_any_boost")
  setup_install "${1-}"
}

# setup_extra_packages [--no-install] PACKAGE...: installs packages that only one tool needs.
setup_extra_packages() {
  local package install=
  if [[ $1 == --no-install ]]; then
    install=$1
    shift
  fi
  setup_missing=()
  if ! command -v dpkg-query >/dev/null; then
    return 0
  fi
  for package in "$@"; do
    setup_installed "$package" || setup_missing+=("$package")
  done
  setup_install "$install"
}

setup_any_boost='libboost-dev (1.81 or newer) or libboost1.81-dev'

# setup_install [--no-install]: installs setup_missing, or prints it and exits.
setup_install() {
  ((${#setup_missing[@]} > 0)) || return 0
  if [[ ${1-} == --no-install ]]; then
    echo "missing Debian packages: ${setup_missing[*]}" >&2
    exit 1
  fi
  setup_say "updating the list of Debian packages"
  setup_apt_get update ||
    setup_fail "apt-get update failed; its messages are above"
  if [[ ${setup_missing[-1]} == "$setup_any_boost" ]]; then # a bare system has no list to search before the update
    setup_missing[-1]=libboost-dev
    if [[ -n $(apt-cache search --names-only '^libboost1\.81-dev$') ]]; then
      setup_missing[-1]=libboost1.81-dev
    fi
  fi
  setup_say "installing Debian packages: ${setup_missing[*]}"
  # --no-remove: other packages here may need another Boost.
  setup_apt_get install -y --no-install-recommends --no-remove "${setup_missing[@]}" ||
    setup_fail "cannot install ${setup_missing[*]}; apt-get's messages are above"
}

# setup_clang [--no-install]: installs Clang 16 or newer with its linker, sanitizers and symbolizer (suppressions need
# symbols), and sets setup_clang to its name. Debian 12 has 16 and, as its default, 14. On other systems: an installed
# clang++, or nothing.
setup_clang() {
  local version
  setup_clang=
  if ! command -v dpkg-query >/dev/null; then
    if command -v clang++ >/dev/null; then
      setup_clang=clang++
    fi
    return 0
  fi
  # shellcheck disable=SC1091 # the system
  version=$(. /etc/os-release; if [[ ${VERSION_ID-} == 12 ]]; then echo -16; fi)
  setup_extra_packages "$@" "clang$version" "libclang-rt$version-dev" "lld$version" "llvm$version"
  # shellcheck disable=SC2034 # used by the sourcing script
  setup_clang=clang++$version
  ASAN_SYMBOLIZER_PATH=$(dirname -- "$(realpath -- "$(command -v "$setup_clang")")")/llvm-symbolizer
  export ASAN_SYMBOLIZER_PATH TSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH UBSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH
}

# setup_fresh_build PRESET COMPILER: removes the build directory of another compiler.
setup_fresh_build() {
  local cache=build/$1/CMakeCache.txt
  if [[ -f $cache ]] && ! grep -q "^CMAKE_CXX_COMPILER:[A-Z]*=\(.*/\)\?${2//+/[+]}\$" "$cache"; then
    rm -rf "build/$1"
  fi
}

# Prints the number of jobs: one per processor, limited by memory (1.5 GB per compiler).
setup_jobs() {
  local jobs memory_kib
  jobs=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  if [[ -n $memory_kib ]] && ((memory_kib / 1572864 < jobs)); then
    jobs=$((memory_kib / 1572864))
  fi
  echo "$((jobs > 0 ? jobs : 1))"
}

# Sanitizers before GCC 14 and Clang 18 fail with the address space randomisation of some kernels. Sets
# setup_as_unrandomised to a command prefix that turns it off, if that is allowed.
setup_unrandomised() {
  setup_as_unrandomised=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    # shellcheck disable=SC2034 # used by the sourcing script
    setup_as_unrandomised=(setarch "$(uname -m)" -R)
  fi
}
