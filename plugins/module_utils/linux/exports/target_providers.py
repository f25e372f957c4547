# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of targets on a Linux host: one file each, and one line here.

A provider has OPTIONS, an argument specification of the options that it alone has; COMMANDS, {command: (Debian's package, that of the Red Hat family)}, and
KERNEL_MODULES, which the host must have; FIRST_LUN, the lowest number of a LUN, and LUN_0, what that is where it is not the first; SHARES_LUNS,
whether it shows all LUNs of a target to each initiator; PROTOCOL, by which initiators reach it; SPLITS_TARGETS, whether
LUNs that others see are then put into another target; and ``ensure(params, check_mode)``, which brings the targets to the state that is asked for
and returns ``{changed, steps, diff, layers}``. params are in iscsi_target.SPEC and OPTIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ...core.converge import Area
from ...core.failure import bad_value
from . import provider_lio, provider_nvmet, provider_tgt

PROVIDERS: dict[str, ModuleType] = {
    "lio": provider_lio,
    "tgt": provider_tgt,
    "nvmet": provider_nvmet,
}
# {protocol: its provider unless another is named}: the kernel's own, which need no program.
DEFAULTS = {"iscsi": "lio", "nvme": "nvmet"}


def first_lun(provider: str | None) -> int:
    """The lowest number of a LUN; 0 of one that is not here, such as that of Windows."""
    return int(getattr(PROVIDERS.get(str(provider)), "FIRST_LUN", 0))


def lun_0(provider: str | None) -> str:
    """The use of LUN 0 by a provider that has it for itself, else an empty text."""
    return str(getattr(PROVIDERS.get(str(provider)), "LUN_0", ""))


def shares_luns(provider: str | None) -> bool:
    """Whether it shows every LUN of a target to each initiator."""
    return bool(getattr(PROVIDERS.get(str(provider)), "SHARES_LUNS", False))


def splits_targets(provider: str | None) -> bool:
    """Whether it shows all LUNs of a target to each initiator, so that a target is made for each set of initiators."""
    return bool(getattr(PROVIDERS.get(str(provider)), "SPLITS_TARGETS", False))


def protocol_of(provider: str | None) -> str | None:
    """The protocol of a provider; None of one that is not here."""
    module = PROVIDERS.get(str(provider))
    return None if module is None else str(module.PROTOCOL)


def refuse_targets(provider: str | None, targets: list[Any]) -> None:
    """Raises bad_value for what the provider alone cannot do, where it has a function check_targets."""
    check = getattr(PROVIDERS.get(str(provider)), "check_targets", None)
    if check:
        check(targets)


def options_of(provider: str, given: Mapping[str, object]) -> dict[str, object]:
    """The options of the provider alone, with their defaults; raises bad_value for one that it does not have."""
    options = PROVIDERS[provider].OPTIONS
    for name in sorted(set(given) - set(options)):
        raise bad_value(
            f"iscsi_target_{provider}_{name}", given[name], f"The provider {provider} has no such option; leave it out."
        )
    return {name: given.get(name, option.get("default")) for name, option in options.items()}


def area(params: dict[str, Any], check_mode: bool) -> Area:
    """The targets of the provider that is wanted, for the module iscsi_target."""
    options = options_of(params["provider"], params["options"])
    made: Area = PROVIDERS[params["provider"]].Area({**params, **options}, check_mode)
    return made
