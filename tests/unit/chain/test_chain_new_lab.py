# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""new_lab writes inventories that show accepts, and refuses answers that make none."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, devices, expand, new_lab
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.description import CONNECTION
from chain_lab import ROLES, SECRETS

PROBE = {
    "system": "Debian GNU/Linux 13",
    "memory_mib": 16000,
    "memory_available_mib": 11000,
    "addresses": ["192.0.2.11", "10.10.0.11"],
    "disks": [
        {"path": "/dev/sda", "size_bytes": 1 << 40, "sector_bytes": 512, "serial": "S1", "used": True},
        {"path": "/dev/sdb", "size_bytes": 2 << 40, "sector_bytes": 512, "serial": "S2", "used": False},
    ],
}
CLIENTS = {
    "local": "",
    "linux": "192.0.2.21,client-b.lab.example",
    "kvm": "192.0.2.21",
    "esxi": "esxi-a.lab.example",
    "windows_esxi": "esxi-a.lab.example",
}


def described_by(files: dict) -> tuple:
    """(testbed, sentences) of the written files, read as Ansible would."""
    page, tree = yaml.safe_load(files["group_vars/all.yml"]), yaml.safe_load(files["hosts.yml"])["all"]["children"]
    hosts, groups = {}, {}
    for group, content in tree.items():
        groups[group] = list(content["hosts"])
        for name, own in content["hosts"].items():
            merged = {**page, **content.get("vars", {}), **(own or {})}
            hosts[name] = {key: merged[key] for key in merged if not key.startswith("ansible_") or key in CONNECTION}
    lab = {
        "groups": groups,
        "hosts": hosts,
        "base_dir": "/labs",
        "secrets": SECRETS,
        "roles": ROLES,
        "profiles": ["first_look"],
    }
    testbed = expand.expand(lab)
    return testbed, [problem.sentence() for problem in check.check(lab, testbed)]


@pytest.mark.parametrize("kind", [kind for kind in new_lab.KINDS if kind != new_lab.EXISTING])
@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("target", ["192.0.2.11", "store.lab.example"])
def test_what_is_written_describes_a_testbed(kind, probed, target):
    name = "store" if target.startswith("store") else "target01"
    probes = {name: PROBE} if probed and kind != "windows_esxi" else {}
    files = new_lab.compose({"kind": kind, "target": target, "clients": CLIENTS[kind], "id": "mine"}, probes)
    testbed, sentences = described_by(files)
    assert sentences == []
    assert devices.lost(testbed) == [], "which the summary says"
    assert testbed.testbed_id == "mine" and testbed.targets == [name]
    kinds = {layer["kind"] for layer in testbed.layers}
    assert kinds == ({"backing", "datastore"} if kind == "local" else {"backing", "target", "initiator", "datastore"})
    sizes = {disk.entry["size"] for disk in testbed.disks}
    # Two fifths of 11000 MiB for two disks: 2200 each, so 2 GiB.
    assert sizes == ({2048} if probes else {4096})


def test_unused_disks_and_other_addresses_are_offered():
    files = new_lab.compose({"kind": "linux", "target": "192.0.2.11", "clients": "192.0.2.21"}, {"target01": PROBE})
    assert "# testbed_address: 10.10.0.11" in files["hosts.yml"]
    page = files["group_vars/all.yml"]
    assert "path: /dev/sdb, serial: S2" in page and "/dev/sda" not in page
    assert "is FORMATTED under a datastore and OVERWRITTEN with purpose: scratch" in page
    nameless = {**PROBE, "disks": [{**disk, "serial": ""} for disk in PROBE["disks"]]}
    files = new_lab.compose({"kind": "linux", "target": "192.0.2.11", "clients": "192.0.2.21"}, {"target01": nameless})
    assert "/dev/sd" not in files["group_vars/all.yml"] and "OVERWRITTEN" not in files["group_vars/all.yml"]


@pytest.mark.parametrize(("profile", "repetitions"), [("", 3), ("first_look", 3), ("oltp", 5)])
def test_a_first_report_takes_minutes_unless_another_profile_is_asked_for(profile, repetitions):
    given = {"kind": "linux", "target": "192.0.2.11", "clients": "192.0.2.21", "profile": profile}
    page = new_lab.compose(given, {})["group_vars/all.yml"]
    written = yaml.safe_load(page)
    assert (written["benchmark_profile"], written["benchmark_repetitions"]) == (profile or "first_look", repetitions)
    assert ("none to publish" in page) == (profile != "oltp")


def test_fingerprints_are_written_to_be_compared():
    given = {
        "kind": "esxi",
        "target": "192.0.2.11",
        "clients": "esxi-a.lab.example",
        "thumbprints": {"esxi-a.lab.example": "AA:BB"},
    }
    assert 'thumbprint: "AA:BB"  # compare it' in new_lab.compose(given, {})["hosts.yml"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"kind": "linus"}, "new_lab_kind is 'linus'. Use one of existing, local, linux, kvm, esxi, windows_esxi."),
        ({"target": ""}, "new_lab_target is ''. Give the name or address of the storage server."),
        (
            {"clients": ""},
            "new_lab_clients is ''. Give the names or addresses of the hosts that log in, with commas between them.",
        ),
        ({"clients": "a b"}, "new_lab_clients is 'a b'. Give a host name or an IP address."),
        ({"size": "4G"}, "new_lab_size is '4G'. Write a size with its unit, such as 4GiB, or auto."),
        (
            {"kind": "local"},
            "new_lab_clients is '192.0.2.21'. A lab of kind local has no other host: leave it out, or use kind linux.",
        ),
        ({"clients": "a.x,a.y"}, "new_lab_clients is 'a.y'. There is a host a already; give each its full name once."),
    ],
)
def test_answers_that_make_no_lab(answers, message):
    with pytest.raises(Failure) as failure:
        new_lab.compose({"kind": "linux", "target": "192.0.2.11", "clients": "192.0.2.21", **answers}, {})
    assert str(failure.value) == message


def test_target_without_memory():
    with pytest.raises(Failure, match="The target has 90 MiB free, too little for 2 RAM disks"):
        new_lab.compose({"kind": "local", "target": "t"}, {"t": {**PROBE, "memory_available_mib": 90}})


TWO = {"kind": "linux", "target": "192.0.2.11", "clients": "192.0.2.21", "size": "64MiB", "path": "mine"}
NEXT = ["  ansible-playbook -i mine storlab.testbed.doctor", "  ansible-playbook -i mine storlab.testbed.site"]


def test_who_refused_the_user_and_who_did_not_answer_is_told():
    refused = "Task failed: Failed to connect to the host via ssh: root@192.0.2.11: Permission denied (publickey)."
    away = (
        "Task failed: Failed to connect to the host via ssh: ssh: connect to host 192.0.2.21 port 22: No route to host"
    )
    assert new_lab.summary(TWO, "/labs/mine", {}, {"target01": refused, "client01": away}) == [
        "/labs/mine describes a lab of kind linux. Its disks are RAM disks: no device is OVERWRITTEN or FORMATTED.",
        "target01 (192.0.2.11) refused root: give new_lab_user. (Failed to connect to the host via ssh: root@192.0.2.11: Permission denied (publickey))",
        "client01 (192.0.2.21) was not reached. (Failed to connect to the host via ssh: ssh: connect to host 192.0.2.21 port 22: No route to host)",
        "The lab was written without a look at target01 and client01. To have one, remove /labs/mine and run new_lab again.",
        "Or correct its values, then",
        *NEXT,
    ]
    assert new_lab.summary(TWO, "/labs/mine", {"target01": PROBE, "client01": PROBE}, {}) == [
        "/labs/mine describes a lab of kind linux. Its disks are RAM disks: no device is OVERWRITTEN or FORMATTED.",
        "Reached: target01, client01.",
        "Nothing is left to fill in. Next:",
        *NEXT,
    ]
    marked = new_lab.summary({**TWO, "kind": "esxi", "clients": "esxi-a.lab.example"}, "/labs/mine", {}, {})
    assert marked[1:3] == ["No host was reached yet.", "Fill in the marked values (2), then"]


@pytest.mark.parametrize(("user", "become"), [("root", None), ("admin", True)])
def test_who_is_not_root_becomes_root(user, become):
    hosts = yaml.safe_load(new_lab.compose({**TWO, "user": user}, {})["hosts.yml"])["all"]["children"]
    for own in (hosts["targets"]["hosts"]["target01"], hosts["clients"]["hosts"]["client01"]):
        assert (own["ansible_user"], own.get("ansible_become")) == (user, become)


def test_the_playbook_names_the_host_that_refused_root(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\necho "root@192.0.2.11: Permission denied (publickey,password)." >&2\nexit 255\n', encoding="utf-8"
    )
    ssh.chmod(0o700)
    options = [
        "-e",
        json.dumps({f"new_lab_{name}": value for name, value in {**TWO, "path": str(tmp_path / "mine")}.items()}),
    ]
    rc, document, error = show_testbed.run(
        "localhost,", *options, playbook="new_lab.yml", cwd=tmp_path, environment={"ANSIBLE_SSH_EXECUTABLE": str(ssh)}
    )
    assert rc == 0, error
    (last,) = document["plays"][-1]["tasks"][-1]["hosts"].values()
    assert "target01 (192.0.2.11) refused root: give new_lab_user." in last["msg"]
    assert "Nothing is left to fill in" not in last["msg"]


ANSWERS = {"new_lab_kind": "local", "new_lab_target": "localhost", "new_lab_clients": "", "new_lab_size": "64MiB"}


def test_the_playbook_writes_it_without_questions(tmp_path):
    folder = tmp_path / "mine"
    options = ["-e", json.dumps({"new_lab_path": str(folder), **ANSWERS})]
    rc, document, said = show_testbed.run("localhost,", "--check", *options, playbook="new_lab.yml", cwd=tmp_path)
    assert rc == 0 and not folder.exists(), said
    rc, document, said = show_testbed.run("localhost,", *options, playbook="new_lab.yml", cwd=tmp_path)
    assert rc == 0, document["plays"][-1]["tasks"][-1]
    assert [layer["name"] for layer in show_testbed.expansion(folder)["layers"]] == [
        "backing-bench",
        "backing-ds1",
        "datastore-ds1",
    ]
    text = (folder / "group_vars" / "all.yml").read_text(encoding="utf-8")
    assert "MiB free." in text, "localhost was looked at"
    rc, document, _said = show_testbed.run("localhost,", *options, playbook="new_lab.yml", cwd=tmp_path)
    assert rc == 2 and "is there already" in json.dumps(document)
    assert (folder / "group_vars" / "all.yml").read_text(encoding="utf-8") == text


def test_the_playbook_asks(tmp_path):
    """On a terminal: every question is answered as a user would."""
    leader, follower = pty.openpty()
    command = ["ansible-playbook", "-i", "localhost,", str(show_testbed.ROOT / "playbooks" / "new_lab.yml")]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(show_testbed.ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(show_testbed.ROOT / ".cache/collections"),
    }
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**environment, "PWD": str(tmp_path)},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        close_fds=True,
    ) as process:
        os.close(follower)
        text = ""
        replies = [
            ("What do you have?", "local"),
            ("Folder", "asked"),
            ("storage server", "localhost"),
            ("that log in", ""),
            ("Size of each", "64MiB"),
        ]
        while True:
            try:
                chunk = os.read(leader, 4096).decode(errors="replace")
            except OSError:
                break
            if not chunk:
                break
            text += chunk
            # The end of a question may have signs of the terminal behind it.
            if replies and "]:" in text.partition(replies[0][0])[2]:
                os.write(leader, f"{replies.pop(0)[1]}\n".encode())
                text = ""
        assert process.wait() == 0
    os.close(leader)
    assert (tmp_path / "asked" / "hosts.yml").is_file() and sys.executable
