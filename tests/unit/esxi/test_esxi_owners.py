# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a virtual machine is, by its stamp alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import machine_state


def machine(**options) -> SimpleNamespace:
    known = [SimpleNamespace(key=key.replace("_", "."), value=value) for key, value in options.items()]
    return SimpleNamespace(config=SimpleNamespace(extraConfig=known))


@pytest.mark.parametrize(
    ("vm", "ours"),
    [
        (machine(storlab_testbed="lab", guestinfo_name="x"), True),
        (machine(storlab_testbed="lab-2"), False),
        (machine(storlab_other="lab"), False),
        (machine(), False),
        (SimpleNamespace(config=None), False),
    ],
)
def test_a_machine_is_ours_by_its_stamp(vm, ours):
    assert machine_state.stamped(vm, "lab") is ours
