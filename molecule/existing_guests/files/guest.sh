#!/bin/bash
# Starts machines of the embedded lab again as a guest and its hypervisor, with disks that the product knows nothing of, as it knows nothing of the disks
# of a machine on Proxmox.
# Usage: guest.sh storage FOLDER IOPS BYTES | guest RUN_DIR FOLDER IOPS CAP | host RUN_DIR FOLDER | end FOLDER
# storage: of the hypervisor, held to a rate. A QEMU process serves its disk to both machines; BYTES: per second.
# guest: disks by virtio-blk, virtio-scsi and IDE, with cache modes none and writeback, and two held to the rate IOPS; the hypervisor's disk as a hypervisor
#   passes it on, and the same once more, held by the machine to the rate CAP.
# host: the disk of the storage, as a hypervisor sees it.
# RUN_DIR: of the machine; FOLDER: for the disks.
set -eu -o pipefail
# The hypervisor and its guest see this as the name of one LUN.
wwn=0x5000c5001234abcd
disks=()

plug() { # name, what QEMU reads for it, its device for QEMU, most I/Os per second or nothing
  local node=$2
  if [ -n "${4-}" ]; then
    disks+=(-object "{\"qom-type\": \"throttle-group\", \"id\": \"limit-$1\", \"limits\": {\"iops-total\": $4}}")
    node="{\"driver\": \"throttle\", \"throttle-group\": \"limit-$1\", \"cache\": $cache, \"file\": $node}"
  fi
  disks+=(-blockdev "${node%\}}, \"node-name\": \"$1\"}" -device "$3,drive=$1,serial=$1,write-cache=on")
}

disk() { # name, its device for QEMU, whether the cache of the controller is passed, most I/Os per second or nothing: a disk of its own
  local cache="{\"direct\": $3}"
  head -c 24M /dev/urandom > "$folder/$1.img"
  plug "$1" "{\"driver\": \"raw\", \"cache\": $cache, \"file\": {\"driver\": \"file\", \"filename\": \"$folder/$1.img\", \"cache\": $cache}}" "$2" "${4-}"
}

lun() { # name, whether it shows the name of the LUN, most I/Os per second or nothing: the disk of the storage
  local cache='{"direct": true}' server name=""
  server="{\"type\": \"unix\", \"path\": \"$(cat "$folder/shared.place")/socket\"}"
  [ "$2" = no ] || name=",wwn=$wwn"
  plug "$1" "{\"driver\": \"raw\", \"cache\": $cache, \"file\": {\"driver\": \"nbd\", \"server\": $server, \"cache\": $cache}}" "scsi-hd,bus=scsi.0$name" "${3-}"
}

again() { # RUN_DIR: start its machine again, with the disks
  local pid machine
  pid=$(cat "$1/pid")
  mapfile -d '' -t machine < "/proc/$pid/cmdline"
  exec 9< "/proc/$pid/ns/net"
  kill "$pid"
  tail --pid="$pid" -f /dev/null
  nsenter --net=/proc/self/fd/9 "${machine[@]}" -device virtio-scsi-pci,id=scsi "${disks[@]}"
}

case "$1" in
  storage)
    folder=$2
    mkdir -p "$folder"
    head -c 24M /dev/urandom > "$folder/shared.img"
    # The checkout's path may be too long for a socket.
    mktemp -d /tmp/existing-guests.XXXXXX > "$folder/shared.place"
    place=$(cat "$folder/shared.place")
    qemu-nbd --fork --persistent --shared=8 --cache=none --socket="$place/socket" --pid-file="$place/pid" \
      --object "throttle-group,id=limit,limits.iops-total=$3,limits.bps-total=$4" \
      --image-opts "driver=throttle,throttle-group=limit,file.driver=raw,file.file.driver=file,file.file.filename=$folder/shared.img"
    ;;
  guest)
    folder=$3
    disk blk-none virtio-blk-pci true
    disk blk-writeback virtio-blk-pci false
    disk scsi-none scsi-hd,bus=scsi.0 true
    disk scsi-writeback scsi-hd,bus=scsi.0 false
    disk ide-none ide-hd,bus=ide.0,unit=0 true
    disk ide-writeback ide-hd,bus=ide.0,unit=1 false
    disk held virtio-blk-pci true "$4"
    disk twin virtio-blk-pci true "$4"
    lun passed yes
    lun capped no "$5"
    (cd "$folder" && sha256sum -- *.img > before.sha256)
    again "$2"
    ;;
  host)
    folder=$3
    lun shared yes
    again "$2"
    ;;
  end)
    [ -e "$2/shared.place" ] || exit 0
    place=$(cat "$2/shared.place")
    kill "$(cat "$place/pid")"
    rm -r "$place" "$2/shared.place"
    ;;
esac
