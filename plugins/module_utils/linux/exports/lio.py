# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iSCSI target of the Linux kernel (LIO), through its own interface, configfs.

A configuration is a flat mapping of paths below ``/sys/kernel/config/target``: directories (value DIR), links (value:
a LINK to another path) and attributes (value: text). The wanted configuration is an ordered list of the same things, so
that comparing the two gives the plan, and nothing that is not in the snapshot (what others configured) is ever touched.
"""

from __future__ import annotations

import json
import os
import re
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from ...core.failure import Failure
from ...core.iscsi_names import lio_naa, portal_text, unit_serial
from ...core.secrets import keep_secret, same_secret
from ...core.steps import Step
from .. import mounts
from ..host import load_module, loaded_modules, read_text, run, unload_modules, wait_for, write_text
from ..nouns import ExportedLun, ExportedTarget, LostLun
from ..record import Record

DIR = "directory"
Link = namedtuple("Link", "to")
Entry = namedtuple("Entry", "path value")
AUTH = {
    "userid": "chap_user",
    "password": "chap_password",
    "userid_mutual": "mutual_chap_user",
    "password_mutual": "mutual_chap_password",
}
# Demo mode would let any initiator in. Discovery, too, answers only initiators that have an ACL.
TPG_ATTRIBUTES = {
    "generate_node_acls": "0",
    "demo_mode_write_protect": "1",
    "demo_mode_discovery": "0",
    "cache_dynamic_acls": "0",
}
# Settings that figures depend on and this collection leaves as the kernel has them: of a backstore, and of a target.
STORE_FACTS = (
    "emulate_write_cache",
    "emulate_fua_write",
    "emulate_caw",
    "emulate_3pc",
    "emulate_tpu",
    "emulate_tpws",
    "block_size",
    "hw_max_sectors",
    "queue_depth",
)
TPG_FACTS = ("default_cmdsn_depth",)
MASK = "(secret)"


def store_name(testbed_id: str, lun_name: str) -> str:
    return f"storlab-{testbed_id}-{lun_name}"


def wanted_entries(testbed_id: str, targets: list[ExportedTarget], hba: str) -> list[Entry]:
    """The wanted configuration in the order in which it is made. Each LUN carries its ``device``."""
    entries = [Entry(f"core/{hba}", DIR)] if any(target["luns"] for target in targets) else []
    for target in targets:
        for lun in target["luns"]:
            store = f"core/{hba}/{store_name(testbed_id, lun['name'])}"
            entries += [
                Entry(store, DIR),
                Entry(f"{store}/udev_path", lun["device"]),
                Entry(f"{store}/enable", "1"),
                Entry(f"{store}/wwn/vpd_unit_serial", unit_serial(testbed_id, lun["name"], lun.get("generation"))),
            ]
    for target in targets:
        tpg = f"iscsi/{target['name']}/tpgt_1"
        chap = any(initiator.get("chap_user") for initiator in target["initiators"])
        entries += [Entry(f"iscsi/{target['name']}", DIR), Entry(tpg, DIR)]
        entries += [
            Entry(f"{tpg}/attrib/{name}", value)
            for name, value in {"authentication": "1" if chap else "0", **TPG_ATTRIBUTES}.items()
        ]
        for lun in target["luns"]:
            name = store_name(testbed_id, lun["name"])
            entries += [
                Entry(f"{tpg}/lun/lun_{lun['lun']}", DIR),
                Entry(f"{tpg}/lun/lun_{lun['lun']}/{name}", Link(f"core/{hba}/{name}")),
            ]
        for initiator in target["initiators"]:
            acl = f"{tpg}/acls/{initiator['iqn']}"
            entries += [Entry(acl, DIR)] + [
                Entry(f"{acl}/auth/{name}", initiator.get(key) or "") for name, key in AUTH.items()
            ]
            for lun in target["luns"]:
                if initiator.get("luns") is None or lun["lun"] in initiator["luns"]:
                    entries += [
                        Entry(f"{acl}/lun_{lun['lun']}", DIR),
                        Entry(f"{acl}/lun_{lun['lun']}/lun_{lun['lun']}", Link(f"{tpg}/lun/lun_{lun['lun']}")),
                    ]
        # The portals come last: no one can log in to a target that is only half described.
        entries += [
            Entry(f"{tpg}/np/{portal_text(portal['address'], portal['port'])}", DIR) for portal in target["portals"]
        ]
        entries.append(Entry(f"{tpg}/enable", "1"))
    return entries


def made_below_core(entries: list[Entry]) -> dict[str, list[str]]:
    """{path: [serial]} of the adapters (without serial) and backstores of a wanted configuration, for the record."""
    values = {entry.path: entry.value for entry in entries}
    return {
        path: [values[f"{path}/wwn/vpd_unit_serial"]] if _is_store(path) else []
        for path, value in values.items()
        if path.startswith("core/") and value == DIR
    }


def plan(current: dict[str, str | Link], entries: list[Entry]) -> list[Step]:
    """Steps {op, path, was, will}: what is not wanted goes first, innermost first, then the wanted is made in its order."""
    wanted = {entry.path: entry.value for entry in entries}
    doomed = {
        path
        for path, value in current.items()
        if (value == DIR and path not in wanted) or (isinstance(value, Link) and wanted.get(path) != value)
    }
    # A backstore cannot be given another device or serial: it is recreated.
    for store in [
        path for path, value in current.items() if path.startswith("core/") and value == DIR and path in wanted
    ]:
        for attribute in (f"{store}/udev_path", f"{store}/wwn/vpd_unit_serial"):
            if current.get(attribute) and current[attribute] != wanted.get(attribute):
                doomed.add(store)
    links = {path: value for path, value in current.items() if isinstance(value, Link)}
    while True:
        # A LUN that loses its backstore takes the mapped LUNs that name it along.
        lost = doomed | {path.rpartition("/")[0] for path in links if path in doomed}
        more = {path for path, link in links.items() if link.to in lost}
        more |= {
            path
            for path, value in current.items()
            if (value == DIR or path in links) and any(path.startswith(f"{gone}/") for gone in doomed)
        }
        if more <= doomed:
            break
        doomed |= more
    steps: list[Step] = []
    for path in sorted(doomed, key=_removal_order):
        if path.count("/") == 2 and path.startswith("iscsi/") and current.get(f"{path}/enable") == "1":
            steps.append({"op": "write", "path": f"{path}/enable", "was": "1", "will": "0"})
        steps.append(
            {
                "op": "unlink" if isinstance(current[path], Link) else "rmdir",
                "path": path,
                "was": _shown(path, current[path]),
                "will": None,
            }
        )
    kept = {
        path: value
        for path, value in current.items()
        if not any(path == gone or path.startswith(f"{gone}/") for gone in doomed)
    }
    for entry in entries:
        # A new directory's attributes are empty or the kernel's defaults, which reading them would show; unread means unset.
        was = kept.get(entry.path, "" if "/auth/" in entry.path else None)
        if was != entry.value:
            op = "mkdir" if entry.value == DIR else "symlink" if isinstance(entry.value, Link) else "write"
            steps.append(
                {"op": op, "path": entry.path, "was": _shown(entry.path, was), "will": _shown(entry.path, entry.value)}
            )
    return steps


def newly_exported(
    current: dict[str, str | Link], steps: list[Step], targets: list[ExportedTarget], testbed_id: str
) -> list[tuple[ExportedTarget, ExportedLun]]:
    """[(target, LUN)] of the backstores that the steps make on a device that no backstore of ours is on now: the guard has to see it."""
    ours = {value for path, value in current.items() if path.startswith("core/") and path.endswith("/udev_path")}
    made = {step["path"].split("/")[2] for step in steps if step["op"] == "mkdir" and _is_store(step["path"])}
    return [
        (target, lun)
        for target in targets
        for lun in target["luns"]
        if store_name(testbed_id, lun["name"]) in made and lun["device"] not in ours
    ]


def lost_luns(current: dict[str, str | Link], steps: list[Step], sessions: dict[str, dict[str, str]]) -> list[LostLun]:
    """The LUNs that the steps take from initiators that are logged in, if only for a moment: [{target, initiator, address, lun}].

    sessions: {target: {initiator: address}}. A LUN is lost with its mapping, and with a portal, through which it may be reached.
    """
    gone = {step["path"] for step in steps if step["op"] in ("rmdir", "unlink")}
    gone |= {path.rpartition("/")[0] for path in gone if isinstance(current.get(path), Link)}
    lost: list[LostLun] = []
    for target, logged_in in sorted(sessions.items()):
        base = f"iscsi/{target}/tpgt_"
        cut_off = any(path.startswith(base) and "/np/" in path for path in gone)
        for initiator, address in sorted(logged_in.items()):
            mapped = _mapped(current, target, initiator)
            numbers = {
                int(path.rpartition("/lun_")[2])
                for path in mapped
                if current[path] == DIR and (cut_off or path in gone)
            }
            lost += [
                {"target": target, "initiator": initiator, "address": address, "lun": number}
                for number in sorted(numbers)
            ]
    return lost


def exported_luns(steps: list[Step]) -> set[tuple[str, int]]:
    """(target, LUN) that the steps remove."""
    paths = [step["path"].split("/") for step in steps if step["op"] == "rmdir"]
    return {
        (path[1], int(path[4].rpartition("_")[2]))
        for path in paths
        if len(path) == 5 and path[0] == "iscsi" and path[3] == "lun"
    }


def cut_off(
    current: dict[str, str | Link], steps: list[Step], sessions: dict[str, dict[str, str]], same: set[tuple[str, str]]
) -> list[LostLun]:
    """The LUNs of initiators that are logged in with CHAP names or secrets which the steps replace, as ``lost_luns`` has them.

    Their sessions go on, and cannot log in again once their connection breaks. same: (target, initiator) whose names and secrets are those that the testbed
    has set before; even if somebody wrote over them since, the sessions logged in with these.
    """
    written = {step["path"] for step in steps if step["op"] == "write"}
    cut: list[LostLun] = []
    for target, logged_in in sorted(sessions.items()):
        base = f"iscsi/{target}/tpgt_"
        switched = any(path.startswith(base) and path.endswith("/attrib/authentication") for path in written)
        for initiator, address in sorted(logged_in.items()):
            renewed = any(path.startswith(base) and f"/acls/{initiator}/auth/" in path for path in written)
            if (switched or renewed) and (target, initiator) not in same:
                numbers = {
                    int(path.rpartition("/lun_")[2])
                    for path in _mapped(current, target, initiator)
                    if current[path] == DIR
                }
                cut += [
                    {"target": target, "initiator": initiator, "address": address, "lun": number}
                    for number in sorted(numbers)
                ]
    return cut


def _mapped(current: dict[str, str | Link], target: str, initiator: str) -> list[str]:
    """The paths of the LUNs that an initiator sees, and of links below them."""
    below = [path for path in current if path.startswith(f"iscsi/{target}/tpgt_")]
    # Without an ACL of its own it got in while demo mode was on, and sees all LUNs.
    return [path for path in below if f"/acls/{initiator}/lun_" in path] or [
        path for path in below if "/lun/lun_" in path
    ]


def credentials(initiator: Mapping[str, object]) -> str:
    """Everything of CHAP that an initiator logs in with, as one secret."""
    return json.dumps([initiator.get(key) or "" for key in AUTH.values()])


def parse_session(info: str) -> tuple[str, str] | None:
    """(initiator, address) of the session that the ``info`` of an ACL shows, None without one."""
    name = re.search(r"^InitiatorName: (\S+)", info, re.M)
    address = re.search(r"^\s*Address (\S+)", info, re.M)
    return (name.group(1), address.group(1) if address else "") if name else None


def _removal_order(path: str) -> tuple[object, ...]:
    """Mapped LUNs and ACLs before the LUNs they name, LUNs before backstores, children before parents."""
    return (path.startswith("core/"), "/acls/" not in path, -path.count("/"), path)


def _shown(path: str, value: Any) -> Any:
    if isinstance(value, Link):
        return value.to
    return MASK if value and "/auth/password" in path else value


def refuse_foreign(
    existing: dict[str, Any],
    current: dict[str, str | Link],
    targets: list[ExportedTarget],
    testbed_id: str,
    recorded_targets: list[str],
) -> None:
    """Raises foreign_target or foreign_backstore for a wanted name that exists on the host without being this testbed's.

    existing: {"targets": names, "stores": names} of everything in configfs. current: what is this testbed's own.
    """
    own_stores = {path.split("/")[2] for path, value in current.items() if _is_store(path) and value == DIR}
    for target in targets:
        if target["name"] in existing["targets"] and target["name"] not in recorded_targets:
            raise Failure(
                "foreign_target",
                f"The target {target['name']} exists already, and not by this testbed.",
                "Use another name, or remove that target.",
                target=target["name"],
            )
        for lun in target["luns"]:
            store = store_name(testbed_id, lun["name"])
            if store in existing["stores"] and store not in own_stores:
                raise Failure(
                    "foreign_backstore",
                    f"The backstore {store} of LUN {lun['name']} exists already, and the record of this testbed does not hold it.",
                    "Use another name for the LUN or another testbed_id, or remove that backstore.",
                    backstore=store,
                )


def _is_store(path: str) -> bool:
    """Whether a path below the target configuration is a backstore's own folder: core/<adapter>/<name>."""
    return path.startswith("core/") and path.count("/") == 2


class Configfs:
    """Reads and changes the target configuration below one root."""

    def __init__(self, root: str = f"{mounts.CONFIGFS}/target") -> None:
        self.root = root

    def at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def names(self, path: str, prefix: str = "") -> list[str]:
        folder = self.at(path)
        return sorted(name for name in os.listdir(folder) if name.startswith(prefix)) if os.path.isdir(folder) else []

    def subfolders(self, path: str, prefix: str = "") -> list[str]:
        return [name for name in self.names(path, prefix) if os.path.isdir(self.at(f"{path}/{name}"))]

    def _links(self, path: str) -> dict[str, str | Link]:
        return {
            f"{path}/{name}": Link(
                os.path.relpath(os.path.realpath(self.at(f"{path}/{name}")), os.path.realpath(self.root))
            )
            for name in self.names(path)
            if os.path.islink(self.at(f"{path}/{name}"))
        }

    def stores(self, recorded: dict[str, list[str]]) -> dict[str, str | Link]:
        """This testbed's backstores and their adapters among those that are there.

        recorded: {path: serials} of what the testbed made below core/; an adapter has none. Names are compared exactly. A
        recorded store that was killed at birth has no serial yet; one with another serial is somebody else's.
        """
        adapters: dict[str, str | Link] = {}
        for path in sorted(path for path in recorded if _is_store(path) and os.path.isdir(self.at(path))):
            serial = read_text(self.at(f"{path}/wwn/vpd_unit_serial"), default="").rpartition(":")[2].strip()
            info = read_text(self.at(f"{path}/info"), default="")
            if serial in ("", *recorded[path]):
                device = info.partition("UDEV PATH: ")[2].split()
                adapters.update(
                    {
                        path: DIR,
                        f"{path}/udev_path": device[0] if device else "",
                        f"{path}/enable": "1" if "Status: ACTIVATED" in info else "0",
                        f"{path}/wwn/vpd_unit_serial": serial,
                    }
                )
        for hba in sorted(path for path in recorded if not _is_store(path) and os.path.isdir(self.at(path))):
            # A thing that others put below an adapter of ours keeps it.
            if all(f"{hba}/{name}" in adapters for name in self.subfolders(hba)):
                adapters[hba] = DIR
        return adapters

    def existing(self) -> dict[str, object]:
        """The names of all targets and backstores of this host, whoever made them."""
        return {
            "targets": [name for name in self.subfolders("iscsi") if name != "discovery_auth"],
            "stores": [store for hba in self.subfolders("core") for store in self.subfolders(f"core/{hba}")],
        }

    def target(self, name: str) -> dict[str, str | Link]:
        """One target with everything of it that this collection manages."""
        base = f"iscsi/{name}"
        entries: dict[str, str | Link] = {}
        if not os.path.isdir(self.at(base)):
            return entries
        entries[base] = DIR
        for tpg in [f"{base}/{tag}" for tag in self.subfolders(base, "tpgt_")]:
            entries[tpg] = DIR
            for attribute in ["enable"] + [f"attrib/{key}" for key in ("authentication", *TPG_ATTRIBUTES)]:
                entries[f"{tpg}/{attribute}"] = read_text(self.at(f"{tpg}/{attribute}"))
            for portal in self.subfolders(f"{tpg}/np"):
                entries[f"{tpg}/np/{portal}"] = DIR
            for lun in self.subfolders(f"{tpg}/lun", "lun_"):
                entries.update({f"{tpg}/lun/{lun}": DIR, **self._links(f"{tpg}/lun/{lun}")})
            for acl in [f"{tpg}/acls/{initiator}" for initiator in self.subfolders(f"{tpg}/acls")]:
                entries[acl] = DIR
                for key in AUTH:
                    value = read_text(self.at(f"{acl}/auth/{key}"), default="")
                    entries[f"{acl}/auth/{key}"] = "" if value == "NULL" else value
                for lun in self.subfolders(acl, "lun_"):
                    entries.update({f"{acl}/{lun}": DIR, **self._links(f"{acl}/{lun}")})
        return entries

    def facts(self, target: str, store: str) -> dict[str, str]:
        """{attribute: value} of a backstore and of the target that exports it, as they are now; what there is not is absent."""
        folders = [f"core/{hba}/{store}" for hba in self.subfolders("core")]
        places = {f"{folder}/attrib/{name}": name for folder in folders for name in STORE_FACTS}
        places.update({f"iscsi/{target}/tpgt_1/attrib/{name}": name for name in TPG_FACTS})
        return {name: value for path, name in places.items() if (value := read_text(self.at(path), default=""))}

    def sessions(self, target: str) -> dict[str, str]:
        """{initiator: address} of who is logged in to the target; the address of one without an ACL is not shown."""
        addresses = {}
        for tpg in self.subfolders(f"iscsi/{target}", "tpgt_"):
            base = f"iscsi/{target}/{tpg}"
            addresses.update(dict.fromkeys(read_text(self.at(f"{base}/dynamic_sessions"), default="").split(), ""))
            for acl in self.subfolders(f"{base}/acls"):
                session = parse_session(read_text(self.at(f"{base}/acls/{acl}/info"), default=""))
                addresses.update(dict([session]) if session else {})
        return addresses

    def free_hba(self) -> str:
        taken, index = self.names("core", "iblock_"), 0
        while f"iblock_{index}" in taken:
            index += 1
        return f"iblock_{index}"

    def apply(self, steps: list[Step], entries: list[Entry]) -> None:
        values = {entry.path: entry.value for entry in entries}
        for step in steps:
            try:
                self._apply(step, values.get(step["path"]))
            except OSError as error:
                raise _explained(step, error) from error

    def _apply(self, step: Step, value: Any) -> None:
        path = self.at(step["path"])
        if step["op"] == "mkdir":
            os.mkdir(path)
        elif step["op"] == "rmdir":
            os.rmdir(path)
        elif step["op"] == "unlink":
            os.unlink(path)
        elif step["op"] == "symlink":
            os.symlink(self.at(value.to), path)
        elif path.endswith("/udev_path"):
            write_text(os.path.join(os.path.dirname(path), "control"), f"udev_path={value}")
            write_text(path, value)
        else:
            # LIO takes the word NULL for "no user, no password".
            write_text(path, step["will"] if value is None else value or "NULL")


def _explained(step: Step, error: OSError) -> Failure:
    path = step["path"]
    if "/np/" in path and step["op"] == "mkdir":
        return Failure(
            "portal_unavailable",
            f"The target cannot listen on {os.path.basename(path)}: {error.strerror}.",
            "Use an address of this host, and a port nothing else listens on.",
            portal=os.path.basename(path),
        )
    if path.startswith("core/") and path.endswith("/enable"):
        return Failure(
            "backstore_refused",
            f"The kernel refuses the device of backstore {path.split('/')[2]}: {error.strerror}.",
            "Look at the kernel log; the device must exist and nothing else may hold it.",
            backstore=path.split("/")[2],
        )
    return Failure(
        "configfs_refused",
        f"The kernel refuses to {step['op']} {path} in the target configuration: {error.strerror}.",
        "Look at the kernel log of the target host.",
        path=path,
        operation=step["op"],
    )


class LioTarget:
    """The targets of one testbed on this host."""

    MODULES = ("target_core_mod", "target_core_iblock", "iscsi_target_mod")

    def __init__(self, testbed_id: str) -> None:
        self.testbed_id = testbed_id
        self.record = Record(testbed_id, "lio_target")
        self.configfs = Configfs()

    def current(self) -> dict[str, str | Link]:
        entries = self.configfs.stores(self.record.data.get("core", {}))
        for name in self.record.data.get("targets", []):
            entries.update(self.configfs.target(name))
        return entries

    def refuse_foreign(self, current: dict[str, str | Link], targets: list[ExportedTarget]) -> None:
        recorded = self.record.data.get("targets", [])
        refuse_foreign(self.configfs.existing(), current, targets, self.testbed_id, recorded)

    def lost_luns(self, current: dict[str, str | Link], steps: list[Step], patience_s: float) -> list[LostLun]:
        """The loss of logged-in initiators by the steps; waits for sessions that are just ending."""

        def lost() -> list[LostLun]:
            recorded = self.record.data.get("targets", [])
            return lost_luns(current, steps, {name: self.configfs.sessions(name) for name in recorded})

        wait_for(lambda: not lost(), patience_s, interval_s=0.5)
        return lost()

    def cut_off(
        self, current: dict[str, str | Link], steps: list[Step], targets: list[ExportedTarget]
    ) -> list[LostLun]:
        """The loss of initiators with their next broken connection, because the steps replace what they logged in with."""
        names, kept = self.record.data.get("targets", []), self.record.data.get("chap", {})
        same = {
            (target["name"], initiator["iqn"])
            for target in targets
            for initiator in target["initiators"]
            if same_secret(credentials(initiator), kept.get(f"{target['name']} {initiator['iqn']}"))
        }
        return cut_off(current, steps, {name: self.configfs.sessions(name) for name in names}, same)

    def entries(self, current: dict[str, str | Link], targets: list[ExportedTarget]) -> list[Entry]:
        used = sorted({path.split("/")[1] for path in current if path.startswith("core/")})
        return wanted_entries(self.testbed_id, targets, used[0] if used else self.configfs.free_hba())

    def apply(self, targets: list[ExportedTarget], steps: list[Step], entries: list[Entry]) -> None:
        before = loaded_modules()
        names, made = [target["name"] for target in targets], made_below_core(entries)
        self.record.data["targets"] = sorted(set(self.record.data.get("targets", [])) | set(names))
        # A store that gets another serial has the old one until it is recreated: whichever a killed run leaves is ours.
        before_core = self.record.data.get("core", {})
        self.record.data["core"] = {
            path: sorted({*before_core.get(path, []), *made.get(path, [])}) for path in {**before_core, **made}
        }
        self.record.save()
        load_module("configfs", intend=self.record.intend_modules, provides=mounts.CONFIGFS)
        if mounts.mounted_at(mounts.read(), mounts.CONFIGFS) is None:
            self.record.data["mounted_configfs"] = True
            self.record.save()
            run(["mount", "-t", "configfs", "configfs", mounts.CONFIGFS], what="configfs cannot be mounted")
        try:
            for module in self.MODULES:
                load_module(module, intend=self.record.intend_modules)
            fabric = self.configfs.at("iscsi")
            if not os.path.isdir(fabric):
                self.record.data["made_fabric"] = True
                self.record.save()
                os.mkdir(fabric)
            self.configfs.apply(steps, entries)
            chap = {
                f"{target['name']} {initiator['iqn']}": keep_secret(credentials(initiator))
                for target in targets
                for initiator in target["initiators"]
            }
            self.record.data.update(targets=names, core=made, chap=chap)
        finally:
            self.record.note_modules(before)

    def facts(self, target: ExportedTarget, lun: ExportedLun) -> dict[str, Any]:
        facts = self.configfs.facts(target["name"], store_name(self.testbed_id, lun["name"]))
        return {"lio": facts} if facts else {}

    def remove_all(self, steps: list[Step]) -> None:
        self.configfs.apply(steps, [])
        if (
            self.record.data.get("made_fabric")
            and os.path.isdir(self.configfs.at("iscsi"))
            and not any(name != "discovery_auth" for name in self.configfs.subfolders("iscsi"))
        ):
            os.rmdir(self.configfs.at("iscsi"))
        unload_modules(self.record.data.get("modules", []))
        if self.record.data.get("mounted_configfs") and not any(
            os.listdir(os.path.join(mounts.CONFIGFS, name)) for name in os.listdir(mounts.CONFIGFS)
        ):
            run(["umount", mounts.CONFIGFS], what="configfs cannot be unmounted")
        self.record.unload_modules()
        left = {"made_fabric": self.configfs.at("iscsi"), "mounted_configfs": f"{mounts.CONFIGFS}/target"}
        self.record.bequeath(
            **{key: True for key, path in left.items() if self.record.data.get(key) and os.path.isdir(path)}
        )
        self.record.remove()


def lun_identity(testbed_id: str, target: ExportedTarget, lun: ExportedLun) -> dict[str, Any]:
    serial = unit_serial(testbed_id, lun["name"], lun.get("generation"))
    return {"target_iqn": target["name"], "lun": lun["lun"], "serial": serial, "naa": lio_naa(serial)}
