# shellcheck shell=bash
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# The kernel and the initramfs of the virtual machine of tools/rdma_vm; sourced, not run. Files that
# take long to build are kept in the folder vm_cache, with their inputs in the name.

vm_modules=(virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay crc32c_generic veth ib_uverbs
  rdma_ucm rdma_rxe)

# Prints the newest installed kernel that has the modules. It may differ from the running one.
vm_kernel_version() {
  local kernel version module
  while read -r kernel; do
    version=${kernel#/boot/vmlinuz-}
    [[ -r $kernel ]] || continue
    for module in "${vm_modules[@]}"; do
      modprobe -S "$version" --show-depends "$module" >/dev/null 2>&1 || continue 2
    done
    echo "$version"
    return 0
  done < <(compgen -G '/boot/vmlinuz-*' | sort -rV)
  return 1
}

# shellcheck disable=SC2154 # vm_cache is a variable of tools/rdma_vm
# vm_siw VERSION [--no-install]: prints the file of the siw module, which Debian's kernel does not
# contain.
# Call it in a subshell that ends with the first error.
vm_siw() {
  local version=$1 package kept build module
  shift
  if modprobe -S "$version" --show-depends siw >/dev/null 2>&1; then
    modprobe -S "$version" --show-depends siw | awk '$1 == "insmod" { print $2 }' | tail -n 1
    return 0
  fi
  kept=$vm_cache/siw-$version-$(dpkg-query -W -f='${Version}' "linux-image-$version").ko
  if [[ ! -f $kept ]]; then
    package=linux-source-$(cut -d. -f1,2 <<<"$version") # 6.1.0-56-amd64: 6.1
    setup_extra_packages "$@" "$package" "linux-headers-$version" gcc make bc xz-utils >&2
    setup_say "building the siw module for $version" >&2
    build=$(mktemp -d) # not in the cache: the kernel's make does not support a path with spaces
    # shellcheck disable=SC2064 # this folder
    trap "$(printf 'rm -rf %q' "$build")" EXIT
    tar -C "$build" --strip-components=1 --wildcards -xf "/usr/src/$package.tar.xz" \
      '*/drivers/infiniband/sw/siw'
    if ! make -C "/lib/modules/$version/build" M="$build/drivers/infiniband/sw/siw" CONFIG_RDMA_SIW=m \
      modules >"$build/log" 2>&1 </dev/null; then
      cat "$build/log" >&2
      return 1
    fi
    module=$build/drivers/infiniband/sw/siw/siw.ko
    strip --strip-debug "$module"
    mv "$module" "$kept.$BASHPID"
    mv "$kept.$BASHPID" "$kept" # atomic: another run may look for it
  fi
  echo "$kept"
}

# vm_initramfs VERSION FOLDER [MODULE_FILE...]: prints the file of the initramfs. It contains
# busybox, the modules with their dependencies, the MODULE_FILEs with theirs, tools/vm/init and
# tools/vm/machine.
# Call it in a subshell that ends with the first error.
vm_initramfs() {
  local version=$1 scripts=$2 key kept build file number=100
  shift 2
  local -a modules parts
  mapfile -t modules < <(for file in "$@"; do
    modinfo -F depends "$file" | tr ',' '\n'
  done)
  # a module is listed once for each module that needs it; keep the first
  mapfile -t modules < <(for file in "${vm_modules[@]}" "${modules[@]}"; do
    modprobe -S "$version" --show-depends "$file"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }')
  modules+=("$@")
  parts=("$(command -v busybox)" "$scripts/init" "$scripts/machine" "${modules[@]}")
  key=$(cat -- "${parts[@]}" | sha256sum)
  kept=$vm_cache/initramfs-$version-${key:0:16}
  if [[ ! -f $kept ]]; then
    build=$(mktemp -d "$vm_cache/build.XXXXXX")
    # shellcheck disable=SC2064 # this folder
    trap "$(printf 'rm -rf %q' "$build")" EXIT
    mkdir -p "$build"/tree/{bin,modules}
    cp "${parts[0]}" "$build/tree/bin/busybox"
    cp "$scripts/init" "$scripts/machine" "$build/tree"
    chmod 755 "$build/tree/init"
    for file in "${modules[@]}"; do
      number=$((number + 1))
      case $file in
        *.xz) xz -dc "$file" >"$build/tree/modules/$number-$(basename "$file" .xz)" ;;
        *.zst) zstd -qdc "$file" >"$build/tree/modules/$number-$(basename "$file" .zst)" ;;
        *) cp "$file" "$build/tree/modules/$number-$(basename "$file")" ;;
      esac
    done
    (cd "$build/tree" && find . -print0 | LC_ALL=C sort -z |
      cpio --null --quiet -o -H newc) >"$build/initramfs"
    mv "$build/initramfs" "$kept"
  fi
  touch "$kept"
  find "$vm_cache" -maxdepth 1 -name 'initramfs-*' -mtime +30 -delete
  echo "$kept"
}
