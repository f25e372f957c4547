# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that was there before the testbed, attached to a Linux host: a disk, an export of an NFS server, a share of an SMB server, or a folder.

It is only read, unless its entry has ``access: write``. An export, a share and a folder are then mounted for reading alone on a mount point of the
testbed's own, so the kernel refuses whoever would write. A disk is proven by what it shows of itself, and opened for reading alone. With
``access: write`` a disk passes the guard of all devices that are overwritten, and of the others one file in a folder of the testbed's own is written
(own_file.py). Each mount is recorded, and unmounted again; nothing else is changed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any, cast

from ...core import converge
from ...core.failure import Failure, bad_value
from ...core.layers import DECLARED, KINDS, Layer
from ...core.names import BENCHMARK_FILE, check_name, check_testbed_id
from ...core.steps import Step, shown
from .. import mounts
from ..disks import device_safety, proven_disk, reading_guard
from ..disks.system import System
from ..host import load_module, loaded_modules, read_text, run
from ..params import ExistingEntryOption, ExistingParams
from ..record import NFS_MODULES, Record
from ..watch.probe import reach
from . import links, own_file, smb
from .readable import chosen_file

PLACE = "/srv/storlab-existing"
NFS_PORT = 2049
# {kind of storage, or type of its file system for mount(8): the port of its server}
PORTS = {"nfs": NFS_PORT, **dict.fromkeys(("smb", smb.FILE_SYSTEM), smb.PORT)}
# Locks of version 3 need daemons on both sides, and nothing is locked here.
VERSIONS = {"3": "vers=3,proto=tcp,nolock", **{name: f"vers={name},proto=tcp" for name in ("4.0", "4.1", "4.2")}}
# Options that would let somebody write, or that are said by other words of the entry.
FORBIDDEN_OPTIONS = ("rw", "remount", "bind", "rbind", "move", "vers", "nfsvers")
BLOCK_BYTES = 4096
# The parts of a mount.
MOUNT_KEYS = ("mount_point", "source", "filesystem", "options")
ACCESS = ("read", "write")
# Which words an entry of a kind has to have.
NEEDED = {"device": (), "nfs": ("server", "export"), "path": ("folder",), "smb": ("server", "share")}

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "entries": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "kind": {"type": "str", "choices": list(NEEDED), "required": True},
            "layer_kind": {"type": "str", "choices": list(KINDS[1:]), "required": True},
            "parent": {"type": "str"},
            **proven_disk.OPTIONS,
            "server": {"type": "str"},
            "export": {"type": "str"},
            "nfs_version": {"type": "str", "choices": list(VERSIONS), "default": "4.2"},
            "share": {"type": "str"},
            "smb_version": {"type": "str", "choices": list(smb.VERSIONS), "default": "3.1.1"},
            "user": {"type": "str"},
            "password": {"type": "str", "no_log": True},
            "domain": {"type": "str"},
            "mount_options": {"type": "str", "default": ""},
            "folder": {"type": "path"},
            "file": {"type": "str"},
            "access": {"type": "str", "choices": list(ACCESS), "default": "read"},
            "benchmark_file_mib": {"type": "int", "default": 1024},
        },
    },
    "layers": {"type": "list", "elements": "dict", "default": []},
    "below": {"type": "list", "elements": "dict", "default": []},
}


# ---------------------------------------------------------------- what is asked for


def check(entry: ExistingEntryOption) -> None:
    """Raises bad_value for an entry that cannot be attached whatever the host has."""
    check_name("existing_storage_entries name", entry["name"])
    what, given = f"existing_storage_entries {entry['name']}", cast("dict[str, Any]", entry)
    for key in NEEDED[entry["kind"]]:
        if not given[key]:
            raise bad_value(f"{what} {key}", given[key], f"Storage of kind {entry['kind']} needs it.")
    for key in ("export", "folder"):
        if given[key] and not (given[key].startswith("/") and given[key].isprintable()):
            raise bad_value(f"{what} {key}", given[key], "Give an absolute path.")
    if entry["server"] and (not entry["server"].isprintable() or set(entry["server"]) & set("/ ,")):
        raise bad_value(f"{what} server", entry["server"], "Give the name or the address of the server alone.")
    if entry["kind"] == "device" and not proven_disk.proofs(entry):
        raise bad_value(f"{what} serial", None, "Give the serial, naa, wwid or uuid that proves which disk it is.")
    if entry["kind"] == "smb":
        smb.check(what, entry)
    forbidden = (*FORBIDDEN_OPTIONS, *(smb.FORBIDDEN_OPTIONS if entry["kind"] == "smb" else ()))
    for option in entry["mount_options"].split(","):
        if option.partition("=")[0].strip() in forbidden:
            raise bad_value(f"{what} mount_options", entry["mount_options"], f"Leave out {option.strip()}.")
    if entry["access"] == "write" and entry["file"]:
        raise bad_value(
            f"{what} file", entry["file"], "Leave it out: with access write a file of the testbed's own is used."
        )
    if entry["access"] == "write" and entry["benchmark_file_mib"] < 1:
        raise bad_value(f"{what} benchmark_file_mib", entry["benchmark_file_mib"], "Give a size in MiB.")
    if entry["file"] and (entry["file"].startswith("/") or ".." in entry["file"].split("/")):
        raise bad_value(f"{what} file", entry["file"], "Give the path of a file below the folder or export.")


def mount_point(testbed_id: str, name: str) -> str:
    return f"{PLACE}/{testbed_id}/{name}"


def wanted_mount(testbed_id: str, entry: ExistingEntryOption) -> dict[str, str] | None:
    """{mount_point, source: what is mounted, filesystem: the type for mount(8) or empty for a folder, options}; None of a disk."""
    place, way = mount_point(testbed_id, entry["name"]), "rw" if entry["access"] == "write" else "ro"
    more = f",{entry['mount_options']}" if entry["mount_options"] else ""
    if entry["kind"] == "nfs":
        server = f"[{entry['server']}]" if ":" in entry["server"] else entry["server"]
        options = f"{way},{VERSIONS[entry['nfs_version']]}{more}"
        return {
            "mount_point": place,
            "source": f"{server}:{entry['export']}",
            "filesystem": "nfs",
            "options": options,
        }
    if entry["kind"] == "smb":
        return {
            "mount_point": place,
            "source": smb.source(entry),
            "filesystem": smb.FILE_SYSTEM,
            "options": f"{way},{smb.options(entry)}{more}",
        }
    if entry["kind"] == "path":
        return {
            "mount_point": place,
            "source": os.path.realpath(entry["folder"]),
            "filesystem": "",
            "options": f"bind,{way}{more}",
        }
    return None


def plan(
    recorded: dict[str, Any],
    mounted: dict[str, bool],
    wanted: dict[str, dict[str, str]],
    sizes: Mapping[str, tuple[int | None, int]],
) -> list[Step]:
    """Steps to the wanted mounts. recorded: {name: mount as wanted_mount has it, with ``own`` where a folder of ours is on it}; mounted: whether that is
    mounted; wanted: {name: mount}; sizes: {name: (bytes of the own file that is there, bytes that are wanted)} of those that are written to."""
    steps: list[Step] = []
    for name, mount in sorted(recorded.items()):
        same = name in wanted and all(mount.get(key) == value for key, value in wanted[name].items())
        if not same and (mounted.get(name) or mount.get("own")):
            steps.append({"op": "unmount", "target": name, "was": _words(mount), "will": None})
    for name, mount in sorted(wanted.items()):
        before = recorded.get(name, {})
        same = all(before.get(key) == value for key, value in mount.items())
        if not (same and mounted.get(name)):
            steps.append({"op": "mount", "target": name, "was": None, "will": _words(mount)})
    gone = {step["target"] for step in steps if step["op"] == "unmount"}
    for name, (there, size) in sorted(sizes.items()):
        if there != size or name in gone:
            was = f"own file of {there >> 20} MiB" if there else None
            steps.append({"op": "write", "target": name, "was": was, "will": f"own file of {size >> 20} MiB"})
    return steps


def _words(mount: Mapping[str, object]) -> str:
    return f"{mount['source']} on {mount['mount_point']}, {mount['options']}"


# ---------------------------------------------------------------- what is there


def topmost(paths: list[str], holders: Any) -> list[str]:
    """The device on top, where several paths lead to one disk, such as the device of multipathd. holders: path -> names of the devices above it."""
    above = [
        path for path in paths if all(os.path.basename(path) in holders(other) for other in paths if other != path)
    ]
    return above if len(above) == 1 else paths


def _holders(path: str) -> list[str]:
    folder = f"/sys/class/block/{os.path.basename(path)}/holders"
    return os.listdir(folder) if os.path.isdir(folder) else []


def located(entry: ExistingEntryOption, system: System) -> str:
    """The path of the disk that an entry proves; raises member_missing or serial_twice."""
    if not entry["device"]:
        paths = topmost(proven_disk.find(entry, system), _holders)
        if len(paths) == 1:
            return paths[0]
    return proven_disk.locate(f"{entry['name']}", "testbed.existing", entry, system)


# ---------------------------------------------------------------- layers


def _layer(entry: ExistingEntryOption, **of_kind: Any) -> Layer:
    facts = (
        "server",
        "export",
        "share",
        "folder",
        *([f"{entry['kind']}_version"] if entry["kind"] in ("nfs", "smb") else []),
    )
    given = cast("dict[str, Any]", entry)
    known = {key: given[key] for key in facts if given[key]}
    detail = {
        "provider": "existing",
        "existing": entry["kind"],
        "access": entry["access"],
        **known,
        **of_kind.pop("detail", {}),
    }
    layer: Layer = {
        "name": f"{entry['layer_kind']}-{entry['name']}",
        "kind": entry["layer_kind"],
        "parent": entry["parent"] or None,
        "purpose": "scratch" if entry["access"] == "write" else "read",
        "path": of_kind["path"],
        "size_bytes": of_kind["size_bytes"],
        "identity": of_kind["identity"],
        "detail": detail,
    }
    return layer


def file_layer(entry: ExistingEntryOption, place: str, name: str) -> Layer:
    """The layer of a file below a mount of ours, for reading."""
    path = os.path.join(place, name)
    status, mounted = os.stat(path), mounts.mounted_at(mounts.read(), place)
    mount: Mapping[str, object] = mounted or {}
    return _layer(
        entry,
        path=path,
        size_bytes=status.st_size // BLOCK_BYTES * BLOCK_BYTES,
        identity={"mount_point": place, "source": mount.get("source"), "inode": status.st_ino},
        detail={
            "file": name,
            "filesystem": mount.get("filesystem"),
            "mount_options": mounts.without_user(str(mount.get("options") or "")),
        },
    )


def own_file_layer(entry: ExistingEntryOption, mount: Mapping[str, Any]) -> Layer:
    """The layer of the testbed's own file, for reading and writing. Its details are enough to find the folder again when the record is lost."""
    place, own = mount["mount_point"], mount["own"]
    shown_mount: Mapping[str, object] = mounts.mounted_at(mounts.read(), place) or {}
    path = os.path.join(place, own["folder"], BENCHMARK_FILE)
    again = {key: mount[key] for key in ("source", "filesystem", "options", "server")}
    return _layer(
        entry,
        path=path,
        size_bytes=os.lstat(path).st_size,
        identity={"mount_point": place, "source": shown_mount.get("source"), "own_folder": own["folder"]},
        detail={
            "file": os.path.join(own["folder"], BENCHMARK_FILE),
            "filesystem": shown_mount.get("filesystem"),
            "mount_options": mounts.without_user(str(shown_mount.get("options") or "")),
            "own": {**again, "token": own["token"]},
        },
    )


def device_layer(entry: ExistingEntryOption, system: System) -> Layer:
    """The layer of a disk that proves to be the one that is meant; raises what the guard has against it."""
    path = located(entry, system)
    facts = device_safety.inspect(path, system=system)
    identity = {key: facts[key] for key in ("serial", "naa", "wwid", "major_minor") if facts.get(key)}
    if facts.get("mapped_uuid"):
        identity["uuid"] = facts["mapped_uuid"]
    wanted = {key: value for key, value in proven_disk.proofs(entry).items() if key != "uuid"}
    layer = _layer(entry, path=path, size_bytes=facts.get("size_bytes"), identity={**identity, **wanted})
    if entry["access"] == "write":
        what = f"{entry['name']}, which is overwritten"
        device_safety.refuse_named(what, "testbed.existing", path, proven_disk.proofs(entry), "scratch", facts)
    else:
        reasons = reading_guard.refusals(facts, layer)
        if reasons:
            raise device_safety.not_touched({**layer, "host": "this host"}, reasons)
    layer["detail"].update({key: facts[key] for key in ("model",) if facts.get(key)})
    return {**layer, "identity": identity}


# ---------------------------------------------------------------- the mounts


class Attached:
    """The storage that one testbed has attached on this host."""

    def __init__(self, testbed_id: str, credentials: Mapping[str, str] | None = None) -> None:
        self.testbed_id = testbed_id
        # {name: content of the file for mount.cifs(8)}
        self.credentials = credentials or {}
        self.record = Record(testbed_id, "existing")

    @property
    def mounts(self) -> dict[str, Any]:
        known: dict[str, Any] = self.record.data.setdefault("mounts", {})
        return known

    def mounted(self) -> dict[str, bool]:
        table = mounts.read()
        return {name: mounts.mounted_at(table, mount["mount_point"]) is not None for name, mount in self.mounts.items()}

    def recall(self, layers: list[dict[str, Any]]) -> None:
        """Know folders of ours again whose record is lost, as after a restart of this host, by the layers that were published."""
        for layer in layers:
            own, place = (layer.get("detail") or {}).get("own"), (layer.get("identity") or {}).get("mount_point")
            name = os.path.basename(str(place))
            if not own or name in self.mounts or place != mount_point(self.testbed_id, name):
                continue
            again = {key: own[key] for key in ("source", "filesystem", "options", "server")}
            folder = own_file.folder_name(self.testbed_id, name)
            stamp = {"folder": folder, "token": own["token"], "stamped": True}
            self.mounts[name] = {
                **again,
                "mount_point": place,
                "folders": [place, os.path.dirname(place)],
                "own": stamp,
            }

    def write(self, name: str, size: int) -> None:
        """The testbed's own file on a mount, in its own folder."""
        place, folder = self.mounts[name]["mount_point"], own_file.folder_name(self.testbed_id, name)
        own = self.mounts[name].get("own")
        if own is None:
            own_file.refuse_taken(place, folder)
            own = {"folder": folder, "token": secrets.token_hex(16), "stamped": False}
            self.mounts[name]["own"] = own
            self.record.save()
        own_file.make(place, folder, own["token"], own["stamped"])
        own["stamped"] = True
        self.record.save()
        own_file.write(place, folder, own["token"], size)

    def own_sizes(self, entries: list[ExistingEntryOption]) -> dict[str, tuple[int | None, int]]:
        """{name: (bytes of the own file that is there, bytes that are wanted)}; a server that does not answer is not asked."""
        sizes, mounted = {}, self.mounted()
        for entry in entries:
            if entry["access"] == "write" and entry["kind"] != "device":
                name, place = entry["name"], mount_point(self.testbed_id, entry["name"])
                awake = not entry["server"] or reach(entry["server"], PORTS[entry["kind"]]) == "open"
                folder = own_file.folder_name(self.testbed_id, name)
                there = own_file.size_bytes(place, folder) if mounted.get(name) and awake else None
                sizes[name] = (there, entry["benchmark_file_mib"] << 20)
        return sizes

    def refuse_used(self, wanted: dict[str, dict[str, str]]) -> None:
        """Raises mount_point_used for a mount point where somebody else has something."""
        for name, mount in wanted.items():
            there = mounts.mounted_at(mounts.read(), mount["mount_point"])
            foreign = there["source"] if there else ", ".join(_entries(mount["mount_point"]))
            if foreign and not (there and name in self.mounts):
                raise Failure(
                    "mount_point_used",
                    f"{mount['mount_point']}, where {name} is to be mounted for reading, holds {foreign}.",
                    "Take away what is there, or give the entry of testbed.existing another name.",
                    mount_point=mount["mount_point"],
                )

    def mount(self, name: str, mount: dict[str, str], server: str | None) -> None:
        if server:
            refuse_silent(server, name, PORTS.get(mount["filesystem"], NFS_PORT))
        before = loaded_modules()
        earlier = self.mounts.get(name, {})
        # Folders that an earlier attempt made are ours still.
        folders = list(dict.fromkeys([*earlier.get("folders", []), *_missing(mount["mount_point"])]))
        same = earlier.get("source") == mount["source"]
        kept = {key: earlier[key] for key in ("file", "own") if key in earlier} if same else {}
        self.mounts[name] = {**mount, **kept, "server": server, "folders": folders}
        self.record.save()
        os.makedirs(mount["mount_point"], mode=0o755, exist_ok=True)
        if mount["filesystem"] and mount["filesystem"] not in read_text("/proc/filesystems").split():
            load_module(mount["filesystem"], intend=self.record.intend_modules)
        if mount["filesystem"] == "nfs":
            self.record.intend(*NFS_MODULES)
        kind = ["-t", mount["filesystem"]] if mount["filesystem"] else []
        try:
            with smb.credentials_file(self.record.folder, name, self.credentials.get(name)) as more:
                run(
                    ["mount", *kind, "-o", f"{mount['options']}{more}", mount["source"], mount["mount_point"]],
                    what=f"{mount['source']} cannot be mounted on {mount['mount_point']}",
                    remedy="Look at the message; the server may not export it to this host or this user, or not in that version.",
                )
            if "ro" in mount["options"].split(","):
                self._refuse_writable(mount["mount_point"])
        finally:
            self.record.note_modules(before)

    @staticmethod
    def _refuse_writable(place: str) -> None:
        """Unmount, and raise mount_writable, unless the kernel itself confirms that the mount cannot be written through."""
        if not os.statvfs(place).f_flag & os.ST_RDONLY:
            run(["umount", place], ok=(0, 32))
            raise Failure(
                "mount_writable",
                f"{place} was mounted, but the kernel does not hold it read-only, so it was unmounted.",
                "Look at mount_options, and at the kernel log of the host.",
                mount_point=place,
            )

    def unmount(self, name: str) -> list[str]:
        """Take away our own folder and the mount; returns what of the folder stays, because others put it there."""
        smb.forget(self.record.folder, name)
        kept = self._remove_own(name) if self.mounts[name].get("own") else []
        mount = self.mounts[name]
        place = mount["mount_point"]
        if mounts.mounted_at(mounts.read(), place):
            if mount.get("server") and reach(mount["server"], PORTS.get(mount["filesystem"], NFS_PORT)) != "open":
                # A server that does not answer must not be asked, and nothing is left here that it would have to write.
                run(["umount", "--internal-only", "--force", "--lazy", place], what=f"{place} cannot be unmounted")
            else:
                run(["umount", place], what=f"{place} cannot be unmounted", remedy="End what uses it, and run again.")
        for folder in mount["folders"]:
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
        del self.mounts[name]
        # A folder above several mounts goes with the last of them.
        for other in list(self.mounts.values())[:1]:
            other["folders"] += [folder for folder in mount["folders"] if os.path.isdir(folder)]
        self.record.save()
        return kept

    def _remove_own(self, name: str) -> list[str]:
        mount = self.mounts[name]
        place, own = mount["mount_point"], mount["own"]
        if not mounts.mounted_at(mounts.read(), place):
            self.mount(name, {key: mount[key] for key in MOUNT_KEYS}, mount.get("server"))
        elif mount.get("server"):
            # Our folder is there and has to go, so that a teardown cannot end well without its server.
            refuse_silent(mount["server"], name, PORTS.get(mount["filesystem"], NFS_PORT))
        kept = own_file.remove(place, own["folder"], own["token"], own["stamped"])
        source = mount["source"]
        return [f"{source}{path[len(place) :]}" for path in kept]

    def remove(self) -> list[str]:
        kept = [path for name in sorted(self.mounts) for path in self.unmount(name)]
        self.record.unload_modules()
        self.record.remove()
        return kept


def refuse_silent(server: str, name: str, port: int = NFS_PORT) -> None:
    """Raises server_silent: who asks a server that does not answer waits for it without end."""
    way = reach(server, port)
    if way != "open":
        raise Failure(
            "server_silent",
            f"The {'SMB' if port == smb.PORT else 'NFS'} server {server} of {name} does not answer on port {port}: {way}.",
            "Look at the server, its address in testbed.existing, and the network between both.",
            server=server,
        )


def _entries(folder: str) -> list[str]:
    return sorted(os.listdir(folder))[:5] if os.path.isdir(folder) else []


def _missing(folder: str) -> list[str]:
    """The folder and those above it that are not there, the lowest first."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


# ---------------------------------------------------------------- the module


def linked(entries: list[ExistingEntryOption], below: list[dict[str, Any]], system: System) -> dict[str, str]:
    """{name of a layer: links.PROVEN or links.DECLARED} of the entries that have a parent; raises on_another.

    below: layers of this host that others have published.
    """
    disks = {f"{entry['layer_kind']}-{entry['name']}": entry for entry in entries if entry["kind"] == "device"}
    paths = {layer["name"]: layer.get("path") for layer in below}
    result = {}
    for entry in entries:
        parent, path = entry["parent"], entry["folder"]
        disk = located(disks[parent], system) if parent in disks else paths.get(parent)
        if entry["kind"] == "device" and disk:
            path = located(entry, system)
        if parent:
            result[f"{entry['layer_kind']}-{entry['name']}"] = (
                links.link(entry["name"], path, parent, disk, system) if disk and path else DECLARED
            )
    return result


def _layers(attached: Attached, entries: list[ExistingEntryOption], check_mode: bool) -> list[Layer]:
    layers, system = [], System()
    for entry in entries:
        mount = attached.mounts.get(entry["name"])
        if entry["kind"] == "device":
            layers.append(device_layer(entry, system))
        elif mount and (not check_mode or mounts.mounted_at(mounts.read(), mount["mount_point"])):
            if entry["kind"] == "nfs":
                refuse_silent(entry["server"], entry["name"])
            if entry["access"] == "write":
                layers += [own_file_layer(entry, mount)] if not check_mode else []
                continue
            name = chosen_file(entry["name"], mount["mount_point"], entry["file"], mount.get("file"))
            mount["file"] = name
            layers.append(file_layer(entry, mount["mount_point"], name))
    return layers


class Area(converge.Area):
    """The storage of others that a testbed measures on a host."""

    def plan(self) -> list[Step]:
        params: ExistingParams = self.params
        self.attached = Attached(
            check_testbed_id("existing_storage_testbed_id", params["testbed_id"]), smb.credentials(params["entries"])
        )
        recorded = bool(self.attached.record.data)
        self.attached.recall(params["layers"])
        self.entries = params["entries"] if self.present else []
        for entry in self.entries:
            check(entry)
        pairs = {entry["name"]: wanted_mount(self.attached.testbed_id, entry) for entry in self.entries}
        self.wanted = {name: mount for name, mount in pairs.items() if mount}
        own_sizes = self.attached.own_sizes(self.entries)
        steps = plan(self.attached.mounts, self.attached.mounted(), self.wanted, own_sizes)
        # A record without mounts, of an earlier build, is removed without a step.
        self.changed = bool(steps or (not self.present and recorded))
        self.kept: list[str] = []
        return steps

    def guard(self, steps: list[Step]) -> None:
        self.attached.refuse_used(self.wanted)
        for entry in self.entries:
            if entry["kind"] == "path" and not os.path.isdir(entry["folder"]):
                raise Failure(
                    "folder_missing",
                    f"{entry['folder']} of {entry['name']} is not a folder of this host.",
                    "Mount what should be there, or correct the path in testbed.existing.",
                    folder=entry["folder"],
                )
        self.links = linked(self.entries, self.params["below"], System())

    def apply(self, steps: list[Step]) -> None:
        if not self.present:
            self.kept = self.attached.remove() if self.changed else []
            return
        self.kept = _apply(self.attached, steps, self.wanted, self.entries)
        # The look at a mount chooses the file that later builds measure, so it comes before the record.
        self.layers = _layers(self.attached, self.entries, self.check_mode)
        if self.attached.mounts or self.attached.record.data.get("modules"):
            self.attached.record.save()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        known = {**shown(steps), "changed": self.changed, "kept": self.kept}
        if not self.present:
            return known
        layers = _layers(self.attached, self.entries, self.check_mode) if self.check_mode else self.layers
        for layer in layers:
            if layer.get("name") in self.links:
                layer["detail"]["link"] = self.links[layer["name"]]
        return {**known, "layers": layers}


def _apply(
    attached: Attached, steps: list[Step], wanted: dict[str, dict[str, str]], entries: list[ExistingEntryOption]
) -> list[str]:
    by_name, kept = {entry["name"]: entry for entry in entries}, []
    for step in steps:
        name = step["target"]
        if step["op"] == "unmount":
            kept += attached.unmount(name)
        elif step["op"] == "mount":
            attached.mount(name, wanted[name], by_name[name]["server"])
        else:
            attached.write(name, by_name[name]["benchmark_file_mib"] << 20)
    return kept
