#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Things of somebody else's on a machine, made and looked at with the kernel's own files and plain commands, with nothing of the collection.

    foreign.py make SEED NUMBER... | look | tamper SEED | plant | unplant | remove

A case is a random mixture that one somebody has on both machines; its name begins, ends or goes on like that of the testbed. What `make` has made stands in
KEPT; `look` prints {case: {thing: what it is and holds}}, `remove` takes all away in the reverse order and says what it could not.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

OURS = "mby"
STEM = "iqn.2026-11.test.storlab"
TARGET, INITIATOR = "target01", "hypervisor01"
ADDRESS = "10.213.0.11"
CASES, THINGS = 20, 6
MIB = 1 << 20
KEPT = Path("/root/foreign.json")
CORE = Path("/sys/kernel/config/target/core")
ISCSI = Path("/sys/kernel/config/target/iscsi")
# A testbed's id with {n} in place of the case's number.
ALIKE = ("mby-{n}", "mby{n}", "mby_{n}", "mby-ds1-{n}", "mb{n}", "xmby{n}", "storlab-mby-{n}", "mby-bench-{n}")
PLACES = (
    "/data/storlab-backup",
    "/data/storlab",
    "/srv/storlab-backup",
    "/srv/storlab/mby-ds1",
    "/srv/mby",
    "/var/tmp/mby",
)
MODULES = {
    TARGET: (
        "loop",
        "zram num_devices=0",
        "lzo_rle",
        "dm_mod",
        "raid1",
        "ext4",
        "target_core_iblock",
        "target_core_file",
        "iscsi_target_mod",
    ),
    INITIATOR: ("loop", "zram num_devices=0", "lzo_rle", "dm_mod", "raid1", "ext4", "iscsi_tcp"),
}
# What can be on either machine, and what on one only. RECORDED: what may come while the testbed is up, because a record says whose it is, or because it
# stands on a file in a folder that the collection never makes.
ANYWHERE = ("loop", "zram", "array", "mount", "tmpfs", "mapping", "records")
UNRECORDED = ("swap", "process", "namespace", "configuration", "strangers_mapping")
OF_TARGET = ("block_store", "file_store", "memory_store", "export")
STRANGERS_ON_TARGET, STRANGERS_ON_INITIATOR = ("tgt", "brd"), ("nodes",)


def dice_of(*words: object) -> random.Random:
    """The same for the same words."""
    return random.Random("/".join(map(str, words)))  # noqa: S311


def deal(seed: str, number: int) -> dict:
    """{id, machine: kinds} of a case. Every third comes while the testbed is up."""
    came = number % 3 == 2
    dice = dice_of(seed, "deck", came)
    there = [(kind, machine) for kind in ANYWHERE for machine in (TARGET, INITIATOR)]
    there += [(kind, TARGET) for kind in OF_TARGET] * 2
    if not came:
        there += [(kind, machine) for kind in UNRECORDED for machine in (TARGET, INITIATOR)]
        there += [(kind, TARGET) for kind in STRANGERS_ON_TARGET] + [
            (kind, INITIATOR) for kind in STRANGERS_ON_INITIATOR
        ]
    # A deck is dealt to the end before the next one, so that every kind is seen whatever the seed.
    cards: list = []
    while len(cards) < CASES * THINGS:
        dice.shuffle(there)
        cards += there
    first = len([other for other in range(number) if (other % 3 == 2) == came]) * THINGS
    hand = cards[first : first + THINGS]
    mixture = {machine: [kind for kind, where in hand if where == machine] for machine in (TARGET, INITIATOR)}
    # A session needs its target; every second case has one, last, so that what it is to is there.
    if number % 2:
        mixture[TARGET].append("open_export")
        mixture[INITIATOR].append("session")
    name = dice_of(seed, "name", number).choice(ALIKE).format(n=number)
    return {"id": name, "came": came, **mixture}


def run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def wait(condition: Callable, what: str) -> None:
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not come about")
        time.sleep(0.1)


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def stored(device: str) -> str:
    """SHA-256 of what a device holds, past the page cache, where it would not show what a target writes."""
    with subprocess.Popen(
        ["dd", f"if={device}", "bs=1M", "iflag=direct", "status=none"], stdout=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None
        held = hashlib.sha256(reading.stdout.read())
    if reading.returncode:
        raise SystemExit(f"{device} cannot be read")
    return held.hexdigest()


def text(path: str | Path) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def tree(folder: str) -> dict:
    """Every file and folder with its mode and contents."""
    found = {}
    inside = sorted(glob.glob(f"{folder}/**", recursive=True)) if os.path.isdir(folder) else []
    for path in [folder, *inside]:
        mode = f"{os.lstat(path).st_mode:o} {os.lstat(path).st_uid}"
        found[path] = f"{mode} {digest(path)}" if os.path.isfile(path) else mode
    return found


def attributes(folder: Path) -> dict:
    """Everything that configfs says of a backstore or a target, but what counts by itself."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in folders:
            path = os.path.join(base, name)
            if os.path.islink(path):
                found[path] = f"-> {os.readlink(path)}"
        if "statistics" in base:
            continue
        found[base] = "folder"
        for name in files:
            path = os.path.join(base, name)
            try:
                found[path] = text(path)
            except OSError as error:
                found[path] = f"unreadable ({error.errno})"
    return found


class Case:
    """What one somebody has on this machine. made: things that can be looked at again by their facts alone."""

    def __init__(self, seed: str, number: int, machine: str):
        self.number, self.machine = number, machine
        hand = deal(seed, number)
        self.id, self.came, self.kinds = hand["id"], hand["came"], hand[machine]
        self.dice = dice_of(seed, number, machine)
        self.made: list = []
        self.undo: list = []
        self.claims: dict = {}
        self.step = 0

    def make(self) -> dict:
        for step, kind in enumerate(self.kinds):
            self.step = step
            facts = getattr(self, f"make_{kind}")()
            self.made.append({"kind": kind, **facts})
        if self.came:
            self.write_records()
        return {"number": self.number, "id": self.id, "came": self.came, "made": self.made, "undo": self.undo}

    def claim(self, area: str, key: str, value: dict | list) -> None:
        known = self.claims.setdefault(area, {})
        if isinstance(value, list):
            known[key] = known.get(key, []) + value
        else:
            known.setdefault(key, {}).update(value)

    def write_records(self) -> None:
        """Whose all this is, in the form in which a testbed of this collection keeps it."""
        folder = f"/run/storlab/{self.id}"
        os.makedirs(folder, exist_ok=True)
        self.claims.setdefault("iscsi_session", {})
        for area, content in self.claims.items():
            content["boot_id"] = text("/proc/sys/kernel/random/boot_id")
            Path(folder, f"{area}.json").write_text(json.dumps(content), encoding="utf-8")
        self.undo.append(["rm", "-r", folder])
        self.made.append({"kind": "records", "folder": folder})

    # -- what several kinds begin with

    def folder(self) -> str:
        path = f"{self.dice.choice(PLACES)}-{self.number}-{self.step}"
        os.makedirs(path)
        self.undo.append(["rm", "-r", path])
        return path

    def image(self, mib: int = 2) -> str:
        path = f"{self.folder()}/disk.img"
        Path(path).write_bytes(self.dice.randbytes(mib * MIB))
        return path

    def loop(self, mib: int = 2) -> dict:
        image = self.image(mib)
        # The number is the kernel's to give, as it is with everybody.
        device = run("losetup", "--find", "--show", image).strip()
        self.undo.append(["losetup", "--detach", device])
        return {"device": device, "image": image}

    # -- devices

    def make_loop(self) -> dict:
        return self.loop()

    def make_zram(self) -> dict:
        number = text("/sys/class/zram-control/hot_add")
        Path(f"/sys/block/zram{number}/disksize").write_text(str(MIB), encoding="utf-8")
        with open(f"/dev/zram{number}", "r+b", buffering=0) as handle:
            handle.write(self.dice.randbytes(MIB))
            os.fsync(handle.fileno())
        self.undo.append(
            [
                "sh",
                "-c",
                f"echo 1 > /sys/block/zram{number}/reset && echo {number} > /sys/class/zram-control/hot_remove",
            ]
        )
        disk = {"provider": "zram", "path": f"/dev/zram{number}", "size_bytes": MIB}
        self.claim("ramdisk", "disks", {f"d{self.step}": disk})
        return {"device": f"/dev/zram{number}"}

    def make_brd(self) -> dict:
        """All disks of brd come from one loading of its module; who is second finds it there, and has a file instead."""
        if self.number < 10 or os.path.isdir("/sys/module/brd"):
            return self.loop()
        run("modprobe", "brd", "rd_nr=1", "rd_size=1024")
        wait(lambda: os.path.exists("/dev/ram0"), "/dev/ram0")
        with open("/dev/ram0", "r+b", buffering=0) as handle:
            handle.write(self.dice.randbytes(MIB))
            os.fsync(handle.fileno())
        self.undo.append(["rmmod", "brd"])
        return {"device": "/dev/ram0"}

    def make_array(self) -> dict:
        first, second = self.loop(4), None
        self.step += 100
        second = self.loop(4)
        self.step -= 100
        device = f"/dev/md{self.number * 10 + self.step}"
        name = f"storlab-{self.id}:ds1"[:32]
        options = [
            "--level=1",
            "--raid-devices=2",
            "--metadata=1.2",
            "--assume-clean",
            f"--name={name}",
            "--homehost=any",
        ]
        run("mdadm", "--create", device, "--run", *options, first["device"], second["device"])
        self.undo.append(["mdadm", "--stop", device])
        wait(lambda: text(f"/sys/block/{device[5:]}/md/array_state") in ("clean", "active-idle"), f"{device} at rest")
        # Both members are to hold the same: whoever reads may be answered by either.
        with open(device, "r+b", buffering=0) as handle:
            handle.write(self.dice.randbytes(int(text(f"/sys/block/{device[5:]}/size")) * 512))
            os.fsync(handle.fileno())
        uuid = re.findall(r"^MD_UUID=(\S+)$", run("mdadm", "--detail", "--export", device), re.M)[0]
        array = {"uuid": uuid, "device": device, "members": [first["device"], second["device"]]}
        self.claim("raid", "arrays", {f"a{self.step}": array})
        return {"device": device}

    def make_mapping(self) -> dict:
        return self.mapping(f"STORLAB-CACHE:{self.id}:ds1-{self.step}")

    def make_strangers_mapping(self) -> dict:
        return self.mapping(f"STORLAB-{OURS}-{self.number}-{self.step}")

    def mapping(self, uuid: str) -> dict:
        below = self.loop()
        name = f"storlab-{self.id}-ds1-{self.step}"
        run(
            "dmsetup",
            "create",
            name,
            "--noudevsync",
            "--uuid",
            uuid,
            "--table",
            f"0 {2 * MIB // 512} linear {below['device']} 0",
        )
        self.undo.append(["dmsetup", "remove", "--noudevsync", name])
        run("dmsetup", "mknodes", name)
        return {"mapping": name, "device": f"/dev/mapper/{name}"}

    def make_swap(self) -> dict:
        below = self.loop()
        run("mkswap", below["device"])
        run("swapon", "--priority", "0", below["device"])
        self.undo.append(["swapoff", below["device"]])
        # What it holds is the kernel's to change.
        return {"swap": below["device"]}

    # -- file systems, files, processes

    def mounted(self, where: str, *words: str) -> dict:
        os.makedirs(where)
        run("mount", *words, where)
        self.undo += [["rmdir", where], ["umount", where]]
        Path(where, "theirs.bin").write_bytes(self.dice.randbytes(5000))
        os.makedirs(f"{where}/storlab/{OURS}")
        Path(where, "storlab", OURS, "bench.img").write_bytes(self.dice.randbytes(300))
        self.claim("datastore", "datastores", {f"s{self.step}": {"mount_point": where}})
        return {"mount_point": where}

    def make_mount(self) -> dict:
        below = self.loop(4)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", below["device"])
        self.step += 200
        where = f"{self.dice.choice(PLACES)}-{self.number}-{self.step}"
        self.step -= 200
        return self.mounted(where, "-t", "ext4", below["device"])

    def make_tmpfs(self) -> dict:
        return self.mounted(
            f"/srv/storlab/{self.id}-ds{self.step}", "-t", "tmpfs", "-o", "size=1m", f"storlab-{self.id}"
        )

    def make_records(self) -> dict:
        """Folders of another testbed, of its lab and of a run that goes on."""
        folder = f"/var/{self.dice.choice(('lib', 'tmp'))}/storlab/{self.id}/lab{self.step}"
        os.makedirs(f"{folder}/{OURS}")
        Path(folder, OURS, "run.json").write_bytes(self.dice.randbytes(400))
        os.chmod(f"{folder}/{OURS}", 0o700)
        self.undo.append(["sh", "-c", f"rm -r {folder} && rmdir {os.path.dirname(folder)}; true"])
        return {"folder": folder}

    def make_configuration(self) -> dict:
        names = (
            "/etc/tgt/conf.d/storlab-{0}.conf",
            "/etc/exports.d/storlab-{0}.txt",
            "/etc/udev/rules.d/99-storlab-{0}.rules",
            "/etc/modules-load.d/storlab-{0}.conf",
            "/etc/systemd/system/storlab-{0}.socket.d/x.conf",
        )
        path = self.dice.choice(names).format(f"{self.id}-{self.step}")
        if not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path))
            self.undo.append(["sh", "-c", f"rmdir {os.path.dirname(path)} 2>/dev/null; true"])
        Path(path).write_text(f"# {self.dice.random()}\n", encoding="utf-8")
        self.undo.append(["rm", path])
        return {"folder": path}

    def make_process(self) -> dict:
        """Of the name of a program that a testbed runs, and with the testbed's id among its words."""
        folder, name = self.folder(), self.dice.choice(("fio", "nbd-server", "qemu-nbd", "qemu-system-x86"))
        shutil.copy("/bin/sleep", f"{folder}/{name}")
        process = started([f"{folder}/{name}", "1000000", "0"])
        self.undo.append(["kill", str(process)])
        return {"process": process}

    def make_namespace(self) -> dict:
        name = f"storlab-{self.id}-{self.dice.getrandbits(24):06x}"
        run("ip", "netns", "add", name)
        self.undo.append(["ip", "netns", "delete", name])
        return {"namespace": name}

    # -- targets

    def store(self, plugin: str, control: str) -> Path:
        hba = CORE / f"{plugin}_{1000 + self.number * 10 + self.step}"
        # Names that begin as the testbed's own. The very same name is refused by the build, which cannot tell whose it is.
        likes = (f"storlab-{OURS}-ds1-{self.number}", f"storlab-{OURS}-bench{self.number}", f"storlab-{self.id}-ds1")
        name = self.dice.choice(likes)
        path = hba / name
        path.mkdir(parents=True)
        self.undo += [["rmdir", str(hba)], ["rmdir", str(path)]]
        Path(path, "control").write_text(control, encoding="utf-8")
        serial = self.dice.choice((None, f"{self.id}-1", f"{self.dice.getrandbits(60):x}"))
        if serial:
            Path(path, "wwn/vpd_unit_serial").write_text(serial, encoding="utf-8")
        # A block device says here what it is; records are checked against it.
        Path(path, "enable").write_text("1", encoding="utf-8")
        self.claim("lio_target", "core", {f"core/{hba.name}/{name}": [serial or ""]})
        return path

    def make_block_store(self) -> dict:
        below = self.loop()
        path = self.store("iblock", f"udev_path={below['device']}")
        Path(path, "udev_path").write_text(below["device"], encoding="utf-8")
        return {"store": str(path), "device": below["device"]}

    def make_file_store(self) -> dict:
        image = self.image()
        path = self.store("fileio", f"fd_dev_name={image},fd_dev_size={2 * MIB}")
        return {"store": str(path), "image": image}

    def make_memory_store(self) -> dict:
        return {"store": str(self.store("rd_mcp", "rd_pages=64"))}

    def make_export(self) -> dict:
        name = self.dice.choice(
            (f"{STEM}:{self.id}:target01", f"{STEM}:{OURS}:target01-{self.number}", f"{STEM}:{OURS}.{self.number}")
        )
        facts, group = self.exported(f"{name}-{self.step}", f"127.0.0.1:{3400 + self.number * 10 + self.step}")
        acl = group / f"acls/{STEM}:{OURS}:hypervisor01"
        acl.mkdir()
        self.undo.append(["rmdir", str(acl)])
        for key, value in (("userid", "theirs"), ("password", f"their-{self.number}-secret")):
            Path(acl, "auth", key).write_text(value, encoding="utf-8")
        mapped = acl / "lun_0"
        mapped.mkdir()
        (mapped / "x").symlink_to(group / "lun/lun_0")
        self.undo += [["rmdir", str(mapped)], ["rm", str(mapped / "x")]]
        return facts

    def make_open_export(self) -> dict:
        """One that lets everybody in, for the session of the same case."""
        facts, group = self.exported(f"{STEM}:{self.id}:open", f"{ADDRESS}:{3700 + self.number}")
        for key, value in (("generate_node_acls", "1"), ("authentication", "0"), ("demo_mode_write_protect", "0")):
            Path(group, "attrib", key).write_text(value, encoding="utf-8")
        return facts

    def exported(self, name: str, portal: str) -> tuple:
        below = self.make_file_store()
        target = ISCSI / name
        group = target / "tpgt_1"
        parts = (target, group, group / "lun/lun_0", group / "np" / portal)
        for path in parts:
            path.mkdir(parents=True)
            self.undo.append(["rmdir", str(path)])
        link = group / "lun/lun_0/theirs"
        link.symlink_to(below["store"])
        self.undo.append(["rm", str(link)])
        Path(group, "enable").write_text("1", encoding="utf-8")
        self.claim("lio_target", "targets", [name])
        return {"target": str(target), "store": below["store"], "image": below["image"]}, group

    def make_tgt(self) -> dict:
        port, image = 4000 + self.number, self.image()
        run("tgtd", "-C", str(port), "--iscsi", f"portal=127.0.0.1:{4100 + self.number}")
        admin = ["tgtadm", "-C", str(port), "--lld", "iscsi"]
        self.undo.append([*admin[:3], "--mode", "system", "--op", "delete"])
        name = f"{STEM}:{self.id}:target01"
        self.undo.append([*admin, "--mode", "target", "--op", "delete", "--force", "--tid", "1"])
        run(*admin, "--mode", "target", "--op", "new", "--tid", "1", "--targetname", name)
        run(*admin, "--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", image)
        return {"tgt": port, "image": image}

    # -- initiators

    def interface(self) -> str:
        name = f"storlab-{self.id}"
        if not os.path.exists(f"/etc/iscsi/ifaces/{name}"):
            run("iscsiadm", "-m", "iface", "-o", "new", "-I", name)
            run("iscsiadm", "-m", "iface", "-o", "update", "-I", name, "-n", "iface.transport_name", "-v", "tcp")
            self.undo.append(["iscsiadm", "-m", "iface", "-o", "delete", "-I", name])
        return name

    def node(self, target: str, portal: str) -> list:
        words = ["iscsiadm", "-m", "node", "-T", target, "-p", f"{portal},1", "-I", self.interface()]
        run(*words, "-o", "new")
        self.undo.append([*words, "-o", "delete"])
        return words

    def make_nodes(self) -> dict:
        target = f"{STEM}:{OURS}:target01-{self.number}"
        self.node(target, f"{ADDRESS}:3260")
        return {"interface": self.interface(), "nodes": target}

    def make_session(self) -> dict:
        words = self.node(f"{STEM}:{self.id}:open", f"{ADDRESS}:{3700 + self.number}")
        run(*words, "--login")
        self.undo.append([*words, "--logout"])
        return {"interface": self.interface(), "session": f"{STEM}:{self.id}:open", "nodes": f"{STEM}:{self.id}:open"}


def started(words: list) -> int:
    """A process that outlives this one and holds nothing of it."""
    null = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/").pid


def of_process(number: int) -> dict:
    words = text(f"/proc/{number}/stat").rpartition(")")[2].split()
    return {"words": Path(f"/proc/{number}/cmdline").read_bytes().decode(), "started": words[19]}


def of_session(target: str) -> list:
    """Each session to a target: its number, where to, from which interface, and what its disks hold."""
    found = []
    for path in sorted(glob.glob("/sys/class/iscsi_session/session*")):
        if text(f"{path}/targetname") != target:
            continue
        number = path.rsplit("session", 1)[1]
        disks = sorted(os.path.basename(disk) for disk in glob.glob(f"{path}/device/target*/*/block/*"))
        connection = f"/sys/class/iscsi_connection/connection{number}:0"
        found.append(
            {
                "session": number,
                "state": text(f"{path}/state"),
                "from": text(f"{path}/ifacename"),
                "to": [text(f"{connection}/persistent_{part}") for part in ("address", "port")],
                "disks": {disk: [text(f"/sys/block/{disk}/size"), stored(f"/dev/{disk}")] for disk in disks},
            }
        )
    return found


def of_device(device: str) -> dict:
    number = os.stat(device).st_rdev
    name = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))
    facts = {"name": name, "size": text(f"/sys/block/{name}/size"), "holds": stored(device)}
    for key in ("loop/backing_file", "loop/dio", "disksize", "comp_algorithm", "dm/name", "dm/uuid"):
        path = f"/sys/block/{name}/{key}"
        if os.path.exists(path):
            facts[key] = text(path)
    if name.startswith("md"):
        facts["array"] = run("mdadm", "--detail", "--export", device)
        facts["state"] = text(f"/sys/block/{name}/md/degraded")
        facts["members"] = sorted(os.listdir(f"/sys/block/{name}/slaves"))
    return facts


def look_at(thing: dict) -> dict:
    """What a thing is and holds; a thing that is gone, or half gone, says so in place of it."""
    readers: dict[str, Callable] = {
        "device": of_device,
        "image": lambda path: [f"{os.lstat(path).st_mode:o}", digest(path)],
        "mapping": lambda name: run("dmsetup", "table", name),
        "swap": lambda device: [
            line.split()[:3] for line in text("/proc/swaps").splitlines() if line.split()[0] == device
        ],
        "mount_point": lambda where: (
            [
                [" ".join(line.split()[4:6]), line.partition(" - ")[2]]
                for line in text("/proc/self/mountinfo").splitlines()
                if line.split()[4] == where
            ]
            + [tree(where)]
        ),
        "folder": tree,
        "process": of_process,
        "namespace": lambda name: os.stat(f"/run/netns/{name}").st_ino,
        "store": lambda path: attributes(Path(path)),
        "target": lambda path: attributes(Path(path)),
        "tgt": lambda port: run("tgtadm", "-C", str(port), "--lld", "iscsi", "--mode", "target", "--op", "show"),
        "interface": lambda name: tree(f"/etc/iscsi/ifaces/{name}"),
        "nodes": lambda target: {
            path: tree(path) for path in glob.glob("/etc/iscsi/nodes/*") if path.endswith(f"/{target}")
        },
        "session": of_session,
    }
    seen = {}
    for key, value in thing.items():
        if key in readers:
            try:
                seen[key] = readers[key](value)
            except (OSError, SystemExit) as error:
                seen[key] = f"gone: {error}"
    return seen


def read_kept() -> dict:
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"prepared": [], "cases": []}


def look() -> dict:
    found = {}
    for case in read_kept()["cases"]:
        things = {f"{number} {thing['kind']}": look_at(thing) for number, thing in enumerate(case["made"])}
        found[str(case["number"])] = {"id": case["id"], "came": case["came"], "things": things}
    return found


def prepare(machine: str) -> list:
    """What strangers had before: their modules, so that they are nobody's to unload, and the initiator's daemon."""
    for module in MODULES[machine]:
        run("modprobe", *module.split())
    if not os.path.isdir("/sys/kernel/config/target") and machine == TARGET:
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    if machine == INITIATOR:
        run("iscsid")
        wait(
            lambda: any(text(path) == "iscsid" for path in glob.glob("/proc/[0-9]*/comm") if os.path.exists(path)),
            "iscsid",
        )
    return []


def make(seed: str, numbers: list) -> dict:
    kept, machine = read_kept(), socket.gethostname()
    if not KEPT.exists():
        kept["prepared"] = prepare(machine)
    for number in numbers:
        case = Case(seed, int(number), machine)
        try:
            kept["cases"].append(case.make())
        finally:
            KEPT.write_text(json.dumps(kept), encoding="utf-8")
    return {
        case["number"]: [case["id"], *(thing["kind"] for thing in case["made"])]
        for case in kept["cases"]
        if str(case["number"]) in numbers
    }


def tamper(seed: str) -> list:
    """Change the least of one thing in three cases, and return which: whoever compares must see it."""
    dice, changed = dice_of(seed, "tamper"), []
    ways = {"image": "a byte of a file", "device": "a byte of a device", "store": "an attribute"}
    cases = read_kept()["cases"]
    for key in ways:
        able = [
            (case["number"], thing)
            for case in cases
            if case["number"] not in changed
            for thing in case["made"]
            # Of what is exported, attributes cannot be changed.
            if key in thing and "target" not in thing and (key != "device" or "store" not in thing)
        ]
        if not able:
            continue
        number, thing = dice.choice(able)
        if key == "store":
            path = Path(thing[key], "attrib/emulate_tas")
            path.write_text("0" if text(path) != "0" else "1", encoding="utf-8")
        else:
            with open(thing[key], "r+b", buffering=0) as handle:
                last = os.lseek(handle.fileno(), -1, os.SEEK_END)
                was = handle.read(1)
                os.pwrite(handle.fileno(), bytes([was[0] ^ 1]), last)
                os.fsync(handle.fileno())
        changed.append(number)
    return sorted(changed)


def plant() -> list:
    """Things that the testbed's records name, or that carry its mark, as a teardown that failed would leave them. Returns what must be said of each."""
    folder, where = f"/run/storlab/{OURS}", "/srv/storlab/left"
    for path in (folder, where):
        os.makedirs(path)
    boot_id = text("/proc/sys/kernel/random/boot_id")
    run("mount", "-t", "tmpfs", f"storlab-{OURS}", where)
    number = text("/sys/class/zram-control/hot_add")
    Path(f"/sys/block/zram{number}/disksize").write_text(str(MIB), encoding="utf-8")
    disk = {"provider": "zram", "path": f"/dev/zram{number}", "size_bytes": MIB}
    records = {
        "ramdisk": {"disks": {"left": disk}},
        "datastore": {"datastores": {"left": {"mount_point": where}}},
        "lio_target": {"core": {f"core/rd_mcp_9/storlab-{OURS}-ds1": []}, "targets": [f"{STEM}:{OURS}:left"]},
    }
    for area, record in records.items():
        Path(folder, f"{area}.json").write_text(json.dumps({**record, "boot_id": boot_id}), encoding="utf-8")
    expected = [
        f"own files: {folder}",
        *(f"own files: {folder}/{area}.json" for area in records),
        f"mounts: storlab-{OURS} on {where} type tmpfs",
        f"block devices: zram{number} {MIB} bytes",
    ]
    if socket.gethostname() == TARGET:
        (CORE / f"rd_mcp_9/storlab-{OURS}-ds1").mkdir(parents=True)
        (ISCSI / f"{STEM}:{OURS}:left").mkdir(parents=True)
        expected += [f"targets: LIO backstore storlab-{OURS}-ds1", f"targets: LIO target {STEM}:{OURS}:left"]
    else:
        run("iscsiadm", "-m", "iface", "-o", "new", "-I", f"storlab-{OURS}")
        expected.append(
            f"configuration files: /etc/iscsi/ifaces/storlab-{OURS} sha256 {digest(f'/etc/iscsi/ifaces/storlab-{OURS}')[:16]}"
        )
    Path("/root/planted").write_text(number, encoding="utf-8")
    return [f"{line} (is left of the testbed)" for line in sorted(expected)]


def unplant() -> None:
    number = text("/root/planted")
    os.unlink("/root/planted")
    run("umount", "/srv/storlab/left")
    run("rmdir", "/srv/storlab/left")
    run("rm", "-r", f"/run/storlab/{OURS}")
    run(
        "sh",
        "-c",
        f"rmdir /srv/storlab /run/storlab 2>/dev/null; echo 1 > /sys/block/zram{number}/reset && echo {number} > /sys/class/zram-control/hot_remove",
    )
    if socket.gethostname() == TARGET:
        run(
            "rmdir",
            str(ISCSI / f"{STEM}:{OURS}:left"),
            str(CORE / f"rd_mcp_9/storlab-{OURS}-ds1"),
            str(CORE / "rd_mcp_9"),
        )
    else:
        run("iscsiadm", "-m", "iface", "-o", "delete", "-I", f"storlab-{OURS}")


def remove() -> list:
    """Everything that still is there can be taken away by who made it. Returns what could not."""
    failed = []
    for case in reversed(read_kept()["cases"]):
        for words in reversed(case["undo"]):
            done = subprocess.run(words, check=False, capture_output=True, text=True)
            if done.returncode:
                failed.append(f"case {case['number']}: {' '.join(words)}: {done.stderr.strip()}")
    KEPT.unlink(missing_ok=True)
    return failed


if __name__ == "__main__":
    os.environ["MDADM_NO_UDEV"] = "1"
    order, *rest = sys.argv[1:]
    answers: dict[str, Callable] = {
        "make": lambda: make(rest[0], rest[1:]),
        "look": look,
        "tamper": lambda: tamper(rest[0]),
        "plant": plant,
        "unplant": unplant,
        "remove": remove,
    }
    print(json.dumps(answers[order]()))
