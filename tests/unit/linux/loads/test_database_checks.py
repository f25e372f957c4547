# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A testbed's own database without one: what is refused before anything is made, and in which order its steps go. Real ones are in tests/integration."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import threading
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database_postgresql import Postgresql
from unchanged import refused

VALUES = {"warehouses": 3, "shared_buffers_mib": 64, "max_wal_mib": 96, "settings": {"work_mem": "4MB"}}
UUID = "12345678-9abc-def0-1122-334455667788"


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"warehouses": 0}, "database_load_warehouses"),
        ({"warehouses": database.MOST_WAREHOUSES + 1}, "database_load_warehouses"),
        ({"shared_buffers_mib": 0}, "database_load_shared_buffers_mib"),
        ({"max_wal_mib": 31}, "database_load_max_wal_mib"),
        ({"settings": {"port": 5432}}, "cluster's privacy"),
        ({"settings": {"Work-Mem": 1}}, "Name parameters of PostgreSQL"),
        ({"settings": {"work_mem": [1]}}, "database_load_settings work_mem"),
        ({"settings": {"work_mem": "1\nport = 1"}}, "Give a single value"),
    ],
)
def test_values_that_are_refused(change, variable):
    database.check_values(Postgresql, VALUES)
    with pytest.raises(Failure) as caught:
        database.check_values(Postgresql, {**VALUES, **change})
    assert caught.value.code == "bad_value" and variable in str(caught.value)


def datastore(**more) -> dict:
    return {"kind": "datastore", "identity": {"mount_point": "/mnt/ds1", "uuid": UUID}, "detail": {}, **more}


def mounted(monkeypatch, source: str = "/dev/sdx", uuid: str = UUID, fsid: str = "1:2", there: bool = True) -> None:
    table = [{"mount_point": "/mnt/ds1", "source": source, "numbers": "8:16"}] if there else []
    monkeypatch.setattr(database.mounts, "read", lambda: table)
    monkeypatch.setattr(
        database.filesystem, "read_superblock", lambda device: {"uuid": uuid if device == "/dev/sdx" else None}
    )
    monkeypatch.setattr(database.nfs_volumes, "fsid_of", lambda mount: fsid)


def of(layer: dict | None) -> str:
    return database.mount_of({"layer": "datastore-ds1", "layers": {"datastore-ds1": layer} if layer else {}})


def test_the_file_system_of_the_layer_is_proven(monkeypatch):
    mounted(monkeypatch)
    assert of(datastore()) == "/mnt/ds1"
    over_nfs = datastore(detail={"server": "10.0.0.7"})
    mounted(monkeypatch, source="10.0.0.7:/e", fsid="123456789abcdef0:1122334455667788")
    assert of(over_nfs) == "/mnt/ds1"
    for change in ({"uuid": "another"}, {"source": "tmpfs"}, {"there": False}):
        mounted(monkeypatch, **change)
        with pytest.raises(Failure) as caught:
            of(datastore())
        assert (caught.value.code, caught.value.details["path"]) == ("database_unproven", "/mnt/ds1")
    mounted(monkeypatch, source="10.0.0.7:/e", fsid="3:4")
    with pytest.raises(Failure, match="another file system"):
        of(over_nfs)


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        (None, "layer_missing"),
        (datastore(kind="initiator"), "bad_value"),
        (datastore(identity={"uuid": UUID}), "bad_value"),
        (datastore(identity={"mount_point": "/mnt/ds1"}), "bad_value"),
    ],
)
def test_layers_that_carry_no_database(monkeypatch, layer, code):
    mounted(monkeypatch)
    with pytest.raises(Failure) as caught:
        of(layer)
    assert caught.value.code == code


class Cluster(Postgresql):
    """Notes what it is to do; its record is a dict that is saved into a list."""

    def __init__(self) -> None:
        self.calls, self.testbed_id, self.run_dir = [], "unit", "/run/none"
        self.record = SimpleNamespace(data={}, save=lambda: self.calls.append("save"))

    def stop(self, *_rest) -> None:
        self.calls.append("stop")

    def start(self, settings) -> None:
        self.calls.append(f"start {settings}")

    def _make(self, wanted) -> None:
        self.calls.append(f"make {wanted['version']}")

    def keep_private(self) -> None:
        self.calls.append("keep private")

    def _write_stamp(self, more) -> None:
        self.calls.append(f"stamp {more['loaded']}")


def test_steps_go_in_their_order(monkeypatch):
    wanted = {
        "warehouses": 5,
        "version": 15,
        "settings": {"a": "1"},
        "user": "postgres",
        "programs": {},
        "driver": None,
    }
    cluster = Cluster()
    monkeypatch.setattr(database, "remove_cluster", lambda folder: cluster.calls.append(f"remove {folder}"))
    current = {"made": True, "loaded": 3, "version": 15, "settings": {}, "running": True, "driver": None}
    steps = database.plan("PostgreSQL", current, wanted)
    cluster.apply("/mnt/ds1/db", wanted, steps, lambda there: there.calls.append("load"))
    assert cluster.calls == [
        "save",
        "stop",
        "remove /mnt/ds1/db",
        "make 15",
        "start {'a': '1'}",
        "keep private",
        "load",
        "stamp 5",
    ]
    assert cluster.record.data == {
        "database": "postgresql",
        "folder": "/mnt/ds1/db",
        "user": "postgres",
        "programs": {},
    }
    # With other settings it is only started anew, and what is as wanted is left alone.
    cluster = Cluster()
    cluster.apply("/mnt/ds1/db", wanted, database.plan("PostgreSQL", {**current, "loaded": 5}, wanted), None)
    assert cluster.calls == ["save", "stop", "start {'a': '1'}", "stamp 5"]
    cluster = Cluster()
    same = {**current, "loaded": 5, "settings": {"a": "1"}}
    cluster.apply("/mnt/ds1/db", wanted, database.plan("PostgreSQL", same, wanted), None)
    assert cluster.calls == [] and cluster.record.data == {}


@pytest.mark.parametrize(
    ("log", "words", "pid", "code"),
    [
        ("", "ERROR: No space left on device", 7, database.FULL),
        ("PANIC: could not write: No space left on device", "", None, database.FULL),
        ("server closed", "", None, database.DIED),
        ("", "syntax error", 7, None),
    ],
)
def test_why_a_client_failed_is_told_by_the_server(monkeypatch, log, words, pid, code):
    cluster = Cluster()
    cluster.record.data["folder"] = "/mnt/ds1/db"
    monkeypatch.setattr(database.Cluster, "log_tail", lambda _self: log)
    monkeypatch.setattr(database.Cluster, "pid", lambda _self: pid)
    trouble = cluster.trouble(words)
    assert (trouble and trouble[0]) == code
    failure = Failure("command_failed", f"psql failed: {words}.", "Look.")
    explained = cluster.explained(failure)
    assert explained.code == (code or "command_failed")
    assert (explained is failure) is (code is None)


@pytest.mark.parametrize(
    ("begun", "program", "ended"),
    [
        pytest.param(True, "sleep", True, id="what a killed run had started"),
        pytest.param(True, "tail", False, id="a process of somebody else in the folder"),
        pytest.param(False, "sleep", False, id="nothing was begun"),
    ],
)
def test_a_server_that_a_killed_run_had_started_is_ended_and_no_other_process(
    monkeypatch, tmp_path, begun, program, ended
):
    """A program that sleeps in the data's folder plays the server; the killed run had no time to note which process it was."""
    (tmp_path / "db" / "data").mkdir(parents=True)
    server = shutil.which("sleep")
    there = subprocess.Popen(
        [shutil.which(program), *(["99"] if program == "sleep" else ["-f", "/dev/null"])], cwd=tmp_path / "db" / "data"
    )
    monkeypatch.setattr(database, "wait_until_gone", lambda find, _timeout_s: not find())
    monkeypatch.setattr(Postgresql, "PATIENCE_S", {signal.SIGTERM: 60})
    cluster = Postgresql.__new__(Postgresql)
    user = pwd.getpwuid(os.getuid()).pw_name
    data = {"folder": str(tmp_path / "db"), "user": user, "programs": {"postgres": server}}
    cluster.record = SimpleNamespace(data={**data, **({"starting": True} if begun else {})}, save=lambda: None)
    # It is this process's own child, which stays in the table until it is waited for.
    waiting = threading.Thread(target=there.wait)
    waiting.start()
    try:
        if ended:
            cluster.stop()
            assert there.wait(60) == -signal.SIGTERM
            assert cluster.record.data == data
        else:
            with refused(tmp_path, lambda: there.poll()) as caught:
                cluster.stop()
            assert caught.value.code == "database_hung"
    finally:
        there.kill()
        waiting.join()
