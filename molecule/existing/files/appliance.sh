#!/bin/bash
# Turns a machine of the embedded lab into a storage appliance with other people's data: an export by NFS 3 and 4, the same folder as a share by SMB
# (where the machine has Samba), and two LUNs by iSCSI.
# Usage: appliance.sh make OTHER INITIATOR… | state | files | end
# make: OTHER is the initiator that may log in to the target `other`, without CHAP; each INITIATOR may log in to the target `lun`, by CHAP.
set -eu -o pipefail
nas=/nas
core=/sys/kernel/config/target/core/iblock_77
fabric=/sys/kernel/config/target/iscsi
address=$(ip -4 -o address show dev eth0 | sed -n 's/.* inet \([0-9.]*\)\/.*/\1/p' | head -n 1)

user=reader password=sixteen-letters1
# Settings and state of the SMB server: in memory, and not on the appliance's disks.
smb=/run/appliance-smb

disk() { # name, size in MiB: a disk of random data
  head -c "$2"M /dev/urandom > "$nas/$1.img"
  losetup --show --find "$nas/$1.img" > "$nas/$1.device"
}

target() { # name, serial, CHAP user or nothing, CHAP password, initiators…
  local tpg="$fabric/iqn.2026-11.test.appliance:$1/tpgt_1" store="$core/$1" serial="$2" user="$3" password="$4" initiator acl
  shift 4
  mkdir -p "$store"
  echo "udev_path=$(cat "$nas/${store##*/}.device")" > "$store/control"
  cat "$nas/${store##*/}.device" > "$store/udev_path"
  echo 1 > "$store/enable"
  echo "$serial" > "$store/wwn/vpd_unit_serial"
  mkdir -p "$tpg/np/$address:3260" "$tpg/lun/lun_3"
  ln -s "$store" "$tpg/lun/lun_3/store"
  if [ -n "$user" ]; then echo 1; else echo 0; fi > "$tpg/attrib/authentication"
  for initiator in "$@"; do
    acl="$tpg/acls/$initiator"
    mkdir -p "$acl/lun_3"
    ln -s "$tpg/lun/lun_3" "$acl/lun_3/lun"
    if [ -n "$user" ]; then
      printf %s "$user" > "$acl/auth/userid"
      printf %s "$password" > "$acl/auth/password"
    fi
  done
  echo 1 > "$tpg/enable"
}

files() { # kind and rights, owner, links, size, times of contents and of rights, and what each holds
  # Links and times of the export itself change with a folder of a testbed, and are no file of others.
  (cd "$nas/shares" && find . -maxdepth 0 -printf '%M %U %G %s %p\n' && find . -mindepth 1 -printf '%M %U %G %n %s %T@ %C@ %p %l\n' | sort)
  find "$nas/shares" -type f -print0 | sort -z | xargs -0 sha256sum
}

make_files() {
  mkdir -p "$nas/shares"
  mkfs.ext4 -q "$(cat "$nas/shares.device")"
  # Times of access are the appliance's own matter; this one does not keep them.
  mount -o noatime "$(cat "$nas/shares.device")" "$nas/shares"
  mkdir -p "$nas/shares/vms/empty" "$nas/shares/letters to a friend"
  head -c 24M /dev/urandom > "$nas/shares/vms/disk01.img"
  head -c 2M /dev/urandom > "$nas/shares/vms/disk02.img"
  echo "theirs" > "$nas/shares/letters to a friend/ä.txt"
  ln "$nas/shares/vms/disk02.img" "$nas/shares/letters to a friend/twin"
  ln -s ../nowhere "$nas/shares/vms/link"
  mkfifo "$nas/shares/vms/pipe"
  chown -R 1017:1018 "$nas/shares/letters to a friend"
  chmod 4750 "$nas/shares/vms/disk02.img"
}

make_exports() {
  mkdir -p /run/rpcbind /run/rpc_pipefs
  mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
  rpcbind -h "$address"
  exportfs -o rw,no_root_squash,no_subtree_check,fsid=77 "10.213.0.0/24:$nas/shares"
  rpc.mountd
  rpc.nfsd --grace-time 10 --lease-time 10 4
}

make_share() { # of a machine that has Samba
  command -v smbd > /dev/null || return 0
  mkdir -p "$smb"/{private,lock,state,cache,pid,ncalrpc}
  printf '%s\n' '[global]' 'server role = standalone server' "private dir = $smb/private" "lock directory = $smb/lock" "state directory = $smb/state" \
    "cache directory = $smb/cache" "pid directory = $smb/pid" "ncalrpc dir = $smb/ncalrpc" "log file = $smb/log" 'disable netbios = yes' \
    'smb ports = 445' 'load printers = no' 'interfaces = eth0' 'bind interfaces only = yes' \
    '[shares]' "path = $nas/shares" 'read only = no' "valid users = $user" 'force user = root' 'force group = root' > "$smb/smb.conf"
  useradd --no-create-home "$user"
  printf '%s\n' "$password" "$password" | smbpasswd -c "$smb/smb.conf" -s -a "$user"
  smbd --daemon --configfile="$smb/smb.conf"
}

end_share() {
  [ -d "$smb" ] || return 0
  kill "$(cat "$smb/pid/smbd.pid")"
  userdel "$user"
  rm -r "$smb"
}

case "$1" in
  make)
    shift
    modprobe -a loop ext4 nfsd target_core_mod target_core_iblock iscsi_target_mod
    mkdir "$nas"
    disk shares 48
    disk lun 32
    disk other 16
    make_files
    make_exports
    make_share
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    mkdir -p "$core" "$fabric"
    target lun 1a1a1a1a-2b2b-4c4c-8d8d-5e5e5e5e5e5e "$user" "$password" "${@:2}"
    target other 9f9f9f9f-8a8a-4b4b-9c9c-6d6d6d6d6d6d "" "" "$1"
    sync
    ;;
  state)
    # What the disks hold, when the export itself was changed, and each file.
    sync
    for name in shares lun other; do
      dd if="$(cat "$nas/$name.device")" iflag=direct bs=1M status=none | sha256sum | sed "s/-/$name/"
    done
    find "$nas/shares" -maxdepth 0 -printf '%n %T@ %C@ %p\n'
    files
    ;;
  files)
    sync
    files
    ;;
  end)
    end_share
    rpc.nfsd 0
    exportfs -u "10.213.0.0/24:$nas/shares"
    for daemon in rpc.mountd rpcbind; do kill "$(pidof "$daemon")"; done
    for name in lun other; do
      tpg="$fabric/iqn.2026-11.test.appliance:$name/tpgt_1"
      echo 0 > "$tpg/enable"
      for acl in "$tpg"/acls/*/; do rm -f "$acl/lun_3/lun"; rmdir "$acl/lun_3" "$acl"; done
      rm "$tpg/lun/lun_3/store"
      rmdir "$tpg/lun/lun_3" "$tpg"/np/* "$tpg" "${tpg%/*}" "$core/$name"
    done
    rmdir "$core"
    umount "$nas/shares"
    for name in shares lun other; do losetup --detach "$(cat "$nas/$name.device")"; done
    rm -r "$nas"
    ;;
esac
