# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a host on the controller, where the host itself has no place for it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from .files import read_json, write_json

# The part that several areas keep; the rest is in their own words.
SHAPE = {"datastores?": {str: dict}, "before?": dict, "settings?": {str: dict}, "secrets?": {str: dict}}


class KeptRecord:
    """The state of a host before this testbed changed it, kept on the controller, because an ESXi host has no place for it."""

    FOLDER = "esxi"

    def __init__(self, state_dir: str, area: str, name: str):
        self.path = os.path.join(state_dir, self.FOLDER, f"{area}-{name}.json")
        self.data: dict[str, Any] = (
            read_json(self.path, "Restore it, or remove it when nothing of the testbed is left on this host.", SHAPE)
            or {}
        )

    def save(self) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        write_json(self.path, self.data, mode=0o600, indent=1)

    def forget(self) -> None:
        self.data = {}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
