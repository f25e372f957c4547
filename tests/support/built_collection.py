# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The artefact that users get, built and installed for tests, and commands that see it and nothing of the checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(folder, *command, check=True, **environment):
    """Run a command in a folder, without the checkout's ansible.cfg and so without the checkout itself."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=check, env={**clean, **environment}
    )


def build(root: Path, folder: Path) -> Path:
    """The artefact, built from the checkout into a folder."""
    run(folder, "ansible-galaxy", "collection", "build", "--output-path", folder, root)
    return next(folder.glob("storlab-testbed-*.tar.gz"))


def install(artifact: Path, folder: Path) -> Path:
    """The folder of collections that has the artefact and nothing else."""
    options = ["--no-deps", "--offline", "--collections-path", folder]
    run(folder, "ansible-galaxy", "collection", "install", *options, artifact)
    return folder
