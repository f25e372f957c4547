# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe over TCP: connections of one testbed, kept apart from all others by a host name (NQN) of its own.

They are made where nvme-cli makes them, at /dev/nvme-fabrics, without it: nvme-cli takes the keys in its arguments, where every user of the host can read them.
The host's own /etc/nvme/hostnqn does not change. Several paths to one subsystem become one disk by the kernel's own multipath.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import socket
from collections.abc import Sequence
from typing import Any, TypedDict

from ...core import nvme_names
from ...core.failure import Failure
from ...core.iscsi_names import portal_text
from ...core.secrets import keep_secret, same_secret
from ...core.steps import Step
from ..disks import block_device
from ..host import NVME_TCP, load_module, loaded_modules, nvme_connections, read_text, wait_for, write_text
from ..nouns import LoginTarget, Tuning
from ..record import Record
from .open_iscsi import check_identity, credentials, place_of

CONTROLLERS = "/sys/class/nvme"
DISKS = "/sys/block"
FABRICS = "/dev/nvme-fabrics"
LIVE = "live"
# The kernel tries to connect again this often, and never gives up: a target that comes back is found again, as with iSCSI.
RECONNECT_S = 2
FOR_EVER = -1
# Settings that a connection keeps for its whole life.
LIFELONG = ("queue_depth", "noop_interval_s", "noop_timeout_s")
# The kernel takes no other sizes of a queue.
QUEUE_SIZES = (16, 1024)
# Refused for a missing or wrong key: what the kernel says of it differs between releases.
KEY_ERRORS = (errno.EKEYREJECTED, errno.EACCES, errno.EPERM, errno.ECONNREFUSED)


class Controller(TypedDict):
    """A connection to a subsystem at one of its portals, as the kernel states it."""

    name: str
    nqn: str
    host: str
    place: str
    state: str
    fast_io_fail_tmo: str


class PathState(TypedDict):
    """controller: None without one. busy: who uses its disks. in_force: whether it has the wanted keys; kept: the settings that it was made with."""

    controller: Controller | None
    busy: list[str]
    in_force: bool | None
    kept: dict[str, int]


def connect_options(target: LoginTarget, host: str, tuning: Tuning) -> str:
    """The text for /dev/nvme-fabrics."""
    depth = max(QUEUE_SIZES[0], min(QUEUE_SIZES[1], tuning["queue_depth"]))
    values: dict[str, Any] = {
        "transport": "tcp",
        "traddr": target["portal"]["address"],
        "trsvcid": target["portal"]["port"],
        "nqn": nvme_names.nqn_of(target["iqn"]),
        "hostnqn": host,
        "hostid": nvme_names.host_id(host),
        "queue_size": depth,
        "reconnect_delay": RECONNECT_S,
        "ctrl_loss_tmo": FOR_EVER,
        "fast_io_fail_tmo": tuning["replacement_timeout_s"],
    }
    if tuning["noop_interval_s"]:
        # The kernel asks twice in this time, so it notices within one of them that nothing answers.
        values["keep_alive_tmo"] = tuning["noop_interval_s"] + tuning["noop_timeout_s"]
    for option, key in (("dhchap_secret", target.get("chap_password")), ("dhchap_ctrl_secret", mutual(target))):
        if key:
            values[option] = nvme_names.dhchap_key(key, host)
    return ",".join(f"{name}={value}" for name, value in values.items())


def mutual(target: LoginTarget) -> str | None:
    return target.get("mutual_chap_password")


def plan(current: PathState, target: LoginTarget, tuning: Tuning) -> list[Step]:
    """Steps for one path to a target. Raises relogin_pending for one that cannot connect with other keys now, because its disks are used."""
    name: Step = {"target": nvme_names.nqn_of(target["iqn"]), "portal": portal_text(**target["portal"])}
    controller = current["controller"]
    if controller is None:
        return [{"op": "connect", **name, "was": "no connection", "will": LIVE}]
    again: Step = {"op": "reconnect", **name, "was": controller["state"], "will": LIVE}
    if controller["state"] != LIVE:
        outdated = current["in_force"] is False
        return [again if outdated else {"op": "recover", **name, "was": controller["state"], "will": LIVE}]
    if current["in_force"] is False and current["busy"]:
        raise Failure(
            "relogin_pending",
            f"The connection to {name['target']} at {name['portal']} was made with other secrets than are wanted now, so it ends for good when it breaks; and "
            f"it cannot be made again while it is in use ({'; '.join(current['busy'])}).",
            "Stop what uses its disks (teardown does) and build again, or set the former secret again on both sides.",
            target_iqn=target["iqn"],
            portal=name["portal"],
            uses=current["busy"],
        )
    settings: Any = tuning
    changed = any(current["kept"].get(key) != settings[key] for key in LIFELONG)
    # A connection in use is not torn down for it: it takes effect at the next one.
    if current["in_force"] is False or (changed and not current["busy"]):
        return [again]
    wanted = str(tuning["replacement_timeout_s"])
    if controller["fast_io_fail_tmo"] not in ("", wanted):
        was = controller["fast_io_fail_tmo"]
        return [{"op": "set_replacement_timeout", **name, "was": was, "will": wanted}]
    return []


class NvmeTcp:
    """The connections of one testbed on this host."""

    MODULES = (NVME_TCP,)

    def __init__(self, testbed_id: str, tuning: Tuning) -> None:
        self.tuning = tuning
        self.record = Record(testbed_id, "nvme_session")

    # -- what is there

    def hosts(self) -> list[str]:
        """The names under which this testbed has connected."""
        return list(self.record.data.get("hosts", []))

    @staticmethod
    def all_controllers() -> list[Controller]:
        """Every connection of this host over TCP, whoever made it."""
        controllers: list[Controller] = []
        for folder in nvme_connections():
            words = dict(word.partition("=")[::2] for word in read_text(f"{folder}/address", default="").split(","))
            port = words.get("trsvcid", "")
            controllers.append(
                {
                    "name": os.path.basename(folder),
                    "nqn": read_text(f"{folder}/subsysnqn", default=""),
                    "host": read_text(f"{folder}/hostnqn", default=""),
                    "place": portal_text(words.get("traddr", ""), int(port) if port.isdigit() else 0),
                    "state": read_text(f"{folder}/state", default=""),
                    "fast_io_fail_tmo": read_text(f"{folder}/fast_io_fail_tmo", default=""),
                }
            )
        return controllers

    def controllers(self) -> list[Controller]:
        hosts = self.hosts()
        return [controller for controller in self.all_controllers() if controller["host"] in hosts]

    def controller(self, target: LoginTarget) -> Controller | None:
        nqn, place = nvme_names.nqn_of(target["iqn"]), portal_text(**target["portal"])
        return next((each for each in self.controllers() if (each["nqn"], each["place"]) == (nqn, place)), None)

    def records(self) -> list[LoginTarget]:
        """All connections of this testbed as targets: [{iqn, portal}], those that are recorded and not there included."""
        places = {(nvme_names.iqn_of(each["nqn"]), each["place"]) for each in self.controllers()}
        recorded = [place.partition(",") for place in self.record.data.get("logins", {})]
        places |= {(iqn, place) for iqn, _comma, place in recorded}
        return [{"iqn": iqn, "portal": _portal(place)} for iqn, place in sorted(places)]

    def refuse_foreign(self, targets: Sequence[LoginTarget]) -> None:
        """Raises session_foreign where somebody else of this host is connected to a wanted target."""
        wanted, hosts = {nvme_names.nqn_of(target["iqn"]) for target in targets}, self.hosts()
        for controller in self.all_controllers():
            if controller["nqn"] in wanted and controller["host"] not in hosts:
                raise Failure(
                    "session_foreign",
                    f"This host is connected to {controller['nqn']} already ({controller['name']}, as {controller['host']}), and not by this testbed.",
                    f"End that connection, such as with: nvme disconnect --device {controller['name']}, or give the target another name.",
                    controller=controller["name"],
                    target=controller["nqn"],
                )

    def luns(self, target: LoginTarget) -> dict[int, str]:
        """{number of the namespace: its folder in sysfs}, whatever the disks are called; the path through this portal where the kernel joins none."""
        luns: dict[int, str] = {}
        nqn, controller = nvme_names.nqn_of(target["iqn"]), self.controller(target)
        for folder in sorted(glob.glob(f"{DISKS}/nvme*")) if controller else []:
            # A path to a disk that the kernel has joined (nvme0c0n1) has no node.
            if not re.fullmatch(r"nvme\d+n\d+", os.path.basename(folder)):
                continue
            above = os.path.dirname(os.path.realpath(folder))
            joined = os.path.basename(os.path.dirname(above)) == "nvme-subsystem"
            mine = joined or (controller is not None and os.path.basename(above) == controller["name"])
            number = read_text(f"{folder}/nsid", default="")
            if mine and number.isdigit() and read_text(f"{above}/subsysnqn", default="") == nqn:
                luns[int(number)] = folder
        return luns

    def busy(self, target: LoginTarget) -> list[str]:
        paths = [_node(folder) for folder in self.luns(target).values()]
        return [use for path in paths for use in block_device.users(path, with_openers=False)]

    def current(self, target: LoginTarget) -> PathState:
        controller = self.controller(target)
        kept = self.record.data.get("logins", {}).get(place_of(target)) or {}
        same = controller is not None and kept.get("controller") == controller["name"]
        return {
            "controller": controller,
            "busy": self.busy(target),
            "in_force": same_secret(credentials(target), kept) if same else None,
            "kept": kept.get("tuning", {}) if same else {},
        }

    # -- change

    def prepare(self, host: str) -> None:
        """The kernel module, and the name of the testbed's own."""
        before = loaded_modules()
        self.record.data["hosts"] = sorted({*self.hosts(), host})
        self.record.save()
        try:
            for name in self.MODULES:
                load_module(name, intend=self.record.intend_modules)
        finally:
            self.record.note_modules(before)
        if not wait_for(lambda: os.path.exists(FABRICS), timeout_s=5):
            raise Failure(
                "fabrics_missing",
                f"{FABRICS} does not exist, although the kernel module nvme_fabrics is loaded.",
                "Look at what makes device files on this host (devtmpfs, udev).",
                path=FABRICS,
            )

    def apply(self, steps: list[Step], target: LoginTarget, host: str) -> None:
        for step in steps:
            if step["op"] == "connect":
                self._connect(target, host)
            elif step["op"] == "reconnect":
                self._disconnect(target)
                self._connect(target, host)
            elif step["op"] == "recover":
                self._recover(target, host)
            else:
                controller = self._live(target)
                write_text(f"{CONTROLLERS}/{controller['name']}/fast_io_fail_tmo", step["will"])

    def _reach(self, target: LoginTarget) -> None:
        """Raises portal_unreachable where nothing listens: the kernel would try for minutes."""
        try:
            socket.create_connection(
                (target["portal"]["address"], target["portal"]["port"]), timeout=self.tuning["login_timeout_s"]
            ).close()
        except OSError as error:
            portal = portal_text(**target["portal"])
            raise Failure(
                "portal_unreachable",
                f"Nothing answers at the portal {portal}: {error}.",
                "Check the address and that the target is built.",
                portal=portal,
            ) from error

    def _connect(self, target: LoginTarget, host: str) -> None:
        self._reach(target)
        try:
            write_text(FABRICS, connect_options(target, host, self.tuning))
        except OSError as error:
            raise self._refused(target, host, error) from error
        controller = wait_for(
            lambda: next((each for each in [self.controller(target)] if each and each["state"] == LIVE), None),
            timeout_s=self.tuning["login_timeout_s"],
        )
        if controller is None:
            raise self._lost(target)
        settings: Any = self.tuning
        self.record.data.setdefault("logins", {})[place_of(target)] = {
            "controller": controller["name"],
            "tuning": {key: settings[key] for key in LIFELONG},
            **keep_secret(credentials(target)),
        }
        self.record.save()

    @staticmethod
    def _refused(target: LoginTarget, host: str, error: OSError) -> Failure:
        nqn, portal = nvme_names.nqn_of(target["iqn"]), portal_text(**target["portal"])
        code, what = "login_refused", "the target refused the connection"
        remedy = f"Check that the target lets {host} in, and the kernel log of both hosts."
        if error.errno == errno.EINVAL and target.get("chap_password"):
            code, what = (
                "authentication_missing",
                "the kernel of this host has no authentication for NVMe, or refuses it",
            )
            remedy = "Use a kernel that has it (CONFIG_NVME_AUTH, 6.0 or later), or testbed.chap: none."
        elif target.get("chap_password") and error.errno in KEY_ERRORS:
            code, what = "chap_rejected", "the authentication failed"
            remedy = "Check chap_password and mutual_chap_password against the target's."
        return Failure(
            code,
            f"Connecting to {nqn} at {portal} failed: {what} ({error.strerror}).",
            remedy,
            target_iqn=target["iqn"],
            portal=portal,
        )

    def _disconnect(self, target: LoginTarget) -> None:
        controller = self.controller(target)
        if controller is not None:
            # Somebody, or the kernel itself, may have taken it away since.
            try:
                write_text(f"{CONTROLLERS}/{controller['name']}/delete_controller", "1")
            except (FileNotFoundError, Failure):
                if self.controller(target) is not None:
                    raise
        if wait_for(lambda: self.controller(target) is None, timeout_s=30) is not True:
            raise Failure(
                "logout_failed",
                f"The connection to {nvme_names.nqn_of(target['iqn'])} does not end.",
                "Look at the kernel log of this host.",
                target_iqn=target["iqn"],
            )
        if self.record.data.get("logins", {}).pop(place_of(target), None):
            self.record.save()

    def _recover(self, target: LoginTarget, host: str) -> None:
        """The kernel keeps trying on its own; a connection that does not come back is made again, unless its disks are used."""
        self._reach(target)

        def is_live() -> bool:
            controller = self.controller(target)
            return controller is not None and controller["state"] == LIVE

        if wait_for(is_live, timeout_s=self.tuning["login_timeout_s"], interval_s=0.5):
            return
        uses = self.busy(target)
        if uses:
            raise block_device.in_use(
                f"The connection to {nvme_names.nqn_of(target['iqn'])} does not come back, and cannot be made again",
                portal_text(**target["portal"]),
                uses,
            )
        self._disconnect(target)
        self._connect(target, host)

    def _live(self, target: LoginTarget) -> Controller:
        controller = self.controller(target)
        if controller is None:
            raise self._lost(target)
        return controller

    @staticmethod
    def _lost(target: LoginTarget) -> Failure:
        return Failure(
            "session_lost",
            f"The connection to {nvme_names.nqn_of(target['iqn'])} at {portal_text(**target['portal'])} has ended: someone else ended it, or the target.",
            "Run again, and it is made again.",
            target_iqn=target["iqn"],
            portal=portal_text(**target["portal"]),
        )

    # -- the disks

    def disks(self, target: LoginTarget) -> dict[int, dict[str, Any]]:
        """{lun: {path, size_bytes, wwid, …}} of the wanted LUNs, freshly read and proven; raises lun_missing, wrong_wwid, wrong_size, session_lost."""
        wanted = {lun["lun"] for lun in target["luns"]}

        def ready() -> bool:
            luns = self.luns(target)
            return wanted <= set(luns) and all(os.path.exists(_node(luns[number])) for number in wanted)

        # The target may have been rebuilt behind a connection that came back on its own.
        write_text(f"{CONTROLLERS}/{self._live(target)['name']}/rescan_controller", "1")
        if not wait_for(ready, timeout_s=self.tuning["login_timeout_s"]):
            self._live(target)
            there = sorted(self.luns(target))
            missing = sorted(wanted - set(there))
            raise Failure(
                "lun_missing",
                f"The target {nvme_names.nqn_of(target['iqn'])} shows no namespace {', '.join(map(str, missing))} to this host "
                f"(it shows {', '.join(map(str, there)) or 'none'}).",
                "Export it, and look at the kernel log of this host.",
                target_iqn=target["iqn"],
                missing=missing,
                found=there,
            )
        shown = self.seen(target)
        for lun in target["luns"]:
            check_identity(lun, shown[lun["lun"]], target)
        return shown

    def seen(self, target: LoginTarget) -> dict[int, dict[str, Any]]:
        """{lun: facts} of the wanted LUNs that are there now; nothing is read again, waited for or proven."""
        luns, controller = self.luns(target), self.controller(target)
        return {
            lun["lun"]: {
                "path": _node(luns[lun["lun"]]),
                "size_bytes": block_device.size_bytes(_node(luns[lun["lun"]])),
                "serial": "",
                "naa": "",
                "wwid": read_text(f"{luns[lun['lun']]}/wwid", default=""),
                "queue_depth": self.tuning["queue_depth"],
                "initiator_iqn": nvme_names.iqn_of(controller["host"]) if controller else "",
            }
            for lun in target["luns"]
            if lun["lun"] in luns
        }

    # -- away with it

    def refuse_used(self, targets: list[LoginTarget]) -> None:
        going = {(nvme_names.nqn_of(target["iqn"]), portal_text(**target["portal"])) for target in targets}
        for target in targets:
            nqn = nvme_names.nqn_of(target["iqn"])
            left = [each for each in self.controllers() if each["nqn"] == nqn and (nqn, each["place"]) not in going]
            # Disks on several paths stay on the paths that are left.
            for number, folder in sorted(self.luns(target).items()) if not left else []:
                path = _node(folder)
                # A udev worker may still be looking at a disk that just appeared.
                wait_for(lambda path=path: not block_device.users(path), timeout_s=3, interval_s=0.3)
                uses = block_device.users(path)
                if uses:
                    raise block_device.in_use(
                        f"Namespace {number} of {nqn} ({path}) cannot be disconnected", path, uses
                    )

    def remove(self, targets: list[LoginTarget]) -> None:
        for target in targets:
            self._disconnect(target)

    def remove_all(self) -> None:
        targets = self.records()
        self.refuse_used(targets)
        self.remove(targets)
        self.record.unload_modules()
        self.record.remove()


def _portal(text: str) -> Any:
    address, _colon, port = text.rpartition(":")
    return {"address": address.strip("[]"), "port": int(port)}


def _node(folder: str) -> str:
    return f"/dev/{os.path.basename(folder)}"
