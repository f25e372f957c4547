# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two machines measured together and alone, and that nothing which measured is left on them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://target01", "ssh://hypervisor01"]
RESULTS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/molecule/engine/results/engine"


def point(run: str) -> tuple[dict, Path]:
    """The result of the only point of a run, and its folder."""
    (path,) = (RESULTS / run / "points").glob("*/result.json")
    result = json.loads(path.read_text())
    hosts = result.setdefault("counters", {}).setdefault("hosts", {})
    # What the other hosts counted is added beside it.
    for added in (RESULTS / run / "added").glob("observer.*.json"):
        addition = json.loads(added.read_text())["points"].get(path.parent.name, {})
        assert addition.get("of", result["raw"]["sha256"]) == result["raw"]["sha256"]
        hosts.update(addition.get("counters", {}).get("hosts", {}))
    return result, path.parent


def said(folder: Path) -> list[dict]:
    """What fio's client reports of each server, without its own sum."""
    text = (folder / "fio.json").read_text()
    return [row for row in json.loads(text[text.index("\n{") :])["client_stats"] if row["jobname"] != "All clients"]


def test_nothing_that_measured_is_left(host):
    assert host.run("pgrep -f -- --server=").rc == 1
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        listening = [
            line.split()[1] for line in host.file(path).content_string.splitlines()[1:] if line.split()[3] == "0A"
        ]
        assert [address for address in listening if address.endswith(":223D")] == [], "8765 is 0x223D"
    assert not host.file("/run/storlab/engine/server").exists
    assert not host.file("/run/storlab/engine/observer").exists
    assert not host.file("/run/storlab/engine/bench").exists


def test_one_result_is_the_sum_of_both_machines():
    result, folder = point("engine")
    rows = said(folder)
    assert sorted(row["hostname"] for row in rows) == ["10.213.0.11", "10.213.0.12"]
    assert (result["status"], result["layer"], result["host"]) == ("measured", "backing-many", "hypervisor01")
    for name in ("read", "write"):
        assert result[name]["ios"] == sum(row[name]["total_ios"] for row in rows)
        assert result[name]["bytes"] == sum(row[name]["io_bytes"] for row in rows)
        assert result[name]["iops"] == pytest.approx(sum(row[name]["iops"] for row in rows))
        bins = [row[name]["lat_ns"]["bins"] for row in rows]
        assert result[name]["histogram"]["bins"] == {
            key: sum(one.get(key, 0) for one in bins) for key in sorted({*bins[0], *bins[1]}, key=int)
        }
    assert [client["host"] for client in result["clients"]] == ["target01", "hypervisor01"]


def test_each_machine_was_told_its_own_disk():
    job = (point("engine")[1] / "job.fio").read_text()
    assert [line for line in job.splitlines() if line.startswith("; ")] == [
        "; target01, layer backing-target01",
        "; hypervisor01, layer backing-hypervisor01",
    ]
    assert [int(line[5:]) for line in job.splitlines() if line.startswith("size=")] == [9 << 20, 7 << 20]


def test_the_other_machine_counted_what_it_cost():
    """target01 did half of the I/O on its only processor, so it cannot have been idle; hypervisor01 coordinated, and its observer kept quiet."""
    result, _folder = point("engine")
    hosts = result["counters"]["hosts"]
    if not hosts:
        # On a computer that is busy with something else the clocks cannot be compared to half a second, and the result says so in place of figures.
        added = json.loads((RESULTS / "engine" / "added" / "observer.target01.json").read_text())["points"]
        assert [addition["flags"] for addition in added.values()] == [["clock_unknown"]]
        clocks = json.loads((RESULTS / "engine" / "clocks.json").read_text())
        assert sum(clock["uncertain_s"] for clock in clocks.values()) > 0.5
        return
    assert list(hosts) == ["target01"]
    assert hosts["target01"]["cpu"]["host_busy_percent"] > 20
    assert hosts["target01"]["cpu"]["us_per_io"] == pytest.approx(
        1e6 * hosts["target01"]["cpu"]["host_busy_s"] / hosts["target01"]["interval_s"] / result["total"]["iops"],
        rel=0.01,
    )
    clocks = json.loads((RESULTS / "engine" / "clocks.json").read_text())
    assert sorted(clocks) == ["hypervisor01", "target01"]


def test_a_machine_that_was_lost_is_named_and_the_other_ones_figures_are_kept():
    result, folder = point("engine-lost")
    assert result["status"] == "failed"
    assert "target01" in result["failures"][0]["message"]
    lost, other = result["clients"]
    assert (lost["host"], lost["status"], "total" in lost) == ("target01", "failed", False)
    assert (other["host"], other["status"]) == ("hypervisor01", "measured")
    (row,) = said(folder)
    assert result["write"]["ios"] == other["write"]["ios"] == row["write"]["total_ios"] > 0


def test_steady_state_was_judged_by_its_rounds():
    result, folder = point("engine-steady")
    steady = result["steady_state"]
    window = steady["rounds"][-3:]
    mean = sum(window) / 3
    excursion, slope = (max(window) - min(window)) / mean * 100, abs(window[2] - window[0]) / 2 * 2 / mean * 100
    assert steady["excursion_percent"] == pytest.approx(excursion, abs=0.1)
    assert abs(steady["slope_percent"]) == pytest.approx(slope, abs=0.1)
    assert steady["steady"] == (excursion <= 60 and slope <= 40)
    assert ("not_steady" in result["flags"]) == (not steady["steady"])
    assert (folder / "fio.json").read_text().count('"fio version"') == len(steady["rounds"])


def test_the_page_cache_was_dropped():
    result, _folder = point("engine-buffered")
    assert result["preparation"]["page_cache"] == "dropped"
    assert "buffered_io" in result["flags"]
