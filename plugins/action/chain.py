# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expands and checks the description of a testbed; documentation in plugins/modules/chain.py."""

from __future__ import annotations

import os
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..module_utils.core.files import read_json, write_json
from ..module_utils.lab.qemu import running_pid
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.chain import (
    access,
    built,
    check,
    devices,
    doctor,
    drawing,
    expand,
    groups,
    inventory,
    limit,
    owner,
    written,
)
from ..plugin_utils.chain.nouns import Lab
from ..plugin_utils.chain.testbed import Testbed, mappings
from ..plugin_utils.store import ledger

# The shape of built.json.
BUILT = {"groups": {str: [str]}, "hosts": {str: dict}}


def absent_machines(testbed: Testbed) -> list:
    """Machines of the embedded lab that do not run now, and the hosts that they carry."""
    if not testbed.embedded:
        return []
    controller = testbed.hosts[testbed.embedded]
    folder = f"/run/storlab/{controller.own.get('embedded_lab_netns')}/vm"
    machines = [machine["name"] for machine in mappings(controller.variables["embedded_lab_machines"])]
    absent = {name for name in machines if running_pid(f"{folder}/{name}") is None}
    above = absent
    while above:
        above = {name for name, host in testbed.hosts.items() if above & set(host.depends_on)} - absent
        absent |= above
    return sorted(absent)


def left_out(testbed: Testbed, scope: str, task_vars: dict) -> list:
    """[{host, layers}] of what --limit leaves out; Failure 'limit_unfit' where this playbook cannot do its work without it."""
    if "ansible_limit" not in task_vars:
        return []
    groups, playing = inventory.plain(task_vars["groups"]), [str(name) for name in task_vars["ansible_play_hosts_all"]]

    def published(name: str) -> bool:
        return os.path.exists(os.path.join(testbed.state_dir, "layers", f"{name}.json"))

    limit.refuse(testbed, scope, groups, str(task_vars["ansible_limit"]), playing, published)
    return [{"host": name, "layers": layers} for name, layers in limit.left_out(testbed, groups, playing).items()]


def note(testbed: Testbed, event: str, **details) -> None:
    """A line in the testbed's ledger; Failure 'results_unwritable' where it cannot be kept."""
    try:
        ledger.append(os.path.join(testbed.results_dir, testbed.testbed_id), event, **details)
    except OSError as error:
        raise Failure(
            "results_unwritable",
            f"The ledger in {testbed.results_dir} cannot be written: {error.strerror}.",
            "Make room there or correct testbed_results_dir, and run again.",
            path=testbed.results_dir,
        ) from error


def write_built(testbed: Testbed, path: str, keep: str, task_vars: dict) -> list[str]:
    """Keep what is built now, of the hosts that play to the end; with --limit others stay as they were. Returns warnings."""
    known = read_json(path, kind=BUILT)
    hosts = sorted(set(task_vars["ansible_play_hosts"]) & set(testbed.hosts))
    some = {} if set(testbed.hosts) <= set(hosts) else {"hosts": hosts}
    if keep == "kept":
        record = built.added(known, built.record(testbed), hosts)
        if known != record:
            layers = sorted(layer["name"] for layer in testbed.layers if layer["host"] in hosts)
            os.makedirs(testbed.state_dir, exist_ok=True)
            note(testbed, "built", layers=layers, **some)
            write_json(path, record, indent=1)
        return []
    left = built.removed(known, hosts)
    if left == known:
        return []
    if left is None:
        os.unlink(path)
    else:
        write_json(path, left, indent=1)
    try:
        note(testbed, "removed", **(some if left else {}))
    except Failure as failure:
        # Nothing is left to run again for: the testbed is gone.
        return [f"{failure.what} So it does not confirm that {testbed.testbed_id} was removed."]
    return []


def remember(testbed: Testbed, probes: dict, notes: dict) -> None:
    """Note the devices that are going to be written to; Failure 'record_unwritable' where that cannot be, before one is touched."""
    try:
        written.remember(testbed.state_dir, probes, notes)
    except OSError as error:
        raise Failure(
            "record_unwritable",
            f"It cannot be noted in {testbed.state_dir} which devices are going to be written to: {error.strerror}.",
            "Make room there or correct testbed_state_dir, and run again.",
            path=testbed.state_dir,
        ) from error


def description_wrong(problems: list) -> Failure:
    sentences = [problem.sentence() for problem in problems]
    count = "1 problem" if len(sentences) == 1 else f"{len(sentences)} problems"
    return Failure(
        "description_wrong",
        f"The inventory has {count}, and nothing was touched.",
        "Correct this:\n"
        + "\n".join(f"- {text}" for text in sentences)
        + "\nThe playbook storlab.testbed.show draws what it describes, and touches nothing.",
        problems=[problem.as_dict() for problem in problems],
    )


def judged(lab: Lab, testbed: Testbed, require: str, owners: list) -> list:
    """The problems of the description, of variables that cannot be read, and of a state folder that is another inventory's."""
    problems = [*lab["unreadable"]]
    words = {inventory.word(problem) for problem in problems}
    answers = (check.check if require == "testbed" else check.check_results)(lab, testbed)
    # A value that cannot be read looks as if it were not set.
    problems += [problem for problem in answers if inventory.word(problem) not in words]
    return [*problems, *owner.problems(testbed.state_dir, testbed.testbed_id, owners)]


def with_kept_secrets(lab: Lab, testbed: Testbed) -> Testbed:
    """The testbed with the secrets that its state folder holds from now on; only a playbook that came second at the same time is expanded again."""
    kept = inventory.keep_secrets(testbed.state_dir, lab["secrets"])
    if kept == lab["secrets"]:
        return testbed
    lab["secrets"] = kept
    return expand.expand(lab)


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "hold": {"type": "bool", "default": False},
        "addresses": {"type": "dict", "default": {}},
        "built": {"type": "str", "choices": ["kept", "forgotten"]},
        "probes": {"type": "dict", "default": {}},
        "require": {"type": "str", "choices": ["testbed", "results"], "default": "testbed"},
        "scope": {"type": "str", "choices": sorted(limit.SCOPES), "default": "any"},
        "show": {"type": "bool", "default": False},
        # Checked as a whole, so that all that is wrong in it is reported at once, in the words of the description.
        "testbed": {"type": "raw"},
    }

    def perform(self, params: dict) -> dict:
        probes, show, require, keep = (params[key] for key in ("probes", "show", "require", "built"))
        probes = inventory.plain(probes)
        # Who looks at it needs no secrets.
        masked = bool(show or probes)
        lab = self._lab(params["testbed"], params["addresses"], masked or require != "testbed")
        testbed = expand.expand(lab)
        path = os.path.join(testbed.state_dir, "built.json")
        owners = owner.inventories(self.task_vars) if require == "testbed" else []
        problems = judged(lab, testbed, require, owners)
        if require == "testbed" and not (problems or show or probes or keep):
            before = read_json(path, kind=BUILT)
            problems = built.problems(before, testbed, path) if before else []
        if problems:
            raise description_wrong(problems)
        omitted = left_out(testbed, params["scope"], self.task_vars)
        if not self._task.check_mode:
            if not masked and require == "testbed":
                testbed = with_kept_secrets(lab, testbed)
                owner.claim(testbed.state_dir, owners)
            if params["addresses"]:
                write_json(os.path.join(testbed.state_dir, access.RECORD), lab["addresses"], indent=1)
        warnings = groups.remarks(lab, testbed) if require == "testbed" and not (probes or keep) else []
        warnings += [] if probes or keep else inventory.strange_tags(self.task_vars, list(self._task.tags))
        if keep and not self._task.check_mode:
            warnings += write_built(testbed, path, keep, self.task_vars)
        shown = {"drawing": drawing.draw(testbed), "yaml": drawing.as_yaml(testbed)} if show else {}
        if probes:
            shown |= self._examined(lab, testbed, probes, params["hold"])
        return {
            "changed": False,
            **({"warnings": warnings} if warnings else {}),
            # Faults shall be readable, but not secrets.
            "_ansible_no_log": not masked,
            "testbed_id": testbed.testbed_id,
            "state_dir": testbed.state_dir,
            "results_dir": testbed.results_dir,
            "guest_hosts": testbed.groups.get("guest_hosts", []),
            "layers": testbed.layers,
            "overwritten": [device.sentence() for device in devices.lost(testbed)],
            "without_address": access.without_address(lab, testbed),
            "absent_machines": absent_machines(testbed),
            "left_out": omitted,
            "hosts": {
                name: {
                    "platform": host.platform,
                    "variables": drawing.masked(host.variables) if masked else host.variables,
                    "because": host.because,
                    "stages": host.stages,
                    "depends_on": host.depends_on,
                    "needs": doctor.needs(testbed, name),
                }
                for name, host in testbed.hosts.items()
            },
            **shown,
        }

    def _lab(self, described: object, addresses: dict, masked: bool) -> Lab:
        """All that is known before the expansion, the secrets among it: it is done once, and what it answers is judged before anything is written."""
        roles = inventory.role_options()
        known = inventory.read(self.task_vars, self._templar.template, roles)
        if described is not None:
            for values in known["hosts"].values():
                values["testbed"] = inventory.plain(described)
        lab: Lab = {
            **known,
            "roles": roles,
            "facts": {},
            "base_dir": inventory.base_dir(self.task_vars),
            "profiles": inventory.profiles(known["hosts"]),
            "workloads": inventory.workloads(known["hosts"]),
            "secrets": inventory.masked_secrets(),
        }
        state_dir = expand.place(lab).state_dir
        lab["addresses"] = {**access.recorded(state_dir), **addresses}
        lab["published"] = inventory.published(state_dir)
        if not masked:
            drawn = {} if self._task.check_mode else inventory.drawn_secrets()
            lab["secrets"] |= {**drawn, **inventory.kept_secrets(state_dir)}
        return lab

    def _examined(self, lab: Lab, testbed: Testbed, probes: dict, hold: bool) -> dict:
        """The findings from the answers of the hosts; with ``hold`` a Failure where they forbid a build."""
        for host, layers in lab["published"].items():
            if probes.get(host):
                probes[host]["published"] = layers
        against = check.check({**lab, "facts": doctor.facts(probes)}, testbed)
        if hold and (against or doctor.unfit(testbed, probes)):
            raise description_wrong([*against, *doctor.unfit(testbed, probes)])
        notes = written.read(testbed.state_dir, probes)
        if hold:
            if strange := written.strange(testbed, probes, notes):
                raise written.not_blank(strange)
            if not self._task.check_mode:
                remember(testbed, probes, notes)
        wrong = [problem.sentence() for problem in against]
        lines = doctor.findings(testbed, probes, notes)
        return {"findings": lines, "problems": wrong, "table": doctor.printed(lines, wrong)}
