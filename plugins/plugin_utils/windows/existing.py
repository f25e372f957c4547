# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and volumes of a Windows host that were there before the testbed. They are only read, and nothing of the host is changed for that, unless an entry
has ``access: write``: a disk then passes the guard of all disks that are overwritten, and on a volume one file of the testbed's own is written (own_file.py).

A disk is proven by its unique id or its serial, a file by its volume, its path and the time when it was made.
"""

from __future__ import annotations

from typing import Any, TypedDict

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.layers import DECLARED, KINDS, PROVEN, Layer
from ...module_utils.core.names import check_name
from ...module_utils.core.windows_names import DISK_PROOFS, is_below, is_folder
from ...module_utils.linux.disks import contents
from ...module_utils.linux.disks.device_safety import not_touched
from .device_safety import disk_below, judge
from .host import check_id, drive_path, never_touched, plain_serial
from .state import Disk, State

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "entries": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "kind": {"type": "str", "choices": ["disk", "volume"], "required": True},
            "layer_kind": {"type": "str", "choices": [kind for kind in KINDS if kind != "ceiling"], "required": True},
            "parent": {"type": "str"},
            "serial": {"type": "str"},
            "unique_id": {"type": "str"},
            "folder": {"type": "str"},
            "file": {"type": "str"},
            "access": {"type": "str", "choices": ["read", "write"], "default": "read"},
            "benchmark_file_mib": {"type": "int", "default": 1024},
        },
    },
    "layers": {"type": "list", "elements": "dict", "default": []},
    "state_dir": {"type": "path"},
}
BUILD_AGAIN = "Build the testbed again, which looks for it again."
# As on Linux hosts (linux/clients/readable.py).
LEAST_FILE_BYTES, MOST_ENTRIES, MOST_S = 1 << 20, 20000, 20
BLOCK_BYTES = 4096


class File(TypedDict):
    path: str
    size_bytes: int
    created: str


class Look(TypedDict):
    """As scripts/volume_look.ps1 returns it."""

    volume: str
    filesystem: str
    label: str
    file: File | None


class ZeroLook(TypedDict):
    """As scripts/zero_look.ps1 returns it."""

    samples: int
    zeros: int


def check(params: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries; raises bad_value for one that cannot be there whatever the host has."""
    check_id("existing_storage_testbed_id", params["testbed_id"])
    for entry in params["entries"]:
        check_name("existing_storage_entries name", entry["name"])
        what = f"existing_storage_entries {entry['name']}"
        if entry["kind"] == "disk" and not any(entry[key] for key in DISK_PROOFS):
            raise bad_value(f"{what} unique_id", None, "Give the unique id or the serial that proves which disk it is.")
        if entry["kind"] == "volume" and not is_folder(entry["folder"] or ""):
            raise bad_value(f"{what} folder", entry["folder"], "Give a drive such as E:, or a folder such as E:\\data.")
        if entry["file"] and not is_below(entry["file"]):
            raise bad_value(f"{what} file", entry["file"], "Give the path of a file below the folder.")
        if entry["access"] == "write" and entry["file"]:
            remedy = "Leave it out: with access write a file of the testbed's own is used."
            raise bad_value(f"{what} file", entry["file"], remedy)
        if has_own_file(entry) and entry["benchmark_file_mib"] < 1:
            raise bad_value(f"{what} benchmark_file_mib", entry["benchmark_file_mib"], "Give a size in MiB.")
        if has_own_file(entry) and not params["state_dir"]:
            remedy = "Name a folder on the controller for the record of what is made on the host."
            raise bad_value("existing_storage_state_dir", None, remedy)
    entries: list[dict[str, Any]] = params["entries"]
    return entries


def has_own_file(entry: dict[str, Any]) -> bool:
    """Whether a file of the testbed's own is written for it."""
    return bool(entry["kind"] == "volume" and entry["access"] == "write")


def folder_of(entry: dict[str, Any]) -> str:
    """With a backslash behind a drive, which alone would be the folder that somebody is in there."""
    folder = str(entry["folder"]).rstrip("\\")
    return f"{folder}\\" if folder.endswith(":") else folder


def question(folder: str, path: str = "") -> dict[str, Any]:
    """The parameters of volume_look. path: of the file; empty looks for the biggest."""
    return {
        "Folder": folder,
        "File": path,
        "LeastBytes": LEAST_FILE_BYTES,
        "MostEntries": MOST_ENTRIES,
        "MostS": MOST_S,
    }


def named(entry: dict[str, Any]) -> str:
    """The path of the file that an entry names, or an empty text."""
    folder = folder_of(entry)
    return f"{folder}{'' if folder.endswith(chr(92)) else chr(92)}{entry['file']}" if entry["file"] else ""


def before(entry: dict[str, Any], layers: list[dict[str, Any]]) -> str:
    """The file of the last build, which the next ones take again."""
    name = f"{entry['layer_kind']}-{entry['name']}"
    known = next((layer for layer in layers if layer.get("name") == name), None)
    same = known and (known.get("identity") or {}).get("mount_point") == folder_of(entry)
    return str(known["path"]) if known and same and known.get("path") else ""


def disk_of(state: State, entry: dict[str, Any]) -> Disk:
    """The one disk that shows what an entry says; raises member_missing or serial_twice."""
    wanted = {key: str(entry[key]) for key in DISK_PROOFS if entry[key]}
    shown = [disk for disk in state["disks"] if all(_same(key, disk, value) for key, value in wanted.items())]
    if len(shown) == 1:
        return shown[0]
    proof = ", ".join(f"{key} {value}" for key, value in wanted.items())
    numbers = ", ".join(f"disk {disk['number']}" for disk in shown)
    raise Failure(
        "serial_twice" if shown else "member_missing",
        f"{entry['name']}: {'several disks show' if shown else 'no disk of this host shows'} {proof}{f' ({numbers})' if shown else ''}.",
        "Name it by its unique id, or leave one path to it."
        if shown
        else "Attach the disk, or correct testbed.existing.",
        name=entry["name"],
    )


def _same(key: str, disk: Disk, value: str) -> bool:
    return plain_serial(disk["serial"]) == plain_serial(value) if key == "serial" else disk["unique_id"] == value


def disk_layer(entry: dict[str, Any], state: State) -> Layer:
    """Raises what the guard has against it: of reading, or of overwriting."""
    disk = disk_of(state, entry)
    identity = {key: value for key, value in (("unique_id", disk["unique_id"]), ("serial", disk["serial"])) if value}
    detail = {"model": disk["name"], "bus": disk["bus"], "style": disk["style"]}
    layer = _layer(entry, drive_path(disk["number"]), disk["size_bytes"], identity, detail)
    here: Layer = {**layer, "host": "this host"}
    refuse(here, judge(state, here)[0] if entry["access"] == "write" else refusals(layer, disk))
    return layer


def file_layer(entry: dict[str, Any], look: Look) -> Layer:
    """Raises nothing_to_read for a folder without a file that is worth reading."""
    file = look["file"]
    if not look["volume"]:
        raise Failure(
            "folder_missing",
            f"{folder_of(entry)} of {entry['name']} is not on a volume of this host.",
            "Correct path in testbed.existing; a share is not a volume of the host.",
            name=entry["name"],
        )
    if file is None or file["size_bytes"] < LEAST_FILE_BYTES:
        wanted = (
            f"{named(entry)} of {entry['name']} is not a readable file"
            if entry["file"]
            else f"{entry['name']} holds no file"
        )
        raise Failure(
            "nothing_to_read",
            f"{wanted} of at least {LEAST_FILE_BYTES >> 20} MiB.",
            "Name another file, or put one there that is larger than the caches on the way.",
            name=entry["name"],
        )
    identity = {"mount_point": folder_of(entry), "volume": look["volume"], "created": file["created"]}
    detail = {"filesystem": look["filesystem"], "file": file["path"], "folder": folder_of(entry)}
    return _layer(entry, file["path"], file["size_bytes"] // BLOCK_BYTES * BLOCK_BYTES, identity, detail)


def _layer(
    entry: dict[str, Any], path: str, size_bytes: int, identity: dict[str, str], detail: dict[str, str]
) -> Layer:
    return {
        "name": f"{entry['layer_kind']}-{entry['name']}",
        "kind": entry["layer_kind"],
        "path": path,
        "parent": entry["parent"] or None,
        "purpose": "scratch" if entry["access"] == "write" else "read",
        "size_bytes": size_bytes,
        "identity": identity,
        "detail": {"provider": "existing", "existing": entry["kind"], "access": entry["access"], **detail},
    }


def link(state: State, layers: list[Layer], layer: Layer) -> str | None:
    """PROVEN or DECLARED: how a layer is known to be on its parent; None without one. Raises on_another for a folder of another disk than the parent.

    layers: of this host's existing storage.
    """
    below = next((other for other in layers if other["name"] == layer["parent"]), None)
    if not layer["parent"]:
        return None
    disk = disk_below(state, str(layer["path"])) if "mount_point" in layer["identity"] else None
    if below is None or disk is None or not below["identity"].get("unique_id") or "mount_point" in below["identity"]:
        return DECLARED
    if disk["unique_id"] != below["identity"]["unique_id"]:
        raise Failure(
            "on_another",
            f"{layer['name']} is on disk {disk['number']} with unique id {disk['unique_id'] or 'none'}, not on {below['name']}.",
            "Correct on, or leave it out.",
            layer=layer["name"],
        )
    return PROVEN


# ---------------------------------------------------------------- before it is read


def refusals(layer: Layer, disk: Disk | None) -> list[Failure]:
    """Why a disk is not what a layer means, empty when it is. That it is in use is a reason only against writing."""
    path, identity = layer["path"], layer["identity"]
    if disk is None:
        return [Failure("device_missing", f"{path} is not on this host.", BUILD_AGAIN)]
    reasons = []
    if identity.get("unique_id") and disk["unique_id"] != identity["unique_id"]:
        what = _other(path, "unique id", disk["unique_id"], identity["unique_id"])
        reasons.append(Failure("wrong_unique_id", what, BUILD_AGAIN))
    if identity.get("serial") and plain_serial(disk["serial"]) != plain_serial(identity["serial"]):
        what = _other(path, "serial", disk["serial"], identity["serial"])
        reasons.append(Failure("wrong_serial", what, BUILD_AGAIN))
    if disk["size_bytes"] != layer["size_bytes"]:
        what = f"{path} has {disk['size_bytes']} bytes, the layer has {layer['size_bytes']}."
        reasons.append(Failure("wrong_size", what, BUILD_AGAIN))
    if disk["offline"]:
        what = f"{path} is offline ({disk['offline_reason'] or 'no reason reported'})."
        reasons.append(Failure("disk_offline", what, "Bring it online by hand if it may be read."))
    return reasons


def _other(path: str | None, word: str, shown_value: str, wanted: str) -> str:
    return f"{path} has the {word} {shown_value or 'none'}, the layer's disk has {wanted}."


def file_refusals(layer: Layer, look: Look) -> list[Failure]:
    """As refusals(), of a file."""
    path, identity, file = layer["path"], layer["identity"], look["file"]
    if look["volume"] != identity.get("volume"):
        return [Failure("wrong_mount", f"{path} is on the volume {look['volume'] or 'none'} now.", BUILD_AGAIN)]
    if file is None:
        return [Failure("device_missing", f"{path} does not exist.", BUILD_AGAIN)]
    if file["created"] != identity.get("created"):
        return [Failure("file_replaced", f"{path} is another file than when the testbed was built.", BUILD_AGAIN)]
    if file["size_bytes"] < (layer["size_bytes"] or 0):
        what = f"{path} has {file['size_bytes']} bytes now, the layer has {layer['size_bytes']}."
        return [Failure("wrong_size", what, BUILD_AGAIN)]
    return []


def refuse(layer: Layer, reasons: list[Failure]) -> None:
    """Raise the first of the reasons, if there are any."""
    if reasons:
        raise not_touched(layer, reasons)


def zero_question(layer: Layer) -> dict[str, Any]:
    """The parameters of zero_look."""
    offsets = contents.sampled_at(layer["size_bytes"] or 0)
    return {"Path": layer["path"], "Offsets": offsets, "Bytes": contents.SAMPLE_BYTES}


def zero_facts(look: ZeroLook, question: dict[str, Any]) -> dict[str, object]:
    """The share of zeros for the results, as on Linux hosts; nothing of a look that did not come to its end."""
    percent = contents.share_percent(look["zeros"], look["samples"])
    return {} if percent is None or look["samples"] < len(question["Offsets"]) else {"zero_percent": percent}


# ---------------------------------------------------------------- what may be measured


class Offer(TypedDict):
    """As of a Linux host (linux/clients/offered.py)."""

    name: str
    entry: dict[str, str]
    what: str
    shared: bool


def offers(state: State) -> list[Offer]:
    """Volumes and disks of the host that may be read. Disks of Windows itself, of a page file and of a cluster are left out."""
    own = [disk for disk in state["disks"] if never_touched(disk)]
    letters = {part["letter"].upper() for disk in own for part in disk["partitions"]}
    volumes: list[Offer] = [
        {
            "name": volume["label"] or f"volume-{volume['letter'].lower()}",
            "entry": {"kind": "volume", "path": f"{volume['letter'].upper()}:"},
            "what": f"{volume['filesystem']} of {size_words(volume['size_bytes'])}",
            "shared": False,
        }
        for volume in state["volumes"]
        if volume["filesystem"] and volume["letter"].upper() not in letters
    ]
    disks: list[Offer] = [
        {
            "name": f"disk-{disk['number']}",
            "entry": {"kind": "disk", "unique_id": disk["unique_id"]},
            "what": f"{disk['name']} of {size_words(disk['size_bytes'])}, {disk['bus']}",
            "shared": False,
        }
        for disk in state["disks"]
        if disk not in own
        and not disk["offline"]
        and disk["unique_id"]
        and [other["unique_id"] for other in state["disks"]].count(disk["unique_id"]) == 1
    ]
    return [*volumes, *disks]


def size_words(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"
