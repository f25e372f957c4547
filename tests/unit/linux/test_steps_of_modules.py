# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order arrays and caches are looked at, refused and changed: nothing is changed before all is looked at, and nothing in check mode."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import cache_tier, raid
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import nfs_export

STEP = {"op": "create", "array": "a", "cache": "a", "target": "a", "was": None, "will": "made"}
LOOKS = {raid: ["refuse_used", "refuse_unsafe"], cache_tier: ["refuse_used", "refuse_unsafe", "refuse_small"]}


class Area:
    """Notes what is called, in order."""

    def __init__(self) -> None:
        self.calls = []

    def __getattr__(self, name: str):
        def call(*given, **named):
            self.calls.append(name)
            return {"current": {"a": {}}, "layers": ["layer"]}.get(name)

        return call


def ensured(monkeypatch, module, state: str, check_mode: bool, steps: list) -> tuple:
    area, described = Area(), [{"name": "a"}]
    key = "arrays" if module is raid else "caches"
    monkeypatch.setattr(module, key.capitalize(), lambda testbed_id: area)
    monkeypatch.setattr(module, f"check_{key}", lambda *_given: described)
    planned = []
    monkeypatch.setattr(module, "plan", lambda current, wanted: planned.append(wanted) or steps)
    params = {
        "testbed_id": "unit",
        "state": state,
        key: described,
        "layers": {},
        "resync_timeout_s": 7,
        "flush_timeout_s": 9,
    }
    result = converge(module.Area, params, check_mode)
    # What is to be absent is looked at by its description, and wanted is nothing.
    assert planned == [described if state == "present" else []]
    return area.calls, result


@pytest.mark.parametrize("module", [raid, cache_tier])
@pytest.mark.parametrize(
    ("state", "check_mode", "steps", "changes"),
    [
        ("present", False, [STEP], ["apply"]),
        ("present", False, [], ["apply"]),
        ("present", True, [STEP], []),
        ("absent", False, [STEP], ["apply", "forget"]),
        ("absent", True, [STEP], []),
    ],
)
def test_nothing_is_changed_before_all_is_looked_at(monkeypatch, module, state, check_mode, steps, changes):
    calls, result = ensured(monkeypatch, module, state, check_mode, steps)
    assert calls[: 1 + len(LOOKS[module])] == ["current", *LOOKS[module]]
    rest = calls[1 + len(LOOKS[module]) :]
    again = ["current"] if module is raid and changes == ["apply"] and steps else []
    assert rest == [*changes, *again, *(["layers"] if state == "present" else [])]
    assert result["changed"] is bool(steps) and ("layers" in result) is (state == "present")


@pytest.mark.parametrize(
    ("state", "check_mode", "mounted", "steps", "calls"),
    [
        ("present", False, True, [], ["current", "refuse_unproven", "refuse_full", "refuse_used", "apply"]),
        # Of what a check of a first build did not mount nothing can be proven yet.
        ("present", True, False, [STEP], ["current", "refuse_full", "refuse_used"]),
        ("present", True, True, [STEP], ["current", "refuse_unproven", "refuse_full", "refuse_used"]),
        ("absent", False, True, [STEP], ["current", "refuse_full", "refuse_used", "apply", "forget"]),
        ("absent", False, True, [], ["current", "refuse_full", "refuse_used", "forget"]),
        ("absent", True, True, [STEP], ["current", "refuse_full", "refuse_used"]),
    ],
)
def test_exports_are_proven_before_anything_is_changed(monkeypatch, state, check_mode, mounted, steps, calls):
    area = Area()
    monkeypatch.setattr(nfs_export, "Exports", lambda testbed_id: area)
    monkeypatch.setattr(nfs_export, "resolve", lambda params: [{"name": "a", "path": "/srv/a"}])
    monkeypatch.setattr(nfs_export, "check_server", lambda params: {"threads": 3})
    monkeypatch.setattr(nfs_export, "table", lambda testbed_id, wanted: "table")
    monkeypatch.setattr(nfs_export, "layers_of", lambda wanted, server: ["layer"])
    monkeypatch.setattr(nfs_export, "plan", lambda *_given: steps)
    monkeypatch.setattr(nfs_export.os.path, "ismount", lambda path: mounted)
    area.testbed_id = "unit"
    result = converge(nfs_export.Area, {"testbed_id": "unit", "state": state}, check_mode)
    assert area.calls == calls and result["changed"] is bool(steps)
    assert result.get("layers") == (["layer"] if state == "present" else None)
