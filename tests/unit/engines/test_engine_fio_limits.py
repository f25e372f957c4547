# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a document of fio stops to be believed: just inside and just outside of each limit."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_figures


@pytest.mark.parametrize(
    ("iops", "agrees"), [(1000, True), (1049.5, True), (1050.5, False), (950.5, True), (949.5, False), (None, False)]
)
def test_rates_are_counts_over_time(iops, agrees):
    raw = {"total_ios": 7000, "iops": iops, "runtime": 7000}
    assert (fio_figures.rates_disagree({"write": raw}) is None) is agrees
    # Without I/O there is no rate that could disagree.
    assert fio_figures.rates_disagree({"write": {**raw, "total_ios": 0}}) is None


@pytest.mark.parametrize("most", [(1 << 64) - 1, 0])
def test_counts_of_bins_fit_into_eight_bytes(most):
    raw = {"40": most, "50": 3}
    assert fio_figures._bins(raw, 1) == raw and fio_figures._bins(raw, 1000) == {"40000": most, "50000": 3}


@pytest.mark.parametrize("raw", [{"40": 1 << 64}, {"40": -1}, {"40": 1.5}, {"40": True}, {"40,50": 3}, {"x": 3}])
def test_bins_that_hold_something_else_are_refused(raw):
    with pytest.raises(Failure):
        fio_figures._bins(raw, 1)


def test_percentiles_that_are_not_there_are_none():
    assert fio_figures._percentiles({}, 1) == fio_figures._percentiles({"percentile": None}, 1) == {}
    assert fio_figures._percentiles({"percentile": {"99.500000": 7}}, 1000) == {99.5: 7000}


def document(name: str = "job", elapsed: int = 5, moved: int = 700, **more) -> dict:
    return {
        "timestamp": 100 + elapsed,
        "jobs": [{"jobname": name, "elapsed": elapsed, "read": {"io_bytes": moved}}],
        **more,
    }


def test_documents_of_one_run_go_on():
    first = document()
    assert fio._same_run(first, document(elapsed=8, moved=900))
    # Each of these is another run on its own.
    assert not fio._same_run(first, document(name="other", elapsed=8, moved=900))
    assert not fio._same_run(first, document(elapsed=8, moved=699))
    assert not fio._same_run(first, document(elapsed=4, moved=900))
    assert not fio._same_run(first, {**document(elapsed=8, moved=900), "timestamp": 110})
