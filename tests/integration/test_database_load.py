# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load on a real PostgreSQL, on a file system of its own: made, measured, checked, broken in several ways, and taken away without a trace."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import (
    databases,
    pgbench,
    tproc_c,
    tproc_c_postgresql,
    transactions,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.daemon import start_ticks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.host import run
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database_postgresql import Postgresql
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from database_host import MIB, children_named, kill_when, shell
from database_host import datastore as mounted
from database_host import traces as traces_of
from plays import play
from unchanged import refused
from waiting import until

# Smaller than the default so that the log does not need a gigabyte.
WAL_MIB = 96


@pytest.fixture(scope="module")
def datastore():
    with mounted("dbtest", 640) as made:
        yield made


def traces() -> dict:
    return traces_of("dbtest", linux.user_of("", Postgresql.USERS).pw_uid)


def ensure(layers: dict, check_mode: bool = False, **params):
    given = {
        "testbed_id": "dbtest",
        "state": "present",
        "database": "postgresql",
        "layers": layers,
        "layer": "datastore-ds1",
        "warehouses": 1,
        "shared_buffers_mib": 16,
        "max_wal_mib": WAL_MIB,
        "settings": {},
        "bin_dir": None,
        "user": "",
        "hammerdb_dir": None,
        **params,
    }
    return converge(database.Area, given, check_mode)


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
        "testbed_id": "dbtest",
        "database": "postgresql",
        "warehouses": 1,
        "virtual_users": 3,
        "ramp_s": 1,
        "runtime_s": 4,
        "isolation": "read_committed",
        "hammerdb_dir": None,
        **params,
    }
    kept = json.loads(json.dumps(database.measure(given)))
    return kept, transactions.measured(kept["raw"], databases.DRIVERS["pgbench"])


def codes(result: dict) -> list[str]:
    return [failure["code"] for failure in result["failures"]]


def test_it_is_loaded_as_the_rules_say_and_made_once(loaded):
    _point, layers, made = loaded
    assert [(step["op"], step["target"]) for step in made["steps"]] == [
        ("make", "cluster"),
        ("start", "server"),
        ("load", "warehouses"),
    ]
    cluster = Postgresql("dbtest")
    tables = ("warehouse", "district", "customer", "history", "new_order", "orders", "item", "stock")
    counts = [cluster.sql("SELECT count(*) FROM " + name) for name in tables]  # noqa: S608, names of above
    assert [int(count) for count in counts] == [1, 10, 30000, 30000, 9000, 30000, 100000, 100000]
    # Clause 4.3.3.1: 5 to 15 lines, evenly; last names of three syllables, the first thousand of a district all that there are.
    lines, names, of_originals = cluster.sql(
        "SELECT avg(o_ol_cnt) FROM orders; SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 4 AND c_id <= 1000;"
        "SELECT avg((i_data LIKE '%ORIGINAL%')::int) FROM item;"
    ).split()
    assert 9.8 < float(lines) < 10.2
    assert int(names) == 1000
    assert 0.09 < float(of_originals) < 0.11
    assert cluster.sql("SELECT last_name(371)").strip() == "PRICALLYOUGHT"
    assert ensure(layers)["steps"] == []


def test_nobody_else_gets_at_it_and_its_server_has_no_rights(loaded):
    cluster = Postgresql("dbtest")
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
    with refused(traces) as failure:
        run([cluster.program("psql"), "-h", cluster.run_dir, "-U", "storlab", "-d", "load", "-c", "SELECT 1"])
    # Root may enter the folder, and is not the database's user.
    assert "Peer authentication failed" in failure.value.what


def test_a_point_is_measured_and_its_figures_agree_with_the_database(loaded):
    cluster = Postgresql("dbtest")
    before = int(cluster.sql("SELECT sum(d_next_o_id) FROM district"))
    kept, result = measure()
    assert result["failures"] == []
    placed = int(cluster.sql("SELECT sum(d_next_o_id) FROM district")) - before
    assert kept["raw"]["log"]["placed"] == placed > 0
    of = result["transactions"]
    assert result["nopm"] == pytest.approx(of["new_order"]["count"] * 15)
    assert result["tpm"] == pytest.approx(of["total"]["count"] * 15)
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
    assert sum(new for _all, new in kept["raw"]["log"]["seconds"]) == of["new_order"]["count"]
    assert not os.path.exists(os.path.join(cluster.run_dir, "point"))


def test_what_isolation_refuses_is_tried_again_and_counted(loaded):
    version = pgbench.version_of(shell(Postgresql("dbtest").program("pgbench"), "--version"))
    if version[0] < pgbench.RETRIES_SINCE:
        pytest.skip("pgbench retries since PostgreSQL 15")
    _kept, result = measure(isolation="repeatable_read", virtual_users=8)
    # Eight users of one warehouse change the same row.
    assert result["transactions"]["payment"]["retried"] > 0
    assert result["transactions"]["total"]["retries"] >= result["transactions"]["total"]["retried"]
    assert result["transactions"]["stock_level"]["retried"] == 0


BREAKS = {
    1: ("UPDATE warehouse SET w_ytd = w_ytd + 1", "UPDATE warehouse SET w_ytd = w_ytd - 1", {1, 8}),
    2: (
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 7",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_id = 7",
        {2},
    ),
    3: (
        "UPDATE new_order SET no_o_id = 1 WHERE no_d_id = 3 AND no_o_id = (SELECT min(no_o_id) FROM new_order WHERE no_d_id = 3)",
        None,
        {3, 5},
    ),
    4: ("DELETE FROM order_line WHERE ol_d_id = 2 AND ol_o_id = 11 AND ol_number = 1", None, {4, 6}),
    7: ("UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 5 AND ol_o_id = 9 AND ol_number = 1", None, {7}),
    9: ("UPDATE history SET h_d_id = 9 WHERE h_d_id = 8 AND h_c_id = 77", None, {9}),
    10: ("UPDATE customer SET c_balance = c_balance + 1 WHERE c_d_id = 6 AND c_id = 1234", None, {10, 12}),
}


@pytest.mark.parametrize("number", BREAKS)
def test_what_breaks_a_condition_by_hand_is_found(loaded, number):
    breaking, _undo, found = BREAKS[number]
    cluster = Postgresql("dbtest")
    said = cluster.sql(f"BEGIN; {breaking};\n{tproc_c.consistency(loaded=False)}\nROLLBACK;")
    checks = tproc_c.read_consistency(said)
    assert {int(check["condition"].rpartition(".")[2]) for check in checks if not check["ok"]} == found
    assert all("example" in check for check in checks if not check["ok"])


def test_a_point_on_broken_data_fails_and_says_which_condition(loaded):
    cluster = Postgresql("dbtest")
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 6 AND c_id = 1234")
    _kept, result = measure(runtime_s=1, ramp_s=0)
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_d_id = 6 AND c_id = 1234")
    assert codes(result) == ["database_inconsistent"]
    assert "3.3.2.12" in result["failures"][0]["message"]
    assert "district 6, customer 1234" in result["failures"][0]["message"]
    assert "nopm" not in result and "tpm" not in result


def test_check_mode_and_other_settings(loaded):
    _point, layers, _made = loaded
    cluster = Postgresql("dbtest")
    pid = cluster.pid()
    steps = ensure(layers, check_mode=True, settings={"synchronous_commit": False})["steps"]
    assert [(step["op"], step["target"]) for step in steps] == [("stop", "server"), ("start", "server")]
    assert "synchronous_commit off" in steps[1]["will"]
    more = ensure(layers, check_mode=True, warehouses=2)["steps"]
    assert [step["op"] for step in more] == ["stop", "remove", "make", "start", "load"]
    assert [step["op"] for step in ensure(layers, check_mode=True, state="absent")["steps"]] == ["stop", "remove"]
    assert cluster.pid() == pid
    ensure(layers, settings={"synchronous_commit": False})
    assert cluster.sql("SHOW synchronous_commit").strip() == "off"
    with refused(traces) as failure:
        ensure(layers, settings={"listen_addresses": "*"})
    assert failure.value.code == "bad_value"
    ensure(layers)
    assert cluster.sql("SHOW synchronous_commit").strip() == "on"


def test_a_server_that_does_not_start_is_quoted(loaded):
    _point, layers, _made = loaded
    with pytest.raises(Failure) as failure:
        ensure(layers, settings={"no_such_parameter": 3})
    assert failure.value.code == "database_not_started"
    assert "no_such_parameter" in failure.value.what
    assert [step["op"] for step in ensure(layers)["steps"]] == ["start"]


def test_a_killed_driver_fails_the_point_only(loaded):
    cluster = Postgresql("dbtest")
    killed = kill_when("dbtest", lambda: children_named("pgbench"))
    _kept, result = measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["engine_exit"]
    assert "nopm" not in result
    assert cluster.pid()
    assert measure(runtime_s=1, ramp_s=0)[1]["failures"] == []


def test_a_killed_server_fails_the_point_and_is_started_again(loaded):
    _point, layers, _made = loaded
    cluster = Postgresql("dbtest")
    killed = kill_when("dbtest", lambda: [cluster.pid()] if children_named("pgbench") else [])
    _kept, result = measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["database_died"]
    with refused(traces) as failure:
        measure()
    assert failure.value.code == "database_missing"
    assert [step["op"] for step in ensure(layers)["steps"]] == ["start"]
    # What was acknowledged came back, and all conditions hold.
    assert measure(runtime_s=1, ramp_s=0)[1]["failures"] == []


@pytest.mark.long
def test_the_role_stores_points_that_are_reported_compared_and_verified(loaded, tmp_path):
    """As a user has it: the role twice, then report, comparison and verification of what it stored."""
    _point, layers, _made = loaded

    def load(run_id: str, **more) -> dict:
        values = {
            "testbed_id": "dbtest",
            "layer": "datastore-ds1",
            "shared_buffers_mib": 16,
            "max_wal_mib": WAL_MIB,
            "run_id": run_id,
            "results_dir": str(tmp_path / "results"),
            "virtual_users": 2,
            "ramp_s": 0,
            "runtime_s": 1,
            **more,
        }
        return {
            "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
            "vars": {f"database_load_{name}": value for name, value in values.items()},
        }

    runs = {name: str(tmp_path / "results" / "dbtest" / name) for name in ("before", "after")}
    results = play(
        tmp_path,
        {
            "block": [
                {"storlab.testbed.layer": {"layers": list(layers.values())}},
                load("before", repetitions=5),
                load("after"),
                # What is there is not measured again, and one more is.
                load("after", only_repetitions=[1, 5]),
                {"storlab.testbed.verify_results": {"run_dir": runs["after"]}},
                {"storlab.testbed.report": {"run_dir": runs["after"]}},
                {
                    "storlab.testbed.compare": {
                        "baseline": {"run_dir": runs["before"]},
                        "candidate": {"run_dir": runs["after"]},
                    }
                },
            ]
        },
    )
    assert not [result.get("msg") for result in results if result.get("failed")]
    stored = {
        number: json.loads(
            Path(runs["after"], "points", f"datastore-ds1.tproc_c-w1-vu2.r{number}", "result.json").read_text()
        )
        for number in range(1, 6)
    }
    assert [result["status"] for result in stored.values()] == ["measured"] * 5
    again = next(
        result for result in results if "only_repetitions" in str(result) or len(result.get("results", [])) == 2
    )
    assert [entry["changed"] for entry in again["results"]] == [False, True]
    page = Path(runs["after"], "report", "index.html").read_text(encoding="utf-8")
    table = page[page.index('<section id="databases">') :].partition("</section>")[0]
    nopm = sorted(result["nopm"] for result in stored.values())
    assert f'<data value="{nopm[2]:g}"' in table or f"{nopm[2]:.0f}" in table
    assert "datastore-ds1 does" in page
    assert "Nothing was measured" not in page
    compared = json.loads(next(tmp_path.glob("results/dbtest/compare/*/comparison.json")).read_text(encoding="utf-8"))
    rows = {row["metric"]: row for row in compared["rows"]}
    assert {"tpm", "nopm"} <= set(rows)
    assert rows["nopm"]["candidate"]["value"] == pytest.approx(nopm[2])
    assert "why" not in rows["nopm"]


@pytest.mark.long
def test_variants_take_turns_beneath_a_database_that_stays(loaded, tmp_path):
    _point, layers, _made = loaded
    noted = tmp_path / "noted"
    (tmp_path / "turn.yml").write_text(
        "- ansible.builtin.shell: echo {{ database_load_variant_vars.word | default('none') }} >> " + str(noted)
    )
    values = {
        "testbed_id": "dbtest",
        "layer": "datastore-ds1",
        "shared_buffers_mib": 16,
        "max_wal_mib": WAL_MIB,
        "run_id": "turns",
        "results_dir": str(tmp_path / "results"),
        "virtual_users": 2,
        "ramp_s": 0,
        "runtime_s": 1,
        "repetitions": 2,
        "variants": [
            {"name": "baseline", "tasks_file": "turn.yml", "vars": {"word": "slow"}},
            {"name": "cached", "tasks_file": "turn.yml"},
        ],
        "published": [{"metric": "nopm", "value": 7845, "unit": "NOPM", "where": "lab without cache"}],
    }
    pid = Postgresql("dbtest").pid()
    role = {
        "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
        "vars": {f"database_load_{name}": value for name, value in values.items()},
    }
    layer = {"storlab.testbed.layer": {"layers": list(layers.values())}}
    results = play(tmp_path, {"block": [layer, role]})
    assert not [result.get("msg") for result in results if result.get("failed")]
    # Turned round in the second round, so that the growth of the database falls on both alike.
    assert noted.read_text().split() == ["slow", "none", "none", "slow"]
    assert Postgresql("dbtest").pid() == pid
    run = tmp_path / "results" / "dbtest" / "turns"
    stored = [json.loads(path.read_text()) for path in run.glob("points/*/result.json")]
    assert sorted((result["variant"], result["repetition"], result["status"]) for result in stored) == [
        (variant, number, "measured") for variant in ("baseline", "cached") for number in (1, 2)
    ]
    begun = [result["variant"] for result in sorted(stored, key=lambda result: result["started_utc"])]
    assert begun == ["baseline", "cached", "cached", "baseline"]
    record = json.loads((run / "run.json").read_text())
    assert record["variants"] == ["baseline", "cached"]
    assert [request["published"] for request in record["requests"]] == [
        [{"metric": "nopm", "value": 7845.0, "unit": "NOPM", "where": "lab without cache"}]
    ] * 2


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


def _settled() -> bool:
    """Whether the server answers, or is gone with all that it held."""
    try:
        return Postgresql("dbtest").sql("SELECT 1").strip() == "1"
    except Failure:
        return not (traces()["processes"] or traces()["segments"])


def test_a_full_disk_fails_the_load_and_is_taken_down(empty):
    point, layers = empty
    # Space enough by the arithmetic when it is looked at, and less afterwards.
    filler = point / "filler"
    texts = database.load_texts

    def load(name, warehouses):
        for number, entry in enumerate(texts(name, warehouses)):
            if number == 2:
                disk = os.statvfs(point)
                with filler.open("wb") as handle:
                    os.posix_fallocate(handle.fileno(), 0, disk.f_bavail * disk.f_frsize - 24 * MIB)
            yield entry

    try:
        database.load_texts = load
        with pytest.raises(Failure) as failed:
            ensure(layers)
    finally:
        database.load_texts = texts
        filler.unlink()
    assert failed.value.code == "database_full"
    # A full disk may bring the server down, which then begins anew by itself, or ends.
    until(_settled)
    # What was begun is not taken for a database.
    with refused(traces) as failure:
        measure()
    assert failure.value.code == "database_missing"
    assert [step["op"] for step in ensure(layers, check_mode=True)["steps"]][-3:] == ["make", "start", "load"]


@pytest.fixture
def no_rows(monkeypatch):
    """Tables without rows, which meet all conditions and are there in a moment."""
    monkeypatch.setattr(
        database, "load_texts", lambda _name, _warehouses: [("the tables", tproc_c_postgresql.schema())]
    )


def test_a_server_killed_for_good_leaves_nothing_either(empty, no_rows):
    point, layers = empty
    made = ensure(layers, check_mode=True)
    assert made["changed"] and not (point / "storlab-database").exists()
    ensure(layers)
    pid = Postgresql("dbtest").pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: start_ticks(pid) is None)
    assert [step["op"] for step in ensure(layers, state="absent")["steps"]] == ["remove"]


def test_a_database_is_known_by_its_stamp_when_the_record_is_lost(empty, no_rows):
    point, layers = empty
    ensure(layers)
    cluster = Postgresql("dbtest")
    cluster.stop()
    cluster.record.remove()
    assert [step["op"] for step in ensure(layers, state="absent")["steps"]] == ["remove"]
    assert not (point / "storlab-database").exists()


def test_refusals_change_nothing(empty, tmp_path):
    point, layers = empty

    def failure_of(**params) -> Failure:
        with refused(traces, point) as failure:
            ensure(**{"layers": layers, **params})
        return failure.value

    space = failure_of(warehouses=7)
    assert space.code == "database_no_space"
    assert f"7 warehouses need {64 + 7 * 110 + WAL_MIB} MiB" in space.what
    missing = failure_of(bin_dir=str(tmp_path))
    assert missing.code == "postgresql_missing"
    assert "pgbench" in missing.what and "package postgresql" in missing.remedy
    assert failure_of(layer="datastore-ds2").code == "layer_missing"
    assert failure_of(user="root").code == "bad_value"
    other = {"datastore-ds1": {**layers["datastore-ds1"], "identity": {"uuid": "other", "mount_point": str(point)}}}
    assert failure_of(layers=other).code == "database_unproven"
    (point / "storlab-database").mkdir()
    assert failure_of().code == "database_foreign"
    (point / "storlab-database").rmdir()
    with refused(traces, point) as failure:
        measure()
    assert failure.value.code == "database_missing"
