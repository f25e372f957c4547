# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which unit tests start Ansible's programs, which takes two seconds each time. `make unit` runs the others first, so that what is wrong there shows early."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import sample

# How many tests of a file that starts Ansible over and over a run of `make test` takes. `make unit` takes all of them (tests/support/sample.py).
SAMPLED = {"test_experiments": 26, "test_inventories": 9, "test_playbooks": 80}
STARTS = re.compile(
    r'"ansible-(?:doc|galaxy|inventory|playbook)"|^\s*(?:import|from) (?:plays|show_testbed)\b', re.MULTILINE
)


@functools.cache
def starts_ansible(path: Path) -> bool:
    return bool(STARTS.search(path.read_text(encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config) -> bool | None:
    """A file that -m leaves out whole need not even be read, which takes a while for all of them."""
    if collection_path.suffix != ".py" or config.option.markexpr not in ("ansible", "not ansible"):
        return None
    return starts_ansible(collection_path) != (config.option.markexpr == "ansible") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    sample.take(config, items, SAMPLED)
    for item in items:
        if starts_ansible(item.path):
            item.add_marker(pytest.mark.ansible)


@pytest.fixture(autouse=True)
def no_server_of_others(monkeypatch):
    """A tgtd that somebody else runs on this computer is asked by a test of its own alone: a quick test may start no tgtadm."""
    from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks.system import System

    listens = System.listens
    monkeypatch.setattr(System, "listens", lambda self, path: self.root != "/" and listens(self, path))
