# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""open-iscsi: sessions of one testbed, kept apart from all others by an interface record of their own.

The interface record (``storlab-<testbed_id>``) carries the initiator name, so neither /etc/iscsi/initiatorname.iscsi nor a
running iscsid has to change, sessions of others are not concerned, and node records and sessions that use it are known to be
this testbed's. CHAP secrets go straight into the node record's file (0600): iscsiadm would take them in its arguments.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

from ...core.failure import Failure
from ...core.files import write_whole
from ...core.iscsi_names import portal_text, spelled
from ...core.secrets import keep_secret, same_secret
from ...core.steps import Step
from ..disks import block_device, multipath, scsi_pages
from ..host import load_module, loaded_modules, read_text, run, wait_for, write_text
from ..nouns import LoginSession, LoginState, LoginTarget, SessionDisk, Tuning
from ..record import Record

AUTH = "node.session.auth."
SECRETS = (f"{AUTH}password", f"{AUTH}password_in")
CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")
SESSIONS = "/sys/class/iscsi_session"
# The database moved between releases; iscsiadm itself decides, so both are looked at.
DATABASES = ("/var/lib/iscsi", "/etc/iscsi")
FOLDERS = ("fw", "ifaces", "isns", "nodes", "send_targets", "slp", "static")
# iscsiadm 2.1.8 stops reading a portal's answer at the first name that it holds for invalid, such as one with an underscore (usr/discovery.c,
# add_target_record), and ends with 0: a target of others hides those behind it. Then the login itself shows whether the target is there.
UNREAD = "Discovery TargetName invalid"
# LIO and tgt number the portal group of a target with one group like this, and so do arrays with one group (RFC 7143, 13.9, leaves the number to the target).
USUAL_TAG = "1"

LOGIN_ERRORS = {
    4: ("portal_unreachable", "the connection failed", "Check the portal's address and port, and the target."),
    5: ("login_refused", "the target refused the login", "Check that the target has an ACL for this initiator's name."),
    8: (
        "login_timeout",
        "the target did not answer in time",
        "Check the target, or raise iscsi_initiator_login_timeout_s.",
    ),
    19: (
        "login_refused",
        "the target refused the login",
        "Check that the target has an ACL for this initiator's name, and its kernel log.",
    ),
    24: (
        "chap_rejected",
        "CHAP authentication failed",
        "Check chap_user and chap_password, and the mutual ones, against the target's.",
    ),
}


def node_settings(target: LoginTarget, tuning: Tuning) -> dict[str, str]:
    """The lines of the node record this collection decides; an empty value means: no such line."""
    depth = tuning["queue_depth"]
    cmds_max = 128
    while cmds_max < depth:  # must be a power of two, and a session has at least one LUN of that depth
        cmds_max *= 2
    return {
        "node.startup": "manual",
        "node.session.auth.authmethod": "CHAP" if target.get("chap_user") else "None",
        "node.session.auth.username": target.get("chap_user") or "",
        "node.session.auth.password": target.get("chap_password") or "",
        "node.session.auth.username_in": target.get("mutual_chap_user") or "",
        "node.session.auth.password_in": target.get("mutual_chap_password") or "",
        "node.session.timeo.replacement_timeout": str(tuning["replacement_timeout_s"]),
        "node.conn[0].timeo.login_timeout": str(tuning["login_timeout_s"]),
        "node.conn[0].timeo.noop_out_interval": str(tuning["noop_interval_s"]),
        "node.conn[0].timeo.noop_out_timeout": str(tuning["noop_timeout_s"]),
        "node.session.initial_login_retry_max": "2",
        "node.session.queue_depth": str(depth),
        "node.session.cmds_max": str(cmds_max),
    }


def parse_record(text: str) -> dict[str, str]:
    return {
        key.strip(): value.strip()
        for key, equals, value in (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        if equals
    }


def edit_record(text: str, settings: dict[str, str]) -> str:
    """The record with the settings in it; everything else stays as it is."""
    lines, left = [], dict(settings)
    for line in text.splitlines():
        key = line.partition("=")[0].strip()
        if line.startswith("# END"):
            lines += [f"{name} = {value}" for name, value in left.items() if value]
            left = {}
        if key in settings and not line.startswith("#"):
            value = left.pop(key, "")
            lines += [f"{key} = {value}"] if value else []
        else:
            lines.append(line)
    return "\n".join(lines + [f"{name} = {value}" for name, value in left.items() if value]) + "\n"


def place_of(target: LoginTarget) -> str:
    """The name of a session of ours in the record of the host."""
    return f"{target['iqn']},{portal_text(**target['portal'])}"


def credentials(target: LoginTarget) -> str:
    """Everything of CHAP that a session logs in with, as one secret."""
    return json.dumps([target.get(key) or "" for key in CHAP])


def shown(settings: dict[str, str]) -> dict[str, str]:
    return {key: "(secret)" if key in SECRETS and value else value for key, value in settings.items()}


def plan(current: LoginState, target: LoginTarget, tuning: Tuning) -> list[Step]:
    """Steps for one target.

    current: {record: {…} or None, session: {state, recovery_tmo} or None, luns: {lun: {queue_depth}}, multipath: whether multipathd joined any, busy: [...],
    in_force: whether the session logged in with the wanted CHAP; None when it is unknown}. Raises relogin_pending for a session that cannot log in with
    it now, because its disks are used.
    """
    name: Step = {"target": target["iqn"], "portal": portal_text(**target["portal"])}
    wanted = node_settings(target, tuning)
    steps: list[Step] = []
    record, session = current["record"], current["session"]
    differing = {key: value for key, value in wanted.items() if (record or {}).get(key, "") != value}
    if record is None:
        steps.append({"op": "create_record", **name, "was": None, "will": shown(wanted)})
    elif differing:
        steps.append(
            {
                "op": "update_record",
                **name,
                "was": shown({key: record.get(key, "") for key in differing}),
                "will": shown(differing),
            }
        )
    if session is None:
        return [*steps, {"op": "login", **name, "was": "no session", "will": "LOGGED_IN"}]
    outdated = current["in_force"] is False or (
        current["in_force"] is None and record is not None and any(key.startswith(AUTH) for key in differing)
    )
    relogin: Step = {"op": "relogin", **name, "was": session["state"], "will": "LOGGED_IN"}
    if outdated and session["state"] != "LOGGED_IN":
        # It cannot come back with what it has.
        return [*steps, relogin]
    if session["state"] != "LOGGED_IN":
        return [*steps, {"op": "recover", **name, "was": session["state"], "will": "LOGGED_IN"}]
    if outdated and current["busy"]:
        raise Failure(
            "relogin_pending",
            f"The session to {target['iqn']} at {name['portal']} logged in with other CHAP names or secrets than are wanted now, so it ends for good when its "
            f"connection breaks; and it cannot log in again while it is in use ({'; '.join(current['busy'])}).",
            "Stop what uses its disks (teardown does) and build again, or set the former secret again on both sides.",
            target_iqn=target["iqn"],
            portal=name["portal"],
            uses=current["busy"],
        )
    # Some of it holds for a session's whole life. A session in use is not torn down for it: it takes effect at its next login.
    lifelong = any(
        record is not None
        and not key.startswith(AUTH)
        and key not in ("node.startup", "node.session.queue_depth", "node.session.timeo.replacement_timeout")
        for key in differing
    )
    if outdated or (lifelong and not current["busy"]):
        return [*steps, relogin]
    # For paths that multipathd joined it is the daemon's own (fast_io_fail_tmo, multipath.conf(5)), which sets it again after anybody.
    if not current["multipath"] and session["recovery_tmo"] != str(tuning["replacement_timeout_s"]):
        steps.append(
            {
                "op": "set_replacement_timeout",
                **name,
                "was": session["recovery_tmo"],
                "will": str(tuning["replacement_timeout_s"]),
            }
        )
    for lun in target["luns"]:
        disk = current["luns"].get(lun["lun"])
        depth = disk["queue_depth"] if disk else None
        if depth is not None and depth != str(tuning["queue_depth"]):
            steps.append(
                {"op": "set_queue_depth", **name, "lun": lun["lun"], "was": depth, "will": str(tuning["queue_depth"])}
            )
    return steps


def check_identity(lun: dict[str, Any], shown: dict[str, Any], target: LoginTarget) -> None:
    """The device behind the LUN must be the one that was published; raises wrong_serial, wrong_naa or wrong_size."""
    for key, what in (("serial", "serial"), ("naa", "NAA identifier"), ("wwid", "name"), ("size_bytes", "size")):
        if lun.get(key) and str(shown[key]) != str(lun[key]):
            raise Failure(
                f"wrong_{key.replace('_bytes', '')}",
                f"LUN {lun['lun']} of {target['iqn']} ({shown['path']}) has the {what} {shown[key] or 'none'} instead of {lun[key]}.",
                "Build the target again, or correct the expected identity of the LUN.",
                lun=lun["lun"],
                target_iqn=target["iqn"],
                shown=shown[key],
                expected=lun[key],
            )


class OpenIscsi:
    """The sessions of one testbed on this host."""

    MODULES = ("iscsi_tcp", "sd_mod")

    def __init__(self, testbed_id: str, tuning: Tuning) -> None:
        self.iface = f"storlab-{testbed_id}"
        self.tuning = tuning
        self.record = Record(testbed_id, "iscsi_session")

    # -- what is there

    def sessions(self) -> list[LoginSession]:
        """This testbed's sessions: [{sid, iqn, address, port, state, recovery_tmo, initiator}]"""
        sessions: list[LoginSession] = []
        for folder in sorted(glob.glob(f"{SESSIONS}/session*")):
            if read_text(f"{folder}/ifacename", default="") != self.iface:
                continue
            sid = os.path.basename(folder)[len("session") :]
            connection = f"/sys/class/iscsi_connection/connection{sid}:0"
            sessions.append(
                {
                    "sid": sid,
                    "iqn": read_text(f"{folder}/targetname", default=""),
                    "state": read_text(f"{folder}/state", default=""),
                    "recovery_tmo": read_text(f"{folder}/recovery_tmo", default=""),
                    "initiator": read_text(f"{folder}/initiatorname", default=""),
                    "address": read_text(f"{connection}/persistent_address", default=""),
                    "port": read_text(f"{connection}/persistent_port", default=""),
                }
            )
        return sessions

    def session(self, target: LoginTarget) -> LoginSession | None:
        return next(
            (
                session
                for session in self.sessions()
                if session["iqn"] == target["iqn"]
                and session["address"] == target["portal"]["address"]
                and session["port"] == str(target["portal"]["port"])
            ),
            None,
        )

    def luns(self, session: LoginSession | None) -> dict[int, SessionDisk]:
        """{lun: {path, queue_depth, state, folder}} found by session and LUN, whatever the disks are called."""
        luns: dict[int, SessionDisk] = {}
        for folder in glob.glob(f"{SESSIONS}/session{session['sid']}/device/target*/*:*:*:*") if session else []:
            disks = glob.glob(f"{folder}/block/*")
            if disks:
                luns[int(folder.rpartition(":")[2])] = {
                    "path": f"/dev/{os.path.basename(disks[0])}",
                    "folder": folder,
                    "state": read_text(f"{folder}/state", default=""),
                    "queue_depth": read_text(f"{folder}/queue_depth", default=None),
                }
        return luns

    def record_file(self, target: LoginTarget) -> str | None:
        address, port = target["portal"]["address"], target["portal"]["port"]
        for database in DATABASES:
            # The folder is called address,port,tag. Without the second comma port 326 would find the records of port 3260.
            place = f"{database}/nodes/{glob.escape(target['iqn'])}/{glob.escape(address)},{port},*/{self.iface}"
            for path in glob.glob(place):
                return path
        return None

    def _record_files(self) -> list[str]:
        return [path for database in DATABASES for path in glob.glob(f"{database}/nodes/*/*/{self.iface}")]

    def empty_records(self) -> list[str]:
        """Files of this testbed's records in which nothing is: on a full file system iscsiadm (2.1.8) leaves them, and reports no error. It finds no record
        there and cannot delete it, and every call with an empty interface fails."""
        paths = [*(f"{database}/ifaces/{self.iface}" for database in DATABASES), *self._record_files()]
        return [path for path in paths if os.path.exists(path) and not parse_record(read_text(path))]

    def _remove_empty_records(self) -> None:
        for path in self.empty_records():
            os.unlink(path)
            folder = os.path.dirname(path)
            # That of the portal, and that of the target.
            while not folder.endswith(("/nodes", "/ifaces")) and not os.listdir(folder):
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def _refuse_empty(self) -> None:
        """Raises record_unwritable where iscsiadm has just left an empty record, and takes that away."""
        paths = self.empty_records()
        self._remove_empty_records()
        if paths:
            raise Failure(
                "record_unwritable",
                f"{paths[0]} is empty, although iscsiadm reported no error: its file system is full.",
                "Make room there, and run it again.",
                path=paths[0],
            )

    def records(self) -> list[LoginTarget]:
        """All node records of this testbed as targets: [{iqn, portal}]"""
        targets: list[LoginTarget] = []
        for path in self._record_files():
            values = parse_record(read_text(path))
            if not values:
                continue
            targets.append(
                {
                    "iqn": values["node.name"],
                    "portal": {"address": values["node.conn[0].address"], "port": int(values["node.conn[0].port"])},
                }
            )
        return targets

    def current(self, target: LoginTarget) -> LoginState:
        path, session = self.record_file(target), self.session(target)
        luns = self.luns(session)
        return {
            "record": (parse_record(read_text(path)) or None) if path else None,
            "session": session,
            "luns": luns,
            "multipath": any(multipath.map_of(lun["path"]) for lun in luns.values()),
            "busy": [use for lun in luns.values() for use in multipath.users(lun["path"], with_openers=False)],
            "in_force": self._in_force(target, session),
        }

    def _in_force(self, target: LoginTarget, session: LoginSession | None) -> bool | None:
        """Whether this very session logged in with the target's CHAP as it is wanted; None for one that somebody else logged in, and for none.

        The kernel goes on with what a session logged in with, whatever its node record says by now.
        """
        kept = self.record.data.get("logins", {}).get(place_of(target))
        if session is None or kept is None or kept["sid"] != session["sid"]:
            return None
        return same_secret(credentials(target), kept)

    # -- change

    def prepare(self, initiator_name: str) -> None:
        """Kernel modules, the daemon, and the interface record with the initiator's name."""
        before = loaded_modules()
        self.record.save()
        try:
            for name in self.MODULES:
                load_module(name, intend=self.record.intend_modules)
        finally:
            self.record.note_modules(before)
        if "sg" not in before:
            # udev loads it some time after the first SCSI disk appears.
            self.record.data["modules"] = sorted({*self.record.data.get("modules", []), "sg"})
            self.record.save()
        self._start_daemon()
        if "folders" not in self.record.data:
            self.record.data["folders"] = [
                path
                for database in DATABASES
                for path in (*(f"{database}/{name}" for name in FOLDERS), database)
                if not os.path.exists(path)
            ]
            self.record.save()
        if "multipath" not in self.record.data and multipath.runs():
            self.record.data["multipath"] = {"files": multipath.files(), "wwids": []}
            self.record.save()
        self._remove_empty_records()
        if self.iface_name() is None:
            run(["iscsiadm", "-m", "iface", "-I", self.iface, "-o", "new"])
            self._refuse_empty()
        if self.iface_name() != initiator_name:
            run(
                [
                    "iscsiadm",
                    "-m",
                    "iface",
                    "-I",
                    self.iface,
                    "-o",
                    "update",
                    "-n",
                    "iface.initiatorname",
                    "-v",
                    initiator_name,
                ]
            )
            self._refuse_empty()

    def iface_name(self) -> str | None:
        """The initiator name in our interface record, None without one."""
        for database in DATABASES:
            path = f"{database}/ifaces/{self.iface}"
            values = parse_record(read_text(path, default=""))
            if values:
                return values.get("iface.initiatorname", "")
        return None

    @staticmethod
    def daemon_runs() -> bool:
        # Its control socket, not its process: only a daemon that answers counts.
        return "@ISCSIADM_ABSTRACT" in read_text("/proc/net/unix", default="") and any(
            read_text(path, default="") == "iscsid" for path in glob.glob("/proc/[0-9]*/comm")
        )

    def _start_daemon(self) -> None:
        if self.daemon_runs():
            return
        systemd = os.path.isdir("/run/systemd/system")
        self.record.data["daemon"] = "systemd" if systemd else "process"
        self.record.save()
        run(
            ["systemctl", "start", "iscsid.service"] if systemd else ["iscsid"],
            what="iscsid cannot be started",
            remedy="Install open-iscsi (Debian) or iscsi-initiator-utils (Red Hat), and look at the log of iscsid.",
        )
        if not wait_for(self.daemon_runs, timeout_s=15):
            raise Failure(
                "iscsid_missing", "iscsid was started but does not answer.", "Look at the log of iscsid on this host."
            )

    def apply(self, steps: list[Step], target: LoginTarget) -> None:
        operations = {
            "create_record": self._create_record,
            "update_record": self._update_record,
            "login": self._login,
            "relogin": self._relogin,
            "recover": self._recover,
            "set_replacement_timeout": self._set_replacement_timeout,
            "set_queue_depth": self._set_queue_depth,
        }
        for step in steps:
            operations[step["op"]](target, step)

    def _iscsiadm(
        self, target: LoginTarget, *arguments: str, ok: tuple[Any, ...] = (0,), timeout_s: float = 120
    ) -> Any:
        return run(
            [
                "iscsiadm",
                "-m",
                "node",
                "-T",
                target["iqn"],
                "-p",
                portal_text(**target["portal"]),
                "-I",
                self.iface,
                *arguments,
            ],
            ok=ok,
            timeout_s=timeout_s,
        )

    def _discover(self, target: LoginTarget) -> str:
        """The portal group tag the target has at this portal; raises portal_unreachable or target_missing."""
        portal = portal_text(**target["portal"])
        try:
            socket.create_connection(
                (target["portal"]["address"], target["portal"]["port"]), timeout=self.tuning["login_timeout_s"]
            ).close()
        except OSError as error:
            raise Failure(
                "portal_unreachable",
                f"Nothing answers at the portal {portal}: {error}.",
                "Check the address and that the target is built.",
                portal=portal,
            ) from error
        done = run(
            ["iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal, "-I", self.iface, "-o", "nonpersistent"],
            ok=(0, 5, 19, 21, 24),
            what=f"Discovery at the portal {portal} failed",
        )
        answers = [line.split() for line in done.stdout.splitlines() if line.startswith(f"{portal},")]
        tags = {iqn: tag for tag, iqn in (answer[:2] for answer in answers)}
        # From here on by the name as the portal writes it: iscsiadm and the kernel compare byte by byte.
        target["iqn"] = spelled(target["iqn"], tags)
        if target["iqn"] not in tags and UNREAD in done.stderr:
            return USUAL_TAG
        if target["iqn"] not in tags:
            answer = f"it offers {', '.join(sorted(tags)) or 'none'}"
            if done.returncode in LOGIN_ERRORS:
                answer = f"asked for its targets,  {LOGIN_ERRORS[done.returncode][1]}"
            raise Failure(
                "target_missing",
                f"The portal {portal} does not offer the target {target['iqn']} to this initiator ({answer}).",
                "Check the target's name, and that it has an ACL for this initiator's name.",
                portal=portal,
                target_iqn=target["iqn"],
                offered=sorted(tags),
                exit_code=done.returncode,
            )
        return tags[target["iqn"]].rpartition(",")[2]

    def _create_record(self, target: LoginTarget, _step: Step) -> None:
        tag = self._discover(target)
        run(
            [
                "iscsiadm",
                "-m",
                "node",
                "-T",
                target["iqn"],
                "-p",
                f"{portal_text(**target['portal'])},{tag}",
                "-I",
                self.iface,
                "-o",
                "new",
            ]
        )
        self._refuse_empty()
        self._update_record(target, _step)

    def _update_record(self, target: LoginTarget, _step: Step) -> None:
        path = self.record_file(target)
        if path is None:
            raise FileNotFoundError(f"iscsiadm made no record of {target['iqn']}")
        self._write_record(path, edit_record(read_text(path), node_settings(target, self.tuning)))

    @staticmethod
    def _write_record(path: str, text: str) -> None:
        # Beside the portal's folder, not in it: iscsiadm takes every file there for a record.
        write_whole(path, text.encode(), mode=0o600, beside=os.path.dirname(os.path.dirname(os.path.dirname(path))))

    def _login(self, target: LoginTarget, _step: Step) -> None:
        done = self._iscsiadm(
            target, "--login", ok=(0, 15, *LOGIN_ERRORS), timeout_s=4 * self.tuning["login_timeout_s"] + 30
        )
        if done.returncode in LOGIN_ERRORS:
            code, what, remedy = LOGIN_ERRORS[done.returncode]
            raise Failure(
                code,
                f"Login to {target['iqn']} at {portal_text(**target['portal'])} failed: {what}.",
                remedy,
                target_iqn=target["iqn"],
                portal=portal_text(**target["portal"]),
                exit_code=done.returncode,
            )
        session = self.session(target)
        if session and done.returncode == 0:
            logins = self.record.data.setdefault("logins", {})
            logins[place_of(target)] = {"sid": session["sid"], **keep_secret(credentials(target))}
            self.record.save()

    def _logout(self, target: LoginTarget) -> None:
        if self.session(target):
            self._iscsiadm(target, "--logout", ok=(0, 21))
            if wait_for(lambda: self.session(target) is None, timeout_s=30) is not True:
                raise Failure(
                    "logout_failed",
                    f"The session to {target['iqn']} does not end.",
                    "Look at the kernel log of this host.",
                    target_iqn=target["iqn"],
                )

    def _relogin(self, target: LoginTarget, step: Step) -> None:
        self._logout(target)
        self._login(target, step)

    def _recover(self, target: LoginTarget, step: Step) -> None:
        """iscsid keeps trying on its own; a session that does not come back is made again."""
        if not wait_for(
            lambda: any(session["state"] == "LOGGED_IN" for session in [self.session(target)] if session),
            timeout_s=self.tuning["login_timeout_s"],
            interval_s=0.5,
        ):
            self._relogin(target, step)

    @contextlib.contextmanager
    def _logged_in(self, target: LoginTarget) -> Iterator[LoginSession]:
        """The session; a failure because somebody ends it at that time is reported as that."""
        try:
            session = self.session(target)
            if session is None:
                raise self._lost(target)
            yield session
        except (Failure, KeyError, OSError) as error:
            if self.session(target) is None:
                raise self._lost(target) from error
            raise

    @staticmethod
    def _lost(target: LoginTarget) -> Failure:
        return Failure(
            "session_lost",
            f"The session to {target['iqn']} at {portal_text(**target['portal'])} has ended: someone else logged it out.",
            "Run again, and it is logged in again.",
            target_iqn=target["iqn"],
            portal=portal_text(**target["portal"]),
        )

    def _set_replacement_timeout(self, target: LoginTarget, step: Step) -> None:
        with self._logged_in(target) as session:
            write_text(f"{SESSIONS}/session{session['sid']}/recovery_tmo", step["will"])

    def _set_queue_depth(self, target: LoginTarget, step: Step) -> None:
        with self._logged_in(target) as session:
            write_text(f"{self.luns(session)[step['lun']]['folder']}/queue_depth", step["will"])

    def undo(self, target: LoginTarget, record_before: str | None) -> None:
        """After a failed login: no record that was not there, or the one that was."""
        path = self.record_file(target)
        if path and record_before is not None:
            self._write_record(path, record_before)
        elif path:
            self._logout(target)
            self._iscsiadm(target, "-o", "delete", ok=(0, 21))

    # -- the disks

    def disks(self, target: LoginTarget) -> dict[str, Any]:
        """{lun: {path, size_bytes, serial, naa, queue_depth}} of the wanted LUNs, freshly read and proven; raises lun_missing, wrong_…, session_lost"""
        with self._logged_in(target) as session:
            return self._disks_of_session(target, session)

    def _disks_of_session(self, target: LoginTarget, session: LoginSession) -> dict[str, Any]:
        wanted = {lun["lun"] for lun in target["luns"]}

        def ready() -> Any:
            luns = self.luns(session)
            return luns if wanted <= set(luns) and all(os.path.exists(luns[lun]["path"]) for lun in wanted) else None

        luns = wait_for(ready, timeout_s=2)
        if not luns:
            host = os.path.basename(os.path.dirname(os.path.realpath(f"{SESSIONS}/session{session['sid']}/device")))
            write_text(f"/sys/class/scsi_host/{host}/scan", "- - -")
            luns = wait_for(ready, timeout_s=self.tuning["login_timeout_s"])
        if not luns:
            there = sorted(self.luns(session))
            missing = sorted(wanted - set(there))
            raise Failure(
                "lun_missing",
                f"The target {target['iqn']} shows no LUN {', '.join(map(str, missing))} to this initiator (it shows {', '.join(map(str, there)) or 'none'}).",
                "Export the LUN, and map it to this initiator's name.",
                target_iqn=target["iqn"],
                missing=missing,
                found=there,
            )
        result = {}
        for lun in target["luns"]:
            disk = luns[lun["lun"]]
            self._reread(disk)
            facts = self._facts(disk, session)
            check_identity(lun, facts, target)
            result[lun["lun"]] = facts
        return result

    def _facts(self, disk: SessionDisk, session: LoginSession) -> dict[str, Any]:
        pages = {page: self._page(disk["folder"], page) for page in ("vpd_pg80", "vpd_pg83")}
        naa = scsi_pages.naa_names(pages["vpd_pg83"])
        return {
            "path": disk["path"],
            "size_bytes": block_device.size_bytes(disk["path"]),
            "serial": scsi_pages.unit_serial(pages["vpd_pg80"]),
            # NAA type 6 is unique in the world; shorter ones may be made of mere numbers.
            "naa": naa[0] if naa and naa[0].startswith("6") else "",
            "wwid": read_text(f"{disk['folder']}/wwid", default=""),
            "queue_depth": int(read_text(f"{disk['folder']}/queue_depth")),
            "initiator_iqn": session["initiator"],
        }

    def seen(self, paths: list[Any]) -> dict[tuple[str, int], Any]:
        """{(iqn, lun): facts} of the disks that are there now, for check mode: nothing is read again, waited for or proven."""
        by_lun: dict[tuple[str, int], list[Any]] = {}
        for path in paths:
            session = self.session(path)
            there = self.luns(session)
            for number in (lun["lun"] for lun in path["luns"]):
                if session and number in there:
                    facts = {**self._facts(there[number], session), "portal": path["portal"]}
                    by_lun.setdefault((path["iqn"], number), []).append(facts)
        return {key: self._as_used(its_paths) for key, its_paths in by_lun.items()}

    @staticmethod
    def _as_used(paths: list[dict[str, Any]]) -> dict[str, Any]:
        first, above = paths[0], multipath.map_of(paths[0]["path"])
        if not above and len(paths) == 1:
            return first
        known = {"path": above["path"], "uuid": above["uuid"], "multipath": above["name"]} if above else {}
        return {**first, **known, "paths": [portal_text(**path["portal"]) for path in paths]}

    def offline(self, target: LoginTarget) -> bool:
        """Whether a wanted disk was given up by the kernel, which a new login heals."""
        disks = self.luns(self.session(target))
        return any(
            disks[lun["lun"]]["state"] not in ("running", "created") for lun in target["luns"] if lun["lun"] in disks
        )

    def join(
        self,
        target: LoginTarget,
        lun: dict[str, Any],
        paths: list[dict[str, Any]],
        steps: list[Step],
        warnings: list[str],
    ) -> dict[str, Any]:
        """The disk that a LUN is used as. paths: what disks() says of it, one for each of the target's portals.

        Where multipathd runs, its device of all the paths; else the first path, and a warning says so. A device that was not there is a step.
        """
        what, first = f"LUN {lun['lun']} of {target['iqn']}", paths[0]
        if not multipath.map_of(first["path"]) and len(paths) == 1:
            return first
        texts = [portal_text(**path["portal"]) for path in paths]
        if not multipath.runs():
            warnings.append(
                f"{what} is used through {texts[0]} alone ({first['path']}), because no multipathd runs on this host; "
                f"{', '.join(texts[1:])} {'is' if len(texts) == 2 else 'are'} logged in to and not used. Install multipath-tools (Debian) or "
                "device-mapper-multipath (Red Hat), start multipathd, and build again."
            )
            return {**first, "paths": texts}
        disks, before = [path["path"] for path in paths], loaded_modules()
        if "multipath" not in self.record.data:
            self.record.data["multipath"] = {"files": multipath.files(), "wwids": []}
        wwids = self.record.data["multipath"]["wwids"]
        if first["naa"] and f"3{first['naa']}" not in wwids:
            wwids.append(f"3{first['naa']}")
            self.record.save()
        self.record.intend("dm_multipath")
        there = multipath.map_of(first["path"]) is not None
        joined = multipath.join(what, first["naa"], disks, self.tuning["login_timeout_s"])
        self.record.note_modules(before)
        if joined is None:
            warnings.append(
                f"{what} is in use through {first['path']} alone, so its {len(paths)} paths cannot become one device now. Take the testbed down and "
                "build it again to use all."
            )
            return {**first, "paths": texts}
        if not there:
            steps.append({"op": "join_paths", "target": what, "was": ", ".join(disks), "will": joined["path"]})
        return {**first, "path": joined["path"], "uuid": joined["uuid"], "multipath": joined["name"], "paths": texts}

    @staticmethod
    def _reread(disk: SessionDisk) -> None:
        # The target may have been rebuilt behind a session that came back on its own.
        write_text(f"{disk['folder']}/rescan", "1")

    @staticmethod
    def _page(folder: str, page: str) -> bytes:
        try:
            with open(f"{folder}/{page}", "rb") as handle:
                return handle.read()
        except OSError:  # this logical unit has no such page
            return b""

    # -- away with it

    def refuse_used(self, targets: list[LoginTarget]) -> None:
        going = self._disks_of(targets)
        for target in targets:
            for lun, disk in sorted(self.luns(self.session(target)).items()):
                # Layers on several paths stay on the paths that are left.
                if set((multipath.map_of(disk["path"]) or {"disks": []})["disks"]) - going:
                    continue
                # A udev worker may still be looking at a disk that just appeared.
                wait_for(lambda path=disk["path"]: not multipath.users(path), timeout_s=3, interval_s=0.3)
                uses = multipath.users(disk["path"])
                if uses:
                    raise block_device.in_use(
                        f"LUN {lun} of {target['iqn']} ({disk['path']}) cannot be logged out", disk["path"], uses
                    )

    def _disks_of(self, targets: list[LoginTarget]) -> set[str]:
        return {disk["path"] for target in targets for disk in self.luns(self.session(target)).values()}

    def remove(self, targets: list[LoginTarget]) -> None:
        going = self._disks_of(targets)
        maps = {entry["name"]: entry for entry in map(multipath.map_of, sorted(going)) if entry}
        for entry in maps.values():
            if set(entry["disks"]) <= going:
                multipath.flush(entry)
        for target in targets:
            self._logout(target)
            if self.record_file(target):
                self._iscsiadm(target, "-o", "delete", ok=(0, 21))
            if self.record.data.get("logins", {}).pop(place_of(target), None):
                self.record.save()

    def remove_all(self) -> None:
        self._remove_empty_records()
        targets = self.records()
        self.refuse_used(targets)
        self.remove(targets)
        if self.iface_name() is not None:
            run(["iscsiadm", "-m", "iface", "-I", self.iface, "-o", "delete"])
        if "multipath" in self.record.data:
            multipath.forget(self.record.data["multipath"]["files"], self.record.data["multipath"]["wwids"])
        for folder in self.record.data.get("folders", []):
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
        if self.record.data.get("daemon") and self.daemon_runs() and not glob.glob(f"{SESSIONS}/session*"):
            run(
                ["systemctl", "stop", "iscsid.service"]
                if self.record.data["daemon"] == "systemd"
                else ["iscsiadm", "-k", "0"]
            )
            wait_for(lambda: not self.daemon_runs(), timeout_s=15)
        if glob.glob("/sys/class/scsi_device/*"):
            # Disks of others that came since.
            self.record.data["modules"] = [name for name in self.record.data.get("modules", []) if name != "sg"]
        self.record.unload_modules()
        folders = [folder for folder in self.record.data.get("folders", []) if os.path.isdir(folder)]
        self.record.bequeath(folders=folders, daemon=self.record.data.get("daemon") if self.daemon_runs() else None)
        self.record.remove()
