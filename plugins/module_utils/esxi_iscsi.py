# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software iSCSI adapter of an ESXi host: its state as plain data, a plan, and the calls that carry the plan out.

CHAP is set at each target. A discovery session uses it only where that is asked for, because targets such as LIO refuse CHAP
in discovery unless they are set up for it. A secret cannot be read back, so a salted digest on the controller tells whether
it has changed.

State::

    {enabled, device, iqn, alias, chap: {name, mutual_name} | None, options: {key: value}, bound: [vmk],
     targets: [{method: send|static, address, port, iqn (static), discovered: bool, chap: {name, mutual_name} | None}],
     luns: [{iqn, lun, naa, serial, size_bytes, device, state}],
     host_options: {key: value}, module_options: str}
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time

from .esxi import Session, stamp
from .failure import Failure, bad_value
from .iscsi_names import portal_text

QUEUE_DEPTH_MODULE, QUEUE_DEPTH_OPTION = "iscsi_vmk", "iscsivmk_LunQDepth"
RESCAN_EVERY_S = 2.0
ORDER = ("enable", "name", "alias", "options", "host_option", "queue_depth", "bind", "unbind", "remove_target", "add_target", "chap", "discover",
         "chap_found", "rescan")
SECRETS = ("chap_password", "mutual_chap_password")
CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")
ADAPTER = "adapter"


# ---------------------------------------------------------------- reading


def read(session: Session, host, host_options=()) -> dict:
    """The state of the adapter and of the LUNs behind it."""
    with session.doing("read the iSCSI adapter"):
        storage = host.configManager.storageSystem
        info = storage.storageDeviceInfo
        adapter = _adapter(session, info)
        found = {"enabled": bool(info.softwareInternetScsiEnabled), "device": None, "iqn": None, "alias": "", "chap": None, "options": {}, "bound": [],
                 "targets": [], "luns": luns(session, info), "host_options": {}, "module_options": ""}
        for key in host_options:
            found["host_options"][key] = _host_option(session, host, key)
        if adapter is None:
            return found
        manager = host.configManager.iscsiManager
        bound = manager.QueryBoundVnics(adapter.device) if manager is not None else []
        modules = host.configManager.kernelModuleSystem
        return {
            **found, "device": adapter.device, "iqn": adapter.iScsiName, "alias": adapter.iScsiAlias or "",
            "chap": _chap_names(adapter.authenticationProperties),
            "options": {option.key: option.value for option in adapter.advancedOptions or []},
            "bound": sorted(port.vnicDevice for port in bound or []),
            "targets": [_target("send", target) for target in adapter.configuredSendTarget or []]
            + [_target("static", target) for target in adapter.configuredStaticTarget or []],
            "module_options": modules.QueryConfiguredModuleOptionString(QUEUE_DEPTH_MODULE) or "" if modules is not None else "",
        }


def _adapter(session: Session, info):
    """The software adapter; a host may have hardware iSCSI adapters besides."""
    return next((adapter for adapter in info.hostBusAdapter or []
                 if isinstance(adapter, session.vim.host.InternetScsiHba) and adapter.isSoftwareBased), None)


def _chap_names(settings) -> dict | None:
    """The names of CHAP settings of its own; None where there are none, or inherited ones."""
    if settings is None or not settings.chapAuthEnabled or settings.chapInherited:
        return None
    mutual = settings.mutualChapAuthenticationType == "chapRequired" and not settings.mutualChapInherited
    return {"name": settings.chapName or "", "mutual_name": (settings.mutualChapName or "") if mutual else ""}


def _target(method: str, target) -> dict:
    found = {"method": method, "address": target.address, "port": target.port or 3260, "chap": _chap_names(target.authenticationProperties),
             "iqn": None, "discovered": False}
    if method == "static":
        found.update(iqn=target.iScsiName, discovered=target.discoveryMethod not in (None, "", "staticMethod"))
    return found


def _host_option(session: Session, host, key: str):
    try:
        values = host.configManager.advancedOption.QueryOptions(key)
    except session.vim.fault.InvalidName:
        values = []
    if not values:
        raise bad_value("iscsi_initiator_esxi_host_options", key, "The host has no such advanced option; correct its name.")
    return values[0].value


def luns(session: Session, info) -> list:
    """Every LUN behind an iSCSI target, with what identifies it. LUNs are found by target and number, never by an order of devices."""
    devices = {lun.key: lun for lun in info.scsiLun or []}
    found = []
    for face in (info.scsiTopology.adapter if info.scsiTopology else None) or []:
        for target in face.target or []:
            if not isinstance(target.transport, session.vim.host.InternetScsiTargetTransport):
                continue
            for entry in target.lun or []:
                device = devices.get(entry.scsiLun)
                if not isinstance(device, session.vim.host.ScsiDisk):
                    continue
                name = device.canonicalName
                found.append({"iqn": target.transport.iScsiName, "lun": entry.lun, "naa": name[4:] if name.startswith("naa.") else None, "name": name,
                              "serial": serial(device.serialNumber), "size_bytes": device.capacity.block * device.capacity.blockSize,
                              "device": device.devicePath, "adapter": face.key.rpartition("-")[2], "state": ",".join(device.operationalState or [])})
    return sorted(found, key=lambda lun: (lun["iqn"], lun["lun"]))


def serial(value) -> str | None:
    """A host that cannot tell a serial says 'unavailable'."""
    return None if value in (None, "", "unavailable") else value.strip()


# ---------------------------------------------------------------- planning


def digest(secret: str, salt: str) -> str:
    return hashlib.scrypt(secret.encode(), salt=bytes.fromhex(salt), n=1 << 12, r=8, p=1).hex()


def same_secret(secret: str, kept: dict | None) -> bool:
    return bool(kept) and hmac.compare_digest(digest(secret, kept["salt"]), kept["digest"])


def keep_secret(secret: str) -> dict:
    salt = os.urandom(16).hex()
    return {"salt": salt, "digest": digest(secret, salt)}


def entries(targets: list) -> list:
    """What has to be configured for these targets: a static target for each, and a send target for every portal that is asked for targets.

    Each has the CHAP settings of its own; one portal has one, so targets behind it that want CHAP in discovery must agree.
    """
    found: dict = {}
    for target in targets:
        portal = {"address": target["portal"]["address"], "port": target["portal"]["port"]}
        chap = {key: target.get(key) or "" for key in CHAP}
        dynamic = target.get("discovery", "dynamic") == "dynamic"
        if dynamic:
            send = {"method": "send", **portal, "iqn": None, "found": False, **(chap if target.get("discovery_chap") else dict.fromkeys(CHAP, ""))}
            if found.setdefault(entry_key(send), send) != send:
                raise bad_value(f"iscsi_initiator_targets {target['iqn']} discovery_chap", target.get("discovery_chap"),
                                f"Another target at {portal_text(**portal)} wants other CHAP settings in discovery; use discovery: static for one of them.")
        entry = {"method": "static", **portal, "iqn": target["iqn"], "found": dynamic, **chap}
        found[entry_key(entry)] = entry
    return list(found.values())


def entry_key(entry: dict) -> str:
    return f"{entry['method']} {portal_text(entry['address'], entry['port'])}" + (f" {entry['iqn']}" if entry["iqn"] else "")


def plan(state: dict, want: dict, memory: dict) -> list:
    """The steps from the state to what is wanted: [{op, target, was, will, …}], in the order in which they are done.

    want: {testbed_id, name, options, host_options, queue_depth, port_binding, targets}. memory: the testbed's record of this host.
    """
    steps = []

    def step(op: str, target: str, was, will, **more):
        steps.append({"op": op, "target": target, "was": was, "will": will, **more})

    if not state["enabled"]:
        step("enable", "software iSCSI adapter", "disabled", "enabled")
    if state["iqn"] != want["name"]:
        others = [target for target in state["targets"] if not target["discovered"] and entry_key(target) not in memory.get("targets", [])]
        if state["enabled"] and others:
            raise Failure("adapter_in_use", f"The adapter {state['device']} has the name {state['iqn']} and targets of others.",
                          f"Set iscsi_initiator_name to {state['iqn']}, or remove those targets.", targets=[entry_key(target) for target in others])
        step("name", state["device"] or "adapter", state["iqn"], want["name"])
    if state["alias"] != stamp(want["testbed_id"]):
        step("alias", state["device"] or "adapter", state["alias"], stamp(want["testbed_id"]))
    # Before the adapter is enabled nothing is known of its options; the host refuses those that it does not have.
    differing = {key: value for key, value in want["options"].items() if state["options"].get(key) != value}
    if differing:
        step("options", state["device"] or "adapter", {key: state["options"].get(key) for key in differing}, differing)
    for key, value in want["host_options"].items():
        if state["host_options"].get(key) != value:
            step("host_option", key, state["host_options"].get(key), value)
    if want["queue_depth"]:
        options = with_option(state["module_options"], QUEUE_DEPTH_OPTION, want["queue_depth"])
        if options != state["module_options"]:
            step("queue_depth", QUEUE_DEPTH_MODULE, state["module_options"], options)
    for name in want["port_binding"]:
        if name not in state["bound"]:
            step("bind", name, None, "bound")
    for name in memory.get("bound", []):
        if name in state["bound"] and name not in want["port_binding"]:
            step("unbind", name, "bound", None)
    own = want["adapter_chap"]
    if own:
        if state["chap"] and ADAPTER not in memory.get("secrets", {}):
            raise Failure("adapter_in_use", f"The adapter {state['device']} logs in with CHAP as {state['chap']['name']} already, for others.",
                          "Give the CHAP settings at the targets instead of iscsi_initiator_esxi_adapter_chap.")
        names = {"name": own["chap_user"], "mutual_name": own["mutual_chap_user"]}
        if state["chap"] != names or not _known(own, memory.get("secrets", {}).get(ADAPTER, {})):
            step("chap", ADAPTER, (state["chap"] or {}).get("name"), own["chap_user"], entry={"method": ADAPTER, **own})
    configured = {entry_key(target): target for target in state["targets"]}
    wanted = {entry_key(entry): entry for entry in entries(want["targets"])}
    for key in memory.get("targets", []):
        if key in configured and key not in wanted:
            step("remove_target", key, "configured", None, entry=configured[key])
    for key, entry in wanted.items():
        if key not in configured and not entry["found"]:
            step("add_target", key, None, "configured", entry=entry)
        names = {"name": entry["chap_user"], "mutual_name": entry["mutual_chap_user"]} if entry["chap_user"] else None
        if (configured.get(key) or {}).get("chap") != names or not _known(entry, memory.get("secrets", {}).get(key, {})):
            step("chap_found" if entry["found"] else "chap", key, ((configured.get(key) or {}).get("chap") or {}).get("name"), entry["chap_user"] or "none",
                 entry=entry)
    if any(item["op"] == "chap_found" for item in steps):
        step("discover", state["device"] or "adapter", None, "rescanned")
    # Always, because a host may go on showing a LUN, or a datastore on it, whose disk has been replaced since.
    step("rescan", state["device"] or "adapter", None, "rescanned")
    return sorted(steps, key=lambda item: ORDER.index(item["op"]))


def _known(entry: dict, kept: dict) -> bool:
    return all(not entry[secret] or same_secret(entry[secret], kept.get(secret)) for secret in SECRETS)


def with_option(text: str, name: str, value) -> str:
    """A kernel module's option string with this option set, or without it when value is None."""
    rest = [word for word in text.split() if not word.startswith(f"{name}=")]
    return " ".join(rest + ([f"{name}={value}"] if value is not None else []))


def missing(found: list, targets: list) -> list:
    """[(iqn, lun)] that no working device stands for."""
    there = {(lun["iqn"], lun["lun"]) for lun in found if lun["state"] == "ok"}
    return [(target["iqn"], lun["lun"]) for target in targets for lun in target["luns"] if (target["iqn"], lun["lun"]) not in there]


def absent_plan(state: dict, memory: dict) -> list:
    """The steps that give the adapter back as it was before the testbed."""
    if not memory:
        return []
    steps = []
    for target in reversed(state["targets"]):
        key = entry_key(target)
        # A portal may tell of more targets than the testbed's, and each becomes a static one.
        if key in memory.get("targets", []) or (target["discovered"] and key not in memory["before"]["targets"]):
            steps.append({"op": "remove_target", "target": key, "was": "configured", "will": None, "entry": target})
    for name in memory.get("bound", []):
        if name in state["bound"]:
            steps.append({"op": "unbind", "target": name, "was": "bound", "will": None})
    before = memory["before"]
    if before["enabled"] and state["chap"] and ADAPTER in memory.get("secrets", {}):
        steps.append({"op": "chap", "target": ADAPTER, "was": state["chap"]["name"], "will": "none", "entry": {"method": ADAPTER, **dict.fromkeys(CHAP, "")}})
    options = {key: value for key, value in before["options"].items() if state["options"].get(key) != value and key in memory.get("options", [])}
    if before["enabled"] and options:
        steps.append({"op": "options", "target": state["device"], "was": {key: state["options"].get(key) for key in options}, "will": options})
    if before["enabled"]:
        for op, key in (("name", "iqn"), ("alias", "alias")):
            if state[key] != before[key]:
                steps.append({"op": op, "target": state["device"], "was": state[key], "will": before[key]})
    for key, value in before["host_options"].items():
        if key in state["host_options"] and state["host_options"][key] != value:
            steps.append({"op": "host_option", "target": key, "was": state["host_options"][key], "will": value})
    if "module_options" in before and state["module_options"] != before["module_options"] and memory.get("queue_depth"):
        steps.append({"op": "queue_depth", "target": QUEUE_DEPTH_MODULE, "was": state["module_options"], "will": before["module_options"]})
    if steps or state["luns"]:
        steps.append({"op": "rescan", "target": state["device"] or "adapter", "was": None, "will": "rescanned"})
    others = [target for target in state["targets"] if entry_key(target) not in {step["target"] for step in steps}]
    if state["enabled"] and not before["enabled"] and not others:
        steps.append({"op": "disable", "target": state["device"], "was": "enabled", "will": "disabled"})
    return steps


# ---------------------------------------------------------------- doing


class Adapter:
    """Carries steps out, one call each."""

    def __init__(self, session: Session, host, known: str | None = None):
        self.session, self.host = session, host
        self.storage = host.configManager.storageSystem
        self.vim = session.vim
        self.known = known

    def device(self) -> str:
        """The adapter's name, asked for once: it keeps it as long as it is enabled."""
        if self.known is None:
            found = _adapter(self.session, self.storage.storageDeviceInfo)
            if found is None:
                raise Failure("adapter_missing", "The host has no software iSCSI adapter.", "Enable it; the role does so with iscsi_initiator_state: present.")
            self.known = found.device
        return self.known

    def apply(self, step: dict) -> None:
        with self.session.doing(f"{step['op'].replace('_', ' ')} ({step['target']})"):
            getattr(self, f"_{step['op']}")(step)

    def _enable(self, _step: dict) -> None:
        self.storage.UpdateSoftwareInternetScsiEnabled(True)

    def _disable(self, _step: dict) -> None:
        self.storage.UpdateSoftwareInternetScsiEnabled(False)

    def _name(self, step: dict) -> None:
        self.storage.UpdateInternetScsiName(self.device(), step["will"])

    def _alias(self, step: dict) -> None:
        self.storage.UpdateInternetScsiAlias(self.device(), step["will"])

    def _options(self, step: dict) -> None:
        value = self.vim.host.InternetScsiHba.ParamValue
        self.storage.UpdateInternetScsiAdvancedOptions(self.device(), None, [value(key=key, value=step["will"][key]) for key in sorted(step["will"])])

    def _host_option(self, step: dict) -> None:
        manager = self.host.configManager.advancedOption
        # The host takes a number only in the width it declares, which the value it has shows.
        old = manager.QueryOptions(step["target"])[0].value
        manager.UpdateOptions([self.vim.option.OptionValue(key=step["target"], value=type(old)(step["will"]))])

    def _queue_depth(self, step: dict) -> None:
        self.host.configManager.kernelModuleSystem.UpdateModuleOptionString(step["target"], step["will"])

    def _bind(self, step: dict) -> None:
        self.host.configManager.iscsiManager.BindVnic(self.device(), step["target"])

    def _unbind(self, step: dict) -> None:
        self.host.configManager.iscsiManager.UnbindVnic(self.device(), step["target"], False)

    def _add_target(self, step: dict) -> None:
        made = self._made(step["entry"])
        if step["entry"]["method"] == "send":
            self.storage.AddInternetScsiSendTargets(self.device(), [made])
        else:
            self.storage.AddInternetScsiStaticTargets(self.device(), [made])

    def _remove_target(self, step: dict) -> None:
        made = self._made(step["entry"])
        if step["entry"]["method"] == "send":
            self.storage.RemoveInternetScsiSendTargets(self.device(), [made])
        else:
            self.storage.RemoveInternetScsiStaticTargets(self.device(), [made])

    def _made(self, entry: dict):
        kinds = self.vim.host.InternetScsiHba
        if entry["method"] == "send":
            return kinds.SendTarget(address=entry["address"], port=entry["port"])
        return kinds.StaticTarget(address=entry["address"], port=entry["port"], iScsiName=entry["iqn"])

    def _chap(self, step: dict) -> None:
        entry, kinds = step["entry"], self.vim.host.InternetScsiHba
        settings = kinds.AuthenticationProperties(chapAuthEnabled=bool(entry["chap_user"]), chapInherited=False, mutualChapInherited=False,
                                                  chapAuthenticationType="chapRequired" if entry["chap_user"] else "chapProhibited",
                                                  mutualChapAuthenticationType="chapRequired" if entry["mutual_chap_user"] else "chapProhibited")
        if entry["chap_user"]:
            settings.chapName, settings.chapSecret = entry["chap_user"], entry["chap_password"]
        if entry["mutual_chap_user"]:
            settings.mutualChapName, settings.mutualChapSecret = entry["mutual_chap_user"], entry["mutual_chap_password"]
        if entry["method"] == ADAPTER:
            self.storage.UpdateInternetScsiAuthenticationProperties(self.device(), settings, None)
            return
        made = self._made(entry)
        chosen = kinds.TargetSet(sendTargets=[made]) if entry["method"] == "send" else kinds.TargetSet(staticTargets=[made])
        self.storage.UpdateInternetScsiAuthenticationProperties(self.device(), settings, chosen)

    def _chap_found(self, step: dict) -> None:
        entry = step["entry"]
        known = _adapter(self.session, self.storage.storageDeviceInfo).configuredStaticTarget or []
        here = {target.iScsiName for target in known if (target.address, target.port or 3260) == (entry["address"], entry["port"])}
        if entry["iqn"] not in here:
            at = portal_text(entry["address"], entry["port"])
            raise Failure("target_missing", f"{at} tells of no target {entry['iqn']}" + (f", but of {', '.join(sorted(here))}." if here else "."),
                          "Check the portal's address and port, and the target's list of initiators.", found=sorted(here))
        self._chap(step)

    def _discover(self, _step: dict) -> None:
        self.storage.RescanHba(self.device())

    def _rescan(self, _step: dict) -> None:
        self.storage.RescanHba(self.device())
        self.storage.RescanVmfs()

    def wait(self, targets: list, timeout_s: float) -> list:
        """The LUNs, once all that are wanted are there; the host answers a rescan before slow targets have."""
        deadline = time.monotonic() + timeout_s
        while True:
            with self.session.doing("look for the LUNs"):
                found = luns(self.session, self.storage.storageDeviceInfo)
            lost = missing(found, targets)
            if not lost:
                return found
            if time.monotonic() > deadline:
                raise lun_missing(lost, found)
            time.sleep(min(RESCAN_EVERY_S, max(deadline - time.monotonic(), 0)))
            self.apply({"op": "rescan", "target": "adapter"})


def lun_missing(lost: list, found: list) -> Failure:
    """Says what was found instead, because the host does not say why a login failed."""
    iqn, number = lost[0]
    same = [f"LUN {lun['lun']} ({lun['name']}, {lun['state']})" for lun in found if lun["iqn"] == iqn]
    others = sorted({lun["iqn"] for lun in found} - {iqn})
    if same:
        what = f"The host sees {', '.join(same)} of {iqn}, but not LUN {number} in order."
        remedy = "Export that LUN to this initiator, or correct its number."
    else:
        what = f"The host has no session with {iqn}" + (f"; it sees LUNs of {', '.join(others)} only." if others else ".")
        remedy = "Check the CHAP names and secrets, the target's list of initiators, and the portal's address and port."
    return Failure("lun_missing", what, remedy, missing=[f"{name} LUN {lun}" for name, lun in lost], found=[f"{lun['iqn']} LUN {lun['lun']}" for lun in found])


def prove(targets: list, found: list) -> dict:
    """{(iqn, lun): facts} of the wanted LUNs; raises when one is not the device that the target says it exports."""
    disks = {(lun["iqn"], lun["lun"]): lun for lun in found}
    proven = {}
    for target in targets:
        for lun in target["luns"]:
            disk = disks[(target["iqn"], lun["lun"])]
            for key in ("serial", "naa", "size_bytes"):
                if lun.get(key) and disk[key] and _plain(disk[key]) != _plain(lun[key]):
                    raise Failure(f"wrong_{key}", f"LUN {lun['lun']} of {target['iqn']} has {key} {disk[key]}, not {lun[key]}.",
                                  "Correct the LUN number, or build the target again.", device=disk["name"])
            proven[(target["iqn"], lun["lun"])] = disk
    return proven


def _plain(value):
    return re.sub(r"[^0-9a-z]", "", value.lower()) if isinstance(value, str) else value
