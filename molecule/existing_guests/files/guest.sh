#!/bin/bash
# Starts a machine of the embedded lab again as a guest with more disks: by virtio-blk, virtio-scsi and IDE, with cache modes none and writeback, two of
# them held to one rate. The product knows nothing of them, as it knows nothing of the disks of a machine on Proxmox.
# Usage: guest.sh RUN_DIR FOLDER IOPS     RUN_DIR: of the machine; FOLDER: for the disks; IOPS: what the two are held to
set -eu -o pipefail
run_dir=$1 folder=$2 iops=$3
pid=$(cat "$run_dir/pid")
mapfile -d '' -t machine < "/proc/$pid/cmdline"
exec 9< "/proc/$pid/ns/net"

disks=()
disk() { # name, its device for QEMU, whether the cache of the controller is passed, most I/Os per second or nothing
  local cache="{\"direct\": $3}" node
  head -c 24M /dev/urandom > "$folder/$1.img"
  node="{\"driver\": \"raw\", \"cache\": $cache, \"file\": {\"driver\": \"file\", \"filename\": \"$folder/$1.img\", \"cache\": $cache}}"
  if [ -n "${4-}" ]; then
    disks+=(-object "{\"qom-type\": \"throttle-group\", \"id\": \"limit-$1\", \"limits\": {\"iops-total\": $4}}")
    node="{\"driver\": \"throttle\", \"throttle-group\": \"limit-$1\", \"cache\": $cache, \"file\": $node}"
  fi
  disks+=(-blockdev "${node%\}}, \"node-name\": \"$1\"}" -device "$2,drive=$1,serial=$1,write-cache=on")
}

mkdir -p "$folder"
disks+=(-device virtio-scsi-pci,id=scsi)
disk blk-none virtio-blk-pci true
disk scsi-none scsi-hd,bus=scsi.0 true
disk scsi-writeback scsi-hd,bus=scsi.0 false
disk ide-writeback ide-hd,bus=ide.0,unit=0 false
disk held virtio-blk-pci true "$iops"
disk twin virtio-blk-pci true "$iops"

(cd "$folder" && sha256sum -- *.img > before.sha256)
kill "$pid"
tail --pid="$pid" -f /dev/null
nsenter --net=/proc/self/fd/9 "${machine[@]}" "${disks[@]}"
