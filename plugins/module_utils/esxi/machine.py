# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out on an ESXi host the steps that module_utils/esxi/machine_plan.py plans."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure
from ..core.steps import Step
from . import belongings
from .belongings import DISK_KEY
from .datastore_contents import datastore as find_datastore
from .machine_plan import BLANK, BUILDING_KEY, absent_plan, free_lun
from .machine_state import (
    CONFIGURED,
    CONTROLLER_TYPES,
    NIC_TYPES,
    listing,
    look_beside,
    read,
    read_facts,
    usable_address,
)
from .machine_want import UUID_KEY
from .session import POLL_S, STAMP_KEY, Session
from .states import HostSystem, IsoWant, MachineFacts, MachineState, VirtualMachine

SHUTDOWN_S = 60


class Machine:
    """Carries steps out on one machine. vm is None until it is made."""

    def __init__(self, session: Session, host: HostSystem, vm: VirtualMachine | None, want: Any) -> None:
        self.session, self.vim, self.host, self.want = session, session.vim, host, want
        # Only the steps that make it are carried out before there is one.
        self.vm: Any = vm
        self.name = want["name"]
        # Steps with a call of their own; the rest is configuration, or the making of the machine.
        self.calls = {
            "destroy": self._destroy,
            "unregister": self._unregister,
            "power_on": self._power_on,
            "power_off": self._power_off,
            "kill": self._kill,
            "zero": self._zero,
            "remove_snapshots": self._remove_snapshots,
            "delete_file": self._delete_file,
        }

    def apply(self, steps: list[Step], state: MachineState, facts: MachineFacts) -> None:
        """The steps in their order, with all that is configuration in one request."""
        parts = [step for step in steps if step["op"] in CONFIGURED]
        for step in steps:
            if step["op"] not in CONFIGURED:
                if parts and step["op"] in ("power_on", "destroy", "unregister"):
                    self.configure(parts, state, facts)
                    parts = []
                self.calls[step["op"]](step)
        if parts:
            self.configure(parts, state, facts)
        if any(step["op"] == "destroy" for step in steps) or any(step["op"] == "delete_disk" for step in steps):
            self._tidy(state)

    def task(self, what: str, begin: Any) -> Any:
        with self.session.doing(what):
            task = begin()
        return self.session.wait(task, what)

    # -------------------------------------------------------- making and removing

    def pool(self) -> Any:
        with self.session.doing("find the host's resource pool"):
            return self.host.parent.resourcePool

    def folder(self) -> Any:
        with self.session.doing("find the folder of virtual machines"):
            return self.session.datacenter(self.host).vmFolder

    def stamps(self, source: dict[str, Any] | None = None) -> list[Any]:
        """The settings that a machine has from its first moment on. source: state of what it is made from, whose own records it must not have."""
        forget = {key: "" for key in (source or BLANK)["extra"] if key.startswith("storlab.")}
        values = {STAMP_KEY: self.want["testbed_id"], BUILDING_KEY: "TRUE", UUID_KEY: "TRUE"}
        return self.options({**forget, **values, **belongings.of_source(source)})

    def options(self, values: Mapping[str, object]) -> list[Any]:
        return [self.vim.option.OptionValue(key=key, value=value) for key, value in values.items()]

    def create(self) -> None:
        """An empty machine; what it consists of comes with its first reconfiguration, as with every later one."""
        want = self.want
        spec = self.vim.vm.ConfigSpec(
            name=self.name,
            guestId=want["guest_id"],
            numCPUs=want["vcpus"],
            memoryMB=want["memory_mib"],
            files=self.vim.vm.FileInfo(vmPathName=f"[{want['datastore']}]"),
            extraConfig=self.stamps(),
        )
        self._reserve(spec, want["reserve"], want["memory_mib"])
        self.vm = self.task(
            f"make the virtual machine {self.name}",
            lambda: self.folder().CreateVM_Task(config=spec, pool=self.pool(), host=self.host),
        )

    def clone(self, template: Any, source: dict[str, Any]) -> None:
        spec = self.vim.vm.CloneSpec(
            location=self.vim.vm.RelocateSpec(
                datastore=find_datastore(self.session, self.host, self.want["datastore"]),
                pool=self.pool(),
                host=self.host,
            ),
            powerOn=False,
            template=False,
            config=self.vim.vm.ConfigSpec(extraConfig=self.stamps(source)),
        )
        self.vm = self.task(
            f"clone the template {self.want['template']}",
            lambda: template.CloneVM_Task(folder=self.folder(), name=self.name, spec=spec),
        )

    def _destroy(self, _step: object = None) -> None:
        try:
            self.task(f"destroy the virtual machine {self.name}", self.vm.Destroy_Task)
        except Failure as failure:
            # An import that was given up has taken it away by itself.
            if "ManagedObjectNotFound" not in str(failure.details.get("fault")):
                raise

    def _tidy(self, state: MachineState) -> None:
        """Deletes the folders that disks of the machine had on other datastores, once they are empty: nothing says that a host does."""
        for folder in belongings.folders_elsewhere(state):
            store = find_datastore(self.session, self.host, folder[1:].partition("] ")[0])
            if store is not None and listing(self.session, store, folder) == []:
                self._delete_file({"target": folder})

    def remove(self) -> None:
        """Takes away what could not be completed, whatever its power."""
        state = look_beside(self.session, self.vm, read(self.session, self.host, self.vm))
        self.apply(absent_plan(state, {"name": self.name, "testbed_id": self.want["testbed_id"]}), state, {})

    def _unregister(self, _step: object) -> None:
        with self.session.doing(f"let go of the virtual machine {self.name}"):
            self.vm.UnregisterVM()

    def _remove_snapshots(self, _step: object) -> None:
        self.task(f"remove the snapshots of the virtual machine {self.name}", self.vm.RemoveAllSnapshots_Task)

    def _delete_file(self, step: Step) -> None:
        manager = self.session.content.fileManager
        try:
            self.task(
                f"delete the file {step['target']}",
                lambda: manager.DeleteDatastoreFile_Task(
                    name=step["target"], datacenter=self.session.datacenter(self.host)
                ),
            )
        except Failure as failure:
            # Turned off and forgotten, a machine has fewer files.
            if "FileNotFound" not in str(failure.details.get("fault")):
                raise

    def move(self) -> None:
        """To the host that is meant; a cluster balances its load without asking."""
        spec = self.vim.vm.RelocateSpec(host=self.host, pool=self.pool())
        self.task(f"move the virtual machine {self.name} to its host", lambda: self.vm.RelocateVM_Task(spec=spec))

    # -------------------------------------------------------- power

    def _power_on(self, _step: object = None) -> None:
        what = f"turn on the virtual machine {self.name}"
        with self.session.doing(what):
            task = self.vm.PowerOnVM_Task()
            while self.session.task_properties(task)["info.state"] in ("queued", "running"):
                self._no_question()
                time.sleep(POLL_S)
        self.session.wait(task, what)

    def _no_question(self) -> None:
        question = self.vm.runtime.question
        if question is not None:
            raise Failure(
                "vm_asks",
                f"The virtual machine {self.name} waits for an answer: {' '.join(question.text.split())}.",
                "Answer it in the host's client, and run again.",
                name=self.name,
            )

    def _power_off(self, _step: object = None) -> None:
        """Lets the guest end by itself when it can."""
        with self.session.doing(f"turn off the virtual machine {self.name}"):
            if (
                str(self.vm.guest.toolsRunningStatus) == "guestToolsRunning"
                and str(self.vm.runtime.powerState) == "poweredOn"
            ):
                self.vm.ShutdownGuest()
                deadline = time.monotonic() + SHUTDOWN_S
                while str(self.vm.runtime.powerState) != "poweredOff" and time.monotonic() < deadline:
                    time.sleep(POLL_S)
            off = str(self.vm.runtime.powerState) == "poweredOff"
        if not off:
            self._kill()

    def _kill(self, _step: object = None) -> None:
        self.task(f"turn off the virtual machine {self.name}", self.vm.PowerOffVM_Task)

    def wait_for_address(self, patience_s: int) -> str:
        """The address that the guest reports; neither link-local nor loopback."""
        deadline = time.monotonic() + patience_s
        with self.session.doing(f"ask for the address of the virtual machine {self.name}"):
            while True:
                guest, runtime = self.vm.guest, self.vm.runtime
                address = usable_address(guest.ipAddress)
                if address:
                    return address
                self._no_question()
                power = str(runtime.powerState)
                if power != "poweredOn" or time.monotonic() > deadline:
                    tools = str(guest.toolsRunningStatus or "unknown")
                    raise Failure(
                        "address_missing",
                        f"The virtual machine {self.name} has reported no address in {patience_s} s; it is {power}, its tools: {tools}.",
                        "Look at its console; the guest needs VMware Tools (open-vm-tools) and an address.",
                        power=power,
                        tools=tools,
                    )
                time.sleep(min(1.0, max(POLL_S, patience_s / 20)))

    # -------------------------------------------------------- disks

    def _zero(self, step: Step) -> None:
        manager = self.session.content.virtualDiskManager
        self.task(
            f"fill {step['path']} with zeroes",
            lambda: manager.ZeroFillVirtualDisk_Task(name=step["path"], datacenter=self.session.datacenter(self.host)),
        )

    # -------------------------------------------------------- reconfiguration

    def finish(self, building: bool, added: object = None) -> None:
        """Notes in the machine which disks it got, by their keys (added; None: all that it has a record of), and that it is complete."""
        state = read(self.session, self.host, self.vm)
        noted = belongings.completed(state, belongings.records(state) if added is None else added)
        if building:
            noted[BUILDING_KEY] = ""
        if noted:
            spec = self.vim.vm.ConfigSpec(extraConfig=self.options(noted))
            self.task(f"complete the virtual machine {self.name}", lambda: self.vm.ReconfigVM_Task(spec))

    def configure(self, steps: list[Step], state: MachineState, facts: MachineFacts) -> None:
        spec, extra, added = self.vim.vm.ConfigSpec(deviceChange=[]), {}, []
        keys = {(each["kind"], each["bus"]): each["key"] for each in state["controllers"]}
        memory = self.want.get("memory_mib") or state["memory_mib"]
        for step in steps:
            op = step["op"]
            if op == "guest_id":
                spec.guestId = step["will"]
            elif op == "vcpus":
                spec.numCPUs = step["will"]
            elif op in ("memory_mib", "reserve_memory"):
                spec.memoryMB = memory
                self._reserve(spec, self.want["reserve"], memory)
            elif op == "disk_uuids":
                extra[UUID_KEY] = "TRUE"
            elif op == "extra_config":
                extra[step["target"]] = step["value"]
            elif op == "add_disk":
                spot, disk = step["place"], step["disk"]
                controller = self._controller(keys, spot, spec)
                spec.deviceChange.append(self._add_disk(step, controller, len(spec.deviceChange)))
                added.append(DISK_KEY + disk["name"])
                extra[added[-1]] = belongings.record_text(
                    spot, disk["rdm"]["compatibility"] if disk["rdm"] else disk["provisioning"]
                )
            elif op == "record_disks":
                extra.update(step["values"])
            elif op == "add_cdrom":
                drive = self.vim.vm.device.VirtualCdrom(
                    key=-901 - len(spec.deviceChange),
                    controllerKey=self._controller(keys, step["place"], spec),
                    unitNumber=step["place"]["unit"],
                )
                spec.deviceChange.append(self._change("add", self._with_iso(drive, step["image"])))
            elif op in ("detach", "delete_disk"):
                # Without an operation on it the file stays.
                file_operation = "destroy" if op == "delete_disk" else None
                spec.deviceChange.append(self._change("remove", self._device(step["key"]), file_operation))
            elif op == "eject":
                drive = self._device(step["key"])
                drive.backing = self.vim.vm.device.VirtualCdrom.RemotePassthroughBackingInfo(
                    deviceName="", exclusive=False
                )
                spec.deviceChange.append(self._change("edit", drive))
            elif op == "mount_iso":
                spec.deviceChange.append(self._change("edit", self._with_iso(self._device(step["key"]), step["image"])))
            else:
                spec.deviceChange += self._nic(step)
        spec.extraConfig = self.options(extra)
        self.task(f"change the virtual machine {self.name}", lambda: self.vm.ReconfigVM_Task(spec))
        if state["building"] or added:
            self.finish(state["building"], None if state["building"] else added)

    def _reserve(self, spec: Any, reserve: bool, memory_mib: int) -> None:
        spec.memoryReservationLockedToMax = reserve
        spec.memoryAllocation = self.vim.ResourceAllocationInfo(reservation=memory_mib if reserve else 0)

    def _change(self, operation: str, device: object, file_operation: str | None = None) -> Any:
        return self.vim.vm.device.VirtualDeviceSpec(operation=operation, device=device, fileOperation=file_operation)

    def _device(self, key: int) -> Any:
        with self.session.doing(f"read the virtual machine {self.name}"):
            return next(device for device in self.vm.config.hardware.device if device.key == key)

    def _controller(self, keys: dict[tuple[str, int], int], spot: dict[str, Any], spec: Any) -> int:
        """Key of the controller, which is added when it is not there yet."""
        kind, bus = spot["controller"], spot["bus"]
        if (kind, bus) not in keys:
            keys[kind, bus] = -101 - len(keys)
            controller = getattr(self.vim.vm.device, CONTROLLER_TYPES[kind])(key=keys[kind, bus], busNumber=bus)
            if kind in ("lsilogic", "pvscsi"):
                controller.sharedBus = "noSharing"
            spec.deviceChange.append(self._change("add", controller))
        return keys[kind, bus]

    def _add_disk(self, step: Step, controller_key: int, number: int) -> Any:
        vim, disk, spot = self.vim, step["disk"], step["place"]
        # The host chooses the file's name, in the machine's folder on that datastore.
        where = f"[{disk['datastore']}]"
        if disk["rdm"]:
            # Looked at once more: between plan and now somebody else may have made something of it.
            lun = free_lun(self.want, disk, read_facts(self.session, self.host, [disk["rdm"]["naa"]]))
            physical = disk["rdm"]["compatibility"] == "physical"
            backing = vim.vm.device.VirtualDisk.RawDiskMappingVer1BackingInfo(
                fileName=where,
                deviceName=lun["device"],
                lunUuid=lun["uuid"],
                compatibilityMode=f"{disk['rdm']['compatibility']}Mode",
                diskMode="independent_persistent" if physical else "persistent",
            )
        else:
            backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(
                fileName=where,
                diskMode="persistent",
                thinProvisioned=disk["provisioning"] == "thin",
                eagerlyScrub=disk["provisioning"] == "eager",
            )
        # Keys of devices to come are the client's own; the host gives them others.
        device = vim.vm.device.VirtualDisk(
            key=-1001 - number,
            backing=backing,
            controllerKey=controller_key,
            unitNumber=spot["unit"],
            capacityInBytes=step["size_bytes"],
            capacityInKB=step["size_bytes"] // 1024,
        )
        return self._change("add", device, "create")

    def _with_iso(self, drive: Any, iso: IsoWant) -> Any:
        drive.backing = self.vim.vm.device.VirtualCdrom.IsoBackingInfo(
            fileName=iso["backing"], datastore=find_datastore(self.session, self.host, iso["datastore"])
        )
        connected = drive.connectable.connected if drive.connectable else False
        drive.connectable = self.vim.vm.device.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=connected
        )
        return drive

    def _nic(self, step: Step) -> list[Any]:
        nic = step["nic"]
        with self.session.doing(f"find the network {nic['network']}"):
            network = next(each for each in self.host.network if each.name == nic["network"])
            if isinstance(network, self.vim.dvs.DistributedVirtualPortgroup):
                port = self.vim.dvs.PortConnection(
                    portgroupKey=network.key, switchUuid=network.config.distributedVirtualSwitch.uuid
                )
                backing = self.vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
            else:
                backing = self.vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName=network.name)
        if step["op"] == "move_nic":
            card = self._device(step["key"])
            card.backing = backing
            return [self._change("edit", card)]
        card = getattr(self.vim.vm.device, NIC_TYPES[nic["type"]])(
            key=-2001 - step["number"], backing=backing, addressType="generated", wakeOnLanEnabled=True
        )
        card.connectable = self.vim.vm.device.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=False
        )
        gone = [self._change("remove", self._device(step["key"]))] if step["op"] == "replace_nic" else []
        return [*gone, self._change("add", card)]
