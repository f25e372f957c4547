# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many fio servers as one layer: what of their description is refused, and what the client is told. Real servers are in molecule/engine."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_distributed as distributed
from unchanged import refused

ONE = {"host": "h1", "address": "10.0.0.1", "port": 8801, "version": "fio-3.33", "layer": "initiator-a"}
TWO = {**ONE, "host": "h2", "address": "fd00::2", "port": 8802, "layer": "initiator-b"}


def layer(name: str, host: str, **more) -> dict:
    given = {
        "name": name,
        "kind": "initiator",
        "host": host,
        "path": f"/dev/{name}",
        "parent": "target-x",
        "purpose": "scratch",
    }
    return {**given, "size_bytes": 3 << 20, "identity": {"serial": f"sn-{name}"}, "detail": {}, **more}


A, B = layer("initiator-a", "h1"), layer("initiator-b", "h2", size_bytes=5 << 20, parent="target-y")


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ([{**ONE, "version": ""}, TWO], "Give it version"),
        ([{"host": "h1"}], "Give it address, port, version, layer"),
        ([{**ONE, "address": "10.0.0.1; reboot"}], "an address or a host name"),
        ([ONE, {**TWO, "address": "10.0.0.1", "port": 8801}], "Name every server once"),
    ],
)
def test_servers_that_are_not_described_are_refused(servers, says):
    with pytest.raises(Failure) as caught:
        distributed.check_servers(servers)
    assert caught.value.code == "bad_value" and says in str(caught.value)


def test_servers_that_are_described_are_taken():
    distributed.check_servers([ONE, TWO, {**ONE, "port": 8803}])


def program(folder, says: str) -> str:
    path = folder / "fio"
    path.write_text(f'#!/bin/sh\n[ "$*" = --version ] && echo {says}\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_another_version_of_fio_is_named(tmp_path):
    own = program(tmp_path, "fio-3.33")
    distributed.check_versions([ONE, TWO], own)
    # Without servers the program need not even be there.
    distributed.check_versions([], "/nonexistent/fio")
    with refused(tmp_path) as caught:
        distributed.check_versions([ONE, {**TWO, "version": "fio-3.28"}], own)
    assert caught.value.code == "engine_version_differs" and "h2 has fio-3.28" in str(caught.value)
    assert (caught.value.details["own"], caught.value.details["servers"]) == (
        "fio-3.33",
        {"h1": "fio-3.33", "h2": "fio-3.28"},
    )


def test_many_layers_are_one():
    made = distributed.group_layer(None, [A, B], "h0")
    assert (made["name"], made["kind"], made["host"], made["path"]) == ("initiator-many", "initiator", "h0", None)
    # They stand on different layers, so the whole stands on none.
    assert (made["size_bytes"], made["parent"]) == (8 << 20, None)
    assert [member["path"] for member in made["detail"]["members"]] == ["/dev/initiator-a", "/dev/initiator-b"]
    assert made["identity"]["layers"]["initiator-b"]["identity"] == {"serial": "sn-initiator-b"}
    named = distributed.group_layer("all", [A, {**B, "parent": "target-x"}], "h0")
    assert (named["name"], named["parent"]) == ("all", "target-x")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "backing"}, "kinds backing, initiator"),
        ({"purpose": "data"}, "scratch layers that have a path"),
        ({"path": None}, "scratch layers that have a path"),
        ({"detail": {"files": ["/mnt/a.dat", "/mnt/b.dat"]}}, "leave out benchmark_files"),
    ],
)
def test_layers_that_are_no_group_are_refused(change, says):
    with pytest.raises(Failure) as caught:
        distributed.group_layer(None, [A, {**B, **change}], "h0")
    assert caught.value.code == "bad_value" and says in str(caught.value)


def test_a_layer_that_nobody_published_is_refused():
    assert distributed.layer_of(TWO, {"initiator-b": B}) is B
    with pytest.raises(Failure, match="was published"):
        distributed.layer_of(ONE, {"initiator-b": B})


def test_the_client_is_told_each_server_with_its_own_job():
    texts = ["[job]\nfilename=/dev/a\n", "[job]\nfilename=/dev/b\n"]
    argv, files = distributed.arguments([ONE, TWO], texts)
    assert argv == ["--client=ip:10.0.0.1,8801", "job.1.fio", "--client=ip6:fd00::2,8802", "job.2.fio"]
    assert [files[name] for name in argv[1::2]] == texts
    assert distributed.joined([ONE, TWO], texts).splitlines()[::4] == [
        "; h1, layer initiator-a",
        "; h2, layer initiator-b",
    ]
    assert distributed.server_command("/usr/bin/fio", "fd00::2", 8802) == ["/usr/bin/fio", "--server=ip6:fd00::2,8802"]


def test_what_is_kept_of_one_host_has_no_histogram():
    result = {
        "host": "h1",
        "status": "ok",
        "failures": [],
        "flags": [],
        "runtime_s": 7,
        "total": {"iops": 5, "histogram": [1]},
        "cpu": None,
    }
    assert distributed.client(result) == {
        "host": "h1",
        "failures": [],
        "status": "ok",
        "runtime_s": 7,
        "total": {"iops": 5},
    }
