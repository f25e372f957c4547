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
from . import role_values, texts
from .description import (
    ALSO_CALLED,
    CONNECTION,
    GROUPS,
    OLD_WORDS,
    OPTIONS,
    OTHER_GROUPS,
    WORDS,
    lab_wide_words,
    size_text,
)
from .iqns import unfit_iqn
from .nouns import Lab
from .shape import Problem, near, repeated, shown
from .stage import Judge
from .stages import STAGES
from .testbed import Testbed, addresses_of, mappings

# The memory that a Linux machine needs for itself.
MEMORY_RESERVE_MIB = 192
# Names of every machine for itself.
LOCAL = ("localhost", "::1")
# Hosts that one sentence names.
MOST_NAMES = 5


def check_results(lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problems for who only reads results, for which no host and no description is needed."""
    return texts.problems(lab) or [*_words(lab, testbed), *_split(lab, testbed), *_testbed_id(lab, testbed)]


def check(lab: Lab, testbed: Testbed) -> list[Problem]:
    """The problems of the lab's description, as [Problem], problems of its shape first."""
    # Further problems would repeat text that cannot be written into a sentence.
    hostile = texts.problems(lab)
    if hostile:
        return hostile
    problems = list(testbed.problems)
    for part in (_groups, _words, _split, _lab_wide):
        problems += part(lab, testbed)
    # The other checks of something that is not a testbed would only hide the problem.
    if testbed.disks or testbed.layers or testbed.description["existing"]:
        for topic in TOPICS:
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


def _by_hand(testbed: Testbed) -> bool:
    """Whether an inventory describes by roles' variables what it has, such as sessions with a target that is none of its hosts."""
    variables = [stage.describes for stage in STAGES if stage.describes]
    return any(host.own.get(variable) for host in testbed.hosts.values() for variable in variables)


def _groups(lab: Lab, testbed: Testbed) -> list[Problem]:
    groups, problems = testbed.groups, []
    known = (*GROUPS, *OTHER_GROUPS)
    for name in sorted(groups):
        near_names = filter(None, [near(name, known, 0.7)])
        meant = ALSO_CALLED.get(name) or tuple(near_names) if name not in known else ()
        if meant and groups[name] and not any(groups.get(other) for other in meant):
            remedy = f"did you mean {' or '.join(meant)}?"
            problems.append(Problem(f"group {name}", None, "is not a group of this collection", remedy))
    if not groups.get("targets") and not _by_hand(testbed) and not testbed.description["existing"]:
        problems.append(
            Problem(
                "group targets",
                None,
                "has no hosts",
                "name the inventory of your lab with -i, and put its storage server in that group",
            )
        )
    for name in testbed.targets:
        if name in testbed.members("hypervisors", "clients"):
            problems.append(
                Problem(
                    name,
                    None,
                    "is in targets and in hypervisors or clients",
                    "leave it in targets; with loopback of a disk a target measures its own export",
                )
            )
    return problems


def remarks(lab: Lab, testbed: Testbed) -> list[str]:
    """Things that are not wrong, and most likely not meant: hosts that no playbook does anything with."""
    members = testbed.members(*GROUPS, *OTHER_GROUPS)
    idle = [name for name in lab["hosts"] if name not in members and name != "localhost"]
    if not idle or not members:
        return []
    names = ", ".join(idle[:MOST_NAMES]) + (f" and {len(idle) - MOST_NAMES} more" if idle[MOST_NAMES:] else "")
    return [
        f"{names} {'is' if len(idle) == 1 else 'are'} in no group of this collection, so no playbook does anything there: put hosts of the testbed into "
        f"{', '.join(GROUPS[:-1])} or {GROUPS[-1]}."
    ]


def _words(lab: Lab, testbed: Testbed) -> list[Problem]:
    """Variables with our prefixes that nothing reads."""
    roles = lab["roles"]
    known = {**WORDS, **{name: option for role in roles.values() for name, option in role.items()}}
    unknown: dict[str, Any] = {}
    for host, own in lab["hosts"].items():
        for name in own:
            if name not in known and name not in CONNECTION:
                unknown.setdefault(name, []).append(host)
    problems = []
    for name, hosts in sorted({**lab.get("others", {}), **unknown}.items()):
        where = "" if len(hosts) == len(lab["hosts"]) else f" of {', '.join(hosts)}"
        if name in OLD_WORDS:
            problems.append(Problem(f"{name}{where}", None, "was renamed after 0.3", f"write {OLD_WORDS[name]}"))
            continue
        meant = _meant(name, known, roles) if name in unknown else near(name, known, 0.92)
        if name.startswith("testbed_") or meant:
            remedy = f"did you mean {meant}?" if meant else "remove it, or give a variable of your own another prefix"
            problems.append(Problem(f"{name}{where}", None, "is not a variable of this collection", remedy))
    return problems


def _split(lab: Lab, _testbed: Testbed) -> list[Problem]:
    """Words of a role in the place of one of the whole testbed: its own plays would follow them, the others would not, and a run would be split in two."""
    wrong: dict[tuple[str, str, str | None], list[str]] = {}
    for name, word in lab_wide_words(lab["roles"]).items():
        for host, own in lab["hosts"].items():
            given = own.get(name) or None
            if given is not None and str(given) != str(own.get(word)):
                # A mapping is a login, which is not for the eye.
                wrong.setdefault((name, word, None if isinstance(given, dict) else shown(given)), []).append(host)
    problems = []
    for (name, word, value), hosts in wrong.items():
        where = "" if len(hosts) == len(lab["hosts"]) else f" of {', '.join(hosts)}"
        why = f"{'is set, ' if value is None else ''}but the playbooks give all roles {word}"
        problems.append(Problem(f"{name}{where}", value, why, f"write {word} in its place"))
    return problems


def _meant(name: str, known: dict[str, Any], roles: dict[str, Any]) -> str | None:
    """The variable of the same prefix that is written almost so."""
    prefix = next(
        prefix for prefix in sorted(("testbed", *roles), key=len, reverse=True) if name.startswith(f"{prefix}_")
    )
    rests = [other.removeprefix(f"{prefix}_") for other in known if other.startswith(f"{prefix}_")]
    meant = near(name.removeprefix(f"{prefix}_"), rests, 0.75)
    return f"{prefix}_{meant}" if meant else None


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
        windows = [name for name in testbed.targets if testbed.hosts[name].platform == "windows"]
        if "_" in ids[0] and windows:
            problems.append(
                Problem(
                    "testbed_id",
                    shown(ids[0]),
                    "which becomes part of names on the Windows target",
                    "write it without underscores",
                )
            )
    return problems


def _run_id(lab: Lab) -> list[Problem]:
    if not any(own.get("testbed_run_id") == "latest" for own in lab["hosts"].values()):
        return []
    return [Problem("testbed_run_id", "'latest'", "which means the newest run", "give the run a name of its own")]


def _lab_wide(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems, hosts = (
        _testbed_id(lab, testbed) + _run_id(lab),
        [lab["hosts"].get(name, {}) for name in testbed.members(*GROUPS)],
    )
    if not any(own.get("testbed") for own in hosts) and not _by_hand(testbed):
        problems.append(
            Problem(
                "testbed",
                None,
                "is not set",
                "describe what is on the targets, such as testbed: {disks: [{name: bench, size: 1GiB}]}",
            )
        )
    prefix = testbed.description.get("iqn_prefix")
    if prefix:
        problems += unfit_iqn("testbed.iqn_prefix", prefix)
    return problems


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
    targets = {disk.target for disk in testbed.disks if disk.entry is entry}
    return any(testbed.hosts[name].platform == "windows" for name in targets)


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


def _addresses(lab: Lab, testbed: Testbed) -> list[Problem]:
    """Two hosts of one address are one machine, or one of them is never reached."""
    problems: list[Problem] = []
    owners: dict[str, tuple[str, str | None]] = {}
    for name in testbed.members(*GROUPS):
        own = testbed.hosts[name].own
        word = "testbed_address" if own.get("testbed_address") else "ansible_host"
        # Behind one address several machines may answer at ports of their own.
        port = str(own.get("ansible_port", 22)) if word == "ansible_host" else None
        for address in dict.fromkeys(address for address, _port in addresses_of(own)):
            if address in LOCAL or address.startswith("127."):
                continue
            other, other_port = owners.setdefault(address, (name, port))
            if other != name and (port is None or other_port is None or port == other_port):
                remedy = "give each host its own address in testbed_address"
                problems.append(Problem(f"{word} of {name}", shown(address), f"which {other} has, too", remedy))
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


# The judgements of the whole testbed, in the order of the sentences. Texts are topics of the stages; one bracket is judged host by host.
TOPICS: tuple[Judge | str | tuple[str, ...], ...] = (
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
    _addresses,
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
