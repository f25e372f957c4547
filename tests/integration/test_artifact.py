# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection, installed into an empty folder, works as the checkout does."""

from __future__ import annotations

import os
import subprocess
import tarfile

import pytest


def run(folder, *command, check=True, **environment):
    """Run a command in a folder, without the checkout's ansible.cfg and so without the checkout itself."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=check, env={**clean, **environment}
    )


def ansible(installed, *command):
    return run(
        installed, *command, check=False, ANSIBLE_COLLECTIONS_PATH=str(installed), ANSIBLE_LOCALHOST_WARNING="false"
    )


@pytest.fixture(scope="module")
def artifact(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    run(folder, "ansible-galaxy", "collection", "build", "--output-path", folder, root)
    return next(folder.glob("storlab-testbed-*.tar.gz"))


@pytest.fixture(scope="module")
def installed(artifact, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    run(
        folder,
        "ansible-galaxy",
        "collection",
        "install",
        "--no-deps",
        "--offline",
        "--collections-path",
        folder,
        artifact,
    )
    return folder


@pytest.fixture(scope="module")
def members(artifact):
    with tarfile.open(artifact) as archive:
        return archive.getnames()


def test_artifact_carries_the_product_and_nothing_else(members):
    names = {name.split("/")[0] for name in members}
    assert {
        "plugins",
        "roles",
        "playbooks",
        "inventories",
        "docs",
        "README.md",
        "LICENSE",
        "meta",
        "MANIFEST.json",
    } <= names
    assert not names & {".venv", ".cache", "results", "tests", "molecule", "benchmarks", ".git", ".ci"}


def test_artifact_carries_no_state_of_a_testbed(members):
    assert [name for name in members if "/.state" in name or name.endswith((".pyc", "id_ed25519"))] == []


def test_installed_playbooks_pass_the_syntax_check(installed):
    inventory = installed / "ansible_collections/storlab/testbed/inventories/embedded"
    for name in ("site", "build", "benchmark", "report", "teardown", "rebuild", "verify_clean"):
        answer = ansible(installed, "ansible-playbook", "--syntax-check", "-i", inventory, f"storlab.testbed.{name}")
        assert answer.returncode == 0, answer.stderr


def test_installed_modules_run(installed):
    answer = ansible(installed, "ansible", "localhost", "-m", "storlab.testbed.storage_state")
    assert answer.returncode == 0, answer.stderr
    assert "kernel_modules" in answer.stdout


def test_installed_modules_fail_as_documented(installed):
    answer = ansible(installed, "ansible", "localhost", "-m", "storlab.testbed.layer", "-a", "state=gone")
    assert answer.returncode != 0
    assert "got: gone. Correct the arguments." in answer.stdout
