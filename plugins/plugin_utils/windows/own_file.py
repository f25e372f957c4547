# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of the testbed's own on a volume of a Windows host that was there before, with the file that a benchmark may write.

As on Linux hosts (module_utils/linux/clients/own_file.py): the folder is the testbed's when its stamp has the token that was drawn before the folder was made,
and that the record and the published layer keep. Only administrators may write into it. Other things in it were put there by others, and stay.
"""

from __future__ import annotations

import json
from typing import Any, TypedDict, cast

from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import Layer
from ...module_utils.core.names import BENCHMARK_FILE
from ...module_utils.core.steps import Step
from ...module_utils.linux.clients.own_file import BUILD_AGAIN, STAMP, folder_name, refuse_short


class Own(TypedDict):
    """The folder as it is. plain: no link and no file; names: of all that is in it; size_bytes: of the benchmark file, None without one."""

    plain: bool
    names: list[str]
    stamp: str
    size_bytes: int | None


class OwnLook(TypedDict):
    """As scripts/own_look.ps1 returns it."""

    volume: str
    filesystem: str
    size_bytes: int
    free_bytes: int
    own: Own | None


class Kept(TypedDict):
    """A folder as the record keeps it. stamped: whether a call has ended that wrote the stamp."""

    folder: str
    own: str
    token: str
    volume: str
    stamped: bool


def path_in(folder: str, name: str) -> str:
    return f"{folder}{'' if folder.endswith(chr(92)) else chr(92)}{name}"


def place_of(testbed_id: str, name: str, folder: str) -> str:
    return path_in(folder, folder_name(testbed_id, name))


def question(folder: str, own: str) -> dict[str, str]:
    """The parameters of own_look."""
    return {"Folder": folder, "Own": own, "Stamp": STAMP, "File": BENCHMARK_FILE}


def stamp(token: str) -> str:
    return json.dumps({"token": token, "what": "made by storlab.testbed for its benchmarks, removed by its teardown"})


def token_of(text: str) -> str | None:
    """The token of a stamp; None of a text that is none."""
    try:
        content = json.loads(text)
    except ValueError:
        return None
    token = content.get("token") if isinstance(content, dict) else None
    return token if isinstance(token, str) else None


def is_ours(look: OwnLook, kept: Kept) -> bool:
    """A folder without its stamp is ours only where the record says that we were about to write it, and nothing else is in it."""
    own = look["own"]
    if own is None or not own["plain"] or look["volume"] != kept["volume"]:
        return False
    return token_of(own["stamp"]) == kept["token"] or (not kept["stamped"] and not own["names"])


def plan(name: str, look: OwnLook, kept: Kept | None, size: int, place: str) -> list[Step]:
    """Steps to a file of this size: make, write. place: of the folder. Raises folder_missing, folder_foreign or space_short."""
    if not look["volume"]:
        raise Failure(
            "folder_missing",
            f"The folder of {name} is not on a volume of this host.",
            "Correct path in testbed.existing; a share is not a volume of the host.",
            name=name,
        )
    own = look["own"]
    if own is not None and (kept is None or not is_ours(look, kept)):
        raise foreign(
            place, "was there before this build" if kept is None else "does not carry the stamp of this testbed"
        )
    steps: list[Step] = []
    if own is None or (kept and token_of(own["stamp"]) != kept["token"]):
        steps.append({"op": "make", "target": place, "was": None, "will": "a folder of the testbed's own"})
    there = own["size_bytes"] if own else None
    if there != size:
        # A file of another size goes first.
        refuse_short(look["free_bytes"] + (there or 0), look["size_bytes"], size, place)
        was = None if there is None else f"own file of {there >> 20} MiB"
        steps.append({"op": "write", "target": name, "was": was, "will": f"own file of {size >> 20} MiB"})
    return steps


def layer_of(entry: dict[str, Any], look: OwnLook, kept: Kept) -> Layer:
    """The layer of the file, for reading and writing. Its details are enough to find the folder again when the record is lost."""
    own = kept["own"].rpartition("\\")[2]
    return {
        "name": f"{entry['layer_kind']}-{entry['name']}",
        "kind": entry["layer_kind"],
        "path": path_in(kept["own"], BENCHMARK_FILE),
        "parent": entry["parent"] or None,
        "purpose": "scratch",
        "size_bytes": entry["benchmark_file_mib"] << 20,
        "identity": {"mount_point": kept["folder"], "volume": kept["volume"], "own_folder": own},
        "detail": {
            "provider": "existing",
            "existing": entry["kind"],
            "access": "write",
            "filesystem": look["filesystem"],
            "folder": kept["folder"],
            "file": path_in(own, BENCHMARK_FILE),
            "own": dict(kept),
        },
    }


def recalled(layers: list[dict[str, Any]]) -> dict[str, Kept]:
    """{name of the storage: folder} of published layers, for a record that is lost."""
    known = {}
    for layer in layers:
        own = (layer.get("detail") or {}).get("own")
        if isinstance(own, dict) and set(Kept.__annotations__) <= set(own):
            known[str(layer["name"]).partition("-")[2]] = cast(Kept, {key: own[key] for key in Kept.__annotations__})
    return known


def leaving(look: OwnLook, kept: Kept) -> tuple[list[str], list[str]]:
    """(names to delete with the folder, paths that stay because others put them there). Both are empty where nothing is left."""
    own = look["own"]
    if own is None and look["volume"] == kept["volume"]:
        return [], []
    if not look["volume"] or look["volume"] != kept["volume"]:
        raise Failure(
            "folder_missing",
            f"{kept['own']} is on a volume that this host does not show there now.",
            "Bring that volume back under the same path, and run teardown again.",
            folder=kept["own"],
        )
    if own is None or not is_ours(look, kept):
        return [], [kept["own"]]
    others = sorted(name for name in own["names"] if name not in (STAMP, BENCHMARK_FILE))
    if own["size_bytes"] is None and BENCHMARK_FILE in own["names"]:
        others.append(BENCHMARK_FILE)
    if others:
        return [], [path_in(kept["own"], name) for name in others]
    return [name for name in (BENCHMARK_FILE, STAMP) if name in own["names"]], []


# ---------------------------------------------------------------- before a point


def is_own(layer: Layer) -> bool:
    """Whether a layer is the testbed's own file on a volume of others."""
    return bool(layer["identity"].get("own_folder")) and "own" in layer["detail"]


def question_of(layer: Layer) -> dict[str, str]:
    return question(layer["detail"]["own"]["folder"], layer["detail"]["own"]["own"])


def refusals(layer: Layer, look: OwnLook) -> list[Failure]:
    """Why the file must not be written to, empty when it is the testbed's own."""
    path, kept, own = layer["path"], layer["detail"]["own"], look["own"]
    if path != path_in(kept["own"], BENCHMARK_FILE):
        return [Failure("not_a_device", f"{path} is not the benchmark file of {layer['name']}.", BUILD_AGAIN)]
    if look["volume"] != kept["volume"]:
        return [Failure("wrong_mount", f"{path} is on the volume {look['volume'] or 'none'} now.", BUILD_AGAIN)]
    if own is None or not own["plain"] or token_of(own["stamp"]) != kept["token"]:
        return [foreign(kept["own"], "does not carry the stamp of this testbed")]
    if own["size_bytes"] != layer["size_bytes"]:
        what = f"{path} has {'no' if own['size_bytes'] is None else own['size_bytes']} bytes, the layer has {layer['size_bytes']}."
        return [Failure("wrong_size", what, BUILD_AGAIN)]
    return []


def foreign(place: str, why: str) -> Failure:
    return Failure(
        "folder_foreign",
        f"{place} {why}, so nothing in it is touched.",
        "Move it away, or remove it if it is left of an earlier testbed; else choose another name in testbed.existing.",
        folder=place,
    )
