# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of an unattended installation on an ESXi host: pure functions."""

from __future__ import annotations

import json
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.steps import Step
from . import belongings
from .machine_places import own
from .machine_plan import lost_parts
from .params import InstallationParams
from .states import InstallationWant, MachineState

RECORD_KEY = "storlab.testbed.installation"
SCHEMA = "storlab.installation/1"
UNTIL = ("powered_off", "tools_running", "address")


def named(name: str, repetition: int | None) -> str:
    """The name with the number of repetition, where there are several."""
    return name if repetition is None else f"{name}.r{repetition}"


def check(params: InstallationParams) -> InstallationWant:
    values: Any = params
    want: Any = {
        key: values[key]
        for key in (
            "testbed_id",
            "name",
            "run_id",
            "until",
            "installation_timeout_s",
            "settle_s",
            "reconnect_s",
            "join",
            "power_off_at_timeout",
        )
    }
    if not want["run_id"]:
        raise bad_value("run_id", want["run_id"], "Name the run that the installation belongs to.")
    repetition = values["repetition"]
    if repetition is not None and repetition < 1:
        raise bad_value(f"repetition of {want['name']}", repetition, "Repetitions are numbered from 1.")
    for key, least in (("installation_timeout_s", 1), ("settle_s", 0), ("reconnect_s", 0)):
        if want[key] < least:
            raise bad_value(f"{key} of {want['name']}", want[key], f"Give at least {least}.")
    # The machine remembers for which repetition it was installed, too.
    want["run_id"] = named(want["run_id"], repetition)
    wanted: InstallationWant = want
    return wanted


def record_of(state: MachineState) -> dict[str, object]:
    """The notes in the machine; {} when it never was installed."""
    text = state["extra"].get(RECORD_KEY)
    if not text:
        return {}
    try:
        record: dict[str, Any] = json.loads(text)
        record["run_id"]
        return record
    except (ValueError, KeyError, TypeError):
        raise Failure(
            "record_damaged",
            f"The setting {RECORD_KEY} of the machine is not what this collection wrote.",
            "Recreate the machine.",
        ) from None


def plan(state: MachineState | None, want: InstallationWant) -> list[Step]:
    """Steps [{op, target, was, will}]; none when the installation is over and remembered as this run's."""
    name = want["name"]
    if state is None:
        raise Failure(
            "vm_missing",
            f"There is no virtual machine {name}.",
            "Build it first, with an ISO image in its drive.",
            name=name,
        )
    own(state, want)
    if state["building"]:
        raise Failure("vm_incomplete", f"The virtual machine {name} was made half.", "Build it again first.", name=name)
    if not state["accessible"] or lost_parts(state):
        raise Failure(
            "vm_lost",
            f"Files of the virtual machine {name} are not accessible.",
            "Build its datastore and the machine again.",
            name=name,
        )
    record = record_of(state)
    if not record:
        _medium(state, want)
        if state["power"] == "off":
            return fresh(want)
        if not want["join"]:
            raise Failure(
                "vm_running",
                f"The virtual machine {name} is {state['power']}, so it is not known what of its installation has passed.",
                "Recreate it and leave it off, or set join to take the time since it was turned on.",
                name=name,
            )
        return [_remember(want), _wait(want)]
    if record["run_id"] != want["run_id"]:
        if "finished_utc" in record or "given_up_utc" in record:
            raise Failure(
                "already_installed",
                f"The virtual machine {name} was installed already, in run {record['run_id']}.",
                "Recreate it, so that its disk is empty: state absent, then present.",
                name=name,
                run_id=record["run_id"],
            )
        raise Failure(
            "installation_running",
            f"The virtual machine {name} is being installed for run {record['run_id']}.",
            "Name that run to join it.",
            name=name,
            run_id=record["run_id"],
        )
    if "given_up_utc" in record:
        raise Failure(
            "installation_given_up",
            f"The installation of {name} took too long and was ended at {record['given_up_utc']}.",
            "Recreate the machine, and allow more time in installation_timeout_s.",
            name=name,
        )
    if "finished_utc" in record:
        return []
    # It was about to be turned on when a run was cut off. Whether it was, its events say.
    again = [_power_on(want)] if "started_utc" not in record and state["power"] == "off" else []
    return [*again, _wait(want)]


def fresh(want: InstallationWant) -> list[Any]:
    """The steps of a machine that has just been made."""
    return [_remember(want), _power_on(want), _wait(want)]


def _medium(state: MachineState, want: InstallationWant) -> None:
    name = want["name"]
    if not state["disks"]:
        raise Failure(
            "disk_missing",
            f"The virtual machine {name} has no disk to install on.",
            "Give the guest one in esxi.disks.",
            name=name,
        )
    if iso_of(state) is None:
        raise Failure(
            "iso_missing",
            f"The virtual machine {name} has no ISO image in its CD-ROM drive.",
            "Name the image to install from in esxi.iso of the guest.",
            name=name,
        )


def _remember(want: InstallationWant) -> Step:
    return {"op": "remember", "target": want["name"], "was": None, "will": f"run {want['run_id']}"}


def _power_on(want: InstallationWant) -> Step:
    return {"op": "power_on", "target": want["name"], "was": "off", "will": "on"}


def _wait(want: InstallationWant) -> Step:
    return {"op": "wait", "target": want["name"], "was": None, "will": f"the installation ends: {want['until']}"}


def iso_of(state: MachineState) -> str | None:
    return next((drive["iso"] for drive in state["cdroms"] if (drive["iso"] or "").startswith("[")), None)


def system_disk(state: MachineState) -> dict[str, Any]:
    """The first disk that came with the machine; one that somebody attached may come before it."""
    mine = [disk["key"] for disk in belongings.owned(state).values()]
    disk: dict[str, Any] = next((disk for disk in state["disks"] if disk["key"] in mine), state["disks"][0])
    return disk
