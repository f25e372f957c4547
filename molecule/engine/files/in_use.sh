#!/bin/sh
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes devices that are in use, each in another way, and says for each: the way, the path, major:minor, and what the guard must call it.
set -eu
folder=/run/engine-in-use
core=/sys/kernel/config/target/core

make() { # way, code; then the device is in $device
  head -c 4194304 /dev/urandom > "$folder/$1"
  device=$(losetup --find --show --partscan "$folder/$1")
  echo "$1 $device $((0x$(stat -c %t "$device"))):$((0x$(stat -c %T "$device"))) $2" >> "$folder/devices"
}

loaded() {
  cut -d ' ' -f 1 /proc/modules | sort
}

build() {
  mkdir -p "$folder/mounted-here"
  loaded > "$folder/modules"
  for module in loop dm_mod raid1 target_core_iblock; do modprobe "$module"; done
  mountpoint -q /sys/kernel/config || { mount -t configfs configfs /sys/kernel/config && touch "$folder/configfs"; }

  make mounted device_mounted
  mkfs.ext4 -q "$device"
  # Without its journal, or the file system itself would write later.
  mount -o ro,noload "$device" "$folder/mounted-here"

  make swap device_swap
  mkswap "$device" > /dev/null
  swapon "$device"

  make mapped device_held
  dmsetup create engine-in-use --table "0 8192 linear $device 0"

  make raid device_held
  mdadm --create /dev/md91 --quiet --run --force --metadata=1.2 --level=1 --raid-devices=1 "$device"
  mdadm --readonly /dev/md91

  make looped device_held
  losetup --find "$device"

  make partitioned device_partitioned
  # One partition of type 0x83 from sector 64 on, in a table as the first PCs had it.
  python3 -c "import struct, sys
table = bytes(446) + struct.pack('<B3xB3xII', 0, 0x83, 64, 8128) + bytes(48) + b'\x55\xaa'
open(sys.argv[1], 'r+b').write(table)" "$device"
  partx --add "$device"

  make signature signature_present
  mkfs.ext4 -q "$device"

  make exported device_exported
  mkdir -p "$core/iblock_91/engine-in-use"
  echo "udev_path=$device" > "$core/iblock_91/engine-in-use/control"
  echo "$device" > "$core/iblock_91/engine-in-use/udev_path"
  echo 1 > "$core/iblock_91/engine-in-use/enable"

  make claimed device_busy
  setsid python3 -c "import os, sys, time
os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
open(sys.argv[2], 'w').write(str(os.getpid()))
time.sleep(3600)" "$device" "$folder/claimer" < /dev/null > /dev/null 2>&1 &
  until [ -s "$folder/claimer" ]; do sleep 0.1; done

  make read-only device_read_only
  blockdev --setro "$device"

}

undo() {
  set +e
  kill "$(cat "$folder/claimer")"
  rmdir "$core/iblock_91/engine-in-use" "$core/iblock_91"
  mdadm --stop --quiet /dev/md91
  dmsetup remove engine-in-use
  swapoff "$(awk '$1 == "swap" {print $2}' "$folder/devices")"
  umount "$folder/mounted-here"
  losetup --detach "$(losetup --noheadings --output NAME --associated "$(awk '$1 == "looped" {print $2}' "$folder/devices")")"
  awk '{print $2}' "$folder/devices" | xargs -n 1 losetup --detach
  [ ! -e "$folder/configfs" ] || umount /sys/kernel/config
  # Some are used by others of them.
  for _pass in 1 2 3 4; do loaded | comm -13 "$folder/modules" - | xargs --no-run-if-empty --max-args=1 rmmod 2> /dev/null; done
  rm -rf "$folder"
}

case "$1" in
  build) build; cat "$folder/devices" ;;
  undo) undo ;;
esac
