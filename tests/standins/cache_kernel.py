# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose device mapper, LVM and bcache are made of files, for tests of cache tiers. What the kernel really does with data is tried by the molecule
scenario cache_tier.

Kernel stands in for device mapper: dmsetup's commands change its mappings, which it shows in sysfs and by their tables.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
from pathlib import Path
from types import SimpleNamespace

from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import (
    cache_bcache,
    cache_lvm,
    cache_plan,
    cache_provider,
    cache_tier,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety

MIB = 1 << 20
STATUS = "8 27/1280 128 31/272 101 17 203 19 5 36 {dirty} 2 metadata2 {mode} 2 migration_threshold 2048 {policy} 0 rw {check}"


class Kernel(device_safety.System):
    """A host with the virtio disks vdb to vdf (serials slow, fast, slow2, fast2, fast3; 48, 24, 56, 32 and 40 MiB).

    ``dirty``: blocks that a cache has alone."""

    def __init__(self, root):
        super().__init__(str(root))
        self.numbers: dict = {}
        self.maps: dict = {}
        self.signatures: dict = {}
        self.done: list = []
        self.dirty, self.cleans, self.check = 7, True, "-"
        self.made: dict = {}
        self.sets: dict = {}
        for index, (serial, size) in enumerate(
            {"slow": 48, "fast": 24, "slow2": 56, "fast2": 32, "fast3": 40}.items(), 1
        ):
            self.disk(f"vd{'abcdef'[index]}", f"254:{16 * index}", size * 2048, {"serial": serial})
        self.write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n")
        self.write("/proc/swaps", "Filename Type Size Used Priority\n")

    def write(self, path: str, content: str) -> None:
        os.makedirs(os.path.dirname(self.real(path)), exist_ok=True)
        Path(self.real(path)).write_text(content, encoding="utf-8")

    def disk(self, name: str, number: str, sectors: int, attributes: dict) -> None:
        folder = f"/sys/devices/block/{name}"
        for key, content in {"dev": number, "size": str(sectors), "ro": "0", **attributes}.items():
            self.write(f"{folder}/{key}", content)
        os.makedirs(self.real(f"{folder}/holders"), exist_ok=True)
        for link in (f"/sys/block/{name}", f"/sys/class/block/{name}", f"/sys/dev/block/{number}"):
            os.makedirs(os.path.dirname(self.real(link)), exist_ok=True)
            os.symlink(os.path.relpath(self.real(folder), os.path.dirname(self.real(link))), self.real(link))
        os.makedirs(self.real("/dev"), exist_ok=True)
        with open(self.real(f"/dev/{name}"), "wb") as stream:
            stream.truncate(sectors * 512)
        self.numbers[f"/dev/{name}"] = os.makedev(*map(int, number.split(":")))

    def stat(self, path: str):
        if path in self.numbers:
            return SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=self.numbers[path], st_ino=1, st_dev=1)
        return super().stat(path)

    def exclusive(self, path: str):
        return "EBUSY" if self.names(f"/sys/class/block/{os.path.basename(path)}/holders") else None

    def run(self, argv: list):
        return (0, f"TYPE={self.signatures[argv[-1]]}\n", "") if argv[-1] in self.signatures else (2, "", "")

    # -- device mapper

    def _of(self, path: str) -> str:
        return path if ":" in path else self.read(f"/sys/class/block/{os.path.basename(path)}/dev") or ""

    def _target(self, text: str) -> dict:
        start, length, kind, *words = text.split()
        words = [self._of(word) if word.startswith("/dev/") else word for word in words]
        return {"start": int(start), "length": int(length), "type": kind, "text": " ".join(words)}

    def _table(self, *texts: str) -> list:
        return [self._target(text) for text in texts]

    def _hold(self) -> None:
        for name in self.names("/sys/block"):
            holders = self.real(f"/sys/block/{name}/holders")
            for old in os.listdir(holders):
                os.unlink(os.path.join(holders, old))
            number = self.read(f"/sys/block/{name}/dev")
            for mapping in self.maps.values():
                if any(number in target["text"].split() for target in mapping["table"]):
                    os.symlink(self.real(f"/sys/devices/block/{mapping['block']}"), f"{holders}/{mapping['block']}")

    def dmsetup(self, argv: list, **_more) -> None:
        self.done.append(" ".join(argv))
        assert argv[0] == "dmsetup"
        rest = [word for word in argv[2:] if not word.startswith("--")]
        if argv[1] == "create" and "--concise" in argv:
            name, mapped, minor, flags, *tables = rest[0].split(",")
            assert (minor, flags) == ("", "rw")
            self.map(name, mapped, *tables)
        elif argv[1] == "create":
            self.map(*rest)
        elif argv[1] == "reload":
            self.maps[rest[0]]["next"] = self._table(rest[1])
        elif argv[1] == "resume":
            mapping = self.maps[rest[0]]
            if mapping["next"][0]["type"] == "linear" and mapping["next"][0]["text"].startswith("254:"):
                # The moment that would lose data.
                assert mapping["table"] == mapping["next"] or not self.dirty
            mapping["table"] = mapping["next"]
            if " cleaner " in mapping["table"][0]["text"] and self.cleans:
                self.dirty = 0
        else:
            self.unmap(rest[0])
        self._hold()

    def map(self, name: str, mapped: str, *tables: str) -> None:
        minor = next(minor for minor in range(99) if not self.names(f"/sys/block/dm-{minor}"))
        assert name not in self.maps
        sectors = sum(int(table.split()[1]) for table in tables)
        ends = [int(word) for table in tables for word in (table.split()[0], sum(map(int, table.split()[:2])))]
        # One target begins where the one before ends.
        assert ends[0] == 0 and ends[1:-1:2] == ends[2::2] and ends[-1] == sectors
        self.disk(f"dm-{minor}", f"253:{minor}", sectors, {"dm/uuid": mapped, "dm/name": name})
        self.maps[name] = {"table": self._table(*tables), "block": f"dm-{minor}", "next": None}
        self._hold()

    def unmap(self, name: str) -> None:
        block = self.maps[name]["block"]
        assert not self.names(f"/sys/block/{block}/holders"), f"{name} is held"
        assert not self.names(f"/sys/block/{block}/bcache"), f"{name} is bcache's"
        del self.maps[name]
        self._gone(block)
        self._hold()

    def targets(self, number: str, table: bool = False, flush: bool = False) -> list:
        mapping = next(item for item in self.maps.values() if self._of(f"/dev/{item['block']}") == number)
        shown = [dict(target) for target in mapping["table"]]
        for target in shown:
            if target["type"] == "cache" and not table:
                words = cache_provider.parse_cache_table(target["text"])
                target["text"] = STATUS.format(
                    dirty=self.dirty, mode=words["mode"], policy=words["policy"], check=self.check
                )
        return shown

    def _gone(self, block: str) -> None:
        shutil.rmtree(self.real(f"/sys/devices/block/{block}/bcache"), ignore_errors=True)
        for link in (
            f"/sys/dev/block/{self.read(f'/sys/block/{block}/dev')}",
            f"/sys/block/{block}",
            f"/sys/class/block/{block}",
        ):
            os.unlink(self.real(link))

    def boot(self) -> None:
        """Mappings do not outlive it; what is on disks does."""
        for mapping in self.maps.values():
            self._gone(mapping["block"])
        for block in self.names("/sys/block"):
            if block.startswith("bcache"):
                self._gone(block)
        self.maps = {}
        self._hold()

    # -- LVM

    def lvm(self, argv: list, **_more) -> None:
        """Groups outlive a boot, their mappings do not."""
        options, command = argv[2:], argv[1]
        assert argv[0] == "lvm" and "--yes" in options
        config = options[options.index("--config") + 1]
        seen = re.findall(r"filter=\[(.*?)\]", config)
        parts = [mapping for name, mapping in self.maps.items() if name.endswith((":volume", ":blocks"))]
        only = ", ".join(f'"a|^/dev/{mapping["block"]}$|"' for mapping in sorted(parts, key=lambda part: part["block"]))
        # No other device of the host is looked at, and nothing is kept of it.
        assert seen == [f'{only}, "r|.*|"'] * 2 and "backup=0 archive=0" in config and "use_devicesfile=0" in config
        words = [word for word in options if word != config]
        self.done.append(
            " ".join([*argv[:2], *(word for word in words if word not in ("--nohints", "--config", "--yes"))])
        )
        group = next((word.split("/")[0] for word in words if word.startswith("storlab_")), "")
        title = f"{group}-device"
        if command == "vgcreate":
            # Without it a host would begin what a boot has left, before anybody asks.
            assert words[words.index("--setautoactivation") + 1] == "n"
            self.made[group] = {}
        elif command == "lvcreate":
            # It would wipe the first bytes of the origin.
            assert [words[words.index(word) + 1] for word in ("--zero", "--wipesignatures", "--activate")] == ["n"] * 3
        elif command == "lvconvert":
            mode, chunk = (words[words.index(word) + 1] for word in ("--cachemode", "--chunksize"))
            self.made[group] = {"mode": mode, "block": int(chunk[:-1]) * 2}
        elif command == "lvchange" and "--activate" in words:
            made, volume = (
                self.made[group],
                parts[[name for name in self.maps if name.endswith((":volume", ":blocks"))].index(self._volume())],
            )
            sectors = volume["table"][1]["length"]
            sectors += sum(target["length"] for target in volume["table"][2:])
            assert sectors % 8192 == 0
            blocks = next(mapping["block"] for name, mapping in self.maps.items() if name.endswith(":blocks"))
            text = f"/dev/{blocks} /dev/{blocks} /dev/{volume['block']} {made['block']} 2 metadata2 {made['mode']} mq 0"
            self.map(title, f"LVM-{group}", f"0 {sectors} cache {text}")
        elif command == "lvchange":
            assert words[words.index("--cachemode") + 1] == "writethrough"
            assert not self.dirty, "LVM would flush for as long as it takes"
            self.made[group]["mode"] = "writethrough"
            table = self.maps[title]["table"][0]
            table["text"] = re.sub(
                "writeback|cleaner", lambda word: {"writeback": "writethrough"}.get(word[0], "mq"), table["text"]
            )
        elif command == "vgchange":
            self.unmap(title)

    def _volume(self) -> str:
        return next(name for name in self.maps if name.endswith(":volume"))

    # -- bcache

    def attribute(self, path: str, text: str) -> None:
        """What is written to an attribute of bcache."""
        self.done.append(f"{text} > {path}")
        folder, key = os.path.split(path)
        if path == "/sys/fs/bcache/register":
            self._register(os.path.basename(text))
        elif key == "attach":
            assert text in self.sets.values()
            assert self.read(f"{folder}/state") == "no cache"
            self.sets[self._superblock(folder.split("/")[3])["uuid"]] = text
            self._state(folder)
        elif key == "cache_mode":
            modes = ("writethrough", "writeback", "writearound", "none")
            self.write(path, " ".join(f"[{mode}]" if mode == text else mode for mode in modes))
            self._state(folder)
        elif key == "detach":
            if self.cleans:
                self.dirty = 0
                del self.sets[self._superblock(folder.split("/")[3])["uuid"]]
            self._state(folder)
        elif path.endswith("/bcache/stop"):
            device = os.path.basename(self.read_link(f"{folder}/dev"))
            assert not self.names(f"/sys/block/{device}/holders"), f"{device} is held"
            self._gone(device)
            shutil.rmtree(self.real(folder))
        else:
            assert path.endswith("/bcache/set/stop")
            shutil.rmtree(self.real(os.path.dirname(folder)))

    def _superblock(self, block: str) -> dict:
        """What stands where the kernel looks for it: in the ninth sector of the device."""
        mapping = next(item for item in self.maps.values() if item["block"] == block)
        number, start = mapping["table"][0]["text"].split()
        disk = next(path for path in self.numbers if self._of(path) == number)
        with open(self.real(disk), "rb") as stream:
            stream.seek((int(start) + 8) * 512)
            head = stream.read(512)
        assert head[24:40] == bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"), "no superblock"
        offset, version = struct.unpack_from("<QQ", head, 8)
        assert offset == 8
        return {
            "version": version,
            "uuid": head[40:56].hex(),
            "set": head[56:72],
            "first": struct.unpack_from("<Q", head, 184)[0],
        }

    def _register(self, block: str) -> None:
        shown, folder = self._superblock(block), f"/sys/block/{block}/bcache"
        self.done.append(f"registered version {shown['version']}")
        if shown["version"] == 0:
            text = shown["set"].hex()
            self.sets["a cache"] = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
            self.write(f"{folder}/written", "0")
            return
        mapping = next(item for item in self.maps.values() if item["block"] == block)
        assert shown["first"] == mapping["table"][0]["length"]
        size = sum(target["length"] for target in mapping["table"]) - shown["first"]
        self.disk("bcache0", "252:0", size, {})
        self.write(f"{folder}/sequential_cutoff", "4.0M")
        os.symlink("../../bcache0", self.real(f"{folder}/dev"))
        if not self.read(f"{folder}/cache_mode"):
            self.write(f"{folder}/cache_mode", "[writethrough] writeback writearound none")
        if shown["uuid"] in self.sets:
            # Superblocks keep their mode.
            self.write(f"{folder}/cache_mode", "writethrough [writeback] writearound none")
        self._state(folder)

    def _state(self, folder: str) -> None:
        attached = self._superblock(folder.split("/")[3])["uuid"] in self.sets
        writes_back = "[writeback]" in (self.read(f"{folder}/cache_mode") or "")
        dirty = attached and self.dirty and (writes_back or self.read(f"{folder}/state") == "dirty")
        self.write(f"{folder}/dirty_data", f"{self.dirty * 64}.0k" if dirty else "0.0k")
        self.write(f"{folder}/state", "dirty" if dirty else "clean" if attached else "no cache")


# ---- tiers on it


def caches_on(kernel: Kernel, run_dir: Path, monkeypatch):
    """Caches(testbed_id) on that host, with records in a folder of their own."""
    monkeypatch.setattr(cache_tier, "Record", lambda testbed, area: record.Record(testbed, area, str(run_dir)))
    monkeypatch.setattr(cache_provider, "load_module", lambda name, intend: kernel.done.append(f"modprobe {name}"))
    monkeypatch.setattr(cache_tier, "run", kernel.dmsetup)
    monkeypatch.setattr(cache_lvm, "run", kernel.lvm)
    monkeypatch.setattr(cache_bcache, "write_text", kernel.attribute)
    monkeypatch.setattr(cache_bcache, "PATIENCE_S", 0)

    class OfFolder(cache_tier.Caches):
        def write(self, path, content, offset=0):
            with open(kernel.real(path), "r+b") as stream:
                stream.seek(offset)
                stream.write(content)

    return lambda testbed_id="embedded": OfFolder(testbed_id, kernel, kernel.targets)


def wanted(**more) -> dict:
    cache = {"name": "e4", "origin": {"serial": "slow"}, "fast": {"serial": "fast"}, "mode": "writeback"}
    cache.update(cached=True, block_kib=64, migration_kib=None, purpose="scratch", emulated_delay=None, layer=None)
    return {**cache, **more}


def planned(caches, described: list, present: bool = True) -> list:
    return [
        (step["op"], step["will"])
        for step in cache_plan.plan(caches().current(described, present), described * present)
    ]


def apply(caches, described: list, present: bool = True, timeout_s: float = 0) -> dict:
    mine = caches()
    aims = described if present else []
    current = mine.current(described, present)
    steps = cache_plan.plan(current, aims)
    mine.refuse_used(steps, current)
    mine.refuse_unsafe(steps, aims, current)
    mine.refuse_small(steps, aims, current)
    mine.apply(steps, aims, current, timeout_s)
    return current
