# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a testbed becomes the variables of the roles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, doctor, drawing, emulated, expand
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import guest_vm
from chain_lab import EMBEDDED, ESXI, ROLES, SECRETS, TWO_LINUX, expanded, lab_of
from places import ROOT

FIXTURES = Path(__file__).parents[1] / "fixtures" / "chain"


NFS = TWO_LINUX.replace("benchmark_file: 512MiB}", "benchmark_file: 512MiB, benchmark_files: 3}, {nfs: ds1}").replace(
    "client01: {ansible_host: 192.0.2.21}",
    "client01: {ansible_host: 192.0.2.21}\n  client02: {ansible_host: 192.0.2.22}",
)


def test_a_datastore_over_nfs_is_mounted_on_the_target_and_exported_to_the_clients_alone():
    lab = expanded(NFS)
    target, first, second = (lab.hosts[name] for name in ("store01", "client01", "client02"))
    assert target.variables["nfs_export_exports"] == [
        {"name": "ds1-nfs", "layer": "datastore-ds1", "clients": ["192.0.2.21", "192.0.2.22"]}
    ]
    assert (target.variables["nfs_export_addresses"], target.variables["nfs_export_versions"]) == (
        ["192.0.2.11"],
        ["4.2"],
    )
    below = target.variables["datastore_datastores"]
    assert [(store["name"], store["layer"]) for store in below] == [("ds1", "backing-ds1")]
    # Nobody logs in to a disk that is mounted on the target.
    exported = target.variables["iscsi_target_targets"]
    assert [lun["name"] for export in exported for lun in export["luns"]] == ["bench"]
    assert first.variables["datastore_datastores"] == [
        {
            "name": "ds1-nfs",
            "layer": "target-ds1-nfs",
            "filesystem": "nfs",
            "mount_point": "/srv/storlab/ds1-nfs",
            "server": "192.0.2.11",
            "export": "/srv/storlab/ds1",
            "nfs_version": "4.2",
            "benchmark_file_mib": 512,
            "benchmark_files": 3,
        }
    ]
    assert target.stages.index("datastore") < target.stages.index("nfs_export") and "nfs_export" not in first.stages
    assert first.depends_on == ["store01"]
    layers = {layer["name"]: (layer["host"], layer["parent"]) for layer in lab.layers}
    assert layers["target-ds1-nfs"] == ("store01", "datastore-ds1")
    assert layers["datastore-ds1-nfs"] == ("client01", "target-ds1-nfs")
    assert layers["datastore-ds1-nfs-client02"] == ("client02", "target-ds1-nfs")
    assert second.variables["datastore_layer_suffix"] == "-client02"


def test_nconnect_goes_to_the_mounts_of_the_clients_alone():
    lab = expanded(NFS.replace("{nfs: ds1}", "{nfs: ds1, nconnect: 4}"))
    stores = {
        name: host.variables["datastore_datastores"] for name, host in lab.hosts.items() if "datastore" in host.stages
    }
    assert [store["nconnect"] for name in ("client01", "client02") for store in stores[name]] == [4, 4]
    assert "nconnect" not in stores["store01"][0]
    assert (
        lab.hosts["store01"].variables["nfs_export_exports"]
        == expanded(NFS).hosts["store01"].variables["nfs_export_exports"]
    )


def test_a_testbed_without_nfs_has_nothing_of_it():
    lab = expanded(TWO_LINUX)
    assert lab.hosts["store01"].variables["nfs_export_exports"] == []
    assert "nfs_export" not in lab.hosts["store01"].stages
    # One that was built before is still taken down.
    share = {
        "name": "datastore-ds1-nfs",
        "kind": "datastore",
        "host": "client01",
        "purpose": "scratch",
        "provider": "nfs",
    }
    assert "nfs_export" in expanded(TWO_LINUX, published={"client01": [share]}).hosts["store01"].stages


def test_the_check_of_the_hosts_asks_for_what_nfs_needs():
    lab = expanded(NFS.replace("{nfs: ds1}", "{nfs: ds1, nfs_version: '3'}"))
    target, client = doctor.needs(lab, "store01"), doctor.needs(lab, "client01")
    assert {"exportfs", "rpc.nfsd", "rpc.mountd", "rpcbind", "mkfs.ext4"} <= set(target["commands"])
    assert "nfsd" in target["modules"]
    assert "mount.nfs" in client["commands"] and "mkfs.ext4" not in client["commands"]
    assert "rpcbind" not in doctor.needs(expanded(NFS), "store01")["commands"]


def test_a_guest_of_the_embedded_lab_that_nobody_describes_is_not_measured():
    own = "\n  embedded_lab_dir: /l\n  embedded_lab_image_dir: /i\n  embedded_lab_netns: n1"
    text = TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab{own}") + "guests: {g1: }\n"
    lab = expanded(f"{text}embedded_controllers: {{controller01: }}\n")
    assert "benchmark" not in lab.hosts["g1"].stages and "benchmark" in lab.hosts["client01"].stages
    # Elsewhere it may be there all the same.
    assert "benchmark" in expanded(text.replace(own, "")).hosts["g1"].stages


def test_the_embedded_testbed_is_what_release_0_3_0_made():
    """The fixture was written by the playbooks of 0.3.0: what each role was given on each host."""
    before = json.loads((FIXTURES / "embedded_0_3_0.json").read_text(encoding="utf-8"))
    page = yaml.safe_load(
        (Path(__file__).parents[3] / "inventories/embedded/group_vars/all.yml").read_text(encoding="utf-8")
    )
    own = {
        name: value for name, value in page.items() if name in ("testbed", "testbed_id") or name.startswith("benchmark")
    }
    own |= {"testbed_state_dir": "{root}/.cache/testbeds/embedded", "testbed_results_dir": "{root}/results"}
    own |= {
        "embedded_lab_dir": "{root}/.cache/lab/embedded",
        "embedded_lab_image_dir": "{root}/.cache/images",
        "embedded_lab_netns": "{netns}",
    }
    names = {
        "targets": "target01",
        "hypervisors": "hypervisor01",
        "guests": "guest01",
        "embedded_controllers": "controller01",
    }
    lab = lab_of(
        "{}",
        groups={group: [name] for group, name in names.items()},
        hosts={name: dict(own) for name in names.values()},
    )
    assert [problem.sentence() for problem in check.check(lab, expand.expand(lab))] == []
    # As the fixture has them.
    lab["secrets"] = {"chap": "{chap}", "mutual_chap": "{mutual_chap}"}
    testbed = expand.expand(lab)
    compared = 0
    for host, variables in before.items():
        now = {
            **{name: own[name] for name in own if name.startswith(("benchmark", "embedded_lab"))},
            **testbed.hosts[host].variables,
        }
        for name, value in variables.items():
            if name.endswith(("_testbed_id", "_state_dir", "_results_dir")):
                expected = {
                    "_testbed_id": testbed.testbed_id,
                    "_state_dir": testbed.state_dir,
                    "_results_dir": testbed.results_dir,
                }
                assert value == next(expected[end] for end in expected if name.endswith(end))
            elif name == "benchmark_engine":
                assert now.get(name, ROLES["benchmark"][name]["default"]) == value
            elif name in ("benchmark_repetitions", "benchmark_workloads"):
                continue  # the inventory says itself how long it is measured, which may change
            elif name == "embedded_lab_machines":
                # A tap of this name was shortened by hand, which would have made two of hypervisor01 and hypervisor02 one.
                assert value[1].pop("tap") == "tap-hypervisor" and now[name][1].pop("tap") == "tap-hyperv-or01"
                assert now[name] == value
            elif name == "guest_vm_guests":
                # Kernels of busy machines panicked without it.
                boot = value[0]["boot"]
                boot["append"] = boot["append"].replace("trust_cpu=on ", "trust_cpu=on no_timer_check ")
                assert now[name] == value
            else:
                assert now[name] == value, (host, name)
            compared += 1
    assert compared > 50


def test_all_machines_of_the_embedded_lab_start_with_the_same_options():
    role = (ROOT / "roles/embedded_lab/tasks/present.yml").read_text(encoding="utf-8")
    assert f"append: >-\n      {guest_vm.KERNEL_OPTIONS}\n" in role
    [guest] = expanded(EMBEDDED).hosts["c1"].variables["guest_vm_guests"]
    assert guest["boot"]["append"].startswith(f"{guest_vm.KERNEL_OPTIONS} storlab.hostname=g1 ")


def test_layers_of_two_linux_hosts():
    testbed = expanded(TWO_LINUX)
    assert [(layer["name"], layer["host"], layer["parent"]) for layer in testbed.layers] == [
        ("backing-bench", "store01", None),
        ("backing-ds1", "store01", None),
        ("target-bench", "store01", "backing-bench"),
        ("target-ds1", "store01", "backing-ds1"),
        ("initiator-bench", "client01", "target-bench"),
        ("initiator-ds1", "client01", "target-ds1"),
        ("datastore-ds1", "client01", "initiator-ds1"),
    ]
    assert testbed.hosts["client01"].depends_on == ["store01"] and testbed.hosts["store01"].depends_on == []
    assert testbed.state_dir == "/labs/lab-testbed/state"


def test_a_device_of_the_users_is_never_scratch_unless_he_says_so():
    text = TWO_LINUX.replace(
        "{name: bench, size: 1GiB}", "{name: bench, kind: device, path: /dev/sdb, naa: 6001, PURPOSE}"
    )
    for said, purpose in ((", PURPOSE", "data"), ("PURPOSE", "scratch")):
        testbed = expanded(text.replace(said, "" if purpose == "data" else "purpose: scratch"))
        assert {layer["purpose"] for layer in testbed.layers if layer["name"].endswith("-bench")} == {purpose}
        [lun] = [
            lun
            for lun in testbed.hosts["store01"].variables["iscsi_target_targets"][0]["luns"]
            if lun["name"] == "bench"
        ]
        assert lun == {"lun": 0, "name": "bench", "device": "/dev/sdb", "naa": "6001", "purpose": purpose}


def test_what_the_inventory_sets_wins_and_what_follows_is_derived_from_it():
    text = TWO_LINUX.replace(
        "192.0.2.11}",
        """192.0.2.11, iscsi_target_targets: [{name: 'iqn.2026-11.test.mine:t', portals: [{address: 192.0.2.11, port: 3299}],
    luns: [{lun: 7, name: bench, layer: backing-bench, purpose: scratch}],
    initiators: [{iqn: 'iqn.2026-11.test.storlab:lab:client01', chap_user: me, chap_password: a-secret-of-mine}]}]}""",
    )
    host = expanded(text).hosts["client01"]
    assert host.variables["iscsi_initiator_targets"] == [
        {
            "iqn": "iqn.2026-11.test.mine:t",
            "portal": {"address": "192.0.2.11", "port": 3299},
            "chap_user": "me",
            "chap_password": "a-secret-of-mine",
            "luns": [
                {"lun": 7, "name": "bench", "layer_kind": "initiator", "parent": "target-bench", "purpose": "scratch"}
            ],
        }
    ]
    assert expanded(text).hosts["store01"].because["iscsi_target_targets"] == "set in the inventory"


def test_many_hosts_on_many_targets_are_loops():
    text = """
all:
  testbed_id: many
  testbed:
    disks: [{name: b, size: 1GiB}, {name: d, size: 2GiB, targets: t2, to: [c1]}]
    datastores: [{disk: d}]
targets: {t1: {ansible_host: 192.0.2.1}, t2: {testbed_address: [192.0.2.2, '192.0.3.2:3261']}}
clients: {c1: , c2: , c3: }
"""
    testbed = expanded(text)
    assert [disk["name"] for disk in testbed.hosts["t2"].variables["ramdisk_disks"]] == ["b-t2", "d"]
    assert [disk["name"] for disk in testbed.hosts["t1"].variables["ramdisk_disks"]] == ["b-t1"]
    portals = testbed.hosts["t2"].variables["iscsi_target_targets"][0]["portals"]
    assert portals == [{"address": "192.0.2.2", "port": 3260}, {"address": "192.0.3.2", "port": 3261}]
    seen = {
        name: [
            lun["name"]
            for session in testbed.hosts[name].variables["iscsi_initiator_targets"]
            for lun in session["luns"]
        ]
        for name in ("c1", "c2", "c3")
    }
    assert seen == {"c1": ["b-t1", "b-t2", "d"], "c2": ["b-t1", "b-t2"], "c3": ["b-t1", "b-t2"]}
    suffixes = [testbed.hosts[name].variables["iscsi_initiator_layer_suffix"] for name in ("c1", "c2", "c3")]
    assert suffixes == ["", "-c2", "-c3"]
    names = [layer["name"] for layer in testbed.layers]
    assert len(names) == len(set(names)) and "initiator-b-t1-c3" in names
    assert testbed.hosts["c2"].depends_on == ["t1", "t2"]


def test_tgt_numbers_from_one_and_shows_everyone_the_same():
    """LUN 0 is its own controller; a login of the target itself would see the datastore's LUN, too."""
    testbed = expanded(TWO_LINUX.replace("192.0.2.11}", "192.0.2.11, iscsi_target_provider: tgt}"))
    (export,) = testbed.hosts["store01"].variables["iscsi_target_targets"]
    assert [(lun["name"], lun["lun"]) for lun in export["luns"]] == [("bench", 1), ("ds1", 2)]
    assert [(one["iqn"].rsplit(":", 1)[1], one["luns"]) for one in export["initiators"]] == [("client01", [1, 2])]
    assert testbed.hosts["store01"].variables["iscsi_initiator_targets"] == []


def test_esxi_hosts_see_what_carries_a_datastore():
    testbed = expanded(ESXI)
    first, second = testbed.hosts["esxi01"].variables, testbed.hosts["esxi02"].variables
    assert [[lun["name"] for lun in session["luns"]] for session in first["iscsi_initiator_targets"]] == [["ds1"]]
    assert "layer_kind" not in first["iscsi_initiator_targets"][0]["luns"][0]
    assert first["datastore_datastores"] == [{"name": "lab-ds1", "layer": "initiator-ds1", "version": 6}]
    assert second["datastore_datastores"] == [{"name": "lab-ds1", "layer": "initiator-ds1-esxi02", "version": 6}]
    assert (first["datastore_layer_suffix"], second["datastore_layer_suffix"]) == ("", "-esxi02")
    loopback = testbed.hosts["target01"].variables["iscsi_initiator_targets"][0]["luns"]
    assert [lun["name"] for lun in loopback] == ["bench"]
    assert first["guest_vm_guests"] == [
        {
            "name": "guest01",
            "host": "guest01",
            "address": "guest01.lab.example",
            "vcpus": 4,
            "memory_mib": 8192,
            "esxi": {
                "datastore": "local1",
                "datastore_layer": "datastore-lab-ds1",
                "disks": [
                    {
                        "name": "data",
                        "datastore": "lab-ds1",
                        "size_mib": 2048,
                        "controller": "pvscsi",
                        "provisioning": "eager",
                    }
                ],
                "wait_for_address": True,
                "find_disk": True,
                "template": "win",
            },
        }
    ]
    assert testbed.groups["guest_hosts"] == ["esxi01"]
    assert testbed.hosts["guest01"].variables["benchmark_platform"] == "windows"


def test_an_esxi_host_takes_part_in_a_benchmark_without_measuring():
    """The role keeps after each round what such a host counted, so the playbook must run it there."""
    testbed = expanded(ESXI)
    measuring = testbed.hosts[testbed.targets[0]].variables
    for name in ("esxi01", "esxi02"):
        host = testbed.hosts[name]
        values = {key: value for key, value in host.variables.items() if key.startswith("benchmark_")}
        assert "benchmark" in host.stages and values["benchmark_platform"] == "esxi"
        assert (values["benchmark_ceiling"], values["benchmark_networks"]) == (False, [])
        # The role asks for all of them, whatever it does with them.
        assert set(values) == {key for key in measuring if key.startswith("benchmark_")}


def test_windows_target_has_one_target_per_set_of_disks():
    text = """
all:
  testbed_id: win
  testbed:
    disks:
      - {name: own, size: 1GiB, to: [], loopback: true}
      - {name: raid, kind: vhdx, path: 'E:\\r.vhdx', size: 2GiB, to: esxi01}
      - {name: ds1, size: 2GiB, to: esxi01}
      - {name: raw, size: 3GiB, to: client01}
    datastores: [{disk: ds1}, {disk: raid}]
targets: {win01: {testbed_address: 192.0.2.11, ansible_connection: psrp}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}}
clients: {client01: {testbed_windows: true}}
"""
    testbed = expanded(text)
    server = testbed.hosts["win01"].variables
    assert server["ramdisk_provider"] == "iscsi_target" and server["iscsi_target_provider"] == "windows"
    assert server["ramdisk_windows_loopback"] is True and server["benchmark_ceiling"] is False
    shown = {
        target["name"].rpartition(":")[2]: [lun["name"] for lun in target["luns"]]
        for target in server["iscsi_target_targets"]
    }
    assert shown == {"win01": ["raid", "ds1"], "win01-2": ["raw"], "win01-loopback": ["own"]}
    assert "mutual_chap_user" in server["iscsi_target_targets"][0]["initiators"][0]
    assert "mutual_chap_user" not in server["iscsi_target_targets"][1]["initiators"][0]
    assert all("luns" not in target["initiators"][0] for target in server["iscsi_target_targets"])
    client = testbed.hosts["client01"].variables
    assert client["iscsi_initiator_name"] == "iqn.1991-05.com.microsoft:client01"
    assert client["iscsi_initiator_targets"][0]["iqn"].endswith(":win01-2")


def test_one_host_alone_exports_nothing_and_measures_the_file_system_on_its_own_disk():
    testbed = expanded("""
all:
  testbed_id: local
  testbed:
    disks: [{name: raw, size: 1GiB}, {name: fs, size: 2GiB}]
    datastores: [{disk: fs, benchmark_file: 1GiB}]
targets: {server01: }
""")
    host = testbed.hosts["server01"]
    assert host.variables["iscsi_target_targets"] == [] and host.variables["iscsi_initiator_targets"] == []
    assert host.variables["datastore_datastores"][0]["layer"] == "backing-fs"
    assert host.stages == ["ramdisk", "iscsi_target", "datastore", "benchmark"]


RAID_LAB = """
all:
  testbed_id: lab
  testbed:
    disks:
      - {name: bench, size: 1GiB}
      - name: slow
        kind: raid
        raid: {level: 10, chunk: 1MiB, bitmap: internal, members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]}
    datastores: [{disk: slow}]
targets: {store01: {ansible_host: 192.0.2.11}}
clients: {client01: {ansible_host: 192.0.2.21}}
"""


def test_raid_arrays_of_named_disks():
    testbed = expanded(RAID_LAB)
    host = testbed.hosts["store01"]
    assert host.variables["raid_arrays"] == [
        {
            "name": "slow",
            "level": 10,
            "members": [{"serial": "a1"}, {"serial": "a2"}, {"device": "/dev/sdd", "wwid": "a3"}, {"naa": "6001"}],
            "chunk_kib": 1024,
            "bitmap": "internal",
            "assume_clean": False,
            "resync": "wait",
            "purpose": "data",
        }
    ]
    # Like a RAM disk it is made empty, so without a datastore it is measured raw.
    raw = expanded(RAID_LAB.replace("datastores: [{disk: slow}]", "datastores: []")).hosts["store01"]
    assert raw.variables["raid_arrays"][0]["purpose"] == "scratch"
    assert [disk["name"] for disk in host.variables["ramdisk_disks"]] == ["bench"]
    assert host.stages[:3] == ["ramdisk", "raid", "iscsi_target"]
    assert {lun["name"]: lun["layer"] for lun in host.variables["iscsi_target_targets"][0]["luns"]} == {
        "bench": "backing-bench",
        "slow": "backing-slow",
    }
    assert "├─ backing-bench on store01: RAM disk, 1024 MiB, measured raw: overwritten" in drawing.draw(testbed)
    assert "└─ backing-slow on store01: RAID 10 of 4 disks in chunks of 1024 KiB" in drawing.draw(testbed)


def test_a_raid_array_that_is_no_longer_described_is_still_taken_down():
    layer = {"name": "backing-slow", "kind": "backing", "host": "store01", "purpose": "data"}
    for provider, expected in (("raid", True), ("brd", False)):
        testbed = expanded(TWO_LINUX, published={"store01": [{**layer, "provider": provider}]})
        assert ("raid" in testbed.hosts["store01"].stages) is expected
    assert testbed.hosts["store01"].variables["raid_arrays"] == []


def test_slow_disks_of_the_embedded_lab():
    name = "a-name-of-over-sixteen"
    testbed = expanded(f"""
all:
  testbed_id: emb
  embedded_lab_dir: /lab
  embedded_lab_netns: n1
  testbed:
    disks:
      - {{name: ten, kind: raid, raid: {{level: 10, emulated: {{count: 4, size: 48MiB, iops: 300}}}}}}
      - {{name: {name}, kind: raid, raid: {{level: 1, emulated: {{count: 2, size: 1GiB}}}}}}
targets: {{target01: }}
embedded_controllers: {{controller01: }}
""")
    [machine] = testbed.hosts["controller01"].variables["embedded_lab_machines"]
    assert machine["disks"][:4] == [{"serial": f"ten-{number}", "size_mib": 48, "iops": 300} for number in (1, 2, 3, 4)]
    # A virtio disk has 20 characters for its serial.
    serials = [disk["serial"] for disk in machine["disks"]]
    assert (
        max(map(len, serials)) <= 20 and len(set(serials)) == 6 and machine["disks"][4].keys() == {"serial", "size_mib"}
    )
    ten, other = testbed.hosts["target01"].variables["raid_arrays"]
    assert [member["serial"] for member in ten["members"] + other["members"]] == serials
    assert ten["emulated_delay"] == {"by": "QEMU", "iops": 300} and "emulated_delay" not in other


def test_a_cache_tier_of_named_disks():
    lab = RAID_LAB.replace("kind: raid", "kind: cache")
    cache = (
        "cache: {mode: writeback, cached: false, block: 1MiB, origin: {path: /dev/sdd, wwid: a3}, fast: {serial: a2}}"
    )
    lab = re.sub(r"raid: \{.*\}", cache, lab)
    testbed = expanded(lab)
    host = testbed.hosts["store01"]
    assert host.variables["cache_tier_caches"] == [
        {
            "name": "slow",
            "origin": {"device": "/dev/sdd", "wwid": "a3"},
            "fast": {"serial": "a2"},
            "provider": "dm_cache",
            "mode": "writeback",
            "cached": False,
            "block_kib": 1024,
            "purpose": "data",
        }
    ]
    assert host.stages[:3] == ["ramdisk", "cache_tier", "iscsi_target"] and host.variables["raid_arrays"] == []
    assert {lun["name"]: lun["layer"] for lun in host.variables["iscsi_target_targets"][0]["luns"]}[
        "slow"
    ] == "backing-slow"
    assert "└─ backing-slow on store01: the origin alone" in drawing.draw(testbed)
    bcache = lab.replace("mode: writeback, cached: false", "provider: bcache, mode: writearound")
    drawn = drawing.draw(expanded(bcache))
    assert "└─ backing-slow on store01: write-around cache in blocks of 1024 KiB by bcache" in drawn
    cached = drawing.draw(expanded(lab.replace("cached: false", "cached: true")))
    assert "└─ backing-slow on store01: write-back cache in blocks of 1024 KiB" in cached
    # One that is no longer described is still taken down, above the arrays that it may stand on.
    layers = [{"name": "a", "kind": "backing", "host": "store01", "purpose": "data", "provider": "cache_tier"}]
    layers.append({**layers[0], "name": "b", "provider": "raid"})
    stages = expanded(TWO_LINUX, published={"store01": layers}).hosts["store01"].stages
    assert stages[:4] == ["ramdisk", "raid", "cache_tier", "iscsi_target"]


def test_disks_of_a_cache_tier_of_the_embedded_lab():
    testbed = expanded("""
all:
  testbed_id: emb
  embedded_lab_dir: /lab
  embedded_lab_netns: n1
  testbed:
    disks:
      - {name: tier, kind: cache, cache: {origin: {emulated: {size: 96MiB, iops: 300, mib_s: 20}}, fast: {emulated: {size: 32MiB}}}}
targets: {target01: }
embedded_controllers: {controller01: }
""")
    [machine] = testbed.hosts["controller01"].variables["embedded_lab_machines"]
    assert machine["disks"] == [
        {"serial": "tier-slow", "size_mib": 96, "iops": 300, "mib_s": 20},
        {"serial": "tier-fast", "size_mib": 32},
    ]
    [cache] = testbed.hosts["target01"].variables["cache_tier_caches"]
    assert (cache["origin"], cache["fast"]) == ({"serial": "tier-slow"}, {"serial": "tier-fast"})
    assert cache["emulated_delay"] == {"by": "QEMU", "iops": 300, "mib_s": 20}


def test_guests_of_linux_hypervisors_lie_on_their_host():
    testbed = expanded("""
all:
  testbed_id: kvm
  testbed:
    disks: [{name: ds1, size: 4GiB}]
    datastores: [{disk: ds1}]
    guests:
      - {name: guest01, datastore: ds1, disk_size: 1GiB, memory: 2GiB, vcpus: 2, image: /srv/g.qcow2, image_format: qcow2, taps: [tap0]}
targets: {target01: {ansible_host: 192.0.2.11}}
hypervisors: {kvm01: }
guests: {guest01: {ansible_host: 192.0.2.31}}
""")
    variables = testbed.hosts["kvm01"].variables
    assert variables["guest_vm_provider"] == "qemu" and variables["guest_vm_run_dir"] == "/run/storlab/kvm/vm"
    guest = variables["guest_vm_guests"][0]
    assert guest["data_disk"] == {
        "datastore_layer": "datastore-ds1",
        "host": "kvm01",
        "directory": "/srv/storlab/ds1",
        "size_mib": 1024,
        "transport": "file",
    }
    assert (guest["address"], guest["memory_mib"], guest["nics"]) == ("192.0.2.31", 2048, [{"tap": "tap0"}])


def test_two_guests_of_one_embedded_host_get_ports_of_their_own():
    own = {"embedded_lab_dir": "/lab", "embedded_lab_netns": "netns1", "embedded_lab_image_dir": "/images"}
    testbed = expanded(f"""
all: {json.dumps(own)[:-1]}, testbed_id: two, testbed: {{disks: [{{name: ds1, size: 256MiB}}], datastores: [{{disk: ds1}}],
  guests: [{{name: g1, datastore: ds1, disk_size: 48MiB, memory: 320MiB}}, {{name: g2, datastore: ds1, disk_size: 40MiB, memory: 321MiB}}]}}}}
targets: {{t1: }}
hypervisors: {{h1: }}
guests: {{g1: , g2: }}
embedded_controllers: {{c1: }}
""")
    disks = [guest["data_disk"] for guest in testbed.hosts["c1"].variables["guest_vm_guests"]]
    assert [disk.get("port") for disk in disks] == [None, 10810]
    assert [port["address"] for port in testbed.hosts["c1"].variables["embedded_lab_ports"]] == [
        "10.213.0.13",
        "10.213.0.14",
    ]


@pytest.mark.parametrize(
    ("word", "secret"), [("", ""), ("nbd: plain,", ""), ("nbd: tls,", "letters-of-both-sides-of-nbd-0123")]
)
def test_the_disk_of_a_guest_is_encrypted_where_that_is_asked_for(word, secret):
    testbed = expanded(EMBEDDED.replace("nbd: plain,", word))
    assert testbed.hosts["c1"].variables["guest_vm_nbd_secret"] == secret
    # Who looks at it sees that there is a secret, and not which.
    assert "letters-of" not in drawing.as_yaml(testbed)


def test_a_guest_has_a_whole_lun_beside_its_disk_on_the_datastore():
    own = {"embedded_lab_dir": "/lab", "embedded_lab_netns": "netns1", "embedded_lab_image_dir": "/images"}
    testbed = expanded(f"""
all: {json.dumps(own)[:-1]}, testbed_id: two, testbed: {{disks: [{{name: ds1, size: 256MiB}}, {{name: lun, size: 64MiB}}], datastores: [{{disk: ds1}}],
  guests: [{{name: g1, datastore: ds1, disk_size: 48MiB, memory: 320MiB, raw: lun}}, {{name: g2, datastore: ds1, disk_size: 40MiB, memory: 321MiB}}]}}}}
targets: {{t1: }}
hypervisors: {{h1: }}
guests: {{g1: , g2: }}
embedded_controllers: {{c1: }}
""")
    assert testbed.problems == []
    first, second = testbed.hosts["c1"].variables["guest_vm_guests"]
    assert first["raw_disk"] == {
        "layer": "initiator-lun",
        "host": "h1",
        "transport": "nbd",
        "address": "10.213.0.12",
        "port": 10810,
    }
    assert "port" not in first["data_disk"] and second["data_disk"]["port"] == 10811 and "raw_disk" not in second
    # It is measured in the guest, and meanwhile nowhere else.
    found = {layer["name"]: layer for layer in testbed.layers}
    assert {name: found[name]["purpose"] for name in ("backing-lun", "target-lun", "initiator-lun")} == {
        "backing-lun": "data",
        "target-lun": "data",
        "initiator-lun": "data",
    }
    assert (found["guest-g1-raw"]["parent"], found["guest-g1-raw"]["host"]) == ("initiator-lun", "g1")
    assert (found["guest-g1"]["parent"], found["guest-g1-raw"]["purpose"]) == ("datastore-ds1", "scratch")
    assert "guest-g2-raw" not in found


def test_a_profile_takes_the_place_of_workloads():
    text = TWO_LINUX.replace("testbed_id: lab", "testbed_id: lab\n  benchmark_workloads: [{block_size: 4k}]")
    assert expanded(text).hosts["client01"].variables["benchmark_workloads"] == [{"block_size": "4k"}]
    both = text.replace("testbed_id: lab", "testbed_id: lab\n  benchmark_profile: four_corners")
    variables = expanded(both).hosts["client01"].variables
    assert (variables["benchmark_profile"], variables["benchmark_workloads"]) == ("four_corners", [])


def test_what_was_built_before_is_still_looked_after():
    """A datastore that is no longer described has to be removed by the next build."""
    text = TWO_LINUX.replace("    datastores: [{disk: ds1, benchmark_file: 512MiB}]\n", "")
    assert "datastore" not in expanded(text).hosts["store01"].stages
    assert (
        "datastore"
        in expanded(
            text,
            published={
                "store01": [{"name": "datastore-x", "kind": "datastore", "host": "store01", "purpose": "scratch"}]
            },
        )
        .hosts["store01"]
        .stages
    )


@pytest.mark.parametrize("chap", ["mutual", "one_way", "none"])
def test_chap(chap):
    testbed = expanded(TWO_LINUX.replace("    disks:", f"    chap: {chap}\n    disks:"))
    session = testbed.hosts["client01"].variables["iscsi_initiator_targets"][0]
    keys = {key: session[key] for key in session if "chap" in key}
    expected = {"chap_user": "client01", "chap_password": "sixteen-letters1"} if chap != "none" else {}
    if chap == "mutual":
        expected |= {"mutual_chap_user": "store01", "mutual_chap_password": "fifteen-letter2"}
    assert keys == expected
    assert testbed.hosts["store01"].variables["iscsi_target_allow_no_chap"] is (chap == "none")


def test_nothing_that_is_shown_holds_a_secret():
    testbed = expanded(TWO_LINUX.replace("    disks:", "    chap_password: vaulted-words-1\n    disks:"))
    text = drawing.as_yaml(testbed)
    assert "vaulted-words-1" not in text and SECRETS["mutual_chap"] not in text
    assert "chap_password: '********'" in text
    shown = yaml.safe_load(text)
    assert shown["store01"]["ramdisk_disks"] == testbed.hosts["store01"].variables["ramdisk_disks"]
    assert text.count("# from: ") == sum(len(host.variables) for host in testbed.hosts.values())


def test_the_drawing_shows_every_layer_below_what_lies_on_it():
    assert drawing.draw(expanded(TWO_LINUX)) == [
        "testbed lab",
        "├─ backing-bench on store01: RAM disk, 1024 MiB, measured raw: overwritten",
        "│  └─ target-bench on store01: LUN 0 of iqn.2026-11.test.storlab:lab:store01",
        "│     └─ initiator-bench on client01: LUN 0 of iqn.2026-11.test.storlab:lab:store01",
        "└─ backing-ds1 on store01: RAM disk, 2048 MiB",
        "   └─ target-ds1 on store01: LUN 1 of iqn.2026-11.test.storlab:lab:store01",
        "      └─ initiator-ds1 on client01: LUN 1 of iqn.2026-11.test.storlab:lab:store01",
        "         └─ datastore-ds1 on client01: ext4 at /srv/storlab/ds1",
        "client01 needs store01",
    ]


def test_names_of_taps_fit_and_differ():
    names = [emulated.tap_name(f"hypervisor{number:02}") for number in range(1, 12)]
    assert len(set(names)) == 11 and all(len(name) <= 15 for name in names)
    assert emulated.tap_name("target01") == "tap-target01"


def test_linux_initiators_log_in_through_every_portal_and_a_target_to_itself_through_one():
    testbed = expanded("""
all:
  testbed_id: ways
  testbed: {disks: [{name: bench, size: 1GiB, to: [client01, esx01], loopback: true}]}
targets: {store01: {testbed_address: [192.0.2.11, '192.0.3.11:3261']}}
clients: {client01: }
hypervisors: {esx01: {testbed_esxi: {is: set}}}
""")
    sessions = {name: host.variables["iscsi_initiator_targets"] for name, host in testbed.hosts.items()}
    first, second = {"address": "192.0.2.11", "port": 3260}, {"address": "192.0.3.11", "port": 3261}
    assert [(one["portal"], one["other_portals"]) for one in sessions["client01"]] == [(first, [second])]
    # ESXi finds them by itself.
    for name in ("store01", "esx01"):
        assert [one["portal"] for one in sessions[name]] == [first] and "other_portals" not in sessions[name][0]
    assert [line for line in drawing.draw(testbed) if "192.0.3.11" in line] == [
        "store01 reaches iqn.2026-11.test.storlab:ways:store01 through 192.0.2.11:3260 and 192.0.3.11:3261, "
        "of which its login to itself uses the first alone",
        "esx01 reaches iqn.2026-11.test.storlab:ways:store01 through 192.0.2.11:3260 and 192.0.3.11:3261, which it discovers by itself",
        "client01 reaches iqn.2026-11.test.storlab:ways:store01 through 192.0.2.11:3260 and 192.0.3.11:3261, "
        "with a session each: one device where its multipathd runs, else the first alone",
    ]
    assert doctor.needs(testbed, "client01")["peers"] == [
        {"address": "192.0.2.11", "port": 3260},
        {"address": "192.0.3.11", "port": 3261},
    ]


def test_a_windows_server_listens_at_every_portal_and_who_runs_windows_uses_the_first():
    testbed = expanded("""
all:
  testbed_id: ways
  testbed: {disks: [{name: bench, size: 1GiB, to: [win02, esx01, client01]}, {name: own, size: 2GiB, to: [], loopback: true}]}
targets: {win01: {testbed_address: [192.0.2.31, 192.0.3.31], testbed_windows: true}}
clients: {win02: {testbed_windows: true}, client01: }
hypervisors: {esx01: {testbed_esxi: {is: set}}}
""")
    first, second = {"address": "192.0.2.31", "port": 3260}, {"address": "192.0.3.31", "port": 3260}
    exports = testbed.hosts["win01"].variables["iscsi_target_targets"]
    assert len(exports) == 2 and all(export["portals"] == [first, second] for export in exports)
    sessions = {name: host.variables["iscsi_initiator_targets"] for name, host in testbed.hosts.items()}
    assert {name: (one["portal"], one.get("other_portals")) for name, [one] in sessions.items()} == {
        "win01": (first, None),
        "win02": (first, None),
        "esx01": (first, None),
        "client01": (first, [second]),
    }
    ways = {
        line.split()[0]: line.partition("192.0.3.31:3260, ")[2]
        for line in drawing.draw(testbed)
        if "192.0.3.31" in line
    }
    assert ways == {
        "win01": "of which its login to itself uses the first alone",
        "win02": "of which Windows uses 192.0.2.31:3260 alone: this collection does not set up MPIO",
        "esx01": "which it discovers by itself",
        "client01": "with a session each: one device where its multipathd runs, else the first alone",
    }


def test_one_portal_is_said_once():
    for host in expanded(TWO_LINUX).hosts.values():
        assert not any("other_portals" in one for one in host.variables["iscsi_initiator_targets"])


ESXI_NETWORK = """
all:
  testbed_id: lab
  testbed: {disks: [{name: ds1, size: 2GiB}], datastores: [{disk: ds1}]}
targets: {store01: {ansible_host: 192.0.2.11}}
hypervisors:
  esxi01:
    testbed_esxi: {is: set}
    testbed_network: {uplinks: [vmnic2, vmnic3], addresses: [192.0.2.21/24, 192.0.2.22/24], mtu: 9000, vlan: 7}
  esxi02: {testbed_esxi: {is: set}}
"""


def test_the_network_of_an_esxi_host_is_said_once_and_bound():
    testbed = expanded(ESXI_NETWORK)
    values = testbed.hosts["esxi01"].variables
    assert values["esxi_network_switches"] == [{"name": "storlab-lab", "uplinks": ["vmnic2", "vmnic3"], "mtu": 9000}]
    same = {"switch": "storlab-lab", "vlan": 7, "mtu": 9000}
    assert values["esxi_network_ports"] == [
        {"port_group": "storlab-lab-1", "uplink": "vmnic2", "address": "192.0.2.21/24", **same},
        {"port_group": "storlab-lab-2", "uplink": "vmnic3", "address": "192.0.2.22/24", **same},
    ]
    assert values["iscsi_initiator_esxi_port_binding"] == ["storlab-lab-1", "storlab-lab-2"]
    other = testbed.hosts["esxi02"].variables
    assert (other["esxi_network_ports"], other["iscsi_initiator_esxi_port_binding"]) == ([], [])
    stages = {name: host.stages for name, host in testbed.hosts.items()}
    assert stages["esxi01"].index("esxi_network") < stages["esxi01"].index("iscsi_initiator")
    assert "esxi_network" in stages["esxi02"] and "esxi_network" not in stages["store01"]


def test_the_esxi_hosts_of_the_testbed_may_mount_its_datastores():
    text = ESXI_NETWORK.replace(
        "esxi02: {testbed_esxi: {is: set}}", "esxi02: {testbed_esxi: {is: set, host: esx2.lab}}"
    )
    named = text.replace("testbed_esxi: {is: set}\n", "testbed_esxi: {is: set, host: 192.0.2.31}\n")
    hosts = expanded(named).hosts
    assert hosts["esxi01"].variables["datastore_esxi_hosts"] == ["192.0.2.31", "esx2.lab"]
    assert hosts["esxi02"].variables["datastore_esxi_hosts"] == ["192.0.2.31", "esx2.lab"]
    assert hosts["store01"].variables["datastore_esxi_hosts"] == []
    # A login that nobody may read here names no host.
    assert expanded(text).hosts["esxi01"].variables["datastore_esxi_hosts"] == ["esx2.lab"]


def test_a_switch_that_is_there_is_not_made():
    text = ESXI_NETWORK.replace("vlan: 7", "switch: vSwitch7")
    values = expanded(text).hosts["esxi01"].variables
    assert values["esxi_network_switches"] == []
    assert [port["switch"] for port in values["esxi_network_ports"]] == ["vSwitch7", "vSwitch7"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (", 192.0.2.22/24", "", "one address for each uplink"),
        ("192.0.2.22/24", "192.0.2.22", "with the length of its network"),
        ("mtu: 9000", "mtu: 9217", "9217"),
        ("vlan: 7", "vlans: 7", "vlan"),
        ("testbed_id: lab", "testbed_id: a-name-of-twenty-five-lett", "31 characters"),
    ],
)
def test_a_network_that_cannot_be_is_told_by_its_word(old, new, named):
    lab = lab_of(ESXI_NETWORK.replace(old, new))
    problems = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    assert any("testbed_network" in problem and "esxi01" in problem and named in problem for problem in problems), (
        problems
    )


def test_only_esxi_hosts_have_a_network_to_be_made():
    text = ESXI_NETWORK.replace(
        "ansible_host: 192.0.2.11",
        "ansible_host: 192.0.2.11, testbed_network: {uplinks: [eth1], addresses: [192.0.2.11/24]}",
    )
    lab = lab_of(text)
    problems = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    assert any("testbed_network of store01" in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("esxi_network_power_policy: maximal", "maximal"),
        ("esxi_network_ntp_servers: [192.0.2.5, 192.0.2.5]", "192.0.2.5"),
        ("esxi_network_ntp_servers: ['time.lab.example iburst']", "time.lab.example iburst"),
        ("esxi_network_power_policy: low-power, esxi_network_ntp_servers: [time.lab.example]", None),
    ],
)
def test_settings_of_an_esxi_host_are_refused_before_anything_is_built(words, named):
    lab = lab_of(ESXI_NETWORK.replace("esxi02: {", f"esxi02: {{{words}, "))
    problems = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    wrong = [problem for problem in problems if "esxi_network_" in problem]
    assert len(wrong) == (1 if named else 0), problems
    assert all(named in problem and "esxi02" in problem for problem in wrong)


def test_the_network_is_measured_towards_what_a_client_logs_in_to_or_mounts_from():
    lab = expanded(NFS)
    links = {name: host.variables.get("benchmark_networks") for name, host in lab.hosts.items()}
    assert links == {
        "store01": [],
        "client01": [{"target": "store01", "address": "192.0.2.11"}],
        "client02": [{"target": "store01", "address": "192.0.2.11"}],
    }
    text = TWO_LINUX.replace(
        "{ansible_host: 192.0.2.11}", "{ansible_host: ssh.lab.example, testbed_address: [192.0.2.31, 192.0.2.32]}"
    )
    assert expanded(text).hosts["client01"].variables["benchmark_networks"] == [
        {"target": "store01", "address": "192.0.2.31"},
        {"target": "store01", "address": "192.0.2.32"},
    ]
