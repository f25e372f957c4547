# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of an ESXi host: what a value means, and which changes hold only once the host has been restarted.

A host shows an option as it is configured, not as it is in force. So the values that were configured when the host started are kept,
for as long as it runs: what differs from them is not in force yet.

Record::

    {boot_time: when the host started, running: {step: {name: value as of that start}}}
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

from ..core.failure import bad_value
from ..core.steps import Step
from .states import AdapterState, Limit

# Hosts adjust their clocks and reckon from their uptime when they started; no host restarts within this time.
SAME_START_S = 60
# Which options of a host are read when it starts is in their own texts: "(REQUIRES REBOOT!)", "Requires rebooting the host.", "take effect on next
# reboot". Those of its boot say nothing of the kind. Delayed ACK and the like on the adapter itself hold for logins that come later; sessions that are
# there keep what they have, so a change below them counts as one that needs a restart (VMware KB 1002598).
AT_BOOT = "VMkernel.Boot."
REBOOT = re.compile(r"\brequir\w* (a )?reboot|\breboot (is )?required|\b(next|after a|after the) reboot", re.IGNORECASE)
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def meant(variable: str, key: str, value: object, example: object) -> object:
    """A value in the type of ``example``, which the host has now: "512" means 512, and "no" means false. Raises bad_value."""
    text = str(value).strip()
    if isinstance(example, bool):
        if text.lower() in TRUE + FALSE:
            return text.lower() in TRUE
        raise bad_value(f"{variable} {key}", value, "Give true or false.")
    if isinstance(example, int):
        try:
            return int(value if isinstance(value, bool) else text)
        except ValueError:
            raise bad_value(f"{variable} {key}", value, f"Give a whole number; it is {example} now.") from None
    return text


def facts(definition: Any) -> Limit:
    """The host's definition of an option: {read_only, min, max, at_start: it holds from the next start of the host on}."""
    kind = definition.optionType
    return {
        "read_only": bool(getattr(kind, "valueIsReadonly", None)),
        "min": getattr(kind, "min", None),
        "max": getattr(kind, "max", None),
        "at_start": needs_restart(definition.key, f"{definition.label or ''} {definition.summary or ''}"),
    }


def needs_restart(key: str, text: str) -> bool:
    return key.startswith(AT_BOOT) or bool(REBOOT.search(text))


def allowed(variable: str, key: str, value: Any, now: object, known: Limit | None) -> object:
    """The value, if the host takes it: one that it has already, or one that may be set and is within the bounds. Raises bad_value."""
    if value == now:
        return value
    if known and known.get("read_only"):
        raise bad_value(
            f"{variable} {key}", value, f"The host does not allow this option to be set; it is {now}. Leave it out."
        )
    least, most = (known.get("min"), known.get("max")) if known else (None, None)
    number = isinstance(value, int) and not isinstance(value, bool)
    if number and least is not None and most is not None and not least <= value <= most:
        raise bad_value(f"{variable} {key}", value, f"The host takes {least} to {most}; it is {now} now.")
    return value


def with_option(text: str, name: str, value: object) -> str:
    """A kernel module's option string with this option set, or without it when value is None."""
    rest = [word for word in text.split() if not word.startswith(f"{name}=")]
    return " ".join(rest + ([f"{name}={value}"] if value is not None else []))


def this_start(record: dict[str, Any], boot_time: str) -> dict[str, Any]:
    """The record of the host's current run: the one that is kept, or an empty one when the host has been restarted since."""
    if record:
        kept, now = (datetime.datetime.fromisoformat(text) for text in (record["boot_time"], boot_time))
        if abs((now - kept).total_seconds()) < SAME_START_S:
            return record
    return {"boot_time": boot_time, "running": {}}


def noted(record: dict[str, Any], steps: list[Step], sessions: bool) -> dict[str, Any]:
    """The record with what these steps are about to change; ``sessions`` is whether the adapter may have some."""
    running = {step: dict(values) for step, values in record["running"].items()}
    for step in steps:
        if step["op"] == "queue_depth" or (step["op"] == "host_option" and step["at_start"]):
            running.setdefault(step["op"], {}).setdefault(step["target"], step["was"])
        elif step["op"] == "options" and sessions:
            for key, value in step["was"].items():
                running.setdefault("options", {}).setdefault(key, value)
    return {**record, "running": running}


def pending(record: dict[str, Any], state: AdapterState, steps: Iterable[Step] = ()) -> list[dict[str, Any]]:
    """[{option, configured, running}] of what holds only from the next start on, once ``steps`` are done."""
    configured = {
        "host_option": dict(state["host_options"]),
        "options": dict(state["options"]),
        "queue_depth": {},
    }
    for step in steps:
        if step["op"] == "options":
            configured["options"].update(step["will"])
        elif step["op"] in configured:
            configured[step["op"]][step["target"]] = step["will"]
    waiting = []
    for op, values in sorted(record["running"].items()):
        for name, was in sorted(values.items()):
            now = configured[op].get(name, state["module_options"] if op == "queue_depth" else was)
            if now != was:
                waiting.append({"option": name, "configured": now, "running": was})
    return waiting
