# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Descriptions of targets of Windows Server that are refused, before anything is asked of a host."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import INITIATOR_KEYS
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import target_want

IQN = "iqn.2026-11.test:t"
LAYERS = {
    "backing-a": {
        "name": "backing-a",
        "path": None,
        "purpose": "data",
        "size_bytes": 3 << 20,
        "identity": {"virtual_disk": "ramdisk:a.vhdx"},
    },
    "backing-plain": {
        "name": "backing-plain",
        "path": "x",
        "purpose": "data",
        "size_bytes": 5 << 20,
        "identity": {"serial": "sn"},
    },
}


def lun(number: int, name: str, **more) -> dict:
    return {"lun": number, "name": name, "layer": "backing-a", "vhdx": None, "purpose": None, **more}


def vhdx(path: str, size_mib: int = 7) -> dict:
    return {"layer": None, "vhdx": {"path": path, "size_mib": size_mib}, "purpose": "data"}


def described() -> dict:
    chap = {
        "chap_user": "me",
        "chap_password": "secret-in-one1",
        "mutual_chap_user": None,
        "mutual_chap_password": None,
    }
    initiator = {**dict.fromkeys(INITIATOR_KEYS), "iqn": "iqn.2026-11.test:c", "luns": None, **chap}
    return {
        "name": IQN,
        "portals": [{"address": "192.0.2.11", "port": 3260}],
        "luns": [lun(2, "a"), lun(5, "b", **vhdx("E:\\lab\\b.vhdx"))],
        "initiators": [initiator],
    }


def check(*targets) -> list:
    given = {
        "testbed_id": "unit",
        "layers": LAYERS,
        "targets": list(targets),
        "allow_no_chap": False,
        "allow_any_address": False,
    }
    return target_want.check(given)


def test_what_is_complete_is_taken():
    [made] = check(described())
    assert [(entry["lun"], entry["path"], entry["size_bytes"]) for entry in made["luns"]] == [
        (2, "ramdisk:a.vhdx", 3 << 20),
        (5, "E:\\lab\\b.vhdx", 7 << 20),
    ]
    assert made["initiators"] == ["IQN:iqn.2026-11.test:c"]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"portals": []}, "bad_value", "at least one of portals"),
        ({"initiators": []}, "bad_value", "at least one of initiators"),
        ({"luns": [lun(2, "a"), lun(2, "b", **vhdx("E:\\b.vhdx"))]}, "bad_value", "another number"),
        ({"luns": [lun(2, "a"), lun(5, "a", **vhdx("E:\\b.vhdx"))]}, "bad_value", "another name"),
        # One file, whatever its letters.
        (
            {"luns": [lun(2, "a", **vhdx("E:\\x.vhdx")), lun(5, "b", **vhdx("e:\\X.vhdx"))]},
            "bad_value",
            "another virtual disk",
        ),
        ({"luns": [lun(2, "a", layer=None)]}, "bad_value", "Give a layer, or a vhdx"),
        (
            {"luns": [{**lun(2, "a"), "vhdx": {"path": "E:\\x.vhdx", "size_mib": 7}}]},
            "layer_not_exportable",
            "which is not a volume",
        ),
        ({"luns": [lun(2, "a", **vhdx("E:\\lab\\..\\x.vhdx"))]}, "bad_value", "full path on a local volume"),
        ({"luns": [lun(2, "a", **vhdx("\\\\server\\x.vhdx"))]}, "bad_value", "full path on a local volume"),
        ({"luns": [lun(2, "a", layer="backing-z")]}, "layer_missing", "never published"),
        ({"luns": [lun(2, "a", layer="backing-plain")]}, "layer_not_exportable", "not a virtual disk"),
    ],
)
def test_what_is_incomplete_or_contradicts_itself_is_refused(change, code, says):
    with pytest.raises(Failure) as caught:
        check({**described(), **change})
    assert caught.value.code == code and says in str(caught.value)


def test_names_that_windows_cannot_tell_apart_are_refused():
    other = copy.deepcopy(described())
    other.update(name="iqn.2027-01.test:t", luns=[lun(2, "c", **vhdx("E:\\c.vhdx"))])
    with pytest.raises(Failure) as caught:
        check(described(), other)
    assert caught.value.code == "bad_value" and "differ in letters or digits" in str(caught.value)
