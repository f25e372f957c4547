# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sockets that give access to managed hosts lie in folders of one user alone."""

import configparser
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve()
ROOT = next(folder for folder in ROOT.parents if (folder / "galaxy.yml").exists())
WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")


def shared_with_all(folder):
    """Whether every user of the machine may make files in that folder, or in one above it."""
    return any(folder == place or folder.startswith(f"{place}/") for place in WORLD_WRITABLE)


def test_ssh_control_sockets_lie_in_a_private_folder():
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "ansible.cfg")
    assert not shared_with_all(config["ssh_connection"].get("control_path_dir", "~/.ansible/cp"))
    assert "ControlPath=" not in config["ssh_connection"]["ssh_args"]


def test_inventories_name_no_shared_folder_for_sockets():
    named = {
        (path.relative_to(ROOT).as_posix(), value)
        for path in (ROOT / "inventories").rglob("*.yml")
        for value in re.findall(r"control_(?:path_)?dir: *[\"']?([^\"'\n]+)", path.read_text(encoding="utf-8"))
    }
    assert named, "the embedded inventory names where its sockets lie"
    assert {entry for entry in named if shared_with_all(entry[1])} == set()


def test_a_shared_folder_would_be_seen():
    assert shared_with_all("/tmp/.storlab-cp")
    assert not shared_with_all("/run/storlab/x/cp")
