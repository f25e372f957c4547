# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make demo` does as the user who called it, while the lab's machines are of root: playbooks that only look, beside a lab whose folder they may not
read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fixtures.report import make_fixture
from places import ROOT

SOMEBODY_ELSE = 65534
# Stands in for QEMU.
WAITS = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def closed_lab():
    """The name of a lab with a machine that runs, in a folder that only somebody else may read."""
    name = f"storlab-closed-{os.getpid()}"
    folder = Path("/run/storlab", name)
    run_dir = folder / "vm" / "target01"
    run_dir.mkdir(parents=True)
    machine = subprocess.Popen(
        [sys.executable, "-c", WAITS, "-pidfile", str(run_dir / "pid")], stdout=subprocess.PIPE, text=True
    )
    assert machine.stdout.readline() == "up\n"
    (run_dir / "pid").write_text(f"{machine.pid}\n", encoding="utf-8")
    os.chown(run_dir, SOMEBODY_ELSE, SOMEBODY_ELSE)
    run_dir.chmod(0o700)
    yield name
    machine.kill()
    machine.communicate()
    shutil.rmtree(folder)


@pytest.fixture
def own_folder():
    """A folder of whoever owns the checkout, with a stored run."""
    owner = ROOT.stat()
    with tempfile.TemporaryDirectory() as name:
        make_fixture.write_run(os.path.join(name, "results"), 1, 2)
        for path in [Path(name), *Path(name).rglob("*")]:
            os.chown(path, owner.st_uid, owner.st_gid)
        yield Path(name)


def without_rights(folder: Path, *command: str) -> subprocess.CompletedProcess:
    """A command of the owner of the checkout, without any right of root's. folder: that user's home."""
    owner = ROOT.stat()
    who = ("setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups", "--bounding-set=-all")
    environment = {**os.environ, "HOME": str(folder), "ANSIBLE_HOME": str(folder / "ansible")}
    return subprocess.run([*who, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def play(book: str, lab: str, folder: Path) -> subprocess.CompletedProcess:
    """A playbook of the collection on the embedded inventory."""
    values = {
        "embedded_lab_netns": lab,
        "testbed_results_dir": folder / "results",
        "testbed_state_dir": folder / "state",
    }
    options = [word for name, value in values.items() for word in ("-e", f"{name}={value}")]
    return without_rights(folder, "ansible-playbook", "-i", "inventories/embedded", f"playbooks/{book}.yml", *options)


@pytest.mark.parametrize(
    ("book", "said"), [("report", "Report: "), ("show", "backing-bench"), ("results", "initiator-bench")]
)
def test_who_may_not_read_the_lab_can_look(book, said, closed_lab, own_folder):
    done = play(book, closed_lab, own_folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert said in done.stdout
    reports = own_folder.glob("results/embedded/*/report/index.html")
    assert [path.stat().st_uid for path in reports] == [ROOT.stat().st_uid] * (book == "report")
    assert not (own_folder / "state").exists()


def test_that_user_may_really_not_read_it(closed_lab, own_folder):
    tried = without_rights(own_folder, "cat", f"/run/storlab/{closed_lab}/vm/target01/pid")
    assert tried.returncode == 1 and "Permission denied" in tried.stderr
