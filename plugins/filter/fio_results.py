# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that fio left behind in, list of results out; documentation in fio_results.yml."""

from __future__ import annotations

from ..module_utils.engines import fio
from ..plugin_utils.store.text_filter import text_filter


class FilterModule:
    def filters(self):
        return {"fio_results": text_filter(fio.results, "fio_results", "fio's output")}
