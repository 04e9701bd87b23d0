# shellcheck shell=bash
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# The host's side of the machine of tools/rdma_vm, whose variables it uses; sourced, not run. The
# machine has four connections to the host: its console, and three byte channels. The control
# channel carries two messages:
#
#     started                     COMMAND is about to run
#     ended STATUS OUT ERR        it has ended, and sent this many bytes on the other channels
#
# The other two channels are COMMAND's standard output and standard error. A dd process copies each
# of them and reports the number of copied bytes. The machine is switched off only after all bytes
# have been copied.

# shellcheck disable=SC2154 # the variables of tools/rdma_vm

host_work=
host_machine=
host_relays=()


host_quote() {
  local word
  for word in "$@"; do
    printf " '%s'" "${word//\'/\'\\\'\'}"
  done
}

# host_job COMMAND...: writes the job description that the machine reads.
host_job() {
  local assignment
  host_work=$(mktemp -d)
  mkdir "$host_work/job"
  {
    for assignment in devices="${devices[*]}" directory="$PWD" results="$results" \
      memlock_kib="$memlock_kib"; do
      printf '%s=%s\n' "${assignment%%=*}" "$(host_quote "${assignment#*=}")"
    done
    printf 'environment=(%s)\n' "$(host_quote "${environment[@]}")"
    printf 'command=(%s)\n' "$(host_quote "$@")"
  } | sed 's/^\([a-z_]*\)= /\1=/' >"$host_work/job/job"
}

# host_kill PROCESS...: kills them and waits for their end.
host_kill() {
  kill -KILL "$@" 2>/dev/null || true
  wait "$@" 2>/dev/null || true
}

host_clean_up() {
  [[ -z $host_machine ]] || host_kill "$host_machine"
  ((${#host_relays[@]} == 0)) || host_kill "${host_relays[@]}"
  [[ -z $host_work ]] || rm -rf "$host_work"
}

# host_relay NAME: copies that channel. If the output has no reader any more, it ends the machine.
host_relay() {
  local copier status=0
  LC_ALL=C setpriv --pdeathsig KILL dd bs=64K if="$host_work/$1" 2>"$host_work/$1.copied" &
  copier=$!
  echo "$copier" >"$host_work/$1.process"
  wait "$copier" || status=$?
  if ((status != 0)); then
    echo "$status" >"$host_work/$1.broken"
    kill -KILL "$host_machine" 2>/dev/null || true
  fi
}

# host_start ACCELERATOR
host_start() {
  local share id work=${host_work//,/,,} # QEMU's escape for a comma
  # no_timer_check: on a busy host an emulated timer fails the kernel's test at boot, and the kernel panics.
  # shellcheck disable=SC2054 # QEMU's options have commas in them
  local -a options=(-name rdma_vm -nodefaults -no-user-config -display none -nic none -no-reboot
    -m "$memory_mib" -smp "$cpus"
    -kernel "/boot/vmlinuz-$kernel_version" -initrd "$initramfs"
    -append "console=ttyS0 quiet panic=-1 mitigations=off clocksource=tsc tsc=reliable no_timer_check"
    -chardev "file,id=console,path=$work/console" -serial chardev:console
    -device virtio-rng-pci -device virtio-serial-pci
    -chardev file,id=control,path=/dev/fd/1 -device virtserialport,chardev=control,nr=1
    -chardev "file,id=out,path=$work/out" -device virtserialport,chardev=out,nr=2
    -chardev "file,id=err,path=$work/err" -device virtserialport,chardev=err,nr=3)
  if [[ $1 == kvm ]]; then
    # Inside another virtual machine, KVM may refuse to set this feature.
    options+=(-accel kvm -cpu "max,arch-capabilities=off")
  else
    options+=(-accel "tcg,thread=multi" -cpu max)
  fi
  for share in host:on:/ job:on:"$host_work/job" ${results:+results:off:"$results"}; do
    id=${share%%:*}
    share=${share#*:}
    share=${share//,/,,}
    share=readonly=${share%%:*},path=${share#*:}
    options+=(-virtfs "local,id=$id,mount_tag=$id,security_model=none,multidevs=remap,$share")
  done

  rm -f "$host_work"/{out,err}*
  mkfifo "$host_work/out" "$host_work/err"
  # If this script is killed, the machine is killed as well.
  exec {host_control}< <(exec setpriv --pdeathsig KILL qemu-system-x86_64 "${options[@]}" \
    </dev/null 2>"$host_work/qemu")
  host_machine=$!
  host_relay out &
  host_relays=($!)
  host_relay err >&2 &
  host_relays+=($!)
}

host_now_ms() { echo "$((${EPOCHREALTIME/[.,]/} / 1000))"; }

# host_hear DEADLINE_MS: reads a line from the machine into host_line. Fails with 124 after the
# deadline and with 125 if the machine has ended.
host_hear() {
  local left_ms=$(($1 - $(host_now_ms))) left status=0
  ((left_ms > 0)) || return 124
  printf -v left '%d.%03d' "$((left_ms / 1000))" "$((left_ms % 1000))"
  IFS= read -r -t "$left" -u "$host_control" host_line || status=$?
  if ((status > 128)); then
    return 124
  fi
  ((status == 0)) || return 125
}

# host_give_up STATUS: passes on the remaining output and exits.
host_give_up() {
  local status=$1 name broken i
  host_kill "$host_machine"
  for ((i = 0; i < 100; ++i)); do
    kill -0 "${host_relays[@]}" 2>/dev/null || break
    sleep 0.02
  done
  for name in out err; do
    if [[ -s $host_work/$name.broken ]]; then
      broken=$(<"$host_work/$name.broken")
      if ((broken > 128)); then # no reader any more: as if COMMAND itself had written
        exit "$broken"
      fi
      fail "cannot write COMMAND's std$name: $(head -n 1 "$host_work/$name.copied")"
    fi
  done
  if ((status == 124)); then
    echo "rdma_vm: switched off after $timeout s" >&2
    exit 124
  fi
  {
    echo "rdma_vm: the machine died; the end of its console:"
    # without the entries of a call trace that the kernel marks as unreliable
    sed '/^\[[ 0-9.]*\]  *? /d' "$host_work/console" | tail -n 60
    cat "$host_work/qemu"
  } >&2
  exit 125
}

# host_drain NAME BYTES: returns when that many bytes of the channel have been copied.
host_drain() {
  until grep -qE "^$2 bytes? " "$host_work/$1.copied"; do
    (($(host_now_ms) < deadline_ms)) || host_give_up 124
    kill -0 "$host_machine" 2>/dev/null || host_give_up 125
    kill -USR1 "$(<"$host_work/$1.process")" 2>/dev/null || true # dd reports its progress
    sleep 0.01
  done
}

# On a processor without announced virtualisation, /dev/kvm accepts a machine but it hardly makes
# progress.
host_has_kvm() {
  [[ -r /dev/kvm && -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo
}

# Runs the machine and exits with COMMAND's status.
host_run() {
  local start_ms deadline_ms boot_ms accelerator status word out_bytes err_bytes
  start_ms=$(host_now_ms)
  deadline_ms=$((start_ms + timeout * 1000))
  for accelerator in "${accelerators[@]}"; do
    if [[ $accelerator == kvm ]] && ! host_has_kvm; then
      continue
    fi
    host_start "$accelerator"
    boot_ms=$deadline_ms
    if [[ $accelerator == kvm ]] && ((boot_ms > start_ms + 20000)); then
      boot_ms=$((start_ms + 20000))
    fi
    status=0
    host_hear "$boot_ms" || status=$?
    if ((status == 0)); then
      break
    fi
    if [[ $accelerator != kvm ]] || (($(host_now_ms) >= deadline_ms)); then
      host_give_up "$status"
    fi
    echo "rdma_vm: the machine did not start with KVM within $(($(host_now_ms) - start_ms)) ms; trying emulation" >&2
    cat "$host_work/qemu" >&2
    host_kill "$host_machine" "${host_relays[@]}"
    exec {host_control}<&-
  done

  host_hear "$deadline_ms" || host_give_up $?
  read -r word status out_bytes err_bytes <<<"$host_line"
  [[ $word == ended ]] || fail "unexpected message from the machine: '$host_line'"
  host_drain out "$out_bytes"
  host_drain err "$err_bytes"
  exit "$status"
}
