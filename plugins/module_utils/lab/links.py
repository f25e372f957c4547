# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a lab's machine, made slower, longer or lossy, by the machine's own kernel (tc-netem(8)) on what it sends.

It is said on the kernel command line, so it is there from the first packet, and every result records it with the command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..core.failure import bad_value

WORD = "storlab.link="
# word of the variable: (most, unit)
LIMITS = {"rate_mbit": (100_000.0, "Mbit/s"), "delay_ms": (10_000.0, "ms"), "loss_percent": (50.0, "%")}


def check(links: Any, machines: Sequence[str]) -> None:
    """Raise bad_value for links that cannot be. machines: names of the lab's machines."""
    seen: set[str] = set()
    for index, link in enumerate(links):
        variable = f"embedded_lab_links[{index}]"
        if not isinstance(link, dict) or set(link) - {"machine", *LIMITS}:
            raise bad_value(variable, link, f"Give a mapping of machine, {', '.join(LIMITS)}.")
        name = str(link.get("machine") or "")
        if name and name not in machines:
            raise bad_value(f"{variable} machine", name, f"Name one of {', '.join(machines)}, or none for all of them.")
        if name in seen:
            raise bad_value(f"{variable} machine", name or None, "Say all of a machine's link in one entry.")
        seen.add(name)
        if not set(link) & set(LIMITS):
            raise bad_value(variable, link, f"Say at least one of {', '.join(LIMITS)}.")
        for key, (most, unit) in LIMITS.items():
            _number(f"{variable} {key}", link.get(key, 0), most, unit, key == "rate_mbit" and key in link)


def _number(variable: str, value: Any, most: float, unit: str, positive: bool) -> None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= most or (positive and number < 0.001):
        raise bad_value(variable, value, f"Give a number {'above' if positive else 'from'} 0, up to {most:g} {unit}.")


def kernel_word(links: Any, machines: Sequence[str], name: str) -> str:
    """'storlab.link=delay,2500us,rate,100000kbit' for this machine; empty where its network is as it is. Raises bad_value."""
    check(links, machines)
    of_machine: dict[str, dict[str, Any]] = {str(link.get("machine") or ""): link for link in links}
    link, words = of_machine.get(name) or of_machine.get("") or {}, []
    if float(link.get("delay_ms", 0)):
        words += ["delay", f"{round(float(link['delay_ms']) * 1000)}us"]
    if float(link.get("loss_percent", 0)):
        words += ["loss", f"{float(link['loss_percent']):g}%"]
    if float(link.get("rate_mbit", 0)):
        words += ["rate", f"{round(float(link['rate_mbit']) * 1000)}kbit"]
    return WORD + ",".join(words) if words else ""


def in_words(command_line: str) -> str:
    """'1 ms later, 2 % lost, at most 100 Mbit/s' of a kernel command line; empty of one that shapes nothing."""
    for word in command_line.split():
        if word.startswith(WORD):
            words = dict(zip(*[iter(word[len(WORD) :].split(","))] * 2))
            return ", ".join(_shown(kind, value) for kind, value in words.items())
    return ""


def _shown(kind: str, value: str) -> str:
    number = float(re.sub(r"[^0-9.]", "", value) or 0)
    if kind == "delay":
        return f"{number / 1000:g} ms later"
    return f"{number:g} % lost" if kind == "loss" else f"at most {number / 1000:g} Mbit/s"
