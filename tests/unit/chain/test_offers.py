# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""new_lab of kind existing writes what hosts have, only read, and nothing where they have nothing."""

from __future__ import annotations

import json

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, expand, new_lab, offers
from chain_lab import ROLES, SECRETS


def offer(name: str, entry: dict, shared: bool = False, what: str = "something") -> dict:
    return {"name": name, "entry": entry, "shared": shared, "what": what}


NFS = {"kind": "nfs", "server": "192.0.2.10", "export": "/vol/vms", "nfs_version": "3"}
LUN = {"kind": "device", "naa": "600140500000000000000000000000a1"}
PROBES = {
    "client01": {"existing": [offer("vms", NFS, True), offer("data", {"kind": "path", "path": "/data"})]},
    "client02": {
        "existing": [
            offer("vms", NFS, True),
            offer("data", {"kind": "path", "path": "/data"}),
            offer("LUN 2", LUN, True),
        ]
    },
}
GIVEN = {"kind": "existing", "clients": "192.0.2.21,192.0.2.22", "id": "mine"}


def described_by(files: dict) -> tuple:
    page, tree = yaml.safe_load(files["group_vars/all.yml"]), yaml.safe_load(files["hosts.yml"])["all"]["children"]
    groups = {group: list(content["hosts"]) for group, content in tree.items()}
    lab = {
        "groups": groups,
        "hosts": {name: dict(page) for names in groups.values() for name in names},
        "base_dir": "/labs",
        "secrets": SECRETS,
        "roles": ROLES,
        "profiles": ["existing_read"],
    }
    testbed = expand.expand(lab)
    return testbed, [problem.sentence() for problem in check.check(lab, testbed)], page


def test_what_hosts_have_is_written_only_read():
    """The export is one for both hosts; folders of one name on two hosts are two."""
    testbed, sentences, page = described_by(new_lab.compose(GIVEN, PROBES))
    assert sentences == []
    assert page["testbed"]["existing"] == [
        {"name": "vms", **NFS},
        {"name": "data", "kind": "path", "path": "/data", "hosts": ["client01"]},
        {"name": "data-2", "kind": "path", "path": "/data", "hosts": ["client02"]},
        {"name": "LUN-2", **LUN, "hosts": ["client02"]},
    ]
    assert (page["benchmark_profile"], testbed.targets) == ("existing_read", [])
    assert {layer["purpose"] for layer in testbed.layers} == {"read"} and len(testbed.layers) == 5


def test_what_is_not_wanted_is_a_remark():
    files = new_lab.compose({**GIVEN, "storage": "LUN-2, vms"}, PROBES)
    _testbed, sentences, page = described_by(files)
    assert [entry["name"] for entry in page["testbed"]["existing"]] == ["vms", "LUN-2"] and sentences == []
    assert (
        "    # - {name: data, kind: path, path: /data, hosts: [client01]}  # something\n" in files["group_vars/all.yml"]
    )
    lines = new_lab.summary({**GIVEN, "storage": ["vms"], "path": "m"}, "/labs/m", PROBES, {})
    assert lines[0] == "/labs/m describes storage that is there: vms. It is only read."
    assert lines[1:3] == ["Reached: client01, client02.", "Nothing is left to fill in. Next:"]


def test_disks_and_folders_of_guests_are_a_kind_of_their_own():
    given = {**GIVEN, "group": "guests"}
    testbed, sentences, page = described_by(
        new_lab.compose(given, {f"guest0{n}": PROBES[f"client0{n}"] for n in (1, 2)})
    )
    assert sentences == [] and {layer["kind"] for layer in testbed.layers} == {"guest"} and len(testbed.layers) == 5
    assert [entry["kind"] for entry in page["testbed"]["existing"]] == ["nfs", "guest", "guest", "guest"]
    assert {name: hosts for name, hosts in testbed.groups.items() if hosts} == {"guests": ["guest01", "guest02"]}


HOSTILE = [
    offer("x", {"kind": "path", "path": "/{{ lookup('pipe', 'id') }}"}),
    offer("x", {"kind": "path", "path": "/a\nb"}),
    offer("x", {"kind": "path", "path": "/a", "access": "write"}),
    offer("x", {"kind": "path", "path": 7}),
    offer("x", {"kind": "floppy"}),
    {"name": "x", "entry": "y"},
    "z",
]


@pytest.mark.parametrize("probes", [{}, {"client01": {}}, {"client01": {"existing": HOSTILE}}])
def test_where_nothing_was_seen_nothing_is_written(probes):
    """Nor where a host's words are templates, or allow writing."""
    reasons = {} if probes else {"client01": "Task failed: No route to host"}
    with pytest.raises(Failure) as failure:
        new_lab.compose({**GIVEN, "clients": "192.0.2.21", "reasons": reasons}, probes)
    why = (
        "was not reached (No route to host)"
        if reasons
        else "shows no export, share, folder, LUN or disk that could be read"
    )
    assert failure.value.code == "nothing_offered"
    assert str(failure.value).startswith(f"No storage to measure was seen: client01 {why}. Nothing was written.")


def test_remarks_and_odd_values_stay_what_they_are():
    odd = {"kind": "nfs", "server": "on", "export": "/a #b", "nfs_version": "4.2"}
    files = new_lab.compose({**GIVEN, "clients": "h"}, {"h": {"existing": [offer("..{{", odd, what="a\nb: c")]}})
    _testbed, _sentences, page = described_by(files)
    assert page["testbed"]["existing"] == [{"name": "storage", **odd}]
    assert files["group_vars/all.yml"].count("# a?b: c\n") == 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"group": "targets"}, "new_lab_group is 'targets'. Leave it out; with kind existing it may be guests."),
        ({"storage": "vms,tank"}, "new_lab_storage is 'tank'. Use all, or names of vms, data, data-2, LUN-2."),
        (
            {"kind": "linux", "target": "t", "storage": "vms"},
            "new_lab_storage is 'vms'. Leave it out, or use kind existing.",
        ),
        (
            {"clients": ""},
            "new_lab_clients is ''. Give the names or addresses of the hosts that see the storage, with commas between them.",
        ),
        (
            {"target": "192.0.2.10"},
            "new_lab_target is '192.0.2.10'. Storage that is there needs no storage server of the lab: leave it out, "
            "and give the hosts that see it as new_lab_clients.",
        ),
    ],
)
def test_answers_that_are_refused(answers, message):
    with pytest.raises(Failure) as failure:
        new_lab.compose({**GIVEN, **answers}, PROBES)
    assert str(failure.value) == message


def test_all_is_what_is_taken_by_default():
    taken = new_lab.compose({**GIVEN, "storage": offers.ALL}, PROBES)
    assert taken == new_lab.compose(GIVEN, PROBES)


@pytest.mark.ansible
def test_the_playbook_looks_at_this_host_and_writes_nothing_for_a_name_that_it_does_not_show(tmp_path):
    """Whatever this machine has, it has nothing of that name."""
    folder = tmp_path / "mine"
    given = {
        "path": str(folder),
        "kind": "existing",
        "target": "",
        "clients": "localhost",
        "size": "auto",
        "storage": "no-such",
    }
    options = ["-e", json.dumps({f"new_lab_{name}": value for name, value in given.items()})]
    rc, document, _error = show_testbed.run("localhost,", *options, playbook="new_lab.yml", cwd=tmp_path)
    text = json.dumps(document)
    assert rc == 2 and (
        "No storage to measure was seen: client01 shows" in text or "new_lab_storage is 'no-such'" in text
    )
    assert not folder.exists(), "nothing was written"


def test_datastores_of_esxi_hosts_keep_their_names_and_are_one_for_all_hosts():
    store = {"entry": {"kind": "esxi_datastore"}, "what": "datastore with 1.0 GiB free", "shared": True}
    shown = {"existing": [{**store, "name": "RAID 10"}, {**store, "name": "datastore1"}]}
    hostile = {"existing": [{**store, "name": "a{{ 7 * 7 }}"}, {**store, "name": "a\nb: c"}, {**store, "name": "/x"}]}
    given = {**GIVEN, "clients": "192.0.2.31,192.0.2.32", "platform": "esxi"}
    files = new_lab.compose(
        given, {"esxi01": shown, "esxi02": {"existing": [*shown["existing"][:1], *hostile["existing"]]}}
    )
    page = yaml.safe_load(files["group_vars/all.yml"])
    assert page["testbed"]["existing"] == [
        {"name": "RAID 10", "kind": "esxi_datastore"},
        {"name": "datastore1", "kind": "esxi_datastore", "hosts": ["esxi01"]},
    ]
    assert "49" not in files["group_vars/all.yml"] and "hypervisors:" in files["hosts.yml"]


def test_windows_hosts_need_no_port_and_no_hole_in_the_firewall():
    offered = {"name": "data", "entry": {"kind": "volume", "path": "E:"}, "what": "NTFS of 1.0 GiB", "shared": False}
    given = {**GIVEN, "clients": "192.0.2.31", "platform": "windows"}
    files = new_lab.compose(given, {"client01": {"existing": [offered]}})
    own = yaml.safe_load(files["hosts.yml"])["all"]["children"]["clients"]["hosts"]["client01"]
    assert own["testbed_windows"] is True and own["ansible_connection"] == "psrp"
    assert not {"iscsi_target_windows_networks", "testbed_address"} & set(own)


@pytest.mark.parametrize(
    "changes",
    [
        {"platform": "beos"},
        {"platform": "esxi", "group": "guests"},
        {"platform": "esxi", "kind": "linux", "target": "a"},
    ],
)
def test_a_platform_that_does_not_fit_is_refused(changes):
    with pytest.raises(Failure) as refused:
        new_lab.answers({**GIVEN, **changes})
    assert refused.value.code == "bad_value" and "new_lab_" in refused.value.what
