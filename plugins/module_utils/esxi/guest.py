# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One virtual machine of a testbed on an ESXi host: what the module esxi_vm takes and does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.layers import Layer
from ..core.steps import Step, shown
from . import machine_places, machine_plan, machine_want, unattended
from .belongings import kept
from .datastore import rescanned
from .machine import Machine
from .machine_state import CONFIGURED, find, hardware, look_beside, read, read_facts
from .params import VmParams
from .session import Session
from .states import HostSystem, IsoWant, MachineFacts, MachineState, MachineWant, VirtualMachine
from .transfer import AnswerStore, Import, IsoStore, Ova, answers_to_come, iso_plan, local_file

DISK: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "size_mib": {"type": "int"},
    "controller": {"type": "str", "choices": list(machine_want.CONTROLLERS), "default": "pvscsi"},
    "bus": {"type": "int"},
    "unit": {"type": "int"},
    "provisioning": {"type": "str", "choices": list(machine_want.PROVISIONING), "default": "eager"},
    "datastore": {"type": "str"},
    "rdm": {
        "type": "dict",
        "options": {
            "layer": {"type": "str"},
            "naa": {"type": "str"},
            "compatibility": {"type": "str", "choices": ["physical", "virtual"], "default": "physical"},
        },
    },
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent", "zeroed", "released", "installed"], "default": "present"},
    "name": {"type": "str", "required": True},
    "power": {"type": "str", "choices": ["on", "off", "as_is"], "default": "as_is"},
    "restart": {"type": "bool", "default": False},
    "datastore": {"type": "str"},
    "guest_id": {"type": "str"},
    "vcpus": {"type": "int"},
    "memory_mib": {"type": "int"},
    "reserve_memory": {"type": "bool", "default": True},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": DISK},
    "iso": {
        "type": "dict",
        "options": {"src": {"type": "path"}, "path": {"type": "str"}, "datastore": {"type": "str"}},
    },
    "unattended": {"type": "dict", "options": unattended.SPEC},
    "nics": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "network": {"type": "str", "required": True},
            "type": {"type": "str", "choices": ["vmxnet3", "e1000e", "e1000"], "default": "vmxnet3"},
        },
    },
    "extra_config": {"type": "dict", "default": {}},
    "template": {"type": "str"},
    "ova": {"type": "path"},
    "layers": {"type": "dict", "default": {}},
    "allow_device": {"type": "list", "elements": "str", "default": []},
    "wait_for_address_s": {"type": "int", "default": 0},
}


class Source:
    """The source of a machine: nothing, a template or an OVA. state describes it before it is there."""

    def __init__(self, session: Session, machine: Machine) -> None:
        self.session, self.machine, self.ova = session, machine, None
        self.template: Any = None
        self.state: Any = None
        want, host = machine.want, machine.host
        if want["template"]:
            if session.about["kind"] != "VirtualCenter":
                raise Failure(
                    "template_needs_vcenter",
                    f"{session.params['hostname']} is a host on its own, which cannot clone the template {want['template']}.",
                    "Go through its vCenter, or use ova.",
                )
            self.template, _here = find(session, host, want["template"])
            if self.template is None:
                raise bad_value("template", want["template"], "Name a template that the vCenter has.")
            self.state = read(session, host, self.template)
        elif want["ova"]:
            self.ova = Ova(want["ova"])
            self.task = Import(session, host, self.ova, want, machine.pool())
            with session.doing("read what the OVA describes"):
                self.state = {**machine_plan.BLANK, **hardware(session, host, self.task.config, self.task.devices())}

    def make(self) -> None:
        if self.template is not None:
            self.machine.clone(self.template, self.state)
        elif self.ova is not None:
            try:
                self.task.run(self.machine.stamps(self.state), self.machine.folder())
            finally:
                self.machine.vm = self.task.vm
                self.ova.close()
        else:
            self.machine.create()


class Answers:
    """The answer file of an unattended installation, which is put into a drive until the installation has ended, and never under a machine that runs."""

    def __init__(
        self, session: Session, host: HostSystem, params: VmParams, want: MachineWant, state: MachineState | None
    ) -> None:
        self.session, self.host, self.testbed_id = session, host, want["testbed_id"]
        self.words: Any = unattended.check(params) if params["unattended"] else None
        self.iso: IsoWant | None = None
        self.store: Any = None
        self.steps: list[Step] = []
        done = state is not None and state["extra"].get(machine_plan.INSTALLED_KEY) == "TRUE"
        running = state is not None and state["power"] != "off"
        if self.words and not done and not running:
            unattended.check_machine(params)
            self.iso = unattended.answers_of(want["testbed_id"], want["name"], want["datastore"])
            want["answers"] = self.iso

    def plan(self, to_come: Mapping[str, object]) -> None:
        """The step that uploads it. to_come: the datastores that the same build makes."""
        if self.iso and self.iso["datastore"] in to_come:
            self.steps = answers_to_come(self.iso, self.words)
        elif self.iso:
            self.store = AnswerStore(self.session, self.host, self.iso, self.testbed_id)
            self.steps = self.store.plan_answers(self.words)

    def upload(self) -> None:
        for step in self.steps:
            self.store.upload_answers(step, self.words)

    def take_back(self) -> None:
        """However often it was uploaded: it holds a password, and the next run makes it again."""
        if self.steps:
            self.store.remove()


def present(session: Session, host: HostSystem, params: VmParams, check_mode: bool) -> dict[str, Any]:
    want = machine_want.check(params)
    vm, here = find(session, host, want["name"])
    state: Any = read(session, host, vm) if vm is not None else None
    if state is not None:
        machine_places.own(state, want)
        state = look_beside(session, vm, state) if state["building"] else state
    answers = Answers(session, host, params, want, state)
    machine = Machine(session, host, vm, want)
    moves = away(session, host, vm) if state is not None and not here else []
    facts = read_facts(session, host, [disk["rdm"]["naa"] for disk in want["disks"] if disk["rdm"]])
    source = Source(session, machine) if state is None or state["building"] else None
    iso = want["iso"]
    # In check mode a datastore may be one that the same build makes.
    to_come = datastores_to_come(params["layers"], facts["datastores"]) if check_mode else {}
    facts["datastores"].update(to_come)
    coming = bool(iso and iso["datastore"] in to_come)
    image: Any = IsoStore(session, host, iso, want["testbed_id"]) if iso and not coming else None
    steps = machine_plan.plan(state, want, facts, source.state if source else None)
    answers.plan(to_come)
    uploads = image.plan() if image else upload_to_come(iso, want["testbed_id"]) if coming else []

    def upload() -> None:
        if uploads:
            image.upload(uploads[0])
        answers.upload()

    def take_back() -> None:
        try:
            answers.take_back()
        finally:
            if uploads and uploads[0]["was"] is None:
                image.remove()

    if not check_mode:
        if moves:
            machine.move()
        steps = carry_out(
            session,
            machine,
            state,
            facts,
            steps,
            source,
            upload,
            take_back,
        )
        state = read(session, host, machine.vm) if steps else state
    result = shown([*moves, *uploads, *answers.steps, *steps])
    if state is not None and not (check_mode and state["building"]):
        reserved = state["locked"] and state["reservation_mib"] == state["memory_mib"]
        result["vm"] = {
            **{key: state[key] for key in ("power", "path", "uuid", "guest_id", "vcpus", "memory_mib")},
            "name": want["name"],
            "memory_reserved": reserved,
        }
    result["disks"] = machine_plan.disk_facts(state, want) if state is not None else []
    if params["wait_for_address_s"] and not check_mode:
        result["address"] = machine.wait_for_address(params["wait_for_address_s"])
    return result


def datastores_to_come(layers: dict[str, Layer], there: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """The datastores that are layers of the testbed and that the host does not have, because a build in check mode makes none. They are as large as needed."""
    names = {
        (layer.get("identity") or {}).get("datastore") for layer in layers.values() if layer.get("kind") == "datastore"
    }
    return {str(name): {"accessible": True, "free_bytes": sys.maxsize} for name in names - {None} - set(there)}


def upload_to_come(iso: IsoWant, testbed_id: str) -> list[Step]:
    """The step that brings an image onto a datastore that is yet to be made."""
    return iso_plan(iso, testbed_id, None, None, local_file(iso["src"]) if iso["src"] else None)


def away(session: Session, host: HostSystem, vm: VirtualMachine) -> list[Any]:
    """The step that brings a machine of this testbed back from the host to which its cluster has moved it."""
    with session.doing("look where the virtual machine is"):
        return [{"op": "move", "target": vm.name, "was": vm.runtime.host.name, "will": host.name}]


def carry_out(
    session: Session,
    machine: Machine,
    state: Any,
    facts: MachineFacts,
    steps: list[Step],
    source: Any,
    upload: Any,
    take_back: Any,
) -> list[Any]:
    """The steps that were taken. A machine that could not be completed is destroyed again, and so is the image that was uploaded for it."""
    number = next((number for number, step in enumerate(steps) if step["op"] == "create"), None)
    # The steps that remove a half-made one come before.
    creation = steps[: number + 1] if number is not None else []
    upload_done = False
    try:
        upload()
        upload_done = True
        if not creation:
            machine.apply(steps, state, facts)
            return steps
        if creation[:-1]:
            before: Any = {**state, "building": False}
            machine.apply(creation[:-1], before, facts)
            machine.vm = None
        source.make()
        state = read(session, machine.host, machine.vm)
        rest = machine_plan.with_power(state, machine.want, machine_plan.changes(state, machine.want, facts))
        if not any(step["op"] in CONFIGURED for step in rest):
            machine.finish(building=True)
        machine.apply(rest, state, facts)
        return [*creation, *rest]
    except Failure:
        with contextlib.suppress(Failure):
            if creation and upload_done and machine.vm is not None:
                machine.remove()
        with contextlib.suppress(Failure):
            take_back()
        raise


def absent(session: Session, host: HostSystem, params: VmParams, check_mode: bool) -> dict[str, Any]:
    image: Any = IsoStore.of(session, host, params) if params["state"] == "absent" else None
    answers: Any = AnswerStore.of(session, host, params) if params["state"] == "absent" else None
    want: MachineWant = {
        "name": params["name"],
        "testbed_id": params["testbed_id"],
        "iso": image.iso if image else None,
        "answers": answers.iso if answers else None,
    }
    vm, _here = find(session, host, params["name"])
    state: Any = read(session, host, vm) if vm is not None else None
    if params["state"] == "released" and state is not None and not check_mode:
        # Only a rescan shows the host that the disk behind a datastore was replaced.
        with session.doing("look where the machine lies"):
            names = [store.name for store in vm.datastore]
        rescanned(session, host, names, params["timeout_s"])
        state = read(session, host, vm)
    if params["state"] == "absent" and state is not None:
        machine_places.own(state, want)
        state = look_beside(session, vm, state)
    steps = (machine_plan.absent_plan if params["state"] == "absent" else machine_plan.released_plan)(state, want)
    left = kept(steps, state)
    removals = [(each, each.removal(params["name"])) for each in (image, answers) if each]
    if not check_mode:
        Machine(session, host, vm, want).apply(steps, state, {})
        for each, removal in removals:
            if removal:
                each.remove()
    gone = [step for _each, removal in removals for step in removal]
    return {**shown([*steps, *gone]), **({"kept_for_others": left} if params["state"] == "absent" else {})}


def zeroed(session: Session, host: HostSystem, params: VmParams, check_mode: bool) -> dict[str, Any]:
    want: MachineWant = {"name": params["name"], "testbed_id": params["testbed_id"], "restart": params["restart"]}
    vm, _here = find(session, host, params["name"])
    state: Any = read(session, host, vm) if vm is not None else None
    steps = machine_plan.zero_plan(state, want, [disk["name"] for disk in params["disks"]])
    if not check_mode:
        Machine(session, host, vm, want).apply(steps, state, {})
    return shown(steps)


def installed(session: Session, host: HostSystem, params: VmParams, check_mode: bool) -> dict[str, Any]:
    """The answer file's image goes, and with it the password; the note comes first, so that no later run puts it back."""
    answers = AnswerStore(
        session,
        host,
        unattended.answers_of(params["testbed_id"], params["name"], params["datastore"]),
        params["testbed_id"],
    )
    want: MachineWant = {"name": params["name"], "testbed_id": params["testbed_id"], "answers": answers.iso}
    vm, _here = find(session, host, params["name"])
    state: Any = read(session, host, vm) if vm is not None else None
    steps, removal = machine_plan.installed_plan(state, want), answers.removal(params["name"])
    if not check_mode:
        Machine(session, host, vm, want).apply(steps, state, {})
        if removal:
            answers.remove()
    return shown([*steps, *removal])


def ensure(session: Session, params: VmParams, check_mode: bool) -> dict[str, Any]:
    work = {"present": present, "absent": absent, "released": absent, "zeroed": zeroed, "installed": installed}[
        params["state"]
    ]
    return work(session, session.host(), params, check_mode)
