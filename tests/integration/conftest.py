# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests must have this machine's devices for themselves: those that measure on it, or use its loop devices or page cache. `make integration-alone`
runs them one after another, `make test` beside lint and unit tests, which use no device. `make integration-shared` runs two files of the others at a time;
the tests of one file share what they start. Of long files, and of the tests marked `long`, `make test` takes a sample (tests/support/sample.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import sample
from browser import Browser
from places import TESTS

MACHINE_WIDE = {
    "test_benchmark",
    "test_compare_browser",
    "test_counters_of_a_device",
    "test_debian_installation",
    "test_device_guard",
    "test_device_instances",
    "test_examples",
    "test_faults",
    "test_lost_records",
    "test_lost_write",
    "test_many_hosts",
    "test_observer_of_a_device",
    "test_ordinary_rights",
    "test_page_cache_dropped",
    "test_ramdisk_on_tmpfs",
    "test_results_schema_measured",
    "test_runner",
    "test_split_of_known_delays",
    "test_two_testbeds",
}
# How many tests of a long file a run of `make test` takes, beside those marked `long`. Without SAMPLE_SEED all of them run. In these files no test needs what
# another has left.
SAMPLED = {
    "test_benchmark": 5,
    "test_compare_browser": 5,
    "test_database_hammerdb": 9,
    "test_database_load": 16,
    "test_debian_installation": 5,
    "test_device_guard": 12,
    "test_esxi_contents_simulated": 8,
    "test_esxi_counters_simulated": 10,
    "test_esxi_installation_simulated": 8,
    "test_esxi_network_simulated": 5,
    "test_esxi_storage_simulated": 10,
    "test_esxi_vm_simulated": 24,
    "test_examples": 6,
    "test_fio_does_as_told": 16,
    "test_lab_leftovers": 26,
    "test_many_hosts": 10,
    "test_report_browser": 24,
    "test_runner": 18,
}
# How many of the tests that are marked `long`, because each plays whole playbooks for half a minute and more.
LONG_TAKEN = 7
PASSERS_BY = pytest.StashKey[subprocess.Popen]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Others work on this computer meanwhile (tests/standins/passers_by.py), and no test may mind it."""
    if not hasattr(session.config, "workerinput") and os.geteuid() == 0 and not session.config.option.collectonly:
        argv = [sys.executable, str(TESTS / "standins" / "passers_by.py")]
        session.config.stash[PASSERS_BY] = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    passers_by = session.config.stash.get(PASSERS_BY, None)
    if passers_by:
        passers_by.terminate()
        output = passers_by.communicate(timeout=60)[0]
        if passers_by.returncode != 0:
            raise RuntimeError("tests/standins/passers_by.py did not last; see what it says above")
        print(f"\nPassed by meanwhile: {json.loads(output)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    sample.take(config, items, SAMPLED, LONG_TAKEN)
    for item in items:
        if item.path.stem in MACHINE_WIDE:
            item.add_marker(pytest.mark.machine_wide)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for the tests of a file."""
    running = Browser()
    yield running
    running.close()
