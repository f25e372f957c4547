# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software iSCSI adapter of an ESXi host: its state as plain data, a plan, and the calls that carry the plan out.

CHAP is set at each target. A discovery session uses it only where that is asked for, because targets such as LIO refuse CHAP
in discovery unless they are set up for it. A secret cannot be read back, so a salted digest on the controller tells whether
it has changed.

State::

    {boot_time: str, enabled, device, iqn, alias, chap: {name, mutual_name} | None, options: {key: value}, bound: [vmk],
     targets: [{method: send|static, address, port, iqn (static), discovered: bool, parent: str | None, chap: {name, mutual_name} | None}],
     luns: [{iqn, lun, naa, serial, size_bytes, device, state, uuid, datastores: [names of the mounted ones on it]}],
     host_options: {key: value}, module_options: str,
     limits: {key of an option of the adapter: {read_only, min, max, at_start}}, host_limits: {key of an option of the host: the same}}

A host has one software adapter, and others may use it, too. What they put there is theirs: a discovered target's ``parent`` names the send target
that reported it, and only what one of this testbed's send targets has reported is this testbed's.

A host that was told to disable its adapter goes on listing it until it is restarted: ``enabled`` is then false, and the rest is there.
"""

from __future__ import annotations

import re
import time
from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..core.iscsi_names import iqn_key, portal_text, same_iqn
from ..core.names import designator_of
from ..core.secrets import same_secret
from ..core.steps import Step
from . import options as host_options
from . import scsi
from .session import Session, stamp

# Options of the host, not of the adapter, that its figures depend on.
HOST_OPTIONS = ("ISCSI.MaxIoSizeKB",)
QUEUE_DEPTH_MODULE, QUEUE_DEPTH_OPTION = "iscsi_vmk", "iscsivmk_LunQDepth"
RESCAN_EVERY_S = 5.0
ORDER = (
    "enable",
    "name",
    "alias",
    "options",
    "host_option",
    "queue_depth",
    "bind",
    "remove_target",
    "end_sessions",
    "unbind",
    "add_target",
    "chap",
    "discover",
    "chap_found",
    "rescan",
)
# Steps that only look.
LOOKING = ("discover", "end_sessions", "rescan")
SECRETS = ("chap_password", "mutual_chap_password")
CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")
ADAPTER = "adapter"


# ---------------------------------------------------------------- reading


def read(session: Session, host: Any, option_names: Any = ()) -> dict[str, Any]:
    """The state of the adapter and of the LUNs behind it."""
    with session.doing("read the iSCSI adapter"):
        storage = host.configManager.storageSystem
        info = storage.storageDeviceInfo
        adapter = _adapter(session, info)
        state = {
            "boot_time": host.runtime.bootTime.isoformat(),
            "enabled": bool(info.softwareInternetScsiEnabled),
            "device": None,
            "iqn": None,
            "alias": "",
            "chap": None,
            "options": {},
            "bound": [],
            "targets": [],
            "luns": luns(session, info, storage.fileSystemVolumeInfo),
            "host_options": {},
            "module_options": "",
            "limits": {},
            "host_limits": {},
        }
        for key in option_names:
            value = host_option(session, host, key)
            if value is None:
                remedy = "The host has no such advanced option; correct its name."
                raise bad_value("iscsi_initiator_esxi_host_options", key, remedy)
            state["host_options"][key] = value
        modules = host.configManager.kernelModuleSystem
        if modules is not None:
            state["module_options"] = modules.QueryConfiguredModuleOptionString(QUEUE_DEPTH_MODULE) or ""
        if adapter is None:
            return state
        manager = host.configManager.iscsiManager
        bound = manager.QueryBoundVnics(adapter.device) if manager is not None else []
        return {
            **state,
            "device": adapter.device,
            "iqn": adapter.iScsiName,
            "alias": adapter.iScsiAlias or "",
            "chap": _chap_names(adapter.authenticationProperties),
            "options": {option.key: option.value for option in adapter.advancedOptions or []},
            "limits": _limits(adapter),
            "bound": sorted(port.vnicDevice for port in bound or []),
            "targets": [_target("send", target) for target in adapter.configuredSendTarget or []]
            + [_target("static", target) for target in adapter.configuredStaticTarget or []],
        }


def _adapter(session: Session, info: Any) -> Any:
    """The software adapter; a host may have hardware iSCSI adapters besides."""
    return next(
        (
            adapter
            for adapter in info.hostBusAdapter or []
            if isinstance(adapter, session.vim.host.InternetScsiHba) and adapter.isSoftwareBased
        ),
        None,
    )


def _chap_names(settings: Any) -> dict[str, Any] | None:
    """The names of CHAP settings of its own; None where there are none, or inherited ones."""
    if settings is None or not settings.chapAuthEnabled or settings.chapInherited:
        return None
    mutual = settings.mutualChapAuthenticationType == "chapRequired" and not settings.mutualChapInherited
    return {"name": settings.chapName or "", "mutual_name": (settings.mutualChapName or "") if mutual else ""}


def _target(method: str, target: Any) -> dict[str, Any]:
    entry = {
        "method": method,
        "address": target.address,
        "port": target.port or 3260,
        "chap": _chap_names(target.authenticationProperties),
        "iqn": None,
        "discovered": False,
        "parent": target.parent or None,
    }
    if method == "static":
        entry.update(iqn=target.iScsiName, discovered=target.discoveryMethod not in (None, "", "staticMethod"))
    return entry


def host_option(session: Session, host: Any, key: str) -> Any:
    """The value of an advanced option; None where the host has none of that name."""
    try:
        # A name of a group answers with all of its options.
        options = host.configManager.advancedOption.QueryOptions(key)
    except session.vim.fault.InvalidName:
        return None
    return next((option.value for option in options if option.key == key), None)


def _limits(adapter: Any) -> dict[str, Any]:
    return {option.key: host_options.facts(option) for option in adapter.supportedAdvancedOptions or []}


def host_limits(session: Session, host: Any, keys: Any) -> dict[str, Any]:
    """What the host says of these options of its own. It has some 1500 and tells of all of them at once, so nobody asks twice."""
    if not keys:
        return {}
    with session.doing("read which options it has"):
        known = host.configManager.advancedOption.supportedOption or []
        return {option.key: host_options.facts(option) for option in known if option.key in keys}


def luns(session: Session, info: Any, volumes: Any = None) -> list[dict[str, Any]]:
    """Every LUN behind an iSCSI target, with what identifies it. LUNs are found by target and number, never by an order of devices."""
    disks = {lun.key: lun for lun in info.scsiLun or []}
    units = {unit.lun: unit for unit in (info.multipathInfo.lun if info.multipathInfo else None) or []}
    mounted: dict[str, list[str]] = {}
    for entry in (volumes.mountInfo if volumes else None) or []:
        for extent in getattr(entry.volume, "extent", None) or [] if entry.mountInfo.mounted else []:
            mounted.setdefault(extent.diskName, []).append(entry.volume.name)
    luns: dict[tuple[str, int, str], dict[str, Any]] = {}
    for face in (info.scsiTopology.adapter if info.scsiTopology else None) or []:
        for target in face.target or []:
            if not isinstance(target.transport, session.vim.host.InternetScsiTargetTransport):
                continue
            for entry in target.lun or []:
                device = disks.get(entry.scsiLun)
                if not isinstance(device, session.vim.host.ScsiDisk):
                    continue
                name = device.canonicalName
                # A target with several portals shows its LUNs once for each.
                luns[target.transport.iScsiName, entry.lun, name] = {
                    "iqn": target.transport.iScsiName,
                    "lun": entry.lun,
                    "naa": designator_of(name),
                    "designators": scsi.designators(device),
                    "name": name,
                    "serial": serial(device.serialNumber),
                    "size_bytes": device.capacity.block * device.capacity.blockSize,
                    "device": device.devicePath,
                    "uuid": device.uuid,
                    "datastores": mounted.get(name, []),
                    "adapter": face.key.rpartition("-")[2],
                    "state": scsi.state_of(device),
                    "ways": scsi.ways(units.get(device.key)),
                }
    return sorted(luns.values(), key=lambda lun: (lun["iqn"], lun["lun"]))


def serial(value: Any) -> str | None:
    """A host that cannot tell a serial says 'unavailable'."""
    return None if value in (None, "", "unavailable") else value.strip()


# ---------------------------------------------------------------- planning


def entries(targets: list[Any]) -> list[Any]:
    """What has to be configured for these targets: a static target for each, and a send target for every portal that is asked for targets.

    Each has the CHAP settings of its own; one portal has one, so targets behind it that want CHAP in discovery must agree.
    """
    by_key: dict[str, Any] = {}
    for target in targets:
        portal = {"address": target["portal"]["address"], "port": target["portal"]["port"]}
        chap = {key: target.get(key) or "" for key in CHAP}
        dynamic = target.get("discovery", "dynamic") == "dynamic"
        if dynamic:
            send = {
                "method": "send",
                **portal,
                "iqn": None,
                "found": False,
                **(chap if target.get("discovery_chap") else dict.fromkeys(CHAP, "")),
            }
            if by_key.setdefault(entry_key(send), send) != send:
                raise bad_value(
                    f"iscsi_initiator_targets {target['iqn']} discovery_chap",
                    target.get("discovery_chap"),
                    f"Another target at {portal_text(**portal)} wants other CHAP settings in discovery; use discovery: static for one of them.",
                )
        entry = {"method": "static", **portal, "iqn": target["iqn"], "found": dynamic, **chap}
        by_key[entry_key(entry)] = entry
    return list(by_key.values())


def entry_key(entry: dict[str, Any]) -> str:
    """A configured target by its method, portal and name; the name in lower case, because a portal may report it in another case than it was given."""
    return f"{entry['method']} {portal_text(entry['address'], entry['port'])}" + (
        f" {iqn_key(entry['iqn'])}" if entry["iqn"] else ""
    )


def reported_by(target: dict[str, Any], senders: Any) -> bool:
    """Whether one of these send targets, given by their keys, has reported a discovered target. Hosts write no brackets around an address of IPv6, or do."""
    if not target["discovered"] or not target.get("parent"):
        return False
    names = {_plain_parent(f"send {target['parent']}{port}") for port in ("", ":3260")}
    return bool(names & {_plain_parent(key) for key in senders})


def _plain_parent(key: str) -> str:
    return key.replace("[", "").replace("]", "")


def is_ours(target: dict[str, Any], memory: dict[str, Any]) -> bool:
    """Whether a configured target is this testbed's: configured by it, or reported by one of its send targets.

    One that others' send target reports is theirs, whatever its name is. memory: the testbed's record of this host.
    """
    recorded = memory.get("targets", [])
    if target["discovered"] and target.get("parent"):
        senders = [key for key in recorded if key.startswith("send ")]
        # The adapter's own name as the parent says nothing of who reported it.
        if reported_by(target, senders) or ":" in target["parent"]:
            return reported_by(target, senders)
    return entry_key(target) in recorded


def others_of(state: dict[str, Any], memory: dict[str, Any]) -> list[Any]:
    """The targets on the adapter that this testbed has not put there."""
    return [target for target in state["targets"] if not is_ours(target, memory)]


def came_later(state: dict[str, Any], memory: dict[str, Any]) -> list[Any]:
    """The targets of others that were not there before the testbed: they know the adapter only as the testbed has set it."""
    before = memory["before"]["targets"]
    senders = [key for key in before if key.startswith("send ")]
    return [
        target
        for target in others_of(state, memory)
        if entry_key(target) not in before and not reported_by(target, senders)
    ]


def held_by(state: dict[str, Any], testbed_id: str) -> str | None:
    """The other testbed whose stamp the adapter carries."""
    prefix = stamp("")
    holder = str(state["alias"])[len(prefix) :] if str(state["alias"]).startswith(prefix) else ""
    return holder if holder and holder != testbed_id else None


def name_of_others(state: dict[str, Any], want: dict[str, Any], others: list[Any], holder: str | None) -> Failure:
    targets = [entry_key(target) for target in others]
    if holder:
        return Failure(
            "adapter_in_use",
            f"The adapter {state['device']} is that of testbed {holder}, by the name {state['iqn']}; testbed {want['testbed_id']} "
            f"wants the name {want['name']}, and a host has one software adapter.",
            f"Set iscsi_initiator_name to {state['iqn']}, so that both share it, or tear testbed {holder} down first.",
            targets=targets,
            testbeds=[holder, want["testbed_id"]],
        )
    return Failure(
        "adapter_in_use",
        f"The adapter {state['device']} has the name {state['iqn']} and targets of others.",
        f"Set iscsi_initiator_name to {state['iqn']}, or remove those targets.",
        targets=targets,
    )


def plan(state: dict[str, Any], want: dict[str, Any], memory: dict[str, Any]) -> list[Step]:
    """The steps from the state to what is wanted: [{op, target, was, will, …}], in the order in which they are done.

    want: {testbed_id, name, options, host_options, queue_depth, port_binding, targets}. memory: the testbed's record of this host.
    """
    steps: list[Step] = []

    def step(op: str, target: str, was: Any, will: Any, **more: Any) -> None:
        steps.append(cast(Step, {"op": op, "target": target, "was": was, "will": will, **more}))

    others = others_of(state, memory) if state["enabled"] else []
    holder = held_by(state, want["testbed_id"]) if others else None
    if not state["enabled"]:
        step("enable", "software iSCSI adapter", "disabled", "enabled")
    if not same_iqn(state["iqn"], want["name"]):
        if others:
            raise name_of_others(state, want, others, holder)
        step("name", state["device"] or "adapter", state["iqn"], want["name"])
    # Two testbeds of one name share the adapter, and the first keeps it.
    if state["alias"] != stamp(want["testbed_id"]) and not holder:
        step("alias", state["device"] or "adapter", state["alias"], stamp(want["testbed_id"]))
    # Before there is an adapter nothing is known of its options.
    options = want["options"]
    if state["device"]:
        options = as_the_host_has_them(options, state["options"], state["limits"])
    differing = {key: value for key, value in options.items() if state["options"].get(key) != value}
    if differing and holder:
        key = sorted(differing)[0]
        raise Failure(
            "adapter_in_use",
            f"The option {key} of the adapter {state['device']} is {state['options'].get(key)} for testbed {holder}, and testbed "
            f"{want['testbed_id']} wants {differing[key]}.",
            "Give both testbeds the same iscsi_initiator_esxi_options, or tear one of them down first.",
            testbeds=[holder, want["testbed_id"]],
        )
    if differing:
        step("options", state["device"] or "adapter", {key: state["options"].get(key) for key in differing}, differing)
    for key, value in want["host_options"].items():
        variable, now, known = (
            "iscsi_initiator_esxi_host_options",
            state["host_options"][key],
            state["host_limits"].get(key, {}),
        )
        value = host_options.allowed(variable, key, host_options.meant(variable, key, value, now), now, known)
        if now != value:
            step("host_option", key, now, value, at_start=known.get("at_start", False))
    if want["queue_depth"]:
        text = host_options.with_option(state["module_options"], QUEUE_DEPTH_OPTION, want["queue_depth"])
        if text != state["module_options"]:
            step("queue_depth", QUEUE_DEPTH_MODULE, state["module_options"], text)
    for name in want["port_binding"]:
        if name not in state["bound"]:
            step("bind", name, None, "bound")
    for name in memory.get("bound", []):
        if name in state["bound"] and name not in want["port_binding"]:
            step("unbind", name, "bound", None)
    if any(item["op"] == "unbind" for item in steps):
        step("end_sessions", state["device"] or "adapter", None, "rescanned")
    own = want["adapter_chap"]
    if own:
        if state["chap"] and ADAPTER not in memory.get("secrets", {}):
            raise Failure(
                "adapter_in_use",
                f"The adapter {state['device']} logs in with CHAP as {state['chap']['name']} already, for others.",
                "Give the CHAP settings at the targets instead of iscsi_initiator_esxi_adapter_chap.",
            )
        names: dict[str, Any] | None = {"name": own["chap_user"], "mutual_name": own["mutual_chap_user"]}
        if state["chap"] != names or not _known(own, memory.get("secrets", {}).get(ADAPTER, {})):
            step("chap", ADAPTER, (state["chap"] or {}).get("name"), own["chap_user"], entry={"method": ADAPTER, **own})
    configured = {entry_key(target): target for target in state["targets"]}
    wanted = {entry_key(entry): entry for entry in entries(want["targets"])}
    unwanted = [key for key in memory.get("targets", []) if key not in wanted]
    for key, target in configured.items():
        # With a send target goes what it reported at other addresses of the portal.
        if key not in wanted and is_ours(target, memory) and (key in unwanted or reported_by(target, unwanted)):
            step("remove_target", key, "configured", None, entry=target)
    for key, entry in wanted.items():
        if key not in configured and not entry["found"]:
            step("add_target", key, None, "configured", entry=entry)
        names = {"name": entry["chap_user"], "mutual_name": entry["mutual_chap_user"]} if entry["chap_user"] else None
        there = [configured[key]] if key in configured and not entry["found"] else faces(entry, state["targets"])
        others = [target for target in there if target["chap"] != names]
        if (names and not there) or others or not _known(entry, memory.get("secrets", {}).get(key, {})):
            step(
                "chap_found" if entry["found"] else "chap",
                key,
                ((others or there or [{}])[0].get("chap") or {}).get("name"),
                entry["chap_user"] or "none",
                entry=entry,
            )
    if any(item["op"] == "chap_found" for item in steps):
        step("discover", state["device"] or "adapter", None, "rescanned")
    # Always, because a host may go on showing a LUN, or a datastore on it, whose disk has been replaced since.
    step("rescan", state["device"] or "adapter", None, "rescanned")
    return sorted(steps, key=lambda item: ORDER.index(item["op"]))


def _known(entry: dict[str, Any], kept: dict[str, Any]) -> bool:
    return all(not entry[secret] or same_secret(entry[secret], kept.get(secret)) for secret in SECRETS)


def as_the_host_has_them(wanted: dict[str, Any], options: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """The adapter's options that are wanted, each in the type that it has on the host and within its bounds; raises bad_value."""
    variable = "iscsi_initiator_esxi_options"
    for key in wanted:
        if key not in options:
            raise bad_value(
                variable,
                key,
                f"The adapter has no such option; it has {', '.join(sorted(options))}.",
            )
    meant = {key: host_options.meant(variable, key, wanted[key], options[key]) for key in wanted}
    return {
        key: host_options.allowed(variable, key, value, options[key], limits.get(key, {}))
        for key, value in meant.items()
    }


def faces(entry: dict[str, Any], targets: list[Any]) -> list[Any]:
    """The configured targets that stand for a discovered one: a portal may tell of several addresses of it."""
    key = entry_key(entry)
    return [
        target
        for target in targets
        if target["method"] == "static"
        and same_iqn(target["iqn"], entry["iqn"])
        and (target["discovered"] or entry_key(target) == key)
    ]


def missing(shown: list[Any], targets: list[Any]) -> list[Any]:
    """[(iqn, lun)] that no working device stands for."""
    there = {(iqn_key(lun["iqn"]), lun["lun"]) for lun in shown if scsi.works(lun["state"])}
    return [
        (target["iqn"], lun["lun"])
        for target in targets
        for lun in target["luns"]
        if (iqn_key(target["iqn"]), lun["lun"]) not in there
    ]


def absent_plan(state: dict[str, Any], memory: dict[str, Any]) -> list[Step]:
    """The steps that give the adapter back as it was before the testbed, but for what is ``kept`` for others."""
    if not memory:
        return []
    steps: list[Step] = []

    def step(op: str, target: str, was: Any, will: Any, **more: Any) -> None:
        steps.append(cast(Step, {"op": op, "target": target, "was": was, "will": will, **more}))

    before, device = memory["before"], state["device"]
    for target in reversed(state["targets"]):
        # A portal may report more targets than the testbed's, and each becomes a static one.
        if is_ours(target, memory) and entry_key(target) not in before["targets"]:
            step("remove_target", entry_key(target), "configured", None, entry=target)
    shared = bool(came_later(state, memory))
    bound = [] if shared else [name for name in memory.get("bound", []) if name in state["bound"]]
    if steps or bound or state["luns"]:
        # A host lets go of an interface only when no session goes through it any more.
        step("end_sessions", device or "adapter", None, "rescanned")
    for name in bound:
        step("unbind", name, "bound", None)
    if not shared:
        steps += _settings_back(state, memory)
    for key, value in before["host_options"].items():
        if key in state["host_options"] and state["host_options"][key] != value:
            at_start = state["host_limits"].get(key, {}).get("at_start", False)
            step("host_option", key, state["host_options"][key], value, at_start=at_start)
    if "module_options" in before and state["module_options"] != before["module_options"] and memory.get("queue_depth"):
        step("queue_depth", QUEUE_DEPTH_MODULE, state["module_options"], before["module_options"])
    removed = {item["target"] for item in steps if item["op"] == "remove_target"}
    others = [target for target in state["targets"] if entry_key(target) not in removed]
    if state["enabled"] and not before["enabled"] and not others:
        step("disable", device, "enabled", "disabled")
    return steps


def _settings_back(state: dict[str, Any], memory: dict[str, Any]) -> list[Step]:
    """The steps that give the adapter its own settings back: CHAP, options, name and alias."""
    before, device = memory["before"], state["device"]
    steps: list[Step] = []
    if state["chap"] and ADAPTER in memory.get("secrets", {}):
        entry = {"method": ADAPTER, **dict.fromkeys(CHAP, "")}
        steps.append({"op": "chap", "target": ADAPTER, "was": state["chap"]["name"], "will": "none", "entry": entry})
    options = {
        key: value
        for key, value in before["options"].items()
        if state["options"].get(key) != value and key in memory.get("options", [])
    }
    if options:
        was = {key: state["options"].get(key) for key in options}
        steps.append({"op": "options", "target": device, "was": was, "will": options})
    # Also where it is disabled at the end: a host keeps the settings of a disabled adapter, and enabling it brings them back.
    for op, key in (("name", "iqn"), ("alias", "alias")):
        if before["iqn"] and device and state[key] != before[key]:
            steps.append({"op": op, "target": device, "was": state[key], "will": before[key]})
    return steps


def kept(state: dict[str, Any], memory: dict[str, Any]) -> list[dict[str, Any]]:
    """What a teardown leaves as the testbed has set it, because targets of others use it: [{setting, value, before}]; a later teardown gives it back."""
    if not memory or not came_later(state, memory):
        return []
    left = []
    for step in _settings_back(state, memory):
        if step["op"] == "options":
            left += [
                {"setting": f"option {key}", "value": step["was"][key], "before": step["will"][key]}
                for key in step["will"]
            ]
        else:
            setting = "CHAP" if step["op"] == "chap" else step["op"]
            left.append(
                {"setting": setting, "value": step["was"], "before": None if setting == "CHAP" else step["will"]}
            )
    left += [
        {"setting": f"bound {name}", "value": "bound", "before": None}
        for name in memory.get("bound", [])
        if name in state["bound"]
    ]
    if state["enabled"] and not memory["before"]["enabled"]:
        left.append({"setting": "adapter", "value": "enabled", "before": "disabled"})
    return left


def refuse_used(state: dict[str, Any], steps: list[Step], mapped: dict[str, list[str]]) -> None:
    """Refuse to log out of a LUN that somebody uses: a host removes a target whatever is on it. mapped: {uuid of a LUN: machines to which it is mapped}."""
    removed = [step["target"] for step in steps if step["op"] == "remove_target"]
    left = {iqn_key(target["iqn"]) for target in state["targets"] if entry_key(target) not in removed}
    gone = {iqn_key(target["iqn"]) for target in state["targets"] if entry_key(target) in removed} - left
    others = {lun["name"] for lun in state["luns"] if iqn_key(lun["iqn"]) not in gone}
    for lun in state["luns"]:
        users = [f"the datastore {name}" for name in lun["datastores"]]
        users += [f"the machine {name}, to which it is mapped," for name in mapped.get(lun["uuid"], [])]
        if iqn_key(lun["iqn"]) in gone and lun["name"] not in others and users:
            raise Failure(
                "in_use",
                f"LUN {lun['lun']} of {lun['iqn']} ({lun['name']}) is not logged out of: {' and '.join(users)} would be lost.",
                "Unmount the datastore, or take the LUN out of the machine, and run again.",
                name=lun["name"],
                users=users,
            )


def mapped(session: Session) -> dict[str, list[str]]:
    """{uuid of a LUN: names of the machines to which it is mapped raw}."""
    machines: dict[str, list[str]] = {}
    with session.doing("look who has LUNs mapped"):
        for _vm, values in session.all(session.vim.VirtualMachine, "name", "config.hardware.device"):
            for device in values.get("config.hardware.device", []):
                uuid = getattr(getattr(device, "backing", None), "lunUuid", None)
                if uuid:
                    machines.setdefault(uuid, []).append(values["name"])
    return machines


def as_done(state: dict[str, Any], steps: list[Step]) -> dict[str, Any]:
    """The state that the host will show once it shows these steps. What they have removed is left as it is."""
    state = {**state, "options": dict(state["options"]), "host_options": dict(state["host_options"])}
    shown = {entry_key(target) for target in state["targets"]}
    for step in steps:
        op, will = step["op"], step["will"]
        if op == "enable":
            state["enabled"] = True
        elif op in ("name", "alias"):
            state["iqn" if op == "name" else "alias"] = will
        elif op == "options":
            state["options"].update(will)
        elif op == "host_option":
            state["host_options"][step["target"]] = will
        elif op == "queue_depth":
            state["module_options"] = will
        elif op == "bind" and step["target"] not in state["bound"]:
            state["bound"] = [*state["bound"], step["target"]]
        elif op == "add_target" and step["target"] not in shown:
            entry = {key: step["entry"][key] for key in ("method", "address", "port", "iqn")}
            state["targets"] = [*state["targets"], {**entry, "discovered": False, "parent": None, "chap": None}]
        elif op == "chap" and step["target"] == ADAPTER:
            state["chap"] = {"name": will}
    return state


def settled(state: dict[str, Any], want: dict[str, Any], memory: dict[str, Any]) -> bool:
    """Whether the host shows all that was done; it tells of a change a while after the call that made it."""
    try:
        return all(step["op"] in LOOKING for step in plan(state, want, memory))
    except Failure:
        return False


# ---------------------------------------------------------------- doing


class Adapter:
    """Carries steps out, one call each. What a host tells of itself is asked for until it shows what was done, at most ``wait_s``."""

    def __init__(self, session: Session, host: Any, wait_s: float, known: str | None = None) -> None:
        self.session, self.host, self.wait_s = session, host, wait_s
        self.storage = host.configManager.storageSystem
        self.vim = session.vim
        self.known = known
        self.calls = {
            "enable": self.enable,
            "disable": self.disable,
            "name": self.name,
            "alias": self.alias,
            "options": self.options,
            "host_option": self.host_option,
            "queue_depth": self.queue_depth,
            "bind": self.bind,
            "unbind": self.unbind,
            "add_target": self.add_target,
            "remove_target": self.remove_target,
            "chap": self.chap,
            "chap_found": self.chap_found,
            "discover": self.discover,
            "end_sessions": self.rescan,
            "rescan": self.rescan,
        }

    def apply(self, step: Step) -> None:
        with self.session.doing(f"{step['op'].replace('_', ' ')} ({step['target']})"):
            self.calls[step["op"]](step)

    def object(self) -> Any:
        """The adapter as the host shows it now; None when it shows none."""
        return _adapter(self.session, self.storage.storageDeviceInfo)

    def device(self) -> str:
        """The adapter's name, asked for once: it keeps it as long as it is enabled."""
        if self.known is None:
            adapter = self.session.until(self.object, lambda seen: seen is not None, self.wait_s)
            if adapter is None:
                raise Failure(
                    "adapter_missing",
                    f"The host shows no software iSCSI adapter, {self.wait_s} s after it was enabled.",
                    "Look for it among the host's storage adapters; a longer iscsi_initiator_esxi_wait_s may help.",
                )
            self.known = adapter.device
        return self.known

    def enable(self, _step: Step) -> None:
        self.storage.UpdateSoftwareInternetScsiEnabled(True)
        self.device()

    def disable(self, _step: Step) -> None:
        self.storage.UpdateSoftwareInternetScsiEnabled(False)

    def name(self, step: Step) -> None:
        self.storage.UpdateInternetScsiName(self.device(), step["will"])

    def alias(self, step: Step) -> None:
        self.storage.UpdateInternetScsiAlias(self.device(), step["will"])

    def options(self, step: Step) -> None:
        value = self.vim.host.InternetScsiHba.ParamValue
        device = self.device()
        adapter = self.object()
        known = {option.key: option.value for option in adapter.advancedOptions or []}
        options = as_the_host_has_them(step["will"], known, _limits(adapter))
        self.storage.UpdateInternetScsiAdvancedOptions(
            device, None, [value(key=key, value=options[key]) for key in sorted(options)]
        )

    def host_option(self, step: Step) -> None:
        manager = self.host.configManager.advancedOption
        # The host takes a number only in the width it declares, which the value it has shows.
        old = host_option(self.session, self.host, step["target"])
        manager.UpdateOptions([self.vim.option.OptionValue(key=step["target"], value=type(old)(step["will"]))])

    def queue_depth(self, step: Step) -> None:
        self.host.configManager.kernelModuleSystem.UpdateModuleOptionString(step["target"], step["will"])

    def bind(self, step: Step) -> None:
        self.host.configManager.iscsiManager.BindVnic(self.device(), step["target"])

    def unbind(self, step: Step) -> None:
        """Unbind an interface once its sessions have ended; a rescan returns before they have."""
        faults = self.vim.fault

        def refused() -> bool:
            try:
                self.host.configManager.iscsiManager.UnbindVnic(self.device(), step["target"], False)
            except (faults.IscsiFaultVnicHasActivePaths, faults.IscsiFaultVnicIsLastPath):
                return True
            return False

        if self.session.until(refused, lambda seen: not seen, self.wait_s):
            raise Failure(
                "paths_active",
                f"{step['target']} is not unbound from {self.device()}: sessions with targets still go through it.",
                "End them first: teardown logs out of the testbed's targets; sessions of others must be removed by their users.",
                name=step["target"],
            )

    def add_target(self, step: Step) -> None:
        made = self.configured(step["entry"])
        try:
            if step["entry"]["method"] == "send":
                self.storage.AddInternetScsiSendTargets(self.device(), [made])
            else:
                self.storage.AddInternetScsiStaticTargets(self.device(), [made])
        except self.vim.fault.AlreadyExists:
            # Somebody was quicker, and the host did not show it yet.
            raise target_foreign(step["target"]) from None

    def remove_target(self, step: Step) -> None:
        made = self.configured(step["entry"])
        if step["entry"]["method"] == "send":
            self.storage.RemoveInternetScsiSendTargets(self.device(), [made])
        else:
            self.storage.RemoveInternetScsiStaticTargets(self.device(), [made])

    def configured(self, entry: dict[str, Any]) -> Any:
        """A target as the API names it."""
        kinds = self.vim.host.InternetScsiHba
        if entry["method"] == "send":
            return kinds.SendTarget(address=entry["address"], port=entry["port"])
        return kinds.StaticTarget(address=entry["address"], port=entry["port"], iScsiName=entry["iqn"])

    def chap(self, step: Step) -> None:
        self.authenticate(step["entry"], [step["entry"]])

    def chap_found(self, step: Step) -> None:
        entry = step["entry"]

        def static_targets() -> list[Any]:
            return [_target("static", target) for target in self.object().configuredStaticTarget or []]

        seen = self.session.until(static_targets, lambda targets: faces(entry, targets), self.wait_s)
        if not faces(entry, seen):
            here = {
                target["iqn"]
                for target in seen
                if (target["address"], target["port"]) == (entry["address"], entry["port"])
            }
            at = portal_text(entry["address"], entry["port"])
            raise Failure(
                "target_missing",
                f"{at} does not report the target {entry['iqn']}"
                + (f", but of {', '.join(sorted(here))}." if here else "."),
                "Check the portal's address and port, and the target's list of initiators.",
                found=sorted(here),
            )
        self.authenticate(entry, faces(entry, seen))

    def authenticate(self, entry: dict[str, Any], targets: list[Any]) -> None:
        """Give targets, or the adapter itself, the CHAP settings of an entry."""
        kinds = self.vim.host.InternetScsiHba
        settings = kinds.AuthenticationProperties(
            chapAuthEnabled=bool(entry["chap_user"]),
            chapInherited=False,
            mutualChapInherited=False,
            chapAuthenticationType="chapRequired" if entry["chap_user"] else "chapProhibited",
            mutualChapAuthenticationType="chapRequired" if entry["mutual_chap_user"] else "chapProhibited",
        )
        if entry["chap_user"]:
            settings.chapName, settings.chapSecret = entry["chap_user"], entry["chap_password"]
        if entry["mutual_chap_user"]:
            settings.mutualChapName, settings.mutualChapSecret = (
                entry["mutual_chap_user"],
                entry["mutual_chap_password"],
            )
        chosen = None
        if entry["method"] != ADAPTER:
            made = [self.configured(target) for target in targets]
            chosen = (
                kinds.TargetSet(sendTargets=made) if entry["method"] == "send" else kinds.TargetSet(staticTargets=made)
            )
        self.storage.UpdateInternetScsiAuthenticationProperties(self.device(), settings, chosen)

    def discover(self, _step: Step) -> None:
        with self.session.patient():
            self.storage.RescanHba(self.device())

    def rescan(self, _step: Step) -> None:
        with self.session.patient():
            self.storage.RescanHba(self.device())
            self.storage.RescanVmfs()

    def wait(self, targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The LUNs, once all that are wanted are there and proven. A host answers a rescan before slow targets have, and goes on showing the old disk
        behind a number for a while."""
        deadline = time.monotonic() + self.wait_s
        while True:
            with self.session.doing("look for the LUNs"):
                shown: list[dict[str, Any]] = self.session.until(
                    lambda: luns(self.session, self.storage.storageDeviceInfo),
                    lambda seen: unproven(targets, seen) is None,
                    min(RESCAN_EVERY_S, max(deadline - time.monotonic(), 0)),
                )
            failure = unproven(targets, shown)
            if failure is None:
                return shown
            if time.monotonic() > deadline:
                raise failure
            self.apply({"op": "rescan", "target": "adapter"})


def unproven(targets: list[Any], shown: list[Any]) -> Failure | None:
    """What is wrong with the LUNs; None when all are there and are what the targets export."""
    lost = missing(shown, targets)
    if lost:
        return lun_missing(lost, shown)
    try:
        prove(targets, shown)
    except Failure as failure:
        return failure
    return None


def target_foreign(key: str) -> Failure:
    return Failure(
        "target_foreign",
        f"{key} is configured on this host already, and not by this testbed.",
        "Remove it there, or use another portal.",
        target=key,
    )


def lun_missing(lost: list[Any], shown: list[Any]) -> Failure:
    """Says what was found instead, because the host does not say why a login failed."""
    iqn, number = lost[0]
    same = [f"LUN {lun['lun']} ({lun['name']}, {lun['state']})" for lun in shown if same_iqn(lun["iqn"], iqn)]
    others = sorted({lun["iqn"] for lun in shown if not same_iqn(lun["iqn"], iqn)})
    if same:
        what = f"The host sees {', '.join(same)} of {iqn}, but not LUN {number} in order."
        remedy = "Export that LUN to this initiator, or correct its number."
    else:
        what = f"The host has no session with {iqn}" + (
            f"; it sees LUNs of {', '.join(others)} only." if others else "."
        )
        remedy = "Check the CHAP names and secrets, the target's list of initiators, and the portal's address and port."
    return Failure(
        "lun_missing",
        what,
        remedy,
        missing=[f"{name} LUN {lun}" for name, lun in lost],
        found=[f"{lun['iqn']} LUN {lun['lun']}" for lun in shown],
    )


def prove(targets: list[dict[str, Any]], shown: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """{(iqn, lun): facts} of the wanted LUNs; raises when one is not the device that the target says it exports.

    An identifier of the kind that the target gave proves a device by itself; how a host writes its serial is then of no account, see odd_serials.
    """
    # A device that is lost may still be listed at the number that another has now.
    disks = {(iqn_key(lun["iqn"]), lun["lun"]): lun for lun in sorted(shown, key=lambda lun: scsi.works(lun["state"]))}
    proven = {}
    for target in targets:
        for lun in target["luns"]:
            disk = disks[(iqn_key(target["iqn"]), lun["lun"])]
            same = _same_device(lun, disk)
            for key in ("naa", "size_bytes") if same is not None else ("serial", "size_bytes"):
                if same is False if key == "naa" else _differs(lun, disk, key):
                    raise Failure(
                        f"wrong_{key.removesuffix('_bytes')}",
                        f"LUN {lun['lun']} of {target['iqn']} has {key} {disk[key]}, not {lun[key]}.",
                        "Correct the LUN number, or build the target again.",
                        device=disk["name"],
                    )
            proven[(target["iqn"], lun["lun"])] = disk
    return proven


def odd_serials(targets: list[dict[str, Any]], proven: dict[tuple[str, int], dict[str, Any]]) -> list[str]:
    """What to tell of LUNs whose NAA identifier is right and whose serial the host writes in another way."""
    return [
        f"LUN {lun['lun']} of {target['iqn']} has the serial {proven[target['iqn'], lun['lun']]['serial']} by the host, not {lun['serial']}; "
        f"its NAA identifier {lun['naa']} is right."
        for target in targets
        for lun in target["luns"]
        if (target["iqn"], lun["lun"]) in proven and _differs(lun, proven[target["iqn"], lun["lun"]], "serial")
    ]


def _same_device(lun: dict[str, Any], disk: dict[str, Any]) -> bool | None:
    """Whether the device is the one of the identifier that is expected; None when there is none, or none of its kind."""
    known = disk.get("designators") or ([disk["naa"]] if disk["naa"] else [])
    return scsi.same_device(lun["naa"], known) if lun.get("naa") else None


def _differs(lun: dict[str, Any], disk: dict[str, Any], key: str) -> bool:
    return bool(lun.get(key) and disk[key]) and _plain(disk[key]) != _plain(lun[key])


def _plain(value: Any) -> Any:
    return re.sub(r"[^0-9a-z]", "", value.lower()) if isinstance(value, str) else value
