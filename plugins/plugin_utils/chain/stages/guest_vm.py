# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``guest_vm``: machines whose disks are on the datastores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.layers import Layer
from ..changes import Change, Changes, each, entries_kept, word_of
from ..emulated import lab_network, tap_name
from ..finding import line
from ..identifiers import same_case, shared
from ..nouns import Finding, Kept, Lab, Probe
from ..shape import Problem, did_you_mean, shown
from ..stage import Find, Judge, Needs, Stage
from ..testbed import Context, Host, Store, Testbed, addresses_of, layer_of, mappings
from . import esxi_room, existing_storage

# For all machines of the embedded lab. Without no_timer_check the kernel counts ticks while it starts, and panics where a busy computer held them back.
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on no_timer_check"
NBD_PORT = 10809


class GuestVm(Stage):
    name = "guest_vm"
    floor = 5
    describes = "guest_vm_guests"
    kept = ("guest_vm_guests",)
    packages: ClassVar = {"qemu-system-x86_64": ("qemu-system-x86", "qemu-kvm")}
    variables = (
        "guest_vm_accel_cache",
        "guest_vm_boot_timeout_s",
        "guest_vm_console_dir",
        "guest_vm_guests",
        "guest_vm_nbd_secret",
        "guest_vm_netns",
        "guest_vm_provider",
        "guest_vm_run_dir",
        "guest_vm_ssh_control_dir",
    )

    def derive(self, context: Context) -> None:
        _guests(context)

    def runs_on(self, context: Context, host: Host) -> bool:
        return "guest_vm_guests" in host.variables

    def stands_on(self, testbed: Testbed, host: Host) -> list[str]:
        guests = mappings(host.variables.get("guest_vm_guests"))
        keepers = [(guest.get("data_disk") or {}).get("host") for guest in guests]
        return [keeper for keeper in keepers if keeper in testbed.hosts and keeper != host.name]

    def layers(self, host: Host) -> list[Layer]:
        layers: list[Layer] = []
        for guest in mappings(host.variables.get("guest_vm_guests")):
            if _installs_itself(guest):
                continue
            parent = (guest.get("data_disk") or guest.get("esxi") or {}).get("datastore_layer")
            what = f"a virtual machine on {host.name}"
            own = [layer_of("guest", guest.get("name"), host, parent, "scratch", what)]
            if guest.get("raw_disk"):
                below = guest["raw_disk"].get("layer")
                own.append(layer_of("guest", f"{guest.get('name')}-raw", host, below, "scratch", "the whole LUN"))
            layers += [{**layer, "host": guest.get("host")} for layer in own]
        return layers

    def checks(self) -> dict[str, Judge]:
        return {"guests": _guests_and_places, "machine names": _doubled_machine}

    def changes(self) -> dict[str, Changes]:
        return {"guests": _guests_kept}

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        wanted = host.variables["guest_vm_guests"] and host.name != testbed.embedded
        return (["qemu-system-x86_64"] if wanted else []), []

    def images(self, host: Host) -> list[dict[str, Any]]:
        return esxi_room.images(host)

    def findings(self) -> dict[str, Find]:
        return {"others": _virtualisation, "esxi": _room}


def _installs_itself(guest: dict[str, Any]) -> bool:
    """Whether its only disk is the one that Windows is installed on, which is not measured."""
    esxi = guest.get("esxi") or {}
    return "unattended" in esxi and "data_disk" not in esxi


def _guests(context: Context) -> None:
    testbed = context.testbed
    by_host: dict[str, list[dict[str, Any]]] = {}
    guests = testbed.groups.get("guests", [])
    for index, entry in enumerate(context.description.get("guests", [])):
        variable = f"testbed.guests[{index}]"
        inventory_name = entry.get("host", entry["name"])
        if inventory_name not in guests:
            word = f"{variable}.host" if "host" in entry else f"{variable}.name"
            context.problem(
                word,
                inventory_name,
                "which is not a host of the group guests",
                did_you_mean(inventory_name, guests),
            )
        stores = [store for store in testbed.stores if store.hosts]
        store = next((store for store in stores if entry.get("datastore") in (store.name, store.label)), None)
        if store is None:
            why = "which is not a datastore" if entry.get("datastore") else "is not set"
            context.problem(
                f"{variable}.datastore",
                entry.get("datastore"),
                why,
                did_you_mean(entry.get("datastore") or "", [store.name for store in stores]),
            )
            continue
        runs = testbed.hosts[store.hosts[0]]
        if "hypervisor" in entry:
            named = context.resolve(
                f"{variable}.hypervisor",
                [entry["hypervisor"]],
                store.hosts,
                f"host with the datastore {store.name}",
            )
            runs = testbed.hosts[named[0]] if named else runs
        keeper = runs
        if testbed.embedded and runs.platform == "linux":
            runs = testbed.hosts[testbed.embedded]
        maker = _esxi_guest if runs.platform == "esxi" else _qemu_guest
        guest = maker(context, entry, inventory_name, store, keeper)
        if "raw" in entry:
            _raw_disk(context, f"{variable}.raw", entry["raw"], guest, keeper)
        served = [disk for other in by_host.get(runs.name, []) for disk in _served(other, keeper)]
        for place, disk in enumerate(_served(guest, keeper), len(served)):
            if place:
                disk["port"] = NBD_PORT + place
        by_host.setdefault(runs.name, []).append(guest)
    for name in list(dict.fromkeys([*testbed.groups.get("guest_hosts", []), *by_host])):
        host = testbed.hosts[name]
        context.derive(host, "guest_vm_guests", by_host.get(name, []), "testbed.guests")
        esxi = host.platform == "esxi"
        context.derive(
            host, "guest_vm_provider", "esxi" if esxi else "qemu", f"{name} runs {host.platform.capitalize()}"
        )
        _guest_folders(context, host)
    testbed.groups["guest_hosts"] = [
        name for name in testbed.hosts if "guest_vm_guests" in testbed.hosts[name].variables
    ]


def _guest_folders(context: Context, host: Host) -> None:
    """Where the QEMU processes of guests keep what they need; the embedded lab has a network of its own."""
    embedded = host.name == context.testbed.embedded
    netns, folder = host.own.get("embedded_lab_netns", ""), host.own.get("embedded_lab_dir", "")
    qemu = host.variables["guest_vm_provider"] == "qemu"
    here = f"/run/storlab/{netns if embedded else context.testbed.testbed_id}" if qemu else ""
    because = "embedded_lab_dir and embedded_lab_netns" if embedded else "testbed_id"
    context.derive(host, "guest_vm_run_dir", f"{here}/vm" if qemu else "", because)
    context.derive(host, "guest_vm_netns", netns if embedded else "", because)
    context.derive(host, "guest_vm_accel_cache", f"{folder}/accel.json" if embedded else "", because)
    context.derive(host, "guest_vm_ssh_control_dir", f"{here}/cp" if embedded else "", because)
    context.derive(host, "guest_vm_console_dir", f"{folder}/console" if embedded else "", because)
    context.derive(host, "guest_vm_boot_timeout_s", 300 if qemu else 600, because)
    tls = qemu and context.description["nbd"] == "tls"
    context.derive(host, "guest_vm_nbd_secret", context.lab["secrets"]["nbd"] if tls else "", "testbed.nbd")


def _qemu_guest(context: Context, entry: dict[str, Any], host: str, store: Store, keeper: Host) -> dict[str, Any]:
    embedded = context.testbed.embedded is not None
    own = context.testbed.hosts[host].own if host in context.testbed.hosts else {}
    address = entry.get("address") or next((address for address, _port in addresses_of(own)), None)
    described = next(
        (
            datastore
            for datastore in mappings(keeper.variables["datastore_datastores"])
            if datastore.get("name") == store.label
        ),
        {},
    )
    disk = {
        "datastore_layer": f"datastore-{store.label}{keeper.variables['datastore_layer_suffix']}",
        "host": keeper.name,
        "directory": described.get("mount_point"),
        "size_mib": entry.get("disk_size", 0),
        "transport": "nbd" if embedded else "file",
    }
    guest = {"name": entry["name"], "host": host}
    if address:
        guest["address"] = address
    guest["memory_mib"], guest["vcpus"] = entry.get("memory", 0), entry.get("vcpus", 1)
    if embedded:
        lab = context.testbed.hosts[str(context.testbed.embedded)].own
        image, prefix = f"{lab.get('embedded_lab_dir', '')}/image", lab_network(context.testbed).split("/")[1]
        guest["boot"] = {
            "kernel": f"{image}/vmlinuz",
            "initrd": f"{image}/initrd.img",
            "append": f"{KERNEL_OPTIONS} storlab.hostname={host} storlab.address={address}/{prefix}",
            "image": f"{image}/root.ext4",
            "image_serial": "storlab-root",
            "readonly": True,
        }
        guest["nics"] = [{"tap": tap_name(host)}]
        disk["address"] = next((address for address, _port in addresses_of(keeper.own)), None)
    else:
        guest["boot"] = {"image": entry.get("image"), "image_format": entry.get("image_format", "raw")}
        guest["nics"] = [{"tap": tap} for tap in entry.get("taps", [])]
    return {**guest, "data_disk": disk}


def _raw_disk(context: Context, variable: str, name: str, guest: dict[str, Any], keeper: Host) -> None:
    """The LUN that a guest has whole, as its host sees it."""
    if keeper.platform == "esxi":
        remedy = f"give {guest['name']} a datastore of type rdm on it instead"
        context.problem(variable, name, f"but {keeper.name} is an ESXi host", remedy)
        return
    here = [disk for disk in context.testbed.disks if keeper.name in (*disk.hosts, disk.target)]
    disk = next((disk for disk in here if name in (disk.name, disk.entry["name"])), None)
    if disk is None:
        why = f"which is not a disk of {keeper.name}"
        context.problem(variable, name, why, did_you_mean(name, [disk.name for disk in here]))
        return
    local = disk.target == keeper.name
    below = guest["data_disk"]
    guest["raw_disk"] = {
        "layer": f"backing-{disk.name}"
        if local
        else f"initiator-{disk.name}{keeper.variables['iscsi_initiator_layer_suffix']}",
        **{key: below[key] for key in ("host", "transport", "address") if key in below},
    }


def _esxi_guest(context: Context, entry: dict[str, Any], host: str, store: Store, keeper: Host) -> dict[str, Any]:
    own = context.testbed.hosts[host].own if host in context.testbed.hosts else {}
    address = entry.get("address") or own.get("ansible_host")
    extra = entry.get("esxi", {})
    system = "template" in extra or "ova" in extra
    layer = f"datastore-{store.label}{keeper.variables['datastore_layer_suffix']}"
    disk = {
        "name": "data",
        "datastore": store.label,
        "size_mib": entry.get("disk_size", 0),
        "controller": "pvscsi",
        "provisioning": "eager",
    }
    card = {"network": "VM Network"}
    if "unattended" in extra:
        # What Windows Server has a driver for on its own medium.
        disk |= {"name": "system", "controller": "ide", "provisioning": "thin"}
        card["type"] = "e1000e"
    elif store.entry.get("type") == "rdm":
        disk = {"name": "data", "controller": "lsilogic", "rdm": {"layer": layer}}
    guest = {"name": entry["name"], "host": host}
    if address:
        guest["address"] = address
    if "vcpus" in entry:
        guest["vcpus"] = entry["vcpus"]
    if "memory" in entry:
        guest["memory_mib"] = entry["memory"]
    guest["esxi"] = {
        "datastore": store.label,
        "datastore_layer": layer,
        "disks": [disk],
        **({"nics": [card]} if not system else {}),
        "wait_for_address": system,
        "find_disk": system,
        **extra,
    }
    return guest


def _served(guest: dict[str, Any], keeper: Host) -> list[dict[str, Any]]:
    """The disks of a guest that the host serves over NBD."""
    disks = [guest[key] for key in ("data_disk", "raw_disk") if key in guest]
    return [disk for disk in disks if disk.get("transport") == "nbd" and disk.get("host") == keeper.name]


def _guests_and_places(lab: Lab, testbed: Testbed) -> list[Problem]:
    return [*_unfit_guests(lab, testbed), *_on_storage_of_others(testbed)]


def _on_storage_of_others(testbed: Testbed) -> Iterator[Problem]:
    """Guests whose files would be made on a datastore that is only read."""
    kept = {
        (host, store.label): store
        for store in testbed.stores
        if store.there and not existing_storage.written(store.entry)
        for host in store.hosts
    }
    described = {entry["name"]: index for index, entry in enumerate(testbed.description.get("guests", []))}
    for host in testbed.hosts.values():
        for place, guest in enumerate(mappings(host.variables.get("guest_vm_guests"))):
            store = next((kept[host.name, name] for name in _written_places(guest) if (host.name, name) in kept), None)
            index = described.get(guest.get("name"))
            variable = f"guest_vm_guests[{place}] of {host.name}" if index is None else f"testbed.guests[{index}]"
            if store:
                yield Problem(
                    variable,
                    None,
                    f"would have files on {store.label}, a datastore that was there before the testbed and is only read",
                    f"name another datastore, or set access: write in {store.variable}",
                )


def _written_places(guest: dict[str, Any]) -> list[str]:
    """The datastores that an ESXi host puts files of a guest on; an image that is there already is only read."""
    esxi = guest.get("esxi") or {}
    iso = esxi.get("iso")
    uploaded = [iso.get("datastore")] if isinstance(iso, dict) and iso.get("src") else []
    named = [esxi.get("datastore"), *(disk.get("datastore") for disk in mappings(esxi.get("disks"))), *uploaded]
    return [str(name) for name in named if name]


def _unfit_guests(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = _nbd(testbed)
    for index, entry in enumerate(testbed.description.get("guests", [])):
        variable = f"testbed.guests[{index}]"
        stores = [
            store for store in testbed.stores if entry.get("datastore") in (store.name, store.label) and store.hosts
        ]
        if not stores:
            continue
        esxi = testbed.hosts[stores[0].hosts[0]].platform == "esxi"
        extra = entry.get("esxi") or {}
        if "disk_size" not in entry and not extra.get("disks") and stores[0].entry.get("type") != "rdm":
            problems.append(
                Problem(
                    f"{variable}.disk_size",
                    None,
                    "is not set",
                    "write the size of the disk that is measured, such as 48MiB",
                )
            )
        if "raw" in entry:
            problems += _raw(testbed, f"{variable}.raw", index, entry["raw"])
        if "memory" not in entry and not ("template" in extra or "ova" in extra):
            problems.append(Problem(f"{variable}.memory", None, "is not set", "write its memory, such as 320MiB"))
        if not esxi and not testbed.embedded:
            if "image" not in entry:
                problems.append(
                    Problem(
                        f"{variable}.image",
                        None,
                        "is not set",
                        "name the disk image with its system, on the host that runs it",
                    )
                )
            if not entry.get("taps"):
                problems.append(
                    Problem(f"{variable}.taps", None, "is not set", "name a tap interface for its network card")
                )
            guest = entry.get("host", entry["name"])
            if not entry.get("address") and not addresses_of(lab["hosts"].get(guest, {})):
                problems.append(
                    Problem(
                        f"ansible_host of {guest}", None, "is not set", "give the address at which the guest answers"
                    )
                )
    return problems


def _nbd(testbed: Testbed) -> list[Problem]:
    """What asks for TLS must not be overlooked because nothing is served."""
    guests = [guest for host in testbed.hosts.values() for guest in mappings(host.variables.get("guest_vm_guests"))]
    disks = [guest.get(key) or {} for guest in guests for key in ("data_disk", "raw_disk")]
    if testbed.description.get("nbd") != "tls" or any(disk.get("transport") == "nbd" for disk in disks):
        return []
    return [Problem("testbed.nbd", shown("tls"), "but no guest has a disk over NBD here", "leave it out")]


def _raw(testbed: Testbed, variable: str, index: int, name: str) -> list[Problem]:
    """What a guest has whole is nobody else's."""
    store = next(
        (store for store in testbed.stores if store.disk and name in (store.disk.name, store.disk.entry["name"])), None
    )
    if store:
        return [Problem(variable, shown(name), f"which carries the datastore {store.name}", "name a disk of its own")]
    other = next((guest["name"] for guest in testbed.description["guests"][:index] if guest.get("raw") == name), None)
    return [Problem(variable, shown(name), f"which {other} has", "name a disk of its own")] if other else []


def _doubled_machine(_lab: Lab, testbed: Testbed) -> Iterator[Problem]:
    guests = [
        (host, guest) for host in testbed.hosts.values() for guest in mappings(host.variables.get("guest_vm_guests"))
    ]
    for inventory_name, names in shared((guest.get("host"), str(guest.get("name"))) for _host, guest in guests):
        if len(set(names)) > 1:
            yield Problem(
                f"host of the guests {' and '.join(names)}",
                shown(inventory_name),
                "one inventory name for several machines",
                "name another host of the group guests for each in testbed.guests",
            )
    machines = [((host.name, same_case(host, guest.get("name"))), str(guest.get("name"))) for host, guest in guests]
    for (runs, _name), names in shared(machines):
        if len(set(names)) > 1:
            yield Problem(
                "testbed.guests",
                f"a list with {' and '.join(names)}",
                f"which {runs} does not distinguish",
                "give each a name that differs in more than capitals",
            )


def _guests_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes = []
    for host, was, now in each(before, after, "guest_vm_guests"):
        word = word_of(testbed, host, "guest_vm_guests", "testbed.guests")
        was, now = _with_disk(was), _with_disk(now)
        changes += entries_kept(
            word, "guest", was, now, ("host", "disk datastore_layer", "disk host", "disk size_mib", "raw LUN"), host
        )
    return changes


def _with_disk(guests: Any) -> list[dict[str, Any]]:
    """The guests with what their disks are, one level deep."""
    return [
        {
            **guest,
            **{f"disk {key}": value for key, value in (guest.get("data_disk") or {}).items()},
            "raw LUN": (guest.get("raw_disk") or {}).get("layer", "none"),
        }
        for guest in mappings(guests)
    ]


def _virtualisation(_testbed: Testbed, host: Host, probe: Probe) -> list[Any]:
    if GuestVm.name not in host.stages or not host.variables["guest_vm_guests"]:
        return []
    # Without it guests are emulated: slow, and told so in their layer, but nothing fails.
    text = "/dev/kvm is there" if probe["kvm"] else "no /dev/kvm: guests are going to be emulated"
    return [line(host.name, "virtualisation", True, text)]


def _room(testbed: Testbed, host: Host, about: Probe) -> list[Finding]:
    return [
        line(host.name, *entry) for entry in esxi_room.findings(testbed, host.name, about.get("room", esxi_room.Room()))
    ]
