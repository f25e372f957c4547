# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether it is the storage, the network or the machine: which figures name which part, and when nothing can be told."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import diagnosis
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.diagnosis import LATENCY, RATE, STREAM

LAYER = {"name": "datastore-nas", "kind": "datastore", "host": "client01", "detail": {"server": "192.0.2.7"}}
LOCAL = {
    **LAYER,
    "name": "datastore-tank",
    "detail": {"provider": "existing", "existing": "path", "filesystem": "ext4"},
}
# Printed by ss 6.1 of a mount of NFS, made shorter; the second look has more segments.
SOCKETS = """ESTAB 0 0 192.0.2.21:799 192.0.2.7:2049
\t cubic rtt:{rtt}/0.06 pmtu:{pmtu} segs_out:{out} segs_in:{seen} retrans:0/{again} rcv_ooopack:{odd} minrtt:{least}
"""


def look(
    out=100,
    seen=700,
    again=1,
    odd=0,
    rtt=0.9,
    least=0.11,
    pmtu=9000,
    speed="10000",
    route="192.0.2.7 dev eth3 src 192.0.2.21",
):
    sockets = SOCKETS.format(out=out, seen=seen, again=again, odd=odd, rtt=rtt, least=least, pmtu=pmtu)
    return f"Welcome!\n== route\n{route} uid 0\n== mtu\n9000\n== speed\n{speed}\n== sockets\n{sockets}== end\n"


def cell(*values, flags=(), block=4096, depth=1):
    return {
        "iops": list(values),
        "bandwidth_bytes_s": [value * block for value in values],
        "latency_mean_ns": [depth * 1e9 / value for value in values],
        "flags": set(flags),
    }


def cells(one=(990, 1000, 1010), many=(7900, 8000, 8100), stream=(199, 200, 201), flags=()):
    return {
        LATENCY: cell(*one, flags=flags),
        RATE: cell(*many, depth=32, flags=flags),
        STREAM: cell(*stream, depth=32, block=1 << 20, flags=flags),
    }


CEILING = {RATE: cell(499_000, 500_000, 501_000, depth=32)}
WAY = diagnosis.network_path(look(), look(out=500, seen=9000))


def answered(layer=LAYER, measured=None, ceiling=None, way=WAY, below=None):
    return diagnosis.diagnosis(layer, measured or cells(), CEILING if ceiling is None else ceiling, way, below)


def test_a_way_is_read_without_a_login_on_the_server():
    assert WAY == {
        "interface": "eth3",
        "mtu_bytes": 9000,
        "path_mtu_bytes": 9000,
        "speed_bits_s": 10_000_000_000,
        "round_trip_ns": 900_000,
        "least_round_trip_ns": 110_000,
        "segments": 8700,
        "odd_segments": 0,
    }
    assert diagnosis.network_path(look(), look(out=101, seen=709, again=4, odd=2))["odd_segments"] == 5


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", look(), "did not end"),
        (look(), look()[:60], "did not end"),
        ("== failed\nip or ss (package iproute2) is not installed\n== end\n", look(), "iproute2"),
        (look(), look(route="RTNETLINK answers: Network is unreachable"), "no route"),
        (look(), look().replace("ESTAB", "").replace("192.0.2.21:799", "").replace("rtt", ""), "no open connection"),
    ],
)
def test_a_look_that_failed_has_its_reason(before, after, expected):
    path = diagnosis.network_path(before, after)
    assert expected in path["note"]
    result = answered(way=path)
    assert result["answer"] == "cannot tell" and any(expected in line for line in result["unseen"])
    assert expected in diagnosis.page("nas", "r1", [result])


def test_a_network_card_without_a_speed_is_not_taken_for_a_fast_one():
    way = diagnosis.network_path(look(speed="-1"), look(speed="-1", seen=9000))
    assert "speed_bits_s" not in way
    result = answered(way=way)
    assert result["answer"] == "cannot tell" and "speed of the link" in result["why"]


def test_storage_is_named_where_the_others_are_far_from_their_limits():
    result = answered()
    assert result["answer"] == "storage"
    # By hand: the logarithms' mean is 8.9871 and their deviation 0.012500, t of 2 degrees of freedom 4.303: a factor of 1.0315 to both sides.
    assert "7755 to 8252 IOPS" in result["why"] and "210 MB/s" in result["why"]
    assert any("8000 IOPS (7755 to 8252), 4.00 ms each" in line for line in result["figures"])


def test_a_disk_of_the_machine_has_no_network():
    assert answered(LOCAL, way=None)["answer"] == "storage"
    assert answered(LAYER, way={"same_host": True, "interface": "lo"})["answer"] == "storage"


@pytest.mark.parametrize(
    ("stream", "answer"),
    [
        ((1110, 1115, 1120), "network"),  # 1115 MiB/s of 1120.6 that 10 Gbit/s carry
        ((600, 605, 610), "storage"),
        ((700, 900, 1100), "cannot tell"),  # the interval reaches beyond the mark
        ((905, 910, 915), "network"),  # 81 %
    ],
)
def test_a_link_that_is_full_is_named(stream, answer):
    result = answered(measured=cells(stream=stream))
    assert result["answer"] == answer, result["why"]
    assert answer != "network" or "of what the link carries" in result["why"]


@pytest.mark.parametrize(("least", "answer"), [(0.8, "network"), (0.11, "storage")])
def test_a_way_that_takes_most_of_the_latency_is_named(least, answer):
    # One I/O takes 1 ms.
    result = answered(way=diagnosis.network_path(look(), look(seen=9000, least=least)))
    assert result["answer"] == answer and ("there and back" in result["why"]) is (answer == "network")


@pytest.mark.parametrize(("odd", "answer"), [(400, "network"), (40, "storage")])
def test_lost_segments_are_named(odd, answer):
    assert answered(way=diagnosis.network_path(look(), look(seen=9000, odd=odd)))["answer"] == answer


@pytest.mark.parametrize(
    ("alone", "answer"),
    [((9000, 9100, 9200), "machine"), ((90_000, 91_000, 92_000), "storage"), ((9000, 12_000, 15_000), "cannot tell")],
)
def test_a_machine_that_issues_no_more_is_named(alone, answer):
    assert answered(ceiling={RATE: cell(*alone, depth=32)})["answer"] == answer


def test_of_two_that_are_full_the_tighter_is_named():
    result = answered(measured=cells(stream=(1110, 1115, 1120)), ceiling={RATE: cell(8001, 8002, 8003, depth=32)})
    assert result["answer"] == "machine" and "of what the machine alone issues" in result["why"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"measured": cells(one=(1000,), many=(8000,), stream=(200,))}, "one repetition has no interval"),
        ({"measured": {RATE: cell(8000, 8001, depth=32)}}, "were not all measured"),
        ({"measured": cells(flags=("not_filled",))}, "only zeros"),
        ({"ceiling": {}}, "its ceiling was not measured"),
        ({"way": {"note": "it was not looked at"}}, "it was not looked at"),
    ],
)
def test_without_proof_nothing_is_told(changes, why):
    result = answered(**changes)
    assert result["answer"] == "cannot tell" and why in result["why"]


def test_caches_that_nobody_sees_are_on_the_page_and_prevent_no_answer():
    result = answered(measured=cells(flags=("cache_unknown",)))
    assert result["answer"] == "storage" and any("caches of the storage" in line for line in result["unseen"])


@pytest.mark.parametrize(
    ("way", "answer", "why"),
    [
        (
            WAY,
            "network",
            "of what the network alone carried is used",
        ),  # 210 of 218.75 MB/s, though the link has 10 Gbit/s
        ({"note": "it was not looked at"}, "network", "of what the network alone carried is used"),
        ({**WAY, "carried_bits_s": 9e9}, "storage", "210 MB/s"),
    ],
)
def test_what_the_network_alone_carried_is_its_limit_where_both_ends_are_reached(way, answer, why):
    result = answered(way={"carried_bits_s": 1.75e9, **way})
    assert result["answer"] == answer and why in result["why"]


# The disk that a guest's is on, as its host sees it.
GUEST = {**LOCAL, "name": "guest-disk", "kind": "guest", "host": "guest01"}


def below(answer="storage", measured=None):
    return diagnosis.Below(
        "initiator-disk", "hypervisor01", measured or cells(), {"answer": answer, "why": f"the {answer} is full"}
    )


@pytest.mark.parametrize(
    ("many", "answer"),
    [
        ((7890, 8000, 8110), "storage"),
        ((695, 700, 705), "machine"),  # a hypervisor that holds its guest to 700 I/Os per second
        ((6200, 6300, 6400), "cannot tell"),  # 79 %, and the interval reaches beyond the mark
    ],
)
def test_a_machine_in_which_much_of_the_storage_is_lost_is_named(many, answer):
    result = answered(GUEST, cells(many=many), way=None, below=below())
    assert result["answer"] == answer, result["why"]
    assert any("of what initiator-disk gives on hypervisor01 arrives" in line for line in result["figures"])
    if answer == "machine":
        # By hand: 700 by a factor of 1.0179 of 8000 by one of 1.0315, so 91.25 % are lost, at least 1 - 712.5 / 7755.
        assert result["why"].startswith("91 % of what initiator-disk gives on hypervisor01 at 4 KiB, 32 at a time")
        assert "at least 91 %" in result["why"]


@pytest.mark.parametrize("answer", ["storage", "network", "machine", "cannot tell"])
def test_a_guest_that_gets_all_of_its_storage_has_the_answer_of_its_storage(answer):
    result = answered(GUEST, way=None, below=below(answer))
    why = f"as much arrives as initiator-disk gives on hypervisor01, and of that: the {answer} is full"
    assert result["answer"] == answer and result["why"] == why


@pytest.mark.parametrize(
    ("many", "word"),
    [
        ((7990, 8000, 8010), "alike"),
        ((695, 700, 705), "less"),
        ((15_900, 16_000, 16_100), "more"),
        ((6000, 8000, 10_000), "too uncertain to judge"),
        ((8000,), "too uncertain to judge"),
    ],
)
def test_storage_beside_other_storage_is_compared_with_its_interval(many, word):
    other = cells(many=(7990, 8001, 8012))
    line, _stream = diagnosis.beside(cells(many=many), "guest-a", other)
    assert line.startswith("4 KiB, 32 at a time: ") and line.endswith(f"of what guest-a gives, {word}")


def result_of(layer, block, depth, value, kind="datastore", repetition=1, read_percent=100, host="client01"):
    return {
        "layer": layer,
        "layer_kind": kind,
        "host": host,
        "status": "measured",
        "repetition": repetition,
        "flags": [],
        "workload": {"block_size_bytes": block, "queue_depth": depth, "workers": 1, "read_percent": read_percent},
        "read": {"iops": value, "bandwidth_bytes_s": value * block, "latency_mean_ns": depth * 1e9 / value},
    }


def test_a_run_is_answered_layer_by_layer():
    results = [
        result_of(layer, block, depth, value + repetition, kind, repetition)
        for layer, kind, scale in (("datastore-nas", "datastore", 1), ("ceiling-client01", "ceiling", 100))
        for (block, depth), value in ((LATENCY, 1000 * scale), (RATE, 8000 * scale), (STREAM, 200 * scale))
        for repetition in (1, 2, 3)
    ]
    results.append(result_of("datastore-nas", 4096, 32, 3, read_percent=0))
    layers = {"datastore-nas": LAYER, "ceiling-client01": {"name": "ceiling-client01", "host": "client01"}}
    looks = {"client01": {"192.0.2.7": {"before": look(), "after": look(seen=9000)}}}
    (answer,) = diagnosis.of_run(layers, results, looks)
    assert (answer["layer"], answer["answer"]) == ("datastore-nas", "storage")
    (blind,) = diagnosis.of_run(layers, results, {})
    assert blind["answer"] == "cannot tell" and blind["path"] == {"note": "it was not looked at"}
    (nameless,) = diagnosis.of_run(
        {**layers, "datastore-nas": {**LAYER, "detail": {"provider": "open-iscsi"}}}, results, looks
    )
    assert nameless["answer"] == "cannot tell" and "does not name a server" in nameless["why"]
    (local,) = diagnosis.of_run({**layers, "datastore-nas": {**LOCAL, "name": "datastore-nas"}}, results, looks)
    assert local["answer"] == "storage" and local["path"] is None
    for filesystem in ("nfs4", "cifs", "ceph", None):
        detail = {"provider": "existing", "existing": "path", "filesystem": filesystem}
        (mounted,) = diagnosis.of_run({**layers, "datastore-nas": {**LAYER, "detail": detail}}, results, looks)
        assert mounted["answer"] == "cannot tell"
    lines = diagnosis.lines([answer, blind])
    assert lines[0].startswith("datastore-nas on client01: STORAGE. Neither the machine nor the network")
    assert any("not seen: the network: it was not looked at" in line for line in lines)
    assert diagnosis.lines([]) == ["Nothing was measured, so there is no answer."]


def run_of(*figures):
    """Results of (layer, kind, host, I/Os per second at depth 1)."""
    return [
        result_of(name, block, depth, round(one * more + repetition), kind, repetition, host=host)
        for name, kind, host, one in figures
        for (block, depth), more in ((LATENCY, 1), (RATE, 8), (STREAM, 0.2))
        for repetition in (1, 2, 3)
    ]


def test_guests_are_answered_after_their_disks_and_compared_with_each_other():
    hosts = ("hypervisor01", "guest01", "guest02")
    disks = [
        ("guest-slow", "guest", "guest01", 100),
        ("guest-equal", "guest", "guest02", 4003),
        ("initiator-disk", "initiator", "hypervisor01", 4000),
    ]
    results = run_of(*disks, *((f"ceiling-{host}", "ceiling", host, 1_000_000) for host in hosts))
    layers = {
        name: {
            **LOCAL,
            "name": name,
            "kind": kind,
            "host": host,
            "parent": "initiator-disk" if kind == "guest" else None,
        }
        for name, kind, host, _one in disks
    }
    answers = {answer["layer"]: answer for answer in diagnosis.of_run(layers, results, {})}
    assert {name: answer["answer"] for name, answer in answers.items()} == {
        "initiator-disk": "storage",
        "guest-slow": "machine",
        "guest-equal": "storage",
    }
    assert next(iter(answers)) == "initiator-disk"
    # Without their disk measured, both are compared with each other.
    alone = run_of(*disks[:2], *((f"ceiling-{host}", "ceiling", host, 1_000_000) for host in hosts))
    slow, equal = diagnosis.of_run(layers, alone, {})
    assert slow["answer"] == equal["answer"] == "storage"
    assert any(line.endswith("of what guest-slow gives, more") for line in equal["figures"])
    assert not any("of what" in line and "gives, " in line for line in slow["figures"])


def test_a_network_that_was_measured_from_both_ends_reaches_the_answer():
    results = run_of(
        ("datastore-nas", "datastore", "client01", 1000), ("ceiling-client01", "ceiling", "client01", 90_000)
    )
    looks = {"client01": {"192.0.2.7": {"before": look(), "after": look(seen=9000)}}}
    line = {"host": "client01", "target": "target01", "address": "192.0.2.7", "from_target_bits_s": 1.75e9}
    for links, answer in (([line], "network"), ([{**line, "address": "192.0.2.8"}], "storage"), ([], "storage")):
        answers = diagnosis.of_run({"datastore-nas": LAYER}, results, looks, links)
        assert [each["answer"] for each in answers] == [answer]


def test_layers_that_are_on_each_other_end():
    circle = {name: {**LOCAL, "name": name, "parent": other} for name, other in (("a", "b"), ("b", "a"))}
    results = run_of(("a", "datastore", "client01", 1000), ("b", "datastore", "client01", 1000))
    assert [answer["layer"] for answer in diagnosis.of_run(circle, results, {})] == ["a", "b"]


@pytest.mark.parametrize(
    ("detail", "address"),
    [
        ({"portal": "192.0.2.40:3261"}, "192.0.2.40"),
        ({"portal": {"address": "2001:db8::40", "port": 3260}}, "2001:db8::40"),
        ({}, ""),
    ],
)
def test_the_portal_of_a_session_is_its_server(detail, address):
    assert diagnosis._portal({"detail": detail}) == address
