# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of targets and initiators of a testbed."""

from __future__ import annotations

import re

from .testbed import Host, Testbed

IQN_AUTHORITY = "iqn.2026-11.test.storlab"
WINDOWS_AUTHORITY = "iqn.1991-05.com.microsoft"


def iqn_part(name: str) -> str:
    """A host's name as far as iSCSI names can have it. Two names may become one, which chain/identifiers.py refuses."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())


def _iqn_id(testbed_id: str) -> str:
    """The testbed's name. Nobody sees two testbeds in one inventory, so no two names may become one: a colon is in none of them."""
    return ":".join(map(iqn_part, testbed_id.split("_")))


def prefix(testbed: Testbed) -> str:
    return testbed.description.get("iqn_prefix") or f"{IQN_AUTHORITY}:{_iqn_id(testbed.testbed_id)}"


def initiator_name(testbed: Testbed, host: Host) -> str:
    if "iscsi_initiator_name" in host.own:
        return str(host.own["iscsi_initiator_name"])
    if host.platform == "windows":
        return f"{WINDOWS_AUTHORITY}:{iqn_part(host.name)}"
    loopback = "-loopback" if host.name in testbed.targets else ""
    return f"{prefix(testbed)}:{iqn_part(host.name)}{loopback}"
