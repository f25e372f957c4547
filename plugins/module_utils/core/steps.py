# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a plan as a user sees them: without what only their execution needs, and as a diff.

A step is a dict with at least ``op`` (what is done), ``target`` (to what), ``was`` and ``will`` (the state before and after; None where there
is none). All else that it carries, such as arguments and secrets, is for whoever carries it out. Where nothing is to be said but what is done, a step
is a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict


class Step(TypedDict, total=False):
    """The first four describe it to a user; by the others the file that planned it carries it out, each has its own."""

    op: str
    target: str
    was: Any
    will: Any
    # The arguments of the step.
    path: Any
    device: Any
    disk: Any
    size_bytes: Any
    uuid: Any
    key: Any
    value: Any
    values: Any
    text: Any
    number: Any
    name: Any
    kind: Any
    provider: Any
    place: Any
    entry: Any
    cache: Any
    array: Any
    lun: Any
    image: Any
    module: Any
    nic: Any
    off: Any
    datastore: Any
    portal: Any
    user: Any
    secret: Any
    options: Any
    mounted: Any
    local: Any
    load: Any
    discard: Any
    copy: Any
    at_start: Any
    argv: Any
    arguments: Any
    script: Any
    parameters: Any


SIDES: tuple[tuple[str, Literal["was", "will"]], ...] = (("before", "was"), ("after", "will"))


def diff_of(
    steps: Sequence[Step], title: Callable[[Step], str] = lambda step: f"{step['op']} {step['target']}"
) -> dict[str, str]:
    """{before, after} for Ansible's diff mode: one line per step that has such a state."""
    return {
        side: "".join(f"{title(step)}: {step[key]}\n" for step in steps if step[key] not in (None, ""))
        for side, key in SIDES
    }


def shown(steps: Sequence[Step], quiet: tuple[str, ...] = ()) -> dict[str, Any]:
    """{changed, steps, diff} of a task's result. quiet: operations that alone change nothing, such as looking again."""
    plain: list[Step] = [
        {"op": step["op"], "target": step["target"], "was": step["was"], "will": step["will"]} for step in steps
    ]
    return {"changed": any(step["op"] not in quiet for step in plain), "steps": plain, "diff": diff_of(plain)}


def shown_words(steps: list[str], target: str = "") -> dict[str, Any]:
    """The same of steps that are words. target: what all of them are done to, unless the words say it."""
    lines = [f"{step} {target}" if target else step for step in steps]
    return {
        "changed": bool(steps),
        "steps": steps,
        "diff": {"before": "", "after": "".join(f"{line}\n" for line in lines)},
    }
