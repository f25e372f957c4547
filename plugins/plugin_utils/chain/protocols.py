# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol by which the initiators of a testbed reach its targets: what goes with it, and its words."""

from __future__ import annotations

from ...module_utils.core.nvme_names import nqn_of
from ...module_utils.linux.exports.target_providers import protocol_of
from .nouns import Lab
from .shape import Problem, shown
from .testbed import Host, Testbed


def unfit(_lab: Lab, testbed: Testbed) -> list[Problem]:
    """Hosts and providers that do not go with the protocol of the testbed."""
    protocol = testbed.description["protocol"]
    problems = [
        Problem(
            f"testbed.existing[{index}].kind",
            "'iscsi'",
            f"but testbed.protocol is {protocol}, and a host logs in by one protocol",
            "describe it in an inventory of its own",
        )
        for index, entry in enumerate(testbed.description["existing"])
        if protocol != "iscsi" and entry.get("kind") == "iscsi"
    ]
    for name in dict.fromkeys(testbed.targets + testbed.initiators):
        platform, provider = testbed.hosts[name].platform, testbed.hosts[name].variables.get("iscsi_target_provider")
        if protocol != "iscsi" and platform != "linux":
            runs = {"esxi": "ESXi", "windows": "Windows"}[platform]
            remedy = "leave it out, or use Linux hosts alone"
            problems.append(Problem("testbed.protocol", shown(protocol), f"but {name} runs {runs}", remedy))
        elif testbed.hosts[name].variables.get("iscsi_target_targets") and protocol_of(provider) not in (
            None,
            protocol,
        ):
            word, why = f"iscsi_target_provider of {name}", f"which does not go with testbed.protocol {protocol}"
            problems.append(
                Problem(word, shown(provider), why, f"leave it out, or set testbed.protocol: {protocol_of(provider)}")
            )
    return problems


def of(host: Host) -> str | None:
    """The protocol of a target."""
    return protocol_of(host.variables.get("iscsi_target_provider"))


def named(protocol: str | None, number: object, target: object) -> str:
    """A LUN by the words of its protocol."""
    text = str(target)
    is_nvme = protocol == "nvme" and text.startswith("iqn.")
    return f"namespace {number} of {nqn_of(text)}" if is_nvme else f"LUN {number} of {text}"
