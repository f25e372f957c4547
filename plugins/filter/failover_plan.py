# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the playbook failover; documentation in failover_plan.yml."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..plugin_utils.benchmark import failover


def failover_plan(given: dict, layers: dict) -> dict:
    try:
        return failover.plan(given, layers)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self) -> dict:
        return {"failover_plan": failover_plan}
