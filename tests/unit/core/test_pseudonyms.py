# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.pseudonyms import Pseudonyms
from hypothesis import given
from hypothesis import strategies as st

KEY = b"a key of the tests"
# Identifying texts, and the form that the replacement must have.
IDENTIFYING = {
    "naa.600508b1001c7a6f3b2e9d4c5a6b7c8d": r"naa\.600508b[0-9a-f]{25}",
    "eui.3b9dbd700e88a495000c29b089e6b102": r"eui\.3b9dbd7[0-9a-f]{25}",
    "t10.ATA_____SAMSUNG_S467NX0M": r"t10\.[A-Z]{3}_____[A-Z]{7}_[A-Z]\d{3}[A-Z]{2}\d[A-Z]",
    "iqn.1998-01.com.vmware:esx7-4f3a": r"iqn\.1998-01\.com\.vmware:[a-z]{3}\d-\d[a-z]\d[a-z]",
    "iqn.2009-9.org.acme.disks:lun": r"iqn\.2009-9\.com\.example:[a-z]{3}",
    "3f8b1c2d-1a2b-3c4d-5e6f-7a8b9c0d1e2f": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "5f3a1b2c-8d9e0f1a-2b3c-0050569a8b7c": r"[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}",
    "00:50:56:9A:8b:7c": r"00:50:56:[0-9A-F]{2}(:[0-9a-f]{2}){2}",
    "10.20.30.40": r"198\.1[89]\.\d+\.\d+",
    "fd00:1:2::7": r"2001:db8::[0-9a-f]+:[0-9a-f]+",
    "ann@lab.acme.com": r"[a-z]{3}@example\.com",
    "AAAAA-BBBBB-CCCCC-DDDDD-12345": r"(0{5}-){4}0{5}",
}
PLAIN = (
    "8.0.3",
    "255.255.255.0",
    "127.0.0.1",
    "0.0.0.0",  # noqa: S104
    "vmhba64",
    "VMware ESXi 8.0.3 build-24280767",
    "key-vim.host.BlockHba-vmhba2",
    "0000:03:00.0",
)


@pytest.mark.parametrize("text", IDENTIFYING)
def test_what_identifies_has_another_of_its_form(text):
    whole = Pseudonyms(KEY).text(f"a {text}, b <x>{text}</x>")
    new = re.fullmatch(r"a (.*), b <x>(.*)</x>", whole)
    assert new.group(1) == new.group(2) != text
    assert re.fullmatch(IDENTIFYING[text], new.group(1)), new.group(1)


@pytest.mark.parametrize("text", PLAIN)
def test_what_identifies_nobody_stays(text):
    assert Pseudonyms(KEY).text(f"<v>{text}</v>") == f"<v>{text}</v>"


def test_a_version_is_no_address():
    assert Pseudonyms(KEY).text("<apiVersion>8.0.2.0</apiVersion><ip>8.0.2.0</ip>").startswith("<apiVersion>8.0.2.0<")
    assert "<ip>8.0.2.0" not in Pseudonyms(KEY).text("<ip>8.0.2.0</ip>")


def test_names_are_replaced_as_words_in_any_case_and_without_their_domain():
    pseudonyms = Pseudonyms(KEY, {"esx7.lab.acme.com", "ds-gold", "vm", "root", "10.1.1.1"})
    text = pseudonyms.text("ESX7 and esx7.lab.acme.com hold [ds-gold] ds-golden, vm root")
    assert not re.search(r"(?i)esx7|acme", text) and "[ds-gold]" not in text
    assert text.endswith("vm root") and "ds-golden" in text


def test_hosts_that_share_a_key_replace_alike_and_others_do_not():
    text = "naa.600508b1001c7a6f3b2e9d4c5a6b7c8d 10.20.30.40 iqn.1998-01.com.vmware:esx7"
    assert Pseudonyms(KEY).text(text) == Pseudonyms(KEY, {"other"}).text(text)
    assert Pseudonyms(b"another key").text(text) != Pseudonyms(KEY).text(text)


def test_one_identifier_is_one_whatever_its_case():
    new = Pseudonyms(KEY).text("wwn-0x600508B1001C7A6F naa.600508b1001c7a6f")
    assert new.split()[0].partition("0x")[2].lower() == new.split()[1].partition(".")[2]


@given(st.lists(st.integers(0, 16**25 - 1), min_size=2, max_size=40, unique=True))
def test_different_identifiers_stay_different(numbers):
    texts = [f"naa.600508b{number:025x}" for number in numbers]
    assert len({Pseudonyms(KEY).text(text) for text in texts}) == len(texts)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_a_serial_number_keeps_its_form(text):
    new = Pseudonyms(KEY).like(text)
    assert len(new) == len(text)
    for old, letter in zip(text, new):
        assert (old.isdigit(), old.islower(), old.isupper()) == (letter.isdigit(), letter.islower(), letter.isupper())
        assert old.isalnum() or old == letter
