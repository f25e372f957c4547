# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of a datastore: the testbed's stamp in its root, and everything else there.

A session's list of machines is not enough: a host on its own knows the machines that are registered with itself, and a folder with a machine that no one has
registered is somebody's all the same. So the root is browsed; what a complete teardown leaves there is the stamp, and the files that VMFS keeps for itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..core.failure import Failure
from .session import STAMP_KEY, Session
from .states import HostSystem

STAMP_FILE = ".storlab.json"
HA_FOLDER = ".vSphere-HA"
# .fbb.sf, .fdc.sf, .pbc.sf, .sbc.sf, .vh.sf, .sdd.sf, .pb2.sf and others, by version: all begin with a dot and end like this.
SYSTEM_FILE = re.compile(r"\.[^/]+\.sf")
SHOWN_ENTRIES, KEPT_ENTRIES = 10, 100


def stores_of(session: Session, host: HostSystem, *names: Any) -> list[Any]:
    """[(datastore, {property: value})] of the host, in one request: one that goes away during the request is left out."""
    own = set(host.datastore)
    return [(store, values) for store, values in session.all(session.vim.Datastore, *names) if store in own]


def datastore(session: Session, host: HostSystem, name: str) -> Any:
    with session.doing(f"find the datastore {name}"):
        return next((store for store, values in stores_of(session, host, "name") if values["name"] == name), None)


class Contents:
    """Looks into the datastores of a host, when a plan wants to know."""

    def __init__(self, session: Session, host: HostSystem) -> None:
        self.session, self.host = session, host

    def stamp(self, name: str) -> str | None:
        """The testbed whose file is in the datastore's root; None when there is none."""
        store = datastore(self.session, self.host, name)
        content = self.session.file("GET", store, STAMP_FILE) if store is not None else None
        if content is None:
            return None
        try:
            testbed_id: str | None = json.loads(content)[STAMP_KEY]
        except (ValueError, KeyError, TypeError):
            return None
        return testbed_id

    def entries(self, name: str) -> list[str]:
        """The things of others in the datastore's root."""
        return others(self._search(name, "*"))

    def has(self, name: str, entry: str) -> bool:
        return entry in self._search(name, entry)

    def _search(self, name: str, pattern: str) -> list[str]:
        what, store = f"browse the datastore {name}", datastore(self.session, self.host, name)
        if store is None:
            return []
        with self.session.doing(what):
            spec = self.session.vim.host.DatastoreBrowser.SearchSpec(matchPattern=[pattern])
            task = store.browser.SearchDatastore_Task(datastorePath=f"[{name}]", searchSpec=spec)
        return [file.path for file in self.session.wait(task, what).file or []]


def others(names: list[str]) -> list[str]:
    """The names in a datastore's root that are neither the stamp nor VMFS' own."""
    return sorted(name for name in names if name != STAMP_FILE and not SYSTEM_FILE.fullmatch(name))


def listed(entries: list[str]) -> str:
    more = len(entries) - SHOWN_ENTRIES
    return ", ".join(entries[:SHOWN_ENTRIES]) + (f" and {more} more" if more > 0 else "")


def refuse_left(entries: list[str], name: str) -> None:
    """Refuse to destroy a datastore that holds something."""
    if not entries:
        return
    remedy = "Move it away, or set datastore_discard_contents to true: then it is destroyed with the datastore."
    if HA_FOLDER in entries:
        remedy += (
            f" {HA_FOLDER} is vSphere HA's: choose other heartbeat datastores in the cluster's settings, and it goes."
        )
    raise Failure(
        "datastore_not_empty",
        f"The datastore {name} holds {listed(entries)}.",
        remedy,
        name=name,
        entries=entries[:KEPT_ENTRIES],
    )
