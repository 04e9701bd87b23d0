# shellcheck shell=bash
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# What tools/demo, tools/check, tools/rdma_vm, tools/rdma_soft and the scripts of test/ share; sourced, not run.

setup_say() { printf '\n== %s\n' "$*"; }
setup_fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

setup_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Debian 12 has Boost 1.81 beside its default 1.74, Debian 13 has 1.83 as the default.
setup_boost_installed() {
  local version
  for version in 1.{81..99}; do
    if setup_installed "libboost$version-dev"; then
      return 0
    fi
  done
  return 1
}

setup_boost_package() {
  if [[ -n $(apt-cache search --names-only '^libboost1\.81-dev$') ]]; then
    echo libboost1.81-dev
  else
    echo libboost-dev
  fi
}

# Runs apt-get as root, in silence unless it fails.
setup_apt_get() {
  local -a as_root=()
  local log
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      setup_fail "installing packages needs root, and there is no sudo; as root: apt-get install ${setup_missing[*]}"
    fi
    as_root=(sudo)
    if [[ ! -t 0 ]]; then
      as_root=(sudo -n) # nobody is there to type a password
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

# setup_packages [--no-install]: sees to it that what the build needs is there.
setup_packages() {
  local package
  setup_missing=()
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system: taking for granted what doc/building.md lists."
    return 0
  fi
  for package in g++ cmake ninja-build ccache pkg-config libibverbs-dev librdmacm-dev \
    libspdlog-dev catch2 libcli11-dev libssl-dev openssl; do
    setup_installed "$package" || setup_missing+=("$package")
  done
  setup_boost_installed || setup_missing+=("libboost1.81-dev")
  if ((${#setup_missing[@]} == 0)); then
    return 0
  fi

  setup_may_install "${1-}" "(libboost-dev will do for libboost1.81-dev where it is 1.81 or newer)"
  if [[ ${setup_missing[-1]} == libboost1.81-dev ]]; then
    setup_missing[-1]=$(setup_boost_package)
  fi
  setup_install
}

# setup_extra_packages [--no-install] PACKAGE...: the same for packages that only one tool needs.
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
  if ((${#setup_missing[@]} > 0)); then
    setup_may_install "$install"
    setup_install
  fi
}

# setup_may_install [--no-install [REMARK]]: goes on where setup_missing is to be installed.
setup_may_install() {
  if [[ ${1-} == --no-install ]]; then
    echo "missing Debian packages: ${setup_missing[*]}" >&2
    if [[ -n ${2-} ]]; then
      echo "$2" >&2
    fi
    exit 1
  fi
  setup_say "installing Debian packages: ${setup_missing[*]}"
  setup_apt_get update ||
    setup_fail "apt-get update failed; its messages are above"
}

setup_install() {
  # --no-remove: another Boost may be what some other package here was built with.
  setup_apt_get install -y --no-install-recommends --no-remove "${setup_missing[@]}" ||
    setup_fail "cannot install ${setup_missing[*]}; apt-get's messages are above"
}

# setup_clang [--no-install]: sees to it that a Clang of 16 or newer is there with its linker, its sanitizers and what gives
# their reports names (without which no suppression takes effect), and sets setup_clang to its name. (Debian 12 has 16 beside its default
# 14.) Without Debian's packages: a clang++ that is there, or nothing.
setup_clang() {
  local version
  setup_clang=
  if ! command -v dpkg-query >/dev/null; then
    if command -v clang++ >/dev/null; then
      setup_clang=clang++
    fi
    return 0
  fi
  # shellcheck disable=SC1091 # what system this is
  version=$(. /etc/os-release; if [[ ${VERSION_ID-} == 12 ]]; then echo -16; fi)
  setup_extra_packages "$@" "clang$version" "libclang-rt$version-dev" "lld$version" "llvm$version"
  # shellcheck disable=SC2034 # by who sources this
  setup_clang=clang++$version
  ASAN_SYMBOLIZER_PATH=$(dirname -- "$(realpath -- "$(command -v "$setup_clang")")")/llvm-symbolizer
  export ASAN_SYMBOLIZER_PATH TSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH UBSAN_SYMBOLIZER_PATH=$ASAN_SYMBOLIZER_PATH
}

# setup_fresh_build PRESET COMPILER: a build directory is bound to its compiler; one of another compiler's goes.
setup_fresh_build() {
  local cache=build/$1/CMakeCache.txt
  if [[ -f $cache ]] && ! grep -q "^CMAKE_CXX_COMPILER:[A-Z]*=\(.*/\)\?${2//+/[+]}\$" "$cache"; then
    rm -rf "build/$1"
  fi
}

# One job a processor, but no more than memory holds at 1.5 GB a compiler.
setup_jobs() {
  local jobs memory_kib
  jobs=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  if [[ -n $memory_kib ]] && ((memory_kib / 1572864 < jobs)); then
    jobs=$((memory_kib / 1572864))
  fi
  echo "$((jobs > 0 ? jobs : 1))"
}

# Sanitizers before GCC 14 and Clang 18 cannot live with some kernels' address space randomisation:
# sets setup_as_unrandomised to what goes before a command to run without it, where that is allowed.
setup_unrandomised() {
  setup_as_unrandomised=()
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    # shellcheck disable=SC2034 # by who sources this
    setup_as_unrandomised=(setarch "$(uname -m)" -R)
  fi
}
