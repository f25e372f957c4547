# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HammerDB as the driver of a real PostgreSQL and a real MariaDB. HammerDB itself is a simulation (tests/hammerdb_sim), and says so."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import hammerdb_load
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from database_host import stored_by_the_role
from database_kinds import MARIADB, POSTGRESQL, Host, host_of
from unchanged import broken_off, refused

SIMULATION = Path(__file__).resolve().parent.parent / "hammerdb_sim" / "hammerdbcli"


class Hammered(Host):
    """A database whose driver is the simulation."""

    @property
    def folder(self) -> Path:
        """Where every user may read."""
        return self.point.parent / "HammerDB-4.12"

    def ensure(self, check_mode: bool = False, **params) -> dict:
        return super().ensure(check_mode, **{"warehouses": 2, "hammerdb_dir": str(self.folder), **params})

    def measure(self, **params) -> tuple[dict, dict]:
        of_it = {"warehouses": 2, "hammerdb_dir": str(self.folder), "ramp_s": 0, "runtime_s": 120}
        kept = self.kept(**{**of_it, **params})
        return kept["raw"], hammerdb_load.measured(kept["raw"])


@pytest.fixture(scope="module", params=[POSTGRESQL, MARIADB], ids=lambda kind: kind.name)
def host(request):
    """Nothing but traces of nobody's is left afterwards."""
    kind = replace(request.param, driver="hammerdb", buffers_mib=16, log_mib=64, settings={})
    with host_of(kind, "dbhammer", Hammered) as made:
        made.folder.mkdir(mode=0o755)
        shutil.copy(SIMULATION, made.folder)
        with made.untouched():
            yield made


def stamps(host) -> list:
    """What tells that a database was made anew: its stamp, and what is recorded of its server."""
    files = [host.point / "storlab-database" / "storlab.json", Path("/run/storlab") / host.testbed_id / "database.json"]
    return [path.read_text() if path.exists() else None for path in files]


@pytest.fixture
def loaded(host):
    """Rows that nobody has touched, and HammerDB in order."""
    mode = host.folder / "mode"
    mode.unlink(missing_ok=True)
    host.ensure(state="absent")
    host.ensure()
    yield host
    mode.unlink(missing_ok=True)


def test_a_point_has_the_rates_that_it_says_and_the_data_are_checked(loaded):
    raw, result = loaded.measure()
    assert raw["said"].startswith("SIMULATION: this is no HammerDB")
    assert result["failures"] == []
    assert (result["tpm"], result["nopm"]) == (14.0, 7.0)
    assert result["engine"] == {"name": "hammerdb", "version": "4.12"}
    assert result["database"]["name"] in ("PostgreSQL", "MariaDB")
    assert "transactions" not in result
    consistency, kept = result["checks"]
    assert [check["condition"] for check in consistency["conditions"]] == ["3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.4"]
    assert kept == {"name": "orders_kept", "ok": True, "acknowledged": 14, "there": 14}
    assert str(loaded.folder) not in json.dumps(raw["arguments"])
    assert not os.path.exists(f"{linux.RUN_DIR}/{loaded.testbed_id}/point")
    assert loaded.ensure()["steps"] == []
    # The rows of the other driver are made anew.
    other = loaded.ensure(check_mode=True, hammerdb_dir=None)["steps"]
    assert [step["op"] for step in other] == ["stop", "remove", "make", "start", "load"]
    with refused(lambda: stamps(loaded)) as failure:
        loaded.measure(hammerdb_dir=None)
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
    (loaded.folder / "mode").write_text(mode)
    _raw, result = loaded.measure()
    assert [failure["code"] for failure in result["failures"]] == [code]
    assert not {"tpm", "nopm"} & set(result)


@pytest.mark.parametrize(("mode", "code"), [("unbuilt", "hammerdb_failed"), ("wrong_rows", "database_inconsistent")])
def test_rows_that_are_not_there_or_wrong_are_no_database(host, mode, code):
    host.ensure(state="absent")
    (host.folder / "mode").write_text(mode)
    with broken_off() as failure:
        host.ensure()
    (host.folder / "mode").unlink()
    assert failure.value.code == code
    with refused(lambda: stamps(host)) as missing:
        host.measure()
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
            host.measure(**values)
        assert failure.value.details["variable"] == variable
    with refused(tmp_path, lambda: stamps(host)) as failure:
        host.ensure(hammerdb_dir=str(tmp_path))
    assert failure.value.code == "hammerdb_missing"


def test_the_role_stores_points_that_are_reported_and_verified(loaded, tmp_path):
    more = {"hammerdb_dir": str(loaded.folder), "warehouses": 2, "virtual_users": 3, "runtime_s": 60, "repetitions": 1}
    run_dir = stored_by_the_role(tmp_path, loaded.layers, loaded.values(run_id="hammer", **more))
    other = "" if loaded.kind.name == "postgresql" else f"-{loaded.kind.name}"
    point = run_dir / "points" / f"datastore-ds1.tproc_c-hammerdb{other}-w2-vu3.r1"
    result = json.loads((point / "result.json").read_text())
    assert (result["status"], result["raw"]["file"], result["nopm"]) == ("measured", "hammerdb.json", 7.0)
    page = (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    table = page[page.index('<section id="databases">') :].partition("</section>")[0]
    assert f"by hammerdb on a {result['database']['name']} with its data" in table
