# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device it is, by each kind of name that ESXi hosts give, and whether I/O is possible. Shapes as those of ESX 4 to ESXi 8 are."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.names import designator_of, device_name
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import (
    adapter,
    adapter_plan,
    counters_result,
    datastore,
    datastore_plan,
    fingerprint,
    scsi,
)

NAA, EUI = "naa.600140511223344", "eui.0e86c0a74d88faf1"
T10 = "t10.NVMe____Virtual_Disk________________DISK_0001____00000007"
IQN = "iqn.2026-11.test:scsi"


@pytest.mark.parametrize(
    ("name", "designator"),
    [(NAA, "600140511223344"), (EUI, EUI), (T10, T10), ("mpx.vmhba1:C0:T0:L0", None), ("vml.0100", None), ("", None)],
)
def test_what_of_a_name_proves_the_device(name, designator):
    assert designator_of(name) == designator
    if designator:
        assert device_name(designator) == name


@pytest.mark.parametrize(
    ("words", "works", "degraded"),
    [
        (["ok"], True, False),
        (["degraded"], True, True),
        (["ok", "degraded"], True, True),
        (["degraded", "ok"], True, True),
        (["off"], False, False),
        (["lostCommunication", "degraded"], False, False),
        (["timeout"], False, False),
        (["quiesced"], False, False),
        (["error", "ok"], False, False),
        ([], False, False),
        (None, False, False),
    ],
)
def test_the_first_word_says_whether_it_works(words, works, degraded):
    state = scsi.state_of(SimpleNamespace(operationalState=words))
    assert (scsi.works(state), scsi.degraded(state)) == (works, degraded)


def lun(name: str, *others: str, state: str = "ok", serial: str = "sn-9") -> dict:
    device = SimpleNamespace(canonicalName=name, descriptor=[SimpleNamespace(id=other) for other in others])
    return {
        "iqn": IQN,
        "lun": 4,
        "name": name,
        "naa": designator_of(name),
        "designators": scsi.designators(device),
        "serial": serial,
        "size_bytes": 5 << 20,
        "state": state,
        "ways": {"active": 1, "dead": 2},
    }


def target(**expected) -> list:
    return [{"iqn": IQN, "luns": [{"lun": 4, "name": "x", **expected}]}]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (lun(EUI, T10), {"naa": EUI}),
        (lun(EUI, T10), {"naa": EUI.replace("a", "A")}),
        (lun(T10), {"naa": T10}),
        (lun(NAA), {"naa": NAA}),
        # The host names it by one, and knows the other.
        (lun(EUI, NAA), {"naa": "600140511223344", "serial": "in the array's words"}),
        # None of the kind that is expected: the serial is what proves it.
        (lun(EUI, T10), {"naa": "600140511223344", "serial": "SN-9"}),
        (lun("mpx.vmhba1:C0:T0:L0"), {"naa": "600140511223344", "serial": "SN-9"}),
    ],
)
def test_a_lun_is_proven_by_any_name_that_the_host_knows(shown, expected):
    assert adapter.prove(target(**expected), [shown])[IQN, 4] is shown


@pytest.mark.parametrize(
    ("shown", "expected", "code"),
    [
        (lun(EUI), {"naa": "eui.0e86c0a74d88faf2"}, "wrong_naa"),
        (lun(EUI, NAA), {"naa": "600140511223345"}, "wrong_naa"),
        (lun(T10), {"naa": T10[:-1] + "8"}, "wrong_naa"),
        (lun(EUI), {"naa": "600140511223344", "serial": "sn-8"}, "wrong_serial"),
    ],
)
def test_another_device_is_refused(shown, expected, code):
    with pytest.raises(Failure) as caught:
        adapter.prove(target(**expected), [shown])
    assert caught.value.code == code


@pytest.mark.parametrize("state", ["degraded", "ok,degraded"])
def test_a_degraded_lun_is_there(state):
    assert adapter_plan.missing([lun(NAA, state=state)], target()) == []
    assert adapter_plan.missing([lun(NAA, state="lostCommunication")], target()) == [(IQN, 4)]


DISK = {"device": f"/vmfs/devices/disks/{EUI}", "size_bytes": 9 << 30, "available": True, "partitions": [], "unresolved": None}  # fmt: skip
ENTRY = {"name": "ds7", "type": "vmfs", "layer": "initiator-x", "version": 6}


def wanted(naa: str, allow_device: tuple = ()) -> dict:
    """Of a LUN that this testbed's own target exports."""
    place = {"target_iqn": IQN, "lun": 4}
    layers = {
        "initiator-x": {"identity": {"naa": naa, **place}, "parent": "target-x"},
        "target-x": {"identity": place, "kind": "target"},
    }
    return datastore.check(ENTRY, layers, "v", "mine", "present", allow_device=allow_device)


@pytest.mark.parametrize("naa", [EUI, T10, "600140511223344"])
@pytest.mark.parametrize("state", ["ok", "degraded", "ok,degraded"])
def test_a_datastore_takes_a_lun_by_each_name_and_with_paths_down(naa, state):
    steps = datastore_plan.plan(
        {"volumes": [], "disks": {naa: {**DISK, "state": state}}}, wanted(naa), lambda _name: None, {}
    )
    assert [(step["op"], step["will"]) for step in steps] == [("create_vmfs", f"VMFS 6 on {naa}")]


@pytest.mark.parametrize(("naa", "name"), [(EUI, EUI), ("600140511223344", NAA)])
def test_the_remedy_names_the_device_as_the_variable_takes_it(naa, name):
    state = {"volumes": [], "disks": {naa: {**DISK, "state": "ok", "partitions": ["1 linux"]}}}
    with pytest.raises(Failure) as caught:
        datastore_plan.plan(state, wanted(naa), lambda _name: None, {})
    assert f"datastore_allow_device: [{name}]" in str(caught.value)
    assert datastore_plan.plan(state, wanted(naa, (name,)), lambda _name: None, {})


def test_paths_are_counted_by_their_state():
    unit = SimpleNamespace(
        path=[SimpleNamespace(state=state, pathState="active") for state in ("dead", "standby", "dead", None)]
    )
    assert scsi.ways(unit) == {"active": 1, "dead": 2, "standby": 1}
    assert (scsi.ways(None), scsi.ways_text({}), scsi.ways_text({"dead": 2})) == ({}, "paths: unknown", "paths: 2 dead")


def test_the_fingerprint_says_which_devices_are_degraded_and_so_do_the_flags():
    device = {"key": "k", "vStorageSupport": None, "queueDepth": 7}
    names = {"naa.6a": ["degraded"], "naa.6b": ["ok"]}
    info = SimpleNamespace(
        scsiLun=[
            SimpleNamespace(canonicalName=name, operationalState=words, **device) for name, words in names.items()
        ],
    )
    host = SimpleNamespace(configManager=SimpleNamespace(storageSystem=SimpleNamespace(storageDeviceInfo=info)))
    values = {"storageDeviceInfo.scsiLun": info.scsiLun}
    session = SimpleNamespace(
        doing=lambda _what: contextlib.nullcontext(),
        properties=lambda _storage, *names: {n: values[n] for n in names if n in values},
    )
    luns = fingerprint._luns(session, host)
    assert luns == {"naa.6a": {"degraded": True, "queue_depth": 7}, "naa.6b": {"queue_depth": 7}}
    samples = {
        "settings": {"luns": luns},
        "host_samples": {"columns": []},
        "names": {"adapters": {"naa.6a": [], "naa.6b": []}},
    }
    assert counters_result.paths_flags(samples, {"naa": "6a"}) == ["paths_degraded"]
    assert counters_result.paths_flags(samples, {"naa": "6b"}) == []
    assert counters_result.paths_flags({**samples, "settings": {}}, {"naa": "6a"}) == []
