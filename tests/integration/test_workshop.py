# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipes of the Makefile, by a user with sudo: a `sudo` that writes down what it is asked and does it, and an `id` of somebody who is not root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from places import ROOT

SUDO = """#!/bin/sh
echo "sudo $*" >> "$SAID"
while case "$1" in --*) true ;; *) false ;; esac; do shift; done
[ "$1" = chown ] || exec "$@"
"""
USER = """#!/bin/sh
case "$1" in -u) echo 4711 ;; -g) echo 4712 ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder as a clone is, with a blank in its name; ``run(command)`` runs there and returns (exit code, what was said, what sudo was asked)."""
    folder, tools = tmp_path / "my clone", tmp_path / "tools"
    (folder / ".config").mkdir(parents=True)
    tools.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / "make", folder / "make")
    shutil.copy(ROOT / ".config" / "as_root.sh", folder / ".config")
    for name, text in (("sudo", SUDO), ("id", USER)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)

    # Whoever runs these tests by make asks it for things of his own, such as jobs at once.
    ours = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}

    def run(*command, **environment):
        said = tmp_path / "said"
        said.write_text("")
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**ours, "PATH": f"{tools}:{os.environ['PATH']}", "SAID": str(said), **environment},
        )
        return done.returncode, done.stdout + done.stderr, said.read_text().splitlines()

    run.folder = folder
    return run


def test_a_command_runs_by_sudo_and_what_it_made_goes_back_to_the_user(checkout):
    (checkout.folder / "results").mkdir()
    code, said, asked = checkout(
        ".config/as_root.sh",
        "sh",
        "-c",
        "echo $ANSIBLE_CONFIG; mkdir .cache; exit 7",
        https_proxy="http://proxy.example",
    )
    assert code == 7 and said == f"{checkout.folder}/ansible.cfg\n"
    first, *rest = asked
    kept = first.split()[1].removeprefix("--preserve-env=").split(",")
    assert {"https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "CI"} <= set(kept)
    # Of what there is, and of nothing else.
    assert rest == [f"sudo chown -R --no-dereference 4711:4712 {name}" for name in (".cache", "results")]


def test_programs_for_root_are_found_though_a_users_path_lacks_them(checkout):
    tools = checkout.folder.parent / "tools"
    code, said, _asked = checkout(".config/as_root.sh", "sh", "-c", "echo $PATH", PATH=f"{tools}:/usr/bin:/bin")
    assert code == 0 and said.strip().split(":") == [
        str(tools),
        "/usr/bin",
        "/bin",
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
    ]


def test_root_needs_no_sudo(checkout):
    (checkout.folder.parent / "tools" / "id").write_text("#!/bin/sh\necho 0\n")
    code, said, asked = checkout(".config/as_root.sh", "sh", "-c", "echo done; exit 3")
    assert (code, said, asked) == (3, "done\n", [])


def test_clean_removes_what_was_made_and_keeps_the_results(checkout):
    """How the machines end is in test_lab_leftovers.py."""
    shutil.copy(ROOT / ".config" / "labs.py", checkout.folder / ".config")
    shutil.copytree(ROOT / "plugins/module_utils", checkout.folder / "plugins/module_utils")
    made = (".cache/testbeds/embedded", ".cache/testbeds/mine", ".venv/bin", ".ansible", ".hypothesis", "results/run1")
    for name in made:
        (checkout.folder / name).mkdir(parents=True)
    (checkout.folder / "results/run1/result.json").write_text("{}")
    code, said, asked = checkout("make", "clean")
    assert code == 0, said
    # With the rights to end what root started.
    assert asked[0].endswith("python3 .config/labs.py end") and asked[0].startswith("sudo ")
    assert (checkout.folder / "results/run1/result.json").read_text() == "{}"
    assert f"Your results are kept in {checkout.folder}/results" in said
    assert [name for name in made[:-1] if (Path(checkout.folder) / name).exists()] == []


@pytest.mark.long
def test_molecule_remembers_in_the_checkout_and_only_for_one_run(checkout):
    """In the home of the user Molecule finds its folders by the name of the checkout's folder only. A second clone of that name took over that its
    machines were prepared, and prepared nothing."""
    molecule = checkout.folder / ".venv" / "bin" / "molecule"
    molecule.parent.mkdir(parents=True)
    molecule.write_text(
        '#!/bin/sh\necho "$* remembers in $ANSIBLE_HOME: $(ls "$ANSIBLE_HOME" 2>/dev/null)"\nmkdir -p "$ANSIBLE_HOME/tmp"\n'
    )
    molecule.chmod(0o755)
    home = checkout.folder / ".cache" / "molecule"
    for _again in range(2):
        code, said, _asked = checkout("make", "-o", "setup-test", "molecule", "SCENARIO=windows")
        assert (code, said) == (0, f"test --scenario-name windows remembers in {home}: \n")
        assert (home / "tmp").is_dir()
    # Molecule takes its folders from there.
    listed = subprocess.run(
        ["molecule", "list"], cwd=ROOT, env={**os.environ, "ANSIBLE_HOME": str(home)}, capture_output=True, check=False
    )
    assert listed.returncode == 0
    assert len(list(home.glob("tmp/molecule.*.windows"))) == 1
