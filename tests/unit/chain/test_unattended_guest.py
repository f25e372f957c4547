# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest of an ESXi host on which Windows Server installs itself, as experiment E1 makes its Windows machine."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import drawing
from chain_lab import expanded

PASSWORD, KEY = "sl-Windows-pw-4401", "AAAA4-BBBB4-CCCC0-DDDD1-EEEE2"
LAB = f"""
all:
  testbed_id: lab
  testbed:
    disks: []
    existing: [{{name: local1, kind: esxi_datastore, hosts: [esxi01], access: write}}]
    guests:
      - name: windows
        host: win01
        datastore: local1
        disk_size: 40GiB
        memory: 12GiB
        vcpus: 2
        esxi:
          guest_id: windows8Server64Guest
          iso: {{src: /images/windows.iso}}
          unattended: {{administrator_password: {PASSWORD}, product_key: {KEY}, image_index: 2, address: 192.0.2.11/24}}
targets: {{win01: {{testbed_windows: true, ansible_connection: psrp, ansible_host: 192.0.2.11}}}}
hypervisors: {{esxi01: {{testbed_esxi: {{is: set}}}}}}
guests: {{win01: null}}
"""


def test_it_gets_a_disk_and_a_card_that_windows_has_drivers_for():
    testbed = expanded(LAB)
    [guest] = testbed.hosts["esxi01"].variables["guest_vm_guests"]
    [disk] = guest["esxi"]["disks"]
    assert (disk["name"], disk["controller"], disk["size_mib"], disk["datastore"]) == ("system", "ide", 40960, "local1")
    assert guest["esxi"]["nics"] == [{"network": "VM Network", "type": "e1000e"}]
    assert (guest["memory_mib"], guest["vcpus"], guest["address"]) == (12288, 2, "192.0.2.11")


def test_its_disk_is_no_layer_unless_a_measured_one_is_named():
    assert [layer["name"] for layer in expanded(LAB).layers] == ["datastore-local1"]
    disks = "disks: [{name: system, size_mib: 40960, controller: ide}, {name: data, size_mib: 64}], data_disk: data"
    more = LAB.replace(
        "guest_id: windows8Server64Guest", f"{disks.replace(', data_disk', chr(10) + '          data_disk')}"
    )
    assert "guest-windows" in [layer["name"] for layer in expanded(more).layers]


def test_neither_password_nor_key_is_shown():
    text = drawing.as_yaml(expanded(LAB))
    assert PASSWORD not in text and KEY not in text and "image_index: 2" in text
