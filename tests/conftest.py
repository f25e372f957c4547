# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets tests import the checkout as ansible_collections.storlab.testbed, the way Ansible itself does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

ROOT = Path(__file__).resolve().parent.parent
# pytest knows the rooms of tests/ from pyproject.toml, a program that imports this file does not.
sys.path.append(str(ROOT / "tests" / "support"))

import programs

COLLECTIONS = ROOT / ".cache" / "collections"
LINK = COLLECTIONS / "ansible_collections" / "storlab" / "testbed"

if not LINK.exists():
    LINK.parent.mkdir(parents=True, exist_ok=True)
    LINK.symlink_to(os.path.relpath(ROOT, LINK.parent))

GUARD = programs.Guard()
sys.addaudithook(GUARD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Only programs that a recipe installs are started while a test runs."""
    GUARD.room = item.path.relative_to(ROOT).parts[1] if item.path.is_relative_to(ROOT / "tests") else None
    GUARD.ansible = item.get_closest_marker("ansible") is not None
    try:
        return (yield)
    finally:
        GUARD.room = None


def pytest_configure(config):
    """The same examples of property tests in each run, so that a failure is of the change under test. `make random` tries others, by a seed."""
    hypothesis.settings.register_profile(
        "here",
        derandomize=config.getoption("--hypothesis-seed") is None,
        # A busy machine makes examples slowly, which says nothing about the test.
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("here")


_AnsibleCollectionFinder(paths=[str(COLLECTIONS)])._install()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
