# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs the software iSCSI adapter of an ESXi host in to targets, and gives the adapter back as it was.

Before anything is changed, the state of the host is written to the testbed's record on the controller. A failed change is undone, unless the
way to the host is what failed: then it is kept, and the next run goes on from there.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.iscsi_names import check_chap, check_known_iqn, iqn_key, portal_address
from ..core.kept_record import KeptRecord
from ..core.layers import Layer
from ..core.luns import CHAP_SPEC, LUN_SPEC, PORTAL_SPEC, expected, layers_of
from ..core.secrets import keep_secret
from ..core.steps import Step, shown
from . import network, scsi
from . import options as host_options
from .adapter import RESCAN_EVERY_S, Adapter, host_limits, mapped, odd_serials, prove, read, target_foreign
from .adapter_plan import (
    ADAPTER,
    CHAP,
    LOOKING,
    SECRETS,
    absent_plan,
    as_done,
    came_later,
    entries,
    entry_key,
    kept,
    missing,
    plan,
    refuse_used,
    settled,
)
from .area import HostArea
from .params import IscsiParams
from .session import Session
from .states import AdapterLun, AdapterState, AdapterWant, HostSystem

# After these it is unknown what the host has done, and nothing can be undone.
LINE_LOST = ("connection_lost", "session_lost")


def memories(params: IscsiParams, host_name: str) -> tuple[KeptRecord, KeptRecord]:
    """The notes of one host on the controller: the testbed's record, and which options changed since the host started."""
    folder = params["state_dir"]
    return KeptRecord(folder, f"iscsi-{params['testbed_id']}", host_name), KeptRecord(folder, "start", host_name)


def check(params: IscsiParams) -> AdapterWant:
    """The wish, from the module's parameters; raises bad_value."""
    check_known_iqn("iscsi_initiator_name", params["initiator_name"])
    if params["queue_depth"] is not None and not 1 <= params["queue_depth"] <= 255:
        raise bad_value("iscsi_initiator_queue_depth", params["queue_depth"], "Give 1 to 255.")
    targets = []
    for target in params["targets"]:
        check_known_iqn("iscsi_initiator_targets iqn", target["iqn"])
        check_chap(f"iscsi_initiator_targets {target['iqn']}", target, allow_none=True)
        portal = {
            **target["portal"],
            "address": portal_address(f"iscsi_initiator_targets {target['iqn']} portal", target["portal"]["address"]),
        }
        luns = [{**expected(lun, target["iqn"], params["layers"]), "layer_kind": "initiator"} for lun in target["luns"]]
        targets.append({**target, "portal": portal, "luns": luns})
    own = params["adapter_chap"]
    if own:
        check_chap("iscsi_initiator_esxi_adapter_chap", own, allow_none=False)
    return {
        "testbed_id": params["testbed_id"],
        "name": params["initiator_name"],
        "targets": targets,
        "adapter_chap": {key: own[key] or "" for key in CHAP} if own else None,
        "options": params["options"],
        "host_options": params["host_options"],
        "queue_depth": params["queue_depth"],
        "port_binding": params["port_binding"],
    }


class Login:
    """One host's adapter on its way to what is wanted."""

    def __init__(
        self,
        session: Session,
        host: HostSystem,
        params: IscsiParams,
        want: AdapterWant,
        records: tuple[KeptRecord, KeptRecord],
    ) -> None:
        self.session, self.host, self.want = session, host, want
        self.record, self.start = records
        self.wait_s = params["wait_s"]
        known = [*want["host_options"], *self.start.data.get("running", {}).get("host_option", {})]
        self.keys = sorted({*known, *self.record.data.get("before", {}).get("host_options", {})})
        self.limits = host_limits(session, host, self.keys)
        self.state = self.look()
        self.running = host_options.this_start(self.start.data, self.state["boot_time"])
        self.adapter = Adapter(session, host, self.wait_s, self.state["device"])
        self.earlier, self.before = copy.deepcopy(self.record.data), as_it_was(self.state)
        self.done: list[Step] = []

    def refuse_used(self, steps: list[Step]) -> None:
        if any(step["op"] == "remove_target" for step in steps):
            refuse_used(self.state, steps, mapped(self.session))

    def look(self) -> AdapterState:
        return {**read(self.session, self.host, self.keys), "host_limits": self.limits}

    def noted(self, steps: Iterable[Step]) -> dict[str, Any]:
        return host_options.noted(self.running, list(steps), sessions=bool(self.state["targets"]))

    def pending(self, steps: Iterable[Step] = ()) -> list[dict[str, Any]]:
        """The options that will hold only from the next start on when these steps are done, noted or not, as in check mode."""
        return host_options.pending(self.noted(steps), self.state, steps)

    def keep_start(self, steps: list[Step]) -> None:
        """Keep what these steps change that holds only from the next start on; forget what is as it was."""
        self.running = self.noted(steps)
        if self.pending(steps):
            self.start.data = self.running
            self.start.save()
        else:
            self.start.forget()

    def log_in(self, steps: list[Step]) -> list[Any]:
        """Take the steps and return the LUNs of the host once all that are wanted are there and proven."""
        if any(step["op"] not in LOOKING for step in steps):
            self.remember()
            self.keep_start(steps)
        try:
            for step in steps:
                self.adapter.apply(step)
                self.done.append(step)
                self.note(step)
            luns = self.adapter.wait(self.want["targets"])
            self.settle()
        except Failure as failure:
            if failure.code not in LINE_LOST and self.undo():
                self.restore()
            raise
        return luns

    def note(self, step: Step) -> None:
        """Keep what is known only now."""
        if step["op"] == "enable" and self.before["iqn"] is None:
            # Only now there is an adapter whose name and options can be read.
            self.before.update({key: value for key, value in as_it_was(self.look()).items() if key in ADAPTERS_OWN})
            self.record.data["before"].update({key: self.before[key] for key in ADAPTERS_OWN})
            self.record.save()
        if step["op"] in ("chap", "chap_found"):
            self.record.data.setdefault("secrets", {})[step["target"]] = {
                key: keep_secret(step["entry"][key]) for key in SECRETS if step["entry"][key]
            }
            self.record.save()

    def settle(self) -> None:
        """Wait until the host shows what was done, so that who reads it next sees it."""
        self.state = self.session.until(
            self.look, lambda state: settled(state, self.want, self.record.data), self.wait_s
        )
        if not settled(self.state, self.want, self.record.data):
            late = [step for step in plan(self.state, self.want, self.record.data) if step["op"] not in LOOKING]
            raise Failure(
                "change_unseen",
                f"The host does not show a change {self.wait_s} s after it was made: {late[0]['op']} {late[0]['target']}.",
                "Look at the host's events; a longer iscsi_initiator_esxi_wait_s may help.",
            )

    def remember(self) -> None:
        """The notes that the teardown needs, written before anything is changed."""
        known, want = self.record.data, self.want
        before = known.get("before") or copy.deepcopy(self.before)
        # An option that is asked for later was still the host's own until now.
        before["host_options"] = {
            **{key: value for key, value in self.state["host_options"].items() if key in want["host_options"]},
            **before["host_options"],
        }
        bound = {name for name in want["port_binding"] if name not in self.state["bound"]}
        known.update(
            before=before,
            targets=sorted({*known.get("targets", []), *(entry_key(entry) for entry in entries(want["targets"]))}),
            bound=sorted({*known.get("bound", []), *bound}),
            options=sorted({*known.get("options", []), *want["options"]}),
            queue_depth=bool(want["queue_depth"]) or known.get("queue_depth", False),
        )
        self.record.save()

    def forget(self, owing: bool) -> None:
        """Drop the record, or of it what is given back already, when settings are kept for others that a later teardown must give back."""
        if not owing:
            self.record.forget()
            return
        data = self.record.data
        secrets = {name: secret for name, secret in data.get("secrets", {}).items() if name == ADAPTER}
        data.update(targets=[], secrets=secrets, queue_depth=False, before={**data["before"], "host_options": {}})
        self.record.save()

    def undo(self) -> bool:
        """Give back what this call has changed, and whether that was possible: a fault on the way is not the one that the user must hear of."""
        added = [step["entry"] for step in self.done if step["op"] == "add_target"]
        changes = {
            "before": self.before,
            "targets": [entry_key(entry) for entry in added],
            "bound": [step["target"] for step in self.done if step["op"] == "bind"],
            "options": [key for step in self.done if step["op"] == "options" for key in step["will"]],
            "queue_depth": any(step["op"] == "queue_depth" for step in self.done),
            "secrets": {step["target"]: True for step in self.done if step["op"] == "chap"},
        }
        try:
            # The last change may not show yet.
            self.state = as_done(self.look(), self.done)
            give_back(self, absent_plan(self.state, changes), changes)
        except Failure:
            return False
        return True

    def restore(self) -> None:
        """The record as it was before a call that failed. Whether a secret that was set since is the old one is unknown."""
        for step in self.done:
            self.earlier.get("secrets", {}).pop(step["target"], None)
        self.record.data = self.earlier
        if self.earlier:
            self.record.save()
        else:
            self.record.forget()
        self.keep_start([])


ADAPTERS_OWN = ("iqn", "alias", "options")


def as_it_was(state: AdapterState) -> dict[str, Any]:
    """The state that a teardown restores. Without an adapter its name and options are not known yet (None and {})."""
    own = {key: state[key] for key in ("enabled", "iqn", "alias", "options", "module_options", "host_options")}
    return {**own, "targets": [entry_key(target) for target in state["targets"]]}


def give_back(login: Login, steps: list[Step], memory: dict[str, Any]) -> None:
    """Take the steps of an ``absent_plan``, and wait until the host shows that all of them are done."""
    removed = {iqn_key(step["entry"]["iqn"]) for step in steps if step["op"] == "remove_target"} - {""}

    def left(state: AdapterState) -> list[object]:
        targets = {iqn_key(target["iqn"]) for target in state["targets"]}
        devices = [lun for lun in state["luns"] if iqn_key(lun["iqn"]) in removed - targets]
        return devices + [step for step in absent_plan(state, memory) if step["op"] not in (*LOOKING, "disable")]

    def wait(done: Any, timeout_s: float) -> None:
        login.state = login.session.until(login.look, done, timeout_s)

    last = [step for step in steps if step["op"] == "disable"]
    for step in steps:
        if step not in last:
            login.adapter.apply(step)
    deadline = time.monotonic() + login.wait_s
    while True:
        wait(lambda state: not left(state), min(RESCAN_EVERY_S, login.wait_s))
        if not left(login.state) or time.monotonic() > deadline:
            break
        # A device that carried an unmounted volume goes with the rescan after the one that made the host forget the volume.
        login.adapter.apply({"op": "rescan", "target": "adapter"})
    for step in last:
        login.adapter.apply(step)
        wait(lambda state: not state["enabled"], login.wait_s)


def kept_text(device: str | None, left: list[dict[str, Any]], others: list[str]) -> str:
    settings = ", ".join(item["setting"] for item in left)
    return (
        f"{settings} of {device} stay as this testbed has set them, because targets of others are configured there: {', '.join(others)}. "
        "Run teardown again when they are gone."
    )


def after(pending: Collection[object]) -> dict[str, Any]:
    return {"reboot_required": bool(pending), "restart_pending": pending}


def marked(
    layer: Layer, pending: Sequence[Mapping[str, object]], disks: dict[tuple[str, int], AdapterLun]
) -> dict[str, Any]:
    """A layer that says which options do not hold yet, and which paths are down, so that results measured at that time can say so."""
    texts = [f"{item['option']}: {item['configured']} is configured, {item['running']} holds" for item in pending]
    disk = disks.get((layer["identity"]["target_iqn"], layer["identity"]["lun"]))
    marks = {
        "restart_pending": texts,
        "paths_degraded": scsi.ways_text(disk["ways"]) if disk and scsi.degraded(disk["state"]) else None,
    }
    return {**layer, "detail": {**layer["detail"], **{key: value for key, value in marks.items() if value}}}


def degraded(disks: dict[tuple[str, int], AdapterLun]) -> list[str]:
    """The report on LUNs that work by fewer paths than they should have."""
    return [
        f"LUN {number} of {iqn} is degraded ({scsi.ways_text(disk['ways'])}): I/O is possible, and results measured over it are flagged."
        for (iqn, number), disk in sorted(disks.items())
        if scsi.degraded(disk["state"])
    ]


# ---- the module

TARGET: dict[str, Any] = {
    "iqn": {"type": "str", "required": True},
    "portal": {"type": "dict", "required": True, "options": PORTAL_SPEC},
    "discovery": {"type": "str", "choices": ["dynamic", "static"], "default": "dynamic"},
    "discovery_chap": {"type": "bool", "default": False},
    **CHAP_SPEC,
    "luns": {"type": "list", "elements": "dict", "required": True, "options": LUN_SPEC},
}
ADAPTER_CHAP: dict[str, Any] = {
    key: {**value, "required": not key.startswith("mutual")} for key, value in CHAP_SPEC.items()
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "initiator_name": {"type": "str"},
    "layers": {"type": "dict", "default": {}},
    "options": {"type": "dict", "default": {}},
    "host_options": {"type": "dict", "default": {}},
    "queue_depth": {"type": "int"},
    "port_binding": {"type": "list", "elements": "str", "default": []},
    "adapter_chap": {"type": "dict", "options": ADAPTER_CHAP},
    "wait_s": {"type": "int", "default": 60},
    "targets": {"type": "list", "elements": "dict", "default": [], "options": TARGET},
}


class Area(HostArea):
    """The software iSCSI adapter and its logins. The answer may have ``warnings``."""

    def plan(self) -> list[Step]:
        params, session = self.params, self.session
        host = session.host()
        with session.doing("read the host's name"):
            name = host.name
        want: AdapterWant = {"host_options": {}, "targets": []}
        if self.present:
            want = check(params)
            want["port_binding"] = network.devices_of(session, host, want["port_binding"])
        self.want = want
        self.login = login = Login(session, host, params, want, memories(params, name))
        self.luns = login.state["luns"]
        self.waited: dict[str, float] = {}
        if not self.present:
            self.left = kept(login.state, login.record.data)
            self.others = (
                [entry_key(target) for target in came_later(login.state, login.record.data)] if self.left else []
            )
            return absent_plan(login.state, login.record.data)
        wanted = {entry_key(entry) for entry in entries(want["targets"])} - set(login.record.data.get("targets", []))
        for target in login.state["targets"]:
            if entry_key(target) in wanted and not target["discovered"]:
                raise target_foreign(entry_key(target))
        return plan(login.state, want, login.record.data)

    def guard(self, steps: list[Step]) -> None:
        """In check mode the layers above have not been taken away, so that users prove nothing."""
        if not self.check_mode:
            self.login.refuse_used(steps)

    def apply(self, steps: list[Step]) -> None:
        if self.present:
            begun = time.monotonic()
            self.luns = self.login.log_in(steps)
            self.waited = {"waited_s": round(time.monotonic() - begun, 2)}
            return
        if steps:
            self.login.keep_start(steps)
            give_back(self.login, steps, self.login.record.data)
        self.login.forget(owing=bool(self.left))

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        pending = self.login.pending(steps if self.check_mode else ())
        name = self.login.adapter.known
        if not self.present:
            return {
                "kept_for_others": self.left,
                "warnings": [kept_text(name, self.left, self.others)] if self.left else [],
                **after(pending),
                **shown(steps, quiet=LOOKING),
            }
        targets = self.want["targets"]
        disks: Any = {} if missing(self.luns, targets) else prove(targets, self.luns)
        return {
            "luns": self.luns,
            "layers": [marked({**layer, "path": None}, pending, disks) for layer in layers_of(targets, disks, "esxi")],
            "warnings": odd_serials(targets, disks) + degraded(disks),
            **after(pending),
            **self.waited,
            **({"adapter": name} if name else {}),
            **shown(steps, quiet=LOOKING),
        }
