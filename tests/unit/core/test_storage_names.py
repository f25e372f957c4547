# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and identities: the same for the same testbed, and never the same for two."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import iscsi_names as names
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports.tgt import wwid


def test_serials_are_stable():
    """Changing them would make every existing testbed's disks others'."""
    assert names.unit_serial("stor", "bench") == "a77a1836191159e1a847ae920e7ccffa"
    assert names.filesystem_uuid("stor", "ds1") == "327b06db-3e35-59ae-906a-41db80bdc037"


def test_every_testbed_and_lun_has_another_serial():
    pairs = [("a", "b-c"), ("a-b", "c"), ("a", "c"), ("b", "c"), ("ab", "c")]
    assert len({names.unit_serial(*pair) for pair in pairs}) == len(pairs)
    assert len({names.scsi_id(*pair) for pair in pairs}) == len(pairs)


def test_new_contents_have_another_identity_and_the_same_contents_the_same():
    def identities(generation):
        serial = names.unit_serial("stor", "bench", generation)
        scsi = names.scsi_id("stor", "bench", generation)
        return serial, names.lio_naa(serial), scsi, wwid("stor", "bench", generation)

    old, new, none = (identities(generation) for generation in ("0a1b2c3d4e5f", "0a1b2c3d4e60", None))
    assert all(len({*each}) == 3 for each in zip(old, new, none))
    assert identities("0a1b2c3d4e5f") == old
    assert len(old[2]) <= 36


def test_naa_is_what_the_kernel_derives():
    """Read from a Linux 6.1 initiator logged in to LIO and to tgt 1.0.85 with these serials."""
    assert names.lio_naa("a77a1836191159e1a847ae920e7ccffa") == "6001405a77a1836191159e1a847ae920"
    assert names.lio_naa("18dc641507bf58a8b0a02ae9bddf83a4") == "600140518dc641507bf58a8b0a02ae9b"
    assert names.scsi_id("mtgt", "t1") == "storlab-7d29fe78f19c51de566bd8ee"
    assert wwid("mtgt", "t1") == "naa.60000ab07d29fe78f19c51de566bd8ee"


@pytest.mark.parametrize(
    "name",
    [
        "iqn.2026-01.lab.example:bench",
        "iqn.2026-12.example",
        "eui.0123456789ABCDEF",
        "naa.600140518dc641507bf58a8b0a02ae9b",
    ],
)
def test_good_names(name):
    assert names.check_iqn("x", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "bench",
        "iqn.2026-13.example:a",
        "iqn.2026-1.example:a",
        "iqn.2026-01.Example:a",
        "iqn.2026-01.example:a b",
        "iqn.2026-01.example:a/../b",
        "iqn.2026-01.example:" + "a" * 220,
    ],
)
def test_bad_names_are_refused_by_variable_and_value(name):
    with pytest.raises(Failure) as caught:
        names.check_iqn("iscsi_initiator_name", name)
    assert caught.value.code == "bad_value"
    assert "iscsi_initiator_name" in str(caught.value) and repr(name) in str(caught.value)


# As arrays and hosts of many makers are called; host names and numbers made up.
REAL = [
    "iqn.2000-01.com.synology:DS900.Target-1.0f0e0d0c",
    "iqn.2000-01.com.synology:Lab.default-target.ab12",
    "iqn.2004-04.com.qnap:tvs-7:iscsi.vol-b.0a0b0c",
    "iqn.2005-10.org.freenas.ctl:esxi",
    "iqn.1992-08.com.netapp:sn.101174599",
    "iqn.1992-08.com.netapp:sn.0a1b2c:vs.4",
    "iqn.2003-01.org.linux-iscsi.host.x8664:sn.aabbccddee00",
    "iqn.2001-05.com.equallogic:0-8a0906-8a2d9b304-vol2",
    "iqn.2009-9.lab:XRAID2.iscsi1.vg0",
    "iqn.1991-05.com.microsoft:stor2-Target2-target",
    "iqn.2010-10.org.openstack:volume-0ea2a6f0-609b",
    "iqn.2021-09.15.com.lab.tape",
    "iqn.2016-01-com.lab.tg2",
    "iqn.1998-01.com.vmware:ESX-07-4c1fe29e",
    "iqn.1993-08.org.debian:01:a_b",
    "IQN.2026-01.lab.example:bench",
    "eui.0123456789ABCDEF",
]


@pytest.mark.parametrize("name", REAL)
def test_names_of_others_are_taken_as_they_are(name):
    assert names.check_known_iqn("x", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "bench",
        "iqn.2026.example:a",
        "iqn.26-01.example:a",
        "iqn.2026-01.",
        "iqn.2026-01.example:a b",
        "iqn.2026-01.example:a/../b",
        "iqn.2026-01.example:a*",
        "iqn.2026-01.example:a\n",
        "iqn.2026-01.-a",
        "iqn.2026-01.example:" + "a" * 220,
        "eui.0123",
    ],
)
def test_names_that_nobody_has_are_refused_by_variable_and_value(name):
    with pytest.raises(Failure) as caught:
        names.check_known_iqn("iscsi_initiator_targets iqn", name)
    assert caught.value.code == "bad_value"
    assert "iscsi_initiator_targets iqn" in str(caught.value) and repr(name) in str(caught.value)


def test_names_that_differ_by_case_only_are_the_same():
    assert names.same_iqn("iqn.2000-01.com.synology:Lab.A", "iqn.2000-01.com.synology:lab.a")
    assert not names.same_iqn("iqn.2000-01.com.synology:lab.a", "iqn.2000-01.com.synology:lab.a2")
    assert not names.same_iqn("iqn.2000-01.com.synology:lab.a", None) and names.same_iqn(None, "")
    known = ["iqn.a:X", "iqn.a:Lab.A"]
    assert (names.spelled("iqn.a:lab.a", known), names.spelled("iqn.a:lab.b", known)) == ("iqn.a:Lab.A", "iqn.a:lab.b")


def test_portals_are_addresses():
    assert names.portal_address("p", "10.1.2.3") == "10.1.2.3"
    assert names.portal_text(names.portal_address("p", "fd00:0::1"), 3260) == "[fd00::1]:3260"
    assert names.portal_address("p", "0.0.0.0", allow_any=True) == "0.0.0.0"  # noqa: S104
    for address in ("0.0.0.0", "::", "target01", "10.1.2.300", ""):  # noqa: S104
        with pytest.raises(Failure, match="p is"):
            names.portal_address("p", address)


GOOD = {
    "chap_user": "in",
    "chap_password": "secret-inward-1",
    "mutual_chap_user": "out",
    "mutual_chap_password": "secret-outward-2",
}


def test_good_chap():
    names.check_chap("t", GOOD, allow_none=False)
    names.check_chap("t", {**GOOD, "mutual_chap_user": None, "mutual_chap_password": None}, allow_none=False)
    names.check_chap("t", {}, allow_none=True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"chap_password": None}, "chap_password"),
        ({"chap_password": "short-11-ch"}, "11 characters"),
        ({"chap_password": "with a blank in it"}, "blanks"),
        ({"mutual_chap_password": "secret-inward-1"}, "same"),
        ({"mutual_chap_user": None}, "mutual_chap_user"),
        ({"chap_user": None, "chap_password": None}, "Mutual CHAP"),
        (
            {"chap_user": None, "chap_password": None, "mutual_chap_user": None, "mutual_chap_password": None},
            "iscsi_target_allow_no_chap",
        ),
    ],
)
def test_bad_chap_is_refused_without_telling_the_secret(change, named):
    entry = {**GOOD, **change}
    with pytest.raises(Failure) as caught:
        names.check_chap("t", entry, allow_none=False)
    assert named in str(caught.value)
    for key in ("chap_password", "mutual_chap_password"):
        assert not entry[key] or entry[key] not in str(caught.value) + str(caught.value.details)
