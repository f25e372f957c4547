# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of esxtop's batch output in, means of its counters out; documentation in esxtop_counters.yml."""

from __future__ import annotations

from ..module_utils.engines import esxtop
from ..plugin_utils.text_filter import text_filter


class FilterModule:
    def filters(self):
        return {"esxtop_counters": text_filter(esxtop.read, "esxtop_counters", "esxtop's batch output")}
