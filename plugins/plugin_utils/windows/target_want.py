# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iSCSI targets of a Windows host as they are wanted: the parameters of their module, checked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, cast

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.iscsi_names import check_chap, check_iqn, check_known_iqn, initiator_key, portal_address
from ...module_utils.core.layers import Layer, purpose_of
from .host import check_id, check_lun, check_port, check_secrets, check_size
from .params import TargetParams, TargetTargetInitiatorOption, TargetTargetLunOption, TargetTargetOption
from .wants import LunWant, TargetWant

AUTH = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")


LUN_SOURCES = ("layer", "vhdx")


def target_name(testbed_id: str, iqn: str) -> str:
    """Windows' own short name of the target: letters, digits and dashes."""
    return f"storlab-{testbed_id}-" + re.sub(r"[^a-z0-9]+", "-", iqn.split(":", 1)[-1].lower()).strip("-")


def check(params: TargetParams) -> list[TargetWant]:
    """The targets as the plan wants them; raises bad_value, layer_missing or layer_not_exportable.

    Each {name, iqn, portals, initiators: [IQN:…], auth: {…}, luns: [{lun, name, path, size_bytes, vhdx, parent, purpose, label}]}.
    """
    check_id("iscsi_target_testbed_id", params["testbed_id"])
    targets: list[TargetWant] = []
    lun_names, paths = set(), set()
    for wanted in params["targets"]:
        variable = f"iscsi_target_targets {wanted['name']}"
        check_iqn("iscsi_target_targets name", wanted["name"])
        for key in ("portals", "initiators"):
            if not wanted[key]:
                raise bad_value(f"{variable} {key}", [], f"Give at least one of {key}.")
        numbers = [lun["lun"] for lun in wanted["luns"]]
        if len(set(numbers)) != len(numbers):
            raise bad_value(f"{variable} luns", numbers, "Give every LUN of a target another number.")
        luns = [_lun(params, variable, lun) for lun in wanted["luns"]]
        for lun in luns:
            if lun["name"] in lun_names or lun["path"].lower() in paths:
                raise bad_value(
                    f"{variable} lun name",
                    lun["name"],
                    "Give every LUN of the testbed another name and another virtual disk.",
                )
            lun_names.add(lun["name"])
            paths.add(lun["path"].lower())
        targets.append(
            {
                "name": target_name(params["testbed_id"], wanted["name"]),
                "iqn": wanted["name"],
                "luns": luns,
                "auth": _auth(params, variable, wanted),
                "initiators": sorted(
                    {_initiator_id(f"{variable} initiator", initiator) for initiator in wanted["initiators"]}
                ),
                "portals": [
                    {
                        "address": portal_address(f"{variable} portal", portal["address"], params["allow_any_address"]),
                        "port": check_port(f"{variable} portal", portal["port"]),
                    }
                    for portal in wanted["portals"]
                ],
            }
        )
    names = [target["name"] for target in targets]
    for name in names:
        if names.count(name) > 1:
            raise bad_value(
                "iscsi_target_targets name",
                name,
                "Two targets have this name on Windows; give names that differ in letters or digits.",
            )
    return targets


def _lun(params: TargetParams, variable: str, lun: TargetTargetLunOption) -> LunWant:
    check_lun(variable, lun)
    if not lun["layer"] and not lun["vhdx"]:
        raise bad_value(
            f"{variable} lun {lun['name']}",
            {key: lun.get(key) for key in LUN_SOURCES},
            "Give a layer, or a vhdx, or a vhdx with the layer of its volume.",
        )
    if lun["vhdx"]:
        vhdx = lun["vhdx"]
        if not re.fullmatch(r"[A-Za-z]:\\[^/:*?\"<>|]+\.vhdx", vhdx["path"]) or ".." in vhdx["path"].split("\\"):
            raise bad_value(
                f"{variable} lun {lun['name']} vhdx path",
                vhdx["path"],
                "Use a full path on a local volume that ends in .vhdx, such as E:\\lab\\ds1.vhdx.",
            )
        size = check_size(f"{variable} lun {lun['name']} vhdx", vhdx["size_mib"])
        return {
            **lun,
            "path": vhdx["path"],
            "size_bytes": size,
            "parent": lun["layer"],
            "label": _volume_label(params, f"{variable} lun {lun['name']} vhdx", lun, size) if lun["layer"] else None,
            "purpose": purpose_of(f"{variable} lun {lun['name']}", lun["purpose"], None),
        }
    layer = _published(params, lun)
    path = layer["identity"].get("virtual_disk")
    if not path:
        raise Failure(
            "layer_not_exportable",
            f"LUN {lun['name']} is on layer {lun['layer']}, which is not a virtual disk of the target server.",
            "Use the RAM disk provider iscsi_target, or a VHDX file on a volume of that disk.",
            layer=lun["layer"],
        )
    exported = {
        **lun,
        "path": path,
        "size_bytes": layer["size_bytes"],
        "parent": lun["layer"],
        "purpose": purpose_of(f"{variable} lun {lun['name']}", lun["purpose"], layer),
    }
    return cast(LunWant, exported)


def _published(params: TargetParams, lun: TargetTargetLunOption) -> Layer:
    layer: Layer | None = params["layers"].get(lun["layer"])
    if not layer:
        raise Failure(
            "layer_missing",
            f"LUN {lun['name']} is on layer {lun['layer']}, which was never published on this host.",
            "Run the role that makes that layer first, on this host.",
            layer=lun["layer"],
        )
    return layer


def _volume_label(params: TargetParams, variable: str, lun: TargetTargetLunOption, size_bytes: int) -> str:
    """The label of the volume that has the file, by the layer of its datastore."""
    layer, letter = _published(params, lun), lun["vhdx"]["path"][0].upper()
    mounted = str(layer["identity"].get("mount_point") or "").upper()
    if layer.get("kind") != "datastore" or not mounted:
        raise Failure(
            "layer_not_exportable",
            f"LUN {lun['name']} is a file on layer {lun['layer']}, which is not a volume.",
            "Name the layer of a datastore of this host, or leave the layer out.",
            layer=lun["layer"],
        )
    if mounted[:1] != letter:
        raise bad_value(
            f"{variable} path",
            lun["vhdx"]["path"],
            f"Layer {lun['layer']} is the volume {mounted[:2]}; use a path there.",
        )
    below = params["layers"].get(layer["parent"])
    if below and below["size_bytes"] and lun["vhdx"]["allocation"] == "fixed" and size_bytes > below["size_bytes"]:
        raise bad_value(
            f"{variable} size_mib",
            size_bytes >> 20,
            f"Its volume is on {below['name']} of {below['size_bytes'] >> 20} MiB; make the file smaller, or dynamic.",
        )
    return str(layer["identity"]["stamp"])


def _initiator_id(variable: str, initiator: TargetTargetInitiatorOption) -> str:
    """An initiator as the cmdlets name it, with its type."""
    key = initiator_key(variable, initiator)
    value: Any = initiator.get(key)
    if key == "iqn":
        return f"IQN:{check_known_iqn(variable, value)}"
    if key == "address":
        return _address_id(f"{variable} address", value)
    if key == "mac_address":
        digits = re.sub(r"[-:]", "", value)
        if not re.fullmatch(r"[0-9A-Fa-f]{12}", digits):
            raise bad_value(
                f"{variable} mac_address", value, "Use six pairs of hexadecimal digits, such as 00:50:56:ab:cd:ef."
            )
        return "MACAddress:" + "-".join(digits[place : place + 2].upper() for place in range(0, 12, 2))
    if not re.fullmatch(
        r"(?=.{1,255}$)(?!(.*\.)?[0-9]+$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*",
        value,
    ):
        raise bad_value(f"{variable} dns_name", value, "Use a host name such as esxi01.example.lab.")
    return f"DNSName:{value.lower()}"


def _address_id(variable: str, value: str) -> str:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        address = None
    if address is None or address.is_unspecified or "%" in value:
        raise bad_value(variable, value, "Use the IPv4 or IPv6 address that the initiator logs in from.")
    return f"IPv6Address:{address}" if address.version == 6 else f"IPAddress:{address}"


def _auth(params: TargetParams, variable: str, wanted: TargetTargetOption) -> dict[str, str]:
    """The one CHAP setting of a Windows target."""
    numbers, settings = {lun["lun"] for lun in wanted["luns"]}, []
    for initiator in wanted["initiators"]:
        mine = f"{variable} initiator {initiator.get(initiator_key(f'{variable} initiators', initiator))}"
        check_secrets(mine, initiator)
        check_chap(mine, initiator, params["allow_no_chap"])
        if initiator["luns"] is not None and set(initiator["luns"]) != numbers:
            raise bad_value(
                f"{mine} luns",
                initiator["luns"],
                "A Windows target shows all its LUNs to everyone: make another target for these.",
            )
        given: Mapping[str, Any] = initiator
        settings.append({key: given[key] or "" for key in AUTH})
    if any(setting != settings[0] for setting in settings):
        raise bad_value(
            f"{variable} initiators",
            "different CHAP names or secrets",
            "A Windows target has one of each: make another target for the others.",
        )
    return settings[0]
