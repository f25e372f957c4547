# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a testbed as a whole, before anything is touched: all problems at once, each one sentence.

Every check looks at the variables that the roles will get, so it judges what the inventory sets by itself like what was derived.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from ...module_utils.core.cache_modes import BLOCK_KIB
from ...module_utils.core.cache_modes import faults as cache_faults
from ...module_utils.core.failure import Failure
from ...module_utils.core.iscsi_names import check_iqn, iqn_key
from ...module_utils.core.names import check_testbed_id
from ...module_utils.core.raid_levels import chunk_kib, faults
from ...module_utils.engines.catalogue import misplaced
from ...module_utils.result import targets
from ...module_utils.workload.sweep import expand
from ...module_utils.workload.wanted import greatest_buffers
from . import identifiers, role_values, texts
from .description import ALSO_CALLED, CONNECTION, GROUPS, OLD_WORDS, OTHER_GROUPS, WORDS, lab_wide_words, size_text
from .shape import Problem, did_you_mean, near, shown
from .stages import existing_storage
from .testbed import OVERRIDDEN, Host, Store, Testbed, addresses_of, is_address, mappings

# Windows and ESXi take no longer ones, and the iSCSI standard asks for 12 bytes at least.
SECRET_LENGTHS = (12, 16)
CLUSTER_FILE_SYSTEMS = ("vmfs", "nfs", "rdm", "existing")
# What a Linux machine needs for itself.
MEMORY_RESERVE_MIB = 192
# Variables of roles that can stand in for the description.
DESCRIBING = (
    "raid_arrays",
    "cache_tier_caches",
    "ramdisk_disks",
    "iscsi_target_targets",
    "iscsi_initiator_targets",
    "datastore_datastores",
    "existing_storage_entries",
    "guest_vm_guests",
)
# Names of every machine for itself.
LOCAL = ("localhost", "::1")
# Hosts that one sentence names.
MOST_NAMES = 5
# A machine of the embedded lab has 30 places on its bus: this many beside its system's disk and its network card.
MOST_EMULATED = 28
# What only disks of some kinds have: the kinds, and what another kind lacks.
OF_KINDS = {
    "path": ("device", "vhdx"),
    **dict.fromkeys(("serial", "naa", "wwid", "uuid"), ("device",)),
    "raid": ("raid",),
    "cache": ("cache",),
    "allocation": ("vhdx",),
    "model": ("ramdisk",),
}
# Metadata and journal of a file system, at least.
FILE_SYSTEM_OVERHEAD_PERCENT = 5


def check_results(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    """The problems for who only reads results, for which no host and no description is needed."""
    return texts.problems(lab) or [*_words(lab, testbed), *_split(lab, testbed), *_testbed_id(lab, testbed)]


def check(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    """The problems of the lab's description, as [Problem], those of its shape first."""
    # What else there is to say would repeat what cannot be written into a sentence.
    hostile = texts.problems(lab)
    if hostile:
        return hostile
    problems = list(testbed.problems)
    for part in (_groups, _words, _split, _lab_wide):
        problems += part(lab, testbed)
    # What the rest says of a testbed that is none would only hide what is wrong.
    if testbed.disks or testbed.layers or testbed.description["existing"]:
        for part in (
            _disks,
            _names,
            _targets,
            _identifiers,
            _addresses,
            _portals,
            _secrets,
            _stores,
            _guests,
            _existing,
            _measured,
            _memory,
        ):
            problems += part(lab, testbed)
    # What is told already would be told again.
    problems += role_values.problems(testbed) if not problems else []
    return list(dict.fromkeys(problems))


def _by_hand(testbed: Testbed) -> bool:
    """Whether an inventory describes by roles' variables what it has, such as sessions with a target that is none of its hosts."""
    return any(host.own.get(variable) for host in testbed.hosts.values() for variable in DESCRIBING)


def _groups(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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


def remarks(lab: dict[str, Any], testbed: Testbed) -> list[str]:
    """What is not wrong, and most likely not meant: hosts that no playbook does anything with."""
    members = testbed.members(*GROUPS, *OTHER_GROUPS)
    idle = [name for name in lab["hosts"] if name not in members and name != "localhost"]
    if not idle or not members:
        return []
    names = ", ".join(idle[:MOST_NAMES]) + (f" and {len(idle) - MOST_NAMES} more" if idle[MOST_NAMES:] else "")
    return [
        f"{names} {'is' if len(idle) == 1 else 'are'} in no group of this collection, so no playbook does anything there: put hosts of the testbed into "
        f"{', '.join(GROUPS[:-1])} or {GROUPS[-1]}."
    ]


def _words(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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


def _split(lab: dict[str, Any], _testbed: Testbed) -> list[Problem]:
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


def _testbed_id(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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


def _run_id(lab: dict[str, Any]) -> list[Problem]:
    if not any(own.get("testbed_run_id") == "latest" for own in lab["hosts"].values()):
        return []
    return [Problem("testbed_run_id", "'latest'", "which means the newest run", "give the run a name of its own")]


def _lab_wide(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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
        problems += _iqn("testbed.iqn_prefix", prefix)
    return problems


def _iqn(variable: str, name: Any) -> list[Problem]:
    try:
        check_iqn(variable, str(name))
    except Failure as failure:
        return [Problem(variable, shown(name), "", failure.remedy)]
    return []


def _disks(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems = []
    for index, entry in enumerate(testbed.description["disks"]):
        variable, kind = f"testbed.disks[{index}]", entry["kind"]
        reported = any(problem.variable == f"{variable}.size" for problem in testbed.problems)
        foreign = _words_of_other_kinds(variable, entry, testbed)
        problems += foreign
        if kind not in ("device", "raid", "cache") and "size" not in entry and not reported and not foreign:
            problems.append(
                Problem(f"{variable}.size", None, "is not set", "write its size with a unit, such as 128MiB")
            )
        if kind == "raid":
            problems += _raid(variable, entry, testbed)
        elif kind == "cache":
            problems += _cache(variable, entry, testbed)
        elif kind != "ramdisk" and "path" not in entry:
            problems.append(
                Problem(
                    f"{variable}.path", None, "is not set", f"name the {'device' if kind == 'device' else 'VHDX file'}"
                )
            )
        if kind == "device" and not any(key in entry for key in ("serial", "naa", "wwid", "uuid")):
            problems.append(
                Problem(
                    f"{variable}.path",
                    shown(entry.get("path")),
                    "which does not identify a device",
                    "add the serial, naa, wwid or uuid that the device has",
                )
            )
        targets = [testbed.hosts[disk.target] for disk in testbed.disks if disk.index == index]
        for target in targets:
            if kind in ("raid", "cache") and target.platform == "windows":
                problems.append(
                    Problem(
                        f"{variable}.kind",
                        shown(kind),
                        f"but {target.name} runs Windows",
                        "use ramdisk, vhdx or device",
                    )
                )
            if kind == "vhdx" and target.platform != "windows":
                problems.append(
                    Problem(
                        f"{variable}.kind", "'vhdx'", f"but {target.name} does not run Windows", "use ramdisk or device"
                    )
                )
    problems += _unused(testbed) + _emulated(testbed)
    for disk in testbed.disks:
        carrying = [store.name for store in testbed.stores if store.disk is disk]
        if carrying and disk.purpose == "scratch":
            problems.append(
                Problem(
                    f"testbed.disks[{disk.index}].purpose",
                    "'scratch'",
                    f"but the datastore {carrying[0]} is on it, which a raw benchmark would destroy",
                    "remove purpose, or put the datastore on another disk",
                )
            )
        if disk.loopback and disk.purpose == "data" and testbed.hosts[disk.target].platform == "linux":
            problems.append(
                Problem(
                    f"testbed.disks[{disk.index}].loopback",
                    "true",
                    "but the disk contains data, which would appear twice",
                    "use it with disks that are measured raw",
                )
            )
    return problems


def _words_of_other_kinds(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    """A disk of this kind would be made without what the user says of it: a RAM disk where a device was meant."""
    kind = entry["kind"]
    words = [word for word in OF_KINDS if word in entry and kind not in OF_KINDS[word]]
    if not words:
        return []
    word = words[0]
    kinds = [other for other in OF_KINDS[word] if other != "vhdx" or _on_windows(entry, testbed)]
    value = None if isinstance(entry[word], dict) else shown(entry[word])
    remedy = f"did you mean kind: {' or '.join(kinds or OF_KINDS[word])}?"
    return [Problem(f"{variable}.{word}", value, f"{'but' if value else 'is set, but'} kind is {kind}", remedy)]


def _on_windows(entry: dict[str, Any], testbed: Testbed) -> bool:
    targets = {disk.target for disk in testbed.disks if disk.entry is entry}
    return any(testbed.hosts[name].platform == "windows" for name in targets)


def _unused(testbed: Testbed) -> list[Problem]:
    """Devices and files of a target are seen by those who log in alone; the target itself has RAM disks, arrays and cache tiers."""
    problems = []
    for disk in testbed.disks:
        kind, variable = disk.entry["kind"], f"testbed.disks[{disk.index}].kind"
        own = testbed.hosts[disk.target].because.get("iscsi_target_targets") == OVERRIDDEN
        if kind not in ("device", "vhdx") or own:
            continue
        here = [store.name for store in testbed.stores if store.disk is disk and disk.target in store.hosts]
        if here:
            why = f"but the datastore {here[0]} is on it on {disk.target} itself"
            problems.append(
                Problem(variable, shown(kind), why, "use ramdisk, raid or cache, or let another host log in")
            )
        elif not disk.hosts and not disk.loopback:
            why = f"but no host logs in to {disk.target} for it, so it would be neither exported nor measured"
            problems.append(Problem(variable, shown(kind), why, _who_logs_in(testbed, disk.entry)))
    return problems


def _who_logs_in(testbed: Testbed, entry: dict[str, Any]) -> str:
    if not testbed.initiators:
        return "put a host into clients or hypervisors"
    return "name a host in to" if "to" in entry else "put a datastore on it, or a Linux or Windows host into clients"


def _emulated(testbed: Testbed) -> list[Problem]:
    problems = []
    for target in testbed.targets:
        numbers = {disk.index: len(disk.emulated) for disk in testbed.disks if disk.target == target}
        total, most = sum(numbers.values()), max(numbers, key=lambda index: numbers[index], default=0)
        if total > MOST_EMULATED:
            variable = f"testbed.disks[{most}].raid.emulated.count"
            why = f"but a machine of the embedded lab has room for {MOST_EMULATED} such disks"
            why += "" if total == numbers[most] else f", and {target} would have {total}"
            problems.append(Problem(variable, str(numbers[most]), why, "make it smaller"))
    return problems


def _raid(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    raid, where = entry.get("raid"), f"{variable}.raid"
    if not raid:
        reported = any(problem.variable.startswith(where) for problem in testbed.problems)
        remedy = "write its level and members, such as raid: {level: 10, members: [{serial: Z1F0A7QK}, …]}"
        return [] if reported else [Problem(where, None, "is not set", remedy)]
    problems, members, emulated = [], raid.get("members"), raid.get("emulated")
    if emulated and not testbed.embedded:
        remedy = "name the target's disks as members, each with its serial, naa, wwid or uuid"
        problems.append(Problem(f"{where}.emulated", None, "is for the embedded lab, which makes such disks", remedy))
    if bool(members) == bool(emulated):
        why = "is not set" if not members else "is set beside emulated"
        remedy = "name the disks, each with its serial, naa, wwid or uuid" if not members else "set only one of them"
        problems.append(Problem(f"{where}.members", None, why, remedy))
    for index, member in enumerate(members or []):
        if not any(key in member for key in ("serial", "naa", "wwid", "uuid")):
            remedy = "add the serial, naa, wwid or uuid that the disk has"
            path = shown(member["path"]) if "path" in member else None
            why = "which does not identify a device" if path else "does not identify a disk"
            problems.append(Problem(f"{where}.members[{index}]" + (".path" if path else ""), path, why, remedy))
    for key in ("serial", "naa", "wwid", "uuid", "path"):
        for value in _repeated(member[key] for member in members or [] if key in member):
            problems.append(Problem(f"{where}.members", f"a list with {shown(value)} twice", "", "name each disk once"))
    chunk = raid.get("chunk")
    if chunk is not None and chunk_kib(chunk) is None:
        problems.append(Problem(f"{where}.chunk", shown(chunk), "", "write a size with KiB or MiB, such as 64KiB"))
    count = len(members or []) or (emulated or {}).get("count", 0)
    if members or emulated:
        for key, value, why, remedy in faults({**raid, "chunk_kib": chunk_kib(chunk)}, count):
            name = "emulated.count" if key == "members" and emulated else key
            text = f"{value} disks" if key == "members" and not emulated else shown(value)
            problems.append(Problem(f"{where}.{name}", text, f"but {why}", remedy))
    return problems


def _cache(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    cache, where = entry.get("cache"), f"{variable}.cache"
    if not cache:
        reported = any(problem.variable.startswith(where) for problem in testbed.problems)
        remedy = "write both disks, such as cache: {origin: {serial: Z1F0A7QK}, fast: {serial: S2HRNX0J4}}"
        return [] if reported else [Problem(where, None, "is not set", remedy)]
    problems = []
    for part in ("origin", "fast"):
        given, proofs = cache[part], [key for key in ("serial", "naa", "wwid", "uuid") if key in cache[part]]
        if "emulated" in given and not testbed.embedded:
            remedy = "name a disk of the target by its serial, naa, wwid or uuid"
            problems.append(
                Problem(f"{where}.{part}.emulated", None, "is for the embedded lab, which makes such disks", remedy)
            )
        elif "emulated" in given and len(given) > 1:
            problems.append(Problem(f"{where}.{part}.emulated", None, "is set beside a disk", "set only one of them"))
        elif "emulated" not in given and not proofs:
            remedy = "add the serial, naa, wwid or uuid that the disk has"
            problems.append(Problem(f"{where}.{part}", shown(given), "which does not identify a disk", remedy))
    same = [
        key
        for key in ("path", "serial", "naa", "wwid", "uuid")
        if cache["origin"].get(key, 0) == cache["fast"].get(key)
    ]
    for key in same[:1]:
        problems.append(
            Problem(f"{where}.fast.{key}", shown(cache["fast"][key]), "which is the origin", "name another disk")
        )
    sizes = {key: cache[key] for key in ("block", "migration") if key in cache}
    unfit = [key for key, text in sizes.items() if chunk_kib(text) is None]
    for key in unfit:
        remedy = "write a size with KiB or MiB, such as 64KiB"
        problems.append(Problem(f"{where}.{key}", shown(sizes[key]), "", remedy))
    if not unfit:
        kib = {"block_kib": BLOCK_KIB, **{f"{key}_kib": chunk_kib(text) for key, text in sizes.items()}}
        for key, _value, why, remedy in cache_faults({**cache, **kib}):
            value = cache.get(key) if key == "mode" else sizes.get(key)
            problems.append(Problem(f"{where}.{key}", shown(value), f"but {why}", remedy))
    return problems


Named = TypeVar("Named")


def _repeated(names: Iterable[Named]) -> list[Named]:
    all_names = list(names)
    return sorted({name for name in all_names if all_names.count(name) > 1}, key=all_names.index)


def _names(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems = [
        Problem(f"testbed.{what}", f"a list with {shown(name)} twice", "", "give each a name of its own")
        for what in ("disks", "guests")
        for name in _repeated(entry["name"] for entry in testbed.description.get(what, []))
    ]
    problems += _store_names(testbed)
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


def _store_names(testbed: Testbed) -> list[Problem]:
    """A datastore's name is in the UUID of its file system, so it is one in the whole testbed."""
    doubled = set(_repeated(disk.name for disk in testbed.disks))
    # What lies on a disk that is there twice, is there twice for that alone.
    stores = [store for store in testbed.stores if not (store.disk and store.disk.name in doubled)]
    problems = []
    for name in _repeated(store.label for store in stores):
        hosts = _repeated(host for store in stores if store.label == name for host in store.hosts)
        where = f" on {hosts[0]}" if hosts else ""
        remedy = "give each a name of its own"
        problems.append(Problem("testbed.datastores", f"a list with {shown(name)} twice{where}", "", remedy))
    return problems


def _identifiers(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    return identifiers.problems(testbed)


def _targets(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems, names = [], []
    backing = [layer["name"] for layer in testbed.layers if layer["kind"] == "backing"]
    # A file is on a volume.
    volumes = [layer["name"] for layer in testbed.layers if layer["kind"] == "datastore"]
    for host in testbed.hosts.values():
        for variable in ("iscsi_initiator_name",):
            if variable in host.own and host.variables.get(variable):
                problems += _iqn(f"{variable} of {host.name}", host.variables[variable])
        for index, export in enumerate(mappings(host.variables.get("iscsi_target_targets"))):
            variable = f"iscsi_target_targets[{index}]"
            missing = [key for key in ("name", "portals", "luns", "initiators") if key not in export]
            if missing:
                problems.append(
                    Problem(
                        f"{variable} of {host.name}",
                        None,
                        f"has no {', '.join(missing)}",
                        "add it, or remove the variable to have it derived",
                    )
                )
                continue
            names.append(export["name"])
            if host.because.get("iscsi_target_targets") == OVERRIDDEN:
                problems += _iqn(f"{variable}.name of {host.name}", export["name"])
            luns = mappings(export["luns"])
            for number in _repeated(lun.get("lun") for lun in luns):
                doubled = [str(lun.get("name")) for lun in luns if lun.get("lun") == number]
                problems.append(
                    Problem(
                        f"LUN number of {' and '.join(doubled)} on {host.name}",
                        str(number),
                        "",
                        "give each disk a lun of its own",
                    )
                )
            for place, lun in enumerate(luns):
                if "layer" in lun and lun["layer"] not in (volumes if lun.get("vhdx") else backing):
                    problems.append(
                        Problem(
                            f"{variable}.luns[{place}].layer of {host.name}",
                            shown(lun["layer"]),
                            "which is not a layer of this testbed",
                            did_you_mean(lun["layer"], volumes if lun.get("vhdx") else backing),
                        )
                    )
                if "lun" in lun and not (isinstance(lun["lun"], int) and 0 <= lun["lun"] <= 255):
                    problems.append(
                        Problem(
                            f"LUN number of {lun.get('name')} on {host.name}", shown(lun["lun"]), "", "use 0 to 255"
                        )
                    )
            if host.platform == "windows":
                problems += _windows_target(export, variable, host)
            if host.variables.get("iscsi_target_provider") == "tgt":
                problems += _tgt_target(export, variable, host)
    known, known_keys = set(names), {iqn_key(str(name)) for name in names}
    for host in testbed.hosts.values():
        for index, session in enumerate(mappings(host.variables.get("iscsi_initiator_targets"))):
            # A target that is none of the inventory's hosts is somebody else's.
            if testbed.targets and iqn_key(str(session.get("iqn"))) not in known_keys:
                problems.append(
                    Problem(
                        f"iscsi_initiator_targets[{index}].iqn of {host.name}",
                        shown(session.get("iqn")),
                        "which is not a target of this testbed",
                        did_you_mean(str(session.get("iqn")), sorted(known)),
                    )
                )
    return problems


def _windows_target(export: dict[str, Any], variable: str, host: Host) -> list[Problem]:
    users = {
        (initiator.get("chap_user"), initiator.get("chap_password")) for initiator in mappings(export["initiators"])
    }
    if len(users) > 1:
        return [
            Problem(
                f"{variable}.initiators of {host.name}",
                None,
                "have different CHAP names or secrets, and a Windows target has one",
                "give them the same, or make two targets",
            )
        ]
    return []


def _tgt_target(export: dict[str, Any], variable: str, host: Host) -> list[Problem]:
    problems, numbers = [], {lun.get("lun") for lun in mappings(export["luns"])}
    problems += [
        Problem(
            f"LUN number of {lun.get('name')} on {host.name}", "0", "which is tgt's own controller", "number from 1"
        )
        for lun in mappings(export["luns"])
        if lun.get("lun") == 0
    ]
    if any(
        initiator.get("luns") is not None and set(initiator["luns"]) != numbers
        for initiator in mappings(export["initiators"])
    ):
        problems.append(
            Problem(
                f"{variable}.initiators of {host.name}",
                None,
                "see different LUNs, and tgt shows all LUNs of a target to all its initiators",
                "show them the same disks, or set iscsi_target_provider: lio",
            )
        )
    return problems


def _addresses(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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


def _portals(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems, facts = [], lab.get("facts", {})
    for name in testbed.targets:
        host, targets = testbed.hosts[name], mappings(testbed.hosts[name].variables.get("iscsi_target_targets"))
        given = [address for address, _port in addresses_of(host.own)]
        word = "testbed_address" if "testbed_address" in host.own else "ansible_host"
        if targets and not given and host.because["iscsi_target_targets"] != OVERRIDDEN:
            problems.append(
                Problem(
                    f"testbed_address of {name}",
                    None,
                    "is not set",
                    "give the target's IP address in the storage network",
                )
            )
        for address, port in _repeated(
            (address, port or testbed.description["port"]) for address, port in addresses_of(host.own)
        ):
            problems.append(
                Problem(
                    f"{word} of {name}",
                    f"a list with {address}:{port} twice",
                    "",
                    "name each portal once",
                )
            )
        if host.platform == "windows":
            problems += _ports_of_windows(name, targets)
        known = facts.get(name, {}).get("addresses") or [address for address in given if is_address(address)]
        seen = set()
        for index, export in enumerate(targets):
            for place, portal in enumerate(mappings(export.get("portals"))):
                address = str(portal.get("address"))
                own = host.because["iscsi_target_targets"] == OVERRIDDEN
                variable = (
                    f"iscsi_target_targets[{index}].portals[{place}].address of {name}" if own else f"{word} of {name}"
                )
                if (variable, address) in seen:
                    continue
                seen.add((variable, address))
                if not is_address(address):
                    problems.append(
                        Problem(
                            variable,
                            shown(address),
                            "which is not an IP address",
                            f"set testbed_address of {name} to its IP address in the storage network",
                        )
                    )
                elif known and address not in known and not host.variables.get("iscsi_target_allow_any_address"):
                    problems.append(
                        Problem(
                            variable,
                            shown(address),
                            f"which is none of the addresses of {name}",
                            f"use {' or '.join(known)}",
                        )
                    )
    return problems


def _ports_of_windows(name: str, targets: list[dict[str, Any]]) -> list[Problem]:
    """A Windows target server has one port for each of its addresses."""
    ports: dict[str, set[int]] = {}
    for export in targets:
        for portal in mappings(export.get("portals")):
            ports.setdefault(str(portal.get("address")), set()).add(portal.get("port", 3260))
    return [
        Problem(
            f"testbed_address of {name}",
            f"a list with {address} at the ports {' and '.join(map(str, sorted(several)))}",
            "and Windows listens at one port of an address",
            "name each address once; a second portal needs an address of its own",
        )
        for address, several in ports.items()
        if len(several) > 1
    ]


def _secrets(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems, low, high = [], *SECRET_LENGTHS
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
    for host in testbed.hosts.values():
        for variable, part in (("iscsi_target_targets", "initiators"), ("iscsi_initiator_targets", None)):
            if host.because.get(variable) != OVERRIDDEN:
                continue
            for index, entry in enumerate(mappings(host.variables[variable])):
                for place, session in enumerate(mappings(entry.get(part)) if part else [entry]):
                    where = f"{variable}[{index}]" + (f".{part}[{place}]" if part else "")
                    for key in ("chap_password", "mutual_chap_password"):
                        secret = str(session[key]) if session.get(key) else None
                        if secret is not None and not low <= len(secret) <= 255:
                            problems.append(
                                Problem(
                                    f"{where}.{key} of {host.name}",
                                    f"{len(secret)} characters long",
                                    "",
                                    f"use {low} to {high} characters",
                                )
                            )
    return problems


def _stores(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems = []
    for store in testbed.stores:
        variable = f"testbed.datastores[{store.index}]"
        if store.over:
            problems += _over_nfs(testbed, store, store.over, variable)
            continue
        kinds = {testbed.hosts[name].platform for name in store.hosts}
        kind = store.entry.get("type") or {"linux": "ext4", "windows": "ntfs", "esxi": "vmfs"}.get(
            next(iter(kinds), "linux")
        )
        if len(store.hosts) > 1 and kind not in CLUSTER_FILE_SYSTEMS:
            problems.append(
                Problem(
                    f"{variable}.hosts",
                    ", ".join(store.hosts),
                    f"but {kind} is not a cluster file system and would be destroyed",
                    "name one host, or give each a disk of its own",
                )
            )
        fits = {"linux": ("ext4", "xfs"), "windows": ("ntfs",), "esxi": ("vmfs", "rdm", "nfs", "existing")}
        for name in store.hosts:
            platform = testbed.hosts[name].platform
            if kind not in fits[platform]:
                problems.append(
                    Problem(
                        f"{variable}.type",
                        shown(kind),
                        f"which {name} cannot make",
                        f"use {' or '.join(fits[platform])}",
                    )
                )
        if "benchmark_files" in store.entry and kinds - {"linux"}:
            problems.append(
                Problem(
                    f"{variable}.benchmark_files",
                    shown(store.entry["benchmark_files"]),
                    "but only Linux hosts measure a file per worker",
                    "leave it out",
                )
            )
        if kind == "existing":
            problems += _store_of_others(store, variable)
        if kind == "nfs":
            problems += [
                Problem(f"{variable}.{key}", None, "is not set", "name the NFS server and the path that it exports")
                for key in ("server", "path")
                if not store.entry.get(key)
            ]
        if not store.hosts and store.disk:
            problems.append(
                Problem(
                    f"{variable}.on",
                    shown(store.entry.get("disk")),
                    "a disk that no host logs in to",
                    "add a host to hypervisors or clients",
                )
            )
        problems += _room(testbed, store, variable)
    return problems


def _store_of_others(store: Store, variable: str) -> list[Problem]:
    """A datastore that was there before: it has a name, and nothing that would make one."""
    problems = []
    if not store.entry.get("name"):
        problems.append(Problem(f"{variable}.name", None, "is not set", "write the name that the ESXi host shows"))
    for key in ("disk", "benchmark_file", "version", "mount_point", "compatibility", "server", "path"):
        if key in store.entry:
            why = "is set beside type existing, whose datastore is there already"
            problems.append(Problem(f"{variable}.{key}", shown(store.entry[key]), why, "leave it out"))
    return problems


def _over_nfs(testbed: Testbed, store: Store, base: Store, variable: str) -> list[Problem]:
    """A datastore that is another one (base) over NFS."""
    problems = []
    for key in ("disk", "type", "benchmark_file", "benchmark_files", "version", "compatibility", "server", "path"):
        if key in store.entry:
            remedy = f"leave it out: it is set for the datastore {base.name}"
            problems.append(Problem(f"{variable}.{key}", shown(store.entry[key]), "is set beside nfs", remedy))
    if "benchmark_file" not in base.entry:
        remedy = "write the size of the file on it that clients measure, such as 2GiB"
        problems.append(
            Problem(
                f"testbed.datastores[{base.index}].benchmark_file",
                None,
                f"is not set, but {store.name} is measured on it",
                remedy,
            )
        )
    for name in (base.target, *store.hosts):
        if testbed.hosts[name].platform != "linux":
            platform = {"esxi": "ESXi", "windows": "Windows"}[testbed.hosts[name].platform]
            remedy = "name Linux hosts" if name in store.hosts else "use a disk of a Linux target"
            problems.append(
                Problem(f"{variable}.nfs", shown(store.entry["nfs"]), f"but {name} runs {platform}", remedy)
            )
            continue
        for address in [address for address, _port in addresses_of(testbed.hosts[name].own)] or [""]:
            if not is_address(address):
                remedy = "write its address in the storage network: NFS is exported from address to address"
                problems.append(
                    Problem(
                        f"testbed_address of {name}",
                        shown(address) if address else None,
                        "" if address else "is not set",
                        remedy,
                    )
                )
    if not store.hosts:
        remedy = "add a host to hypervisors or clients"
        problems.append(Problem(f"{variable}.nfs", shown(store.entry["nfs"]), "which no host mounts over NFS", remedy))
    others = [other for other in testbed.stores if other.over is base]
    if others[0] is not store:
        remedy = "write it once, with all its hosts"
        problems.append(Problem(f"{variable}.nfs", shown(store.entry["nfs"]), f"as {others[0].name} has it", remedy))
    return problems


def _room(testbed: Testbed, store: Store, variable: str) -> list[Problem]:
    """What is to lie on the datastore fits on it."""
    size = store.disk.entry.get("size") if store.disk else None
    guests = [
        entry
        for entry in testbed.description.get("guests", [])
        if entry.get("datastore") in (store.name, store.label) and not (entry.get("esxi") or {}).get("disks")
    ]
    files = store.entry.get("benchmark_file", 0) * max(1, store.entry.get("benchmark_files", 1))
    wanted = files + sum(entry.get("disk_size", 0) for entry in guests)
    if (
        not store.disk
        or not size
        or store.entry.get("type") == "rdm"
        or wanted <= size * (100 - FILE_SYSTEM_OVERHEAD_PERCENT) // 100
    ):
        return []
    return [
        Problem(
            f"testbed.disks[{store.disk.index}].size",
            size_text(size),
            f"but {size_text(wanted)} are needed on the datastore {store.name}, whose file system needs some space too",
            "make the disk larger, or the files on it smaller",
        )
    ]


def _guests(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    problems = _nbd(testbed)
    for index, entry in enumerate(testbed.description.get("guests", [])):
        variable = f"testbed.guests[{index}]"
        stores = [
            store for store in testbed.stores if entry.get("datastore") in (store.name, store.label) and store.hosts
        ]
        if not stores:
            continue
        esxi = testbed.hosts[stores[0].hosts[0]].platform == "esxi"
        extra = entry.get("esxi") or {}
        if "disk_size" not in entry and not extra.get("disks") and stores[0].entry.get("type") != "rdm":
            problems.append(
                Problem(
                    f"{variable}.disk_size",
                    None,
                    "is not set",
                    "write the size of the disk that is measured, such as 48MiB",
                )
            )
        if "raw" in entry:
            problems += _raw(testbed, f"{variable}.raw", index, entry["raw"])
        if "memory" not in entry and not ("template" in extra or "ova" in extra):
            problems.append(Problem(f"{variable}.memory", None, "is not set", "write its memory, such as 320MiB"))
        if not esxi and not testbed.embedded:
            if "image" not in entry:
                problems.append(
                    Problem(
                        f"{variable}.image",
                        None,
                        "is not set",
                        "name the disk image with its system, on the host that runs it",
                    )
                )
            if not entry.get("taps"):
                problems.append(
                    Problem(f"{variable}.taps", None, "is not set", "name a tap interface for its network card")
                )
            guest = entry.get("host", entry["name"])
            if not entry.get("address") and not addresses_of(lab["hosts"].get(guest, {})):
                problems.append(
                    Problem(
                        f"ansible_host of {guest}", None, "is not set", "give the address at which the guest answers"
                    )
                )
    return problems


def _nbd(testbed: Testbed) -> list[Problem]:
    """What asks for TLS must not be overlooked because nothing is served."""
    guests = [guest for host in testbed.hosts.values() for guest in mappings(host.variables.get("guest_vm_guests"))]
    disks = [guest.get(key) or {} for guest in guests for key in ("data_disk", "raw_disk")]
    if testbed.description.get("nbd") != "tls" or any(disk.get("transport") == "nbd" for disk in disks):
        return []
    return [Problem("testbed.nbd", shown("tls"), "but no guest has a disk over NBD here", "leave it out")]


def _raw(testbed: Testbed, variable: str, index: int, name: str) -> list[Problem]:
    """What a guest has whole is nobody else's."""
    store = next(
        (store for store in testbed.stores if store.disk and name in (store.disk.name, store.disk.entry["name"])), None
    )
    if store:
        return [Problem(variable, shown(name), f"which carries the datastore {store.name}", "name a disk of its own")]
    other = next((guest["name"] for guest in testbed.description["guests"][:index] if guest.get("raw") == name), None)
    return [Problem(variable, shown(name), f"which {other} has", "name a disk of its own")] if other else []


def _measured(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    earlier = [layer for layers in lab.get("published", {}).values() for layer in layers]
    problems, scratch = [], {layer["name"]: layer for layer in [*earlier, *testbed.layers]}
    reported = set()
    for host in testbed.hosts.values():
        own = host.own
        profile = own.get("benchmark_profile")
        if (
            profile
            and not own.get("benchmark_profile_dirs")
            and profile not in lab["profiles"]
            and profile not in reported
        ):
            reported.add(profile)
            problems.append(
                Problem(
                    "benchmark_profile",
                    shown(profile),
                    "which is not a known profile",
                    did_you_mean(profile, lab["profiles"]),
                )
            )
        for text in own["report_targets"] if isinstance(own.get("report_targets"), list) else []:
            if targets.parse(text) is None and str(text) not in reported:
                reported.add(str(text))
                problems.append(Problem("report_targets", shown(text), "which is not a target", targets.EXAMPLE))
        engine = own.get("benchmark_engine")
        wrong = misplaced(engine, host.platform) if "benchmark" in host.stages else None
        if wrong:
            problems.append(Problem(f"benchmark_engine of {host.name}", shown(engine), *wrong))
        layer = own.get("benchmark_server_layer")
        if layer and layer not in scratch and not layer.startswith("ceiling-"):
            problems.append(
                Problem(
                    f"benchmark_server_layer of {host.name}",
                    shown(layer),
                    "which is not a layer of this testbed",
                    did_you_mean(layer, list(scratch)),
                )
            )
        elif layer and scratch.get(layer, {}).get("purpose") == "data":
            raw = [
                name
                for name, described in scratch.items()
                if described["purpose"] == "scratch" and described["host"] == host.name
            ]
            problems.append(
                Problem(
                    f"benchmark_server_layer of {host.name}",
                    shown(layer),
                    "which contains data that a raw benchmark would destroy",
                    f"use {' or '.join(raw)}" if raw else "use a disk without a datastore",
                )
            )
        for index, workload in enumerate(own.get("benchmark_workloads") or []):
            try:
                expand(
                    dict(workload) if isinstance(workload, dict) else workload, None, f"benchmark_workloads[{index}]"
                )
            except Failure as failure:
                if str(failure) not in reported:
                    reported.add(str(failure))
                    details = failure.details
                    variable = str(details.get("variable", f"benchmark_workloads[{index}]"))
                    value = details.get("value")
                    problems.append(Problem(variable, None if value is None else shown(value), "", failure.remedy))
    return problems


def _existing(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
    """Storage that was there before, and workloads that would write to it."""
    names = [layer["name"] for layer in testbed.layers]
    problems = existing_storage.problems(testbed.description["existing"], existing_storage.hosts_of(testbed), names)
    for name, host in testbed.hosts.items():
        sessions = mappings(host.variables.get("iscsi_initiator_targets"))
        if mappings(host.variables.get(existing_storage.VARIABLE)) or any(map(existing_storage.only_read, sessions)):
            workloads = lab.get("workloads", {}).get(name, [])
            problems += existing_storage.writers(name, host.own.get("benchmark_profile"), workloads)
    return problems


def _memory(lab: dict[str, Any], testbed: Testbed) -> list[Problem]:
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
        made = host.variables.get("ramdisk_provider") != "preinstalled"
        disks = sum(disk.get("size_mib") or 0 for disk in mappings(host.variables.get("ramdisk_disks"))) * made
        measured = lab.get("workloads", {}).get(name, []) if "benchmark" in host.stages else []
        buffers, arithmetic = greatest_buffers(measured)
        buffers_mib = buffers >> 20
        if not (disks or buffers_mib) or disks + buffers_mib + MEMORY_RESERVE_MIB <= there:
            continue
        takes = [f"its RAM disks take {size_text(disks)}"] if disks else []
        takes += [f"the buffers of {arithmetic} take {size_text(buffers_mib)}"] if buffers_mib else []
        smaller = ["make the disks smaller"] if disks else []
        smaller += ["lower queue_depth, workers or block_size"] if buffers_mib else []
        problems.append(
            Problem(
                f"memory of {name}",
                size_text(there),
                f"but {', '.join(takes)} and the system needs {MEMORY_RESERVE_MIB} MiB",
                f"{', '.join(smaller)}, or give the host more memory",
            )
        )
    return problems
