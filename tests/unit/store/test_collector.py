# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for cycles rests while a report is read and drawn, and goes on afterwards, whatever happened."""

from __future__ import annotations

import gc

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.collector import without_collector


@pytest.fixture(autouse=True)
def as_before():
    enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if enabled else gc.disable)()


def test_the_search_rests_in_the_block_alone():
    with without_collector(), without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_a_failure():
    with pytest.raises(ValueError, match="broken"), without_collector():
        raise ValueError("broken")
    assert gc.isenabled()


def test_whoever_had_stopped_it_finds_it_stopped():
    gc.disable()
    with without_collector():
        pass
    assert not gc.isenabled()


@pytest.mark.parametrize("taken", [1, 2])
def test_it_rests_while_a_file_is_drawn_and_not_after_one_that_was_given_up(taken):
    drawn = render._pieces(lambda _report: iter([gc.isenabled(), "more"]), None)
    pieces = [next(drawn) for _number in range(taken)]
    assert not gc.isenabled() and pieces[0] is False
    drawn.close()
    assert gc.isenabled()
