# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions out of pgbench's log: which ones count, their rates and percentiles, and what makes a point fail."""

from __future__ import annotations

import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import (
    databases,
    hammerdb_load,
    pgbench,
    sysbench,
    tproc_c,
    tproc_c_mariadb,
    tproc_c_postgresql,
    transactions,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database_mariadb, database_postgresql
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database_mariadb import Mariadb
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database_postgresql import (
    PROGRAMS,
    Postgresql,
)
from ansible_collections.storlab.testbed.plugins.module_utils.run import database as run_database
from hypothesis import given
from hypothesis import strategies as st
from unchanged import refused

BEGIN_S = 1_700_000_000
# client number time script epoch_s epoch_us retries; measured from 10 s to 14 s after BEGIN_S.
LOG = f"""\
0 1 900 0 {BEGIN_S + 10} 0 0
0 2 1000 0 {BEGIN_S + 10} 1 0
0 3 2000 2 {BEGIN_S + 10} 999999 0
1 1 3000 0 {BEGIN_S + 11} 500000 2
1 2 serialization 2 {BEGIN_S + 11} 600000 9
1 3 4000 1 {BEGIN_S + 12} 0 0
2 1 50 5 {BEGIN_S + 14} 0 0
2 2 7000 0 {BEGIN_S + 14} 1 0
"""
SAID = "pgbench (15.8)\nnumber of transactions actually processed: 7\nnumber of failed transactions: 1 (12.500%)\n"


def raw(lines: str = LOG, **changes) -> dict:
    read = transactions.read_log(lines.splitlines(), (BEGIN_S + 10) * 10**6, (BEGIN_S + 14) * 10**6)
    return {
        "version": "15.8",
        "runtime_s": 4,
        "exit_code": 0,
        "said": SAID,
        "said_errors": "",
        "log": read,
        "placed_before": 30000,
        "placed_after": 30004,
        "consistency": [{"condition": "3.3.2.1", "text": "W_YTD = sum(D_YTD)", "ok": True, "broken": 0}],
        **changes,
    }


def codes(result: dict) -> list:
    return [failure["code"] for failure in result["failures"]]


def test_what_ended_in_the_measured_time_counts():
    result = transactions.measured(raw(), databases.DRIVERS["pgbench"])
    assert result["failures"] == []
    of = result["transactions"]
    assert {kind: of[kind]["count"] for kind in of} == {
        "total": 5,
        "new_order": 2,
        "new_order_rolled_back": 1,
        "payment": 1,
        "order_status": 0,
        "delivery": 0,
        "stock_level": 1,
    }
    # 5 in 4 s, of which 2 are New-Orders that stayed.
    assert (result["tpm"], result["nopm"]) == (75.0, 30.0)
    assert (of["total"]["failed"], of["payment"]["failed"]) == (1, 1)
    assert (of["new_order"]["retried"], of["new_order"]["retries"]) == (1, 2)
    assert of["new_order"]["latency_mean_ns"] == 2_000_000
    assert (of["total"]["latency_min_ns"], of["total"]["latency_max_ns"]) == (50_000, 4_000_000)
    assert "latency_mean_ns" not in of["delivery"]


def test_seconds_and_what_is_of_the_whole_log():
    log = raw()["log"]
    # The second begins after its first microsecond and ends with the last.
    assert log["seconds"] == [[2, 1], [2, 1], [0, 0], [1, 0]]
    assert (log["placed"], log["lines"], log["failed_lines"], log["unread"]) == (4, 8, 1, 0)


def test_percentiles_are_of_all_transactions_together():
    lines = [f"0 {n} {100 if n < 99 else 9000} {0 if n % 2 else 2} {BEGIN_S + 11} {n} 0" for n in range(100)]
    log = transactions.read_log(lines, (BEGIN_S + 10) * 10**6, (BEGIN_S + 14) * 10**6)
    total = transactions.figures(list(log["kinds"].values()))
    assert total["latency_p50_ns"] == total["latency_p99_ns"] == transactions.bin_of(100)
    assert total["latency_p99_9_ns"] == transactions.bin_of(9000)
    assert sum(total["histogram"]["bins"].values()) == 100


@given(st.integers(0, 10**9))
def test_a_bin_holds_its_value_and_is_narrow(value_us):
    edge = transactions.bin_of(value_us) / 1000
    assert value_us <= edge <= value_us * (1 + 1 / 64) + 1
    assert transactions.bin_of(int(edge)) == edge * 1000


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"exit_code": 2, "said_errors": "client 1 aborted"}, "engine_exit", "client 1 aborted"),
        ({"said": SAID + "Run was aborted; the above results are incomplete.\n"}, "engine_exit", "ended early"),
        ({"said": SAID.replace("processed: 7", "processed: 9")}, "log_incomplete", "7 transactions"),
        ({"log": {**raw()["log"], "unread": 1}}, "log_incomplete", "1 unreadable lines"),
        ({"placed_after": 30003}, "database_orders_lost", "4 New-Orders were acknowledged, and 3 are there"),
        (
            {
                "consistency": [
                    {"condition": "3.3.2.4", "text": "lines", "ok": False, "broken": 2, "example": "district 7"}
                ]
            },
            "database_inconsistent",
            "3.3.2.4",
        ),
        ({"failures": [{"code": "database_died", "message": "It is gone."}], "exit_code": 2}, "database_died", "gone"),
    ],
)
def test_a_point_that_failed_has_no_rates(changes, code, words):
    result = transactions.measured(raw(**changes), databases.DRIVERS["pgbench"])
    assert codes(result) == [code]
    assert words in result["failures"][0]["message"]
    assert not {"tpm", "nopm"} & set(result)


def test_nothing_done_in_the_measured_time_is_a_failure():
    early = f"0 1 900 0 {BEGIN_S + 1} 0 0\n"
    result = transactions.measured(
        raw(early, said="number of transactions actually processed: 1\n", placed_after=30001),
        databases.DRIVERS["pgbench"],
    )
    assert codes(result) == ["no_transactions"]


def test_the_mix_and_the_arguments():
    place = {"socket_dir": "/run/x", "database": "load", "scripts": "/s", "log": "/s/t", "processors": 2}
    workload = {"warehouses": 3, "virtual_users": 8, "ramp_s": 5, "runtime_s": 20}
    words = pgbench.argv("/bin/pgbench", 15, workload, place)
    assert words[words.index("-T") + 1] == "25"
    assert (words[words.index("-c") + 1], words[words.index("-j") + 1]) == ("8", "2")
    assert "warehouses=3" in words
    assert "--max-tries=10" in words
    assert "--max-tries=10" not in pgbench.argv("/bin/pgbench", 14, workload, place)
    weights = [int(word.rpartition("@")[2]) for word in words if "@" in word]
    assert sum(weights) == 10_000
    # Clause 5.2.3 with 1 % of New-Orders rolled back (2.4.1.4).
    assert weights == [4455, 45, 4300, 400, 400, 400]
    assert pgbench.version_of("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n") == (15, "15.18")
    assert pgbench.version_of("something else") is None


def test_every_kind_has_a_script_and_constants_of_names_differ_as_they_must():
    assert list(tproc_c_postgresql.SCRIPTS) == list(tproc_c.KINDS) == list(tproc_c.WEIGHTS)
    delta = abs(tproc_c.C_LAST - tproc_c.C_LAST_LOADED)
    assert 65 <= delta <= 119 and delta not in (96, 112)
    assert sorted(tproc_c.CONDITIONS) == list(range(1, 13))
    numbers = [
        int(number) for number in re.findall(r"^SELECT concat\('(\d+)\|'", tproc_c.consistency(False), re.MULTILINE)
    ]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]


def test_what_psql_prints_of_the_conditions():
    checks = tproc_c.read_consistency("1|0|\n4|2|warehouse 1, district 7\n")
    assert [(check["condition"], check["ok"], check.get("example")) for check in checks] == [
        ("3.3.2.1", True, None),
        ("3.3.2.4", False, "warehouse 1, district 7"),
    ]


# ---- the plan of the cluster


WANTED = {"warehouses": 3, "version": "15", "driver": None, "settings": {"shared_buffers": "64MB"}}
THERE = {
    "driver": None,
    "made": True,
    "loaded": 3,
    "version": "15",
    "settings": {"shared_buffers": "64MB"},
    "running": True,
}


@pytest.mark.parametrize(
    ("changes", "ops"),
    [
        ({}, []),
        ({"running": False}, ["start"]),
        ({"settings": {"shared_buffers": "32MB"}}, ["stop", "start"]),
        ({"loaded": 2}, ["stop", "remove", "make", "start", "load"]),
        ({"driver": "hammerdb"}, ["stop", "remove", "make", "start", "load"]),
        ({"loaded": 0, "running": False}, ["remove", "make", "start", "load"]),
        ({"version": "13", "running": False}, ["remove", "make", "start", "load"]),
        ({"made": False, "loaded": 0, "version": "", "settings": {}, "running": False}, ["make", "start", "load"]),
    ],
)
def test_only_what_differs_is_made(changes, ops):
    assert [step["op"] for step in linux.plan("PostgreSQL", {**THERE, **changes}, WANTED)] == ops


def test_settings_of_the_user_and_those_that_keep_it_private():
    params = {
        "shared_buffers_mib": 64,
        "max_wal_mib": 256,
        "settings": {"synchronous_commit": False, "work_mem": "8MB"},
    }
    text = database_postgresql.configuration(Postgresql.settings_of(params, "/run/it's"))
    assert "synchronous_commit = 'off'\n" in text
    assert "work_mem = '8MB'\n" in text
    assert "listen_addresses = ''\n" in text
    assert "unix_socket_directories = '/run/it''s'\n" in text


@pytest.mark.parametrize(
    "name", ["listen_addresses", "unix_socket_directories", "hba_file", "Work_Mem", "a b", "include"]
)
def test_settings_that_are_refused(name):
    params = {"warehouses": 1, "shared_buffers_mib": 64, "max_wal_mib": 256, "settings": {name: "x"}}
    with pytest.raises(Failure) as failure:
        linux.check_values(Postgresql, params)
    assert failure.value.details == {"variable": "database_load_settings", "value": name}


def test_the_arithmetic_of_space():
    params = {"warehouses": 5, "max_wal_mib": 100}
    needed = 64 + 5 * 110 + 100
    linux.refuse_full(Postgresql, needed << 20, params, "/srv/x")
    with pytest.raises(Failure) as failure:
        linux.refuse_full(Postgresql, (needed << 20) - 1, params, "/srv/x")
    assert failure.value.code == "database_no_space"
    assert f"need {needed} MiB" in failure.value.what and f"{needed - 1} MiB free" in failure.value.what


def test_the_newest_complete_version_is_used(tmp_path):
    for version, names in (("9", PROGRAMS), ("13", PROGRAMS), ("15", PROGRAMS[:-1])):
        (tmp_path / version).mkdir()
        for name in names:
            program = tmp_path / version / name
            program.touch()
            program.chmod(0o755)
    found = Postgresql.find_programs(None, (f"{tmp_path}/*",))
    assert found == {name: str(tmp_path / "13" / name) for name in PROGRAMS}
    with refused(tmp_path) as failure:
        Postgresql.find_programs(str(tmp_path / "15"))
    assert failure.value.code == "postgresql_missing"
    assert "PostgreSQL's pgbench are not in" in failure.value.what


# ---- MariaDB, driven by sysbench


EVENTS = "General statistics:\n    total time:   4.0s\n    total number of events:              8\n"


def test_sysbench_counts_what_was_given_up_as_an_event():
    result = transactions.measured(raw(said=EVENTS, version="1.0.20"), databases.DRIVERS["sysbench"])
    assert (result["failures"], result["tpm"], result["nopm"]) == ([], 75.0, 30.0)
    assert result["engine"] == {"name": "sysbench", "version": "1.0.20"}
    short = transactions.measured(raw(said=EVENTS.replace("8", "9")), databases.DRIVERS["sysbench"])
    assert codes(short) == ["log_incomplete"]
    assert "sysbench reports 8" in short["failures"][0]["message"]
    ended = transactions.measured(
        raw(said=EVENTS + "FATAL: mysql_drv_query() returned error 2013\n"), databases.DRIVERS["sysbench"]
    )
    assert codes(ended) == ["engine_exit"]
    assert not {"tpm", "nopm"} & set(ended)


def test_the_arguments_of_sysbench():
    place = {
        "socket_dir": "/run/x",
        "user": "mysql",
        "database": "load",
        "scripts": "/s",
        "log": "/s/t",
        "processors": 2,
    }
    workload = {
        "warehouses": 3,
        "virtual_users": 8,
        "ramp_s": 5,
        "runtime_s": 20,
        "isolation": "repeatable_read",
    }
    words = sysbench.argv("/bin/sysbench", 1, workload, place)
    assert words[:2] == ["/bin/sysbench", "/s/tproc_c.lua"]
    assert words[-1] == "run"
    asked = {
        "--threads=8",
        "--time=25",
        "--warehouses=3",
        "--isolation=repeatable read",
        "--mysql-socket=/run/x/socket",
    }
    assert asked <= set(words)
    assert "password" not in " ".join(words)
    assert sysbench.version_of("sysbench 1.0.20\n") == (1, "1.0.20")
    assert sysbench.version_of("something else") is None


def test_the_script_of_sysbench_draws_the_mix_and_calls_what_there_is():
    weights = re.findall(r'{"(\w+)", (\d+)}', tproc_c_mariadb.SCRIPT.partition("local kinds")[2])
    assert {kind: int(weight) for kind, weight in weights} == tproc_c.WEIGHTS
    assert [kind for kind, _weight in weights] == list(tproc_c.KINDS)
    made = set(re.findall(r"CREATE PROCEDURE (\w+)", tproc_c_mariadb.PROCEDURES))
    assert set(re.findall(r"CALL (\w+)", tproc_c_mariadb.SCRIPT)) == made - {"customer_of"}


def test_settings_of_mariadb_and_those_that_keep_it_private():
    params = {"warehouses": 1, "shared_buffers_mib": 64, "max_wal_mib": 256, "settings": {"innodb_doublewrite": False}}
    text = database_mariadb.configuration(Mariadb.settings_of(params, "/run/x"))
    assert text.startswith("[mariadbd]\n")
    # What comes last holds.
    assert text.index("innodb_doublewrite = off\n") < text.index("skip_networking = on\n")
    assert "innodb_buffer_pool_size = 64M\n" in text and "innodb_log_file_size = 256M\n" in text
    linux.check_values(Mariadb, params)
    for name in ("skip_networking", "bind_address", "plugin_load", "Socket", "datadir"):
        with pytest.raises(Failure) as failure:
            linux.check_values(Mariadb, {**params, "settings": {name: "x"}})
        assert failure.value.details == {"variable": "database_load_settings", "value": name}
        assert "MariaDB" in failure.value.remedy
    with pytest.raises(Failure, match="database_load_max_wal_mib"):
        linux.check_values(Mariadb, {**params, "max_wal_mib": 8})


def test_the_programs_of_mariadb_are_found_where_each_is(tmp_path):
    places = {
        "sbin": ["mariadbd"],
        "bin": ["mariadb", "mariadb-install-db"],
        "other": ["sysbench"],
        "own": ["mariadbd"],
    }
    for folder, names in places.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch(0o755)
    usual = tuple(str(tmp_path / folder) for folder in ("sbin", "bin", "other"))
    found = Mariadb.find_programs(None, usual)
    assert (found["mariadbd"], found["sysbench"]) == (f"{tmp_path}/sbin/mariadbd", f"{tmp_path}/other/sysbench")
    with refused(tmp_path) as failure:
        Mariadb.find_programs(str(tmp_path / "own"), usual)
    assert failure.value.code == "mariadb_missing"
    assert f"MariaDB's mariadb-install-db, mariadb are not in {tmp_path}/own" in failure.value.what
    with refused(tmp_path) as failure:
        Mariadb.find_programs(None, usual[:2])
    assert "MariaDB's sysbench are not on this host" in failure.value.what


def test_each_database_has_all_that_a_load_needs():
    assert list(databases.LOADS) == list(run_database.CLUSTERS)
    for name, load in databases.LOADS.items():
        assert (name, load.title) == (run_database.CLUSTERS[name].NAME, run_database.CLUSTERS[name].TITLE)
        assert "new_order" in "".join(text for _what, text in run_database.load_texts(name, 1))
        assert load.driver.scripts()
    assert len({load.driver.raw for load in databases.LOADS.values()}) == len(databases.LOADS)


# ---- HammerDB, where the user has it

PLACE = {"socket_dir": "/run/x", "user": "mysql", "database": "load", "processors": 4}


@pytest.mark.parametrize(("database", "name"), [("postgresql", "pg"), ("mariadb", "maria")])
def test_the_scripts_of_hammerdb(database, name):
    built = hammerdb_load.build(database, PLACE, 3).splitlines()
    assert built[:2] == [f"dbset db {name}", "dbset bm TPC-C"]
    assert {f"diset tpcc {name}_count_ware {{3}}", f"diset tpcc {name}_num_vu {{3}}"} <= set(built)
    assert built[-1] == "buildschema"
    workload = {"warehouses": 3, "virtual_users": 8, "ramp_s": 120, "runtime_s": 300}
    driven = hammerdb_load.drive(database, PLACE, workload).splitlines()
    asked = {
        f"diset tpcc {name}_{key} {{{value}}}" for key, value in (("rampup", 2), ("duration", 5), ("driver", "timed"))
    }
    assert asked <= set(driven)
    assert driven[driven.index("loadscript") :] == ["loadscript", "vuset vu 8", "vucreate", "vurun", "vudestroy"]
    assert any("/run/x" in line for line in driven)


def test_what_hammerdb_says_is_held_against_what_was_asked_and_what_is_there():
    said = (
        "HammerDB CLI v4.12\nVuser 1:RUNNING\nVuser 1:Timing test period of 2 in minutes\n"
        "Vuser 1:TEST RESULT : System achieved 50 NOPM from 120 PostgreSQL TPM\n"
    )
    kept = {"runtime_s": 120, "exit_code": 0, "said": said, "placed_before": 0, "placed_after": 101, "consistency": []}
    result = hammerdb_load.measured(kept)
    assert (result["failures"], result["tpm"], result["nopm"]) == ([], 120.0, 50.0)
    for changes, code in (
        ({"runtime_s": 60}, "log_incomplete"),
        ({"exit_code": 1}, "engine_exit"),
        ({"placed_after": 99}, "database_orders_lost"),
        ({"said": "Error: no such library"}, "no_result"),
        ({"failures": [{"code": "database_died", "message": "It is gone."}]}, "database_died"),
    ):
        failed = hammerdb_load.measured({**kept, **changes})
        assert codes(failed) == [code]
        assert not {"tpm", "nopm"} & set(failed)
