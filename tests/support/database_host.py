# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host for a database: a file system of its own, what a database may leave behind, and what is killed while it is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.storlab.testbed.plugins.module_utils.linux.daemon import start_ticks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database
from plays import play

MIB = 1 << 20


def shell(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def datastore(testbed_id: str, size_mib: int) -> Iterator[tuple]:
    """A mounted ext4 of its own: (mount point, layers as they are published). Not below pytest's folder, which only root may enter."""
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    folder = Path(tempfile.mkdtemp(prefix=f"storlab-{testbed_id}-", dir="/var/tmp"))
    folder.chmod(0o755)
    image, point, known = folder / "disk.img", folder / "mnt", str(uuid.uuid4())
    point.mkdir()
    with image.open("wb") as handle:
        handle.truncate(size_mib * MIB)
    shell("mkfs.ext4", "-q", "-U", known, str(image))
    shell("mount", "-o", "loop", str(image), str(point))
    layers = {
        "datastore-ds1": {
            "name": "datastore-ds1",
            "kind": "datastore",
            "host": "localhost",
            "path": str(point / "storlab-benchmark.dat"),
            "parent": None,
            "purpose": "scratch",
            "size_bytes": MIB,
            "identity": {"uuid": known, "mount_point": str(point)},
            "detail": {"filesystem": "ext4", "provider": "filesystem"},
        }
    }
    try:
        yield point, layers
    finally:
        shell("umount", str(point))
        shutil.rmtree(folder)


def _owner(path: Path) -> int | None:
    """The number of the user whose file it is; None where it has just gone."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_uid
    return None


def _is_mapped(path: Path) -> bool:
    """Whether a process has the file in its memory."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if f"{path}\n" in maps.read_text(encoding="utf-8", errors="replace"):
                return True
    return False


def traces(testbed_id: str, uid: int) -> dict:
    """What a database may leave behind on a host."""
    marks = (f"storlab-{testbed_id}-".encode(), f"storlab-database/{testbed_id}".encode())
    return {
        "processes": sorted(
            int(entry)
            for entry in os.listdir("/proc")
            if entry.isdigit() and any(mark in _cmdline(int(entry)).split(b"\0", 1)[-1] for mark in marks)
        ),
        "segments": [
            line.split()[1]
            for line in Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]
            # What a server has that runs, such as that of another test, is in use.
            if int(line.split()[7]) == uid and line.split()[6] == "0"
        ],
        # As above: what a process has mapped is in use.
        "files": sorted(
            path.name for path in Path("/dev/shm").glob("PostgreSQL*") if _owner(path) == uid and not _is_mapped(path)
        ),
        "folders": [
            path for path in (f"{database.RUN_DIR}/{testbed_id}", f"/run/storlab/{testbed_id}") if os.path.exists(path)
        ],
    }


def stored_by_the_role(tmp_path: Path, layers: dict, values: dict) -> Path:
    """Folder of the run that the role makes of these of its variables, verified and with its report."""
    run_dir = tmp_path / "results" / values["testbed_id"] / values["run_id"]
    values = {**values, "results_dir": str(tmp_path / "results")}
    role = {
        "ansible.builtin.include_role": {"name": "storlab.testbed.database_load"},
        "vars": {f"database_load_{name}": value for name, value in values.items()},
    }
    tasks = [
        {"storlab.testbed.layer": {"layers": list(layers.values())}},
        role,
        {"storlab.testbed.verify_results": {"run_dir": str(run_dir)}},
        {"storlab.testbed.report": {"run_dir": str(run_dir)}},
    ]
    assert not [result.get("msg") for result in play(tmp_path, {"block": tasks}) if result.get("failed")]
    return run_dir


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children_named(name: str) -> list[int]:
    return [
        int(entry)
        for entry in os.listdir("/proc")
        if entry.isdigit()
        and _cmdline(int(entry)).split(b"\0")[0].endswith(f"/{name}".encode())
        and start_ticks(int(entry))
        and _parent(int(entry)) == os.getpid()
    ]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill_when(testbed_id: str, find: Callable[[], list]) -> threading.Thread:
    """SIGKILL for what is found first, once the driver has written to its log."""

    def wait() -> None:
        logs = os.path.join(database.RUN_DIR, testbed_id, "point")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            written = os.path.isdir(logs) and any(
                name.startswith("transactions.") and os.path.getsize(os.path.join(logs, name))
                for name in os.listdir(logs)
            )
            found = find() if written else []
            if found:
                os.kill(found[0], signal.SIGKILL)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread
