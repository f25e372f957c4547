# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine that is made, changed and taken away, and what is left when the host refuses, asks or goes silent.

The host is a list of machines that takes pyVmomi's own specifications, which refuse what the API does not know. What a simulated host
answers over the network is in tests/integration/test_esxi_vm_simulated.py.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import guest, machine, machine_state
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import session as esxi_session
from pyVmomi import vim, vmodl
from test_esxi_vm import DISK, LAYERS, MIB, NAA, RAW, params
from unchanged import broken_off, refused, unchanged

KIND = vim.vm.device
LUN_UUID = "0200000000a1"
ISO = {"src": None, "path": "iso/guest.iso", "datastore": None}


class Task:
    def __init__(self, result=None, error=None, states=()) -> None:
        self.result, self.error, self.states = result, error, states

    def look(self) -> dict:
        if self.states:
            return {"info.state": self.states.pop(0)}
        if self.error:
            return {"info.state": "error", "info.error": self.error}
        return {"info.state": "success", "info.result": self.result}


class Vm:
    """A machine of the host; what its methods do is noted in ``calls``."""

    def __init__(self, world: World, name: str, **config) -> None:
        self.world, self.name, self.template, self.datastore = world, name, False, [world.browsed]
        self.snapshot, self.layoutEx = None, None
        self.config = vim.vm.ConfigInfo(
            name=name,
            uuid="421c-7",
            files=vim.vm.FileInfo(vmPathName=f"[ds1] {name}/{name}.vmx"),
            memoryAllocation=vim.ResourceAllocationInfo(reservation=0),
            memoryReservationLockedToMax=False,
            hardware=vim.vm.VirtualHardware(
                numCPU=1,
                memoryMB=4,
                device=[KIND.VirtualIDEController(key=200 + number, busNumber=number) for number in (0, 1)],
            ),
        )
        self.runtime = SimpleNamespace(
            host=world.here, powerState="poweredOff", connectionState="connected", question=None
        )
        self.guest = SimpleNamespace(toolsRunningStatus="guestToolsNotRunning", ipAddress=None)
        self.ends_by_itself = True

    def values(self) -> dict:
        return {
            "name": self.name,
            "runtime.host": self.runtime.host,
            "config.hardware.device": self.config.hardware.device if self.config else [],
        }

    def change(self, spec) -> None:
        config, devices = self.config, self.config.hardware.device
        for mine, its in (("guestId", "guestId"), ("memoryReservationLockedToMax",) * 2, ("memoryAllocation",) * 2):
            if getattr(spec, its) is not None:
                setattr(config, mine, getattr(spec, its))
        config.hardware.numCPU = spec.numCPUs or config.hardware.numCPU
        config.hardware.memoryMB = spec.memoryMB or config.hardware.memoryMB
        extra = {option.key: option.value for option in config.extraConfig}
        extra.update({option.key: option.value for option in spec.extraConfig or []})
        config.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in extra.items() if value]
        keys = {}
        for change in spec.deviceChange or []:
            device = change.device
            if change.operation == "remove":
                devices[:] = [each for each in devices if each.key != device.key]
            elif change.operation == "add":
                keys[device.key] = device.key = 3000 + len(devices)
                # A controller that the same request adds is named by the client's own key.
                device.controllerKey = keys.get(device.controllerKey, device.controllerKey)
                if isinstance(device, KIND.VirtualDisk) and device.backing.fileName.endswith("]"):
                    device.backing.fileName += f" {self.name}/{device.key}.vmdk"
                    device.backing.uuid = f"6000C29-{device.key}"
                devices.append(device)

    def called(self, what: str, work=lambda: None, states=()) -> Task:
        self.world.calls.append((what, self.name))
        fault = self.world.faults.pop(what, None)
        if isinstance(fault, OSError):
            raise fault
        return Task(error=fault, states=states) if fault else Task(work(), states=states)

    def ReconfigVM_Task(self, spec):
        return self.called("reconfigure", lambda: self.change(spec))

    def Destroy_Task(self):
        return self.called("destroy", lambda: self.world.machines.remove(self))

    def UnregisterVM(self):
        self.called("unregister", lambda: self.world.machines.remove(self))

    def _power(self, power: str) -> None:
        self.runtime.powerState = power

    def PowerOnVM_Task(self):
        return self.called("power on", lambda: self._power("poweredOn"), states=self.world.starting)

    def PowerOffVM_Task(self):
        return self.called("power off", lambda: self._power("poweredOff"))

    def ShutdownGuest(self):
        self.called("shut down", lambda: self.ends_by_itself and self._power("poweredOff"))

    def RelocateVM_Task(self, spec):
        assert spec.pool._moId == "pool-7"
        return self.called("move", lambda: setattr(self.runtime, "host", spec.host))

    def CloneVM_Task(self, folder, name, spec):
        assert (folder is self.world.folder, spec.powerOn, spec.template) == (True, False, False)

        def work():
            vm = self.world.add(name)
            vm.config.extraConfig = list(self.config.extraConfig)
            vm.config.guestId, vm.config.hardware = self.config.guestId, self.config.hardware
            vm.change(spec.config)
            return vm

        return self.called("clone", work)


class World(esxi_session.Session):
    """The host, and the session with it: what the session says of refusals is its own."""

    def __init__(self) -> None:
        self.vim, self.vmodl = vim, vmodl
        self.params = {"hostname": "esx7.lab", "username": "u7", "esxi_host": None}
        self.machines, self.calls, self.faults, self.starting = [], [], {}, []
        lun = vim.host.ScsiDisk(
            canonicalName=f"naa.{NAA}",
            uuid=LUN_UUID,
            lunType="disk",
            deviceName="/vmfs/devices/disks/a1",
            devicePath="/vmfs/devices/disks/a1",
            operationalState=["ok"],
            capacity=vim.host.DiskDimensions.Lba(block=196608, blockSize=512),
        )
        self.stores = {
            name: (vim.Datastore(name), {"name": name, "summary.accessible": True}) for name in ("ds1", "ds2")
        }
        # What is on the LUN.
        self.partitions = []
        nothing = SimpleNamespace(partition=[])
        storage = SimpleNamespace(
            storageDeviceInfo=SimpleNamespace(scsiLun=[lun]),
            fileSystemVolumeInfo=SimpleNamespace(mountInfo=[]),
            QueryUnresolvedVmfsVolume=list,
            RetrieveDiskPartitionInfo=lambda _paths: [
                SimpleNamespace(spec=SimpleNamespace(partition=self.partitions), layout=nothing)
            ],
        )
        unused = lambda: [lun] if not any(map(self.maps, self.machines)) else []  # noqa: E731
        kind = type("Host", (vim.HostSystem,), {})
        kind.name = "esx7"
        kind.parent = SimpleNamespace(
            resourcePool=vim.ResourcePool("pool-7"),
            environmentBrowser=SimpleNamespace(
                QueryConfigTarget=lambda host: SimpleNamespace(
                    scsiDisk=[SimpleNamespace(disk=disk) for disk in unused() if host is self.here]
                )
            ),
        )
        kind.configManager = SimpleNamespace(
            storageSystem=storage, datastoreSystem=SimpleNamespace(QueryAvailableDisksForVmfs=unused)
        )
        kind.network = [SimpleNamespace(name="VM Network"), SimpleNamespace(name="storage")]
        kind.datastore = [store for store, _values in self.stores.values()]
        self.here = kind("host-7")
        # What lies in the folders of machines, and is looked at there.
        self.beside = []
        self.browsed = SimpleNamespace(name="ds1", browser=SimpleNamespace(SearchDatastore_Task=self.search))
        self.folder = SimpleNamespace(CreateVM_Task=self.create)
        self.content = SimpleNamespace(virtualDiskManager=SimpleNamespace(ZeroFillVirtualDisk_Task=self.zero))
        self.kind = "HostAgent"

    def maps(self, vm: Vm) -> bool:
        devices = vm.config.hardware.device if vm.config else []
        return any(getattr(device.backing, "lunUuid", None) == LUN_UUID for device in devices)

    about = property(lambda self: {"kind": self.kind})

    def host(self):
        return self.here

    def datacenter(self, _entity):
        return SimpleNamespace(vmFolder=self.folder)

    def all(self, kind, *names):
        if kind is vim.Datastore:
            rows = [(store, {**values, "summary.freeSpace": 900 * MIB}) for store, values in self.stores.values()]
        else:
            rows = [(vm, vm.values()) for vm in self.machines]
        return [(each, {name: values[name] for name in names if name in values}) for each, values in rows]

    def task_properties(self, task):
        return task.look()

    def properties(self, vm, *names):
        values = {name: functools.reduce(getattr, name.split("."), vm) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def add(self, name: str, **more) -> Vm:
        vm = Vm(self, name, **more)
        self.machines.append(vm)
        return vm

    def create(self, config, pool, host):
        assert (pool._moId, host._moId) == ("pool-7", "host-7")
        self.calls.append(("create", config.name))
        fault = self.faults.pop("create", None)
        if fault:
            return Task(error=fault)
        vm = self.add(config.name)
        vm.change(config)
        return Task(vm)

    def search(self, datastorePath, searchSpec):
        assert (datastorePath, searchSpec.matchPattern) == ("[ds1] vm1", ["*"])
        return Task(SimpleNamespace(file=[SimpleNamespace(path=name) for name in self.beside]))

    def zero(self, name, datacenter):
        self.calls.append(("zero", name))
        return Task()

    def changes(self) -> list:
        return [what for what, _name in self.calls]

    def settings(self, name: str = "vm1") -> dict:
        (vm,) = (each for each in self.machines if each.name == name)
        return {option.key: option.value for option in vm.config.extraConfig}

    def devices(self, kind) -> list:
        return [device for device in self.machines[-1].config.hardware.device if isinstance(device, kind)]


def new_world(monkeypatch) -> World:
    monkeypatch.setattr(machine, "POLL_S", 0.001)
    monkeypatch.setattr(esxi_session, "POLL_S", 0.001)
    # The datastores here hold no files: the image of an answer file is tried on the simulated host.
    monkeypatch.setattr(guest.AnswerStore, "of", classmethod(lambda *_given: None))
    return World()


@pytest.fixture
def world(monkeypatch):
    return new_world(monkeypatch)


NICS = [{"network": "storage", "type": "vmxnet3"}, {"network": "VM Network", "type": "e1000e"}]
WHOLE = {"disks": [{**DISK, "provisioning": "thin"}, RAW], "nics": NICS, "extra_config": {"sched.x": "7"}}


def present(world: World, check_mode: bool = False, **more) -> dict:
    return guest.ensure(world, params(**{"state": "present", "wait_for_address_s": 0, **more}), check_mode)


def ended(world: World, state: str, check_mode: bool = False, **more) -> dict:
    return guest.ensure(world, params(**{"state": state, "timeout_s": 1, **more}), check_mode)


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


# ---------------------------------------------------------------- made


def test_a_machine_is_made_of_all_that_is_wanted_and_then_left_alone(world):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "IsoStore", lambda *_arguments: SimpleNamespace(plan=list))
        result = present(world, **WHOLE, iso=ISO, power="on")
        assert result["changed"] and world.changes() == ["create", "reconfigure", "reconfigure", "power on"]
        assert present(world, **WHOLE, iso=ISO, power="on")["changed"] is False
    thin, raw = world.devices(KIND.VirtualDisk)
    assert (thin.backing.thinProvisioned, thin.capacityInBytes, thin.backing.fileName) == (
        True,
        16 * MIB,
        f"[ds1] vm1/{thin.key}.vmdk",
    )
    assert (raw.backing.deviceName, raw.backing.lunUuid) == ("/vmfs/devices/disks/a1", LUN_UUID)
    assert (raw.backing.compatibilityMode, raw.capacityInBytes) == ("physicalMode", 96 * MIB)
    assert [type(card).__name__.rsplit(".", 1)[-1] for card in world.devices(KIND.VirtualEthernetCard)] == [
        "VirtualVmxnet3",
        "VirtualE1000e",
    ]
    (drive,) = world.devices(KIND.VirtualCdrom)
    assert (drive.backing.fileName, drive.backing.datastore._moId) == ("[ds1] iso/guest.iso", "ds1")
    extra = world.settings()
    assert (extra["storlab.testbed"], extra["sched.x"], extra["disk.EnableUUID"]) == ("tb", "7", "TRUE")
    assert machine.BUILDING_KEY not in extra
    assert result["vm"]["memory_reserved"] is True and result["vm"]["power"] == "on"
    # A disk of a mapping is known by the LUN's own serial number.
    assert [disk["name"] for disk in result["disks"]] == ["data", "raw"]
    assert result["disks"][1]["serial"] == LAYERS["datastore-raw"]["identity"]["serial"]


def test_check_mode_says_what_would_be_made_and_makes_nothing(world):
    with unchanged(world.calls):
        result = present(world, check_mode=True, **WHOLE)
    assert result["changed"] and ops(result)[0] == "create" and "vm" not in result


def test_a_machine_without_anything_is_complete_as_well(world):
    present(world)
    assert world.changes() == ["create", "reconfigure"] and machine.BUILDING_KEY not in world.settings()


def test_what_changes_is_changed_and_no_more(world):
    present(world, **WHOLE)
    world.calls.clear()
    changed = {**WHOLE, "nics": [{**NICS[0], "network": "VM Network"}, {**NICS[1], "type": "e1000"}]}
    result = present(world, **changed, vcpus=4, memory_mib=2048, reserve_memory=False)
    assert world.changes() == ["reconfigure"]
    assert (result["vm"]["vcpus"], result["vm"]["memory_mib"], result["vm"]["memory_reserved"]) == (4, 2048, False)
    first, second = world.devices(KIND.VirtualEthernetCard)
    assert (first.backing.deviceName, type(second)) == ("VM Network", KIND.VirtualE1000)
    assert len(world.devices(KIND.VirtualDisk)) == 2


@pytest.mark.parametrize(("kind", "shared"), [("pvscsi", "noSharing"), ("lsilogic", "noSharing"), ("nvme", None)])
def test_a_disk_brings_its_controller_with_it(world, kind, shared):
    present(world, disks=[{**DISK, "controller": kind}, {**DISK, "name": "log", "controller": kind}])
    (controller,) = world.devices(getattr(KIND, machine_state.CONTROLLER_TYPES[kind]))
    assert getattr(controller, "sharedBus", None) == shared
    assert [(disk.controllerKey, disk.unitNumber) for disk in world.devices(KIND.VirtualDisk)] == [
        (controller.key, 0),
        (controller.key, 1),
    ]


def test_what_somebody_changed_is_put_right(world, monkeypatch):
    monkeypatch.setattr(guest, "IsoStore", lambda *_arguments: SimpleNamespace(plan=list))
    present(world, iso=ISO)
    (vm,) = world.machines
    vm.config.guestId = "otherGuest"
    vm.config.extraConfig = [option for option in vm.config.extraConfig if option.key != "disk.EnableUUID"]
    (drive,) = world.devices(KIND.VirtualCdrom)
    drive.backing = KIND.VirtualCdrom.RemotePassthroughBackingInfo(deviceName="", exclusive=False)
    drive.connectable = None
    assert sorted(ops(present(world, check_mode=True, iso=ISO))) == ["disk_uuids", "guest_id", "mount_iso"]
    present(world, iso=ISO)
    assert (vm.config.guestId, drive.backing.fileName) == ("debian12_64Guest", "[ds1] iso/guest.iso")
    assert (drive.connectable.startConnected, drive.connectable.connected) == (True, False)
    assert world.settings()["disk.EnableUUID"] == "TRUE" and present(world, iso=ISO)["changed"] is False


def test_a_card_of_a_distributed_switch_names_its_port_group(world):
    group = type("Group", (vim.dvs.DistributedVirtualPortgroup,), {})
    group.name, group.key = "dv-storage", "dvportgroup-9"
    group.config = SimpleNamespace(distributedVirtualSwitch=SimpleNamespace(uuid="50 1c"))
    type(world.here).network = [*world.here.network, group("dvportgroup-9")]
    wanted = {"nics": [{"network": "dv-storage", "type": "vmxnet3"}]}
    present(world, **wanted)
    (card,) = world.devices(KIND.VirtualEthernetCard)
    assert (card.backing.port.portgroupKey, card.backing.port.switchUuid) == ("dvportgroup-9", "50 1c")
    assert present(world, **wanted)["changed"] is False


def test_a_machine_that_its_cluster_moved_comes_back(world):
    present(world)
    elsewhere = type("Host", (vim.HostSystem,), {"name": "esx8"})("host-8")
    world.machines[0].runtime.host = elsewhere
    result = present(world, check_mode=True)
    assert [(step["op"], step["was"], step["will"]) for step in result["steps"]] == [("move", "esx8", "esx7")]
    assert world.machines[0].runtime.host is elsewhere
    assert present(world)["changed"] and world.machines[0].runtime.host == world.here
    assert present(world)["changed"] is False


def test_of_two_machines_of_a_name_the_one_on_this_host_is_meant(world):
    other = world.add("vm1")
    other.runtime.host = type("Host", (vim.HostSystem,), {"name": "esx8"})("host-8")
    ours = world.add("vm1")
    assert machine_state.find(world, world.here, "vm1") == (ours, True)
    world.machines.remove(ours)
    assert machine_state.find(world, world.here, "vm1") == (other, False)
    assert machine_state.find(world, world.here, "vm") == (None, False)


# ---------------------------------------------------------------- half-made machines


def fault(kind=vmodl.fault.SystemError, text="no room left"):
    return kind(msg=text)


@pytest.mark.parametrize(
    ("what", "power", "calls"),
    [
        ("create", "as_is", ["create"]),
        ("reconfigure", "as_is", ["create", "reconfigure", "destroy"]),
        ("power on", "on", ["create", "reconfigure", "reconfigure", "power on", "destroy"]),
    ],
)
def test_a_machine_that_cannot_be_completed_is_taken_away_again(world, what, power, calls):
    world.faults[what] = fault()
    with broken_off() as caught:
        present(world, **WHOLE, power=power)
    assert (caught.value.code, world.changes(), world.machines) == ("refused", calls, [])
    assert "no room left" in str(caught.value)


def test_a_machine_that_asks_while_it_starts_is_turned_off_before_it_goes(world):
    vm = world.add("vm1")
    vm.runtime.question = SimpleNamespace(text="msg.uuid.altered:\n This machine might have been  copied.")
    world.starting = ["queued", "running"]
    vm.config.extraConfig = [vim.option.OptionValue(key="storlab.testbed", value="tb")]
    ours = machine.Machine(world, world.here, vm, {"name": "vm1", "testbed_id": "tb"})
    with broken_off() as caught:
        ours.apply([{"op": "power_on"}], {}, {})
    assert caught.value.code == "vm_asks"
    assert "waits for an answer: msg.uuid.altered: This machine might have been copied." in str(caught.value)
    ours.remove()
    assert (world.changes(), world.machines) == (["power on", "power off", "destroy"], [])


def test_a_machine_that_takes_its_time_to_start_is_waited_for(world):
    world.starting = ["queued", "running", "running"]
    assert present(world, power="on")["vm"]["power"] == "on"
    assert world.starting == []


def test_the_first_failure_is_told_when_tidying_up_fails_too(world):
    world.faults.update({"reconfigure": fault(text="bad disk"), "destroy": fault(text="locked")})
    with broken_off(match="bad disk"):
        present(world, **WHOLE)
    # What is left is known as half-made, and the next call makes it anew.
    assert machine.BUILDING_KEY in world.settings()
    world.calls.clear()
    result = present(world, **WHOLE)
    assert ops(result)[:2] == ["destroy", "create"] and world.changes() == [
        "destroy",
        "create",
        "reconfigure",
        "reconfigure",
    ]
    assert len(world.machines) == 1 and machine.BUILDING_KEY not in world.settings()


def test_a_half_made_machine_of_others_stays(world):
    vm = world.add("vm1")
    vm.config.extraConfig = [
        vim.option.OptionValue(key=key, value=value)
        for key, value in (("storlab.testbed", "other"), (machine.BUILDING_KEY, "TRUE"))
    ]
    with refused(world.calls) as caught:
        present(world, **WHOLE)
    assert caught.value.code == "vm_foreign" and "other" in str(caught.value)
    assert world.machines == [vm]


def test_a_lost_connection_is_told_as_one(world):
    world.faults["reconfigure"] = ConnectionResetError("reset by peer")
    with broken_off() as caught:
        present(world, **WHOLE)
    assert caught.value.code == "connection_lost" and "change the virtual machine vm1" in str(caught.value)


def test_a_change_that_fails_leaves_a_machine_that_was_there(world):
    present(world)
    world.faults["reconfigure"] = fault()
    with broken_off():
        present(world, vcpus=3)
    assert [vm.name for vm in world.machines] == ["vm1"] and "destroy" not in world.changes()


class Image:
    """An image on a datastore, whose upload may fail. was: what lies there before."""

    def __init__(self, was, fails: bool = False) -> None:
        self.was, self.fails, self.calls = was, fails, []

    def plan(self) -> list:
        return [{"op": "upload_iso", "target": "[ds1] iso/guest.iso", "was": self.was, "will": "7 bytes"}]

    def upload(self, _step) -> None:
        self.calls.append("upload")
        if self.fails:
            raise Failure("file_refused", "PUT was refused.", "Look.")

    def remove(self) -> None:
        self.calls.append("remove")


@pytest.mark.parametrize(
    ("was", "calls"), [(None, ["upload", "remove"]), ("5 bytes", ["upload"])], ids=["new", "replaced"]
)
def test_an_image_that_was_uploaded_for_a_machine_that_failed_goes_unless_it_was_there(world, monkeypatch, was, calls):
    image = Image(was)
    monkeypatch.setattr(guest, "IsoStore", lambda *_arguments: image)
    world.faults["create"] = fault()
    with broken_off():
        present(world, iso={**ISO, "src": "/srv/guest.iso"})
    assert image.calls == calls


def test_a_machine_that_is_half_made_is_not_touched_when_its_image_does_not_arrive(world, monkeypatch):
    world.faults.update({"reconfigure": fault(), "destroy": fault()})
    with broken_off():
        present(world, **WHOLE)
    image = Image(None, fails=True)
    monkeypatch.setattr(guest, "IsoStore", lambda *_arguments: image)
    with refused(world.calls, match="PUT was refused"):
        present(world, **WHOLE, iso=ISO)


# ---------------------------------------------------------------- made from a template


def test_a_host_on_its_own_clones_nothing(world):
    world.add("gold")
    with refused(world.calls) as caught:
        present(world, template="gold")
    assert caught.value.code == "template_needs_vcenter" and "esx7.lab" in str(caught.value)


def test_a_clone_is_the_testbeds_and_nothing_of_another_one(world, monkeypatch):
    world.kind = "VirtualCenter"
    gold = world.add("gold")
    spec = vim.vm.ConfigSpec(guestId="debian12_64Guest", numCPUs=1, memoryMB=512)
    keys = {"storlab.testbed": "older", "storlab.disk.data": "pvscsi 0:0 eager", "kept.key": "5"}
    spec.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in keys.items()]
    gold.change(spec)
    result = present(world, template="gold", vcpus=None, memory_mib=None, guest_id=None)
    assert ("clone", "gold") in world.calls and result["vm"]["memory_mib"] == 512
    extra = world.settings()
    assert (extra["storlab.testbed"], extra["kept.key"]) == ("tb", "5") and "storlab.disk.data" not in extra
    assert world.settings("gold") == keys
    with refused(world.calls) as caught:
        present(world, name="vm2", template="silver")
    assert caught.value.details["variable"] == "template"


class Import:
    """An OVA that the host takes, or breaks off; ``vm`` is what is there of it then."""

    def __init__(self, session, _host, ova, want, _pool) -> None:
        self.world, self.ova, self.name, self.vm = session, ova, want["name"], None
        self.config = vim.vm.ConfigSpec(guestId="debian12_64Guest", numCPUs=2, memoryMB=256)

    def devices(self) -> list:
        return []

    def run(self, stamps, folder) -> None:
        assert folder is self.world.folder
        self.vm = self.world.add(self.name)
        self.vm.change(vim.vm.ConfigSpec(guestId="debian12_64Guest", numCPUs=2, memoryMB=256, extraConfig=stamps))
        if self.ova.breaks_off:
            raise Failure("connection_lost", "The upload broke off.", "Run again.")


@pytest.mark.parametrize("breaks_off", [False, True])
def test_an_import_that_breaks_off_leaves_no_machine_and_no_open_file(world, monkeypatch, breaks_off):
    closed = []
    ova = SimpleNamespace(breaks_off=breaks_off, close=lambda: closed.append(True))
    monkeypatch.setattr(guest, "Ova", lambda _path: ova)
    monkeypatch.setattr(guest, "Import", Import)
    wanted = {"ova": "/srv/gold.ova", "vcpus": None, "memory_mib": 512, "guest_id": None}
    if breaks_off:
        with broken_off(match="The upload broke off"):
            present(world, **wanted)
        assert (world.machines, world.changes()) == ([], ["destroy"])
    else:
        result = present(world, **wanted)
        assert (result["vm"]["vcpus"], result["vm"]["memory_mib"]) == (2, 512)
        assert world.settings()["storlab.testbed"] == "tb" and machine.BUILDING_KEY not in world.settings()
    assert closed == [True]


# ---------------------------------------------------------------- power


def on(world: World, tools: str = "guestToolsRunning") -> Vm:
    present(world, power="on")
    (vm,) = world.machines
    vm.guest.toolsRunningStatus = tools
    world.calls.clear()
    return vm


@pytest.mark.parametrize(
    ("tools", "ends", "calls"),
    [
        ("guestToolsRunning", True, ["shut down"]),
        ("guestToolsRunning", False, ["shut down", "power off"]),
        ("guestToolsNotRunning", True, ["power off"]),
    ],
)
def test_a_guest_may_end_by_itself_when_it_can(world, monkeypatch, tools, ends, calls):
    monkeypatch.setattr(machine, "SHUTDOWN_S", 0.01)
    vm = on(world, tools)
    vm.ends_by_itself = ends
    result = present(world, power="off")
    assert (world.changes(), vm.runtime.powerState, result["vm"]["power"]) == (calls, "poweredOff", "off")


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_the_address_that_a_guest_tells_is_waited_for(world, address):
    vm = on(world)
    reported = iter([None, "fe80::1", "169.254.0.9", "127.0.0.1"])

    class Guest:
        toolsRunningStatus = "guestToolsRunning"
        ipAddress = property(lambda _self: next(reported, address))

    vm.guest = Guest()
    assert present(world, wait_for_address_s=5)["address"] == address


@pytest.mark.parametrize(
    ("power", "tools", "words"),
    [
        ("poweredOff", None, "it is poweredOff, its tools: unknown"),
        ("poweredOn", "guestToolsNotRunning", "it is poweredOn, its tools: guestToolsNotRunning"),
    ],
)
def test_a_guest_that_tells_no_address_is_told_with_its_tools(world, power, tools, words):
    vm = on(world)
    vm.runtime.powerState, vm.guest.toolsRunningStatus = power, tools
    vm.guest.ipAddress = "169.254.0.9"
    waiting = machine.Machine(world, world.here, vm, {"name": "vm1"})
    with broken_off() as caught:
        waiting.wait_for_address(0)
    assert caught.value.code == "address_missing" and words in str(caught.value)
    assert caught.value.details["power"] == power


# ---------------------------------------------------------------- read


def test_a_machine_that_the_host_cannot_read_proves_nothing(world):
    world.add("vm1").config = None
    for work in (lambda: present(world), lambda: ended(world, "absent")):
        with refused(world.calls) as caught:
            work()
        assert (caught.value.code, caught.value.details["name"]) == ("vm_unreadable", "vm1")


@pytest.mark.parametrize("state", ["inaccessible", "orphaned", "invalid", "connected"])
def test_what_the_host_has_lost_is_let_go_of_and_not_destroyed(world, state):
    present(world)
    world.machines[0].runtime.connectionState = state
    world.calls.clear()
    ended(world, "absent")
    assert (world.changes(), world.machines) == (["destroy" if state == "connected" else "unregister"], [])


def test_a_lost_datastore_takes_only_its_disk(world):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "IsoStore", lambda *_arguments: SimpleNamespace(plan=list))
        present(world, disks=[DISK, {**DISK, "name": "far", "datastore": "ds2"}], iso={**ISO, "datastore": "ds2"})
    near, far = world.devices(KIND.VirtualDisk)
    near.backing.fileName, far.backing.fileName = "[ds1] vm1/vm1.vmdk", "[ds2] vm1/far.vmdk"
    world.stores["ds2"][1]["summary.accessible"] = False
    with refused(world.calls) as caught:
        present(world, disks=[DISK])
    assert caught.value.code == "vm_lost" and "ds2" in str(caught.value)
    with pytest.MonkeyPatch.context() as patch:
        looked = []
        patch.setattr(guest, "rescanned", lambda *given: looked.append(given[3]))
        assert ops(ended(world, "released", check_mode=True)) == ["detach", "eject"] and not looked
        ended(world, "released")
    assert looked == [1] and world.devices(KIND.VirtualDisk) == [near]
    (drive,) = world.devices(KIND.VirtualCdrom)
    assert isinstance(drive.backing, KIND.VirtualCdrom.RemotePassthroughBackingInfo)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "rescanned", lambda *_given: None)
        assert ended(world, "released")["changed"] is False


def test_what_a_machine_consists_of_is_read_however_it_was_made(world):
    flat, raw = KIND.VirtualDisk.FlatVer2BackingInfo, KIND.VirtualDisk.RawDiskMappingVer1BackingInfo
    port = vim.dvs.PortConnection(portgroupKey="gone", switchUuid="50")
    devices = [
        KIND.VirtualAHCIController(key=15000, busNumber=2),
        KIND.VirtualDisk(key=1, controllerKey=15000, unitNumber=3, capacityInKB=7, backing=flat(fileName="[a] b")),
        KIND.VirtualDisk(
            key=2, controllerKey=99, capacityInKB=8, backing=flat(fileName="[a] c", eagerlyScrub=True, uuid="u-2")
        ),
        KIND.VirtualDisk(
            key=3,
            controllerKey=15000,
            capacityInBytes=5120,
            capacityInKB=1,
            backing=raw(fileName="[a] d", lunUuid=LUN_UUID, compatibilityMode="virtualMode"),
        ),
        KIND.VirtualDisk(
            key=4,
            controllerKey=15000,
            capacityInKB=9,
            backing=raw(
                fileName="[a] e",
                lunUuid="x",
                deviceName="/vmfs/devices/disks/naa.600b",
                compatibilityMode="physicalMode",
            ),
        ),
        KIND.VirtualVmxnet2(key=5, backing=KIND.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)),
        KIND.VirtualVmxnet3(key=6, backing=KIND.VirtualEthernetCard.NetworkBackingInfo(deviceName="storage")),
    ]
    config = vim.vm.ConfigSpec(guestId="g7", numCPUs=3, memoryMB=64)
    parts = machine_state.hardware(world, world.here, config, devices)
    assert [(disk["controller"], disk["bus"], disk["size_bytes"]) for disk in parts["disks"]] == [
        ("sata", 2, 7168),
        ("unknown", -1, 8192),
        ("sata", 2, 5120),
        ("sata", 2, 9216),
    ]
    assert [disk["provisioning"] for disk in parts["disks"]] == ["lazy", "eager", None, None]
    assert [disk["naa"] for disk in parts["disks"]] == [None, None, NAA, "600b"]
    assert [disk["compatibility"] for disk in parts["disks"]] == [None, None, "virtual", "physical"]
    assert [(nic["type"], nic["network"]) for nic in parts["nics"]] == [
        ("VirtualVmxnet2", None),
        ("vmxnet3", "storage"),
    ]
    assert (parts["vcpus"], parts["memory_mib"], parts["reservation_mib"]) == (3, 64, 0)


def test_a_lun_is_free_only_where_no_machine_and_no_datastore_has_it(world):
    def luns():
        return machine_state.read_facts(world, world.here, [NAA])["luns"]

    assert luns()[NAA] == {
        "size_bytes": 96 * MIB,
        "device": "/vmfs/devices/disks/a1",
        "uuid": LUN_UUID,
        "volume": None,
        "users": [],
        "offered": True,
        "available": True,
        "partitions": [],
        "unresolved": None,
    }
    present(world, disks=[RAW])
    assert (luns()[NAA]["users"], luns()[NAA]["offered"], luns()[NAA]["available"]) == (["vm1"], False, False)
    volume = SimpleNamespace(name="ds9", extent=[SimpleNamespace(diskName=f"naa.{NAA}")])
    storage = world.here.configManager.storageSystem
    storage.fileSystemVolumeInfo.mountInfo = [
        SimpleNamespace(volume=volume),
        SimpleNamespace(volume=SimpleNamespace(name="nfs")),
    ]
    assert luns()[NAA]["volume"] == "ds9"
    storage.storageDeviceInfo.scsiLun[0].operationalState = ["lost"]
    assert luns() == {}


def test_a_lun_that_is_written_to_after_the_plan_is_not_mapped(world):
    """It is looked at once more right before it is attached, and the machine that was made for it goes again."""
    create = world.create

    def late(config, pool, host):
        world.partitions.append(SimpleNamespace(partition=1, type="ntfs"))
        return create(config, pool, host)

    world.folder.CreateVM_Task = late
    with broken_off() as caught:
        present(world, disks=[RAW])
    assert (caught.value.code, caught.value.details["contents"]) == ("device_not_blank", ["partitions (1 ntfs)"])
    assert (world.machines, world.changes()) == ([], ["create", "destroy"])
    # A machine that has it already is not asked about it again.
    world.partitions.clear()
    world.folder.CreateVM_Task = create
    present(world, disks=[RAW])
    world.partitions.append(SimpleNamespace(partition=1, type="ntfs"))
    assert present(world, disks=[RAW])["changed"] is False


# ---------------------------------------------------------------- gone


@pytest.mark.parametrize(
    ("kind", "code"), [(vmodl.fault.ManagedObjectNotFound, None), (vmodl.fault.SystemError, "refused")]
)
def test_a_machine_that_went_by_itself_is_gone(world, kind, code):
    present(world)
    world.faults["destroy"] = fault(kind)
    if code is None:
        ended(world, "absent")
        return
    with broken_off() as caught:
        ended(world, "absent")
    assert caught.value.code == code


def test_a_running_machine_is_turned_off_and_destroyed(world):
    on(world)
    assert ops(ended(world, "absent", check_mode=True)) == ["kill", "destroy"] and world.calls == []
    ended(world, "absent")
    assert (world.changes(), world.machines) == (["power off", "destroy"], [])
    assert ended(world, "absent")["changed"] is False


def test_a_machine_of_others_is_neither_released_nor_destroyed(world):
    present(world, testbed_id="other")
    world.calls.clear()
    with refused(world.calls) as caught:
        ended(world, "absent")
    assert caught.value.code == "vm_foreign"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "rescanned", lambda *_given: None)
        assert ended(world, "released")["changed"] is False
    assert len(world.machines) == 1


def test_an_image_goes_with_the_machine_that_it_was_uploaded_for(world, monkeypatch):
    removed = []
    step = {"op": "remove_iso", "target": "[ds1] iso/guest.iso", "was": "uploaded", "will": None}
    image = SimpleNamespace(
        iso={"backing": "[ds1] iso/guest.iso"}, removal=lambda _name: [step], remove=lambda: removed.append(True)
    )
    monkeypatch.setattr(guest.IsoStore, "of", classmethod(lambda *_given: image))
    present(world)
    assert ops(ended(world, "absent", check_mode=True, iso=ISO)) == ["destroy", "remove_iso"] and not removed
    ended(world, "absent", iso=ISO)
    assert removed == [True] and world.machines == []


def test_disks_are_filled_with_zeroes_while_the_machine_is_off(world):
    present(world, disks=[DISK, {**DISK, "name": "log"}], power="on")
    data, log = world.devices(KIND.VirtualDisk)
    data.backing.fileName, log.backing.fileName = "[ds1] vm1/data.vmdk", "[ds1] vm1/log.vmdk"
    world.calls.clear()
    with refused(world.calls) as caught:
        ended(world, "zeroed", disks=[{"name": "log"}])
    assert caught.value.code == "needs_power_off"
    assert ended(world, "zeroed", check_mode=True, disks=[{"name": "log"}], restart=True)["changed"]
    assert world.calls == []
    ended(world, "zeroed", disks=[{"name": "log"}], restart=True)
    assert world.calls == [("power off", "vm1"), ("zero", "[ds1] vm1/log.vmdk"), ("power on", "vm1")]
