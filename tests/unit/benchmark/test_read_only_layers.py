# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage of others is measured by what only reads: every profile of the collection is tried, and nothing of one that writes is begun."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.run import duration, preparation
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from unchanged import broken_off

PROFILES = Path(__file__).parents[3] / "roles" / "benchmark" / "files" / "profiles"
NAMES = sorted(path.stem for path in PROFILES.glob("*.yml"))
# By hand: what of them never writes. Whoever adds a profile that only reads adds it here.
READERS = {"backup", "e5_depth_threads", "e5_max_iops", "existing_read", "random_4k_read", "webserver"}
NAS = {
    "name": "datastore-nas",
    "kind": "datastore",
    "host": "client01",
    "path": "/srv/storlab-existing/lab/nas/vm.img",
    "parent": None,
    "purpose": "read",
    "size_bytes": 1 << 40,
    "identity": {"mount_point": "/srv/storlab-existing/lab/nas", "source": "192.0.2.7:/vms", "inode": 81},
}
OWN = {**NAS, "name": "backing-own", "kind": "backing", "purpose": "scratch", "path": "/dev/ram0"}


def options(name=None, **changes):
    given = {"testbed_id": "lab", "run_id": "one", "results_dir": "/tmp/r", **changes}
    found = profile.find(name, [str(PROFILES)], yaml.safe_load) if name else None
    return plan.validate(checked(benchmark, **given, **({"profile": name} if name else {})), found)


def test_all_profiles_are_tried():
    assert len(NAMES) >= 28 and set(NAMES) >= READERS


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_that_writes_is_refused(name):
    wanted = options(name)
    plan.refuse_writers(wanted, [OWN])
    if name in READERS:
        plan.refuse_writers(wanted, [OWN, NAS])
        return
    with broken_off(match="existing_read") as caught:
        plan.refuse_writers(wanted, [OWN, NAS])
    assert caught.value.code == "layer_read_only"
    assert "datastore-nas" in str(caught.value) and "client01" in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_profile_may_write_where_the_user_allows_it(name):
    own = {"mount_point": NAS["identity"]["mount_point"], "source": "192.0.2.7:/vms", "own_folder": "storlab.lab+nas"}
    plan.refuse_writers(options(name), [{**NAS, "purpose": "scratch", "identity": own}])


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": {"read_percent": 99}},
        {"workload": {"read_percent": 100}, "prepare": {"precondition_passes": 2}},
        {"workload": {"read_percent": 100}, "prepare": {"zero_before": "round"}},
        {"workload": {"read_percent": 100}, "sweep": {"read_percent": [100, 50]}},
    ],
)
def test_so_is_whatever_else_writes(changes):
    with broken_off() as caught:
        plan.refuse_writers(options(**changes), [NAS])
    assert caught.value.code == "layer_read_only"


def test_it_is_measured_though_it_holds_something():
    data = {**NAS, "name": "datastore-own", "purpose": "data"}
    chosen = plan.choose_layers([NAS, data, OWN], {}, "client01")
    assert [layer["name"] for layer in chosen["measured"]] == ["datastore-nas", "backing-own"]
    assert chosen["skipped"] == ["datastore-own"]


class Hands:
    """An executor that must not write."""

    remedy = ""

    def instance(self, _job):
        raise AssertionError("asked for the instance of what is not written")

    write = instance

    def drop_page_cache(self, _job):
        return True


@pytest.mark.parametrize("prepare", [{}, {"fill": True}, {"precondition_passes": 1}, {"zero_before": "point"}])
def test_nothing_is_filled(prepare):
    workload = options(workload={"read_percent": 100})["workloads"][0]
    job = {"point_id": "p", "layer": "l", "path": "/x", "size_bytes": 5, "workload": workload, "workload_id": "w"}
    meta: dict = {"flags": []}
    preparation.Preparation({"prepare": prepare}, Hands()).before(
        [{**job, "repetition": 1, "sampled": {"zero_percent": 3.0}}], meta
    )
    assert meta["preparation"]["access"] == "read" and meta["preparation"]["zero_percent"] == 3.0
    assert "filled" not in meta["preparation"] and "prepared" not in meta


@pytest.mark.parametrize(
    ("sampled", "flagged"),
    [({"zero_percent": 0.0}, False), ({"zero_percent": 5.0}, False), ({"zero_percent": 5.1}, True), ({}, True)],
)
def test_zeros_are_flagged_as_blocks_that_were_never_written(sampled, flagged):
    workload = options(workload={"read_percent": 100})["workloads"][0]
    assert preparation.reads_unwritten(workload, {"preparation": {"access": "read", **sampled}}) is flagged


def test_no_time_is_planned_for_filling_it():
    wanted = options(workload={"read_percent": 100, "ramp_s": 0, "runtime_s": 7})
    times = {}
    for layer in (NAS, OWN):
        points = plan.planned(wanted, [layer])
        times[layer["name"]] = duration.plan_s({"layers": [layer], "points": points})
    assert times["datastore-nas"] < 60 < times["backing-own"]
