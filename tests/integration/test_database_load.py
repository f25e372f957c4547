# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load on each real database, on a file system of its own: made, measured, checked, broken in several ways, and taken away without a trace.

The tests of one database alone are in test_database_postgresql.py and test_database_mariadb.py.
"""

from __future__ import annotations

import os
import signal
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import databases, tproc_c
from ansible_collections.storlab.testbed.plugins.module_utils.linux.daemon import start_ticks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.host import run
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from database_host import children_named, kill_when
from database_kinds import MARIADB, POSTGRESQL, Host, codes, host_of
from unchanged import refused
from waiting import until


@dataclass(frozen=True)
class Words:
    """Questions to a database in its own words, and its answers."""

    # Arguments of its client for a user, before the query; users who may not ask, None for the one whose server it is; and what they hear.
    client: tuple[str, ...]
    strangers: tuple[str | None, ...]
    refusal: str
    # A setting of the user's, how its step shows it, the query for it, what it answers then and otherwise; and one that is refused.
    setting: dict[str, Any]
    shown: str
    query: str
    answers: tuple[str, str]
    private: str
    missing: tuple[str, str]
    # MiB of an empty database and of a warehouse.
    needs_mib: tuple[int, int]
    oldest_order: str


WORDS = {
    POSTGRESQL.name: Words(
        client=("psql", "-h", "{run_dir}", "-d", "load", "-U", "{user}", "-c"),
        strangers=("storlab",),
        refusal="Peer authentication failed",
        setting={"synchronous_commit": False},
        shown="synchronous_commit off",
        query="SHOW synchronous_commit",
        answers=("off", "on"),
        private="listen_addresses",
        missing=("pgbench", "package postgresql"),
        needs_mib=(64, 110),
        oldest_order="no_d_id = 3 AND no_o_id = (SELECT min(no_o_id) FROM new_order WHERE no_d_id = 3)",
    ),
    MARIADB.name: Words(
        client=("mariadb", "--no-defaults", "--socket={run_dir}/socket", "--user={user}", "-e"),
        strangers=(None, "root"),
        refusal="Access denied",
        setting={"innodb_flush_log_at_trx_commit": 2},
        shown="innodb_flush_log_at_trx_commit 2",
        query="SELECT @@innodb_flush_log_at_trx_commit",
        answers=("2", "1"),
        private="bind_address",
        missing=("mariadbd", "mariadb-server-core"),
        needs_mib=(160, 150),
        oldest_order="no_d_id = 3 ORDER BY no_o_id LIMIT 1",
    ),
}


TABLES = ("warehouse", "district", "customer", "history", "new_order", "orders", "item", "stock")


@pytest.fixture(scope="module", params=[POSTGRESQL, MARIADB], ids=lambda kind: kind.name)
def host(request):
    with host_of(request.param, f"db{request.param.name[:5]}") as made:
        yield made


@pytest.fixture(scope="module")
def loaded(host):
    """One warehouse, loaded once for the tests that leave it there; ``made`` is what its making returned, ``rows`` what each table had before any load."""
    with host.untouched():
        host.made = host.ensure()
        host.rows = [int(host.cluster.sql("SELECT count(*) FROM " + name)) for name in TABLES]  # noqa: S608
        yield host


@pytest.fixture
def words(host) -> Words:
    return WORDS[host.kind.name]


def test_it_is_loaded_as_the_rules_say_and_made_once(loaded):
    assert [(step["op"], step["target"]) for step in loaded.made["steps"]] == [
        ("make", "cluster"),
        ("start", "server"),
        ("load", "warehouses"),
    ]
    assert loaded.made["steps"][0]["will"].startswith(f"{loaded.kind.cluster.TITLE} ")
    cluster = loaded.cluster
    assert loaded.rows == [1, 10, 30000, 30000, 9000, 30000, 100000, 100000]
    # Clause 4.3.3.1: 5 to 15 lines, evenly; last names of three syllables, the first thousand of a district all that there are.
    lines, names, of_originals, name = cluster.sql(
        "SELECT avg(o_ol_cnt) FROM orders; SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 4 AND c_id <= 1000;"
        "SELECT avg(CASE WHEN i_data LIKE '%ORIGINAL%' THEN 1.0 ELSE 0.0 END) FROM item;"
        "SELECT c_last FROM customer WHERE c_d_id = 2 AND c_id = 372;"
    ).split()
    assert 9.8 < float(lines) < 10.2
    assert int(names) == 1000
    assert 0.09 < float(of_originals) < 0.11
    assert name == "PRICALLYOUGHT"
    assert loaded.ensure()["steps"] == []


def test_nobody_else_gets_at_it_and_its_server_has_no_rights(loaded, words):
    cluster = loaded.cluster
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
    program, *arguments = words.client
    for user in words.strangers:
        given = [text.format(run_dir=cluster.run_dir, user=user or cluster.user.pw_name) for text in arguments]
        with refused(loaded.traces) as failure:
            run([cluster.program(program), *given, "SELECT 1"])
        # Root may enter the folder, and is not the database's user.
        assert words.refusal in failure.value.what


def test_a_point_is_measured_and_its_figures_agree_with_the_database(loaded):
    cluster = loaded.cluster
    before = int(cluster.sql("SELECT sum(d_next_o_id) FROM district"))
    kept, result = loaded.measure()
    assert result["failures"] == []
    placed = int(cluster.sql("SELECT sum(d_next_o_id) FROM district")) - before
    assert kept["raw"]["log"]["placed"] == placed > 0
    of, minutes = result["transactions"], loaded.kind.runtime_s / 60
    assert result["nopm"] == pytest.approx(of["new_order"]["count"] / minutes)
    assert result["tpm"] == pytest.approx(of["total"]["count"] / minutes)
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
    assert result["engine"]["name"] == loaded.kind.driver
    assert result["database"]["name"] == loaded.kind.cluster.TITLE
    assert not os.path.exists(os.path.join(cluster.run_dir, "point"))


BREAKS = {
    1: ("UPDATE warehouse SET w_ytd = w_ytd + 1", {1, 8}),
    2: ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 7", {2}),
    3: ("UPDATE new_order SET no_o_id = 1 WHERE {oldest_order}", {3, 5}),
    4: ("DELETE FROM order_line WHERE ol_d_id = 2 AND ol_o_id = 11 AND ol_number = 1", {4, 6}),
    7: ("UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 5 AND ol_o_id = 9 AND ol_number = 1", {7}),
    9: ("UPDATE history SET h_d_id = 9 WHERE h_d_id = 8 AND h_c_id = 77", {9}),
    10: ("UPDATE customer SET c_balance = c_balance + 1 WHERE c_d_id = 6 AND c_id = 1234", {10, 12}),
}


@pytest.mark.parametrize("number", BREAKS)
def test_what_breaks_a_condition_by_hand_is_found(loaded, words, number):
    breaking, broken = BREAKS[number]
    breaking = breaking.format(oldest_order=words.oldest_order)
    answer = loaded.cluster.sql(f"BEGIN; {breaking};\n{tproc_c.consistency(loaded=False)}\nROLLBACK;")
    checks = tproc_c.read_consistency(answer)
    assert {int(check["condition"].rpartition(".")[2]) for check in checks if not check["ok"]} == broken
    assert all("example" in check for check in checks if not check["ok"])


def test_a_point_on_broken_data_fails_and_says_which_condition(loaded):
    cluster = loaded.cluster
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_d_id = 6 AND c_id = 1234")
    _kept, result = loaded.measure(runtime_s=loaded.kind.short_s, ramp_s=0)
    cluster.sql("UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_d_id = 6 AND c_id = 1234")
    assert codes(result) == ["database_inconsistent"]
    assert "3.3.2.12" in result["failures"][0]["message"]
    assert "district 6, customer 1234" in result["failures"][0]["message"]
    assert "nopm" not in result and "tpm" not in result


def test_another_database_in_its_place_is_refused(loaded):
    other, title = loaded.kind.other, database.CLUSTERS[loaded.kind.other].TITLE
    with refused(loaded.traces) as failure:
        loaded.ensure(database=other, settings={})
    assert failure.value.code == "database_elsewhere"
    assert f"not as {title}" in failure.value.what and "absent first" in failure.value.remedy
    with refused(loaded.traces) as failure:
        loaded.measure(database=other)
    assert failure.value.details == {"variable": "database_load_database", "value": other}
    assert f"is {loaded.kind.cluster.TITLE}" in failure.value.remedy
    # What there is goes, whatever is asked for.
    assert loaded.ops(check_mode=True, state="absent", database=other) == ["stop", "remove"]


def test_check_mode_and_other_settings(loaded, words):
    cluster = loaded.cluster
    pid = cluster.pid()
    others = {**loaded.kind.settings, **words.setting}
    steps = loaded.ensure(check_mode=True, settings=others)["steps"]
    assert [(step["op"], step["target"]) for step in steps] == [("stop", "server"), ("start", "server")]
    assert words.shown in steps[1]["will"]
    assert loaded.ops(check_mode=True, warehouses=2) == ["stop", "remove", "make", "start", "load"]
    assert loaded.ops(check_mode=True, state="absent") == ["stop", "remove"]
    assert cluster.pid() == pid
    then, otherwise = words.answers
    loaded.ensure(settings=others)
    assert cluster.sql(words.query).strip() == then
    with refused(loaded.traces) as failure:
        loaded.ensure(settings={words.private: "*"})
    assert failure.value.code == "bad_value"
    loaded.ensure()
    assert cluster.sql(words.query).strip() == otherwise


def test_a_server_that_does_not_start_is_quoted(loaded):
    with pytest.raises(Failure) as failure:
        loaded.ensure(settings={"no_such_parameter": 3})
    assert failure.value.code == "database_not_started"
    # Each server writes the name as it likes.
    assert "no_such_parameter" in failure.value.what.replace("-", "_")
    assert not loaded.traces()["processes"]
    assert loaded.ops() == ["start"]


def test_a_killed_driver_fails_the_point_only(loaded):
    killed = kill_when(loaded.testbed_id, lambda: children_named(loaded.kind.driver))
    _kept, result = loaded.measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["engine_exit"]
    assert "nopm" not in result
    assert loaded.cluster.pid()
    assert loaded.measure(runtime_s=loaded.kind.short_s, ramp_s=0)[1]["failures"] == []


def test_a_killed_server_fails_the_point_and_is_started_again(loaded):
    cluster = loaded.cluster
    killed = kill_when(loaded.testbed_id, lambda: [cluster.pid()] if children_named(loaded.kind.driver) else [])
    _kept, result = loaded.measure(runtime_s=60)
    killed.join()
    assert codes(result) == ["database_died"]
    with refused(loaded.traces) as failure:
        loaded.measure()
    assert failure.value.code == "database_missing"
    assert loaded.ops() == ["start"]
    # What was acknowledged came back, and all conditions hold.
    assert loaded.measure(runtime_s=loaded.kind.short_s, ramp_s=0)[1]["failures"] == []


# ---- on a file system without a database


@pytest.fixture
def empty(host) -> Host:
    """The file system without a database; the shared one is taken down for these tests, which stand last."""
    with host.untouched():
        yield host


@pytest.fixture
def no_rows(host, monkeypatch):
    """Tables without rows, which meet all conditions and are there in a moment."""
    schema = [("the tables", databases.LOADS[host.kind.name].schema())]
    monkeypatch.setattr(database, "load_texts", lambda _name, _warehouses: schema)


def test_a_server_killed_for_good_leaves_nothing_either(empty, no_rows):
    made = empty.ensure(check_mode=True)
    assert made["changed"] and not (empty.point / "storlab-database").exists()
    empty.ensure()
    pid = empty.cluster.pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: start_ticks(pid) is None)
    assert empty.ops(state="absent") == ["remove"]


def test_a_database_is_known_by_its_stamp_when_the_record_is_lost(empty, no_rows):
    empty.ensure()
    cluster = empty.cluster
    cluster.stop()
    cluster.record.remove()
    with refused(empty.traces) as failure:
        empty.ensure(database=empty.kind.other, settings={})
    assert failure.value.code == "database_elsewhere"
    assert empty.ops(state="absent", database=empty.kind.other) == ["remove"]
    assert not (empty.point / "storlab-database").exists()


def test_refusals_change_nothing(empty, words, tmp_path):
    point, layers = empty.point, empty.layers

    def failure_of(**params) -> Failure:
        with refused(empty.traces, point) as failure:
            empty.ensure(**params)
        return failure.value

    space, (of_empty, of_warehouse) = failure_of(warehouses=7), words.needs_mib
    assert space.code == "database_no_space"
    assert f"7 warehouses need {of_empty + 7 * of_warehouse + empty.kind.log_mib} MiB" in space.what
    missing, (program, package) = failure_of(bin_dir=str(tmp_path)), words.missing
    assert missing.code == f"{empty.kind.name}_missing"
    assert program in missing.what and package in missing.remedy
    assert failure_of(layer="datastore-ds2").code == "layer_missing"
    assert failure_of(user="root").code == "bad_value"
    other = {"datastore-ds1": {**layers["datastore-ds1"], "identity": {"uuid": "other", "mount_point": str(point)}}}
    assert failure_of(layers=other).code == "database_unproven"
    (point / "storlab-database").mkdir()
    assert failure_of().code == "database_foreign"
    (point / "storlab-database").rmdir()
    with refused(empty.traces, point) as failure:
        empty.measure()
    assert failure.value.code == "database_missing"
