# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of an IOMeter configuration in, a list out; documentation in icf_workloads.yml."""

from __future__ import annotations

from ..module_utils.engines import icf
from ..plugin_utils.store.text_filter import text_filter


class FilterModule:
    def filters(self):
        return {"icf_workloads": text_filter(icf.workloads, "icf_workloads", "an IOMeter configuration")}
