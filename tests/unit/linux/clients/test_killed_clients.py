# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logins and datastores whose build was killed after each of its changes: the next teardown leaves nothing, and the next build makes what is wanted."""

from __future__ import annotations

from functools import partial

import pytest
import test_datastore_life as of_datastores
import test_open_iscsi_life as of_sessions
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore, open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import multipath
from killed import is_killed

NEXT_RUNS = ["absent", "present"]


@pytest.mark.parametrize("systemd", [False, True], ids=["process", "systemd"])
@pytest.mark.parametrize("next_run", NEXT_RUNS)
def test_a_login(tmp_path, next_run, systemd):
    number, killed = 0, True
    while killed:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            host = of_sessions.Host(standin, tmp_path / str(number))
            if systemd:
                host.folder("/run/systemd/system")
            with pytest.MonkeyPatch.context() as patch:
                killed = is_killed(of_sessions.built, patch, number, (open_iscsi, record, multipath))
            if next_run == "present":
                mine = of_sessions.built()
                assert mine.disks(of_sessions.TARGET)[4]["path"] == "/dev/sdc", number
                values = open_iscsi.parse_record(host.read_text(of_sessions.NODE))
                assert values["node.startup"] == "manual" and mine.iface_name() == of_sessions.NAME, number
            of_sessions.ours().remove_all()
            mine = of_sessions.ours()
            assert (mine.sessions(), mine.records(), mine.iface_name()) == ([], [], None), number
            assert host.modules == {"ext4"} and not mine.daemon_runs() and not host.has("/run/storlab"), number
            assert not host.has("/var/lib/iscsi") and host.has("/etc/iscsi/ifaces/theirs"), number
    assert number > 9


@pytest.mark.parametrize("kind", ["ext4", "xfs", "nfs"])
@pytest.mark.parametrize("next_run", NEXT_RUNS)
def test_a_datastore(tmp_path, next_run, kind):
    number, killed = 0, True
    while killed:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            host = of_datastores.Host(standin, tmp_path / str(number))
            wanted = of_datastores.nfs() if kind == "nfs" else of_datastores.entry(filesystem=kind)
            with pytest.MonkeyPatch.context() as patch:
                killed = is_killed(partial(of_datastores.call, wanted), patch, number, (datastore, record))
            if next_run == "present":
                of_datastores.call(wanted)
                again = of_datastores.call(wanted)
                assert again["changed"] is False and len(host.table) == 1, number
            of_datastores.call(state="absent", discard_contents=False)
            assert (host.table, host.modules) == ([], {"ext4"}), number
            assert host.blocks == {"/dev/sdx": of_datastores.BLANK}, number
            assert not host.has("/run/srv") and not host.has("/run/storlab"), number
    assert number > (4 if kind == "nfs" else 6)
