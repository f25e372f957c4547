# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the target providers share: the description of targets, its checks, the guard before an export, the layers."""

from __future__ import annotations

import os

from . import block_device, device_safety
from .failure import Failure, bad_value
from .host import check_name
from .iscsi_names import INITIATOR_KEYS, check_chap, check_iqn, initiator_key, portal_address, portal_text

SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "layers": {"type": "dict", "default": {}},
    "allow_no_chap": {"type": "bool", "default": False},
    "allow_any_address": {"type": "bool", "default": False},
    "targets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "portals": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "address": {"type": "str", "required": True},
                    "port": {"type": "int", "default": 3260},
                },
            },
            "luns": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "lun": {"type": "int", "required": True},
                    "name": {"type": "str", "required": True},
                    "layer": {"type": "str"},
                    "device": {"type": "path"},
                    "purpose": {"type": "str", "choices": ["scratch", "data"], "default": "scratch"},
                },
            },
            "initiators": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    **{key: {"type": "str"} for key in INITIATOR_KEYS},
                    "luns": {"type": "list", "elements": "int"},
                    "chap_user": {"type": "str"},
                    "chap_password": {"type": "str", "no_log": True},
                    "mutual_chap_user": {"type": "str"},
                    "mutual_chap_password": {"type": "str", "no_log": True},
                },
            },
        },
    },
}


def check_targets(wanted: list, layers: dict, allow_no_chap: bool = False, allow_any_address: bool = False) -> list:
    """The targets with addresses normalised and the device of every LUN found; raises bad_value or layer_missing."""
    targets, names, portals_of = [], set(), {}
    for target in wanted:
        variable = f"iscsi_target_targets {target['name']}"
        check_iqn("iscsi_target_targets name", target["name"])
        for key in ("portals", "initiators"):
            if not target[key]:
                raise bad_value(f"{variable} {key}", [], f"Give at least one of {key}.")
        portals = [
            {"address": portal_address(f"{variable} portal", portal["address"], allow_any_address), "port": portal["port"]} for portal in target["portals"]
        ]
        _unique(f"{variable} portals", [portal_text(**portal) for portal in portals])
        _unique(f"{variable} luns", [lun["lun"] for lun in target["luns"]])
        for initiator in target["initiators"]:
            key = initiator_key(f"{variable} initiators", initiator)
            if key != "iqn":
                raise bad_value(f"{variable} initiator {key}", initiator[key], "Give its iqn: this target tells initiators apart by their names only.")
        _unique(f"{variable} initiators", [initiator["iqn"] for initiator in target["initiators"]])
        for initiator in target["initiators"]:
            check_iqn(f"{variable} initiator", initiator["iqn"])
            check_chap(f"{variable} initiator {initiator['iqn']}", initiator, allow_no_chap)
            unknown = sorted(set(initiator["luns"] or []) - {lun["lun"] for lun in target["luns"]})
            if unknown:
                raise bad_value(f"{variable} initiator {initiator['iqn']} luns", unknown, "Name LUNs of this target.")
        if len({bool(initiator["chap_user"]) for initiator in target["initiators"]}) > 1:
            # Authentication is a switch of the whole target: half of it would be none for the others.
            raise bad_value(f"{variable} initiators", "some with and some without chap_user", "Give CHAP to all initiators of a target, or to none.")
        luns = []
        for lun in target["luns"]:
            check_name(f"{variable} lun name", lun["name"])
            if lun["name"] in names:
                raise bad_value(f"{variable} lun name", lun["name"], "Give every LUN of the testbed another name.")
            names.add(lun["name"])
            luns.append({**lun, **_resolved(variable, lun, layers)})
        portals_of[target["name"]] = portals
        targets.append({**target, "portals": portals, "luns": luns})
    _unique("iscsi_target_targets name", [target["name"] for target in targets])
    return targets


def _unique(variable: str, values: list) -> None:
    double = sorted({value for value in values if values.count(value) > 1}, key=str)
    if double:
        raise bad_value(variable, double[0], "It stands there twice; give each once.")


def _resolved(variable: str, lun: dict, layers: dict) -> dict:
    """{device, parent, expected}: what the LUN stands on."""
    if bool(lun["layer"]) == bool(lun["device"]):
        raise bad_value(f"{variable} lun {lun['name']}", {"layer": lun["layer"], "device": lun["device"]}, "Give either layer or device.")
    if lun["device"]:
        return {"device": lun["device"], "parent": None, "expected": None}
    layer = layers.get(lun["layer"])
    if not layer:
        raise Failure(
            "layer_missing",
            f"LUN {lun['name']} stands on layer {lun['layer']}, which was never published on this host.",
            "Run the role that makes that layer first, on this host.",
            layer=lun["layer"],
        )
    return {"device": layer["path"], "parent": lun["layer"], "expected": layer}


def refuse_unsafe(lun: dict, testbed_id: str) -> None:
    """The device guard before a LUN is exported. What the testbed itself published may carry its own signature."""
    layer = lun["expected"] or {
        "name": lun["name"],
        "host": "this host",
        "path": lun["device"],
        "parent": None,
        "purpose": lun["purpose"],
        "size_bytes": block_device.size_bytes(lun["device"]),
        "identity": {"major_minor": block_device.device_numbers(lun["device"])},
    }
    tolerated = {"signature_present"} if lun["expected"] else set()
    if layer["identity"].get("whole_device"):
        tolerated.add("device_partitioned")
    facts = device_safety.inspect(os.path.realpath(lun["device"]))
    found = [refusal for refusal in device_safety.refusals(facts, layer, testbed_id=testbed_id, overwrite=False) if refusal["code"] not in tolerated]
    if found:
        raise device_safety.as_failure({**layer, "path": lun["device"]}, found)


def layers_of(targets: list, published: dict, identity, provider: str) -> list:
    """The LUNs as layers, without their host. A path from an earlier loopback login to the same LUN stays."""
    found = []
    for target in targets:
        for lun in target["luns"]:
            name, known = f"target-{lun['name']}", identity(target, lun)
            before = published.get(name) or {}
            same = all((before.get("identity") or {}).get(key) == value for key, value in known.items())
            size = block_device.size_bytes(lun["device"]) if lun["device"] else None
            detail = {"provider": provider, "portals": [portal_text(**portal) for portal in target["portals"]]}
            found.append(
                {
                    "name": name,
                    "kind": "target",
                    "path": before.get("path") if same else None,
                    "parent": lun["parent"],
                    "purpose": lun["purpose"],
                    "size_bytes": size if size is not None else (lun["expected"] or {}).get("size_bytes"),
                    "identity": before["identity"] if same and before.get("path") else known,
                    "detail": {**before.get("detail", {}), **detail} if same else detail,
                }
            )
    return found
