# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user-space iSCSI target tgt: a tgtd of the testbed's own, controlled through its control socket.

tgtadm takes CHAP secrets only among its arguments, where every user of the host can read them. So it is given a stand-in of the
same length and sent to a socket of ours, which puts the secret in its place and passes the request on to tgtd.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import socket
import tempfile
import threading
from typing import Any, cast

from ...core.failure import Failure, bad_value
from ...core.iscsi_names import portal_text, same_iqn, scsi_id, unit_serial
from ...core.steps import Step
from .. import daemon
from ..host import loaded_modules, run, wait_for
from ..nouns import ExportedLun, ExportedTarget, LostLun, TgtExport, TgtState
from ..record import Record

SOCKETS = "/var/run/tgtd"
OWN_LUN = "tgt's own controller"
HASH_ROUNDS = 20000
LUN_FIELDS = {
    "SCSI ID": "scsi_id",
    "SCSI SN": "serial",
    "Backing store path": "device",
    "Backing store flags": "flags",
}


def check_targets(targets: list[ExportedTarget]) -> dict[str, str]:
    """{user: secret} of all accounts; raises bad_value for what tgt cannot do as it was asked for."""
    accounts: dict[str, str] = {}
    for target in targets:
        variable = f"iscsi_target_targets {target['name']}"
        every = {lun["lun"] for lun in target["luns"]}
        if 0 in every:
            raise bad_value(f"{variable} lun", 0, f"Number the LUNs from 1: LUN 0 is {OWN_LUN}.")
        outgoing = set()
        for initiator in target["initiators"]:
            if initiator.get("luns") is not None and set(initiator["luns"]) != every:
                raise bad_value(
                    f"{variable} initiator {initiator['iqn']} luns",
                    sorted(initiator["luns"]),
                    "tgt shows all LUNs of a target to all its initiators: make a target for each, or use the provider lio.",
                )
            outgoing.add(initiator.get("mutual_chap_user") or "")
            for user, password in (("chap_user", "chap_password"), ("mutual_chap_user", "mutual_chap_password")):
                name, secret = initiator.get(user), cast(str, initiator.get(password))
                if name and re.search(r"[,=\s]", name):
                    raise bad_value(
                        f"{variable} {user}", name, "tgt takes names without commas, equals signs and blanks."
                    )
                if secret and "," in secret:
                    raise bad_value(
                        f"{variable} {password}", "a text with a comma", "tgt takes secrets without commas."
                    )
                if name and accounts.setdefault(name, secret) != secret:
                    raise bad_value(
                        f"{variable} {user}",
                        name,
                        "tgt knows one secret for a name: use another name, or the same secret.",
                    )
        if len(outgoing) > 1:
            raise bad_value(
                f"{variable} mutual_chap_user",
                sorted(outgoing),
                "tgt has one mutual name for a target: give all its initiators the same.",
            )
    return accounts


def parse_targets(text: str) -> dict[str, TgtExport]:
    """{iqn: {tid, luns: {lun: {scsi_id, serial, device, flags, block_bytes}}, incoming, outgoing, acl, sessions}} from ``tgtadm --mode target --op show``.

    sessions: {initiator: address} of who is logged in.
    """
    targets: dict[str, TgtExport] = {}
    target: TgtExport = {}
    lun: dict[str, Any] = {}
    section = initiator = ""
    for line in text.splitlines():
        head = re.match(r"Target (\d+): (\S+)", line)
        if head:
            target = targets[head.group(2)] = {
                "tid": int(head.group(1)),
                "luns": {},
                "incoming": set(),
                "outgoing": set(),
                "acl": set(),
                "sessions": {},
            }
            continue
        key, _colon, value = (part.strip() for part in line.strip().partition(":"))
        if line.startswith("    ") and line[4:5] not in ("", " "):
            section = key
        elif section == "I_T nexus information" and key == "Initiator":
            initiator = value.split()[0]
            target["sessions"][initiator] = ""
        elif section == "I_T nexus information" and key == "IP Address":
            target["sessions"][initiator] = value
        elif section == "LUN information":
            if key == "LUN":
                lun = target["luns"][int(value)] = {}
            elif key in LUN_FIELDS:
                lun[LUN_FIELDS[key]] = value
            elif key == "Size":
                size = re.search(r"Block size: (\d+)", value)
                lun["block_bytes"] = int(size.group(1)) if size else 512
        elif section == "Account information" and line.strip():
            name, _blank, direction = line.strip().partition(" ")
            target["outgoing" if direction == "(outgoing)" else "incoming"].add(name)
        elif section == "ACL information" and line.strip():
            target["acl"].add(line.strip())
    for entry in targets.values():
        entry["luns"].pop(0, None)
    return targets


def parse_portals(text: str) -> list[str]:
    return [line.partition(": ")[2].rpartition(",")[0] for line in text.splitlines() if line.startswith("Portal: ")]


def plan(
    current: TgtState, targets: list[ExportedTarget], changed_accounts: set[str], testbed_id: str, page_cache: bool
) -> list[Step]:
    """Steps {op, target, was, will, argv}; an account step carries its user, never a secret.

    current: {running, portals, accounts, targets}. page_cache: whether tgtd reads and writes through the page cache.
    A target gets its ACL last: until then no one can log in.
    """
    steps: list[Step] = []

    def add(op: Any, target: Any, was: object, will: object, *argv: Any, **more: Any) -> None:
        steps.append(cast(Step, {"op": op, "target": target, "was": was, "will": will, "argv": list(argv), **more}))

    portals = list(dict.fromkeys(portal_text(**portal) for target in targets for portal in target["portals"]))
    if not current["running"]:
        add("start", "tgtd", "not running", "running")
    for portal in portals[0 if current["running"] else 1 :]:
        if portal not in current["portals"]:
            add("add_portal", "tgtd", None, portal, "--mode", "portal", "--op", "new", "--param", f"portal={portal}")
    names = {target["name"] for target in targets}
    for name in sorted(set(current["targets"]) - names):
        add(
            "remove_target",
            name,
            "present",
            None,
            "--mode",
            "target",
            "--op",
            "delete",
            "--force",
            "--tid",
            str(current["targets"][name]["tid"]),
        )
    wanted = {
        initiator[key]
        for target in targets
        for initiator in target["initiators"]
        for key in ("chap_user", "mutual_chap_user")
        if initiator.get(key)
    }
    for user in sorted(current["accounts"]):
        if user not in wanted or user in changed_accounts:
            add("remove_account", user, "present", None, "--mode", "account", "--op", "delete", "--user", user)
    for user in sorted(wanted):
        if user not in current["accounts"] or user in changed_accounts:
            add("add_account", user, None, "(secret)", user=user)
    tids = {known["tid"] for known in current["targets"].values()}
    for target in targets:
        known = current["targets"].get(target["name"])
        if known is None:
            tid = next(number for number in range(1, len(tids) + 2) if number not in tids)
            tids.add(tid)
            known = {"tid": tid, "luns": {}, "incoming": set(), "outgoing": set(), "acl": set()}
            add(
                "add_target",
                target["name"],
                None,
                "present",
                "--mode",
                "target",
                "--op",
                "new",
                "--tid",
                str(tid),
                "-T",
                target["name"],
            )
        _plan_target(add, target, known, wanted - changed_accounts, testbed_id, page_cache)
    for portal in current["portals"]:
        if portal not in portals:
            add(
                "remove_portal",
                "tgtd",
                portal,
                None,
                "--mode",
                "portal",
                "--op",
                "delete",
                "--param",
                f"portal={portal}",
            )
    return steps


def lost_luns(current: TgtState, steps: list[Step]) -> list[LostLun]:
    """The LUNs that the steps take from initiators that are logged in, if only for a moment: [{target, initiator, address, lun}].

    Every initiator of a target sees all its LUNs. tgtd removes targets and LUNs whoever uses them.
    """
    everything = any(step["op"] == "stop" for step in steps)
    gone = {step["target"] for step in steps if step["op"] == "remove_target"}
    numbers = {(step["target"], step["lun"]) for step in steps if step["op"] == "remove_lun"}
    return [
        {"target": name, "initiator": initiator, "address": address, "lun": lun}
        for name, target in sorted(current["targets"].items())
        for initiator, address in sorted(target.get("sessions", {}).items())
        for lun in sorted(target["luns"])
        if everything or name in gone or (name, lun) in numbers
    ]


def newly_exported(
    current: TgtState, targets: list[ExportedTarget], steps: list[Step]
) -> list[tuple[str, ExportedLun]]:
    """[(target, LUN)] that the steps add, but for devices that are exported here already."""
    added = {step["lun"] for step in steps if step["op"] == "add_lun"}
    ours = {lun.get("device") for known in current["targets"].values() for lun in known["luns"].values()}
    return [
        (target["name"], lun)
        for target in targets
        for lun in target["luns"]
        if lun["name"] in added and lun["device"] not in ours
    ]


def cut_off(current: TgtState, targets: list[ExportedTarget], changed: set[str], kept: set[str]) -> list[LostLun]:
    """The LUNs of initiators that are logged in with CHAP names or secrets other than those that are wanted, as ``lost_luns`` has them.

    Their sessions go on, and cannot log in again once their connection breaks. changed, kept: the names whose secret is known to be another, or the same.
    """
    cut: list[LostLun] = []
    for target in targets:
        known: TgtExport = current["targets"].get(target["name"], {})
        for name, address in sorted(known.get("sessions", {}).items()):
            initiator = next((entry for entry in target["initiators"] if same_iqn(entry["iqn"], name)), None)
            pairs = (("chap_user", known["incoming"]), ("mutual_chap_user", known["outgoing"])) if initiator else ()
            if any(_renewed((initiator or {}).get(key), bound, changed, kept) for key, bound in pairs):
                place: LostLun = {"target": target["name"], "initiator": name, "address": address}
                cut += [{**place, "lun": lun} for lun in sorted(known["luns"])]
    return cut


def _renewed(user: str | None, bound: set[str], changed: set[str], kept: set[str]) -> bool:
    if not user:
        return bool(bound)
    # An account that somebody removed by hand comes back as it was.
    return user in changed or (user not in bound and user not in kept)


def _plan_target(
    add: Any,
    target: ExportedTarget,
    known: TgtExport,
    kept_accounts: set[str],
    testbed_id: str,
    page_cache: bool,
) -> None:
    name, tid = target["name"], ["--tid", str(known["tid"])]
    wanted = {
        lun["lun"]: {
            "scsi_id": scsi_id(testbed_id, lun["name"], lun.get("generation")),
            "serial": unit_serial(testbed_id, lun["name"], lun.get("generation")),
            "device": lun["device"],
            "flags": "" if page_cache else "direct",
            # I/O that bypasses the page cache has to come in blocks of the device; the initiator learns their size.
            "block_bytes": 512 if page_cache else lun["block_bytes"],
        }
        for lun in target["luns"]
    }
    for number in sorted(known["luns"]):
        if known["luns"][number] != wanted.get(number):
            add(
                "remove_lun",
                name,
                known["luns"][number],
                None,
                "--mode",
                "logicalunit",
                "--op",
                "delete",
                *tid,
                "--lun",
                str(number),
                lun=number,
            )
    for lun in target["luns"]:
        new, place = wanted[lun["lun"]], str(lun["lun"])
        if known["luns"].get(lun["lun"]) != new:
            add(
                "add_lun",
                name,
                None,
                new,
                "--mode",
                "logicalunit",
                "--op",
                "new",
                *tid,
                "--lun",
                place,
                "--bstype",
                "rdwr",
                *(["--bsoflags", new["flags"]] if new["flags"] else []),
                "--blocksize",
                str(new["block_bytes"]),
                "-b",
                str(lun["device"]),
                lun=lun["name"],
            )
            add(
                "identify_lun",
                name,
                None,
                place,
                "--mode",
                "logicalunit",
                "--op",
                "update",
                *tid,
                "--lun",
                place,
                "--params",
                f"vendor_id=STORLAB,product_id={lun['name'][:16]},scsi_id={new['scsi_id']},scsi_sn={new['serial']}",
            )
    sides: tuple[tuple[set[str], str, list[str]], ...] = (
        (known["incoming"], "chap_user", []),
        (known["outgoing"], "mutual_chap_user", ["--outgoing"]),
    )
    for there, key, flag in sides:
        users = {initiator[key] for initiator in target["initiators"] if initiator.get(key)}
        # An account that was deleted is bound no more.
        bound = there & kept_accounts
        for user in sorted(bound - users):
            add("unbind_account", name, user, None, "--mode", "account", "--op", "unbind", *tid, "--user", user, *flag)
        for user in sorted(users - bound):
            add("bind_account", name, None, user, "--mode", "account", "--op", "bind", *tid, "--user", user, *flag)
    initiators = {initiator["iqn"] for initiator in target["initiators"]}
    for entry in sorted(known["acl"] - initiators):
        option = "--initiator-name" if ":" in entry and entry[:4] in ("iqn.", "eui.", "naa.") else "--initiator-address"
        add("refuse_initiator", name, entry, None, "--mode", "target", "--op", "unbind", *tid, option, entry)
    for entry in sorted(initiators - known["acl"]):
        add("admit_initiator", name, None, entry, "--mode", "target", "--op", "bind", *tid, "--initiator-name", entry)


def hash_secret(secret: str, salt: str) -> str:
    """tgtd never shows a secret again; its hash in the record (0600) shows whether it changed."""
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), bytes.fromhex(salt), HASH_ROUNDS).hex()


class TgtTarget:
    """The tgtd of one testbed on this host."""

    def __init__(self, testbed_id: str, control_port: int) -> None:
        self.testbed_id, self.port = testbed_id, control_port
        self.record = Record(testbed_id, "tgt_target")
        self.pid_file = os.path.join(self.record.folder, "tgtd.pid")
        self.socket = f"{SOCKETS}/socket.{control_port}"

    # -- what is there

    def pid(self) -> Any:
        return daemon.running_pid("--pid-file", self.pid_file)

    def adm(self, *argv: str, ok: tuple[Any, ...] = (0,), environment: dict[str, Any] | None = None) -> Any:
        return run(["tgtadm", "-C", str(self.port), "--lld", "iscsi", *argv], ok=ok, environment=environment)

    def answers(self) -> bool:
        """Whether a tgtd, ours or not, serves the control socket."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self.socket)
        except OSError:  # nobody there
            return False
        return True

    def current(self) -> TgtState:
        nothing: TgtState = {"running": False, "portals": [], "accounts": set(), "targets": {}}
        if not self.answers():
            return nothing
        if self.pid() is None:
            raise Failure(
                "foreign_tgtd",
                f"A tgtd that this testbed did not start has the control port {self.port}.",
                "Give the testbed another port with iscsi_target_tgt_control_port.",
                control_port=self.port,
            )
        accounts = self.adm("--mode", "account", "--op", "show").stdout.splitlines()[1:]
        return {
            "running": True,
            "portals": parse_portals(self.adm("--mode", "portal", "--op", "show").stdout),
            "accounts": {name.strip() for name in accounts if name.strip()},
            "targets": parse_targets(self.adm("--mode", "target", "--op", "show").stdout),
        }

    def known_accounts(self, accounts: dict[str, str]) -> set[str]:
        """Those of which the record has a secret, be it this one or another."""
        return set(accounts) & set(self.record.data.get("accounts", {}))

    def changed_accounts(self, accounts: dict[str, str]) -> set[str]:
        """Accounts whose secret is not the one tgtd was given, as far as the record shows."""
        known = self.record.data.get("accounts", {})
        return {
            user
            for user, secret in accounts.items()
            if user not in known
            or not hmac.compare_digest(known[user]["hash"], hash_secret(secret, known[user]["salt"]))
        }

    # -- change

    def apply(self, steps: list[Step], targets: list[ExportedTarget], accounts: dict[str, str]) -> None:
        self.record.save()
        for step in steps:
            if step["op"] == "start":
                # tgtd looks for RDMA, for which the kernel loads half a dozen modules.
                before = loaded_modules()
                self.record.intend("rdma_ucm")
                try:
                    self._start(portal_text(**targets[0]["portals"][0]))
                finally:
                    self.record.note_modules(before)
            elif step["op"] == "add_account":
                self._add_account(step["user"], accounts[step["user"]])
            else:
                self._tell(step)

    def _tell(self, step: Step) -> None:
        try:
            self.adm(*step["argv"])
        except Failure as failure:
            if failure.code != "command_failed":
                raise
            if step["op"] == "add_portal":
                raise self._no_portal(step["will"]) from failure
            raise Failure(
                "tgt_refused",
                f"tgtd refuses to {step['op'].replace('_', ' ')} {step['target']}: {failure.what}",
                "Look at the log of tgtd on the target host.",
                operation=step["op"],
                target=step["target"],
            ) from failure

    @staticmethod
    def _no_portal(portal: str) -> Failure:
        return Failure(
            "portal_unavailable",
            f"The target cannot listen on {portal}.",
            "Use an address of this host, and a port nothing else listens on.",
            portal=portal,
        )

    def _start(self, portal: str) -> None:
        if "made_folder" not in self.record.data:
            self.record.data["made_folder"] = not os.path.isdir(SOCKETS)
            self.record.save()
        run(
            ["tgtd", "-C", str(self.port), "--pid-file", self.pid_file, "--iscsi", f"portal={portal}"],
            what="tgtd cannot be started",
        )
        # It daemonizes before it binds: only the list of its portals says whether it could.
        if not wait_for(lambda: self.pid() and self.answers(), timeout_s=15) or portal not in self.current()["portals"]:
            self.stop()
            raise self._no_portal(portal)

    def _add_account(self, user: str, secret: str) -> None:
        salt = secrets.token_hex(16)
        with secret_in_request(self.socket, self.record.folder, secret) as (environment, stand_in):
            self.adm(
                "--mode", "account", "--op", "new", "--user", user, "--password", stand_in, environment=environment
            )
        self.record.data.setdefault("accounts", {})[user] = {"salt": salt, "hash": hash_secret(secret, salt)}
        self.record.save()

    # -- away with it

    def stop(self) -> None:
        if self.pid() and self.answers():
            # tgtd ignores every wish to end while it has targets.
            for target in parse_targets(self.adm("--mode", "target", "--op", "show").stdout).values():
                self.adm("--mode", "target", "--op", "delete", "--force", "--tid", str(target["tid"]))
            self.adm("--mode", "system", "--op", "delete")
        if not daemon.wait_until_gone(self.pid, 10) and not daemon.end_process(self.pid, daemon.patience(5)):
            raise Failure(
                "tgtd_stays",
                f"tgtd (pid {self.pid()}) does not end.",
                "Look at the kernel log of the target host.",
                pid=self.pid(),
            )
        for path in (self.socket, f"{self.socket}.lock", self.pid_file):
            if os.path.exists(path):
                os.unlink(path)
        if self.record.data.get("made_folder") and os.path.isdir(SOCKETS) and not os.listdir(SOCKETS):
            os.rmdir(SOCKETS)

    def remove_all(self) -> None:
        self.stop()
        self.record.unload_modules()
        self.record.remove()


class secret_in_request:
    """Between tgtadm and tgtd: ``with … as (environment, stand_in)`` replaces the stand-in by the secret in the request that passes."""

    def __init__(self, real: str, folder: str, secret: str) -> None:
        self.real, self.folder, self.secret = real, folder, secret.encode()

    def __enter__(self) -> Any:
        self.directory = tempfile.mkdtemp(prefix="tgt-", dir=self.folder)
        # tgtadm appends its control port to the path it finds here.
        base = os.path.join(self.directory, "socket")
        self.path = f"{base}.{self.real.rpartition('.')[2]}"
        # The same length, because the request says how long it is.
        self.stand_in = secrets.token_hex(len(self.secret))[: len(self.secret)]
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(1)
        self.server.settimeout(30)
        self.thread = threading.Thread(target=self._relay, daemon=True)
        self.thread.start()
        return {"TGT_IPC_SOCKET": base}, self.stand_in

    def _relay(self) -> None:
        try:
            client, _address = self.server.accept()
        except OSError:  # closed: tgtadm never came, and says so itself
            return
        with client, socket.socket(socket.AF_UNIX) as tgtd:
            tgtd.connect(self.real)
            request, stand_in = b"", self.stand_in.encode()
            while stand_in not in request:
                more = client.recv(65536)
                if not more:
                    return
                request += more
            tgtd.sendall(request.replace(stand_in, self.secret))
            while True:
                answer = tgtd.recv(65536)
                if not answer:
                    return
                client.sendall(answer)

    def __exit__(self, *_exception: Any) -> None:
        self.server.close()
        self.thread.join(timeout=5)
        os.unlink(self.path)
        os.rmdir(self.directory)


def wwid(testbed_id: str, lun_name: str, generation: str | None = None) -> str:
    """The name of the disk that tgt derives from the SCSI id: NAA type 6, then its last 31 characters, 0 for each that is not a hexadecimal digit."""
    return "naa.6" + re.sub(r"[^0-9a-f]", "0", scsi_id(testbed_id, lun_name, generation)[-31:])


def lun_identity(testbed_id: str, target: ExportedTarget, lun: ExportedLun) -> dict[str, Any]:
    # No NAA identifier: the first one tgt shows is made of target and LUN numbers, and the same on every tgtd.
    return {
        "target_iqn": target["name"],
        "lun": lun["lun"],
        "serial": unit_serial(testbed_id, lun["name"], lun.get("generation")),
        "wwid": wwid(testbed_id, lun["name"], lun.get("generation")),
    }
