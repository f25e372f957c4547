# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the description of a testbed to the variables of the roles on every host: a pure function, without clock and chance.

A lab is what is known before anything is touched::

    groups      {group: [host]}, in the order of the inventory
    hosts       {host: {variable: value}}: what the inventory (or the command line) sets
    base_dir    folder on the controller beside the inventory, for state and results unless the inventory names others
    secrets     {'chap': text, 'mutual_chap': text, 'nbd': text}, for what the description leaves to the collection
    roles       {role: {variable: option}}: the roles' argument specifications
    profiles    names of the known profiles
    workloads   {host: [workload]}: what would be measured there, as far as it is known
    published   {host: [{name, kind, host, purpose}]}: the layers that an earlier build has published
    others      {variable: [host]}: names of all other variables of the inventory, for what is written almost like one of ours
    facts       {host: {'addresses': [address], 'memory_mib': number}}, as far as they are known

The result is a Testbed. A variable that the inventory sets is taken as it is, and what follows from it is derived from that.
"""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

from ...module_utils.core.nvme_names import DEFAULT_PORT
from ...module_utils.linux.exports.target_providers import DEFAULTS, first_lun, shares_luns, splits_targets
from .description import GROUPS, OPTIONS, WORDS
from .emulated import lab_network
from .nouns import Lab
from .shape import UNFIT, Problem, fit, fit_mapping, shown
from .stages import STAGES, existing_storage
from .testbed import Context, Disk, Host, Testbed, is_exported, mappings, platform_of

# Where the addresses of the embedded lab's hosts begin.
FIRST_ADDRESS = 10


class Place(NamedTuple):
    """The name of a testbed and its folders on the controller, which are known before anything else of it."""

    testbed_id: str
    state_dir: str
    results_dir: str


def place(lab: Lab) -> Place:
    words = _lab_wide(lab)
    given = words.get("testbed_id")
    testbed_id = str(given) if given not in (None, "") else "testbed"
    folder = f"{lab['base_dir']}/{testbed_id}-testbed"
    return Place(
        testbed_id,
        str(words.get("testbed_state_dir") or f"{folder}/state"),
        str(words.get("testbed_results_dir") or f"{folder}/results"),
    )


def expand(lab: Lab) -> Testbed:
    """The testbed that the lab's inventory describes. Faults are in its ``problems``, and left out of the rest."""
    problems: list[Any] = []
    groups = {name: list(members) for name, members in lab["groups"].items()}
    words = _lab_wide(lab)
    description = with_port(existing_storage.with_words(existing_storage.moved(words.get("testbed"), problems)))
    if isinstance(description, dict):
        if not {"disks", "existing"} & set(description):
            remedy = "write a list, or describe storage that was there before as testbed.existing"
            problems.append(Problem("testbed.disks", None, "is not set", remedy))
        description = fit_mapping("testbed", description, OPTIONS, problems)
    elif description is not None:
        problems.append(Problem("testbed", shown(description), "", "write a mapping with disks, datastores and guests"))
    if not isinstance(description, dict):
        description = {
            "disks": [],
            "datastores": [],
            "guests": [],
            "existing": [],
            "protocol": "iscsi",
            "port": 3260,
            "chap": "mutual",
            "access": "iqn",
            "nbd": "plain",
        }
    testbed = Testbed(
        **place(lab)._asdict(),
        description=description,
        hosts={},
        disks=[],
        stores=[],
        layers=[],
        problems=problems,
        groups=groups,
        embedded=next(iter(groups.get("embedded_controllers", [])), None),
    )
    _fill(Context(lab, testbed))
    return testbed


def with_port(description: Any) -> Any:
    """A description with the port that its protocol has by default, where none is written."""
    nvme = isinstance(description, dict) and description.get("protocol") == "nvme"
    return {"port": DEFAULT_PORT, **description} if nvme else description


def _lab_wide(lab: Lab) -> dict[str, Any]:
    """The variables of the whole testbed, as its first host has them."""
    groups = lab["groups"]
    first = next((name for group in (*GROUPS, *groups) for name in groups.get(group, [])), None)
    own = lab["hosts"].get(first, {}) if first else next(iter(lab["hosts"].values()), {})
    return {name: own[name] for name in WORDS if name in own}


def _fill(context: Context) -> None:
    """Hosts and disks first, then the answers of each stage."""
    testbed = context.testbed
    _hosts(context)
    _embedded_addresses(context)
    _disks(context)
    for stage in STAGES:
        stage.describe(context)
    for stage in STAGES:
        stage.derive(context)
    for host in testbed.hosts.values():
        host.stages = [stage.name for stage in STAGES if stage.runs_on(context, host)]
        below = [name for stage in STAGES for name in stage.stands_on(testbed, host)]
        host.depends_on = list(dict.fromkeys(below))
    # Bottom first.
    for floor in sorted({stage.floor for stage in STAGES}):
        for host in testbed.hosts.values():
            testbed.layers += [layer for stage in STAGES if stage.floor == floor for layer in stage.layers(host)]


def _hosts(context: Context) -> None:
    """The hosts of the testbed's groups, with what the inventory says of them."""
    testbed = context.testbed
    specification = {name: option for role in context.lab["roles"].values() for name, option in role.items()}
    known = testbed.members(*GROUPS, "guest_hosts", "embedded_controllers")
    unfit: dict[str, list[Problem]] = {}
    for name in known:
        own = context.lab["hosts"].get(name, {})
        testbed.hosts[name] = Host(name, platform_of(own), _fitted(own, specification, unfit.setdefault(name, [])))
    # A fault on all hosts was most likely said once.
    for problem in dict.fromkeys(problem for problems in unfit.values() for problem in problems):
        hosts = [name for name in known if problem in unfit[name]]
        where = "" if len(hosts) == len(known) else f" of {', '.join(hosts)}"
        testbed.problems.append(problem.about(f"{problem.variable}{where}"))


def _fitted(own: dict[str, Any], specification: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The host's variables as their types; what does not fit is a problem, and left out."""
    result = {}
    for variable, value in own.items():
        option = specification.get(variable)
        fitted = value if option is None else fit(variable, value, option, problems)
        if fitted is not UNFIT:
            result[variable] = fitted
    return result


def _embedded_addresses(context: Context) -> None:
    """Machines of the embedded lab get the addresses of its network in the order of the groups."""
    if not context.testbed.embedded:
        return
    network = ipaddress.IPv4Interface(lab_network(context.testbed)).network
    listed = context.testbed.hosts[context.testbed.embedded].own
    given = {
        machine.get("name"): machine.get("address")
        for key in ("embedded_lab_machines", "embedded_lab_ports")
        for machine in mappings(listed.get(key))
    }
    for place, name in enumerate(context.testbed.members(*GROUPS), 1):
        own = context.testbed.hosts[name].own
        own.setdefault("testbed_address", given.get(name) or str(network[FIRST_ADDRESS + place]))


def _disks(context: Context) -> None:
    testbed = context.testbed
    used = {name: first_lun(_provider(testbed, name)) for name in testbed.targets}
    for index, entry in enumerate(context.description.get("disks", [])):
        variable = f"testbed.disks[{index}]"
        targets = context.resolve(f"{variable}.targets", entry["targets"], testbed.targets, "target of this inventory")
        for target in targets:
            name = entry["name"] if len(targets) == 1 else f"{entry['name']}-{target}"
            disk = _disk(context, variable, Disk(name, entry, index, target, "", used[target], [], False))
            testbed.disks.append(disk)
            used[target] += 1


def _provider(testbed: Testbed, target: str) -> Any:
    host = testbed.hosts[target]
    own = DEFAULTS[testbed.description["protocol"]] if host.platform == "linux" else None
    return host.own.get("iscsi_target_provider", own)


def _disk(context: Context, variable: str, disk: Disk) -> Disk:
    """The disk of a target with all that follows from its description."""
    testbed, entry, target = context.testbed, disk.entry, disk.target
    stores, raw = _stores_on(testbed, disk.name, entry), _is_raw(testbed, disk.name, entry)
    # A RAM disk or VHDX file is made empty. Only the user knows the contents of a device of theirs.
    kept = stores or raw or entry["kind"] == "device"
    # Only the guest that has the whole disk measures it.
    disk.purpose = "data" if raw else entry.get("purpose") or ("data" if kept else "scratch")
    disk.hosts = [host for host in testbed.initiators if stores or raw or testbed.hosts[host].platform != "esxi"]
    if any(is_exported(testbed, store) for store in stores):
        # It is mounted on the target.
        disk.hosts = []
    if "to" in entry:
        disk.hosts = context.resolve(f"{variable}.to", entry["to"], testbed.initiators, "host that logs in")
    # A datastore's LUN is not for the target itself.
    provider = _provider(testbed, target)
    alone = testbed.hosts[target].platform == "linux" and (splits_targets(provider) or not shares_luns(provider))
    disk.loopback = entry.get("loopback", bool(testbed.initiators) and disk.purpose == "scratch" and alone)
    disk.lun = entry.get("lun", disk.lun)
    makers = [stage for stage in STAGES if entry["kind"] in stage.kinds]
    disk.layer = f"backing-{disk.name}" if makers else None
    disk.emulated = [emulated for stage in STAGES for emulated in stage.emulated(disk)]
    return disk


def _stores_on(testbed: Testbed, name: str, disk: dict[str, Any]) -> list[Any]:
    """The description of datastores on a disk."""
    return [store for store in testbed.description["datastores"] if store.get("disk") in (name, disk["name"])]


def _is_raw(testbed: Testbed, name: str, disk: dict[str, Any]) -> bool:
    """Whether a guest has the disk whole."""
    guests = testbed.description["guests"]
    return any(guest.get("raw") in (name, disk["name"]) for guest in guests if guest.get("raw"))
