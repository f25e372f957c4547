# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage state of a Windows host as module_utils/linux/watch/storage_state.py compares it: sections of lines of plain text."""

from __future__ import annotations

import re
from typing import Any

from ...module_utils.core.iscsi_names import portal_text
from .host import stamped

OWN_STAMP = "storlab testbed "


def lines(state: dict[str, Any], testbed_id: str = "") -> dict[str, Any]:
    """{section: [line]} of a state; what another testbed of this collection has there is left out."""

    def others(description: str) -> bool:
        return bool(testbed_id) and description.startswith(OWN_STAMP) and not stamped(description, testbed_id)

    initiator, disks = state["initiator"], {disk["number"]: disk for disk in state["disks"]}
    sections = {
        "features": [f"FS-iSCSITarget-Server {state['feature']}"] if state["feature"] else [],
        "services": [
            f"{service['name']} {service['state']}, start {service['start_mode']}" for service in state["services"]
        ],
        "virtual_disks": [
            f"{disk['path']} {disk['size_bytes']} bytes"
            for disk in state["virtual_disks"]
            if not others(disk["description"])
        ],
        "targets": [
            f"{target['name']} {target['iqn']} for {', '.join(sorted(target['initiators']))}"
            + (f", CHAP {target['chap_user']}" if target["chap"] else "")
            + "".join(f", LUN {lun['lun']} {lun['path']}" for lun in target["luns"])
            for target in state["targets"]
            if not others(target["description"])
        ],
        "portals": [
            f"{'+' if portal['enabled'] else '-'}{portal_text(portal['address'], portal['port'])}"
            for portal in state["portals"]
        ],
        "loopback": [f"AllowLoopBack {state['loopback']}"] if state["loopback"] is not None else [],
        "firewall_rules": [
            rule
            for rule in state["firewall_rules"]
            if not testbed_id or re.match(rf"storlab {re.escape(testbed_id)} ", rule)
        ],
        "initiator": [f"portal {portal['address']}:{portal['port']}" for portal in initiator["portals"]]
        + [f"session {session['id']} with {session['iqn']}" for session in initiator["sessions"]],
        "disks": [
            f"disk {number} {disk['name']} {disk['size_bytes']} bytes {disk['style']}"
            + (" offline" if disk["offline"] else "")
            + (" read-only" if disk["read_only"] else "")
            for number, disk in disks.items()
        ]
        + [
            f"disk {number} partition {part['number']} {part['size_bytes']} bytes"
            for number, disk in disks.items()
            for part in disk["partitions"]
        ],
        "volumes": [
            f"{volume['letter']}: {volume['label']} {volume['filesystem']} {volume['size_bytes']} bytes"
            for volume in state["volumes"]
        ],
    }
    # Two lines that read alike are two things.
    return {section: sorted(content) for section, content in sections.items()}


def ours(state: dict[str, Any], testbed_id: str) -> dict[str, list[str]]:
    """The lines of what carries the testbed's stamp, by sections: whatever else comes in these is somebody else's."""
    sections = ("virtual_disks", "targets")
    stamps = {
        section: [item for item in state[section] if stamped(item["description"], testbed_id)] for section in sections
    }
    own: dict[str, list[str]] = lines({**state, **stamps}, testbed_id)
    return {section: own[section] for section in sections}
