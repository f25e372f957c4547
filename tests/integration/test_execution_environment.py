# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-builder takes what docs/habits.md shows and what meta/ says of the collection."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml
from places import ROOT


def builder(folder, *words):
    return subprocess.run(["ansible-builder", *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def shown():
    """The file that the page shows."""
    page = (ROOT / "docs" / "habits.md").read_text(encoding="utf-8")
    return re.search(r"^## An execution environment\n.*?^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]


def test_the_file_of_the_page_becomes_a_build_context(tmp_path, shown):
    (tmp_path / "execution-environment.yml").write_text(shown)
    done = builder(tmp_path, "create", "--output-filename", "Containerfile")
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load((tmp_path / "context/_build/requirements.yml").read_text()) == {
        "collections": [{"name": "storlab.testbed"}]
    }
    steps = (tmp_path / "context/Containerfile").read_text()
    image = yaml.safe_load(shown)["images"]["base_image"]["name"]
    assert f'ARG EE_BASE_IMAGE="{image}"' in steps
    assert "ansible-core>=2.19,<2.22" in steps


def test_a_word_that_it_does_not_know_is_refused(tmp_path, shown):
    """Else the test above could not fail."""
    (tmp_path / "execution-environment.yml").write_text(
        shown.replace("package_pip: ansible-runner", "package_pypi: ansible-runner")
    )
    done = builder(tmp_path, "create")
    assert done.returncode != 0
    assert "package_pypi" in done.stdout + done.stderr


def test_what_the_collection_needs_is_taken_from_it(tmp_path):
    folder = tmp_path / "ansible_collections" / "storlab"
    folder.mkdir(parents=True)
    (folder / "testbed").symlink_to(ROOT)
    done = builder(tmp_path, "introspect", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    needed = yaml.safe_load(done.stdout)
    python = {re.split(r"[>=<]", line)[0] for line in needed["python"]}
    system = {tuple(line.split("  #")[0].split()) for line in needed["system"]}
    assert python == {"pyvmomi", "pypsrp", "pycdlib"}
    assert system == {("openssh-clients", "[platform:rpm]"), ("openssh-client", "[platform:dpkg]")}
