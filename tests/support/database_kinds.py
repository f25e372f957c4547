# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A database on a file system of its own, made and measured as its role does it; what differs between the databases stands in a table."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import database_host
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.engines import databases, transactions
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads.database import Cluster
from ansible_collections.storlab.testbed.plugins.module_utils.run import database


@dataclass(frozen=True)
class Kind:
    """A database, and the load of one warehouse on it."""

    name: str
    driver: str
    buffers_mib: int
    # Smaller than the default, so that the log does not need a gigabyte.
    log_mib: int
    # A time in which every kind of transaction is seen, and one in which some are.
    runtime_s: int
    short_s: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def cluster(self) -> type[Cluster]:
        return database.CLUSTERS[self.name]

    @property
    def other(self) -> str:
        return next(name for name in database.CLUSTERS if name != self.name)


POSTGRESQL = Kind("postgresql", "pgbench", buffers_mib=16, log_mib=96, runtime_s=4, short_s=3)
# A lock that is not given for a second is refused, and the transaction tried again.
MARIADB = Kind(
    "mariadb",
    "sysbench",
    buffers_mib=64,
    log_mib=64,
    runtime_s=10,
    short_s=4,
    settings={"innodb_lock_wait_timeout": 1},
)


class Host:
    """A mounted file system for a database of this kind; testbed_id marks all that it makes."""

    def __init__(self, kind: Kind, testbed_id: str, point: Path, layers: dict[str, Any]) -> None:
        self.kind, self.testbed_id, self.point, self.layers = kind, testbed_id, point, layers
        self.made: dict[str, Any] = {}

    @property
    def cluster(self) -> Cluster:
        return self.kind.cluster(self.testbed_id)

    def traces(self) -> dict[str, Any]:
        return database_host.traces(self.testbed_id, linux.user_of("", self.kind.cluster.USERS).pw_uid)

    def ensure(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        given = {
            "testbed_id": self.testbed_id,
            "state": "present",
            "database": self.kind.name,
            "layers": self.layers,
            "layer": "datastore-ds1",
            "warehouses": 1,
            "shared_buffers_mib": self.kind.buffers_mib,
            "max_wal_mib": self.kind.log_mib,
            "settings": self.kind.settings,
            "bin_dir": None,
            "user": "",
            "hammerdb_dir": None,
            **params,
        }
        return converge(database.Area, given, check_mode)

    def ops(self, check_mode: bool = False, **params: Any) -> list[str]:
        return [step["op"] for step in self.ensure(check_mode, **params)["steps"]]

    def kept(self, **params: Any) -> dict[str, Any]:
        """The record that the host keeps of a point, which is measured now."""
        given = {
            "testbed_id": self.testbed_id,
            "database": self.kind.name,
            "warehouses": 1,
            "virtual_users": 3,
            "ramp_s": 1,
            "runtime_s": self.kind.runtime_s,
            "isolation": "read_committed",
            "hammerdb_dir": None,
            **params,
        }
        kept: dict[str, Any] = json.loads(json.dumps(database.measure(given)))
        return kept

    def measure(self, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """(what the host kept, the result of it)."""
        kept = self.kept(**params)
        return kept, transactions.measured(kept["raw"], databases.DRIVERS[self.kind.driver])

    def values(self, **more: Any) -> dict[str, Any]:
        """Variables of the role database_load for this host, without their prefix."""
        return {
            "testbed_id": self.testbed_id,
            "database": self.kind.name,
            "layer": "datastore-ds1",
            "shared_buffers_mib": self.kind.buffers_mib,
            "max_wal_mib": self.kind.log_mib,
            "settings": self.kind.settings,
            "virtual_users": 2,
            "ramp_s": 0,
            "runtime_s": self.kind.short_s,
            **more,
        }

    @contextlib.contextmanager
    def untouched(self) -> Iterator[Host]:
        """No database before and none afterwards, and nothing that one leaves behind."""
        self.ensure(state="absent")
        before = self.traces()
        try:
            yield self
        finally:
            self.ensure(state="absent")
        assert self.traces() == before
        assert sorted(os.listdir(self.point)) == ["lost+found"]


HostType = TypeVar("HostType", bound=Host)


@contextlib.contextmanager
def host_of(kind: Kind, testbed_id: str, of: type[HostType] = Host) -> Iterator[HostType]:
    with database_host.datastore(testbed_id, 640) as (point, layers):
        yield of(kind, testbed_id, point, layers)


def codes(result: dict[str, Any]) -> list[str]:
    return [failure["code"] for failure in result["failures"]]
