# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input for Windows hosts, against the stand-in: one sentence that names the variable, the value and the remedy, and no host is changed."""

# A fixture of another file is used by its name.
# ruff: noqa: F811

from __future__ import annotations

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import (
    benchmark_observer,
    storage_baseline,
    win_datastore,
    win_iscsi_session,
    win_iscsi_target,
    win_ramdisk,
    win_target_server,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import ntfs
from test_windows_actions import CLIENT, PORTAL, bench, built, code  # noqa: F401


@pytest.fixture
def refused(built):
    """refused(host, module, **arguments) -> what it says. That nothing was changed is looked at wherever an action answers."""

    def run(host: str, module, **arguments) -> str:
        result = built.run(host, module, **arguments)
        assert code(result) == "bad_value", result
        return result["msg"]

    return run


def lun(**change) -> list:
    return [{"lun": 2, "name": "bench", "layer": "backing-bench", **change}]


def target(built, **change) -> dict:
    return {"targets": [{**built.targets[0], **change}], "layers": built.layers}


def session(built, **change) -> dict:
    return {"targets": [{**built.sessions[0], **change}], "layers": built.layers, "initiator_name": CLIENT, "wait_s": 0}


def datastore(built, **change) -> dict:
    return {"datastores": [{**built.datastores[0], **change}], "layers": built.layers}


def vhdx(**change) -> list:
    return [{"lun": 3, "name": "v", "vhdx": {"path": "C:\\lab\\v.vhdx", "size_mib": 5, **change}}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"luns": lun(lun=256)}, "lun bench is 256. Use a number from 0 to 255"),
        ({"luns": lun(lun=-1)}, "lun bench is -1. Use a number from 0 to 255"),
        ({"portals": [{**PORTAL, "port": 65536}]}, "portal port is 65536. Use a TCP port from 1 to 65535"),
        ({"portals": [{**PORTAL, "port": 0}]}, "portal port is 0. Use a TCP port from 1 to 65535"),
        ({"luns": vhdx(size_mib=(64 << 20) + 1)}, "vhdx size_mib is 67108865. Use at most 67108864 (64 TiB)."),
        ({"luns": vhdx(size_mib=2)}, "vhdx size_mib is 2. Use at least 3."),
        ({"luns": vhdx(path="Q:\\v.vhdx")}, "vhdx path is 'Q:\\\\v.vhdx'. Use a volume of this host; it has C:."),
        (
            {"luns": vhdx(size_mib=65000, allocation="fixed")},
            "vhdx size_mib is 65000. Volume C: has 64512 MiB in all; make the file smaller, or dynamic.",
        ),
        (
            {"initiators": [{"iqn": CLIENT, "chap_user": "u", "chap_password": "too-short"}]},
            "chap_password is '9 characters long'. Use a secret of 12 to 16",
        ),
    ],
    ids=str,
)
def test_targets(refused, built, change, says):
    assert says in refused("server", win_iscsi_target, **target(built, **change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"luns": [{"lun": 256, "name": "bench"}]}, "lun bench is 256. Use a number from 0 to 255"),
        ({"portal": {**PORTAL, "port": -1}}, "portal port is -1. Use a TCP port"),
        ({"luns": [{"lun": 2, "name": "bench"}, {"lun": 2, "name": "other"}]}, "luns is 2. Listed twice"),
        (
            {"luns": [{"lun": 2, "name": "bench"}, {"lun": 4, "name": "bench"}]},
            "lun name is 'bench'. Listed twice",
        ),
        ({"luns": [{"lun": 2, "name": "größe 1"}]}, "lun name is 'größe 1'. Use at most 32 letters"),
        ({"chap_password": "x" * 20}, "chap_password is '20 characters long'. Use a secret of 12 to 16"),
    ],
    ids=str,
)
def test_sessions(refused, built, change, says):
    assert says in refused("client", win_iscsi_session, **session(built, **change))


def test_luns_of_two_sessions_have_different_names(refused, built):
    other = {**built.sessions[0], "iqn": "iqn.2026-11.test.storlab:two", "luns": [{"lun": 1, "name": "ds1"}]}
    says = refused("client", win_iscsi_session, **{**session(built), "targets": [built.sessions[0], other]})
    assert "lun name is 'ds1'. Listed twice" in says


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"benchmark_file_mib": -4}, "benchmark_file_mib is -4. Give 0 for none, or a size."),
        ({"mount_point": "U:"}, "mount_point is 'U:'. It is mounted as T:; tear it down before you change that."),
    ],
    ids=str,
)
def test_datastores(refused, built, change, says):
    assert says in refused("client", win_datastore, **datastore(built, **change))


@pytest.mark.parametrize(
    ("disks", "says"),
    [
        # One file name on Windows.
        (
            [{"name": "Bench", "size_mib": 70}, {"name": "bench", "size_mib": 71}],
            "ramdisk_disks name is 'Bench'. Listed twice",
        ),
        ([{"name": "all", "size_mib": 10**15}], "ramdisk_disks all size_mib is 1000000000000000. Use at most 67108864"),
    ],
    ids=str,
)
def test_ram_disks(refused, disks, says):
    assert says in refused("server", win_ramdisk, disks=disks)


@pytest.mark.parametrize("ports", [[0], [3260, 70000]])
def test_ports_of_the_firewall(refused, ports):
    assert "Use a TCP port" in refused("server", win_target_server, ports=ports, networks=["192.0.2.0/24"])


@pytest.mark.parametrize("module", [win_ramdisk, win_iscsi_target, win_target_server])
def test_a_folder_for_the_state_is_needed(refused, module):
    assert refused("server", module, state_dir="").startswith("state_dir is ''. Name a folder on the controller")


@pytest.mark.parametrize(
    ("module", "arguments", "says"),
    [
        (
            win_ramdisk,
            {"disks": [{"name": "x", "size_gb": 5}]},
            "storlab.testbed.win_ramdisk: missing required arguments: size_mib found in disks; "
            "unsupported disks.size_gb. Supported parameters include: model, name, purpose, size_mib.",
        ),
        (
            win_iscsi_target,
            {"state": "gone"},
            "storlab.testbed.win_iscsi_target: value of state must be one of: present, absent, got: gone.",
        ),
    ],
    ids=["typo", "choice"],
)
def test_mistyped_arguments_are_named(refused, module, arguments, says):
    assert refused("server", module, **arguments) == says + " Correct the arguments."


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (storage_baseline, {"state": "captured"}),
        (storage_baseline, {"state": "verified"}),
        (benchmark_observer, {"state": "started", "run_id": "r", "results_dir": "/nowhere"}),
        (benchmark_observer, {"state": "stopped"}),
    ],
    ids=["build", "verify_clean", "benchmark", "benchmark ends"],
)
def test_windows_host_that_the_inventory_does_not_call_one(bench, module, arguments):
    folder = {"state_dir": str(bench.folder)} if module is storage_baseline else {}
    action = actions.make(module, {"testbed_id": "t1", **folder, **arguments}, windows=True)
    failed = actions.answer(action, {"inventory_hostname": "win07"}, bench.folder)
    assert (code(failed), failed["msg"]) == (
        "windows_unmarked",
        "win07 is reached as a Windows host, and its inventory does not say so. Set testbed_windows to true for it.",
    )


def test_a_datastore_without_a_benchmark_file_is_a_layer_that_is_not_measured():
    bare = {
        "name": "ds4",
        "letter": "T",
        "label": "storlab-77aa",
        "layer": "initiator-ds4",
        "benchmark_bytes": 0,
        "expected": {"path": "\\\\.\\PhysicalDrive6"},
    }
    [layer] = ntfs.layers_of([bare])
    assert (layer["name"], layer["parent"]) == ("datastore-ds4", "initiator-ds4")
    assert (layer["path"], layer["purpose"], layer["size_bytes"]) == (None, "data", None)
