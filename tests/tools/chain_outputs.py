#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the chain makes of many labs, for a change of its code that must not change an output.

python tests/tools/chain_outputs.py record labs.pickle           # the labs of the inventories, the scenarios and the unit tests, and variations of each
python tests/tools/chain_outputs.py print labs.pickle > before   # one line per lab and output; the same again after the change, then diff
python tests/tools/chain_outputs.py print labs.pickle --lab 17   # the outputs themselves
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib
import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAIN = "ansible_collections.storlab.testbed.plugins.plugin_utils.chain."
# What may be set by hand in place of the description.
BY_HAND = (
    "ramdisk_disks",
    "raid_arrays",
    "cache_tier_caches",
    "iscsi_target_targets",
    "iscsi_initiator_name",
    "iscsi_initiator_targets",
    "datastore_datastores",
    "existing_storage_entries",
    "guest_vm_guests",
    "embedded_lab_machines",
)
# Variations of each lab; each is drawn with a seed of its own, so a lab more changes no other.
VARIATIONS = 8
SHARED = ("roles", "profiles")


def module(name: str) -> Any:
    return importlib.import_module(CHAIN + name)


class Recorder:
    """A plugin of pytest that keeps each lab that a test expands."""

    def __init__(self) -> None:
        self.labs: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self) -> None:
        expand = module("expand")
        original = expand.expand

        def recorded(lab: dict[str, Any]) -> Any:
            try:
                self.labs.setdefault(key_of(lab), copy.deepcopy(lab))
            except (TypeError, RecursionError):
                # What cannot be copied cannot be stored.
                pass
            return original(lab)

        expand.expand = recorded


def key_of(lab: dict[str, Any]) -> str:
    return repr({key: value for key, value in lab.items() if key not in SHARED})


def of_inventories() -> Iterator[dict[str, Any]]:
    """The labs of the inventories as they are written: what a template would make of them is left as it is."""
    roles, profiles = module("inventory").role_options(), ["four_corners", "e1_ramdisk"]
    secrets = {"chap": "sixteen-letters1", "mutual_chap": "fifteen-letter2", "nbd": "n" * 32}
    for folder in sorted([*ROOT.glob("inventories/*"), *ROOT.glob("molecule/*/inventory*")]):
        command = ["ansible-inventory", "-i", str(folder), "--list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if listed.returncode or not listed.stdout.strip():
            continue
        content = json.loads(listed.stdout)
        hosts = content.pop("_meta")["hostvars"]
        known = tuple(f"{prefix}_" for prefix in ("testbed", "ansible", *roles))
        groups = {name: group.get("hosts", []) for name, group in content.items()}
        yield {
            "groups": {name: members for name, members in groups.items() if name not in ("all", "ungrouped")},
            "hosts": {
                host: {name: value for name, value in own.items() if name == "testbed" or name.startswith(known)}
                for host, own in hosts.items()
            },
            "base_dir": "/labs",
            "secrets": secrets,
            "roles": roles,
            "profiles": profiles,
        }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in mappings and lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


def changed(value: Any, path: tuple[Any, ...], dice: random.Random) -> Any:
    """A copy with one value removed, doubled, or made another."""
    result = copy.deepcopy(value)
    below = result
    for key in path[:-1]:
        below = below[key]
    key, way = path[-1], dice.randrange(4)
    if way == 0:
        del below[key]
    elif way == 1 and isinstance(below, list):
        below.append(copy.deepcopy(below[key]))
    elif way == 2 and isinstance(below[key], str):
        below[key] = dice.choice([below[key] + "x", below[key].upper(), "scratch", "data", "none", "tgt"])
    else:
        below[key] = dice.choice([0, 1, 7, 512, "other", True, [], {}])
    return result


def variations(lab: dict[str, Any], testbed: Any) -> Iterator[dict[str, Any]]:
    """Labs that are almost this one: another provider, words changed, and variables of roles set by hand, as derived or changed."""
    # It draws examples, no secrets.
    dice = random.Random(key_of(lab))  # noqa: S311
    hosts = lab["hosts"]
    for provider in ("tgt", "lio"):
        more = {name: {**own, "iscsi_target_provider": provider} for name, own in hosts.items()}
        yield {**lab, "hosts": more}
    described = next((own["testbed"] for own in hosts.values() if isinstance(own.get("testbed"), dict)), None)
    ways = list(places(described)) if described else []
    for path in dice.sample(ways, min(VARIATIONS, len(ways))):
        other = changed(described, path, dice)
        yield {**lab, "hosts": {name: {**own, "testbed": other} for name, own in hosts.items()}}
    derived = [(host, name) for host in testbed.hosts.values() for name in BY_HAND if host.variables.get(name)]
    for host, name in dice.sample(derived, min(VARIATIONS, len(derived))):
        value = {name: copy.deepcopy(host.variables[name])}
        for given in (value, changed(value, dice.choice(list(places(value))), dice)):
            yield {**lab, "hosts": {**hosts, host.name: {**hosts.get(host.name, {}), **given}}}


def attempt(look: Any, *arguments: Any) -> Any:
    try:
        return look(*arguments)
    except Exception as error:  # what it is does not matter, as long as it stays the same
        return f"{type(error).__name__}: {error}"


def probe_of(testbed: Any, name: str, needs: Any, good: bool) -> dict[str, Any]:
    """What a host might show, with all that can be wrong or with nothing."""
    host = testbed.hosts[name]
    if host.platform == "esxi":
        return {"product": "VMware ESXi", "version": "8.0.3" if good else "6.0.0", "read_only_licence": not good}
    if host.platform == "windows":
        volumes = [{"letter": letter, "label": "data", "size_bytes": 9 << 30} for letter in ("CE" if good else "CSE")]
        disk = {"name": "fast" if good else "slow", "size_bytes": 6 << 30}
        return {"system": "Windows", "volumes": volumes, "disks": [disk] if good else [disk, disk]}
    named = [
        {
            **entry,
            "type": "block" if good or place % 2 else "file",
            "paths": ["/dev/sdx"] if good else [[], ["/dev/sdx", "/dev/sdy"]][place % 2],
            "shows": {"serial": "S"},
            "contents": "blank" if good else "data",
        }
        for place, entry in enumerate(needs["named"])
    ]
    problems = sorted(module("doctor").NO_PLACE)
    return {
        "system": "Debian GNU/Linux 12",
        "kernel": "6.1.0-9",
        "root": good,
        "package_manager": "apt-get" if good else "dnf",
        "missing_commands": [] if good else needs["commands"],
        "missing_modules": [] if good else needs["modules"],
        "memory_mib": 64000 if good else 600,
        "memory_available_mib": 60000 if good else 100,
        "clock_ahead_s": 0.0 if good else 9.0,
        "addresses": ["192.0.2.11"] if good else ["198.51.100.9"],
        "peers": [
            {**peer, "way": "open" if good else "filtered", "mtu_bytes": 9000, "mtu_passes": good}
            for peer in needs["peers"]
        ],
        "devices": {path: {"sector_bytes": 512 if good else 4096} for path in needs["devices"]},
        "folders": {
            path: {} if good else {"problem": problems[place % len(problems)], "at": "/srv"}
            for place, path in enumerate(needs["folders"])
        },
        "named": named,
        "kvm": good,
        "machine_id": name if good else "same",
        "boot_id": name if good else "same",
    }


def outputs(lab: dict[str, Any], before: Any) -> dict[str, Any]:
    """Everything that the chain makes of a lab. before: the record of the testbed that was built before, if any."""
    expand, check, groups, built, doctor, devices, drawing = map(
        module, ("expand", "check", "groups", "built", "doctor", "devices", "drawing")
    )
    testbed = attempt(expand.expand, copy.deepcopy(lab))
    if isinstance(testbed, str):
        return {"expansion": testbed}

    def sentences(problems: Any) -> Any:
        return problems if isinstance(problems, str) else [problem.sentence() for problem in problems]

    made: dict[str, Any] = {
        "expansion": repr(testbed),
        "problems": sentences(attempt(check.check, lab, testbed)),
        "problems of results": sentences(attempt(check.check_results, lab, testbed)),
        "remarks": attempt(groups.remarks, lab, testbed),
        "record": attempt(built.record, testbed),
        "devices": attempt(lambda: [repr(device) for device in devices.named(testbed)]),
        "drawing": attempt(drawing.draw, testbed),
        "yaml": attempt(drawing.as_yaml, testbed),
    }
    if before:
        made["changes"] = sentences(attempt(built.problems, before, testbed, "/built.json"))
    linux = [name for name, host in testbed.hosts.items() if host.platform == "linux"]
    needs = made["needs"] = {name: attempt(doctor.needs, testbed, name) for name in linux}
    if any(isinstance(entry, str) for entry in needs.values()):
        return made
    for good in (True, False):
        probes = {name: probe_of(testbed, name, needs.get(name), good) for name in testbed.hosts}
        word = "well" if good else "ill"
        facts = doctor.facts(probes)
        made[f"findings {word}"] = attempt(doctor.findings, testbed, probes)
        made[f"unfit {word}"] = sentences(attempt(doctor.unfit, testbed, probes))
        made[f"problems {word}"] = sentences(attempt(check.check, {**lab, "facts": facts}, testbed))
    return made


def record(path: Path) -> None:
    recorder = Recorder()
    tests = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not ansible", str(ROOT / "tests/unit/chain")]
    pytest.main(tests, plugins=[recorder])
    labs = [*of_inventories(), *recorder.labs.values()]
    stored: list[tuple[dict[str, Any], int | None]] = []
    shared: list[dict[str, Any]] = []
    for lab in labs:
        common = {key: lab.get(key) for key in SHARED}
        if common not in shared:
            shared.append(common)
        alike = {key: value for key, value in lab.items() if key not in SHARED} | {"_": shared.index(common)}
        origin = len(stored)
        stored.append((alike, None))
        testbed = attempt(module("expand").expand, copy.deepcopy(lab))
        if isinstance(testbed, str):
            continue
        for other in variations({key: value for key, value in lab.items() if key not in SHARED}, testbed):
            stored.append(({**copy.deepcopy(other), "_": shared.index(common)}, origin))
    path.write_bytes(pickle.dumps((shared, stored)))
    print(f"{len(labs)} labs and {len(stored) - len(labs)} variations in {path}")


def shown(path: Path, only: int | None, every: int) -> None:
    # A file that the user names and this program wrote.
    shared, stored = pickle.loads(path.read_bytes())  # noqa: S301
    records: dict[int, Any] = {}
    for number, (lab, origin) in enumerate(stored):
        if number != only if only is not None else origin is not None and number % every:
            continue
        complete = {**shared[lab["_"]], **{key: value for key, value in lab.items() if key != "_"}}
        if origin is not None and origin not in records:
            below = stored[origin][0]
            base = {**shared[below["_"]], **{key: value for key, value in below.items() if key != "_"}}
            records[origin] = module("built").record(module("expand").expand(base))
        made = outputs(complete, records.get(origin) if origin is not None else None)
        for name, value in made.items():
            text = json.dumps(value, default=repr, indent=1 if only is not None else None)
            print(number, name, text if only is not None else hashlib.sha256(text.encode()).hexdigest()[:16])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("record", "print"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--lab", type=int, help="only the lab of this number, with its outputs in full")
    parser.add_argument("--every", type=int, default=1, help="only one of so many variations")
    arguments = parser.parse_args()
    sys.path[:0] = [str(ROOT / ".cache" / "collections"), str(ROOT / "tests" / "support")]
    if arguments.what == "record":
        record(arguments.path)
    else:
        shown(arguments.path, arguments.lab, arguments.every)


if __name__ == "__main__":
    main()
