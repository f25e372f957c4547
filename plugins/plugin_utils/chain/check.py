# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The problems of a testbed as a whole, before anything is touched: all problems at once, each one sentence.

Every check looks at the variables that the roles will get, so it judges what the inventory sets by itself like what was derived.
"""

from __future__ import annotations

from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.names import check_testbed_id
from . import groups, role_values, texts, variables
from .description import GROUPS, OPTIONS, size_text
from .nouns import Lab
from .shape import Problem, repeated, shown
from .stage import Judge
from .stages import STAGES
from .testbed import Testbed, mappings, targets_of

# The memory that a Linux machine needs for itself.
MEMORY_RESERVE_MIB = 192


def check_results(lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problems for who only reads results, for which no host and no description is needed."""
    return texts.problems(lab) or [problem for topic in OF_RESULTS for problem in _judged(topic, lab, testbed)]


def check(lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problems of the lab's description, as [Problem], problems of its shape first."""
    # Further problems would repeat text that cannot be written into a sentence.
    hostile = texts.problems(lab)
    if hostile:
        return hostile
    problems = list(testbed.problems)
    # The other checks of something that is not a testbed would only hide the problem.
    is_testbed = testbed.disks or testbed.layers or testbed.description["existing"]
    for topic in (*OF_DESCRIPTION, *(TOPICS if is_testbed else ())):
        problems += _judged(topic, lab, testbed)
    # A problem that is reported already would be reported again.
    problems += role_values.problems(testbed) if not problems else []
    return list(dict.fromkeys(problems))


def _judged(topic: Judge | str | tuple[str, ...], lab: Lab, testbed: Testbed) -> list[Problem]:
    if isinstance(topic, tuple):
        hosts = testbed.hosts.values()
        return [problem for host in hosts for name in topic for problem in _of_stages(name, lab, testbed, host)]
    return _of_stages(topic, lab, testbed) if isinstance(topic, str) else list(topic(lab, testbed))


def _of_stages(topic: str, *given: Any) -> list[Problem]:
    judges = [stage.checks().get(topic) for stage in STAGES]
    return [problem for judge in judges if judge for problem in judge(*given)]


def _testbed_id(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = []
    ids = list(dict.fromkeys(str(own["testbed_id"]) for own in lab["hosts"].values() if own.get("testbed_id")))
    if not ids:
        problems.append(Problem("testbed_id", None, "is not set", "give the testbed a name, such as testbed_id: lab"))
    elif len(ids) > 1:
        problems.append(
            Problem(
                "testbed_id",
                " and ".join(shown(name) for name in ids),
                "on one host and another",
                "set it once, for all",
            )
        )
    else:
        try:
            check_testbed_id("testbed_id", ids[0])
        except Failure as failure:
            problems.append(Problem("testbed_id", shown(ids[0]), "", failure.remedy))
        problems += _of_stages("testbed id", lab, testbed)
    return problems


def _run_id(lab: Lab, _testbed: Testbed) -> list[Problem]:
    if not any(own.get("testbed_run_id") == "latest" for own in lab["hosts"].values()):
        return []
    return [Problem("testbed_run_id", "'latest'", "which means the newest run", "give the run a name of its own")]


def _described(lab: Lab, testbed: Testbed) -> list[Problem]:
    hosts = [lab["hosts"].get(name, {}) for name in testbed.members(*GROUPS)]
    if any(own.get("testbed") for own in hosts) or groups.described_by_roles(testbed):
        return []
    remedy = "describe what is on the targets, such as testbed: {disks: [{name: bench, size: 1GiB}]}"
    return [Problem("testbed", None, "is not set", remedy)]


def _disks(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = []
    for index, entry in enumerate(testbed.description["disks"]):
        variable, kind = f"testbed.disks[{index}]", entry["kind"]
        reported = any(problem.variable == f"{variable}.size" for problem in testbed.problems)
        foreign = _words_of_other_kinds(variable, entry, testbed)
        problems += foreign
        if "size" not in entry and not reported and not foreign and any(kind in stage.sized for stage in STAGES):
            remedy = "write its size with a unit, such as 128MiB"
            problems.append(Problem(f"{variable}.size", None, "is not set", remedy))
        for stage in STAGES:
            problems += stage.check_entry(testbed, variable, entry) if kind in stage.words else []
    return problems


def _each_disk(lab: Lab, testbed: Testbed) -> list[Problem]:
    return [problem for disk in testbed.disks for stage in STAGES for problem in stage.check_disk(testbed, disk)]


def _words_of_other_kinds(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    """A disk of this kind would be made without what the user says of it: a RAM disk where a device was meant."""
    kind, known = entry["kind"], OPTIONS["disks"]["suboptions"]["kind"]
    word: str | None
    own_words = {other: words for stage in STAGES for other, words in stage.words.items()}
    of_kinds: dict[str, list[str]] = {}
    # The kind that is meant where none is said comes last.
    for other in sorted(known["choices"], key=lambda name: name == known["default"]):
        for word in own_words.get(other, ()):
            of_kinds.setdefault(word, []).append(other)
    word = next((word for word, others in of_kinds.items() if word in entry and kind not in others), None)
    if word is None:
        return []
    of_windows = [other for stage in STAGES for other in stage.of_windows]
    kinds = [other for other in of_kinds[word] if other not in of_windows or _on_windows(entry, testbed)]
    value = None if isinstance(entry[word], dict) else shown(entry[word])
    remedy = f"did you mean kind: {' or '.join(kinds or of_kinds[word])}?"
    return [Problem(f"{variable}.{word}", value, f"{'but' if value else 'is set, but'} kind is {kind}", remedy)]


def _on_windows(entry: dict[str, Any], testbed: Testbed) -> bool:
    return any(testbed.hosts[name].platform == "windows" for name in targets_of(testbed, entry))


def _doubled(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = [
        Problem(f"testbed.{what}", f"a list with {shown(name)} twice", "", "give each a name of its own")
        for what in ("disks", "guests")
        for name in repeated(entry["name"] for entry in testbed.description.get(what, []))
    ]
    problems += _of_stages("names", lab, testbed)
    owners: dict[str, Any] = {}
    for layer in testbed.layers:
        owners.setdefault(layer["name"], []).append(layer["host"])
    reported = {problem.value for problem in problems}
    for name, hosts in owners.items():
        short = name.split("-", 1)[1]
        if len(hosts) > 1 and not any(repr(short) in (value or "") for value in reported):
            problems.append(
                Problem(
                    f"layer {name}",
                    None,
                    f"would be made twice, by {' and '.join(hosts)}",
                    "give each a name or iscsi_initiator_layer_suffix of its own",
                )
            )
    return problems


def _memory(lab: Lab, testbed: Testbed) -> list[Problem]:
    """The memory of a host is for its stages and its system."""
    problems, facts = [], lab.get("facts", {})
    machines = {}
    if testbed.embedded:
        listed = testbed.hosts[testbed.embedded].variables.get("embedded_lab_machines")
        machines = {machine.get("name"): machine.get("memory_mib") for machine in mappings(listed)}
    for name in testbed.targets + testbed.initiators:
        host = testbed.hosts[name]
        there = machines.get(name) or facts.get(name, {}).get("memory_mib")
        if not there or host.platform == "esxi":
            continue
        taken = [part for part in (stage.memory_mib(lab, host) for stage in STAGES) if part]
        if not taken or sum(mib for mib, _what, _remedy in taken) + MEMORY_RESERVE_MIB <= there:
            continue
        takes = [f"{what} take {size_text(mib)}" for mib, what, _remedy in taken]
        smaller = [remedy for _mib, _what, remedy in taken]
        problems.append(
            Problem(
                f"memory of {name}",
                size_text(there),
                f"but {', '.join(takes)} and the system needs {MEMORY_RESERVE_MIB} MiB",
                f"{', '.join(smaller)}, or give the host more memory",
            )
        )
    return problems


# Judges and topics of the stages, in the order of their sentences. A text is a topic; topics in one bracket are judged host by host.
# The first need neither hosts nor a description, the second a description, and the third a testbed in it.
Topics = tuple["Judge | str | tuple[str, ...]", ...]
OF_RESULTS: Topics = (variables.unknown_names, variables.overridden, _testbed_id)
OF_DESCRIPTION: Topics = (groups.problems, *OF_RESULTS, _run_id, _described, "names of iSCSI")
TOPICS: Topics = (
    "protocol",
    _disks,
    "unused disks",
    "emulated disks",
    _each_disk,
    _doubled,
    ("initiators", "exports"),
    "sessions",
    "initiator names",
    "target names",
    ("machines",),
    ("serials",),
    ("mount points",),
    ("files", "labels"),
    "machine names",
    groups.doubled_addresses,
    "portals",
    "secrets",
    ("own secrets",),
    "datastores",
    "guests",
    "existing",
    "measured",
    _memory,
    "others",
)
