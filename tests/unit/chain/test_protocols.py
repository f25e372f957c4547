# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One word of the description makes a testbed of iSCSI one of NVMe: same disks and layers, other providers, names that fit, and what does not go with it."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, doctor, drawing, expand
from chain_lab import ESXI, TWO_LINUX, expanded, lab_of

NVME = TWO_LINUX.replace("    disks:\n", "    protocol: nvme\n    chap: none\n    disks:\n")
TARGET, CLIENT = "store01", "client01"


def exports(testbed) -> list:
    return testbed.hosts[TARGET].variables["iscsi_target_targets"]


def test_the_layers_are_those_of_iscsi():
    nvme, iscsi = expanded(NVME), expanded(TWO_LINUX)
    shape = [[(layer["name"], layer["host"], layer["parent"]) for layer in lab.layers] for lab in (nvme, iscsi)]
    assert shape[0] == shape[1] and [disk.loopback for disk in nvme.disks] == [disk.loopback for disk in iscsi.disks]


def test_both_ends_get_the_kernels_providers_and_the_port_of_nvme():
    nvme, iscsi = expanded(NVME), expanded(TWO_LINUX)
    providers = [
        (
            lab.hosts[TARGET].variables["iscsi_target_provider"],
            {lab.hosts[name].variables["iscsi_initiator_provider"] for name in (TARGET, CLIENT)},
            {portal["port"] for export in exports(lab) for portal in export["portals"]},
        )
        for lab in (nvme, iscsi)
    ]
    assert providers == [("nvmet", {"nvme_tcp"}, {4420}), ("lio", {"open_iscsi"}, {3260})]
    other = expanded(NVME.replace("protocol: nvme", "protocol: nvme\n    port: 4499"))
    assert {portal["port"] for export in exports(other) for portal in export["portals"]} == {4499}


def test_disks_that_others_see_are_in_another_subsystem():
    seen = {
        export["name"].rpartition(":")[2]: (
            [lun["name"] for lun in export["luns"]],
            [entry["iqn"].rpartition(":")[2] for entry in export["initiators"]],
        )
        for export in exports(expanded(NVME))
    }
    # The raw disk is seen by the target itself, too; the disk of a datastore is not.
    assert seen == {
        "store01": (["bench"], ["client01", "store01-loopback"]),
        "store01-2": (["ds1"], ["client01"]),
    }
    assert all("luns" not in entry for export in exports(expanded(NVME)) for entry in export["initiators"])
    sessions = {name: expanded(NVME).hosts[name].variables["iscsi_initiator_targets"] for name in (TARGET, CLIENT)}
    assert [[lun["name"] for lun in entry["luns"]] for entry in sessions[CLIENT]] == [["bench"], ["ds1"]]
    assert [[lun["name"] for lun in entry["luns"]] for entry in sessions[TARGET]] == [["bench"]]


def test_the_doctor_asks_for_the_modules_and_for_no_program_of_iscsi():
    testbed = expanded(NVME)
    for name, modules in ((TARGET, {"nvmet", "nvmet_tcp", "nvme_tcp"}), (CLIENT, {"nvme_tcp"})):
        wanted = doctor.needs(testbed, name)
        assert modules <= set(wanted["modules"]) and "iscsiadm" not in wanted["commands"]
        assert not {"iscsi_tcp", "target_core_mod"} & set(wanted["modules"])


def test_the_drawing_says_which_namespace_it_is():
    lines = "\n".join(drawing.draw(expanded(NVME)))
    assert "namespace 1 of nqn.2026-11.test.storlab:lab:store01" in lines and "iqn." not in lines
    assert "LUN 0 of iqn.2026-11.test.storlab:lab:store01" in "\n".join(drawing.draw(expanded(TWO_LINUX)))


def refused(text: str) -> list:
    lab = lab_of(text)
    return [problem.sentence() for problem in check.check(lab, expand.expand(lab))]


def test_only_linux_hosts_have_it():
    wrong = refused(ESXI.replace("    disks: [", "    protocol: nvme\n    disks: ["))
    assert {line.split(":")[0] for line in wrong if "protocol" in line} == {
        f"testbed.protocol is 'nvme', but {name} runs ESXi" for name in ("esxi01", "esxi02")
    }
    assert not [line for line in refused(ESXI) if "protocol" in line]


@pytest.mark.parametrize(("text", "provider", "other"), [(NVME, "lio", "iscsi"), (TWO_LINUX, "nvmet", "nvme")])
def test_a_provider_of_the_other_protocol_is_refused(text, provider, other):
    wrong = refused(text.replace("192.0.2.11}", f"192.0.2.11, iscsi_target_provider: {provider}}}"))
    assert any(f"'{provider}', which does not go with testbed.protocol" in line for line in wrong)
    assert any(f"set testbed.protocol: {other}" in line for line in wrong)


def test_a_namespace_has_no_number_zero():
    (sentence,) = refused(NVME.replace("size: 1GiB", "size: 1GiB, lun: 0"))
    assert sentence == "LUN number of bench on store01 is 0, which is no namespace of NVMe: number from 1."


def test_luns_of_others_over_iscsi_are_refused_beside_it():
    existing = "    existing: [{name: old, kind: iscsi, portal: 192.0.2.99, iqn: 'iqn.2000-01.com.x:a', naa: '60000000000000000000000000000001'}]\n"
    assert any(
        "testbed.existing[0].kind" in line for line in refused(NVME.replace("    disks:\n", f"{existing}    disks:\n"))
    )
    assert not any("kind" in line for line in refused(TWO_LINUX.replace("    disks:\n", f"{existing}    disks:\n")))
