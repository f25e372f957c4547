# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets are made once, whoever asks for them at the same time, and those of a login are not read."""

from __future__ import annotations

import resource
import threading

import pytest
from ansible.errors import AnsibleError
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory


def test_playbooks_that_begin_at_once_have_the_same_secrets(tmp_path):
    barrier, answers = threading.Barrier(12), []

    def ask() -> None:
        barrier.wait()
        answers.append(inventory.keep_secrets(str(tmp_path), inventory.drawn_secrets()))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12 and all(one == answers[0] for one in answers)
    assert inventory.kept_secrets(str(tmp_path)) == answers[0]
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {
        "chap": 0o600,
        "mutual_chap": 0o600,
        "nbd": 0o600,
    }


def test_one_that_somebody_else_has_just_written_counts(tmp_path, monkeypatch):
    folder = tmp_path / "secrets"
    link = inventory.os.link

    def late(made, path):
        path.write_text(f"of-somebody-{path.name}\n", encoding="utf-8")
        link(made, path)

    monkeypatch.setattr(inventory.os, "link", late)
    assert inventory.keep_secrets(str(tmp_path), inventory.drawn_secrets()) == {
        "chap": "of-somebody-chap",
        "mutual_chap": "of-somebody-mutual_chap",
        "nbd": "of-somebody-nbd",
    }
    assert {path.name for path in folder.iterdir()} == {"chap", "mutual_chap", "nbd"}


def test_a_full_disk_is_named_and_leaves_no_half_of_a_secret(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(OSError, match="secrets") as caught:
            inventory.keep_secrets(str(tmp_path), inventory.drawn_secrets())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (
        str(caught.value.filename).startswith(f"{tmp_path}/secrets/") and list((tmp_path / "secrets").iterdir()) == []
    )


def test_a_file_whose_writer_was_killed_is_written_anew(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/chap").touch()
    made = inventory.keep_secrets(str(tmp_path), inventory.drawn_secrets())["chap"]
    assert len(made) == 16 and (tmp_path / "secrets/chap").read_text(encoding="utf-8") == f"{made}\n"


class Unreadable(dict):
    """Variables of a host whose login needs a vault that is not open."""

    def __getitem__(self, name):
        raise AnsibleError("no vault secrets were found that could decrypt")


@pytest.mark.parametrize(
    "login, seen",
    [
        ({"hostname": "192.0.2.9", "password": "hidden-2301"}, {"is": "set", "host": "192.0.2.9"}),
        ({"hostname": "vc.lab", "esxi_host": "esx1.lab"}, {"is": "set", "host": "esx1.lab"}),
        ({}, {"is": "set"}),
        ("a text", {"is": "set"}),
    ],
)
def test_of_a_login_only_the_hosts_name_is_read(login, seen):
    assert inventory._login({"testbed_esxi": login}, "testbed_esxi") == seen
    assert inventory._login(Unreadable(), "testbed_esxi") == {"is": "set"}
