# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of turns; documentation in drawn_order.yml and gate_turns.yml."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..plugin_utils.compare import turns


def drawn_order(sides: list, seed, number: int) -> list:
    return turns.drawn_order(sides, seed, int(number))


def gate_turns(gate: dict, run_id: str, results_dir: str, inventories: list) -> list:
    try:
        return turns.gate_turns(gate, run_id, results_dir, inventories)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self) -> dict:
        return {"drawn_order": drawn_order, "gate_turns": gate_turns}
