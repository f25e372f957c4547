# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software iSCSI adapter of an ESXi host: its state as plain data, a plan, and the calls that carry the plan out.

CHAP is set at each target. A discovery session uses it only where that is asked for, because targets such as LIO refuse CHAP
in discovery unless they are set up for it. A secret cannot be read back, so a salted digest on the controller shows whether
it has changed.

State::

    {boot_time: str, enabled, device, iqn, alias, chap: {name, mutual_name} | None, options: {key: value}, bound: [vmk],
     targets: [{method: send|static, address, port, iqn (static), discovered: bool, parent: str | None, chap: {name, mutual_name} | None}],
     luns: [{iqn, lun, naa, serial, size_bytes, device, state, uuid, datastores: [names of the mounted ones on it]}],
     host_options: {key: value}, module_options: str,
     limits: {key of an option of the adapter: {read_only, min, max, at_start}}, host_limits: {key of an option of the host: the same}}

A host has one software adapter, and others may use it, too. Their entries are theirs: a discovered target's ``parent`` names the send target
that reported it, and only what one of this testbed's send targets has reported is this testbed's.

A host that was asked to disable its adapter goes on listing it until it is restarted: ``enabled`` is then false, and the rest is there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..core.failure import Failure, bad_value
from ..core.iscsi_names import iqn_key, portal_text, same_iqn
from ..core.names import designator_of
from ..core.steps import Step
from . import options as host_options
from . import scsi
from .adapter_plan import ADAPTER, QUEUE_DEPTH_MODULE, as_the_host_has_them, faces, missing
from .session import Session
from .states import AdapterLun, AdapterState, AdapterTarget, Chap, HostSystem, Limit

# Options of the host, not of the adapter, that its figures depend on.
HOST_OPTIONS = ("ISCSI.MaxIoSizeKB",)
RESCAN_EVERY_S = 5.0
# The parts of a host's description of its devices that show LUNs.
OF_LUNS = ("luns", "faces", "units")


# ---------------------------------------------------------------- reading


def read(session: Session, host: HostSystem, option_names: Any = (), optional: Sequence[str] = ()) -> AdapterState:
    """The state of the adapter and of the LUNs behind it.

    option_names: options of the host that somebody has named, so that a host without them is refused. optional: those that are read where the host has them.
    """
    with session.doing("read the iSCSI adapter"):
        devices = scsi.Devices(session, host, "adapters", "enabled", *OF_LUNS)
        adapter = _adapter(session, devices.adapters)
        state: AdapterState = {
            "boot_time": host.runtime.bootTime.isoformat(),
            "enabled": devices.enabled,
            "device": None,
            "iqn": None,
            "alias": "",
            "chap": None,
            "options": {},
            "bound": [],
            "targets": [],
            "luns": luns(session, devices, host.configManager.storageSystem.fileSystemVolumeInfo),
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
        values = {key: host_option(session, host, key) for key in optional}
        state["host_options"].update({key: value for key, value in values.items() if value is not None})
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


def _adapter(session: Session, adapters: Sequence[object]) -> Any:
    """The software adapter; a host may have hardware iSCSI adapters, too."""
    return next(
        (
            adapter
            for adapter in adapters
            if isinstance(adapter, session.vim.host.InternetScsiHba) and adapter.isSoftwareBased
        ),
        None,
    )


def _chap_names(settings: Any) -> Chap | None:
    """The names of CHAP settings of its own; None where there are none, or inherited ones."""
    if settings is None or not settings.chapAuthEnabled or settings.chapInherited:
        return None
    mutual = settings.mutualChapAuthenticationType == "chapRequired" and not settings.mutualChapInherited
    return {"name": settings.chapName or "", "mutual_name": (settings.mutualChapName or "") if mutual else ""}


def _target(method: str, target: Any) -> AdapterTarget:
    entry: AdapterTarget = {
        "method": method,
        "address": target.address,
        "port": target.port or 3260,
        "chap": _chap_names(target.authenticationProperties),
        "iqn": None,
        "discovered": False,
        "parent": target.parent or None,
    }
    if method == "static":
        entry["iqn"] = target.iScsiName
        entry["discovered"] = target.discoveryMethod not in (None, "", "staticMethod")
    return entry


def host_option(session: Session, host: HostSystem, key: str) -> Any:
    """The value of an advanced option; None where the host has none of that name."""
    try:
        # A name of a group answers with all of its options.
        options = host.configManager.advancedOption.QueryOptions(key)
    except session.vim.fault.InvalidName:
        return None
    return next((option.value for option in options if option.key == key), None)


def _limits(adapter: Any) -> dict[str, Limit]:
    return {option.key: host_options.facts(option) for option in adapter.supportedAdvancedOptions or []}


def host_limits(session: Session, host: HostSystem, keys: Sequence[str]) -> dict[str, Limit]:
    """The host's definitions of these options. It has some 1500 and sends all of them at once, so they are asked for once."""
    if not keys:
        return {}
    with session.doing("read which options it has"):
        known = host.configManager.advancedOption.supportedOption or []
        return {option.key: host_options.facts(option) for option in known if option.key in keys}


def luns(session: Session, devices: scsi.Devices, volumes: Any = None) -> list[AdapterLun]:
    """Every LUN behind an iSCSI target, with what identifies it. LUNs are found by target and number, never by an order of devices."""
    disks = {lun.key: lun for lun in devices.luns}
    mounted: dict[str, list[str]] = {}
    for entry in (volumes.mountInfo if volumes else None) or []:
        for extent in getattr(entry.volume, "extent", None) or [] if entry.mountInfo.mounted else []:
            mounted.setdefault(extent.diskName, []).append(entry.volume.name)
    luns: dict[tuple[str, int, str], AdapterLun] = {}
    for face in devices.faces:
        for target in _targets(session, face):
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
                    "ways": scsi.ways(devices.units.get(device.key)),
                }
    return sorted(luns.values(), key=lambda lun: (lun["iqn"], lun["lun"]))


def _targets(session: Session, face: Any) -> list[Any]:
    """The iSCSI targets that an adapter has sessions with."""
    kind = session.vim.host.InternetScsiTargetTransport
    return [target for target in face.target or [] if isinstance(target.transport, kind)]


def listed(session: Session, devices: scsi.Devices) -> set[tuple[str, int]]:
    """{(IQN for comparing, number)} of the LUNs that a host lists, whatever is behind them."""
    targets = [target for face in devices.faces for target in _targets(session, face)]
    return {(iqn_key(target.transport.iScsiName), lun.lun) for target in targets for lun in target.lun or []}


def serial(value: Any) -> str | None:
    """A host that cannot tell a serial says 'unavailable'."""
    return None if value in (None, "", "unavailable") else value.strip()


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


# ---------------------------------------------------------------- doing


class Adapter:
    """Carries steps out, one call each. The state of the host is read until it shows the result, at most ``wait_s``."""

    def __init__(self, session: Session, host: HostSystem, wait_s: float, known: str | None = None) -> None:
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
        return _adapter(self.session, scsi.Devices(self.session, self.host, "adapters").adapters)

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
        wanted = {(iqn_key(target["iqn"]), lun["lun"]) for target in targets for lun in target["luns"]}
        while True:
            patience_s = min(RESCAN_EVERY_S, max(deadline - time.monotonic(), 0))
            with self.session.doing("look for the LUNs"):
                # The list is short; the devices themselves are read once it has those that are wanted.
                there = self.session.until(
                    lambda: listed(self.session, scsi.Devices(self.session, self.host, "faces")),
                    wanted.issubset,
                    patience_s,
                )
                shown: list[dict[str, Any]] = self.session.until(
                    lambda: luns(self.session, scsi.Devices(self.session, self.host, *OF_LUNS)),
                    lambda seen: unproven(targets, seen) is None,
                    patience_s if wanted <= there else 0,
                )
            failure = unproven(targets, shown)
            if failure is None:
                return shown
            if time.monotonic() > deadline:
                raise failure
            self.apply({"op": "rescan", "target": "adapter"})


def unproven(targets: list[Any], shown: list[Any]) -> Failure | None:
    """The faults of the LUNs; None when all are there and are what the targets export."""
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


def prove(targets: list[dict[str, Any]], shown: list[AdapterLun]) -> dict[tuple[str, int], AdapterLun]:
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


def odd_serials(targets: list[dict[str, Any]], proven: dict[tuple[str, int], AdapterLun]) -> list[str]:
    """The warning about LUNs whose NAA identifier is right and whose serial the host writes in another way."""
    return [
        f"LUN {lun['lun']} of {target['iqn']} has the serial {proven[target['iqn'], lun['lun']]['serial']} by the host, not {lun['serial']}; "
        f"its NAA identifier {lun['naa']} is right."
        for target in targets
        for lun in target["luns"]
        if (target["iqn"], lun["lun"]) in proven and _differs(lun, proven[target["iqn"], lun["lun"]], "serial")
    ]


def _same_device(lun: dict[str, Any], disk: AdapterLun) -> bool | None:
    """Whether the device is the one of the identifier that is expected; None when there is none, or none of its kind."""
    known = disk.get("designators") or ([disk["naa"]] if disk["naa"] else [])
    return scsi.same_device(lun["naa"], known) if lun.get("naa") else None


def _differs(lun: Mapping[str, object], disk: AdapterLun, key: Literal["naa", "serial", "size_bytes"]) -> bool:
    return bool(lun.get(key) and disk[key]) and _plain(disk[key]) != _plain(lun[key])


def _plain(value: object) -> object:
    return re.sub(r"[^0-9a-z]", "", value.lower()) if isinstance(value, str) else value
