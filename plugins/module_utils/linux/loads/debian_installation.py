# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian installed on a measured disk and timed: a file system, the packages from the end of the same disk, each unpacked and configured by dpkg.

The disk is proven by the device guard before each write. The remains of an earlier installation are known by the UUID of its file system, which is made of
the testbed's and the layer's names, and by where it is mounted; anything else on the disk is refused. The file system is, however an installation ends,
unmounted and its signature wiped, so that the disk is as empty as before; where not even that was possible, the next one begins with it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import time
import uuid
from types import FrameType
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.files import naming
from ...core.iscsi_names import NAMESPACE
from ...core.layers import Layer
from ...core.names import check_name, check_testbed_id
from ...core.times import utc
from .. import mounts
from ..clients import datastore, filesystem
from ..disks import device_safety
from ..disks.facts import Facts
from ..host import run, wait_for
from ..params import DebianInstallationParams
from ..watch import counters
from . import package_medium

SPEC: dict[str, Any] = {
    "action": {"type": "str", "choices": ["look", "put", "install"], "required": True},
    "testbed_id": {"type": "str", "required": True},
    "layer": {"type": "dict", "required": True},
    "layers": {"type": "dict", "default": {}},
    "index_sha256": {"type": "str", "required": True},
    "bytes": {"type": "int", "required": True},
    "source": {"type": "path"},
    "timeout_s": {"type": "int", "default": 3600},
}
MIB = 1 << 20
LABEL = "storlab-inst"
# Nothing that an installation needs fits in less.
LEAST_BYTES = 16 * MIB
LOG_BYTES = 256 << 10
UNMOUNT_S = 60
STEPPED_S = 0.5
ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
ARCHIVES = "var/cache/apt/archives"
# The nodes that scripts of packages expect in /dev (null, zero, full, random, urandom, tty).
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "DEBCONF_NOWARNINGS": "yes",
    "LC_ALL": "C",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}


# ---------------------------------------------------------------- pure


def filesystem_uuid(testbed_id: str, layer: str) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{testbed_id}/installation/{layer}"))


def medium_begin(disk_bytes: int, medium_bytes: int) -> int:
    """Where the packages begin: as far back as they can, at a whole MiB. Raises bad_value when the disk leaves no room for a file system."""
    begin = (disk_bytes - medium_bytes) // MIB * MIB
    if begin < LEAST_BYTES:
        raise bad_value(
            "disk_size of the guest",
            disk_bytes,
            f"The packages alone need {medium_bytes} bytes of the disk: make it larger, or name fewer testbed_installation.packages.",
        )
    return begin


def not_installed(states: str) -> list[str]:
    """Packages that are not installed as a whole, of what ``dpkg-query -f '${db:Status-Abbrev} ${Package}'`` prints."""
    rows = [line.split() for line in states.splitlines() if line.strip()]
    return [row[-1] for row in rows if row[0] != "ii"]


def refusals(facts: Facts, layer: Layer, testbed_id: str, layers: dict[str, Layer]) -> list[Failure]:
    """The refusals of the guard for the disk, except for the file system of an earlier installation."""
    reasons = device_safety.refusals(facts, layer, (), testbed_id, list(layers.values()))
    if (facts.get("signature") or {}).get("UUID") == filesystem_uuid(testbed_id, layer["name"]):
        reasons = [reason for reason in reasons if reason.code != "signature_present"]
    return reasons


# ---------------------------------------------------------------- the disk


def perform(params: DebianInstallationParams, base: str = "/run") -> dict[str, bool] | dict[str, object]:
    """The result of the module, without what it is of."""
    check_testbed_id("testbed_id", params["testbed_id"])
    check_name("layer", params["layer"]["name"])
    if params["timeout_s"] < 1:
        raise bad_value("testbed_installation.timeout_s", params["timeout_s"], "Give at least 1.")
    installation = Installation(params, base)
    if params["action"] == "look":
        return {"changed": False, "there": installation.there()}
    installation.release()
    installation.facts = installation.proven()
    if params["action"] == "put":
        return installation.put(params["source"])
    return installation.timed()


class Installation:
    def __init__(self, params: DebianInstallationParams, base: str) -> None:
        self.layer, self.layers, self.testbed_id = params["layer"], params["layers"], params["testbed_id"]
        self.index_sha256, self.timeout_s = params["index_sha256"], params["timeout_s"]
        self.begin = medium_begin(self.layer["size_bytes"], params["bytes"])
        self.uuid = filesystem_uuid(self.testbed_id, self.layer["name"])
        self.mount_point = os.path.join(base, f"storlab-{self.testbed_id}", f"installation-{self.layer['name']}")
        self.facts: Facts = {}
        self.log = ""
        self.deadline = float("inf")

    def there(self) -> bool:
        """Whether the packages are at the end of the disk; whether each is whole is seen when it is read."""
        try:
            with open(self.layer["path"], "rb") as handle:
                index = package_medium.read_index(handle, self.begin)
        except OSError:
            return False  # the guard says what is wrong with the disk
        return index is not None and index[1] == self.index_sha256

    def proven(self) -> Facts:
        facts = device_safety.inspect(self.layer["path"])
        reasons = refusals(facts, self.layer, self.testbed_id, self.layers)
        if reasons:
            raise device_safety.not_touched(self.layer, reasons)
        if facts["type"] != "block":
            raise Failure(
                "not_a_device",
                f"Layer {self.layer['name']} is a {facts['type']}.",
                "Install on the disk of a guest, or on another layer that is a disk.",
                layer=self.layer["name"],
            )
        return facts

    def release(self) -> None:
        """End what an installation that was killed has left mounted; only where it is mounted, and only its own file system."""
        mounted = mounts.mounted_at(mounts.read(), self.mount_point)
        if mounted is None:
            self._remove_folder()
            return
        number = os.stat(self.layer["path"]).st_rdev
        here = f"{os.major(number)}:{os.minor(number)}"
        if mounted["numbers"] != here or filesystem.read_superblock(self.layer["path"])["uuid"] != self.uuid:
            raise Failure(
                "installation_left",
                f"{self.mount_point} is mounted, and not from the file system of an installation on {self.layer['path']}.",
                f"Unmount it: umount {self.mount_point}.",
                mount_point=self.mount_point,
            )
        self._unmount()

    def _unmount(self) -> None:
        def gone() -> bool:
            # A process that was killed with the installation may take a moment to end.
            run(["umount", self.mount_point], ok=(0, 1, 32), timeout_s=600)
            return mounts.mounted_at(mounts.read(), self.mount_point) is None

        if not wait_for(gone, UNMOUNT_S, interval_s=0.5):
            raise Failure(
                "installation_left",
                f"{self.mount_point} is still in use, such as by an installation that is going on.",
                "Wait for it, or end what uses it, and run this again.",
                mount_point=self.mount_point,
            )
        self._remove_folder()

    def _remove_folder(self) -> None:
        if os.path.isdir(self.mount_point):
            os.rmdir(self.mount_point)
        above = os.path.dirname(self.mount_point)
        if os.path.isdir(above) and not os.listdir(above):
            os.rmdir(above)

    def put(self, source: str | None) -> dict[str, object]:
        """Fill the disk with zeroes, so that the first installation finds no more of it unwritten than the others, and write the packages at its end."""
        if not source:
            raise bad_value("source", source, "Name the file with the packages on this host.")
        with open(source, "rb") as medium:
            index = package_medium.read_index(medium, 0)
            if index is None or index[1] != self.index_sha256:
                raise Failure(
                    "medium_damaged", f"{source} does not hold the packages that are asked for.", "Copy it again."
                )
            medium.seek(0)
            held = device_safety.hold(self.facts, os.O_RDWR | os.O_EXCL)
            with naming(self.layer["path"]), os.fdopen(held, "r+b", buffering=0) as disk:
                zeroes = bytes(package_medium.PIECE)
                for offset in range(0, self.begin, len(zeroes)):
                    disk.write(zeroes[: self.begin - offset])
                while piece := medium.read(package_medium.PIECE):
                    disk.write(piece)
                os.fsync(disk.fileno())
        return {"changed": True, "there": self.there()}

    # -------------------------------------------------------- the installation

    def timed(self) -> dict[str, Any]:
        """{changed, installation: {started_utc, finished_utc, duration_s, phases, packages, package_bytes, installed_bytes, counters}, log}"""
        number = self.facts["major_minor"]
        held = device_safety.hold(self.facts)
        handlers = {ending: signal.signal(ending, self._ended) for ending in ENDINGS}
        try:
            # The packages come from the disk and not from this host's memory.
            os.fsync(held)
            fcntl.ioctl(held, datastore.BLKFLSBUF, 0)
            before, begun_unix_s = counters.sample(number), time.time()
            begun = time.monotonic()
            self.deadline = begun + self.timeout_s
            result = self._installed(held, begun)
            ended, ended_unix_s, after = time.monotonic(), time.time(), counters.sample(number)
        finally:
            self._clean(held)
            os.close(held)
            for ending, handler in handlers.items():
                signal.signal(ending, handler)
        if abs(ended_unix_s - begun_unix_s - (ended - begun)) > STEPPED_S:
            result["clock_stepped"] = True
        figures = counters.delta(before, after)
        return {
            "changed": True,
            "installation": {
                "started_utc": utc(begun_unix_s),
                "finished_utc": utc(ended_unix_s),
                "duration_s": round(ended - begun, 3),
                **result,
                "counters": {key: figures[key] for key in ("interval_s", "cpu", "device") if key in figures},
            },
            "log": self.log,
        }

    def _installed(self, held: int, begun: float) -> dict[str, Any]:
        phases, since = {}, begun

        def phase(name: str) -> None:
            nonlocal since
            now = time.monotonic()
            phases[f"{name}_s"], since = round(now - since, 3), now

        root, path = self.mount_point, self.layer["path"]
        self._run(
            ["mkfs.ext4", "-q", "-F", "-U", self.uuid, "-L", LABEL, path, f"{self.begin >> 10}k"], "make a file system"
        )
        os.makedirs(root)
        self._run(["mount", "-t", "ext4", path, root], "mount it")
        phase("filesystem")
        files = self._retrieve(held)
        phase("retrieve")
        for file in files:
            self._run(["dpkg-deb", "--extract", os.path.join(root, ARCHIVES, file), root], f"unpack {file}")
        phase("extract")
        self._prepare_root()
        archives = [os.path.join(root, ARCHIVES, file) for file in files]
        # All are unpacked already, so it does not matter in which order dpkg takes them, as long as it takes all.
        self._run(
            ["dpkg", f"--root={root}", "--force-depends", "--force-confold", "--install", *archives],
            "install the packages",
        )
        self._check(len(files))
        phase("install")
        usage = os.statvfs(root)
        self._unmount()
        os.fsync(held)
        phase("sync")
        entries = [entry for entry in self.entries if entry["file"] in files]
        return {
            "phases": phases,
            "packages": len(files),
            "package_bytes": sum(entry["bytes"] for entry in entries),
            "installed_bytes": (usage.f_blocks - usage.f_bfree) * usage.f_frsize,
        }

    def _retrieve(self, held: int) -> list[str]:
        """Copy the packages to where apt would put them, each proven."""
        folder = os.path.join(self.mount_point, ARCHIVES)
        os.makedirs(folder)
        with os.fdopen(os.dup(held), "rb") as handle:
            index = package_medium.read_index(handle, self.begin)
            if index is None or index[1] != self.index_sha256:
                raise Failure(
                    "medium_damaged",
                    f"The packages at the end of {self.layer['path']} are not those that were put there.",
                    "Run it again: they are copied again.",
                )
            self.entries = index[0]
            for entry in self.entries:
                try:
                    package_medium.retrieve(handle, entry, os.path.join(folder, entry["file"]))
                except OSError as error:
                    raise self._failed(f"copy {entry['file']}", str(error.strerror)) from error
        return [entry["file"] for entry in self.entries]

    def _prepare_root(self) -> None:
        """The files that dpkg and the scripts of packages need, and that no package brings."""
        try:
            for folder in ("info", "updates", "triggers", "alternatives", "parts"):
                os.makedirs(os.path.join(self.mount_point, "var/lib/dpkg", folder), exist_ok=True)
            for name in ("status", "available"):
                with open(os.path.join(self.mount_point, "var/lib/dpkg", name), "w", encoding="ascii"):
                    pass
            for name, numbers in DEVICES.items():
                place = os.path.join(self.mount_point, "dev", name)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                if not os.path.lexists(place):
                    os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        except OSError as error:
            raise self._failed("prepare the root", str(error.strerror)) from error

    def _check(self, count: int) -> None:
        """No time without an installation: every package is installed, by dpkg's own records."""
        states = self._run(
            [
                "dpkg-query",
                f"--admindir={self.mount_point}/var/lib/dpkg",
                "--show",
                "--showformat=${db:Status-Abbrev} ${Package}\\n",
            ],
            "read what is installed",
        )
        lacking = not_installed(states)
        installed = len(states.splitlines()) - len(lacking)
        if lacking or installed != count:
            raise self._failed(
                "install all packages", f"{installed} of {count} are, {' '.join(lacking) or 'the others are unknown'}"
            )

    def _run(self, argv: list[str], what: str) -> str:
        """Its standard output. A process group of its own, so that nothing that it starts outlives it."""
        left_s = self.deadline - time.monotonic()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd="/",
                env=ENVIRONMENT,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Failure(
                "command_missing",
                f"The command {argv[0]} is not on this host.",
                f"Install the package that has {argv[0]}: e2fsprogs, mount and dpkg are needed.",
                command=argv[0],
            ) from None
        try:
            output, _nothing = process.communicate(timeout=max(left_s, 0.1))
        except subprocess.TimeoutExpired:
            raise Failure(
                "installation_timeout",
                f"The installation on layer {self.layer['name']} took longer than {self.timeout_s} s.",
                "Give more testbed_installation.timeout_s, or fewer packages.",
                layer=self.layer["name"],
            ) from None
        finally:
            self._end(process)
        self.log = f"{self.log}+ {' '.join(argv)}\n{output}"[-LOG_BYTES:]
        if process.returncode:
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            telling = [line for line in lines if "no space left" in line.lower()]
            how = (
                f"ended by signal {-process.returncode}"
                if process.returncode < 0
                else f"exit code {process.returncode}"
            )
            # tar says of a full disk only how little it could write.
            full = [] if telling or not self._full() else ["No space left on device"]
            telling = telling or [line for line in lines if "error" in line.lower()] or lines
            raise self._failed(what, f"{how}, {' | '.join([*telling[-3:], *full]) or 'no message'}")
        return output

    def _full(self) -> bool:
        if mounts.mounted_at(mounts.read(), self.mount_point) is None:
            return False
        usage = os.statvfs(self.mount_point)
        return usage.f_bavail * usage.f_frsize < MIB or not usage.f_favail

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of it has ended
        process.wait()

    def _failed(self, what: str, why: str) -> Failure:
        return Failure(
            "installation_failed",
            f"The installation on layer {self.layer['name']} could not {what}: {why}.",
            "It has no valid time and is not kept. Correct the cause, such as a disk that is too small, and run again with the same run_id.",
            layer=self.layer["name"],
            log=self.log[-4000:],
        )

    def _ended(self, number: int, _frame: FrameType | None) -> None:
        raise Failure(
            "installation_failed",
            f"The installation on layer {self.layer['name']} was ended by signal {number}.",
            "It has no valid time. Run again with the same run_id.",
            layer=self.layer["name"],
        )

    def _clean(self, held: int) -> None:
        """Leave the disk as empty as it was, whatever happened."""
        if mounts.mounted_at(mounts.read(), self.mount_point) is not None:
            self._unmount()
        self._remove_folder()
        os.fsync(held)
        if filesystem.read_superblock(self.layer["path"])["uuid"] == self.uuid:
            datastore.wipe(self.layer["path"], self.uuid)
