# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MariaDB alone under the load, driven by a real sysbench. test_database_load.py has what all databases do."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.host import run
from database_host import stored_by_the_role
from database_kinds import MARIADB, host_of
from plays import play
from waiting import until

ID = "dbmaria"


@pytest.fixture(scope="module")
def loaded():
    """One warehouse, loaded once for the tests that leave it as it was."""
    with host_of(MARIADB, ID) as host, host.untouched():
        host.ensure()
        yield host


def test_its_tables_are_transactional_and_its_version_is_that_of_the_program(loaded):
    cluster = loaded.cluster
    engines = cluster.sql("SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'load'")
    assert engines.split() == ["InnoDB"]
    kept, result = loaded.measure(runtime_s=loaded.kind.short_s)
    argv = [cluster.program("mariadbd"), "--no-defaults", "--version"]
    answer = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert f"Ver {result['database']['version']}-MariaDB" in answer
    assert not any(cluster.run_dir in word for word in kept["raw"]["arguments"])


def test_an_order_is_drawn_once_and_its_stock_is_locked_in_one_order(loaded):
    cluster = loaded.cluster
    said = cluster.sql("""CALL new_order(1, 1, 1, 15, false, 1);
SELECT ol_i_id FROM order_line WHERE ol_d_id = 1 AND ol_o_id = (SELECT max(o_id) FROM orders WHERE o_d_id = 1) ORDER BY ol_number;""")
    items = [int(item) for item in said.split()]
    assert len(items) == 15
    assert items == sorted(items)


def test_a_customer_of_a_name_is_the_middle_one(loaded):
    cluster = loaded.cluster
    ids = cluster.sql("SELECT c_id FROM customer WHERE c_d_id = 3 AND c_last = 'BARBARBAR' ORDER BY c_first").split()
    found = cluster.sql("CALL customer_of(1, 3, 0, @c); SELECT @c;").strip()
    # Clause 2.5.2.2: n / 2, rounded up.
    assert found == ids[(len(ids) + 1) // 2 - 1]


def test_it_writes_its_pages_before_a_point(loaded):
    cluster = loaded.cluster
    before = cluster.sql("SELECT @@innodb_max_dirty_pages_pct, @@innodb_max_dirty_pages_pct_lwm")
    cluster.sql("UPDATE stock SET s_ytd = s_ytd")
    cluster.sql("UPDATE stock SET s_ytd = s_ytd + 1; UPDATE stock SET s_ytd = s_ytd - 1")
    assert cluster.dirty_pages() > 100
    cluster.settle()
    assert cluster.dirty_pages() < 100
    assert cluster.sql("SELECT @@innodb_max_dirty_pages_pct, @@innodb_max_dirty_pages_pct_lwm") == before


def test_what_is_refused_is_tried_again_and_counted(loaded):
    """A client holds the lock of all districts for longer than the load waits for one."""
    cluster = loaded.cluster
    held = "SET innodb_lock_wait_timeout = 50; BEGIN; SELECT d_id FROM district FOR UPDATE; SELECT sleep(4); ROLLBACK"
    logs = Path(cluster.run_dir, "point")

    def hold() -> None:
        until(lambda: list(logs.glob("transactions.*")))
        argv = [cluster.program("mariadb"), "--no-defaults", f"--socket={cluster.run_dir}/socket"]
        run([*argv, f"--user={cluster.user.pw_name}", "load", "-e", held], user=cluster.user)

    holder = threading.Thread(target=hold)
    holder.start()
    kept, result = loaded.measure(ramp_s=0, runtime_s=15)
    holder.join()
    assert result["failures"] == []
    total = result["transactions"]["total"]
    assert total["retries"] >= total["retried"] > 0
    # What it waited for is in its time.
    assert total["latency_max_ns"] > 1_000_000_000
    assert kept["raw"]["log"]["lines"] > total["retried"]


def test_the_role_stores_points_that_are_reported_and_verified(loaded, tmp_path):
    values = loaded.values(run_id="maria", repetitions=1)
    run_dir = stored_by_the_role(tmp_path, loaded.layers, values)
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
