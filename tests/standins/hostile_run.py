# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stored run whose every text from outside is somebody's attack."""

from __future__ import annotations

import copy


def poisoned(stored, text: str):
    """Every name and text that comes from outside replaced by something hostile."""
    run = copy.deepcopy(stored)
    run.results = [result for result in run.results if result["workload_id"] == "4k-r70-rnd100-qd8-w1"]
    run.testbed_id = run.run_id = text
    for layer in run.layers.values():
        for key in ("name", "host", "path", "parent"):
            layer[key] = f"{layer[key]}{text}" if layer[key] else layer[key]
    run.layers = {layer["name"]: layer for layer in run.layers.values()}
    for result in run.results:
        for key in ("layer", "host", "point_id", "workload_id"):
            result[key] += text
        result["engine"] = {"name": text, "version": text, "ioengine": text}
        result["files"]["raw"].update(path=f"points/{text}/fio.json", name=text, sha256=text)
        result["flags"] = [text]
    run.results[-1].update(status="failed", failures=[{"code": text, "message": text}])
    run.environments = {f"target01{text}": {"kernel": {"release": text}, text: text}}
    run.damaged = [{"file": text, "reason": text}]
    return run
