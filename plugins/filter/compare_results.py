# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two lists of results in, verdicts out; documentation in compare_results.yml."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..plugin_utils.compare import comparison, gate


def compare_results(candidate, baseline, margin_percent=gate.MARGIN_PERCENT, metrics=None) -> dict:
    try:
        return comparison.compare(baseline, candidate, metrics=metrics, margin_percent=margin_percent)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self):
        return {"compare_results": compare_results}
