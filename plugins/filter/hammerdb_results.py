# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of a HammerDB log in, list of runs out; documentation in hammerdb_results.yml."""

from __future__ import annotations

from ..module_utils.engines import hammerdb
from ..plugin_utils.store.text_filter import text_filter


class FilterModule:
    def filters(self):
        return {"hammerdb_results": text_filter(hammerdb.results, "hammerdb_results", "a HammerDB log")}
