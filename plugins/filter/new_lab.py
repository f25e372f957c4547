# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a new lab from a few answers; documentation in new_lab_files.yml, new_lab_hosts.yml and new_lab_summary.yml."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..plugin_utils.chain import new_lab
from ..plugin_utils.chain.inventory import plain


def _failing_as_filters_do(function):
    def apply(*arguments):
        try:
            return function(*map(plain, arguments))
        except Failure as failure:
            raise AnsibleFilterError(str(failure)) from failure

    return apply


class FilterModule:
    def filters(self) -> dict:
        return {
            "new_lab_files": _failing_as_filters_do(lambda given, probes=None: new_lab.compose(given, probes or {})),
            "new_lab_summary": _failing_as_filters_do(new_lab.summary),
            "new_lab_hosts": _failing_as_filters_do(lambda given: new_lab.hosts(new_lab.answers(given))),
        }
