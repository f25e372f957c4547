# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the description: the variable ``testbed``, what else an inventory may say, and words of earlier releases.

The words of ``testbed`` are defined in doc_fragments/testbed.py alone: the manual page, the check and the JSON schema are made from it.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from ...doc_fragments.testbed import ModuleDocFragment

# Texts with a number and a unit, which become MiB; and what is never shown.
SIZES = ("size", "benchmark_file", "disk_size", "memory")
SECRETS = ("chap_password", "mutual_chap_password")


def _typed(options: dict[str, Any]) -> dict[str, Any]:
    for name, option in options.items():
        if name in SIZES:
            option["type"] = "size"
        if name in SECRETS:
            option["no_log"] = True
        _typed(option.get("suboptions", {}))
    return options


OPTIONS = _typed(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["testbed"]["suboptions"])

# The words of an ESXi host for the network of its iSCSI.
NETWORK: dict[str, Any] = {
    "uplinks": {
        "type": "list",
        "elements": "str",
        "required": True,
        "description": "Its physical adapters for iSCSI, such as vmnic2.",
    },
    "addresses": {
        "type": "list",
        "elements": "str",
        "required": True,
        "description": "An IPv4 address for each of them, in their order, with the length of its network, such as 192.0.2.21/24.",
    },
    "mtu": {"type": "int", "default": 1500, "description": "MTU of the switch and the interfaces in bytes."},
    "vlan": {"type": "int", "default": 0, "description": "The VLAN of the interfaces; 0 for none."},
    "switch": {
        "type": "str",
        "description": "A switch that is there and has these uplinks; it stays as it is. By default one is made.",
    },
}

# The variables of an inventory beside testbed and the roles' variables. Whoever adds one adds it here.
TEXT, BOOL, LIST, DICT, ANY = {"type": "str"}, {"type": "bool"}, {"type": "list"}, {"type": "dict"}, {"type": "raw"}
WORDS: dict[str, dict[str, Any]] = {
    "testbed": {"type": "dict", "description": "The storage of the testbed."},
    "testbed_id": {**TEXT, "description": "Name of the testbed."},
    "testbed_home": {**TEXT, "description": "A folder of your own to name others by."},
    "testbed_state_dir": {**TEXT, "description": "Folder on the controller that keeps the testbed's state."},
    "testbed_results_dir": {**TEXT, "description": "Folder on the controller that keeps the results of all testbeds."},
    "testbed_run_id": {
        **TEXT,
        "description": "Name of the run. By default the time it starts; for reports the latest one.",
    },
    "testbed_address": {
        **ANY,
        "description": "The host's address in the storage network, or a list of them, one per path. By default ansible_host.",
    },
    "testbed_esxi": {
        **DICT,
        "description": "How an ESXi host is reached: the login options of storlab.testbed.esxi_state.",
    },
    "testbed_network": {
        **DICT,
        "description": "The network of an ESXi host for its iSCSI: switch, port groups and VMkernel interfaces are made, and bound (docs/esxi.md).",
        "suboptions": NETWORK,
    },
    "testbed_windows": {**BOOL, "description": "Whether the host runs Windows. By default as ansible_connection says."},
    "testbed_take_over": {
        **TEXT,
        "description": "Whose lock of the testbed to replace, as testbed_busy names it, once that certainly is gone.",
    },
    "testbed_verify_ignore": {**LIST, "description": "Patterns of what verify_clean does not look at."},
    "testbed_allow_device": {
        **LIST,
        "description": "Devices that a build may overwrite though they are not blank, by serial, NAA, WWID, UUID or path (docs/safety.md).",
    },
    "testbed_lab_state": {**TEXT, "description": "Whether the embedded machines shall be there: present or absent."},
    "testbed_counters": {**TEXT, "description": "State of storlab.testbed.esxi_counters."},
    "testbed_many_hosts": {**TEXT, "description": "Hosts that benchmark_many measures."},
    "testbed_coordinator": {**TEXT, "description": "The host that coordinates benchmark_many."},
    "testbed_e1": {
        **DICT,
        "description": "The disks of experiment E1, and what is scaled down (docs/experiments/e1_two_datastores.md).",
    },
    "testbed_e1_windows": {
        **DICT,
        "description": "Machine, second datastore, guests and sizes of experiment E1 on ESXi and Windows (docs/experiments/e1_windows_esxi.md).",
    },
    "testbed_e2": {
        **DICT,
        "description": "The scaled-down parts of experiment E2: disk, file, block_sizes, jobs, random, read and workload (docs/experiments/e2_ram_disk.md).",
    },
    "testbed_e3": {
        **DICT,
        "description": "The guest of experiment E3, and what is scaled down (docs/experiments/e3_vmfs_rdm.md).",
    },
    "testbed_e4": {
        **DICT,
        "description": "The slow and the fast disk of experiment E4, and what is scaled down (docs/experiments/e4_server_side_cache.md).",
    },
    "testbed_e5": {
        **DICT,
        "description": "The drives of experiment E5, and what is scaled down (docs/experiments/e5_raid0_surfaces.md).",
    },
    "testbed_experiments": {
        **LIST,
        "description": "Which experiments experiments.all repeats. By default all of them (docs/experiments/all.md).",
    },
    "testbed_installation": {
        **DICT,
        "description": "The Debian that os_installation installs in Linux guests: packages, repetitions and timeout_s (docs/os_installation.md).",
    },
    "testbed_deadline_s": {
        "type": "int",
        "description": "After how many seconds observers and servers end by themselves.",
    },
    "testbed_baseline": {**ANY, "description": "The run that compare starts from, or a list of three or more."},
    "testbed_candidate": {**ANY, "description": "The run that compare judges, or a list of three or more."},
    "testbed_candidates": {
        **DICT,
        "description": "In the place of testbed_candidate several of them by name, each against the same baseline in one table.",
    },
    "testbed_gate": {
        **DICT,
        "description": "The baseline and the candidate that the playbook gate measures in turns (docs/comparison.md).",
    },
    "testbed_failover": {
        **DICT,
        "description": "The settings and events that the playbook failover measures in turns (docs/failover.md).",
    },
    "testbed_under_test": {**LIST, "description": "Facts that are meant to differ between two runs."},
    "testbed_compare_fail_on": {**LIST, "description": "Verdicts that make compare fail."},
    "testbed_compare_margin_percent": {**ANY, "description": "Differences up to this do not matter."},
    "testbed_compare_metrics": {**LIST, "description": "Metrics to compare."},
    "testbed_compare_statements": {
        **LIST,
        "description": "Sentences of others about the comparison, which compare answers with yes, no or cannot tell.",
    },
    "testbed_results_where": {
        "type": "dict",
        "description": "Which stored points the playbook results summarises: the option where of storlab.testbed.results_query.",
    },
    "testbed_results_by": {**LIST, "description": "Facts that the playbook results groups stored points by."},
    "testbed_results_runs": {
        **LIST,
        "description": "Names of the runs that the playbook results reads. By default all.",
    },
    "testbed_compare_scrub": {**BOOL, "description": "Pseudonyms in the place of names and addresses."},
}

# Variables that every play gives all roles alike; the word of one role would reach its own plays alone: {end of a role's variable: the right word}.
LAB_WIDE = {
    "testbed_id": "testbed_id",
    "state_dir": "testbed_state_dir",
    "results_dir": "testbed_results_dir",
    "run_id": "testbed_run_id",
}
# The same for single variables of roles.
PLAYBOOK_WORDS = {
    "benchmark_server_deadline_s": "testbed_deadline_s",
    "embedded_lab_state": "testbed_lab_state",
    "esxi_network_login": "testbed_esxi",
}


def lab_wide_words(roles: dict[str, Any]) -> dict[str, str]:
    """{variable of a role: the word of the whole testbed that the playbooks follow in its place}."""
    ends = {f"{role}_{end}": word for role in roles for end, word in LAB_WIDE.items()}
    known = {name for options in roles.values() for name in options}
    return {name: word for name, word in {**ends, **PLAYBOOK_WORDS}.items() if name in known}


# Words of release 0.3 and earlier, and what says the same now.
OLD_WORDS = {
    "testbed_disks": "testbed.disks, or ramdisk_disks of the target",
    "testbed_iqn_prefix": "testbed.iqn_prefix",
    "testbed_portal": "testbed_address of the target and testbed.port",
    "testbed_chap_secret": "testbed.chap_password",
    "testbed_mutual_chap_secret": "testbed.mutual_chap_password",
    "testbed_targets": "testbed.disks, or iscsi_target_targets of the target",
    "testbed_initiator_name": "iscsi_initiator_name",
    "testbed_initiator_provider": "iscsi_initiator_provider",
    "testbed_sessions": "testbed.disks, or iscsi_initiator_targets",
    "testbed_layer_suffix": "iscsi_initiator_layer_suffix",
    "testbed_datastore_provider": "datastore_provider",
    "testbed_datastores": "testbed.datastores, or datastore_datastores",
    "testbed_guest_provider": "guest_vm_provider",
    "testbed_guests": "testbed.guests, or guest_vm_guests",
    "testbed_report_scrub": "report_scrub",
    "testbed_report_static": "report_static",
    "testbed_server_hosts": "benchmark_server_layer of the hosts that serve",
    "testbed_server_layer": "benchmark_server_layer",
    "testbed_server_address": "benchmark_server_address, or testbed_address",
    "testbed_server_port": "benchmark_server_port",
    "testbed_benchmark_windows": "benchmark_windows",
    "testbed_benchmark_windows_download": "benchmark_windows_download",
    "testbed_esxi_address": "testbed_esxi.hostname",
    "testbed_esxi_name": "testbed_esxi.esxi_host",
    **{
        f"testbed_{name}": f"benchmark_{name}"
        for name in (
            "engine",
            "ceiling",
            "profile",
            "profile_dirs",
            "workload",
            "workloads",
            "sweep",
            "exclude",
            "repetitions",
            "order",
            "seed",
            "variants",
            "prepare",
            "steady_state",
            "series",
            "search",
        )
    },
}

# The other variables of a host that matter here.
CONNECTION = ("ansible_host", "ansible_port", "ansible_connection", "ansible_shell_type")

GROUPS = ("targets", "hypervisors", "clients", "guests")
# The names that others give these groups.
ALSO_CALLED = {
    "initiators": ("clients", "hypervisors"),
    "servers": ("targets",),
    "storage": ("targets",),
    "storage_servers": ("targets",),
    "esxi": ("hypervisors",),
    "vms": ("guests",),
}
# Derived, unless the inventory has them.
OTHER_GROUPS = ("guest_hosts", "controllers", "embedded_controllers", "machines")

_SIZE = re.compile(r"\s*(\d+)\s*(MiB|GiB|TiB)\s*")
_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}


def size_mib(value: Any) -> int | None:
    """MiB of a text such as 128MiB; None when it is not such a text, or nothing at all."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _MIB[match[2]] or None if match else None


def size_text(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
