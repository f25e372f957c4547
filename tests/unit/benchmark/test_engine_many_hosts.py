# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many hosts: fio's client and servers with real processes, sockets and loop devices, all on this machine.

Who can reach a server, what is left when it ends or is disturbed, and what one result says of several hosts.
"""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_distributed
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server


def test_listening_sockets_are_found_by_their_address(tmp_path):
    """10.213.0.12:8765 is 0C00D50A:223D on a little-endian machine, as the kernel prints it."""
    net = tmp_path / "proc" / "net"
    net.mkdir(parents=True)
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    (net / "tcp").write_text(
        head + "   0: 0C00D50A:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
        "   1: 0D00D50A:223D 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    )
    assert fio_server.is_listening("10.213.0.12", 8765, str(tmp_path))
    assert not fio_server.is_listening("10.213.0.13", 8765, str(tmp_path))
    assert not fio_server.is_listening("10.213.0.12", 8766, str(tmp_path))


@pytest.mark.parametrize(
    ("change", "word"),
    [({"version": None}, "version"), ({"address": "a b"}, "a b"), ({"address": "192.0.2.1", "port": 8765}, "once")],
)
def test_incomplete_or_repeated_servers_are_refused(change, word):
    server = {"host": "a", "address": "192.0.2.1", "port": 8765, "version": "fio-3.33", "layer": "x"}
    with pytest.raises(Failure, match=word):
        fio_distributed.check_servers([server, {**server, "address": "192.0.2.2", **change}])
