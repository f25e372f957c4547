# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL alone under the load: retries, a full disk, and a whole round of the role. test_database_load.py has what all databases do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import pgbench
from ansible_collections.storlab.testbed.plugins.module_utils.run import database
from database_host import MIB, shell
from database_kinds import POSTGRESQL, host_of
from plays import play
from unchanged import refused
from waiting import until


@pytest.fixture(scope="module")
def host():
    with host_of(POSTGRESQL, "dbtest") as made:
        yield made


@pytest.fixture(scope="module")
def loaded(host):
    """One warehouse, loaded once for the tests that leave it as it was."""
    with host.untouched():
        host.ensure()
        yield host


def test_what_isolation_refuses_is_tried_again_and_counted(loaded):
    version = pgbench.version_of(shell(loaded.cluster.program("pgbench"), "--version"))
    if version[0] < pgbench.RETRIES_SINCE:
        pytest.skip("pgbench retries since PostgreSQL 15")
    _kept, result = loaded.measure(isolation="repeatable_read", virtual_users=8)
    # Eight users of one warehouse change the same row.
    assert result["transactions"]["payment"]["retried"] > 0
    assert result["transactions"]["total"]["retries"] >= result["transactions"]["total"]["retried"]
    assert result["transactions"]["stock_level"]["retried"] == 0


@pytest.mark.long
def test_the_role_stores_points_that_are_reported_compared_and_verified(loaded, tmp_path):
    """As a user has it: the role twice, then report, comparison and verification of what it stored."""

    def load(run_id: str, **more) -> dict:
        values = loaded.values(run_id=run_id, runtime_s=1, results_dir=str(tmp_path / "results"), **more)
        return {
            "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
            "vars": {f"database_load_{name}": value for name, value in values.items()},
        }

    runs = {name: str(tmp_path / "results" / "dbtest" / name) for name in ("before", "after")}
    results = play(
        tmp_path,
        {
            "block": [
                {"storlab.testbed.layer": {"layers": list(loaded.layers.values())}},
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
    noted = tmp_path / "noted"
    (tmp_path / "turn.yml").write_text(
        "- ansible.builtin.shell: echo {{ database_load_variant_vars.word | default('none') }} >> " + str(noted)
    )
    values = loaded.values(
        run_id="turns",
        runtime_s=1,
        results_dir=str(tmp_path / "results"),
        repetitions=2,
        variants=[
            {"name": "baseline", "tasks_file": "turn.yml", "vars": {"word": "slow"}},
            {"name": "cached", "tasks_file": "turn.yml"},
        ],
        published=[{"metric": "nopm", "value": 7845, "unit": "NOPM", "where": "lab without cache"}],
    )
    pid = loaded.cluster.pid()
    role = {
        "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
        "vars": {f"database_load_{name}": value for name, value in values.items()},
    }
    layer = {"storlab.testbed.layer": {"layers": list(loaded.layers.values())}}
    results = play(tmp_path, {"block": [layer, role]})
    assert not [result.get("msg") for result in results if result.get("failed")]
    # Turned round in the second round, so that the growth of the database falls on both alike.
    assert noted.read_text().split() == ["slow", "none", "none", "slow"]
    assert loaded.cluster.pid() == pid
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


def _settled(host) -> bool:
    """Whether the server answers, or is gone with all that it held."""
    try:
        return host.cluster.sql("SELECT 1").strip() == "1"
    except Failure:
        return not (host.traces()["processes"] or host.traces()["segments"])


def test_a_full_disk_fails_the_load_and_is_taken_down(host):
    """Stands last: the shared database is taken down for it."""
    with host.untouched():
        point = host.point
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
                host.ensure()
        finally:
            database.load_texts = texts
            filler.unlink()
        assert failed.value.code == "database_full"
        # A full disk may bring the server down, which then begins anew by itself, or ends.
        until(lambda: _settled(host))
        # What was begun is not taken for a database.
        with refused(host.traces) as failure:
            host.measure()
        assert failure.value.code == "database_missing"
        assert host.ops(check_mode=True)[-3:] == ["make", "start", "load"]
