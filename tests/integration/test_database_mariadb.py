# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load on a real MariaDB by a real sysbench: made, measured, checked, broken in several ways, and taken away without a trace."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import databases, tproc_c, transactions
from ansible_collections.storlab.testbed.plugins.module_utils.linux.daemon import start_ticks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.host import run
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database_mariadb import Mariadb
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from database_host import children_named, kill_when, stored_by_the_role
from database_host import datastore as mounted
from database_host import traces as traces_of
from plays import play
from unchanged import refused
from waiting import until

ID = "dbmaria"
LOG_MIB = 64
BUFFERS_MIB = 64
# A lock that is not given for a second is refused, and the transaction tried again.
SETTINGS = {"innodb_lock_wait_timeout": 1}


def traces() -> dict:
    return traces_of(ID, linux.user_of("", Mariadb.USERS).pw_uid)


def ensure(layers: dict, check_mode: bool = False, **params) -> dict:
    given = {
        "testbed_id": ID,
        "state": "present",
        "database": "mariadb",
        "layers": layers,
        "layer": "datastore-ds1",
        "warehouses": 1,
        "shared_buffers_mib": BUFFERS_MIB,
        "max_wal_mib": LOG_MIB,
        "settings": SETTINGS,
        "bin_dir": None,
        "user": "",
        "hammerdb_dir": None,
        **params,
    }
    return converge(database.Area, given, check_mode)


@pytest.fixture(scope="module")
def datastore():
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    with mounted(ID, 640) as made:
        yield made


@pytest.fixture(scope="module")
def loaded(datastore):
    """One warehouse, loaded once for the tests that leave it as it was."""
    point, layers = datastore
    before = traces()
    try:
        yield point, layers, ensure(layers)
    finally:
        ensure(layers, state="absent")
        assert traces() == before
        assert sorted(os.listdir(point)) == ["lost+found"]


def measure(**params) -> tuple[dict, dict]:
    """(what the host kept, the result of it)."""
    given = {
        "testbed_id": ID,
        "database": "mariadb",
        "warehouses": 1,
        "virtual_users": 3,
        "ramp_s": 1,
        "runtime_s": 4,
        "isolation": "read_committed",
        "hammerdb_dir": None,
        **params,
    }
    kept = json.loads(json.dumps(database.measure(given)))
    return kept, transactions.measured(kept["raw"], databases.DRIVERS["sysbench"])


def codes(result: dict) -> list[str]:
    return [failure["code"] for failure in result["failures"]]


def test_it_is_loaded_as_the_rules_say_and_made_once(loaded):
    _point, layers, made = loaded
    assert [(step["op"], step["target"]) for step in made["steps"]] == [
        ("make", "cluster"),
        ("start", "server"),
        ("load", "warehouses"),
    ]
    assert made["steps"][0]["will"].startswith("MariaDB ")
    cluster = Mariadb(ID)
    tables = ("warehouse", "district", "customer", "history", "new_order", "orders", "item", "stock")
    counts = [cluster.sql("SELECT count(*) FROM " + name) for name in tables]  # noqa: S608, names of above
    assert [int(count) for count in counts] == [1, 10, 30000, 30000, 9000, 30000, 100000, 100000]
    # Clause 4.3.3.1: 5 to 15 lines, evenly; last names of three syllables, the first thousand of a district all that there are.
    lines, names, of_originals, name = cluster.sql(
        "SELECT avg(o_ol_cnt) FROM orders; SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 4 AND c_id <= 1000;"
        "SELECT avg(i_data LIKE '%ORIGINAL%') FROM item; SELECT c_last FROM customer WHERE c_d_id = 2 AND c_id = 372;"
    ).split()
    assert 9.8 < float(lines) < 10.2
    assert int(names) == 1000
    assert 0.09 < float(of_originals) < 0.11
    assert name == "PRICALLYOUGHT"
    engines = cluster.sql("SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'load'")
    assert engines.split() == ["InnoDB"]
    assert ensure(layers)["steps"] == []


def test_an_order_is_drawn_once_and_its_stock_is_locked_in_one_order(loaded):
    cluster = Mariadb(ID)
    said = cluster.sql("""CALL new_order(1, 1, 1, 15, false, 1);
SELECT ol_i_id FROM order_line WHERE ol_d_id = 1 AND ol_o_id = (SELECT max(o_id) FROM orders WHERE o_d_id = 1) ORDER BY ol_number;""")
    items = [int(item) for item in said.split()]
    assert len(items) == 15
    assert items == sorted(items)


def test_a_customer_of_a_name_is_the_middle_one(loaded):
    cluster = Mariadb(ID)
    ids = cluster.sql("SELECT c_id FROM customer WHERE c_d_id = 3 AND c_last = 'BARBARBAR' ORDER BY c_first").split()
    found = cluster.sql("CALL customer_of(1, 3, 0, @c); SELECT @c;").strip()
    # Clause 2.5.2.2: n / 2, rounded up.
    assert found == ids[(len(ids) + 1) // 2 - 1]


def test_nobody_else_gets_at_it_and_its_server_has_no_rights(loaded):
    cluster = Mariadb(ID)
    pid = cluster.pid()
    assert os.stat(f"/proc/{pid}").st_uid == cluster.user.pw_uid != 0
    assert stat.S_IMODE(os.stat(cluster.run_dir).st_mode) == 0o700
    inodes = {os.readlink(f"/proc/{pid}/fd/{entry}") for entry in os.listdir(f"/proc/{pid}/fd")}
    listening = [
        line.split()[9]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    assert not {f"socket:[{inode}]" for inode in listening} & inodes
    for user in (cluster.user.pw_name, "root"):
        with refused(traces) as failure:
            run(
                [
                    cluster.program("mariadb"),
                    "--no-defaults",
                    f"--socket={cluster.run_dir}/socket",
                    f"--user={user}",
                    "-e",
                    "SELECT 1",
                ]
            )
        # Root may enter the folder, and is not the database's user.
        assert "Access denied" in failure.value.what


def test_a_point_is_measured_and_its_figures_agree_with_the_database(loaded):
    cluster = Mariadb(ID)
    before = int(cluster.sql("SELECT sum(d_next_o_id) FROM district"))
    kept, result = measure(runtime_s=10)
    assert result["failures"] == []
    placed = int(cluster.sql("SELECT sum(d_next_o_id) FROM district")) - before
    assert kept["raw"]["log"]["placed"] == placed > 0
    of = result["transactions"]
    assert result["nopm"] == pytest.approx(of["new_order"]["count"] * 6)
    assert result["tpm"] == pytest.approx(of["total"]["count"] * 6)
    assert sum(of[kind]["count"] for kind in tproc_c.KINDS) == of["total"]["count"]
    # Without what ended in the ramp.
    assert of["new_order"]["count"] < placed
    share = (of["new_order"]["count"] + of["new_order_rolled_back"]["count"]) / of["total"]["count"]
    assert 0.35 < share < 0.55
    assert of["total"]["latency_min_ns"] <= of["total"]["latency_p50_ns"] <= of["total"]["latency_p99_ns"]
    assert [check["name"] for check in result["checks"]] == ["consistency", "orders_kept"]
    assert [check["condition"] for check in result["checks"][0]["conditions"]] == [
        f"3.3.2.{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)
    ]
    # Commits go to the disk, so its counters moved.
    assert kept["meta"]["counters"]["device"]["write"]["bytes"] > 0
    assert result["engine"]["name"] == "sysbench"
    said = subprocess.run(
        [cluster.program("mariadbd"), "--no-defaults", "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert result["database"]["name"] == "MariaDB"
    assert f"Ver {result['database']['version']}-MariaDB" in said
    assert not any(cluster.run_dir in word for word in kept["raw"]["arguments"])
    assert not os.path.exists(os.path.join(cluster.run_dir, "point"))


def test_it_writes_its_pages_before_a_point(loaded):
    cluster = Mariadb(ID)
    before = cluster.sql("SELECT @@innodb_max_dirty_pages_pct, @@innodb_max_dirty_pages_pct_lwm")
    cluster.sql("UPDATE stock SET s_ytd = s_ytd")
    cluster.sql("UPDATE stock SET s_ytd = s_ytd + 1; UPDATE stock SET s_ytd = s_ytd - 1")
    assert cluster.dirty_pages() > 100
    cluster.settle()
    assert cluster.dirty_pages() < 100
    assert cluster.sql("SELECT @@innodb_max_dirty_pages_pct, @@innodb_max_dirty_pages_pct_lwm") == before


def test_what_is_refused_is_tried_again_and_counted(loaded):
    """A client holds the lock of all districts for longer than the load waits for one."""
    cluster = Mariadb(ID)
    held = "SET innodb_lock_wait_timeout = 50; BEGIN; SELECT d_id FROM district FOR UPDATE; SELECT sleep(4); ROLLBACK"
    logs = Path(cluster.run_dir, "point")

    def hold() -> None:
        until(lambda: list(logs.glob("transactions.*")))
        argv = [cluster.program("mariadb"), "--no-defaults", f"--socket={cluster.run_dir}/socket"]
        run([*argv, f"--user={cluster.user.pw_name}", "load", "-e", held], user=cluster.user)

    holder = threading.Thread(target=hold)
    holder.start()
    kept, result = measure(ramp_s=0, runtime_s=15)
    holder.join()
    assert result["failures"] == []
    total = result["transactions"]["total"]
    assert total["retries"] >= total["retried"] > 0
    # What it waited for is in its time.
    assert total["latency_max_ns"] > 1_000_000_000
    assert kept["raw"]["log"]["lines"] > total["retried"]


BREAKS = {
    1: ("UPDATE warehouse SET w_ytd = w_ytd + 1", {1, 8}),
    2: ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 7", {2}),
    3: ("UPDATE new_order SET no_o_id = 1 WHERE no_d_id = 3 ORDER BY no_o_id LIMIT 1", {3, 5}),
    4: ("DELETE FROM order_line WHERE ol_d_id = 2 AND ol_o_id = 11 AND ol_number = 1", {4, 6}),
    7: ("UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 5 AND ol_o_id = 9 AND ol_number = 1", {7}),
    9: ("UPDATE history SET h_d_id = 9 WHERE h_d_id = 8 AND h_c_id = 77", {9}),
    10: ("UPDATE customer SET c_balance = c_balance + 1 WHERE c_d_id = 6 AND c_id = 1234", {10, 12}),
}


@pytest.mark.parametrize("number", BREAKS)
def test_what_breaks_a_condition_by_hand_is_found(loaded, number):
    breaking, found = BREAKS[number]
    said = Mariadb(ID).sql(f"BEGIN; {breaking};\n{tproc_c.consistency(loaded=False)}\nROLLBACK;")
    checks = tproc_c.read_consistency(said)
    assert {int(check["condition"].rpartition(".")[2]) for check in checks if not check["ok"]} == found
    assert all("example" in check for check in checks if not check["ok"])


def test_a_point_on_broken_data_fails_and_says_which_condition(loaded):
    cluster = Mariadb(ID)
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 6 AND c_id = 1234")
    _kept, result = measure(ramp_s=0)
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_d_id = 6 AND c_id = 1234")
    assert codes(result) == ["database_inconsistent"]
    assert "3.3.2.12" in result["failures"][0]["message"]
    assert "district 6, customer 1234" in result["failures"][0]["message"]
    assert "nopm" not in result and "tpm" not in result


def test_another_database_in_its_place_is_refused(loaded):
    _point, layers, _made = loaded
    with refused(traces) as failure:
        ensure(layers, database="postgresql", settings={})
    assert failure.value.code == "database_elsewhere"
    assert "not as PostgreSQL" in failure.value.what and "absent first" in failure.value.remedy
    with refused(traces) as failure:
        measure(database="postgresql")
    assert failure.value.details == {"variable": "database_load_database", "value": "postgresql"}
    assert "is MariaDB" in failure.value.remedy
    # What there is goes, whatever is asked for.
    steps = ensure(layers, check_mode=True, state="absent", database="postgresql")["steps"]
    assert [step["op"] for step in steps] == ["stop", "remove"]


def test_check_mode_and_other_settings(loaded):
    _point, layers, _made = loaded
    cluster = Mariadb(ID)
    pid = cluster.pid()
    other = {**SETTINGS, "innodb_flush_log_at_trx_commit": 2}
    steps = ensure(layers, check_mode=True, settings=other)["steps"]
    assert [(step["op"], step["target"]) for step in steps] == [("stop", "server"), ("start", "server")]
    assert "innodb_flush_log_at_trx_commit 2" in steps[1]["will"]
    more = ensure(layers, check_mode=True, warehouses=2)["steps"]
    assert [step["op"] for step in more] == ["stop", "remove", "make", "start", "load"]
    assert cluster.pid() == pid
    ensure(layers, settings=other)
    assert cluster.sql("SELECT @@innodb_flush_log_at_trx_commit").strip() == "2"
    with refused(traces) as failure:
        ensure(layers, settings={"bind_address": "*"})
    assert failure.value.code == "bad_value"
    ensure(layers)
    assert cluster.sql("SELECT @@innodb_flush_log_at_trx_commit").strip() == "1"


def test_a_server_that_does_not_start_is_quoted(loaded):
    _point, layers, _made = loaded
    with pytest.raises(Failure) as failure:
        ensure(layers, settings={"no_such_parameter": 3})
    assert failure.value.code == "database_not_started"
    assert "no_such_parameter" in failure.value.what or "no-such-parameter" in failure.value.what
    assert not traces()["processes"]
    assert [step["op"] for step in ensure(layers)["steps"]] == ["start"]


def test_a_killed_driver_fails_the_point_only(loaded):
    cluster = Mariadb(ID)
    killed = kill_when(ID, lambda: children_named("sysbench"))
    _kept, result = measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["engine_exit"]
    assert "nopm" not in result
    assert cluster.pid()


def test_a_killed_server_fails_the_point_and_is_started_again(loaded):
    _point, layers, _made = loaded
    cluster = Mariadb(ID)
    killed = kill_when(ID, lambda: [cluster.pid()] if children_named("sysbench") else [])
    _kept, result = measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["database_died"]
    with refused(traces) as failure:
        measure()
    assert failure.value.code == "database_missing"
    assert [step["op"] for step in ensure(layers)["steps"]] == ["start"]
    # What was acknowledged came back, and all conditions hold.
    assert measure()[1]["failures"] == []


def test_the_role_stores_points_that_are_reported_and_verified(loaded, tmp_path):
    _point, layers, _made = loaded
    values = {
        "testbed_id": ID,
        "database": "mariadb",
        "layer": "datastore-ds1",
        "shared_buffers_mib": BUFFERS_MIB,
        "max_wal_mib": LOG_MIB,
        "settings": SETTINGS,
        "run_id": "maria",
        "virtual_users": 2,
        "ramp_s": 0,
        "runtime_s": 4,
        "repetitions": 1,
    }
    run_dir = stored_by_the_role(tmp_path, layers, values)
    point = run_dir / "points" / "datastore-ds1.tproc_c-mariadb-w1-vu2.r1"
    result = json.loads((point / "result.json").read_text())
    assert (result["status"], result["raw"]["file"], result["workload"]["database"]) == (
        "measured",
        "sysbench.json",
        "mariadb",
    )
    assert (point / "sysbench.json").exists()
    page = (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    table = page[page.index('<section id="databases">') :].partition("</section>")[0]
    assert "by sysbench on a MariaDB with its data" in table
    assert "MariaDB, 1 warehouses, 2 virtual users" in table


# ---- on a file system without a database


@pytest.fixture
def empty(datastore):
    """The file system without a database; the shared one is taken down for these tests, which stand last."""
    point, layers = datastore
    ensure(layers, state="absent")
    before = traces()
    yield point, layers
    ensure(layers, state="absent")
    assert traces() == before
    assert sorted(os.listdir(point)) == ["lost+found"]


@pytest.fixture
def no_rows(monkeypatch):
    """Tables without rows, which meet all conditions and are there in a moment."""
    schema = [("the tables", databases.LOADS["mariadb"].schema())]
    monkeypatch.setattr(database, "load_texts", lambda _name, _warehouses: schema)


def test_a_server_killed_for_good_leaves_nothing_either(empty, no_rows):
    point, layers = empty
    assert ensure(layers, check_mode=True)["changed"] and not (point / "storlab-database").exists()
    ensure(layers)
    pid = Mariadb(ID).pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: start_ticks(pid) is None)
    assert [step["op"] for step in ensure(layers, state="absent")["steps"]] == ["remove"]


def test_a_database_is_known_by_its_stamp_when_the_record_is_lost(empty, no_rows):
    point, layers = empty
    ensure(layers)
    cluster = Mariadb(ID)
    cluster.stop()
    cluster.record.remove()
    with refused(traces) as failure:
        ensure(layers, database="postgresql", settings={})
    assert failure.value.code == "database_elsewhere"
    assert [step["op"] for step in ensure(layers, state="absent", database="postgresql")["steps"]] == ["remove"]
    assert not (point / "storlab-database").exists()


def test_refusals_change_nothing(empty, tmp_path):
    point, layers = empty

    def failure_of(**params) -> Failure:
        with refused(traces, point) as failure:
            ensure(**{"layers": layers, **params})
        return failure.value

    space = failure_of(warehouses=7)
    assert space.code == "database_no_space"
    assert f"7 warehouses need {160 + 7 * 150 + LOG_MIB} MiB" in space.what
    missing = failure_of(bin_dir=str(tmp_path))
    assert missing.code == "mariadb_missing"
    assert "mariadbd" in missing.what and "mariadb-server-core" in missing.remedy
    assert failure_of(layer="datastore-ds2").code == "layer_missing"
    assert failure_of(user="root").code == "bad_value"
    (point / "storlab-database").mkdir()
    assert failure_of().code == "database_foreign"
    (point / "storlab-database").rmdir()


def test_a_name_that_is_no_database_is_refused_by_the_role(tmp_path):
    role = {
        "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
        "vars": {"database_load_testbed_id": ID, "database_load_database": "oracle"},
    }
    results = play(tmp_path, {"block": [role]})
    words = [
        result.get("msg", "") + str(result.get("argument_errors", "")) for result in results if result.get("failed")
    ]
    assert words and "database_load_database must be one of: postgresql, mariadb, got: oracle" in words[0]
