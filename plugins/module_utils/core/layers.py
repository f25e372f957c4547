# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers: the places in a testbed's chain where I/O can be issued.

A layer is a mapping::

    name        unique in the testbed, '<kind>-<what>', e.g. 'initiator-bench'
    kind        one of KINDS
    host        inventory name of the host that issues the I/O
    path        absolute path of the device or file there; null = known, but not measurable
    parent      name of the layer the I/O really goes through next; null = none
    purpose     'data' = holds something, only files on it are measured; 'scratch' = may be overwritten by raw benchmarks; 'read' = was there before the
                testbed and belongs to others: measured by workloads that only read
    size_bytes  exact size of what path names
    identity    what proves that path is that device: any of serial, naa, wwid, uuid, mount_point, target_iqn, lun, stamp …
    detail      free facts for the report (provider, file system, portal, transport …); ``generation`` says which making of a RAM disk it is on;
                ``files`` names all files of a layer that has one per worker: ``path`` is the first, and each has ``size_bytes``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from .failure import Failure, bad_value
from .names import naa_of, plain_naa

# How storage of others is known to be on the layer below it: the system shows it, or its user says it.
PROVEN, DECLARED = "proven", "declared"
PURPOSES = ("scratch", "data", "read")
KINDS = ("ceiling", "backing", "target", "initiator", "datastore", "guest")
# Of Linux, of a Windows drive, or of a Windows device such as \\.\PhysicalDrive1.
ABSOLUTE = re.compile(r"/|[A-Za-z]:\\|\\\\\.\\")
FILE_NAME = re.compile(r"[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,199}")
# The part of an identity that goes with the contents of a disk that the testbed makes.
OF_CONTENTS = ("serial", "naa", "wwid", "uuid")
REDUCING = re.compile(r"/dev/(zram\d+|zd\d+|zvol/.+)")
# The shape of a layer that is read back (core/shape.py).
SHAPE: dict[str, Any] = {
    **dict.fromkeys(("name", "kind?", "host?", "purpose?"), str),
    **dict.fromkeys(("path?", "parent?"), (str, type(None))),
    "size_bytes?": (int, type(None)),
    "identity?": dict,
    "detail?": (dict, type(None)),
}


class Layer(TypedDict, total=False):
    """A layer as the text above describes it. No key is required here: of stored layers the name alone is certain, validate_layer gives the rest."""

    name: str
    kind: str
    host: Any
    path: Any  # text where it can be measured, which those who measure have seen to; as are its size and, going down, its parent
    parent: Any
    purpose: str | None
    size_bytes: Any
    identity: dict[str, Any]
    detail: dict[str, Any]
    variants: dict[str, Any]  # the layer as it was in each, where several were measured
    what: str  # of a layer that is drawn before it is made
    unpublished: bool  # of a layer that results alone know


REQUIRED = ("name", "kind", "host", "path", "parent", "purpose", "size_bytes", "identity")


def validate_layer(layer: Layer) -> Layer:
    """Return the layer with every key present; raise Failure 'bad_value' when it is not one."""
    missing = [key for key in REQUIRED if key not in layer]
    if missing:
        raise bad_value("layer", layer.get("name", layer), f"Give it {', '.join(missing)}.")
    # It becomes the name of a file on the controller.
    if not FILE_NAME.fullmatch(str(layer["name"])):
        raise bad_value(
            "layer name",
            layer["name"],
            "Use a name of up to 200 characters without / and control characters, that does not begin with a dot.",
        )
    if layer["kind"] not in KINDS:
        raise bad_value(f"layer {layer['name']} kind", layer["kind"], f"Use one of {', '.join(KINDS)}.")
    if layer["purpose"] not in PURPOSES:
        raise bad_value(f"layer {layer['name']} purpose", layer["purpose"], f"Use one of {', '.join(PURPOSES)}.")
    if layer["path"] is not None and layer["kind"] != "ceiling" and not ABSOLUTE.match(str(layer["path"])):
        raise bad_value(f"layer {layer['name']} path", layer["path"], "Give an absolute path.")
    return {"detail": {}, **layer}


def parts(layer: Layer) -> list[Layer]:
    """The layer once for each of its files, as layers of one file; a layer of one file or device is its only part."""
    files = (layer.get("detail") or {}).get("files") or [layer.get("path")]
    return [{**layer, "path": path} for path in files]


def only_read(layer: Layer) -> bool:
    """Whether nothing may ever be written to the layer: it is storage of others."""
    return layer.get("purpose") == "read"


def of_others(layer: Layer) -> bool:
    """Whether the layer is on storage that was there before the testbed, whether it may be written to or not."""
    return only_read(layer) or (layer.get("detail") or {}).get("provider") == "existing"


def link(layers: Mapping[str, Layer], layer: Layer) -> str | None:
    """PROVEN or DECLARED: how storage of others is known to be on its parent; None of other layers, whose parents the testbed made.

    Its host looks for what it can see alone; a disk that shows the same name, which no other disk in the world has, is the same one on two hosts.
    """
    below = layers.get(layer.get("parent") or "")
    detail = layer.get("detail") or {}
    if below is None or detail.get("provider") != "existing":
        return None
    same = _worldwide(layer) & _worldwide(below) if layer.get("host") != below.get("host") else set()
    return PROVEN if same or detail.get("link") == PROVEN else DECLARED


def _worldwide(layer: Layer) -> set[str]:
    """The names of a layer's disk that no other disk in the world has, in one spelling."""
    identity = layer.get("identity") or {}
    wwid = str(identity.get("wwid") or "").lower()
    naa = str(identity.get("naa") or "").lower() or naa_of(wwid)
    return {plain_naa(naa).removeprefix("0x")} if naa else {wwid} if wwid.startswith(("eui.", "uuid.")) else set()


def refuse_writing(layer: Layer, what: str) -> None:
    """Raise layer_read_only for storage of others. what: what would write, as the subject of a sentence."""
    if only_read(layer):
        raise Failure(
            "layer_read_only",
            f"{what} writes, but {layer['name']} on {layer['host']} was there before the testbed and is only read.",
            "Use workloads that only read, such as the profile existing_read has, and leave out preparation that writes.",
            layer=layer["name"],
        )


def purpose_of(variable: str, given: str | None, beneath: Layer | None) -> str:
    """The purpose of a layer whose device is that of the layer below: the same, or data where nothing is said. Raises bad_value.

    Both layers are the same bytes, so a purpose that differs would let a benchmark overwrite what the other one keeps.
    """
    inherited = beneath.get("purpose") if beneath else None
    if beneath and given and inherited and given != inherited:
        raise bad_value(
            f"{variable} purpose",
            given,
            f"Layer {beneath['name']} below it is {inherited}: give both the same, or leave it out here.",
        )
    return given or inherited or "data"


def chain(layers: dict[str, Layer], name: str) -> list[Layer]:
    """The layers from ``name`` down to the bottom, following ``parent``."""
    path, seen = [], set()
    while name is not None:
        if name in seen:
            raise Failure(
                "layer_loop", f"Layer {name} is its own ancestor.", "Correct the parents of the layers.", layer=name
            )
        seen.add(name)
        if name not in layers:
            raise Failure(
                "layer_missing",
                f"Layer {name} is named as a parent but was never published.",
                "Run build before benchmark or report.",
                layer=name,
            )
        path.append(layers[name])
        name = layers[name]["parent"]
    return path


def down(layers: dict[str, Layer], layer: Layer | None) -> list[Layer]:
    """The layer and those below it as far as they are known: unlike ``chain`` it refuses nothing."""
    path: list[Layer] = []
    while layer and layer["name"] not in [above["name"] for above in path]:
        path.append(layer)
        layer = layers.get(layer.get("parent") or "")
    return path


def generation(layers: dict[str, Layer], layer: Layer | None) -> str | None:
    """Which making of the disk below a layer holds its data; None when no layer below says."""
    generations = ((below.get("detail") or {}).get("generation") for below in down(layers, layer))
    return next((str(name) for name in generations if name), None)


def reduces_data(layers: dict[str, Layer], layer: Layer) -> bool:
    """Whether a device that the layer is on is one that compresses or deduplicates: zram, or a volume of ZFS."""
    return any(REDUCING.fullmatch(str(below.get("path"))) for below in down(layers, layer))


def lasting_identity(layer: Layer) -> dict[str, object]:
    """The part of a layer's identity that it keeps when the disk below it is recreated."""
    if not (layer.get("detail") or {}).get("generation"):
        return dict(layer["identity"])
    return {key: value for key, value in layer["identity"].items() if key not in OF_CONTENTS}
