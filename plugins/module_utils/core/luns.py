# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The LUNs that an initiator is to have: what their export promised, what is no longer asked for, and the layers they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .iscsi_names import INITIATOR_KEYS, iqn_key, portal_text, same_iqn
from .layers import Layer, purpose_of

# The options of a target's portal, of a LUN at it, and of CHAP.
PORTAL_SPEC: dict[str, dict[str, Any]] = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "default": 3260},
}
LUN_SPEC: dict[str, dict[str, Any]] = {
    "lun": {"type": "int", "required": True},
    "name": {"type": "str", "required": True},
    "parent": {"type": "str"},
    "purpose": {"type": "str", "choices": ["scratch", "data"]},
    "serial": {"type": "str"},
    "naa": {"type": "str"},
    "size_bytes": {"type": "int"},
}
CHAP_SPEC: dict[str, dict[str, Any]] = {
    "chap_user": {"type": "str"},
    "chap_password": {"type": "str", "no_log": True},
    "mutual_chap_user": {"type": "str"},
    "mutual_chap_password": {"type": "str", "no_log": True},
}


def export_spec(of_lun: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The options of a module that exports LUNs by iSCSI, whatever the system of its host. of_lun: what that system alone has of a LUN."""
    lun = {
        "lun": {"type": "int", "required": True},
        "name": {"type": "str", "required": True},
        "layer": {"type": "str"},
        **of_lun,
        "purpose": {"type": "str", "choices": ["scratch", "data"]},
    }
    initiator = {
        **{key: {"type": "str"} for key in INITIATOR_KEYS},
        "luns": {"type": "list", "elements": "int"},
        **CHAP_SPEC,
    }
    target = {
        "name": {"type": "str", "required": True},
        "portals": {"type": "list", "elements": "dict", "required": True, "options": PORTAL_SPEC},
        "luns": {"type": "list", "elements": "dict", "required": True, "options": lun},
        "initiators": {"type": "list", "elements": "dict", "required": True, "options": initiator},
    }
    return {
        "testbed_id": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "layers": {"type": "dict", "default": {}},
        "allow_no_chap": {"type": "bool", "default": False},
        "allow_any_address": {"type": "bool", "default": False},
        "uses": {"type": "dict", "default": {}},
        "targets": {"type": "list", "elements": "dict", "default": [], "options": target},
    }


def paths_of(target: Mapping[str, Any]) -> list[Any]:
    """The target once for each of its portals: each is a path to all of its LUNs. The first is the one that it is asked at for what it has."""
    return [{**target, "portal": portal} for portal in (target["portal"], *(target.get("other_portals") or []))]


def layers_of(targets: list[Any], disks: dict[tuple[str, int], Any], provider: str = "open_iscsi") -> list[Layer]:
    """The LUNs as layers, without their host. disks: {(iqn, lun): facts}, in check mode only of disks that are there."""
    layers: list[Layer] = []
    for target in targets:
        for lun in target["luns"]:
            disk = disks.get((target["iqn"], lun["lun"]), {})
            identity = {
                "serial": disk.get("serial") or lun.get("serial"),
                "naa": disk.get("naa") or lun.get("naa"),
                "wwid": disk.get("wwid") or lun.get("wwid"),
                "uuid": disk.get("uuid"),
                "target_iqn": target["iqn"],
                "lun": lun["lun"],
            }
            layers.append(
                {
                    "name": f"{lun['layer_kind']}-{lun['name']}",
                    "kind": lun["layer_kind"],
                    "path": disk.get("path"),
                    "parent": lun["parent"],
                    "purpose": lun["purpose"],
                    "size_bytes": disk.get("size_bytes") or lun.get("size_bytes"),
                    "identity": {key: value for key, value in identity.items() if value not in (None, "")},
                    "detail": {
                        "provider": provider,
                        "portal": portal_text(**target["portal"]),
                        **{
                            key: disk[key]
                            for key in ("initiator_iqn", "queue_depth", "adapter", "device", "paths", "multipath")
                            if disk.get(key)
                        },
                        **({"generation": lun["generation"]} if lun.get("generation") else {}),
                    },
                }
            )
    return layers


def expected(lun: Mapping[str, Any], iqn: str, layers: dict[str, Layer]) -> dict[str, Any]:
    """The LUN with the serial, NAA identifier and size that its export was published with, unless they are given, and its purpose.

    Raises bad_value for a purpose that contradicts the layer below.
    """
    exported = layers.get(f"target-{lun['name']}") or {}
    identity = exported.get("identity") or {}
    if not same_iqn(identity.get("target_iqn"), iqn) or identity.get("lun") != lun["lun"]:
        exported, identity = {}, {}
    variable = f"iscsi_initiator_targets {iqn} lun {lun['name']}"
    purpose = lun.get("purpose")
    for beneath in filter(None, (layers.get(lun.get("parent") or ""), exported)):
        purpose = purpose_of(variable, purpose, beneath)
    known = {**lun, "purpose": purpose or "data"}
    if not exported:
        return known
    return {
        **known,
        "serial": lun.get("serial") or identity.get("serial"),
        "naa": lun.get("naa") or identity.get("naa"),
        "wwid": identity.get("wwid"),
        "generation": (exported.get("detail") or {}).get("generation"),
        "size_bytes": lun.get("size_bytes") or exported.get("size_bytes"),
    }


def unwanted(records: list[Any], targets: list[Any]) -> list[Any]:
    """Recorded targets that are no longer asked for."""
    wanted = {(iqn_key(target["iqn"]), portal_text(**target["portal"])) for target in targets}
    return [target for target in records if (iqn_key(target["iqn"]), portal_text(**target["portal"])) not in wanted]
