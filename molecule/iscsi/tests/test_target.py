# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the target's kernel and tgtd say, after the drift and the refusals of side_effect.yml."""

from __future__ import annotations

import pytest

testinfra_hosts = ["ssh://target01"]
ISCSI = "/sys/kernel/config/target/iscsi"
PREFIX = "iqn.2026-11.test.storlab.molecule"
INITIATOR = "iqn.2026-11.test.storlab:mlio:hypervisor01"


def text(host, path: str) -> str:
    return host.file(f"{ISCSI}/{path}").content_string.strip()


def test_targets_are_ours_and_the_strangers(host):
    found = {name for name in host.file(ISCSI).listdir() if name.startswith("iqn.")}
    assert found == {f"{PREFIX}:lio-a", f"{PREFIX}:lio-b", "iqn.2026-11.test.stranger:his"}


@pytest.mark.parametrize(("target", "portal"), [("lio-a", "10.213.0.11:3260"), ("lio-b", "10.213.0.11:3262")])
def test_portals_are_the_named_addresses(host, target, portal):
    assert host.file(f"{ISCSI}/{PREFIX}:{target}/tpgt_1/np").listdir() == [portal]


def test_nothing_listens_on_every_address(host):
    listening = host.check_output("ss -Hltn")
    for port in (3260, 3261, 3262):
        assert f"10.213.0.11:{port}" in listening
        assert f"0.0.0.0:{port}" not in listening and f"*:{port}" not in listening and f"[::]:{port}" not in listening


def test_drift_was_repaired(host):
    assert text(host, f"{PREFIX}:lio-a/tpgt_1/acls/{INITIATOR}/auth/password") == "secret-lio-in-1"
    assert text(host, f"{PREFIX}:lio-a/tpgt_1/attrib/generate_node_acls") == "0"


def test_chap_is_demanded_and_mutual_where_asked_for(host):
    for target in ("lio-a", "lio-b"):
        assert text(host, f"{PREFIX}:{target}/tpgt_1/attrib/authentication") == "1"
    assert text(host, f"{PREFIX}:lio-a/tpgt_1/acls/{INITIATOR}/auth/userid_mutual") == "server-lio"
    assert text(host, f"{PREFIX}:lio-b/tpgt_1/acls/{INITIATOR}/auth/authenticate_target") == "0"


def test_initiators_see_their_luns_only(host):
    def luns(target, initiator):
        return {
            name
            for name in host.file(f"{ISCSI}/{PREFIX}:{target}/tpgt_1/acls/{initiator}").listdir()
            if name.startswith("lun_")
        }

    assert luns("lio-a", INITIATOR) == {"lun_0", "lun_3"}
    assert luns("lio-a", f"{PREFIX}:narrow") == {"lun_0"}
    assert luns("lio-b", INITIATOR) == {"lun_1"}


def test_serials_differ(host):
    shown = [
        host.file(path).content_string
        for path in host.check_output("ls -d /sys/kernel/config/target/core/iblock_0/*/wwn/vpd_unit_serial").split()
    ]
    assert len(shown) == 3 and len(set(shown)) == 3


def test_tgt_exports_one_disk_with_an_identity_of_its_own(host):
    shown = host.check_output("tgtadm -C 3260 --lld iscsi --mode target --op show")
    assert shown.count("Target ") == 1 and f"{PREFIX}:tgt" in shown
    assert "user-tgt" in shown and "secret-tgt-in-5" not in shown
    assert "SCSI ID: IET     00010001" not in shown
    # Past the page cache, in the blocks of the zram disk below.
    assert "Backing store flags: direct" in shown and "Block size: 4096" in shown.partition("LUN: 1")[2]


def test_secrets_are_in_no_command_line(host):
    # The pattern's brackets keep this very command from being found.
    assert (
        host.run("grep -la 'secret-[lnt]' /proc/[0-9]*/cmdline").stdout.replace("/proc/self/cmdline", "").strip() == ""
    )
