# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs for tests of the description of a testbed, and what they become."""

from __future__ import annotations

import copy

import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, expand, inventory
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.testbed import Testbed

SECRETS = {"chap": "sixteen-letters1", "mutual_chap": "fifteen-letter2", "nbd": "letters-of-both-sides-of-nbd-0123"}
ROLES = inventory.role_options()


def lab_of(text: str, **more) -> dict:
    """A lab from YAML: groups, each {host: variables}, and all, the variables of all hosts."""
    content = yaml.safe_load(text)
    everywhere = content.pop("all", None) or {}
    groups = {group: list(members or {}) for group, members in content.items()}
    hosts = {}
    for members in content.values():
        for host, own in (members or {}).items():
            hosts[host] = {**hosts.get(host, copy.deepcopy(everywhere)), **(own or {})}
    return {
        "groups": groups,
        "hosts": hosts,
        "base_dir": "/labs",
        "secrets": SECRETS,
        "roles": ROLES,
        "profiles": ["four_corners", "e1_ramdisk"],
        **more,
    }


def expanded(text: str, **more) -> Testbed:
    """The testbed, which has nothing wrong."""
    lab = lab_of(text, **more)
    before = copy.deepcopy(lab)
    testbed = expand.expand(lab)
    assert [problem.sentence() for problem in check.check(lab, testbed)] == []
    assert lab == before, "expanding changes nothing that it was given"
    return testbed


TWO_LINUX = """
all:
  testbed_id: lab
  testbed:
    disks:
      - {name: bench, size: 1GiB}
      - {name: ds1, size: 2GiB}
    datastores: [{disk: ds1, benchmark_file: 512MiB}]
targets:
  store01: {ansible_host: 192.0.2.11}
clients:
  client01: {ansible_host: 192.0.2.21}
"""
EMBEDDED = """
all: {embedded_lab_dir: /lab, embedded_lab_netns: netns1, embedded_lab_image_dir: /images, testbed_id: two, testbed: {
  disks: [{name: ds1, size: 256MiB}], datastores: [{disk: ds1}], nbd: plain, guests: [{name: g1, datastore: ds1, disk_size: 48MiB, memory: 320MiB}]}}
targets: {t1: }
hypervisors: {h1: }
guests: {g1: }
embedded_controllers: {c1: }
"""
ESXI = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: bench, size: 8GiB}, {name: ds1, size: 8GiB}]
    datastores: [{disk: ds1}]
    guests: [{name: guest01, datastore: ds1, disk_size: 2GiB, memory: 8GiB, vcpus: 4, esxi: {template: win, datastore: local1}}]
targets: {target01: {ansible_host: 192.0.2.11}}
hypervisors:
  esxi01: {testbed_esxi: {is: set}}
  esxi02: {testbed_esxi: {is: set}}
guests: {guest01: {ansible_host: guest01.lab.example, ansible_connection: psrp}}
"""
