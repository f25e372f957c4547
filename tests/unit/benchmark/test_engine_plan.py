# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: which points, in which order, and which of them are the same as before."""

from __future__ import annotations

import json

import pytest
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines.catalogue import ENGINES
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import search as searches
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder
from unchanged import refused

BENCH = {
    "name": "backing-bench",
    "kind": "backing",
    "host": "target01",
    "path": "/dev/ram0",
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 26,
    "identity": {"major_minor": "1:0"},
}
CEILING = {
    "name": "ceiling-target01",
    "kind": "ceiling",
    "host": "target01",
    "path": None,
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 30,
    "identity": {},
}


def args(**changes):
    given = {
        "testbed_id": "embedded",
        "run_id": "first",
        "results_dir": "/tmp/r",
        "workload": {"runtime_s": 3, "ramp_s": 1},
        **changes,
    }
    return checked(benchmark, **given)


def points(layers=(BENCH,), **changes):
    return plan.planned(plan.validate(args(**changes)), list(layers))


def short(found):
    return [(point["layer"][0], point["workload"]["queue_depth"], point["repetition"]) for point in found]


# ---------------------------------------------------------------- order


def test_interleaved_measures_every_workload_before_the_first_repeats():
    found = points((BENCH, CEILING), repetitions=2, sweep={"queue_depth": [1, 8]})
    assert [point["repetition"] for point in found] == [1] * 4 + [2] * 4
    for start in (0, 4):
        rest = short(found)[start : start + 4]
        assert [depth for _layer, depth, _number in rest] == [1, 1, 8, 8]
        assert "".join(layer for layer, _depth, _number in rest) in ("bcbc", "cbcb")
    assert [point["order"] for point in found] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_another_layer_begins_in_each_round_by_the_seed():
    layers = [{**BENCH, "name": f"{letter}-x"} for letter in "pqr"]
    rounds = {}
    for seed in (7, 8):
        found = points(layers, repetitions=30, seed=seed)
        rounds[seed] = ["".join(point["layer"][0] for point in found[at : at + 3]) for at in range(0, 90, 3)]
        # Each begins about as often as the others; none is ever moved past another.
        assert set(rounds[seed]) == {"pqr", "qrp", "rpq"}
        assert all(5 <= rounds[seed].count(order) <= 15 for order in ("pqr", "qrp", "rpq"))
    assert rounds[7] != rounds[8]


def test_what_measures_a_grid_in_one_run_has_the_points_of_a_layer_together_in_each_round():
    disks = [
        {**BENCH, "name": f"{kind}-lun", "kind": kind, "path": f"\\\\.\\PhysicalDrive{number}"}
        for number, kind in enumerate(("guest", "initiator"), 3)
    ]
    found = points(disks, repetitions=2, engine="iometer", sweep={"block_size": ["4k", "64k"], "queue_depth": [1, 8]})
    sizes = [
        (
            point["layer"][0],
            point["workload"]["block_size_bytes"] >> 10,
            point["workload"]["queue_depth"],
            point["repetition"],
        )
        for point in found
    ]
    assert sizes == [
        (layer, size, depth, number)
        for number in (1, 2)
        for layer in dict.fromkeys(one[0] for one in sizes if one[3] == number)
        for size in (4, 64)
        for depth in (1, 8)
    ]
    assert [point["order"] for point in found] == list(range(1, 17))
    paths = {disk["name"]: disk["path"] for disk in disks}
    runs = ENGINES["iometer"].batches(
        [{**point, "path": paths[point["layer"]], "size_bytes": 1 << 26} for point in found]
    )
    assert [len(run) for run in runs] == [4, 4, 4, 4]


def test_as_listed_repeats_at_once():
    found = points((BENCH, CEILING), repetitions=2, order="as_listed", sweep={"queue_depth": [1, 8]})
    assert short(found) == [
        ("b", 1, 1),
        ("b", 1, 2),
        ("c", 1, 1),
        ("c", 1, 2),
        ("b", 8, 1),
        ("b", 8, 2),
        ("c", 8, 1),
        ("c", 8, 2),
    ]


def test_random_shuffles_each_round_and_keeps_rounds_apart():
    found = points(repetitions=3, order="random", seed=7, sweep={"queue_depth": [1, 2, 4, 8, 16, 32, 64]})
    assert [point["repetition"] for point in found] == [1] * 7 + [2] * 7 + [3] * 7
    rounds = [
        [point["workload"]["queue_depth"] for point in found if point["repetition"] == number] for number in (1, 2, 3)
    ]
    assert all(sorted(one) == [1, 2, 4, 8, 16, 32, 64] for one in rounds)
    assert len({tuple(one) for one in rounds}) == 3
    assert short(found) == short(
        points(repetitions=3, order="random", seed=7, sweep={"queue_depth": [1, 2, 4, 8, 16, 32, 64]})
    )
    assert short(found) != short(
        points(repetitions=3, order="random", seed=8, sweep={"queue_depth": [1, 2, 4, 8, 16, 32, 64]})
    )


def test_the_seed_comes_from_the_run_when_none_is_given():
    one, other = (plan.validate(args(run_id=name))["seed"] for name in ("first", "second"))
    assert one != other
    assert plan.validate(args(run_id="first"))["seed"] == one
    assert plan.validate(args(seed=0))["seed"] == 0


def test_the_order_is_no_part_of_what_a_point_is():
    prints = [
        {
            point["point_id"]: (point["fingerprint"], point["seed"])
            for point in points(repetitions=2, order=order, sweep={"queue_depth": [1, 8]})
        }
        for order in plan.ORDERS
    ]
    assert prints[0] == prints[1] == prints[2]


def test_one_repetition_of_many_keeps_its_place():
    found = points(repetitions=3, only_repetitions=[2], sweep={"queue_depth": [1, 8]})
    assert [(point["point_id"][-2:], point["order"]) for point in found] == [("r2", 3), ("r2", 4)]


# ---------------------------------------------------------------- variants


def test_variants_do_not_collide():
    plain, stock, tuned = points()[0], points(variant="stock")[0], points(variant="tuned")[0]
    assert [one["point_id"] for one in (plain, stock, tuned)] == [
        f"backing-bench.4k-r100-rnd100-qd1-w1.{name}" for name in ("r1", "stock.r1", "tuned.r1")
    ]
    assert len({one["fingerprint"] for one in (plain, stock, tuned)}) == 3
    assert "variant" not in plain and stock["variant"] == "stock"


# ---------------------------------------------------------------- what is the same point


def test_results_of_earlier_versions_stay_the_same_points():
    """The fingerprint of a plain workload, computed here as the first version did."""
    import hashlib

    workload = normalise({"runtime_s": 3, "ramp_s": 1})
    same = {
        "layer": {key: BENCH[key] for key in ("name", "kind", "host", "size_bytes", "identity")},
        "workload": workload,
        "engine": "fio",
        "fill": True,
        "repetition": 1,
    }
    assert points()[0]["fingerprint"] == hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"prepare": {"fill": False}},
        {"prepare": {"precondition_passes": 2}},
        {"prepare": {"precondition_passes": 2, "precondition_block_bytes": "1m"}},
        {"prepare": {"warmup_s": 4}},
        {"prepare": {"zero_before": "point"}},
        {"steady_state": True},
        {"steady_state": {"window": 3}},
        {"workload": {"runtime_s": 4, "ramp_s": 1}},
        {"layers": [{**BENCH, "size_bytes": 1 << 27}]},
    ],
)
def test_what_changes_the_measurement_changes_the_fingerprint(changes):
    layers = changes.pop("layers", [BENCH])
    assert points(layers, **changes)[0]["fingerprint"] != points()[0]["fingerprint"]


def test_dropping_the_cache_matters_to_what_goes_through_it_only():
    def prints(direct):
        return {
            points(prepare={"drop_caches": drop}, workload={"direct": direct})[0]["fingerprint"]
            for drop in (True, False)
        }

    assert (len(prints(True)), len(prints(False))) == (1, 2)


# ---------------------------------------------------------------- profiles, exclusions


PROFILE = {
    "name": "two",
    "version": "1.0",
    "title": "Two",
    "source": [{"title": "here", "read": "memory"}],
    "workloads": [
        normalise({"block_size": "8k", "read_percent": 70, "runtime_s": 60}),
        normalise({"block_size": "64k", "runtime_s": 60}),
    ],
}


def workloads(profile=None, **changes):
    return plan.wanted_workloads({**args(workload=None), **changes}, profile)


def test_a_profile_is_measured_as_it_is():
    assert workloads(PROFILE) == PROFILE["workloads"]


def test_a_profile_with_other_values():
    found = workloads(PROFILE, workload={"runtime_s": 5}, sweep={"queue_depth": [1, 4]})
    assert [(one["block_size_bytes"], one["queue_depth"], one["runtime_s"], one["read_percent"]) for one in found] == [
        (8192, 1, 5, 70),
        (8192, 4, 5, 70),
        (65536, 1, 5, 100),
        (65536, 4, 5, 100),
    ]


def test_a_sweep_takes_the_place_of_the_profiles_own():
    """oltp measures three queue depths; measured with others it is not measured three times."""
    deep = {
        **PROFILE,
        "workloads": [
            normalise({"block_size": size, "queue_depth": depth}) for size in ("8k", "64k") for depth in (1, 8, 32)
        ],
    }
    assert [
        (one["block_size_bytes"], one["queue_depth"]) for one in workloads(deep, sweep={"queue_depth": [4, 8]})
    ] == [(8192, 4), (8192, 8), (65536, 4), (65536, 8)]
    assert [(one["block_size_bytes"], one["queue_depth"]) for one in workloads(deep, workload={"queue_depth": 2})] == [
        (8192, 2),
        (65536, 2),
    ]


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"workload": {"runtime_s": "soon"}}, "workload on profile two[0].runtime_s"),
        ({"sweep": {"queue_depth": [1, 0]}}, "sweep on profile two[0].queue_depth"),
    ],
)
def test_an_error_names_what_the_user_wrote_over_a_profile(changes, variable):
    with pytest.raises(Failure) as caught:
        workloads(PROFILE, **changes)
    assert caught.value.details["variable"] == variable


def test_another_block_size_takes_the_alignment_along():
    found = workloads({**PROFILE, "workloads": PROFILE["workloads"][:1]}, workload={"block_size": "4k"})
    assert (found[0]["block_size_bytes"], found[0]["alignment_bytes"]) == (4096, 4096)
    aligned = normalise({"block_size": "8k", "alignment": "1m"})
    assert (
        workloads({**PROFILE, "workloads": [aligned]}, workload={"block_size": "4k"})[0]["alignment_bytes"] == 1 << 20
    )


def test_another_block_size_replaces_a_mix():
    mixed = normalise({"block_size": {"4k": 60, "64k": 40}})
    assert workloads({**PROFILE, "workloads": [mixed]}, workload={"block_size": "8k"})[0]["block_size_bytes"] == 8192


def test_exclusions():
    found = workloads(
        workload={},
        sweep={"queue_depth": [1, 4], "read_percent": [0, 100]},
        exclude=[{"queue_depth": 4, "read_percent": 0}],
    )
    assert [(one["queue_depth"], one["read_percent"]) for one in found] == [(1, 0), (1, 100), (4, 100)]
    assert len(workloads(PROFILE, exclude=[{"block_size": "64k"}])) == 1


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"only_repetitions": [3], "repetitions": 2}, "only_repetitions"),
        ({"only_repetitions": [0]}, "only_repetitions"),
        ({"only_repetitions": [1], "search": {"rate_ladder": {}}}, "only_repetitions"),
        ({"variant": "a/b"}, "variant"),
        ({"variant": ""}, "variant"),
        ({"prepare": {"warmup_s": -1}}, "prepare.warmup_s"),
        ({"prepare": {"warmup_turns": 0}}, "prepare.warmup_turns"),
        ({"prepare": {"precondition_block_bytes": "3"}}, "prepare.precondition_block_bytes"),
        ({"prepare": {"zero_before": "case", "precondition_passes": 2}}, "prepare.zero_before"),
        ({"prepare": {"zero_before": "point"}, "engine": "iometer"}, "prepare.zero_before"),
        ({"steady_state": "sometimes"}, "steady_state"),
        ({"steady_state": ["true"]}, "steady_state"),
        ({"steady_state": {"budget_s": 5}}, "steady_state.budget_s"),
        ({"steady_state": True, "workload": {"loops": 2}}, "steady_state"),
        ({"steady_state": True, "workload": {"io_bytes": "1m"}}, "steady_state"),
        ({"search": {"knee": {"values": [1]}}}, "search.knee.values"),
        ({"search": {"max_iops_at": {"limit_us": 90}}, "engine": "diskspd"}, "search.max_iops_at.metric"),
        (
            {"search": {"max_iops_at": {"limit_us": 90, "metric": "latency_p50_ns"}}, "engine": "iometer"},
            "search.max_iops_at.metric",
        ),
        ({"search": {"knee": {"values": [1, 2, 4]}}, "sweep": {"queue_depth": [1, 8]}}, "workloads of a search"),
        ({"exclude": [{"queue_depth": 99}]}, "exclude[0]"),
        ({"workload": None, "exclude": []}, "workload"),
        ({"workloads": [{}]}, "workloads"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, variable):
    with pytest.raises(Failure) as caught:
        points(**changes)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prepare": {"filled": True}}, ["prepare.filled", "unsupported"]),
        ({"prepare": {"fill": "maybe"}}, ["'fill'", "'prepare'", "maybe"]),
        ({"prepare": {"precondition_passes": 1.5}}, ["'precondition_passes'", "1.5"]),
        ({"steady_state": {"windows": 5}}, ["steady_state.windows", "unsupported"]),
        ({"steady_state": {"metric": "latency"}}, ["metric", "latency_p99_ns", "got: latency"]),
        ({"search": {"knee": {}}}, ["values", "search -> knee"]),
        ({"search": {"hill": {}}}, ["search.hill", "unsupported"]),
        ({"repetitions": "many"}, ["repetitions", "many"]),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(changes, words):
    with pytest.raises(Failure) as caught:
        points(**changes)
    assert caught.value.code == "bad_value"
    assert [word for word in words if word.lower() not in str(caught.value).lower()] == []


def test_a_number_may_be_said_in_several_ways():
    """A run must not look like another one because of how its options were written."""
    for prepare in ({"warmup_s": 4}, {"warmup_s": 4.0}, {"warmup_s": "4"}):
        assert json.dumps(plan.validate(args(prepare=prepare))["prepare"]["warmup_s"]) == "4"
    asked = plan.validate(args(steady_state={"excursion_percent": 30.0}))
    assert json.dumps(asked["steady_state"]) == '{"excursion_percent": 30}'
    assert plan.validate(args(search={"rate_ladder": {}}))["search"] == searches.validate({"rate_ladder": {}})


@pytest.mark.parametrize(
    ("given", "found"),
    [(True, {}), (False, None), (None, None), ("true", {}), ("false", None), ({}, {}), ({"window": 3}, {"window": 3})],
)
def test_steady_state_is_a_choice_or_a_mapping(given, found):
    assert plan.steady_argument(given) == found
    assert args(steady_state=given)["steady_state"] == found


def test_options_of_an_engine_that_there_is_not_are_refused():
    with pytest.raises(Failure) as caught:
        plan.validate(args(workload={"engine_options": {"vdbench": {"threads": 3}}}))
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", "workload.engine_options")
    assert "vdbench" in str(caught.value) and all(name in str(caught.value) for name in ENGINES)


def test_preparation_is_complete_and_in_bytes():
    assert plan.validate_prepare({"precondition_block_bytes": "1m", "warmup_s": 2.5}) == {
        "fill": True,
        "precondition_passes": 0,
        "precondition_block_bytes": 1 << 20,
        "warmup_s": 2.5,
        "warmup_turns": 1,
        "drop_caches": True,
        "zero_before": "nothing",
    }


# ---------------------------------------------------------------- how long


def for_host(asked, layers, prepared=None):
    return plan.for_host(asked, plan.choose_layers(layers, {}, "target01"), plan.planned(asked, layers), prepared or {})


def test_the_host_is_told_everything_of_its_points():
    asked = plan.validate(args(prepare={"warmup_s": 7}, steady_state={"window": 3}, repetitions=2))
    told = for_host(asked, [BENCH, CEILING], {"backing-bench": {"utc": "x"}, "backing-other": {"utc": "y"}})
    assert len(told["points"]) == 4 and all("fingerprint" in point for point in told["points"])
    assert (told["prepare"]["warmup_s"], told["steady_state"], told["series"], told["repetitions"]) == (
        7,
        {"window": 3},
        True,
        2,
    )
    assert told["prepared"] == {"backing-bench": {"utc": "x"}}


def test_what_was_written_for_a_run_is_remembered():
    results = {
        name: {
            "layer": layer,
            "prepared": {"utc": utc, "instance": f"i{utc}"},
            "preparation": {"filled": True, "warmup_s": 1, **more},
        }
        for name, layer, utc, more in (
            ("a", "x", "2", {}),
            ("b", "x", "3", {"preconditioned_passes": 2}),
            ("c", "y", "1", {}),
        )
    }
    assert plan.prepared_by({**results, "d": {"layer": "z"}}) == {
        "x": {"utc": "3", "instance": "i3", "filled": True, "preconditioned_passes": 2},
        "y": {"utc": "1", "instance": "i1", "filled": True},
    }


def test_a_search_is_at_most_as_long_as_said():
    asked = plan.validate(args(search={"knee": {"values": [1, 4, 16], "refine": 2}}, repetitions=3))
    assert plan.most_s(asked, [BENCH, CEILING]) == pytest.approx(2 * 3 * 5 * 4.5)


# ---------------------------------------------------------------- searches


@pytest.mark.parametrize(("engine", "variable"), [("diskspd", "rate_process"), ("iometer", "rate_iops")])
def test_a_ladder_is_refused_before_its_peak_where_the_engine_has_no_rates_of_its_kind(engine, variable):
    disk = {**BENCH, "path": "\\\\.\\PhysicalDrive3"}
    with pytest.raises(Failure) as caught:
        plan.searched(plan.validate(args(engine=engine, search={"rate_ladder": {}})), [disk], {})
    assert (caught.value.code, caught.value.details["variable"]) == ("workload_unsupported", variable)


def test_engines_without_percentiles_search_by_the_mean():
    for engine in ("diskspd", "iometer"):
        asked = plan.validate(
            args(engine=engine, search={"max_iops_at": {"limit_us": 90, "metric": "latency_mean_ns"}})
        )
        assert short(plan.searched(asked, [{**BENCH, "path": "\\\\.\\PhysicalDrive3"}], {})) == [("b", 1, 1)]


def test_points_of_a_search_depend_on_what_is_there():
    asked = plan.validate(args(search={"max_iops_at": {"limit_us": 100, "high": 64}}, repetitions=2))
    first = plan.searched(asked, [BENCH], {})
    assert short(first) == [("b", 1, 1), ("b", 1, 2)]
    results = {
        point["point_id"]: {
            **point,
            "runtime_s": 3,
            "total": {
                "ios": 300,
                "bytes": 1,
                "iops": 100,
                "bandwidth_bytes_s": 1,
                "latency_mean_ns": 9,
                "latency_p99_ns": 99,
                "histogram": {"unit": "ns", "bins": {"9": 298, "99": 2}},
            },
        }
        for point in first
    }
    assert short(plan.searched(asked, [BENCH], results)) == [("b", 1, 1), ("b", 2, 1), ("b", 1, 2), ("b", 2, 2)]
    assert short(plan.searched(asked, [CEILING], results)) == [("c", 1, 1), ("c", 1, 2)]


# ---------------------------------------------------------------- run.json


def test_hosts_that_were_asked_the_same_share_a_request(tmp_path):
    folder, identity = (
        str(tmp_path / "run"),
        {"testbed_id": "embedded", "run_id": "first", "collection_version": "1.2.3"},
    )
    asked = plan.validate(args(order="random"))
    for host in ("b", "a", "b"):
        run_folder.add_request(folder, identity, plan.request(asked, PROFILE), host)
    for repetition, variant in ((1, "stock"), (1, "tuned"), (2, "stock")):
        one = plan.validate(args(variant=variant, repetitions=2, only_repetitions=[repetition]))
        run_folder.add_request(folder, identity, plan.request(one, None), "a")
    found = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert {key: found[key] for key in identity} == identity
    assert found["variants"] == ["stock", "tuned"]
    assert [(one["hosts"], one["order"], one.get("variant")) for one in found["requests"]] == [
        (["a", "b"], "random", None),
        (["a"], "interleaved", "stock"),
        (["a"], "interleaved", "tuned"),
    ]
    assert found["requests"][0]["profile"] == {key: PROFILE[key] for key in ("name", "version", "title", "source")}
    assert found["requests"][0]["seed"] == asked["seed"]


def test_a_damaged_run_json_is_said(tmp_path):
    (tmp_path / "run.json").write_text('{"requests": [', encoding="utf-8")
    with refused(tmp_path) as caught:
        run_folder.add_request(str(tmp_path), {}, {}, "a")
    assert caught.value.code == "run_damaged"


SHAPES_OF_OTHERS = [
    ("run.json", 7, "it is an int, not a mapping"),
    ("run.json", {"requests": "all"}, "requests is a str, not a list"),
    ("run.json", {"requests": [{"hosts": "b"}]}, "requests[0].hosts is a str, not a list"),
    ("layers.json", [BENCH], "it is a list, not a mapping"),
    ("layers.json", {BENCH["name"]: 3}, f"{BENCH['name']} is an int, not a mapping"),
    ("layers.json", {BENCH["name"]: {"variants": ["stock"]}}, f"{BENCH['name']}.variants is a list, not a mapping"),
    ("prepared.json", {"backing-x": "yes"}, "backing-x is a str, not a mapping"),
    ("search.json", "none", "it is a str, not a mapping"),
    ("clocks.json", {"b": {"offset_s": "1", "uncertain_s": 0.5}}, "b.offset_s is a str, not an int or a float"),
    ("hosts/b.json", {"variants": [5]}, "variants is a list, not a mapping"),
    ("added/observers.json", {"points": []}, "points is a list, not a mapping"),
]


@pytest.mark.parametrize(("name", "content", "reason"), SHAPES_OF_OTHERS)
def test_a_file_of_a_run_that_has_another_shape_is_named(tmp_path, name, content, reason):
    """What reads them relies on their shape; a person may have edited them, or another program written them."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    folder = str(tmp_path)
    readers = {
        "run.json": lambda: run_folder.add_request(folder, {}, {"engine": "fio"}, "b"),
        "layers.json": lambda: run_folder.add_layers(folder, {BENCH["name"]: BENCH}, "stock", [BENCH["name"]]),
        "prepared.json": lambda: run_folder.prepared(folder),
        "search.json": lambda: run_folder.add_answers(folder, {"a.b.c": {}}),
        "clocks.json": lambda: run_folder.remember_clock(folder, "a", {"offset_s": 0, "uncertain_s": 0}),
        "hosts/b.json": lambda: run_folder.write_host(folder, "b", {"scheduler": "none"}, "stock"),
        "added/observers.json": lambda: run_folder.add(folder, "observers", {"p": {}}, {"p": {"flags": ["busy"]}}),
    }
    before = path.read_bytes()
    with refused(tmp_path) as caught:
        readers[name]()
    assert caught.value.code == "run_damaged" and str(caught.value) == (
        f"{path} cannot be read: {reason}. Restore it from a copy, or choose another run_id."
    )
    assert path.read_bytes() == before


def test_a_file_of_a_run_without_end_of_brackets_is_named(tmp_path):
    (tmp_path / "prepared.json").write_text("[" * 100_000, encoding="utf-8")
    with refused(tmp_path) as caught:
        run_folder.prepared(str(tmp_path))
    assert caught.value.code == "run_damaged"


def test_a_host_keeps_how_it_was_under_each_variant(tmp_path):
    for variant, scheduler in ((None, "none"), ("stock", "bfq"), ("tuned", "kyber")):
        run_folder.write_host(str(tmp_path), "a", {"scheduler": scheduler}, variant)
    found = json.loads((tmp_path / "hosts" / "a.json").read_text(encoding="utf-8"))
    assert found == {
        "host": "a",
        "scheduler": "kyber",
        "variants": {"stock": {"scheduler": "bfq"}, "tuned": {"scheduler": "kyber"}},
    }


def test_a_run_goes_on_after_its_testbed_was_built_again():
    def fingerprint(detail: dict, **identity):
        return points(layers=[{**BENCH, "identity": {**BENCH["identity"], **identity}, "detail": detail}])[0][
            "fingerprint"
        ]

    old = fingerprint({"generation": "g1"}, serial="s1", naa="6001")
    assert fingerprint({"generation": "g2"}, serial="s2", naa="6002") == old
    assert fingerprint({"generation": "g2"}, serial="s2", naa="6002", stamp="another") != old
    # What the testbed did not make is another disk when it has another serial.
    assert fingerprint({}, serial="s1") != fingerprint({}, serial="s2")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"fio_clock": "clock_gettime"}, {"fio_clock": "clock_gettime"}),
        ({"fio_clock": "cpu"}, {"fio_clock": "cpu"}),
        ({}, {}),
        ({"fio_clock": "cpu\nfilename=/dev/sda"}, {}),
        (
            {"fio_choices": {"psync_1": 310_000, "libaio_1": 150_000}},
            {"fio_choices": {"psync_1": 310_000, "libaio_1": 150_000}},
        ),
        ({"fio_choices": {"psync_1": "9; reboot", "made_up_1": 7}}, {}),
        ({"fio_choices": "psync_1"}, {}),
    ],
)
def test_a_run_goes_on_with_what_it_knows_of_the_host(environment, expected):
    assert plan.same_host(environment) == expected
