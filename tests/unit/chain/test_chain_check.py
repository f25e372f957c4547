# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong inventories, each with the sentences that a user reads."""

from __future__ import annotations

import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.workload.wanted import greatest_buffers
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, expand, groups, inventory
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.description import OLD_WORDS, OPTIONS, WORDS
from chain_lab import ESXI, ROLES, TWO_LINUX, lab_of

EMBEDDED = """
all:
  testbed_id: emb
  embedded_lab_dir: /lab
  embedded_lab_netns: netns1
  testbed:
    disks: [{name: bench, size: 128MiB}, {name: ds1, size: 128MiB}]
    datastores: [{disk: ds1, benchmark_file: 40MiB}]
    guests: [{name: guest01, datastore: ds1, disk_size: 48MiB, memory: 320MiB}]
targets: {target01: }
hypervisors: {hypervisor01: }
guests: {guest01: }
embedded_controllers: {controller01: }
"""
WINDOWS = """
all:
  testbed_id: win
  testbed:
    disks: [{name: ds1, size: 6GiB}]
    datastores: [{disk: ds1}]
targets: {win01: {testbed_address: 192.0.2.11, ansible_connection: psrp}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}}
"""
TARGET = "iscsi_target_targets: [{name: 'iqn.2026-11.test.mine:t', portals: [{address: 192.0.2.11}], luns: [%s], initiators: []}]"

RAID = """
all:
  testbed_id: lab
  testbed:
    disks:
      - name: slow
        kind: raid
        raid: {level: 10, chunk: 64KiB, members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]}
targets: {store01: {ansible_host: 192.0.2.11}}
clients: {client01: {ansible_host: 192.0.2.21}}
"""
EMBEDDED_RAID = EMBEDDED.replace(
    "{name: bench, size: 128MiB}",
    "{name: bench, kind: raid, raid: {level: 5, emulated: {count: 3, size: 64MiB, iops: 300}}}",
)
CACHE = RAID.replace(
    "kind: raid\n        raid: {level: 10, chunk: 64KiB, members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]}",
    "kind: cache\n        cache: {mode: writeback, block: 128KiB, origin: {path: /dev/sdd, serial: a1}, fast: {naa: 6001}}",
)
EMBEDDED_CACHE = EMBEDDED.replace(
    "{name: bench, size: 128MiB}",
    "{name: bench, kind: cache, cache: {origin: {emulated: {size: 96MiB, iops: 300}}, fast: {emulated: {size: 32MiB}}}}",
)

EMBEDDED_RAW = EMBEDDED.replace("memory: 320MiB}", "memory: 320MiB, raw: bench}")
# name: (a good inventory, [(what stands in it, what stands there instead)], the sentences)
WRONG = {
    "raw_is_no_disk": (
        EMBEDDED_RAW,
        [("raw: bench", "raw: bnch")],
        ["testbed.guests[0].raw is 'bnch', which is not a disk of hypervisor01: did you mean bench?"],
    ),
    "raw_has_a_datastore": (
        EMBEDDED_RAW,
        [("raw: bench", "raw: ds1")],
        ["testbed.guests[0].raw is 'ds1', which carries the datastore ds1: name a disk of its own."],
    ),
    "raw_is_of_two_guests": (
        EMBEDDED_RAW,
        [
            (
                "48MiB, memory: 320MiB, raw: bench}",
                "24MiB, memory: 320MiB, raw: bench}, {name: g2, datastore: ds1, disk_size: 16MiB, memory: 256MiB, raw: bench}",
            ),
            ("guests: {guest01: }", "guests: {guest01: , g2: }"),
        ],
        ["testbed.guests[1].raw is 'bench', which guest01 has: name a disk of its own."],
    ),
    "word_of_the_description": (
        TWO_LINUX,
        [("size: 1GiB", "siez: 1GiB")],
        [
            "testbed.disks[0].siez is not a known key: did you mean size?",
            "testbed.disks[0].size is not set: write its size with a unit, such as 128MiB.",
        ],
    ),
    "unit_that_may_mean_two_things": (
        TWO_LINUX,
        [("size: 1GiB", "size: 128M")],
        ["testbed.disks[0].size is '128M': did you mean 128MiB?"],
    ),
    "size_as_others_write_it": (
        TWO_LINUX,
        [("size: 1GiB", "size: 8G"), ("size: 2GiB", "size: 1.5 TB")],
        [
            "testbed.disks[0].size is '8G': did you mean 8GiB?",
            "testbed.disks[1].size is '1.5 TB': did you mean 1572864MiB?",
        ],
    ),
    "size_of_no_whole_mib": (
        TWO_LINUX,
        [("size: 1GiB", "size: 0.3M")],
        ["testbed.disks[0].size is '0.3M': write a size with its unit, MiB, GiB or TiB, such as 128MiB."],
    ),
    "chap_is_no_switch": (
        TWO_LINUX,
        [("    disks:", "    chap: true\n    disks:")],
        ["testbed.chap is true: use one of mutual, one_way, none."],
    ),
    "device_without_its_kind": (
        TWO_LINUX,
        [("{name: bench, size: 1GiB}", "{name: bench, path: /dev/sdb, serial: S1}")],
        ["testbed.disks[0].path is '/dev/sdb', but kind is ramdisk: did you mean kind: device?"],
    ),
    "serial_of_a_ram_disk": (
        TWO_LINUX,
        [("name: bench, size: 1GiB", "name: bench, size: 1GiB, serial: S1")],
        ["testbed.disks[0].serial is 'S1', but kind is ramdisk: did you mean kind: device?"],
    ),
    "raid_without_its_kind": (
        TWO_LINUX,
        [("name: bench, size: 1GiB", "name: bench, raid: {level: 1, members: [{serial: a1}, {serial: a2}]}")],
        ["testbed.disks[0].raid is set, but kind is ramdisk: did you mean kind: raid?"],
    ),
    "file_without_its_kind": (
        WINDOWS,
        [("{name: ds1, size: 6GiB}", "{name: ds1, size: 6GiB, path: 'D:\\ds1.vhdx'}")],
        ["testbed.disks[0].path is 'D:\\\\ds1.vhdx', but kind is ramdisk: did you mean kind: device or vhdx?"],
    ),
    "group_by_another_name": (
        TWO_LINUX,
        [("clients:", "initiators:")],
        ["group initiators is not a group of this collection: did you mean clients or hypervisors?"],
    ),
    "target_and_client_of_one_address": (
        TWO_LINUX,
        [("client01: {ansible_host: 192.0.2.21}", "client01: {ansible_host: 192.0.2.11}")],
        [
            "ansible_host of client01 is '192.0.2.11', which store01 has, too: give each host its own address in testbed_address."
        ],
    ),
    "one_of_several_addresses_twice": (
        TWO_LINUX,
        [
            ("{ansible_host: 192.0.2.11}", "{testbed_address: [192.0.2.11, 192.0.2.12]}"),
            ("{ansible_host: 192.0.2.21}", "{testbed_address: 192.0.2.12, ansible_port: 2222}"),
        ],
        [
            "testbed_address of client01 is '192.0.2.12', which store01 has, too: give each host its own address in testbed_address."
        ],
    ),
    "device_that_nobody_logs_in_to": (
        TWO_LINUX,
        [
            ("{name: bench, size: 1GiB}", "{name: bench, kind: device, path: /dev/sdb, serial: S1}"),
            ("clients:\n  client01: {ansible_host: 192.0.2.21}", "clients:"),
        ],
        [
            "testbed.disks[0].kind is 'device', but no host logs in to store01 for it, so it would be neither exported nor measured: "
            "put a host into clients or hypervisors."
        ],
    ),
    "datastore_on_a_device_of_its_target": (
        TWO_LINUX,
        [
            ("{name: ds1, size: 2GiB}", "{name: ds1, kind: device, path: /dev/sdb, serial: S1}"),
            ("clients:\n  client01: {ansible_host: 192.0.2.21}", "clients:"),
        ],
        [
            "testbed.disks[1].kind is 'device', but the datastore ds1 is on it on store01 itself: "
            "use ramdisk, raid or cache, or let another host log in."
        ],
    ),
    "more_disks_than_a_machine_has_places": (
        EMBEDDED_RAID,
        [("count: 3", "count: 200")],
        [
            "testbed.disks[0].raid.emulated.count is 200, but a machine of the embedded lab has room for 28 such disks: make it smaller."
        ],
    ),
    "no_emulated_disk_at_all": (
        EMBEDDED_RAID,
        [("count: 3", "count: 0")],
        ["testbed.disks[0].raid.emulated.count is 0, but RAID 5 needs at least 3: name more."],
    ),
    "run_called_as_the_newest_is": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  testbed_run_id: latest")],
        ["testbed_run_id is 'latest', which means the newest run: give the run a name of its own."],
    ),
    "size_without_unit": (
        TWO_LINUX,
        [("size: 1GiB", "size: 128")],
        ["testbed.disks[0].size is 128: write a size with its unit, MiB, GiB or TiB, such as 128MiB."],
    ),
    "wrong_type": (
        TWO_LINUX,
        [("datastores: [{disk: ds1, benchmark_file: 512MiB}]", "datastores: ds1")],
        ["testbed.datastores is 'ds1': write a list."],
    ),
    "no_whole_number": (
        TWO_LINUX,
        [("size: 1GiB", "size: 1GiB, lun: first")],
        ["testbed.disks[0].lun is 'first': write a whole number."],
    ),
    "unknown_kind": (
        TWO_LINUX,
        [("size: 1GiB", "size: 1GiB, kind: ramdsik")],
        ["testbed.disks[0].kind is 'ramdsik': did you mean ramdisk?"],
    ),
    "datastore_on_no_disk": (
        TWO_LINUX,
        [("disk: ds1", "disk: dsl")],
        ["testbed.datastores[0].disk is 'dsl', which is not a disk: did you mean ds1?"],
    ),
    "nfs_of_no_datastore": (
        TWO_LINUX,
        [("512MiB}", "512MiB}, {nfs: ds2}")],
        [
            "testbed.datastores[1].nfs is 'ds2', which is not a datastore of a target: there is none yet; describe one first."
        ],
    ),
    "nfs_of_a_datastore_without_a_file": (
        TWO_LINUX,
        [(", benchmark_file: 512MiB}", "}, {nfs: ds1}")],
        [
            "testbed.datastores[0].benchmark_file is not set, but ds1-nfs is measured on it: "
            "write the size of the file on it that clients measure, such as 2GiB."
        ],
    ),
    "nfs_said_twice": (
        TWO_LINUX,
        [("512MiB}", "512MiB}, {nfs: ds1, benchmark_file: 1GiB}, {nfs: ds1, name: again}")],
        [
            "testbed.datastores[1].benchmark_file is 1024, is set beside nfs: leave it out: it is set for the datastore ds1.",
            "testbed.datastores[2].nfs is 'ds1', as ds1-nfs has it: write it once, with all its hosts.",
        ],
    ),
    "nconnect_without_nfs": (
        TWO_LINUX,
        [("512MiB}", "512MiB, nconnect: 4}")],
        [
            "testbed.datastores[0].nconnect is 4, is set without nfs: leave it out, or name the datastore that this one is over NFS."
        ],
    ),
    "nconnect_of_too_many": (
        TWO_LINUX,
        [("512MiB}", "512MiB}, {nfs: ds1, nconnect: 17}")],
        [
            "testbed.datastores (from which follows datastore_datastores ds1-nfs nconnect of client01) is 17. Give a number from 1 to 16, or leave it out."
        ],
    ),
    "nfs_to_a_name": (
        TWO_LINUX,
        [("512MiB}", "512MiB}, {nfs: ds1}"), ("192.0.2.21", "client01.example")],
        [
            "testbed_address of client01 is 'client01.example': write its address in the storage network: NFS is exported from address to address."
        ],
    ),
    "duplicate_names": (
        TWO_LINUX,
        [("name: ds1", "name: bench"), ("disk: ds1", "disk: bench")],
        [
            "testbed.disks is a list with 'bench' twice: give each a name of its own.",
        ],
    ),
    "no_such_target": (
        TWO_LINUX,
        [("size: 1GiB", "size: 1GiB, targets: [store1]")],
        ["testbed.disks[0].targets is 'store1', which is not a target of this inventory: did you mean store01?"],
    ),
    "no_such_client": (
        TWO_LINUX,
        [("size: 1GiB", "size: 1GiB, to: client1")],
        ["testbed.disks[0].to is 'client1', which is not a host that logs in: did you mean client01?"],
    ),
    "same_lun_number": (
        TWO_LINUX,
        [("size: 1GiB", "size: 1GiB, lun: 1")],
        ["LUN number of bench and ds1 on store01 is 1: give each disk a lun of its own."],
    ),
    "tgt_lun_zero": (
        TWO_LINUX,
        [("192.0.2.11}", "192.0.2.11, iscsi_target_provider: tgt}"), ("size: 1GiB", "size: 1GiB, lun: 0")],
        ["LUN number of bench on store01 is 0, which is tgt's own controller: number from 1."],
    ),
    "tgt_unlike_initiators": (
        TWO_LINUX,
        [("192.0.2.11}", "192.0.2.11, iscsi_target_provider: tgt}"), ("size: 1GiB", "size: 1GiB, loopback: true")],
        [
            "iscsi_target_targets[0].initiators of store01 see different LUNs, and tgt shows all LUNs of a target to all its initiators:"
            " show them the same disks, or set iscsi_target_provider: lio."
        ],
    ),
    "malformed_iqn": (
        TWO_LINUX,
        [("    disks:", "    iqn_prefix: iqn.2026-13.test:X\n    disks:")],
        [
            "testbed.iqn_prefix is 'iqn.2026-13.test:X'. Use an iSCSI name such as iqn.2026-01.example.lab:bench (lower case, at most 223 characters)."
        ],
    ),
    "portal_by_name": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.11}", "{ansible_host: store01.lab.example}")],
        [
            "ansible_host of store01 is 'store01.lab.example', which is not an IP address: set testbed_address of store01 "
            "to its IP address in the storage network."
        ],
    ),
    "portal_twice": (
        TWO_LINUX,
        [("ansible_host: 192.0.2.11", "testbed_address: [192.0.2.11, '192.0.2.11:3260']")],
        ["testbed_address of store01 is a list with 192.0.2.11:3260 twice: name each portal once."],
    ),
    "no_portal": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.11}", "")],
        ["testbed_address of store01 is not set: give the target's IP address in the storage network."],
    ),
    "portal_of_another_host": (
        TWO_LINUX,
        [
            (
                "{ansible_host: 192.0.2.11}",
                "{ansible_host: 192.0.2.11, "
                + TARGET.replace("192.0.2.11", "192.0.2.12") % "{lun: 0, name: bench, layer: backing-bench}"
                + "}",
            )
        ],
        [
            "iscsi_target_targets[0].portals[0].address of store01 is '192.0.2.12', which is none of the addresses of store01: use 192.0.2.11.",
        ],
    ),
    "lun_of_no_layer": (
        TWO_LINUX,
        [
            (
                "{ansible_host: 192.0.2.11}",
                "{ansible_host: 192.0.2.11, " + TARGET % "{lun: 0, name: bench, layer: backing-bensh}" + "}",
            )
        ],
        [
            "iscsi_target_targets[0].luns[0].layer of store01 is 'backing-bensh', which is not a layer of this testbed: did you mean backing-bench?"
        ],
    ),
    "session_with_no_target": (
        TWO_LINUX,
        [
            (
                "{ansible_host: 192.0.2.21}",
                "{iscsi_initiator_targets: [{iqn: 'iqn.2026-11.test.storlab:lab:store1', portal: {address: 192.0.2.11}, luns: []}]}",
            )
        ],
        [
            "iscsi_initiator_targets[0].iqn of client01 is 'iqn.2026-11.test.storlab:lab:store1', which is not a target of this testbed: "
            "did you mean iqn.2026-11.test.storlab:lab:store01?"
        ],
    ),
    "chap_secret_too_short": (
        TWO_LINUX,
        [("    disks:", "    chap_password: short\n    disks:")],
        ["testbed.chap_password is 5 characters long: use 12 to 16 characters."],
    ),
    "nbd_that_nobody_uses": (
        TWO_LINUX,
        [("    disks:", "    nbd: tls\n    disks:")],
        ["testbed.nbd is 'tls', but no guest has a disk over NBD here: leave it out."],
    ),
    "chap_secret_both_ways": (
        TWO_LINUX,
        [("    disks:", "    chap_password: same-secret-1\n    mutual_chap_password: same-secret-1\n    disks:")],
        [
            "testbed.mutual_chap_password is the same as testbed.chap_password: use another secret; iSCSI forbids the same one both ways."
        ],
    ),
    "unknown_profile": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  benchmark_profile: four_corner")],
        ["benchmark_profile is 'four_corner', which is not a known profile: did you mean four_corners?"],
    ),
    "target_that_says_none": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  report_targets: [p99 <= 5 ms on guest, p99 < 5 ms]")],
        [
            "report_targets is 'p99 < 5 ms', which is not a target. Write it like 'p99 <= 5 ms at 10k IOPS on guest', "
            "'IOPS >= 20k on initiator' or 'MB/s >= 400 under WORKLOAD'."
        ],
    ),
    "unknown_provider": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.11}", "{ansible_host: 192.0.2.11, iscsi_target_provider: loi}")],
        ["iscsi_target_provider of store01 is 'loi': did you mean lio?"],
    ),
    "unknown_engine": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.21}", "{benchmark_engine: diskspeed}")],
        ["benchmark_engine of client01 is 'diskspeed': did you mean diskspd?"],
    ),
    "engine_of_windows_on_linux": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.21}", "{benchmark_engine: diskspd}")],
        ["benchmark_engine of client01 is 'diskspd', which runs on Windows hosts only: use fio."],
    ),
    "workload_that_is_none": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  benchmark_workloads: [{block_size: 4k, read_percent: 120}]")],
        ["benchmark_workloads[0].read_percent is 120. Use a whole number from 0 to 100."],
    ),
    "data_disk_given_to_raw_benchmarks": (
        TWO_LINUX,
        [("size: 2GiB", "size: 2GiB, purpose: scratch")],
        [
            "testbed.disks[1].purpose is 'scratch', but the datastore ds1 is on it, which a raw benchmark would destroy: "
            "remove purpose, or put the datastore on another disk."
        ],
    ),
    "data_layer_served_to_many_hosts": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.21}", "{benchmark_server_layer: initiator-ds1}")],
        [
            "benchmark_server_layer of client01 is 'initiator-ds1', which contains data that a raw benchmark would destroy: "
            "use initiator-bench or datastore-ds1."
        ],
    ),
    "memory_smaller_than_ram_disks": (
        EMBEDDED,
        [
            (
                "embedded_lab_dir: /lab",
                "embedded_lab_dir: /lab\n  embedded_lab_machines: [{name: target01, address: 10.213.0.11, memory_mib: 300, tap: tap0, vcpus: 1}]",
            )
        ],
        [
            "memory of target01 is 300 MiB, but its RAM disks take 256 MiB and the system needs 192 MiB: "
            "make the disks smaller, or give the host more memory."
        ],
    ),
    "files_that_do_not_fit": (
        TWO_LINUX,
        [("benchmark_file: 512MiB", "benchmark_file: 512MiB, benchmark_files: 4")],
        [
            "testbed.disks[1].size is 2 GiB, but 2 GiB are needed on the datastore ds1, whose file system needs some space too: "
            "make the disk larger, or the files on it smaller."
        ],
    ),
    "files_per_worker_on_esxi": (
        ESXI,
        [("datastores: [{disk: ds1}]", "datastores: [{disk: ds1, hosts: [esxi01], benchmark_files: 4}]")],
        ["testbed.datastores[0].benchmark_files is 4, but only Linux hosts measure a file per worker: leave it out."],
    ),
    "two_hypervisors_on_ext4": (
        TWO_LINUX,
        [("client01: {ansible_host: 192.0.2.21}", "client01: {}\n  client02: {}")],
        [
            "testbed.datastores[0].hosts is client01, client02, but ext4 is not a cluster file system and would be destroyed: "
            "name one host, or give each a disk of its own."
        ],
    ),
    "guest_without_a_datastore": (
        ESXI,
        [("datastore: ds1, ", "")],
        ["testbed.guests[0].datastore is not set: use one of ds1."],
    ),
    "guest_that_is_no_host": (
        ESXI,
        [("{name: guest01,", "{name: guest1,")],
        ["testbed.guests[0].name is 'guest1', which is not a host of the group guests: did you mean guest01?"],
    ),
    "guest_larger_than_its_datastore": (
        EMBEDDED,
        [("disk_size: 48MiB", "disk_size: 90MiB")],
        [
            "testbed.disks[1].size is 128 MiB, but 130 MiB are needed on the datastore ds1, whose file system needs some space too: "
            "make the disk larger, or the files on it smaller."
        ],
    ),
    "file_system_of_another_platform": (
        ESXI,
        [("{disk: ds1}", "{disk: ds1, hosts: esxi01, type: ext4}")],
        ["testbed.datastores[0].type is 'ext4', which esxi01 cannot make: use vmfs or rdm or nfs."],
    ),
    "windows_name_with_underscore": (
        WINDOWS,
        [("testbed_id: win", "testbed_id: win_1")],
        ["testbed_id is 'win_1', which becomes part of names on the Windows target: write it without underscores."],
    ),
    "malformed_testbed_id": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: My Lab")],
        [
            "testbed_id is 'My Lab'. Use at most 32 lower-case letters, digits, dots, dashes or underscores, starting and ending with a letter or digit."
        ],
    ),
    "group_with_a_typo": (
        TWO_LINUX,
        [("\ntargets:", "\ntarget:")],
        [
            "testbed.disks[0].targets is 'targets', which is not a target of this inventory: there is none yet; describe one first.",
            "testbed.disks[1].targets is 'targets', which is not a target of this inventory: there is none yet; describe one first.",
            "testbed.datastores[0].disk is 'ds1', which is not a disk: there is none yet; describe one first.",
            "group target is not a group of this collection: did you mean targets?",
            "group targets has no hosts: name the inventory of your lab with -i, and put its storage server in that group.",
        ],
    ),
    "inventory_of_something_else": (
        "web: {www01: {ansible_host: 192.0.2.80}}",
        [],
        [
            "group targets has no hosts: name the inventory of your lab with -i, and put its storage server in that group.",
            "testbed_id is not set: give the testbed a name, such as testbed_id: lab.",
            "testbed is not set: describe what is on the targets, such as testbed: {disks: [{name: bench, size: 1GiB}]}.",
        ],
    ),
    "variable_with_a_typo": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  benchmark_repetition: 5")],
        ["benchmark_repetition is not a variable of this collection: did you mean benchmark_repetitions?"],
    ),
    "variable_with_a_typo_in_the_prefix": (
        TWO_LINUX,
        [],
        ["testbd_address of client01 is not a variable of this collection: did you mean testbed_address?"],
    ),
    "variable_with_our_prefix": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.21}", "{testbed_colour: blue}")],
        [
            "testbed_colour of client01 is not a variable of this collection: remove it, or give a variable of your own another prefix."
        ],
    ),
    "two_ports_of_one_address_of_a_windows_server": (
        WINDOWS,
        [("testbed_address: 192.0.2.11", "testbed_address: [192.0.2.11, '192.0.2.11:3261']")],
        [
            "testbed_address of win01 is a list with 192.0.2.11 at the ports 3260 and 3261, and Windows listens at one port of an address: "
            "name each address once; a second portal needs an address of its own."
        ],
    ),
    "words_of_an_earlier_release": (
        TWO_LINUX,
        [("testbed_id: lab", "testbed_id: lab\n  testbed_disks: []\n  testbed_profile: four_corners")],
        [
            "testbed_disks was renamed after 0.3: write testbed.disks, or ramdisk_disks of the target.",
            "testbed_profile was renamed after 0.3: write benchmark_profile.",
        ],
    ),
    "device_that_nothing_proves": (
        TWO_LINUX,
        [("{name: bench, size: 1GiB}", "{name: bench, kind: device, path: /dev/sdb}")],
        [
            "testbed.disks[0].path is '/dev/sdb', which does not identify a device: add the serial, naa, wwid or uuid that the device has."
        ],
    ),
    "target_that_is_a_client_too": (
        TWO_LINUX,
        [("client01: {ansible_host: 192.0.2.21}", "client01: {}\n  store01: {}")],
        [
            "store01 is in targets and in hypervisors or clients: leave it in targets; with loopback of a disk a target measures its own export."
        ],
    ),
    "two_testbeds_at_once": (
        TWO_LINUX,
        [("{ansible_host: 192.0.2.21}", "{testbed_id: other}")],
        ["testbed_id is 'lab' and 'other', on one host and another: set it once, for all."],
    ),
    "mount_point_that_is_no_folder_of_ones_own": (
        TWO_LINUX,
        [("benchmark_file: 512MiB", "mount_point: /srv")],
        [
            "testbed.datastores (from which follows datastore_datastores ds1 mount_point of client01) is '/srv'. "
            "Give a clean absolute path at least two folders deep, such as /srv/storlab/ds1."
        ],
    ),
    "option_of_a_target_of_ones_own": (
        TWO_LINUX,
        [
            (
                "ansible_host: 192.0.2.11",
                "ansible_host: 192.0.2.11, " + TARGET % "{lun: 1, name: bench, layr: backing-bench}",
            )
        ],
        ["iscsi_target_targets of store01[0].luns[0].layr is not a known key: did you mean layer?"],
    ),
    "type_in_a_target_of_ones_own": (
        TWO_LINUX,
        [
            (
                "ansible_host: 192.0.2.11",
                "ansible_host: 192.0.2.11, " + TARGET % "{lun: one, name: bench, layer: backing-bench}",
            )
        ],
        [
            "LUN number of bench on store01 is 'one': use 0 to 255.",
        ],
    ),
    "target_without_initiators": (
        TWO_LINUX,
        [
            (
                "ansible_host: 192.0.2.11",
                "ansible_host: 192.0.2.11, " + TARGET % "{lun: 1, name: bench, layer: backing-bench}",
            )
        ],
        ["iscsi_target_targets iqn.2026-11.test.mine:t initiators of store01 is []. Give at least one of initiators."],
    ),
    "several_at_once": (
        TWO_LINUX,
        [
            ("size: 1GiB", "size: 1gb"),
            ("disk: ds1", "disk: ds2"),
            ("testbed_id: lab", "testbed_id: lab\n  benchmark_engine: fioo"),
        ],
        [
            "testbed.disks[0].size is '1gb': did you mean 1GiB?",
            "benchmark_engine is 'fioo': did you mean fio?",
            "testbed.datastores[0].disk is 'ds2', which is not a disk: did you mean ds1?",
        ],
    ),
    "raid_without_words": (
        RAID,
        [
            (
                "raid: {level: 10, chunk: 64KiB, members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]}",
                "size: 1GiB",
            )
        ],
        [
            "testbed.disks[0].raid is not set: write its level and members, such as raid: {level: 10, members: [{serial: Z1F0A7QK}, …]}.",
        ],
    ),
    "raid_level_that_there_is_not": (
        RAID,
        [("level: 10", "level: 7")],
        ["testbed.disks[0].raid.level is 7: use one of 0, 1, 5, 6, 10."],
    ),
    "raid_10_of_three": (
        RAID,
        [("{serial: a1}, ", "")],
        ["testbed.disks[0].raid.members is 3 disks, but RAID 10 needs at least 4: name more."],
    ),
    "raid_10_of_five": (
        RAID,
        [("{serial: a1}, ", "{serial: a1}, {serial: a5}, ")],
        ["testbed.disks[0].raid.members is 5 disks, but RAID 10 mirrors pairs: name an even number."],
    ),
    "raid_6_of_three": (
        RAID,
        [("level: 10", "level: 6"), ("{serial: a1}, ", "")],
        ["testbed.disks[0].raid.members is 3 disks, but RAID 6 needs at least 4: name more."],
    ),
    "raid_chunk_no_power_of_two": (
        RAID,
        [("chunk: 64KiB", "chunk: 96KiB")],
        ["testbed.disks[0].raid.chunk is '96KiB', but a chunk is a power of two from 4KiB: write one, such as 64KiB."],
    ),
    "raid_chunk_without_unit": (
        RAID,
        [("chunk: 64KiB", "chunk: 64")],
        ["testbed.disks[0].raid.chunk is '64': write a size with KiB or MiB, such as 64KiB."],
    ),
    "raid_1_with_chunks": (
        RAID,
        [("level: 10", "level: 1")],
        ["testbed.disks[0].raid.chunk is '64KiB', but RAID 1 has no chunks: leave it out."],
    ),
    "raid_0_with_a_bitmap": (
        RAID,
        [("level: 10", "level: 0, bitmap: internal")],
        ["testbed.disks[0].raid.bitmap is 'internal', but RAID 0 has nothing to synchronise: leave it out."],
    ),
    "raid_10_with_a_stripe_cache": (
        RAID,
        [("level: 10", "level: 10, stripe_cache: 512")],
        [
            "testbed.disks[0].raid.stripe_cache is 512, but RAID 10 has no stripe cache: leave it out, or use level 5 or 6."
        ],
    ),
    "raid_with_a_tiny_stripe_cache": (
        RAID,
        [("level: 10", "level: 5, stripe_cache: 16")],
        ["testbed.disks[0].raid.stripe_cache is 16, but the kernel takes 17 to 32768 pages: write one of these."],
    ),
    "raid_member_by_its_path_alone": (
        RAID,
        [("path: /dev/sdd, wwid: a3", "path: /dev/sdd")],
        [
            "testbed.disks[0].raid.members[2].path is '/dev/sdd', which does not identify a device: add the serial, naa, wwid or uuid that the disk has."
        ],
    ),
    "raid_member_twice": (
        RAID,
        [("serial: a2", "serial: a1")],
        ["testbed.disks[0].raid.members is a list with 'a1' twice: name each disk once."],
    ),
    "raid_without_members": (
        RAID,
        [(", members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]", "")],
        ["testbed.disks[0].raid.members is not set: name the disks, each with its serial, naa, wwid or uuid."],
    ),
    "raid_of_emulated_disks_in_a_lab": (
        RAID,
        [
            (
                "members: [{serial: a1}, {serial: a2}, {path: /dev/sdd, wwid: a3}, {naa: 6001}]",
                "emulated: {count: 4, size: 64MiB}",
            )
        ],
        [
            "testbed.disks[0].raid.emulated is for the embedded lab, which makes such disks: "
            "name the target's disks as members, each with its serial, naa, wwid or uuid.",
        ],
    ),
    "raid_of_too_few_emulated_disks": (
        EMBEDDED_RAID,
        [("count: 3", "count: 2")],
        ["testbed.disks[0].raid.emulated.count is 2, but RAID 5 needs at least 3: name more."],
    ),
    "raid_of_emulated_disks_beside_members": (
        EMBEDDED_RAID,
        [("emulated:", "members: [{serial: b1}, {serial: b2}, {serial: b3}], emulated:")],
        ["testbed.disks[0].raid.members is set beside emulated: set only one of them."],
    ),
    "raid_on_windows": (
        WINDOWS,
        [
            (
                "{name: ds1, size: 6GiB}",
                "{name: ds1, kind: raid, raid: {level: 0, members: [{serial: c1}, {serial: c2}]}}",
            )
        ],
        ["testbed.disks[0].kind is 'raid', but win01 runs Windows: use ramdisk, vhdx or device."],
    ),
    "cache_without_words": (
        CACHE,
        [
            (
                "cache: {mode: writeback, block: 128KiB, origin: {path: /dev/sdd, serial: a1}, fast: {naa: 6001}}",
                "size: 1GiB",
            )
        ],
        [
            "testbed.disks[0].cache is not set: write both disks, such as cache: {origin: {serial: Z1F0A7QK}, fast: {serial: S2HRNX0J4}}."
        ],
    ),
    "cache_without_a_fast_disk": (
        CACHE,
        [(", fast: {naa: 6001}", "")],
        ["testbed.disks[0].cache.fast is not set: write a mapping."],
    ),
    "cache_of_an_origin_by_its_path_alone": (
        CACHE,
        [(", serial: a1", "")],
        [
            "testbed.disks[0].cache.origin is {'path': '/dev/sdd'}, which does not identify a disk: add the serial, naa, wwid or uuid that the disk has."
        ],
    ),
    "cache_of_one_disk": (
        CACHE,
        [("fast: {naa: 6001}", "fast: {serial: a1}")],
        ["testbed.disks[0].cache.fast.serial is 'a1', which is the origin: name another disk."],
    ),
    "cache_with_odd_blocks": (
        CACHE,
        [("128KiB", "48KiB")],
        [
            "testbed.disks[0].cache.block is '48KiB', but a block is a multiple of 32KiB, up to 1GiB: write one, such as 64KiB."
        ],
    ),
    "cache_block_without_unit": (
        CACHE,
        [("128KiB", "128")],
        ["testbed.disks[0].cache.block is '128': write a size with KiB or MiB, such as 64KiB."],
    ),
    "cache_that_moves_too_little": (
        CACHE,
        [("block: 128KiB", "block: 128KiB, migration: 1000KiB")],
        [
            "testbed.disks[0].cache.migration is '1000KiB', but the kernel moves no blocks of 128KiB with fewer than eight of them under way: "
            "write 1024KiB or more."
        ],
    ),
    "cache_mode_that_there_is_not": (
        CACHE,
        [("mode: writeback", "mode: writaround")],
        ["testbed.disks[0].cache.mode is 'writaround': did you mean writearound?"],
    ),
    "cache_mode_that_dm_cache_has_not": (
        CACHE,
        [("mode: writeback", "mode: writearound")],
        [
            "testbed.disks[0].cache.mode is 'writearound', but dm_cache has no write-around: write writethrough or writeback, or provider bcache."
        ],
    ),
    "cache_bucket_that_bcache_has_not": (
        CACHE,
        [("block: 128KiB", "block: 96KiB, provider: bcache")],
        [
            "testbed.disks[0].cache.block is '96KiB', but a bucket of bcache is a power of two from 32KiB to 16MiB: write one, such as 64KiB."
        ],
    ),
    "cache_that_bcache_cannot_hold_back": (
        CACHE,
        [("block: 128KiB", "migration: 2MiB, provider: bcache")],
        [
            "testbed.disks[0].cache.migration is '2MiB', but bcache moves nothing that this could hold back: leave it out, or write another provider."
        ],
    ),
    "cache_of_emulated_disks_in_a_lab": (
        CACHE,
        [("{naa: 6001}", "{emulated: {size: 1GiB}}")],
        [
            "testbed.disks[0].cache.fast.emulated is for the embedded lab, which makes such disks: "
            "name a disk of the target by its serial, naa, wwid or uuid."
        ],
    ),
    "cache_of_an_emulated_disk_beside_a_disk": (
        EMBEDDED_CACHE,
        [("fast: {", "fast: {serial: b1, ")],
        ["testbed.disks[0].cache.fast.emulated is set beside a disk: set only one of them."],
    ),
    "cache_on_windows": (
        WINDOWS,
        [("{name: ds1, size: 6GiB}", "{name: ds1, kind: cache, cache: {origin: {serial: c1}, fast: {serial: c2}}}")],
        ["testbed.disks[0].kind is 'cache', but win01 runs Windows: use ramdisk, vhdx or device."],
    ),
}


def sentences(text: str, **more) -> list:
    lab = lab_of(text, **more)
    return [problem.sentence() for problem in check.check(lab, expand.expand(lab))]


@pytest.mark.parametrize("text", [TWO_LINUX, ESXI, EMBEDDED, WINDOWS, RAID, EMBEDDED_RAID, CACHE, EMBEDDED_CACHE])
def test_good_inventories_have_nothing_wrong(text):
    assert sentences(text) == []


def test_lists_in_a_workload_are_a_sweep():
    workloads = "benchmark_workloads: [{block_size: [4k, 64k], queue_depth: [1, 8]}, {block_size: 1m}]"
    assert "testbed_id: lab" in TWO_LINUX
    assert sentences(TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab\n  {workloads}", 1)) == []
    wrong = workloads.replace("64k", "64q")
    [sentence] = sentences(TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab\n  {wrong}", 1))
    assert "block_size is '64q'" in sentence


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inventory_is_told_of_in_these_words(name):
    text, changes, expected = WRONG[name]
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    others = {"testbd_address": ["client01"], "colour": ["client01"]} if name.endswith("in_the_prefix") else {}
    assert sentences(text, others=others) == expected


@pytest.mark.parametrize("word", OLD_WORDS)
def test_every_word_of_an_earlier_release_is_refused_with_what_says_the_same_now(word):
    text = TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab\n  {word}: anything", 1)
    assert sentences(text) == [f"{word} was renamed after 0.3: write {OLD_WORDS[word]}."]
    # What is named is there: a word of the description, or of a role.
    named = re.findall(r"testbed[.]\w+|\b[a-z]+_[a-z_]+(?:[.]\w+)?", OLD_WORDS[word])
    known = {*WORDS, *(name for role in ROLES.values() for name in role), *(f"testbed.{name}" for name in OPTIONS)}
    assert named and [one for one in named if one not in known and one.partition(".")[0] not in WORDS] == []


# What the playbooks hand to the roles, by hand, and the word of an inventory that it follows.
FOLLOWED = {
    "_testbed_id": "testbed_id",
    "_state_dir": "testbed_state_dir",
    "_results_dir": "testbed_results_dir",
    "_run_id": "testbed_run_id",
}
TWINS = [
    (name, word) for role in ROLES.values() for name in role for end, word in FOLLOWED.items() if name.endswith(end)
]
TWINS += [("benchmark_server_deadline_s", "testbed_deadline_s"), ("embedded_lab_state", "testbed_lab_state")]
GOOD_VALUES = {"benchmark_server_deadline_s": "77", "embedded_lab_state": "absent"}


@pytest.mark.parametrize(("name", "word"), TWINS, ids=[name for name, _word in TWINS])
def test_a_word_of_a_role_that_would_split_a_run_is_refused_with_the_right_one(name, word):
    value = GOOD_VALUES.get(name, "mine")
    shown = value if value.isdecimal() else f"'{value}'"
    refused = [f"{name} is {shown}, but the playbooks give all roles {word}: write {word} in its place."]
    everywhere = TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab\n  {name}: {value}", 1)
    assert sentences(everywhere) == refused
    # On one host alone it would split the run, too.
    one = TWO_LINUX.replace("client01: {", f"client01: {{{name}: {value}, ", 1)
    assert sentences(one) == [refused[0].replace(f"{name} is", f"{name} of client01 is")]
    # Reading results splits nothing, but would look elsewhere than was written.
    lab = lab_of(everywhere)
    assert [problem.sentence() for problem in check.check_results(lab, expand.expand(lab))] == refused
    # The same beside the right word says nothing else, and the right word alone is what is meant.
    right = TWO_LINUX.replace("testbed_id: lab", f"testbed_id: {'mine' if word == 'testbed_id' else 'lab'}", 1)
    right = (
        right if word == "testbed_id" else right.replace("testbed_id: lab", f"testbed_id: lab\n  {word}: {value}", 1)
    )
    assert sentences(right) == []
    assert sentences(right.replace("all:\n", f"all:\n  {name}: {value}\n", 1)) == []


def test_the_default_of_a_role_is_no_word_of_the_users():
    for name in ("benchmark_run_id", "benchmark_results_dir", "database_load_run_id", "ramdisk_state_dir"):
        assert sentences(TWO_LINUX.replace("testbed_id: lab", f"testbed_id: lab\n  {name}: ''", 1)) == [], name


def test_a_login_beside_the_testbeds_own_is_refused_and_never_shown():
    """Ansible's values of both are replaced before they are looked at, see inventory.PRESENT_ONLY."""
    text = ESXI.replace(
        "esxi01: {testbed_esxi: {is: set}}", "esxi01: {testbed_esxi: {is: set}, esxi_network_login: %s}"
    )
    assert {"testbed_esxi", "esxi_network_login"} <= set(inventory.PRESENT_ONLY)
    assert sentences(text % "{is: set}") == []
    [sentence] = sentences(text % "{password: secret}")
    assert sentence == (
        "esxi_network_login of esxi01 is set, but the playbooks give all roles testbed_esxi: write testbed_esxi in its place."
    )


def test_there_are_thirty_and_each_is_another():
    assert len(WRONG) >= 30
    told = [tuple(expected) for _text, _changes, expected in WRONG.values()]
    assert len(set(told)) == len(told)


def test_hosts_behind_one_address_answer_at_ports_of_their_own():
    text = TWO_LINUX.replace(
        "{ansible_host: 192.0.2.11}", "{ansible_host: h1, ansible_port: 2201, testbed_address: 192.0.2.11}"
    )
    text = text.replace("{disk: ds1,", "{disk: ds1, hosts: client01,")
    text = text.replace(
        "{ansible_host: 192.0.2.21}",
        "{ansible_host: h1, ansible_port: 2202}\n  client02: {ansible_host: h1, ansible_port: %s}",
    )
    assert sentences(text % 2203) == []
    assert sentences(text % 2202) == [
        "ansible_host of client02 is 'h1', which client01 has, too: give each host its own address in testbed_address."
    ]
    # What every machine calls itself is nobody's address.
    assert sentences(TWO_LINUX.replace("192.0.2.21", "127.0.0.1")) == []


def test_places_on_the_bus_are_for_all_disks_of_a_machine():
    several = EMBEDDED_RAID.replace("count: 3, size: 64MiB", "count: 26, size: 64MiB")
    assert sentences(several) == []
    more = several.replace(
        "{name: ds1, size: 128MiB}",
        "{name: ds1, size: 128MiB}, {name: tier, kind: raid, raid: {level: 0, emulated: {count: 3, size: 8MiB}}}",
    )
    [sentence] = sentences(more)
    assert (
        "count is 26, but a machine of the embedded lab has room for 28 such disks, and target01 would have 29"
        in sentence
    )


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, []),
        ({"initiators": ["c9"]}, ["c9 is in no group"]),
        ({"web": [f"w{place}" for place in range(8)]}, ["w0, w1, w2, w3, w4 and 3 more are in no group"]),
    ],
)
def test_hosts_that_no_playbook_does_anything_with_are_named(more, names):
    lab = lab_of(TWO_LINUX)
    lab["groups"] |= more
    lab["hosts"] |= {name: dict(lab["hosts"]["client01"]) for members in more.values() for name in members}
    for place, name in enumerate(name for members in more.values() for name in members):
        lab["hosts"][name]["ansible_host"] = f"198.51.100.{place}"
    testbed = expand.expand(lab)
    assert [problem.sentence() for problem in check.check(lab, testbed)] == []
    remarks = groups.remarks(lab, testbed)
    assert len(remarks) == len(names) and all(name in remark for name, remark in zip(names, remarks))


def measured(**workload):
    """The workloads of a lab that is measured so everywhere."""
    return {host: [normalise({}), normalise(workload)] for host in ("store01", "client01")}


def test_buffers_that_do_not_fit_beside_the_ram_disks_are_told_with_the_arithmetic():
    facts = {"store01": {"memory_mib": 4096}, "client01": {"memory_mib": 1024}}
    fits = measured(block_size="1m", queue_depth=64, workers=13)
    assert sentences(TWO_LINUX, facts=facts, workloads=fits) == []
    # 14 × 64 × 1 MiB: 3072 + 896 + 192 MiB are more than the target's 4096, and 896 + 192 MiB more than the client's 1024.
    assert sentences(TWO_LINUX, facts=facts, workloads=measured(block_size="1m", queue_depth=64, workers=14)) == [
        "memory of store01 is 4 GiB, but its RAM disks take 3 GiB, the buffers of 1m-r100-rnd100-qd64-w14: 14 workers × 64 in flight × 1024 KiB "
        "take 896 MiB and the system needs 192 MiB: make the disks smaller, lower queue_depth, workers or block_size, or give the host more memory.",
        "memory of client01 is 1 GiB, but the buffers of 1m-r100-rnd100-qd64-w14: 14 workers × 64 in flight × 1024 KiB "
        "take 896 MiB and the system needs 192 MiB: lower queue_depth, workers or block_size, or give the host more memory.",
    ]


def test_what_would_be_measured_is_worked_out_from_profiles_and_what_replaces_their_values():
    own = {
        "a": {"benchmark_profile": "e2_numjobs", "benchmark_workload": {"queue_depth": 8}},
        "b": {"benchmark_profile": "e2_numjobs", "benchmark_sweep": {"block_size": ["4m"]}},
        "c": {"benchmark_workloads": [{"block_size": "8k"}], "benchmark_sweep": {"workers": [3, 5]}},
        "d": {"benchmark_profile": "no_such_profile"},
        "e": {},
    }
    greatest = {host: greatest_buffers(found)[0] for host, found in inventory.workloads(own).items()}
    assert greatest == {"a": 4 * 8 * 16384, "b": 4 * 64 * 4194304, "c": 5 * 8192, "d": 0, "e": 0}


def test_facts_of_the_hosts_are_held_against_it():
    assert sentences(TWO_LINUX, facts={"store01": {"addresses": ["192.0.2.11", "10.0.0.1"], "memory_mib": 8192}}) == []
    assert sentences(TWO_LINUX, facts={"store01": {"addresses": ["10.0.0.1"], "memory_mib": 3072}}) == [
        "ansible_host of store01 is '192.0.2.11', which is none of the addresses of store01: use 10.0.0.1.",
        "memory of store01 is 3 GiB, but its RAM disks take 3 GiB and the system needs 192 MiB: make the disks smaller, or give the host more memory.",
    ]


def test_no_sentence_shows_a_secret():
    text = TWO_LINUX.replace("    disks:", "    chap_password: [se, cret]\n    disks:")
    assert sentences(text) == ["testbed.chap_password is of another kind: write a text."]
