# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the target providers: the description of targets, its checks, the guard before an export, the layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.iscsi_names import (
    check_chap,
    check_iqn,
    check_known_iqn,
    initiator_key,
    iqn_key,
    portal_address,
    portal_text,
    same_iqn,
)
from ...core.layers import Layer, generation, purpose_of
from ...core.luns import export_spec
from ...core.names import check_name
from ..disks import block_device, device_safety
from ..nouns import ExportedLun, ExportedTarget, LostLun, Portal
from ..params import IscsiTargetTargetLunOption, IscsiTargetTargetOption

SPEC: dict[str, Any] = export_spec(
    {"device": {"type": "path"}, **{key: {"type": "str"} for key in device_safety.PROOFS}}
)


def check_targets(
    wanted: list[IscsiTargetTargetOption],
    layers: dict[str, Layer],
    allow_no_chap: bool = False,
    allow_any_address: bool = False,
) -> list[ExportedTarget]:
    """The targets with addresses normalised and the device of every LUN found; raises bad_value or layer_missing."""
    targets: list[ExportedTarget] = []
    names, portals_of = set(), {}
    for target in wanted:
        variable = f"iscsi_target_targets {target['name']}"
        check_iqn("iscsi_target_targets name", target["name"])
        for key in ("portals", "initiators"):
            if not target[key]:
                raise bad_value(f"{variable} {key}", [], f"Give at least one of {key}.")
        portals: list[Portal] = [
            {
                "address": portal_address(f"{variable} portal", portal["address"], allow_any_address),
                "port": portal["port"],
            }
            for portal in target["portals"]
        ]
        _unique(f"{variable} portals", [portal_text(**portal) for portal in portals])
        _unique(f"{variable} luns", [lun["lun"] for lun in target["luns"]])
        for initiator in target["initiators"]:
            named: Mapping[str, object] = initiator
            key = initiator_key(f"{variable} initiators", named)
            if key != "iqn":
                raise bad_value(
                    f"{variable} initiator {key}",
                    named[key],
                    "Give its iqn: this target distinguishes initiators only by name.",
                )
        _unique(f"{variable} initiators", [iqn_key(initiator["iqn"]) for initiator in target["initiators"]])
        for initiator in target["initiators"]:
            check_known_iqn(f"{variable} initiator", initiator["iqn"])
            check_chap(f"{variable} initiator {initiator['iqn']}", initiator, allow_no_chap)
            unknown = sorted(set(initiator["luns"] or []) - {lun["lun"] for lun in target["luns"]})
            if unknown:
                raise bad_value(f"{variable} initiator {initiator['iqn']} luns", unknown, "Name LUNs of this target.")
        if len({bool(initiator["chap_user"]) for initiator in target["initiators"]}) > 1:
            # Authentication is a switch of the whole target: half of it would be none for the others.
            raise bad_value(
                f"{variable} initiators",
                "some with and some without chap_user",
                "Give CHAP to all initiators of a target, or to none.",
            )
        luns: list[ExportedLun] = []
        for lun in target["luns"]:
            check_name(f"{variable} lun name", lun["name"])
            if lun["name"] in names:
                raise bad_value(f"{variable} lun name", lun["name"], "Give every LUN of the testbed another name.")
            names.add(lun["name"])
            luns.append({**lun, **_resolved(variable, lun, layers)})
        portals_of[target["name"]] = portals
        initiators: list[Any] = [*target["initiators"]]
        targets.append({"name": target["name"], "portals": portals, "luns": luns, "initiators": initiators})
    _unique("iscsi_target_targets name", [target["name"] for target in targets])
    return targets


def _unique(variable: str, values: Sequence[str | int]) -> None:
    double = sorted({value for value in values if values.count(value) > 1}, key=str)
    if double:
        raise bad_value(variable, double[0], "Listed twice; list it once.")


def _resolved(variable: str, lun: IscsiTargetTargetLunOption, layers: dict[str, Layer]) -> ExportedLun:
    """{device, parent, expected, generation, purpose}: the device below the LUN."""
    if bool(lun["layer"]) == bool(lun["device"]):
        raise bad_value(
            f"{variable} lun {lun['name']}",
            {"layer": lun["layer"], "device": lun["device"]},
            "Give either layer or device.",
        )
    if lun["device"]:
        purpose = purpose_of(f"{variable} lun {lun['name']}", lun["purpose"], None)
        return {"device": lun["device"], "parent": None, "expected": None, "generation": None, "purpose": purpose}
    layer = layers.get(lun["layer"])
    if not layer:
        raise Failure(
            "layer_missing",
            f"LUN {lun['name']} is on layer {lun['layer']}, which was never published on this host.",
            "Run the role that makes that layer first, on this host.",
            layer=lun["layer"],
        )
    return {
        "device": layer["path"],
        "parent": lun["layer"],
        "expected": layer,
        "generation": generation(layers, layer),
        "purpose": purpose_of(f"{variable} lun {lun['name']}", lun["purpose"], layer),
    }


def refuse_unsafe(lun: ExportedLun, target: str, testbed_id: str) -> None:
    """The device guard before a LUN is exported. A device that the testbed itself published may carry its own signature."""
    facts = device_safety.inspect(os.path.realpath(lun["device"]))
    layer: Layer = lun["expected"]
    if not layer:
        variable = f"iscsi_target_targets {target}"
        device_safety.refuse_named(f"LUN {lun['name']}", variable, lun["device"], lun, lun["purpose"], facts)
        return
    tolerated = {"signature_present"}
    if layer["identity"].get("whole_device"):
        tolerated.add("device_partitioned")
    reasons = [
        refusal
        for refusal in device_safety.refusals(facts, layer, testbed_id=testbed_id, overwrite=False)
        if refusal.code not in tolerated
    ]
    if reasons:
        raise device_safety.not_touched({**layer, "path": lun["device"]}, reasons)


def withdrawn(
    lost: list[LostLun],
    targets: list[ExportedTarget],
    layers: dict[str, Layer],
    cut: list[LostLun] | tuple[Any, ...] = (),
) -> list[LostLun]:
    """The lost LUNs with what a user needs to know of them: {key, target, initiator, address, lun, credentials, variable, layer, host, path}.

    lost: [{target, initiator, address, lun}] that initiators would lose while they are logged in; cut: that they would lose when their connection breaks,
    because the CHAP names or secrets with which they logged in are replaced (credentials). The layer, its host and path are of the
    initiator that published the LUN under the same initiator name; all three are None when none has.
    """
    luns: list[LostLun] = []
    also: list[LostLun] = [{**entry, "credentials": True} for entry in cut if entry not in lost]
    for entry in [*lost, *also]:
        layer: Any = next(
            (
                layer
                for layer in layers.values()
                if layer["path"]
                and same_iqn(layer["identity"].get("target_iqn"), entry["target"])
                and layer["identity"].get("lun") == entry["lun"]
                and same_iqn((layer.get("detail") or {}).get("initiator_iqn"), entry["initiator"])
            ),
            {},
        )
        place: LostLun = {"layer": layer.get("name"), "host": layer.get("host"), "path": layer.get("path")}
        key = f"{entry['target']} {entry['initiator']} {entry['lun']}"
        luns.append({"key": key, "credentials": False, **entry, "variable": _variable_of(entry, targets), **place})
    return luns


def _variable_of(lost: LostLun, targets: list[ExportedTarget]) -> str:
    """The variable that no longer gives the LUN to the initiator, or gives it for other secrets."""
    name = f"iscsi_target_targets {lost['target']}"
    if lost.get("credentials"):
        return (
            f"{name} initiator {lost['initiator']} chap_user, chap_password, mutual_chap_user and mutual_chap_password"
        )
    target = next((target for target in targets if target["name"] == lost["target"]), None)
    if target is None:
        return "iscsi_target_targets"
    if lost["lun"] not in [lun["lun"] for lun in target["luns"]]:
        return f"{name} luns"
    initiator = next((entry for entry in target["initiators"] if same_iqn(entry["iqn"], lost["initiator"])), None)
    if initiator is None:
        return f"{name} initiators"
    if initiator.get("luns") is not None and lost["lun"] not in initiator["luns"]:
        return f"{name} initiator {lost['initiator']} luns"
    return name


def left_behind(exported: set[tuple[str, int]], layers: dict[str, Layer], lost: list[LostLun]) -> list[LostLun]:
    """The LUNs of hosts that were not taken down, as ``withdrawn`` has them, but for those in lost.

    exported: (target, LUN) that go. layers: all that are published. A host that is taken down forgets its layers, so one whose layer is still published was
    not reached, or kept what is on the LUN. Its session proves nothing: that of a host that is cut off ends by itself.
    """
    known = {(entry["target"].lower(), entry["lun"], entry.get("host")) for entry in lost}
    luns: list[LostLun] = []
    for name, layer in sorted(layers.items()):
        identity = layer["identity"]
        target, number = str(identity.get("target_iqn") or ""), identity.get("lun")
        match = [entry for entry in sorted(exported) if same_iqn(entry[0], target) and entry[1] == number]
        if layer["kind"] != "initiator" or not match or (target.lower(), number, layer["host"]) in known:
            continue
        initiator = str((layer.get("detail") or {}).get("initiator_iqn") or "")
        luns.append(
            {
                "key": f"{match[0][0]} {initiator or layer['host']} {match[0][1]}",
                "credentials": False,
                "left_behind": True,
                "target": match[0][0],
                "initiator": initiator,
                "address": "",
                "lun": match[0][1],
                "variable": "iscsi_target_targets",
                "layer": name,
                "host": layer["host"],
                "path": layer["path"],
            }
        )
    return luns


def refuse_withdrawn(luns: list[LostLun], uses: dict[str, Any]) -> None:
    """Raises target_in_use unless every LUN that an initiator would lose is proven to be unused there.

    luns: from ``withdrawn`` and ``left_behind``. uses: {key: users}, what the initiators themselves say; no users: nothing uses the disk.
    """
    kept: list[LostLun] = [{**lun, "users": uses.get(lun["key"])} for lun in luns if uses.get(lun["key"]) != []]
    if not kept:
        return
    first = kept[0]
    where = (
        f" of host {first['host']} ({first['path']})"
        if first["host"]
        else f" at {first['address'] or 'an unknown address'}"
    )
    reason = f"it is {', '.join(first['users'])} there" if first["users"] else "that is logged in, and may use it"
    what = f"LUN {first['lun']} of {first['target']} cannot be taken from the initiator {first['initiator']}{where}: {reason}."
    remedy = f"Keep it in {first['variable']}"
    if first.get("left_behind"):
        used = f"; it is {', '.join(first['users'])} there" if first["users"] else ""
        raise Failure(
            "target_in_use",
            f"LUN {first['lun']} of {first['target']} cannot be removed: host {first['host']}, which had it, was not taken down, "
            f"and somebody's files may be on it{used}.",
            f"Bring {first['host']} back and run teardown for all hosts; if it does not come back and what is on the LUN is not needed, "
            f'set iscsi_target_gone_hosts: ["{first["host"]}"].',
            target=first["target"],
            initiators=sorted({lun["initiator"] for lun in kept if lun["initiator"]}),
            hosts=sorted({str(lun["host"]) for lun in kept}),
            withdrawn=kept,
        )
    if first["credentials"]:
        what = (
            f"The CHAP names and secrets for LUN {first['lun']} of {first['target']} cannot change while the initiator {first['initiator']}{where} "
            f"is logged in with the former ones: {reason}, and the session could not log in again once its connection breaks."
        )
        remedy = f"Set the former values again in {first['variable']} (testbed.chap, testbed.chap_password, testbed.mutual_chap_password)"
    raise Failure(
        "target_in_use",
        what,
        f"{remedy}, or end what uses it there and log that initiator out first, as teardown does; "
        "the session of a machine that died ends by itself within a minute.",
        target=first["target"],
        initiators=sorted({lun["initiator"] for lun in kept}),
        withdrawn=kept,
    )


def layers_of(
    targets: list[ExportedTarget],
    published: dict[str, Layer],
    identity: Any,
    provider: str,
    page_cache: bool = False,
    facts: Callable[[ExportedTarget, ExportedLun], dict[str, Any]] | None = None,
) -> list[Layer]:
    """The LUNs as layers, without their host. A path from an earlier loopback login to the same LUN stays.

    page_cache: whether the target serves from the page cache of its host, or bypasses it. facts: more for the detail of a target's LUN.
    """
    layers: list[Layer] = []
    for target in targets:
        for lun in target["luns"]:
            name, known = f"target-{lun['name']}", identity(target, lun)
            before = published.get(name) or {}
            same = all((before.get("identity") or {}).get(key) == value for key, value in known.items())
            size = block_device.size_bytes(lun["device"]) if lun["device"] else None
            detail = {
                "provider": provider,
                "page_cache": "used" if page_cache else "bypassed",
                "portals": [portal_text(**portal) for portal in target["portals"]],
                **(facts(target, lun) if facts else {}),
            }
            if lun.get("generation"):
                detail["generation"] = lun.get("generation")
            layers.append(
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
    return layers
