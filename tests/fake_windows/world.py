# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Windows hosts: what the collection's scripts and a few modules of others do to them, kept in one JSON file.

It is not Windows. It was written from the documentation of the cmdlets, as the scripts were, and shares their mistakes. What it does hold
against the collection: things that exist are not made twice, what is missing or in use cannot be changed, services that do not run do not
answer, a secret has a length and must be the right one, a restart loses RAM disks. Secrets are kept as digests.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

from aim import Aim
from engines import Engines
from refused import Refused

PRODUCT = "Fake Windows Server (a stand-in of the tests)"
WINDOWS = Path(__file__).resolve().parents[2] / "plugins" / "plugin_utils" / "windows"
FEATURE = "FS-iSCSITarget-Server"
LUN_FIELDS = ("style", "partitions", "volumes")
# The types of WT_IDMethod and what their values look like.
INITIATOR_KINDS = {
    "IQN": lambda value: value.startswith(("iqn.", "eui.", "naa.")) or value == "*",
    "DNSName": lambda value: " " not in value,
    "IPAddress": lambda value: re.fullmatch(r"\d+(\.\d+){3}", value),
    "IPv6Address": lambda value: value.count(":") > 1,
    # belief: that a MAC address is spelled with dashes.
    "MACAddress": lambda value: re.fullmatch(r"([0-9A-F]{2}-){5}[0-9A-F]{2}", value),
}


def drive(name: str, unique_id: str, size_bytes: int, **more: object) -> dict:
    """A disk without partitions of another product, as the host has it."""
    flags = dict.fromkeys(("offline", "read_only", "boot", "system", "clustered"), False)
    known = {"name": name, "lun": 0, "serial": "", "unique_id": unique_id, "size_bytes": size_bytes, "bus": "SCSI"}
    return {**known, "style": "RAW", **flags, "partitions": [], "volumes": {}, **more}


HOST = {
    "feature": "Available",
    "reboot_after_feature": False,
    "reboot_after_removal": False,
    "boot": 1,
    "server": True,
    "addresses": ["192.0.2.11", "198.51.100.11"],
    "services": {"MSiSCSI": {"state": "Stopped", "start_mode": "Manual"}},
    "firewall_rules": {},
    "portals": {},
    "loopback": None,
    "loopback_read": None,
    "page_files": ["C"],
    "virtual_disks": {},
    "targets": {},
    "files": [],
    "folders": {},
    "tasks": {},
    "initiator": {"iqn": "iqn.1991-05.com.microsoft:host", "portals": [], "sessions": {}},
    "disks": {
        "0": {
            "name": "Fake System Disk",
            "lun": 0,
            "serial": "SYS0",
            "unique_id": "FAKE-SYS-0",
            "size_bytes": 64 << 30,
            "bus": "SATA",
            "style": "GPT",
            "offline": False,
            "read_only": False,
            "boot": True,
            "system": True,
            "clustered": False,
            "offline_reason": "",
            "partitions": [
                {"number": 1, "type": "Reserved", "size_bytes": 16 << 20, "letter": ""},
                {"number": 2, "type": "Basic", "size_bytes": 63 << 30, "letter": "C"},
            ],
            "volumes": {"C": {"label": "", "filesystem": "NTFS", "size_bytes": 63 << 30, "entries": []}},
        }
    },
}


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def lasting(hosts: dict) -> dict:
    """Hosts as two builds of one testbed leave them alike: without what is made up anew (serials, ids of disks and sessions) and what is only counted."""
    text = json.dumps(hosts)
    for host in hosts.values():
        for path, disk in host["virtual_disks"].items():
            if "serial" in disk:
                text = text.replace(digest(disk["serial"])[:32].upper(), f"id {digest(path)[:8]}")
                text = text.replace(disk["serial"], f"serial {digest(path)[:8]}")
        for key, session in host["initiator"]["sessions"].items():
            text = text.replace(key, f"session {session['iqn']}")
    return {
        name: {key: value for key, value in host.items() if key not in ("boot", "folder_times", "written")}
        for name, host in sorted(json.loads(text).items())
    }


class World:
    """All hosts of one file, and the calls that were made to them."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.data: dict = {"hosts": {}, "faults": [], "calls": []}

    @contextmanager
    def open(self):
        """The world for one call; written back also after a call that was refused half-way, as a real host would be left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{self.path}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.path.exists():
                self.data = json.loads(self.path.read_text(encoding="utf-8"))
            try:
                yield self
            finally:
                temporary = self.path.with_suffix(".new")
                temporary.write_text(json.dumps(self.data, indent=1, sort_keys=True), encoding="utf-8")
                os.replace(temporary, self.path)

    def add(self, name: str, **settings) -> dict:
        self.data["hosts"][name] = {**copy.deepcopy(HOST), **copy.deepcopy(settings)}
        return self.data["hosts"][name]

    def fault(self, host: str, what: str) -> None:
        """Raise an injected fault of this host for a script or module, and count it down."""
        for fault in self.data["faults"]:
            if fault["host"] == host and fault["what"] == what and fault["times"] > 0:
                fault["times"] -= 1
                raise Refused(fault["message"])


class Host(Aim, Engines):
    """One host's answers. What Arsenal Image Mounter and what the engines do is in files of their own."""

    def __init__(self, world: World, name: str):
        if name not in world.data["hosts"]:
            raise Refused(f"the fake Windows world has no host {name}")
        self.world, self.name, self.data = world, name, world.data["hosts"][name]

    # ---- modules

    def module(self, name: str, arguments: dict, check_mode: bool) -> dict:
        short, script = name.rpartition(".")[2], None
        try:
            script = known_script(arguments["script"]) if short == "win_powershell" else None
            self.world.data["calls"].append(
                {"host": self.name, "module": name, "script": script, "check_mode": check_mode}
            )
            self.world.fault(self.name, script or short)
            handler = getattr(self, f"module_{short}", None)
            if handler is None:
                raise Refused(f"the fake Windows host does not know the module {name}")
            return handler(arguments, check_mode)
        except Refused as refused:
            said = f"{refused} (said by a stand-in for Windows)"
            if script:
                # win_powershell gives no message of its own with what a script throws.
                return {
                    "failed": True,
                    "changed": True,
                    "result": {},
                    "output": [],
                    "error": [{"output": f"{said}\r\n", "exception": {"message": said}}],
                }
            return {"failed": True, "changed": False, "msg": said}

    def module_win_powershell(self, arguments: dict, check_mode: bool) -> dict:
        name = known_script(arguments["script"])
        if check_mode and "SupportsShouldProcess" not in arguments["script"]:
            return {"changed": True, "msg": "skipped, running in check mode"}
        parameters = dict(arguments.get("parameters") or {})
        for secret in arguments.get("sensitive_parameters") or []:
            parameters[secret["name"]] = (secret["username"], secret["password"])
        if name == "state":
            return {"changed": False, "result": self.state(parameters["Files"]), "output": [], "error": []}
        result = getattr(self, f"script_{name}")(**parameters)
        return {
            "changed": "SupportsShouldProcess" not in arguments["script"],
            "result": result or {},
            "output": [],
            "error": [],
        }

    def module_ping(self, arguments: dict, check_mode: bool) -> dict:
        """Of wait_for_connection; Ansible sends win_ping for it to a host with PowerShell."""
        return {"changed": False, "ping": arguments.get("data", "pong")}

    def module_win_feature(self, arguments: dict, check_mode: bool) -> dict:
        if arguments["name"] != [FEATURE]:
            raise Refused(f"no feature {arguments['name']}")
        wanted = arguments["state"] == "present"
        if not wanted and self.data["feature"] == "InstallPending":
            raise Refused("the operation cannot be completed, because the server requires a restart")
        if wanted == (self.data["feature"] == "Installed"):
            return {"changed": False, "reboot_required": False}
        if not check_mode:
            if wanted and self.data["reboot_after_feature"]:
                self.data["feature"] = "InstallPending"
            else:
                self._feature(wanted)
        # belief: that the removal of the iSCSI target role needs a restart where its host says so.
        restart = self.data["reboot_after_feature" if wanted else "reboot_after_removal"]
        if restart and not wanted and not check_mode:
            self.data["feature"] = "UninstallPending"
        return {"changed": True, "reboot_required": restart}

    def _feature(self, wanted: bool) -> None:
        self.data["feature"] = "Installed" if wanted else "Available"
        self.data["services"].pop("WinTarget", None)
        if wanted:
            self.data["services"]["WinTarget"] = {"state": "Stopped", "start_mode": "Auto"}
            # belief: that the target server runs, and listens on every address, once its role is installed.
            self._start("WinTarget")
            self.data["portals"] = {address: {"port": 3260, "enabled": True} for address in self.data["addresses"]}
        else:
            self.data.update(targets={}, virtual_disks={}, portals={})

    def module_win_service(self, arguments: dict, check_mode: bool) -> dict:
        service = self.data["services"].get(arguments["name"])
        if service is None:
            raise Refused(f"service {arguments['name']} does not exist")
        wanted = {
            "state": {"started": "Running", "restarted": "Running", "stopped": "Stopped"}[arguments["state"]],
            "start_mode": arguments.get("start_mode", service["start_mode"]).capitalize(),
        }
        if service == wanted and arguments["state"] != "restarted":
            return {"changed": False}
        if not check_mode:
            if service["state"] == "Running" and arguments["state"] != "started":
                self._lose_ram_disks()
                service["state"] = "Stopped"
            service["start_mode"] = wanted["start_mode"]
            if wanted["state"] == "Running":
                self._start(arguments["name"])
        return {"changed": True}

    def _start(self, name: str) -> None:
        """A service; the target server reads its switch for loopback now and never again."""
        service = self.data["services"][name]
        if name == "WinTarget" and service["state"] != "Running":
            self.data["loopback_read"] = self.data["loopback"]
        service["state"] = "Running"

    def module_win_regedit(self, arguments: dict, check_mode: bool) -> dict:
        if (arguments["path"], arguments["name"]) != (r"HKLM:\SOFTWARE\Microsoft\iSCSI Target", "AllowLoopBack"):
            raise Refused(f"the fake Windows host has no registry value {arguments['path']} {arguments['name']}")
        present = arguments["state"] == "present"
        if present and arguments["type"] != "dword":
            raise Refused("the service reads a DWORD")
        wanted = arguments["data"] if present else None
        changed = wanted != self.data["loopback"]
        if not check_mode:
            self.data["loopback"] = wanted
        return {"changed": changed}

    def module_win_firewall_rule(self, arguments: dict, check_mode: bool) -> dict:
        rules, name = self.data["firewall_rules"], arguments["name"]
        wanted = (
            None
            if arguments["state"] == "absent"
            else {key: arguments[key] for key in ("localport", "remoteip", "protocol", "direction", "action")}
        )
        if rules.get(name) == wanted:
            return {"changed": False}
        if not check_mode:
            rules.pop(name, None)
            if wanted:
                rules[name] = wanted
        return {"changed": True}

    # ---- restart

    def restart(self) -> None:
        self.data["boot"] += 1
        self.lose_runs()
        if self.data["feature"] in ("InstallPending", "UninstallPending"):
            self._feature(self.data["feature"] == "InstallPending")
        for name, service in self.data["services"].items():
            service["state"] = "Stopped"
            if service["start_mode"] == "Auto":
                self._start(name)
        self._lose_ram_disks()
        self.restart_aim()
        for key in list(self.data["initiator"]["sessions"]):
            self._end_session(key)

    def _lose_ram_disks(self) -> None:
        lost = [path for path in self.data["virtual_disks"] if path.startswith("ramdisk:")]
        for path in lost:
            del self.data["virtual_disks"][path]
        for target in self.data["targets"].values():
            target["luns"] = {path: lun for path, lun in target["luns"].items() if path not in lost}
        # belief: that a restart of the service WinTarget loses the virtual disks at ramdisk:, and keeps the targets without them.
        # The initiators log in again by themselves, and find no such LUN.
        for host in self.world.data["hosts"].values():
            gone = [
                number
                for number, disk in host["disks"].items()
                if disk.get("backing", [None])[0] == self.name and disk["backing"][1] in lost
            ]
            for number in gone:
                del host["disks"][number]
            for session in host["initiator"]["sessions"].values():
                session["disks"] = [number for number in session["disks"] if str(number) not in gone]

    # ---- scripts

    def state(self, files: list) -> dict:
        data, target_runs, initiator_runs = self.data, self._runs("WinTarget"), self._runs("MSiSCSI")
        initiator = data["initiator"]
        return {
            # By its key stand_in it announces what it is, for whoever must know.
            "about": {
                "product": PRODUCT,
                "version": "0.0",
                "boot": f"2026-11-21T00:00:{data['boot']:02d}Z",
                "stand_in": "fake_windows",
            },
            "feature": data["feature"] if data["server"] else None,
            "services": [{"name": name, **service} for name, service in data["services"].items()],
            "virtual_disks": [
                {
                    "path": path,
                    "status": "NotConnected",
                    "serial": disk.get("serial", digest(path)[:16]),
                    **{key: disk[key] for key in ("size_bytes", "description")},
                }
                for path, disk in data["virtual_disks"].items()
            ]
            if target_runs
            else [],
            "targets": [
                {
                    "name": name,
                    "iqn": target["iqn"],
                    "description": target["description"],
                    "status": "Disabled"
                    if not target["enabled"]
                    else "Connected"
                    if target["sessions"]
                    else "NotConnected",
                    "initiators": target["initiators"],
                    "luns": [{"path": path, "lun": lun} for path, lun in target["luns"].items()],
                    "chap": bool(target["chap"]),
                    "chap_user": (target["chap"] or {}).get("user", ""),
                    "reverse_chap": bool(target["reverse_chap"]),
                    "reverse_chap_user": (target["reverse_chap"] or {}).get("user", ""),
                    "sessions": target["sessions"],
                }
                for name, target in data["targets"].items()
            ]
            if target_runs
            else [],
            "portals": [{"address": address, **portal} for address, portal in data["portals"].items()]
            if target_runs
            else [],
            "loopback": data["loopback"],
            "firewall_rules": [name for name in data["firewall_rules"] if name.startswith("storlab")],
            "initiator": {
                "iqn": initiator["iqn"] if initiator_runs else None,
                "portals": initiator["portals"] if initiator_runs else [],
                "sessions": [
                    {"id": key, "persistent": False, **session} for key, session in initiator["sessions"].items()
                ],
            },
            "disks": [
                {
                    "number": int(number),
                    "sector_bytes": 512,
                    "page_file": any(letter in data["page_files"] for letter in disk["volumes"]),
                    "offline_reason": "Policy" if disk["offline"] else "",
                    **{key: value for key, value in disk.items() if key not in ("volumes", "backing")},
                    "partitions": [{"folders": [], **part} for part in disk["partitions"]],
                }
                for number, disk in data["disks"].items()
            ],
            "volumes": [
                {"letter": letter, **volume}
                for disk in data["disks"].values()
                for letter, volume in disk["volumes"].items()
            ],
            "files": [
                path
                for path in files
                if path in data["files"]
                or path.rpartition("\\")[2] in data.get("folders", {}).get(path.rpartition("\\")[0], {})
            ],
        }

    def _runs(self, service: str) -> bool:
        return self.data["services"].get(service, {}).get("state") == "Running"

    def _need(self, service: str) -> None:
        if not self._runs(service):
            raise Refused(f"the service {service} is not running")

    def script_service_start(self, Name: str) -> None:
        if self.data["services"][Name]["start_mode"] == "Disabled":
            raise Refused(f"service {Name} cannot be started")
        self._start(Name)

    def script_service_stop(self, Name: str) -> None:
        self.data["services"][Name]["state"] = "Stopped"

    def script_vdisk_new_fixed(self, Path: str, SizeBytes: int, Description: str) -> None:
        self._vdisk_new(Path, SizeBytes, Description, fixed=True)

    def _place(self, path: str, size_bytes: int) -> None:
        """Put a file on its volume, whose listing shows it where it is in no folder. One that does not fit is refused."""
        _disk, volume = self._volume(path[0].upper())
        used = sum(entry["size_bytes"] or 0 for entry in volume["entries"])
        if not volume["filesystem"] or used + size_bytes > volume["size_bytes"]:
            raise Refused("there is not enough space on the disk")
        if "\\" not in path[3:]:
            volume["entries"].append({"name": path[3:], "size_bytes": size_bytes})

    def script_vdisk_new(self, Path: str, SizeBytes: int, Description: str) -> None:
        self._vdisk_new(Path, SizeBytes, Description, fixed=False)

    def _vdisk_new(self, Path: str, SizeBytes: int, Description: str, fixed: bool) -> None:
        self._need("WinTarget")
        if Path in self.data["virtual_disks"] or Path in self.data["files"]:
            raise Refused(f"the file {Path} exists")
        if SizeBytes % 512 or len(Description) > 256:
            raise Refused("the parameter is incorrect")
        if not Path.startswith("ramdisk:"):
            if Path[0].upper() not in {letter for disk in self.data["disks"].values() for letter in disk["volumes"]}:
                raise Refused(f"the path {Path} does not exist")
            self._place(Path, SizeBytes if fixed else 4 << 20)
            self.data["files"].append(Path)
        # A disk that is made anew is another one.
        # belief: that a virtual disk which is made again has another serial.
        serial = digest(f"{Path} {len(self.world.data['calls'])}")[:16]
        self.data["virtual_disks"][Path] = {
            "size_bytes": SizeBytes,
            "description": Description,
            "serial": serial,
            "style": "RAW",
            "partitions": [],
            "volumes": {},
        }

    def _virtual_disk(self, path: str) -> dict:
        self._need("WinTarget")
        if path not in self.data["virtual_disks"]:
            raise Refused(f"there is no virtual disk {path}")
        return self.data["virtual_disks"][path]

    def script_vdisk_remove(self, Path: str) -> None:
        self._virtual_disk(Path)
        # belief: that a virtual disk which is assigned to a target cannot be removed.
        if any(Path in target["luns"] for target in self.data["targets"].values()):
            raise Refused(f"the virtual disk {Path} is assigned to a target")
        del self.data["virtual_disks"][Path]

    def script_file_remove(self, Path: str) -> None:
        if Path not in self.data["files"] or Path in self.data["virtual_disks"]:
            raise Refused(f"the file {Path} is missing or in use")
        self.data["files"].remove(Path)
        volume = self._volume(Path[0].upper())[1]
        volume["entries"] = [entry for entry in volume["entries"] if entry["name"] != Path[3:]]

    def _target(self, name: str) -> dict:
        self._need("WinTarget")
        if name not in self.data["targets"]:
            raise Refused(f"there is no target {name}")
        return self.data["targets"][name]

    def script_target_new(self, Name: str, Initiators: list) -> None:
        self._need("WinTarget")
        if Name in self.data["targets"]:
            raise Refused(f"the target {Name} exists")
        self.data["targets"][Name] = {
            "iqn": f"iqn.1991-05.com.microsoft:{self.name}-{Name}-target",
            "description": "",
            "enabled": True,
            "initiators": [],
            "luns": {},
            "chap": None,
            "reverse_chap": None,
            "sessions": [],
        }
        self.script_target_initiators(Name, Initiators)

    def script_target_initiators(self, Name: str, Initiators: list) -> None:
        for initiator in Initiators:
            kind, _colon, value = initiator.partition(":")
            if kind not in INITIATOR_KINDS or not INITIATOR_KINDS[kind](value):
                raise Refused(f"{initiator} is no initiator id")
        self._target(Name)["initiators"] = Initiators

    def script_target_name(self, Name: str, Iqn: str, Description: str) -> None:
        if any(target["iqn"] == Iqn and name != Name for name, target in self.data["targets"].items()):
            raise Refused(f"the name {Iqn} is taken")
        self._target(Name).update(iqn=Iqn, description=Description)

    @staticmethod
    def _credential(chap) -> dict:
        if not 12 <= len(chap[1]) <= 16:
            raise Refused("a CHAP secret has 12 to 16 characters")
        return {"user": chap[0], "secret_digest": digest(chap[1])}

    def script_target_chap(self, Name: str, Chap) -> None:
        self._target(Name)["chap"] = self._credential(Chap)

    def script_target_chap_off(self, Name: str) -> None:
        self._target(Name)["chap"] = None

    def script_target_reverse_chap(self, Name: str, Chap) -> None:
        self._target(Name)["reverse_chap"] = self._credential(Chap)

    def script_target_reverse_chap_off(self, Name: str) -> None:
        self._target(Name)["reverse_chap"] = None

    def script_target_enable(self, Name: str) -> None:
        self._target(Name)["enabled"] = True

    def script_target_remove(self, Name: str) -> None:
        # belief: that a target with sessions cannot be removed.
        if self._target(Name)["sessions"]:
            raise Refused(f"the target {Name} is in use")
        del self.data["targets"][Name]

    def script_lun_map(self, Name: str, Path: str, Lun: int) -> None:
        target = self._target(Name)
        self._virtual_disk(Path)
        if Path in target["luns"] or Lun in target["luns"].values():
            raise Refused(f"the virtual disk {Path} or the LUN {Lun} is assigned already")
        target["luns"][Path] = Lun

    def script_lun_unmap(self, Name: str, Path: str) -> None:
        if Path not in self._target(Name)["luns"]:
            raise Refused(f"the virtual disk {Path} is not assigned")
        del self._target(Name)["luns"][Path]

    def script_portal_set(self, Address: str, Port: int, Enable: bool) -> None:
        self._need("WinTarget")
        if Address not in self.data["portals"]:
            raise Refused(f"this host has no address {Address}")
        self.data["portals"][Address] = {"port": Port, "enabled": Enable}

    def _at(self, address: str, port: int) -> Host | None:
        """Who listens there."""
        for name, data in self.world.data["hosts"].items():
            host = Host(self.world, name)
            if host._runs("WinTarget") and data["portals"].get(address) == {"port": port, "enabled": True}:
                return host
        return None

    def script_initiator_portal_new(self, Address: str, Port: int) -> None:
        self._need("MSiSCSI")
        if self._at(Address, Port) is None:
            raise Refused("connection failed")
        self.data["initiator"]["portals"].append({"address": Address, "port": Port})

    def script_initiator_portal_update(self, Address: str) -> None:
        self._need("MSiSCSI")
        if Address not in [portal["address"] for portal in self.data["initiator"]["portals"]]:
            raise Refused(f"there is no portal {Address}")

    def script_initiator_portal_remove(self, Address: str, Port: int) -> None:
        self._need("MSiSCSI")
        self.data["initiator"]["portals"].remove({"address": Address, "port": Port})

    def script_session_login(self, Iqn: str, Address: str, Port: int, Chap=None) -> None:
        self._need("MSiSCSI")
        server, me = self._at(Address, Port), self.data["initiator"]
        target = next(
            (target for target in (server.data["targets"].values() if server else []) if target["iqn"] == Iqn), None
        )
        if target is None or {"address": Address, "port": Port} not in me["portals"]:
            raise Refused("the target name is not found")
        if server.name == self.name and self.data["loopback_read"] != 1:
            raise Refused("the target name is not found or is marked as hidden from login")
        known_as = {
            f"IQN:{me['iqn']}",
            f"DNSName:{self.name}",
            *(f"{'IPv6Address' if ':' in address else 'IPAddress'}:{address}" for address in self.data["addresses"]),
        }
        if not target["enabled"] or known_as.isdisjoint(target["initiators"]):
            raise Refused("authorization failure")
        given = self._credential(Chap) if Chap else None
        if target["chap"] != given:
            raise Refused("authentication failure")
        # belief: that a second session with a target over the same interface is refused.
        if Iqn in [session["iqn"] for session in me["sessions"].values()]:
            raise Refused("the target has already been logged in")
        numbers: list = []
        self._attach(Iqn, server, target, numbers)
        # belief: that a session keeps its id while its connection breaks and comes back.
        # No session has an id that another one had, be it with the same target.
        made = self.world.data["sessions_made"] = self.world.data.get("sessions_made", 0) + 1
        key = f"session-{digest(Iqn)[:8]}-{made}"
        me["sessions"][key] = {
            "iqn": Iqn,
            "connected": True,
            "authentication": "ONEWAYCHAP" if Chap else "NONE",
            "disks": numbers,
        }
        target["sessions"].append(me["iqn"])

    script_session_login_chap = script_session_login

    def script_session_logout(self, Iqn: str, Id: str) -> None:
        me = self.data["initiator"]
        if me["sessions"].get(Id, {}).get("iqn") != Iqn:
            raise Refused(f"there is no session {Id} with {Iqn}")
        # belief: that a session ends while its disks are offline, and not while one is online.
        online = [number for number in me["sessions"][Id]["disks"] if not self.data["disks"][str(number)]["offline"]]
        if online:
            raise Refused(
                f"The session cannot be logged out since a device on that session is currently being used (disk {online[0]})"
            )
        self._end_session(Id)

    def _end_session(self, key: str) -> None:
        me = self.data["initiator"]
        session = me["sessions"].pop(key)
        for number in session["disks"]:
            disk = self.data["disks"].pop(str(number))
            name, path = disk["backing"]
            backing = self.world.data["hosts"][name]["virtual_disks"].get(path)
            if backing:
                backing.update({key: disk[key] for key in LUN_FIELDS})
        for host in self.world.data["hosts"].values():
            for target in host["targets"].values():
                if target["iqn"] == session["iqn"] and me["iqn"] in target["sessions"]:
                    target["sessions"].remove(me["iqn"])

    def _disk(self, number: int, writable: bool = True) -> dict:
        disk = self.data["disks"].get(str(number))
        if disk is None:
            raise Refused(f"there is no disk {number}")
        if writable and (disk["offline"] or disk["read_only"] or disk["system"]):
            raise Refused(f"disk {number} is offline, read-only or the system's")
        return disk

    def script_disk_online(self, Number: int) -> None:
        self._disk(Number, writable=False).update(offline=False, offline_reason="")

    def script_disk_offline(self, Number: int) -> None:
        disk = self._disk(Number, writable=False)
        if disk["boot"] or disk["system"]:
            raise Refused(f"disk {Number} is the system's")
        disk.update(offline=True, offline_reason="Policy")

    def script_disk_writable(self, Number: int) -> None:
        self._disk(Number, writable=False)["read_only"] = False

    def script_disk_read_only(self, Number: int) -> None:
        self._disk(Number)["read_only"] = True

    def script_disk_rescan(self) -> None:
        """LUNs that were mapped since the login appear."""
        for session in self.data["initiator"]["sessions"].values():
            for server in self.world.data["hosts"]:
                for target in self.world.data["hosts"][server]["targets"].values():
                    if target["iqn"] == session["iqn"]:
                        self._attach(session["iqn"], Host(self.world, server), target, session["disks"])

    def _attach(self, iqn: str, server: Host, target: dict, numbers: list) -> None:
        """Disks for the LUNs of a target that have none yet; numbers: those of the session, which grow."""
        seen = [self.data["disks"][str(number)]["lun"] for number in numbers]
        for path, lun in target["luns"].items():
            if lun in seen:
                continue
            backing, number = server.data["virtual_disks"][path], max(map(int, self.data["disks"])) + 1
            # belief: that a new LUN is visible as soon as the login or the rescan has returned.
            # The policy of servers: disks on shared buses stay offline.
            self.data["disks"][str(number)] = {
                "name": "MSFT Virtual HD",
                "lun": lun,
                "serial": backing["serial"],
                "unique_id": digest(backing["serial"])[:32].upper(),
                "bus": "iSCSI",
                "size_bytes": backing["size_bytes"],
                "offline": True,
                "offline_reason": "Policy",
                "read_only": True,
                "boot": False,
                "system": False,
                "clustered": False,
                "backing": [server.name, path],
                **{key: copy.deepcopy(backing[key]) for key in LUN_FIELDS},
            }
            numbers.append(number)

    def script_disk_initialize(self, Number: int, Style: str) -> None:
        disk = self._disk(Number)
        if disk["style"] != "RAW":
            raise Refused(f"disk {Number} has already been initialized")
        reserved = [{"number": 1, "type": "Reserved", "size_bytes": 16 << 20, "letter": ""}] if Style == "GPT" else []
        disk.update(style=Style, partitions=reserved)

    def script_disk_clear(self, Number: int) -> None:
        disk = self._disk(Number)
        if disk["style"] == "RAW":
            raise Refused(f"disk {Number} has not been initialized")
        disk.update(style="RAW", partitions=[], volumes={})

    def script_partition_new(self, Number: int, Letter: str) -> None:
        disk = self._disk(Number)
        if disk["style"] == "RAW" or Letter in {
            part["letter"] for other in self.data["disks"].values() for part in other["partitions"]
        }:
            raise Refused(f"disk {Number} is not initialized, or {Letter}: is in use")
        size = disk["size_bytes"] - (17 << 20)
        disk["partitions"].append(
            {"number": len(disk["partitions"]) + 1, "type": "Basic", "size_bytes": size, "letter": Letter}
        )
        disk["volumes"][Letter] = {"label": "", "filesystem": "", "size_bytes": 0, "entries": []}

    def _volume(self, letter: str) -> tuple:
        for disk in self.data["disks"].values():
            if letter in disk["volumes"]:
                return disk, disk["volumes"][letter]
        raise Refused(f"there is no volume {letter}:")

    def script_volume_format(self, Letter: str, Label: str) -> None:
        disk, volume = self._volume(Letter)
        if len(Label) > 32 or disk["system"]:
            raise Refused("the parameter is incorrect")
        size = next(part["size_bytes"] for part in disk["partitions"] if part["letter"] == Letter)
        volume.update(
            label=Label,
            filesystem="NTFS",
            size_bytes=size,
            entries=[{"name": "System Volume Information", "size_bytes": None}],
        )

    def script_file_write(self, Path: str, SizeBytes: int) -> None:
        _disk, volume = self._volume(Path[0])
        if volume["filesystem"] != "NTFS" or SizeBytes > volume["size_bytes"]:
            raise Refused("there is not enough space on the disk")
        name = Path[3:]
        volume["entries"] = [entry for entry in volume["entries"] if entry["name"] != name] + [
            {"name": name, "size_bytes": SizeBytes}
        ]


@functools.cache
def script_text():
    """The collection's own file that puts scripts together, which imports nothing else of it."""
    spec = importlib.util.spec_from_file_location("script_text", WINDOWS / "script_text.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known_script(text: str) -> str:
    """The name of one of the collection's scripts. The whole text must be that script's: nothing else may reach the host."""
    name = text.partition("\n")[0].removeprefix("# storlab: ").strip()
    if f"{name}.ps1" not in os.listdir(script_text().SCRIPTS) or script_text().script(name) != text:
        raise Refused("the fake Windows host does not know this script")
    return name


def main() -> None:
    """From playbooks: make hosts, or change one behind the collection's back."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("world", type=Path)
    parser.add_argument("work", choices=["make", "change"])
    parser.add_argument("content", type=json.loads, help='{host: settings}, or {host: {"path/to/value": value}}')
    given = parser.parse_args()
    if given.work == "make":
        given.world.unlink(missing_ok=True)
    with World(given.world).open() as world:
        for name, settings in given.content.items():
            if given.work == "make":
                world.add(name, **settings)
                continue
            for path, value in settings.items():
                *folders, last = path.split("/")
                place = world.data["hosts"][name]
                for folder in folders:
                    place = place[folder]
                place[last] = value


if __name__ == "__main__":
    main()
