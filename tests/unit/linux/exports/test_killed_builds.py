# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets whose build was killed after each of its changes: the next teardown leaves nothing, and the next build makes what is wanted."""

from __future__ import annotations

import pytest
import test_lio_life as of_lio
import test_tgt_life as of_tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio, tgt
from killed import is_killed

NEXT_RUNS = ["absent", "present"]


class Tgtd(of_tgt.Tgtd):
    """As a kernel with RDMA: what tgtd looks for there has modules of its own."""

    def missing_modules(self, name: str) -> set:
        return {"ib_core"} - self.modules if name == "rdma_ucm" else super().missing_modules(name)


@pytest.mark.parametrize("next_run", NEXT_RUNS)
def test_a_target_of_the_kernel(tmp_path, next_run):
    """Somebody else has a target and a backstore there, which stay."""
    number, killed = 0, True
    while killed:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            kernel = of_lio.Kernel(standin, tmp_path / str(number))
            kernel.command(["modprobe", "configfs"])
            kernel.mounted = True
            for module in ("configfs", "target_core_mod"):
                kernel.load_module(module, intend=lambda names: None)
            for path in ("core/iblock_0", "core/iblock_0/theirs", "iscsi", "iscsi/iqn.2026-11.test:x"):
                kernel.mkdir(f"{of_lio.CONFIG}/{path}")
            before = set(kernel.made), set(kernel.modules)
            with pytest.MonkeyPatch.context() as patch:
                killed = is_killed(lambda: of_lio.call(of_lio.target()), patch, number, (lio, record))
            if next_run == "present":
                of_lio.call(of_lio.target())
                assert of_lio.call(of_lio.target())["changed"] is False, number
                assert kernel.read_text(f"{of_lio.TPG}/enable") == "1", number
            of_lio.call(state="absent")
            assert (set(kernel.made), set(kernel.modules)) == before, number
            assert kernel.mounted and not kernel.has("/run/storlab"), number
    assert number > 40


@pytest.mark.parametrize("next_run", NEXT_RUNS)
def test_a_target_of_the_kernel_that_has_none(tmp_path, next_run):
    """The file system of the kernel's configuration is mounted by the build, and goes with its modules."""
    number, killed = 0, True
    while killed:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            kernel = of_lio.Kernel(standin, tmp_path / str(number))
            with pytest.MonkeyPatch.context() as patch:
                killed = is_killed(lambda: of_lio.call(of_lio.target()), patch, number, (lio, record))
            if next_run == "present":
                of_lio.call(of_lio.target())
                assert of_lio.call(of_lio.target())["changed"] is False, number
            of_lio.call(state="absent")
            assert (kernel.made, kernel.modules, kernel.mounted) == (set(), {"ext4"}, False), number
            assert not kernel.has("/run/storlab"), number
    assert number > 40


@pytest.mark.parametrize("next_run", NEXT_RUNS)
def test_a_target_of_tgt(tmp_path, next_run):
    number, killed = 0, True
    while killed:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            tgtd = Tgtd(standin, tmp_path / str(number))
            with pytest.MonkeyPatch.context() as patch:
                killed = is_killed(lambda: of_tgt.call(of_tgt.target()), patch, number, (tgt, record))
            if next_run == "present":
                of_tgt.call(of_tgt.target())
                assert of_tgt.call(of_tgt.target())["changed"] is False, number
                assert tgtd.targets[of_tgt.IQN]["acl"] == [of_tgt.CLIENT], number
            of_tgt.call(state="absent")
            assert (tgtd.process, tgtd.targets, tgtd.modules) == (None, {}, {"ext4"}), number
            assert not tgtd.has("/run/storlab") and not tgtd.has("/var/run/tgtd"), number
            assert of_tgt.call(state="absent")["changed"] is False, number
    assert number > 15
