# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that fio left behind in, list of results out; documentation in fio_results.yml."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.engines import fio


def fio_results(text) -> list:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        if not isinstance(text, str):
            raise bad_value("the input of fio_results", type(text).__name__, "Give it the text of fio's output.")
        return fio.results(text)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self):
        return {"fio_results": fio_results}
