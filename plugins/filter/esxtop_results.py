# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text or file of esxtop's batch output in, means of its counters out; documentation in esxtop_results.yml."""

from __future__ import annotations

import codecs

from ..module_utils.core.failure import bad_value
from ..module_utils.engines import esxtop
from ..plugin_utils.store.text_filter import text_filter


def _read(text: str, file: bool = False, started_utc: str | None = None, finished_utc: str | None = None) -> dict:
    if not file:
        return esxtop.read(text, started_utc, finished_utc)
    try:
        with open(text, "rb") as handle:
            # Windows' shells redirect in UTF-16.
            encoding = "utf-16" if handle.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        with open(text, encoding=encoding, errors="replace") as handle:
            return esxtop.read(handle, started_utc, finished_utc)
    except (OSError, UnicodeError) as error:
        raise bad_value(
            "the input of esxtop_results", text, f"Name a file with esxtop's batch output ({error})."
        ) from None


class FilterModule:
    def filters(self):
        return {"esxtop_results": text_filter(_read, "esxtop_results", "esxtop's batch output")}
