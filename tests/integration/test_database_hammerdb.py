# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HammerDB as the driver of a real PostgreSQL and a real MariaDB. HammerDB itself is a simulation (tests/hammerdb_sim), and says so."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.engines import hammerdb_load
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from database_host import datastore as mounted
from database_host import stored_by_the_role
from database_host import traces as traces_of
from unchanged import broken_off, refused

ID = "dbhammer"
SIMULATION = Path(__file__).resolve().parent.parent / "hammerdb_sim" / "hammerdbcli"


@pytest.fixture(scope="module", params=list(database.CLUSTERS))
def host(request):
    """(database, mount point, layers, folder of the simulation): nothing but traces of nobody's is left afterwards."""
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    users = database.CLUSTERS[request.param].USERS

    def traces() -> dict:
        return traces_of(ID, linux.user_of("", users).pw_uid)

    with mounted(ID, 640) as (point, layers):
        # Where every user may read.
        folder = point.parent / "HammerDB-4.12"
        folder.mkdir(mode=0o755)
        shutil.copy(SIMULATION, folder)
        before = traces()
        yield request.param, point, layers, folder
        ensure((request.param, point, layers, folder), state="absent")
        assert traces() == before
        assert sorted(os.listdir(point)) == ["lost+found"]


def ensure(host, check_mode: bool = False, **params) -> dict:
    name, _point, layers, folder = host
    given = {
        "testbed_id": ID,
        "state": "present",
        "database": name,
        "layers": layers,
        "layer": "datastore-ds1",
        "warehouses": 2,
        "shared_buffers_mib": 16,
        "max_wal_mib": 64,
        "settings": {},
        "bin_dir": None,
        "user": "",
        "hammerdb_dir": str(folder),
        **params,
    }
    return converge(database.Area, given, check_mode)


def measure(host, **params) -> tuple[dict, dict]:
    given = {
        "testbed_id": ID,
        "database": host[0],
        "hammerdb_dir": str(host[3]),
        "warehouses": 2,
        "virtual_users": 3,
        "ramp_s": 0,
        "runtime_s": 120,
        "isolation": "read_committed",
        **params,
    }
    kept = json.loads(json.dumps(database.measure(given)))
    return kept["raw"], hammerdb_load.measured(kept["raw"])


def stamps(host) -> list:
    """What tells that a database was made anew: its stamp, and what is recorded of its server."""
    files = [host[1] / "storlab-database" / "storlab.json", Path("/run/storlab") / ID / "database.json"]
    return [path.read_text() if path.exists() else None for path in files]


@pytest.fixture
def loaded(host):
    """Rows that nobody has touched, and HammerDB in order."""
    mode = host[3] / "mode"
    mode.unlink(missing_ok=True)
    ensure(host, state="absent")
    ensure(host)
    yield host
    mode.unlink(missing_ok=True)


def test_a_point_has_the_rates_that_it_says_and_the_data_are_checked(loaded):
    raw, result = measure(loaded)
    assert raw["said"].startswith("SIMULATION: this is no HammerDB")
    assert result["failures"] == []
    assert (result["tpm"], result["nopm"]) == (14.0, 7.0)
    assert result["engine"] == {"name": "hammerdb", "version": "4.12"}
    assert result["database"]["name"] in ("PostgreSQL", "MariaDB")
    assert "transactions" not in result
    consistency, kept = result["checks"]
    assert [check["condition"] for check in consistency["conditions"]] == ["3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.4"]
    assert kept == {"name": "orders_kept", "ok": True, "acknowledged": 14, "there": 14}
    assert str(loaded[3]) not in json.dumps(raw["arguments"])
    assert not os.path.exists(f"{linux.RUN_DIR}/{ID}/point")
    assert ensure(loaded)["steps"] == []
    # The rows of the other driver are made anew.
    other = ensure(loaded, check_mode=True, hammerdb_dir=None)["steps"]
    assert [step["op"] for step in other] == ["stop", "remove", "make", "start", "load"]
    with refused(lambda: stamps(loaded)) as failure:
        measure(loaded, hammerdb_dir=None)
    assert failure.value.details["variable"] == "database_load_hammerdb_dir"


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("broken_data", "database_inconsistent"),
        ("lies", "database_orders_lost"),
        ("user_failed", "users_failed"),
        ("silent", "no_result"),
    ],
)
def test_what_goes_wrong_fails_the_point(loaded, mode, code):
    (loaded[3] / "mode").write_text(mode)
    _raw, result = measure(loaded)
    assert [failure["code"] for failure in result["failures"]] == [code]
    assert not {"tpm", "nopm"} & set(result)


@pytest.mark.parametrize(("mode", "code"), [("unbuilt", "hammerdb_failed"), ("wrong_rows", "database_inconsistent")])
def test_rows_that_are_not_there_or_wrong_are_no_database(host, mode, code):
    ensure(host, state="absent")
    (host[3] / "mode").write_text(mode)
    with broken_off() as failure:
        ensure(host)
    (host[3] / "mode").unlink()
    assert failure.value.code == code
    with refused(lambda: stamps(host)) as missing:
        measure(host)
    assert missing.value.code == "database_missing"
    if mode == "unbuilt":
        assert "Failed to load Pgtcl" in failure.value.what


def test_values_that_it_cannot_have_are_refused(host, tmp_path):
    for values, variable in (
        ({"runtime_s": 90}, "database_load_runtime_s"),
        ({"ramp_s": 30}, "database_load_ramp_s"),
        ({"isolation": "serializable"}, "database_load_isolation"),
    ):
        with refused(tmp_path) as failure:
            measure(host, **values)
        assert failure.value.details["variable"] == variable
    with refused(tmp_path, lambda: stamps(host)) as failure:
        ensure(host, hammerdb_dir=str(tmp_path))
    assert failure.value.code == "hammerdb_missing"


def test_the_role_stores_points_that_are_reported_and_verified(loaded, tmp_path):
    name, _point, layers, folder = loaded
    values = {
        "testbed_id": ID,
        "database": name,
        "hammerdb_dir": str(folder),
        "layer": "datastore-ds1",
        "warehouses": 2,
        "shared_buffers_mib": 16,
        "max_wal_mib": 64,
        "run_id": "hammer",
        "virtual_users": 3,
        "ramp_s": 0,
        "runtime_s": 60,
        "repetitions": 1,
    }
    run_dir = stored_by_the_role(tmp_path, layers, values)
    other = "" if name == "postgresql" else f"-{name}"
    point = run_dir / "points" / f"datastore-ds1.tproc_c-hammerdb{other}-w2-vu3.r1"
    result = json.loads((point / "result.json").read_text())
    assert (result["status"], result["raw"]["file"], result["nopm"]) == ("measured", "hammerdb.json", 7.0)
    page = (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    table = page[page.index('<section id="databases">') :].partition("</section>")[0]
    assert f"by hammerdb on a {result['database']['name']} with its data" in table
