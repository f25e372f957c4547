# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import os
import socket

from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import cache_stamp
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.leftovers import judge
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.storage_state import examine


def gather(*arguments, **options):
    return examine(*arguments, **options).lines


def strays(before, after, ignore=()):
    """All that differs, whosever it is."""
    return judge(before, after, ignore=ignore).strays


def write(root, path, text=""):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def session(root, number, iqn, iface, address="10.0.0.9", port="3261"):
    write(root, f"sys/class/iscsi_session/session{number}/targetname", f"{iqn}\n")
    write(root, f"sys/class/iscsi_session/session{number}/ifacename", f"{iface}\n")
    write(root, f"sys/class/iscsi_connection/connection{number}:0/persistent_address", f"{address}\n")
    write(root, f"sys/class/iscsi_connection/connection{number}:0/persistent_port", f"{port}\n")


def host(root):
    write(root, "sys/block/vda/size", "8192\n")
    write(root, "sys/block/vda/vda1/partition", "1\n")
    write(root, "sys/block/vda/vda1/size", "6144\n")
    write(root, "sys/block/loop0/size", "0\n")
    write(root, "proc/modules", "ext4 999 1 - Live 0x0\nbrd 16384 0 - Live 0x0\n")
    write(
        root,
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/vda2 partition 10 0 -2\n/srv/swap\\040file file 9 0 -3\n",
    )
    write(
        root,
        "proc/self/mountinfo",
        "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n23 22 0:5 / /proc rw - proc proc rw\n24 22 0:9 / /run/user/0 rw - tmpfs tmpfs rw\n",
    )
    process(root, 77, "tgtd")
    # A zombie of one.
    write(root, "proc/79/comm", "tgtd\n")
    write(root, "proc/79/cmdline")
    write(root, "proc/78/comm", "bash\n")
    write(root, "etc/iscsi/nodes/iqn.a/portal", "secret")


def test_gather_reads_every_section(tmp_path):
    host(tmp_path)
    links = [
        {"ifname": "eth0", "addr_info": [{"local": "10.9.8.7", "prefixlen": 24, "scope": "global"}]},
        {"ifname": "veth3f2a1bc"},
        {"ifname": "veth-mine"},
    ]
    state = gather(str(tmp_path), json.dumps(links))
    assert state["block_devices"] == ["vda 4194304 bytes", "vda1 3145728 bytes"]
    assert state["mounts"] == ["/dev/vda1 on / type ext4"]
    assert state["swaps"] == ["/dev/vda2", "/srv/swap file"]
    assert state["kernel_modules"] == ["brd", "ext4"]
    assert state["processes"] == ["tgtd running"]
    assert state["network"] == ["interface eth0", "interface eth0 address 10.9.8.7/24", "interface veth-mine"]
    assert [line.split()[0] for line in state["configuration_files"]] == ["/etc/iscsi/nodes/iqn.a/portal"]
    assert "secret" not in json.dumps(state)


def test_stamps_and_mappings_of_cache_tiers_are_told_apart_by_testbed(tmp_path):
    host(tmp_path)
    for testbed_id, disk, mapping in (("lab", "vdb", "dm-0"), ("lab-2", "vdc", "dm-1")):
        write(tmp_path, f"sys/block/{disk}/size", "4096\n")
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / disk).write_bytes(cache_stamp.pack({"testbed_id": testbed_id, "name": "e4"}))
        write(tmp_path, f"sys/block/{mapping}/size", "2048\n")
        write(tmp_path, f"sys/block/{mapping}/dm/name", f"storlab:{testbed_id}:e4\n")
        write(tmp_path, f"sys/block/{mapping}/dm/uuid", f"STORLAB-CACHE:{testbed_id}:e4:00\n")
        write(tmp_path, f"run/storlab/{testbed_id}/cache_tier.json", "{}")
    # What LVM makes of a mapping of the other testbed, two devices high.
    for above, below in (("dm-3", "dm-2"), ("dm-2", "dm-1")):
        write(tmp_path, f"sys/block/{above}/size", "2048\n")
        write(tmp_path, f"sys/block/{above}/dm/name", f"storlab_00-{above}\n")
        write(tmp_path, f"sys/block/{above}/dm/uuid", f"LVM-{above}\n")
        write(tmp_path, f"sys/block/{above}/slaves/{below}", "")
    everything = gather(str(tmp_path))
    assert everything["cache_stamps"] == ["stamp of cache lab-2/e4 on vdc", "stamp of cache lab/e4 on vdb"]
    assert everything["device_mapper"] == ["storlab:lab-2:e4", "storlab:lab:e4", "storlab_00-dm-2", "storlab_00-dm-3"]
    write(tmp_path, "run/storlab/lab-2/raid.json", '{"arrays": {}}')
    mine = gather(str(tmp_path), testbed_id="lab")
    assert mine["cache_stamps"] == ["stamp of cache lab/e4 on vdb"] and mine["device_mapper"] == ["storlab:lab:e4"]


def test_equal_states_have_no_strays(tmp_path):
    host(tmp_path)
    assert strays(gather(str(tmp_path)), gather(str(tmp_path))) == []


def test_strays_name_what_came_and_what_went(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path))
    write(tmp_path, "sys/block/loop0/loop/backing_file", "/run/storlab/a/ramdisk/x.img")
    session(tmp_path, 4, "iqn.left-over", "storlab-mine")
    write(tmp_path, "sys/kernel/config/target/core/iblock_0/storlab-a-bench/udev_path", "/dev/ram0")
    write(tmp_path, "sys/kernel/config/target/iscsi/iqn.our-target/param", "")
    write(tmp_path, "run/storlab/a/pid", "12")
    write(tmp_path, "etc/iscsi/nodes/iqn.a/portal", "other secret")
    (tmp_path / "proc/77/comm").unlink()
    found = strays(before, gather(str(tmp_path)))
    assert "block devices: loop0 0 bytes on /run/storlab/a/ramdisk/x.img (was not there before)" in found
    assert "iscsi sessions: iqn.left-over at 10.0.0.9:3261, session 4 (was not there before)" in found
    assert "targets: LIO backstore storlab-a-bench (was not there before)" in found
    assert "targets: LIO target iqn.our-target (was not there before)" in found
    assert "own files: /run/storlab/a/pid (was not there before)" in found
    assert "processes: tgtd running (is gone)" in found
    assert sum("/etc/iscsi/nodes/iqn.a/portal" in line for line in found) == 2


def test_ignored_lines_are_no_strays(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path))
    write(tmp_path, "proc/modules", "ext4 999 1 - Live 0x0\nbrd 1 0 - Live 0x0\nzram 1 0 - Live 0x0\n")
    assert strays(before, gather(str(tmp_path)), ignore=["^kernel modules: zram "]) == []
    assert strays(before, gather(str(tmp_path)), ignore=["^kernel modules: brd "]) == [
        "kernel modules: zram (was not there before)"
    ]


def came(root, before, **names):
    """What has come since, without its section and with nothing gone."""
    found = strays(before, gather(str(root), **{"testbed_id": "mine", **names}))
    assert all(line.endswith(" (was not there before)") for line in found)
    return [line.partition(": ")[2].removesuffix(" (was not there before)") for line in found]


def process(root, pid, name, *words):
    write(root, f"proc/{pid}/comm", f"{name}\n")
    write(root, f"proc/{pid}/cmdline", "\0".join((name, *words)) + "\0")


def other_testbed(root, name="mine-2"):
    """All that a testbed beside this one has, named by its records."""
    records = f"run/storlab/{name}"
    lio = {"core": {"core/iblock_3": [], f"core/iblock_3/storlab-{name}-bench": ["77"]}, "targets": [f"iqn.x:{name}"]}
    write(root, f"{records}/lio_target.json", json.dumps(lio))
    write(root, f"{records}/ramdisk.json", json.dumps({"disks": {"a": {"path": "/dev/ram1p1", "whole": "/dev/ram1"}}}))
    write(root, f"{records}/datastore.json", json.dumps({"datastores": {"ds": {"mount_point": "/srv/storlab/two"}}}))
    write(root, f"{records}/iscsi_session.json", "{}")
    write(root, f"sys/kernel/config/target/core/iblock_3/storlab-{name}-bench/udev_path", "/dev/ram1")
    write(root, f"sys/kernel/config/target/iscsi/iqn.x:{name}/param")
    write(root, "sys/block/ram1/size", "2048\n")
    write(root, "sys/block/loop5/size", "2048\n")
    write(root, "sys/block/loop5/loop/backing_file", f"/{records}/ramdisk/b.img\n")
    session(root, 7, "iqn.x:target", f"storlab-{name}")
    write(root, "sys/class/iscsi_session/session7/device/target3:0:0/3:0:0:1/block/sdq/x")
    write(root, "sys/block/sdq/size", "2048\n")
    write(root, f"etc/iscsi/ifaces/storlab-{name}", "iface")
    process(root, 90, "qemu-system-x86", "-pidfile", f"/{records}/vm/x/pid")
    process(root, 91, "qemu-nbd", "--pid-file", "/run/storlab/nbd/two.pid", "/srv/storlab/two/two.img")
    write(root, "run/storlab/nbd/two.pid", "91")
    process(
        root,
        94,
        "qemu-nbd",
        "--object",
        "tls-creds-psk,id=tls,endpoint=server,dir=/run/storlab/nbd/raw.tls",
        "/srv/storlab/two/raw.img",
    )
    write(root, "run/storlab/nbd/raw.tls/keys.psk", "x")
    mounted(root, "/dev/sdq", "/srv/storlab/two")
    write(root, f"{records}/nfs_export.json", json.dumps({"server": {"threads": 1}, "mounted": True}))
    write(root, f"etc/exports.d/storlab-{name}.exports", "/srv/storlab/two 10.0.0.4(rw)\n")
    mounted(root, "nfsd", "/proc/fs/nfsd")
    process(root, 93, "nfsd")


def mounted(root, source, where):
    path = root / "proc/self/mountinfo"
    path.write_text(path.read_text() + f"40 22 8:77 / {where} rw - ext4 {source} rw\n")


def test_what_the_records_of_another_testbed_name_is_left_out(tmp_path):
    host(tmp_path)
    write(tmp_path, "run/storlab/nbd/.keep")
    before = gather(str(tmp_path), testbed_id="mine")
    other_testbed(tmp_path)
    assert came(tmp_path, before) == []
    # That testbed itself sees all of it, and without a name everything is listed.
    assert len(strays(before, gather(str(tmp_path), testbed_id="mine-2"))) > 15
    assert len(strays(before, gather(str(tmp_path)))) > 15


def test_links_to_node_records_are_of_the_testbed_whose_interface_they_name(tmp_path):
    """open-iscsi makes one for a record that was added by hand, with the interface's name at its end."""
    host(tmp_path)
    other_testbed(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    links = tmp_path / "etc/iscsi/static"
    links.mkdir(parents=True)
    for interface in ("storlab-mine-2", "storlab-mine", "storlab-mine-22", "x-storlab-mine-2", "default"):
        os.symlink("/etc/iscsi/nodes/iqn.x:t/10.0.0.9,3260,1", links / f"iqn.x:t,10.0.0.9,3260,1,{interface}")
    # A file of such a name is none of open-iscsi's.
    write(tmp_path, "etc/iscsi/static/iqn.x:u,storlab-mine-2", "somebody's")
    assert [line.partition(" ")[0].rpartition("/")[2] for line in came(tmp_path, before)] == [
        "iqn.x:t,10.0.0.9,3260,1,default",
        "iqn.x:t,10.0.0.9,3260,1,storlab-mine",
        "iqn.x:t,10.0.0.9,3260,1,storlab-mine-22",
        "iqn.x:t,10.0.0.9,3260,1,x-storlab-mine-2",
        "iqn.x:u,storlab-mine-2",
    ]


def test_a_module_that_another_testbed_has_to_unload_is_that_ones(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    write(tmp_path, "proc/modules", "ext4 999 1 - Live 0x0\nbrd 16384 0 - Live 0x0\ncrc32c_intel 24576 2 - Live 0x0\n")
    assert came(tmp_path, before) == ["crc32c_intel"]
    # A session of the other testbed still uses it, so it was left to its record.
    write(tmp_path, "run/storlab/mine-2/datastore.json", json.dumps({"modules": ["crc32c_intel"]}))
    assert came(tmp_path, before) == []
    assert "crc32c_intel" in came(tmp_path, before, testbed_id="mine-2")
    # What is damaged names nothing.
    write(tmp_path, "run/storlab/mine-2/datastore.json", '["crc32c_intel"]')
    assert "crc32c_intel" in came(tmp_path, before)


def test_exports_and_a_server_that_no_record_names_are_strays(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    write(tmp_path, "run/storlab/other/nfs_export.json", json.dumps({"exports": {}}))
    write(tmp_path, "etc/exports.d/storlab-mine.exports", "x")
    mounted(tmp_path, "nfsd", "/proc/fs/nfsd")
    process(tmp_path, 93, "nfsd")
    found = came(tmp_path, before)
    assert len(found) == 3 and "nfsd running" in found and any("storlab-mine.exports sha256" in line for line in found)


def test_what_no_record_names_is_a_stray_whatever_it_is_called(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    mounted(tmp_path, "/dev/sdb", "/data/storlab-backup")
    write(tmp_path, "sys/kernel/config/target/core/iblock_0/storlab-mine-2-a/udev_path", "/dev/ram0")
    session(tmp_path, 3, "iqn.x:storlab-other", "storlab-other")
    process(tmp_path, 92, "qemu-nbd", "--export-name", "storlab-other")
    assert sorted(came(tmp_path, before)) == [
        "/dev/sdb on /data/storlab-backup type ext4",
        "LIO backstore storlab-mine-2-a",
        "iqn.x:storlab-other at 10.0.0.9:3261, session 3",
        "qemu-nbd running",
    ]


# As mdadm 4.2 prints it.
SCAN = """ARRAY /dev/md/slow  metadata=1.2 UUID=0badc0de:1234abcd:5678ef01:00000010 name=storlab-mine:slow
ARRAY /dev/md/slow  metadata=1.2 UUID=c15b4c06:225089e6:30d1ef6f:1c37dd72 name=storlab-mine-2:slow
"""


def test_superblocks_that_a_teardown_left_are_a_stray(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    # Those of another testbed are left out by their UUID in its record, or by its exact name in them.
    array = {"uuid": "c15b4c06:225089e6:30d1ef6f:1c37dd72", "device": "/dev/md126", "members": []}
    write(tmp_path, "run/storlab/mine-2/raid.json", json.dumps({"arrays": {"slow": array}}))
    write(tmp_path, "sys/block/md126/size", "2048\n")
    assert came(tmp_path, before, raid_scan=SCAN) == [
        "superblocks of storlab-mine:slow, UUID 0badc0de:1234abcd:5678ef01:00000010"
    ]
    write(tmp_path, "sys/block/md127/size", "4096\n")
    write(tmp_path, "run/storlab/mine-2/raid.json", json.dumps({"arrays": {}}))
    assert len(came(tmp_path, before, raid_scan=SCAN)) == 3
    os.unlink(tmp_path / "run/storlab/mine-2/raid.json")
    assert len(came(tmp_path, before, raid_scan=SCAN)) == 4


def test_two_sessions_to_one_target_are_two(tmp_path):
    host(tmp_path)
    session(tmp_path, 1, "iqn.x:t", "default")
    before = gather(str(tmp_path), testbed_id="mine")
    session(tmp_path, 2, "iqn.x:t", "default", port="3299")
    session(tmp_path, 3, "iqn.x:t", "default")
    assert came(tmp_path, before) == ["iqn.x:t at 10.0.0.9:3261, session 3", "iqn.x:t at 10.0.0.9:3299, session 2"]
    same = {"mounts": ["a", "a"]}
    assert strays({"mounts": ["a"]}, same) == ["mounts: a (was not there before)"] and strays(same, same) == []


def test_labs_are_told_apart_by_their_exact_names(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine", own_names=["storlab-mine-aaaaaa"])
    write(tmp_path, "run/storlab/storlab-mine-bbbbbb/vm/target01/pid", "93")
    process(tmp_path, 93, "qemu-system-x86", "-pidfile", "/run/storlab/storlab-mine-bbbbbb/vm/target01/pid")
    assert came(tmp_path, before, own_names=["storlab-mine-aaaaaa"]) == []
    # Who does not say which lab is his is shown all of that name, but not that of mine-2.
    write(tmp_path, "run/storlab/storlab-mine-2-cccccc/net")
    assert came(tmp_path, before) == [
        "/run/storlab/storlab-mine-bbbbbb",
        "/run/storlab/storlab-mine-bbbbbb/vm",
        "/run/storlab/storlab-mine-bbbbbb/vm/target01",
        "/run/storlab/storlab-mine-bbbbbb/vm/target01/pid",
        "qemu-system-x86 of storlab mine running",
    ]


def test_what_this_testbed_left_is_a_stray(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    (tmp_path / "run/storlab/mine").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(tmp_path / "run/storlab/mine/control"))
    assert came(tmp_path, before) == ["/run/storlab/mine"]
    write(tmp_path, "run/storlab/mine/pid", "13")
    write(tmp_path, "var/tmp/storlab-1000/mine/state.json", "{}")
    process(tmp_path, 94, "fio", "--output=/run/storlab/mine/out.json")
    assert came(tmp_path, before) == [
        "/run/storlab/mine",
        "/run/storlab/mine/pid",
        "/var/tmp/storlab-1000/mine",
        "/var/tmp/storlab-1000/mine/state.json",
        "fio of storlab mine running",
    ]


def test_a_file_of_multipathd_with_comments_alone_is_none_and_one_with_a_lun_is(tmp_path):
    """A multipathd that runs writes the comments again as soon as they are gone."""
    host(tmp_path)
    write(tmp_path, "etc/multipath/wwids", "# Multipath wwids, Version : 1.0\n/3600140500000001/\n")
    write(tmp_path, "etc/multipath/conf.d/empty.conf", "# nothing\n")
    before = gather(str(tmp_path))
    write(tmp_path, "etc/multipath/bindings", "# Multipath bindings, Version : 1.0\n# alias wwid\n#\n")
    assert gather(str(tmp_path)) == before
    files = [line.split()[0] for line in before["configuration_files"]]
    assert {"/etc/multipath/wwids", "/etc/multipath/conf.d/empty.conf"} <= set(files)
    write(tmp_path, "etc/multipath/bindings", "# alias wwid\n#\nmpatha 3600140500000002\n")
    assert came(tmp_path, before) == [
        "/etc/multipath/bindings sha256 "
        + hashlib.sha256(b"# alias wwid\n#\nmpatha 3600140500000002\n").hexdigest()[:16]
    ]


def test_a_multipath_device_of_another_testbed_is_left_out_and_ones_own_is_listed(tmp_path):
    host(tmp_path)
    write(tmp_path, "run/storlab/theirs/iscsi_session.json", "{}")
    session(tmp_path, 4, "iqn.theirs", "storlab-theirs")
    session(tmp_path, 5, "iqn.mine", "storlab-mine")
    for number, disk, name in ((4, "sdx", "dm-3"), (5, "sdy", "dm-4")):
        write(tmp_path, f"sys/class/iscsi_session/session{number}/device/target0/0:0:0:0/block/{disk}/dev")
        write(tmp_path, f"sys/block/{disk}/size", "2048")
        write(tmp_path, f"sys/block/{name}/size", "2048")
        write(tmp_path, f"sys/block/{name}/dm/name", f"mpath-{disk}\n")
        write(tmp_path, f"sys/block/{name}/slaves/{disk}/size")
    state = gather(str(tmp_path), testbed_id="mine")
    assert state["device_mapper"] == ["mpath-sdy"]
    assert [line for line in state["block_devices"] if "dm-" in line] == ["dm-4 1048576 bytes"]


def nvme(root, number=0, host="nqn.2014-08.test:me", nqn="nqn.2014-08.test:a"):
    base = f"sys/class/nvme/nvme{number}"
    write(root, f"{base}/subsysnqn", f"{nqn}\n")
    write(root, f"{base}/address", "traddr=192.0.2.7,trsvcid=4420,src_addr=192.0.2.9\n")
    write(root, f"{base}/hostnqn", f"{host}\n")


def nvmet(root, nqn="nqn.2014-08.test:a", number="3"):
    base = "sys/kernel/config/nvmet"
    write(root, f"{base}/subsystems/{nqn}/namespaces/1/device_path", "/dev/sdx\n")
    write(root, f"{base}/subsystems/{nqn}/allowed_hosts/nqn.2014-08.test:me/x")
    write(root, f"{base}/ports/{number}/addr_traddr", "192.0.2.7\n")
    write(root, f"{base}/ports/{number}/addr_trsvcid", "4420\n")
    write(root, f"{base}/ports/{number}/subsystems/{nqn}/x")
    write(root, f"{base}/hosts/nqn.2014-08.test:me/x")


def test_connections_and_targets_over_nvme_are_seen(tmp_path):
    """The forms are those of Linux 6.1.0 (Debian 12); a disk in a slot has a controller without a host's name."""
    host(tmp_path)
    assert gather(str(tmp_path))["nvme_connections"] == gather(str(tmp_path))["nvme_targets"] == []
    nvme(tmp_path)
    write(tmp_path, "sys/class/nvme/nvme1/address", "0000:01:00.0\n")
    nvmet(tmp_path)
    state = gather(str(tmp_path))
    assert state["nvme_connections"] == [
        "nqn.2014-08.test:a at 192.0.2.7:4420 as nqn.2014-08.test:me, controller nvme0"
    ]
    assert state["nvme_targets"] == [
        "host nqn.2014-08.test:me",
        "port 3 at 192.0.2.7 4420",
        "port 3 at 192.0.2.7 4420 with nqn.2014-08.test:a",
        "subsystem nqn.2014-08.test:a",
        "subsystem nqn.2014-08.test:a for nqn.2014-08.test:me",
        "subsystem nqn.2014-08.test:a namespace 1 on /dev/sdx",
    ]


def test_what_others_do_over_nvme_is_a_note_and_never_blamed_on_a_testbed(tmp_path):
    host(tmp_path)
    nvme(tmp_path)
    before = examine(str(tmp_path), testbed_id="mine")
    (tmp_path / "sys/class/nvme/nvme0/hostnqn").unlink()
    nvmet(tmp_path)
    after = examine(str(tmp_path), testbed_id="mine")
    made = {"areas": ["iscsi_session", "lio_target"]}
    verdict = judge(before.lines, after.lines, after.ours, made)
    assert verdict.strays == []
    assert [note.split(":")[0] for note in verdict.notes] == ["nvme connections", *["nvme targets"] * 6]


OURS, HOST = "nqn.2026-11.test:mine", "nqn.2026-11.test:me"


def over_nvme(root, testbed="mine"):
    """What a testbed has over NVMe, named by its records: a subsystem that it connects to itself, and the disk of that."""
    records = f"run/storlab/{testbed}"
    target = {"subsystems": [OURS], "hosts": [HOST], "ports": {"192.0.2.7:4420": 5}}
    write(root, f"{records}/nvme_target.json", json.dumps(target))
    write(root, f"{records}/nvme_session.json", json.dumps({"hosts": [HOST]}))
    base = "sys/kernel/config/nvmet"
    write(root, f"{base}/subsystems/{OURS}/namespaces/1/device_path", "/dev/sdx\n")
    write(root, f"{base}/subsystems/{OURS}/allowed_hosts/{HOST}/x")
    write(root, f"{base}/ports/5/addr_traddr", "192.0.2.7\n")
    write(root, f"{base}/ports/5/addr_trsvcid", "4420\n")
    write(root, f"{base}/ports/5/subsystems/{OURS}/x")
    write(root, f"{base}/hosts/{HOST}/x")
    nvme(root, 6, HOST, OURS)
    # The joined disk is below the subsystem, with its controllers; the path to it below the controller.
    write(root, "sys/devices/nvme-subsystem/nvme-subsys6/nvme6/x")
    for above, disk in (("nvme-subsystem/nvme-subsys6", "nvme6n1"), ("ctl/nvme6", "nvme6c6n1")):
        write(root, f"sys/devices/{above}/{disk}/size", "2048\n")
        os.symlink(root / f"sys/devices/{above}/{disk}", root / f"sys/block/{disk}")


def test_what_a_testbed_has_over_nvme_is_its_own(tmp_path):
    host(tmp_path)
    nvme(tmp_path)
    nvmet(tmp_path)
    before = examine(str(tmp_path), testbed_id="mine")
    over_nvme(tmp_path)
    after = examine(str(tmp_path), testbed_id="mine")
    ours = {section: lines for section, lines in after.ours.items() if "nvme" in section or section == "block_devices"}
    assert ours == {
        "block_devices": ["nvme6c6n1 1048576 bytes", "nvme6n1 1048576 bytes"],
        "nvme_connections": [f"{OURS} at 192.0.2.7:4420 as {HOST}, controller nvme6"],
        "nvme_targets": [
            f"host {HOST}",
            "port 5 at 192.0.2.7 4420",
            f"port 5 at 192.0.2.7 4420 with {OURS}",
            f"subsystem {OURS}",
            f"subsystem {OURS} for {HOST}",
            f"subsystem {OURS} namespace 1 on /dev/sdx",
        ],
    }
    made = {"areas": ["nvme_target", "nvme_session"]}
    assert len(judge(before.lines, after.lines, after.ours, made).strays) >= 9
    # Another testbed sees nothing of it, as far as the records go.
    other = examine(str(tmp_path), testbed_id="mine-2")
    assert {section: other.lines[section] for section in ours} == {section: before.lines[section] for section in ours}


def test_what_others_had_over_nvme_is_missed_where_a_testbed_used_the_same(tmp_path):
    host(tmp_path)
    nvmet(tmp_path)
    before = examine(str(tmp_path), testbed_id="mine")
    (tmp_path / "sys/kernel/config/nvmet/subsystems/nqn.2014-08.test:a/allowed_hosts/nqn.2014-08.test:me/x").unlink()
    os.rmdir(tmp_path / "sys/kernel/config/nvmet/subsystems/nqn.2014-08.test:a/allowed_hosts/nqn.2014-08.test:me")
    after = examine(str(tmp_path), testbed_id="mine")
    blamed = {
        area: judge(before.lines, after.lines, after.ours, {"areas": [area]}).strays
        for area in ("nvme_target", "lio_target")
    }
    assert blamed["lio_target"] == [] and len(blamed["nvme_target"]) == 1


def test_the_module_of_connections_that_others_have_is_not_left_of_a_testbed(tmp_path):
    host(tmp_path)
    write(tmp_path, "proc/modules", "nvme_tcp 9 0 - Live 0x0\nnvme_fabrics 9 1 nvme_tcp, Live 0x0\n")
    made = {"modules": ["nvme_fabrics", "nvme_tcp"]}
    assert examine(str(tmp_path), testbed_id="mine", made=made).ours["kernel_modules"] == ["nvme_fabrics", "nvme_tcp"]
    nvme(tmp_path)
    assert examine(str(tmp_path), testbed_id="mine", made=made).ours["kernel_modules"] == []
