# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/schema/storlab.testbed.schema.json anew, after words or roles' variables have changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("", "support")]

import conftest

if __name__ == "__main__":
    from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory, schema

    path = conftest.ROOT / "docs" / "schema" / "storlab.testbed.schema.json"
    path.write_text(
        json.dumps(schema.schema(inventory.role_options()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(path)
