# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One stage of the chain: each method is one question. A stage leaves the questions that do not concern it to this class.

expand.py, check.py, built.py, doctor.py, devices.py, drawing.py and role_values.py put these questions to every stage of stages/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ...module_utils.core.layers import Layer
from .changes import Changes
from .device import Device
from .nouns import Finding, Lab, Probe
from .shape import Problem
from .testbed import Context, Disk, Host, Testbed

# (commands, kernel modules) that a host must have; of modules with | between them one is enough.
Needs = tuple[list[str], list[str]]
# (variable, the option of the module, a look at the testbed, the host and the value that raises Failure)
LookAhead = tuple[str, dict[str, Any], Callable[[Testbed, Host, Any], None]]
# Looks at the testbed, a host and what that shows of itself.
Find = Callable[[Testbed, Host, Probe], "list[Finding]"]
Judge = Callable[..., Iterable[Problem]]


class Stage:
    """``kinds``: of testbed.disks that it makes a backing layer of. ``floor``: the place of its layers in the list, bottom first.

    ``words``: {kind of testbed.disks: what only disks of such kinds have}. ``sized``: kinds whose size the user says; ``of_windows``: kinds of Windows
    targets alone. ``describes``: the variable of its role that can be set in place of the description.
    ``kept``: variables that say what is made, which are on record as long as the testbed is built.
    ``variables``: all that it derives, which ``python tests/tools/write_vars.py`` hands to its role.
    ``packages``: {command: (package of Debian, package of the Red Hat family)} for the commands that it needs.
    """

    name = ""
    kinds: tuple[str, ...] = ()
    floor = 0
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    sized: tuple[str, ...] = ()
    of_windows: tuple[str, ...] = ()
    describes = ""
    kept: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    packages: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def describe(self, context: Context) -> None:
        """Turn its part of the description into records of the testbed."""

    def emulated(self, disk: Disk) -> list[dict[str, Any]]:
        """The disks that the embedded lab makes for one of testbed.disks."""
        return []

    def derive(self, context: Context) -> None:
        """Set the variables of its role on every host, with ``context.derive``; ``context.problem`` refuses."""

    def runs_on(self, context: Context, host: Host) -> bool:
        """Whether the playbooks run its role on the host."""
        return False

    def stands_on(self, testbed: Testbed, host: Host) -> list[str]:
        """The hosts that have to be there before it can run on this one."""
        return []

    def layers(self, host: Host) -> list[Layer]:
        """The layers that it is going to publish on the host."""
        return []

    def check_entry(self, testbed: Testbed, variable: str, entry: dict[str, Any]) -> Iterable[Problem]:
        """The problems of an entry of testbed.disks that is of one of its kinds. variable: the entry, as the user knows it."""
        return []

    def check_disk(self, testbed: Testbed, disk: Disk) -> Iterable[Problem]:
        """The problems of a disk of a target, in the whole of the testbed."""
        return []

    def checks(self) -> Mapping[str, Judge]:
        """{topic of check.py: what is wrong there}, called with the lab and the testbed; in topics that are judged host by host with the host, too."""
        return {}

    def memory_mib(self, lab: Lab, host: Host) -> tuple[int, str, str] | None:
        """(MiB of a host's memory, what takes them, what to do where they are too many), or None."""
        return None

    def changes(self) -> Mapping[str, Changes]:
        """{topic of built.py: the changes of the inventory that a built testbed cannot follow}."""
        return {}

    def devices(self, testbed: Testbed, host: Host) -> Iterable[Device]:
        """The devices of its role on the host that a user names."""
        return []

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        """The commands and kernel modules that a Linux host must have for it."""
        return [], []

    def images(self, host: Host) -> list[dict[str, Any]]:
        """Images that must be on an ESXi host, as storlab.testbed.esxi_state takes them."""
        return []

    def peers(self, host: Host) -> Iterable[tuple[Any, int]]:
        """(address, port) of what a host must reach for it."""
        return []

    def device_paths(self, testbed: Testbed, host: Host) -> list[str]:
        """Paths of the host's devices that it uses, for a look at their sectors."""
        return []

    def mount_points(self, testbed: Testbed, host: Host) -> list[tuple[str, str]]:
        """[(variable, path)] of the folders that it mounts something on, by the words that set them."""
        return []

    def findings(self) -> Mapping[str, Find]:
        """{topic of doctor.py: lines about what a host shows of itself}."""
        return {}

    def remarks(self, testbed: Testbed, host: Host) -> list[str]:
        """Lines of the drawing about the host."""
        return []

    def looks_ahead(self) -> list[LookAhead]:
        """Variables of its role, each with its module's option and the function by which the module would refuse the value later."""
        return []
