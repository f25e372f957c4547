# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a point of the load on a database takes, and when it does not begin. A stand-in says what the host has of the database."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from unchanged import refused

PARAMS = {
    "testbed_id": "t",
    "database": "postgresql",
    "hammerdb_dir": None,
    "isolation": "read_committed",
    "warehouses": 2,
    "virtual_users": 4,
    "ramp_s": 0,
    "runtime_s": 1,
}


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("virtual_users", 1, database.MOST_USERS), ("ramp_s", 0, 86400), ("runtime_s", 1, 7 * 86400)],
)
def test_numbers_are_held_to_what_can_be_measured(name, least, most):
    for value in (least, most):
        database.check_values({**PARAMS, name: value})
    for value in (least - 1, most + 1):
        with pytest.raises(Failure) as caught:
            database.check_values({**PARAMS, name: value})
        assert caught.value.details == {"variable": f"database_load_{name}", "value": value}


def test_a_database_is_loaded_warehouse_by_warehouse_and_indexed_last():
    names = [name for name, _sql in database.load_texts("postgresql", 3)]
    assert names == [
        "the tables",
        "the items",
        "warehouse 1 of 3",
        "warehouse 2 of 3",
        "warehouse 3 of 3",
        "the indexes",
        "the statistics",
    ]


@pytest.fixture
def host(tmp_path, monkeypatch):
    """What the host has of the database; tests change it."""
    has = SimpleNamespace(folder=str(tmp_path), stamp={"loaded": 2, "settings": {}}, pid=7, version="pgbench (x)")
    cluster = SimpleNamespace(
        folder=has.folder,
        run_dir=str(tmp_path / "run"),
        stamp=lambda folder: has.stamp,
        pid=lambda: has.pid,
        program=lambda name: f"/nowhere/{name}",
        own_folder=lambda path: None,
        NAME="postgresql",
        TITLE="PostgreSQL",
        PACKAGES="the package postgresql",
    )

    def made(testbed_id, otherwise):
        cluster.folder = has.folder
        return cluster

    monkeypatch.setattr(database, "cluster_of", made)
    monkeypatch.setattr(database, "run", lambda argv: SimpleNamespace(stdout=has.version))
    return has


@pytest.mark.parametrize(
    ("has", "code"),
    [
        ({"folder": None}, "database_missing"),
        ({"stamp": None}, "database_missing"),
        ({"stamp": {"settings": {}}}, "database_missing"),
        ({"pid": None}, "database_missing"),
        ({"stamp": {"loaded": 3, "settings": {}}}, "bad_value"),
        ({}, "command_failed"),
    ],
)
def test_a_point_begins_only_on_the_database_that_was_loaded(host, tmp_path, has, code):
    vars(host).update(has)
    with refused(tmp_path) as caught:
        database.measure(PARAMS)
    assert caught.value.code == code
    if code == "bad_value":
        assert (caught.value.details["variable"], caught.value.details["value"]) == ("database_load_warehouses", 2)


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [
        ("import time; time.sleep(600)", -15),
        ("import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)", -9),
        ("raise SystemExit(3)", 3),
    ],
)
def test_nothing_of_the_driver_outlives_a_point(monkeypatch, code, ends_with):
    monkeypatch.setattr(database, "patience", lambda timeout_s: {15: 60 if ends_with == -15 else 0.2, 9: 60})
    driver = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if ends_with == -9:
        driver.stdout.readline()  # from now on it does not listen
    elif ends_with == 3:
        driver.wait()
    database._end(driver)
    driver.stdout.close()
    assert driver.returncode == ends_with


def test_logs_are_read_one_after_another_and_nothing_else(tmp_path):
    folder = tmp_path / "with [brackets]"
    folder.mkdir()
    for name, text in (("transactions.2", "c\n"), ("transactions.1", "a\nb\n"), ("other.1", "x\n")):
        (folder / name).write_text(text)
    assert list(database._lines(str(folder))) == ["a\n", "b\n", "c\n"]


def test_rows_that_break_a_condition_as_loaded_are_named():
    def rows(text: str) -> SimpleNamespace:
        return SimpleNamespace(sql=lambda query: text)

    database.refuse_wrong_rows(rows("1|0|\n2|0|\n"))
    with pytest.raises(Failure, match=r"3\.3\.2\.2 .*warehouse 1, district 4") as caught:
        database.refuse_wrong_rows(rows("1|0|\n2|5|warehouse 1, district 4\n3|1|other\n"))
    assert caught.value.code == "database_inconsistent"
    assert [check["condition"] for check in caught.value.details["conditions"]] == ["3.3.2.2", "3.3.2.3"]
