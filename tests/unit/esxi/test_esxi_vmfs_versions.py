# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentence about a host that proposes no VMFS of the version that is described, by what it proposes of the other one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.datastore import Datastores

DEVICE, NAA = "/vmfs/devices/disks/naa.6001405aa17", "6001405aa17"


class AllExtentInfo:
    """The proposal for a whole device, as the API calls it."""


class InvalidArgument(Exception):
    pass


class Host:
    """Proposals by version; a version that is not in them is refused as an argument."""

    def __init__(self, proposals: dict):
        self.proposals, self.asked = proposals, []

    def QueryVmfsDatastoreCreateOptions(self, device: str, version: int) -> list:
        assert device == DEVICE
        self.asked.append(version)
        if version not in self.proposals:
            raise InvalidArgument
        return [SimpleNamespace(info=info, spec=f"spec {version}") for info in self.proposals[version]]


def stores(proposals: dict) -> Datastores:
    made = object.__new__(Datastores)
    option = SimpleNamespace(AllExtentInfo=AllExtentInfo)
    made.system = Host(proposals)
    made.session = SimpleNamespace(
        about={"product": "VMware ESXi 9.9.17 build-4711"},
        vim=SimpleNamespace(host=SimpleNamespace(VmfsDatastoreOption=option)),
        vmodl=SimpleNamespace(fault=SimpleNamespace(InvalidArgument=InvalidArgument)),
    )
    return made


WANT = {"name": "ram", "naa": NAA}


@pytest.mark.parametrize("missing", [{}, {5: []}, {5: [object()]}], ids=["refused", "none", "only a part of the disk"])
def test_a_host_without_vmfs_5_says_so(missing):
    with pytest.raises(Failure) as caught:
        stores({6: [AllExtentInfo()], **missing}).offer({"device": DEVICE}, {**WANT, "version": 5})
    assert caught.value.code == "version_not_offered"
    assert caught.value.what == f"VMware ESXi 9.9.17 build-4711 offers VMFS 6 on {NAA}, and no VMFS 5."
    assert caught.value.remedy == "Set version to 6 for the datastore ram."


@pytest.mark.parametrize("version", [5, 6])
def test_a_lun_on_which_no_version_is_offered_may_be_too_small(version):
    with pytest.raises(Failure) as caught:
        stores({5: [], 6: []}).offer({"device": DEVICE}, {**WANT, "version": version})
    assert caught.value.code == "device_unfit" and "may be too small" in caught.value.what


def test_what_is_offered_is_taken_and_no_other_version_is_asked_for():
    made = stores({5: [AllExtentInfo()], 6: [AllExtentInfo()]})
    assert made.offer({"device": DEVICE}, {**WANT, "version": 5}) == "spec 5"
    assert made.system.asked == [5]
