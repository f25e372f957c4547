# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of targets and initiators of a testbed."""

from __future__ import annotations

import re
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.iscsi_names import check_iqn
from .nouns import Lab
from .shape import Problem, shown
from .testbed import Host, Testbed

IQN_AUTHORITY = "iqn.2026-11.test.storlab"
# Windows and ESXi take no longer ones, and the iSCSI standard asks for 12 bytes at least.
SECRET_LENGTHS = (12, 16)
WINDOWS_AUTHORITY = "iqn.1991-05.com.microsoft"


def iqn_part(name: str) -> str:
    """A host's name as far as iSCSI names can have it. Two names may become one, which chain/identifiers.py refuses."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())


def _iqn_id(testbed_id: str) -> str:
    """The testbed's name. No one sees two testbeds in one inventory, so no two names may become one: a colon is in none of them."""
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


def unfit_iqn(variable: str, name: Any) -> list[Problem]:
    """The problem with an iSCSI name that a user wrote, if any."""
    try:
        check_iqn(variable, str(name))
    except Failure as failure:
        return [Problem(variable, shown(name), "", failure.remedy)]
    return []


def unfit_prefix(_lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problem with the prefix of all names that are derived."""
    given = testbed.description.get("iqn_prefix")
    return unfit_iqn("testbed.iqn_prefix", given) if given else []


def unfit_secrets(where: str, host: Host, entry: dict[str, Any]) -> list[Problem]:
    """The problems with the CHAP secrets of an entry of a role's variable."""
    low, high = SECRET_LENGTHS
    problems = []
    for key in ("chap_password", "mutual_chap_password"):
        secret = str(entry[key]) if entry.get(key) else None
        if secret is not None and not low <= len(secret) <= 255:
            length = f"{len(secret)} characters long"
            problems.append(Problem(f"{where}.{key} of {host.name}", length, "", f"use {low} to {high} characters"))
    return problems


def unfit_testbed_secrets(_lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problems with the CHAP secrets of the description."""
    problems: list[Problem] = []
    low, high = SECRET_LENGTHS
    description = testbed.description
    for key in ("chap_password", "mutual_chap_password"):
        secret = description.get(key)
        if secret is not None and not low <= len(secret) <= high:
            problems.append(
                Problem(f"testbed.{key}", f"{len(secret)} characters long", "", f"use {low} to {high} characters")
            )
        elif secret is not None and re.search(r"\s", secret):
            problems.append(
                Problem(f"testbed.{key}", None, "has blanks in it", "use printable characters without blanks")
            )
    if description.get("chap_password") and description.get("chap_password") == description.get("mutual_chap_password"):
        problems.append(
            Problem(
                "testbed.mutual_chap_password",
                None,
                "is the same as testbed.chap_password",
                "use another secret; iSCSI forbids the same one both ways",
            )
        )
    return problems
