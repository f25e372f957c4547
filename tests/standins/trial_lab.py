# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded labs of `make trials`: real kernels in QEMU, which are restarted, cut off and filled, and on which somebody else works, too."""

from __future__ import annotations

import copy
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fault_stand_ins
import lab_plays
import small_lab
import waiting
from lab_plays import PATIENCE_S
from places import ROOT

TARGET, CLIENT = small_lab.MACHINES
# A short point is enough: that it was measured is asked for, and not how fast it was.
WORKLOAD = {**small_lab.WORKLOAD, "ramp_s": 0, "runtime_s": 2}
# What a restart leaves of a machine: real ones have it on a disk, these ones have all in memory.
KEPT = "etc/iscsi etc/mdadm etc/exports.d root srv home var/lib/iscsi var/lib/storlab var/lib/others mnt etc/passwd etc/shadow"
# A file system that is mounted there has a disk of its own: what is in it must not come back as files of the machine.
KEEP = f"tar -cf - --one-file-system --ignore-failed-read {KEPT} 2>/dev/null || true"
# What somebody else has on each machine: a file system on a loop device, with a file in it, and a target where there are targets.
THEIRS = "/var/lib/others/disk.img"
PUT = f"""
set -e
mkdir -p /srv/others "$(dirname {THEIRS})"
if ! test -e {THEIRS}; then truncate -s 8M {THEIRS}; mke2fs -q -F -t ext4 {THEIRS}; fi
if ! grep -q ' /srv/others ' /proc/mounts; then modprobe loop; mount -o loop {THEIRS} /srv/others; fi
test -e /srv/others/letter || printf 'not yours' > /srv/others/letter
"""
TARGETS = "/sys/kernel/config/target/iscsi/iqn*"
# Prints what is there that a testbed could take or leave behind; read by nothing of the collection.
LOOK = rf"""
echo "letter $(cat /srv/others/letter)"
losetup -l -n -O NAME,BACK-FILE | tr -s ' ' | sed 's/^/loop /'
awk '{{print "mount", $1, $2, $3}}' /proc/mounts | grep -v ' /run/storlab'
ls -d {TARGETS} 2>/dev/null | grep -v '/discovery_auth$' | sed 's/^/target /'
ls /sys/class/iscsi_session 2>/dev/null | sed 's/^/session /'
for name in $(ls /sys/block); do test "$(cat /sys/block/$name/size)" = 0 || echo "device $name $(cat /sys/block/$name/size)"; done
find /run/storlab /etc/iscsi/nodes /etc/iscsi/send_targets /etc/iscsi/ifaces /srv -xdev -type f 2>/dev/null | sed 's/^/file /'
"""


class Held(lab_plays.Lab):
    """A lab whose playbooks are held between two of their stages."""

    # Where somebody else has something, too.
    machines: tuple = ()
    state: Path
    # Whether something may be built.
    dirty = False

    def put_others(self) -> None:
        """What somebody else has on each machine."""

    def look(self, _machine: str) -> list:
        return []

    def held(self, stage: str, *books: str, strike: Callable[[], None], **variables: object) -> lab_plays.Played:
        """Play shipped playbooks, and do something before the first task of a stage."""
        with tempfile.TemporaryDirectory(prefix="trial-") as folder:
            self.environment = {"KILL_CONTROLLER_HOLD_AT": stage, "KILL_CONTROLLER_HOLD": folder}
            between = Between(Path(folder), strike)
            try:
                played = self.play(*books, strike=between, **variables)
            finally:
                self.environment = {}
        if between.error:
            raise RuntimeError(f"before {stage}: {between.error!r}") from between.error
        if not between.struck:
            raise RuntimeError(f"the playbook never came to {stage}: {played.failures}")
        return played

    def kill_controller(self) -> None:
        """The whole of the playbook that runs, without a chance to tidy up."""
        os.killpg(self.running, signal.SIGKILL)


class Lab(Held, small_lab.Lab):
    """Machines target01 and hypervisor01. change: what is other in its inventory."""

    hosts = (TARGET, CLIENT, "controller01", "localhost")
    machines = (TARGET, CLIENT)

    def __init__(self, name: str = "trials", change: Callable[[dict], None] | None = None):
        folder = ROOT / ".cache" / name
        inventory = copy.deepcopy(small_lab.inventory(name, folder))
        inventory["all"]["vars"].update(benchmark_workloads=[WORKLOAD], benchmark_repetitions=1)
        (change or (lambda _inventory: None))(inventory)
        lab_plays.Lab.__init__(self, name, folder, inventory, small_lab.CONFIGURATION)
        self.state = Path(inventory["all"]["vars"]["testbed_state_dir"])

    def play(self, *books: str, strike: lab_plays.Disturbance | None = None, **variables: object) -> lab_plays.Played:
        """The machines run all the time: a build need not look at each of them once more, which takes a third of it."""
        kept = self.options
        if "embedded_lab" not in books:
            self.options = (*kept, "--skip-tags", "embedded_lab")
        try:
            return super().play(*books, strike=strike, **variables)
        finally:
            self.options = kept

    # ---- what somebody else has

    def put_others(self) -> None:
        for machine in self.machines:
            self.run(machine, PUT)

    def look(self, machine: str) -> list:
        return sorted(self.run(machine, LOOK).splitlines())

    # ---- what is done to it

    def restart(self, machine: str) -> None:
        """As a machine with a disk would: it is back with its files, and without all that was in memory alone."""
        before = self.run(machine, "cat /proc/sys/kernel/random/boot_id")
        with tempfile.TemporaryFile() as archive:
            self._pipe(machine, f"cd / && {KEEP}", output=archive)
            self._reset(machine)
            waiting.until(lambda: self._boot_id(machine) not in ("", before), PATIENCE_S)
            archive.seek(0)
            self._pipe(machine, "cd / && tar -xf -", given=archive)
        if machine in self.machines:
            self.run(machine, PUT)

    def _reset(self, machine: str) -> None:
        """QEMU ends, and begins anew with the same command line. A reset from outside ended it as well (7.2, with -no-reboot, whatever set-action says)."""
        pid = self.pid(machine)
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        waiting.until(lambda: not Path(f"/proc/{pid}").exists(), PATIENCE_S)
        self.network(*command)

    def _boot_id(self, machine: str) -> str:
        """Nothing of one that does not answer yet."""
        with self.shell(machine, "cat /proc/sys/kernel/random/boot_id") as process:
            output = process.communicate(timeout=PATIENCE_S)[0]
        return "" if process.returncode else output

    def _pipe(self, machine: str, script: str, **ends: object) -> None:
        command = [*self.ssh(machine), "bash -c " + shlex.quote(script)]
        files = {{"given": "stdin", "output": "stdout"}[name]: handle for name, handle in ends.items()}
        subprocess.run(command, check=True, timeout=PATIENCE_S, **files)  # type: ignore[call-overload]

    def ssh(self, machine: str) -> list:
        config = ROOT / ".cache" / "lab" / self.name / "ssh" / "config"
        return ["ssh", "-F", str(config), "-T", "-o", "ControlMaster=no", "-o", "ControlPath=none", machine]

    def link(self, machine: str, way: str) -> None:
        self.network("ip", "link", "set", self.tap(machine), way)


class Between:
    """Waits until a playbook is held between two stages, strikes, and lets it go on."""

    def __init__(self, folder: Path, strike: Callable[[], None]):
        self.folder, self.strike = folder, strike
        self.struck = False
        self.error: Exception | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def begin(self) -> None:
        self.thread.start()

    def finish(self) -> None:
        self.ended.set()
        self.thread.join()

    def _work(self) -> None:
        while not (self.folder / "held").exists():
            if self.ended.wait(0.1):
                return
        try:
            self.strike()
            self.struck = True
        except Exception as error:
            self.error = error
        (self.folder / "go").touch()


@contextmanager
def up(lab: Held, keep: bool) -> Iterator[Held]:
    """The lab with its machines, which end afterwards."""
    if isinstance(lab, Here):
        with lab:
            yield lab
        return
    was_up = any(lab.pid(machine) for machine in lab.machines)  # type: ignore[attr-defined]
    played = lab.play("embedded_lab")
    if played.returned:
        raise RuntimeError(f"The lab does not come up: {played.failures}")
    # One that was up has what an earlier call left there.
    lab.dirty = was_up
    try:
        yield lab
    finally:
        if not keep:
            gone = lab.play("embedded_lab", testbed_lab_state="absent")
            if gone.returned:
                raise RuntimeError(f"The lab does not go: {gone.failures}")


# ---------------------------------------------------------------- other inventories


def second(lab: Lab) -> Lab:
    """Another testbed on the machines of a lab, as somebody else would describe it."""
    first = ROOT / ".cache" / "lab" / lab.name

    def change(inventory: dict) -> None:
        variables, children = inventory["all"]["vars"], inventory["all"]["children"]
        for name in [name for name in variables if name.startswith("embedded_lab_")]:
            del variables[name]
        variables["testbed"] = {
            "disks": [{"name": "theirs", "size": "24MiB"}],
            "datastores": [{"disk": "theirs", "benchmark_file": "4MiB"}],
        }
        del children["embedded_controllers"]
        children["machines"]["vars"].update(
            ansible_ssh_common_args=f'-F "{first}/ssh/config"', ansible_control_path_dir=str(ROOT / ".cache" / "cp2")
        )
        children["targets"]["hosts"] = {TARGET: {"testbed_address": "10.213.0.11"}}
        children["hypervisors"]["hosts"] = {CLIENT: {"testbed_address": "10.213.0.12"}}

    other = Lab(f"{lab.name}b", change)
    other.shell = lab.shell  # type: ignore[method-assign]
    return other


def with_array(inventory: dict) -> None:
    """One machine with a mirror of two disks that QEMU makes."""
    inventory["all"]["vars"]["testbed"] = {
        "disks": [
            {
                "name": "one",
                "kind": "raid",
                "purpose": "data",
                "raid": {"level": 1, "emulated": {"count": 2, "size": "24MiB"}},
            }
        ]
    }
    del inventory["all"]["children"]["hypervisors"], inventory["all"]["children"]["machines"]["children"]["hypervisors"]


def impatient(inventory: dict) -> None:
    """Where a link is cut again and again, nobody waits for what does not answer much longer than a slow machine takes."""
    inventory["all"]["vars"]["iscsi_initiator_replacement_timeout_s"] = 10
    inventory["all"]["children"]["machines"]["vars"].update(
        ansible_ssh_timeout=10,
        ansible_ssh_retries=0,
        ansible_ssh_args="-o ControlMaster=auto -o ControlPersist=120s -o ServerAliveInterval=5 -o ServerAliveCountMax=2",
    )


USER, PASSWORD = "porter", "three-tall-trees"
# A user whose only way to root's rights is root's password.
ADMIT = f"""
set -e
id {USER} >/dev/null 2>&1 || useradd -m -s /bin/bash -p '*' {USER}
install -d -m 0700 -o {USER} -g {USER} /home/{USER}/.ssh
install -m 0600 -o {USER} -g {USER} /root/.ssh/authorized_keys /home/{USER}/.ssh/authorized_keys
echo 'root:{PASSWORD}' | chpasswd
"""


def by_password(inventory: dict) -> None:
    """Ordinary rights on the machines."""
    inventory["all"]["children"]["machines"]["vars"].update(
        ansible_user=USER, ansible_become=True, ansible_become_method="su", ansible_become_password=PASSWORD
    )


class Here(Held, fault_stand_ins.Here):
    """This computer, with a RAM disk: no machine is needed, so `make test` takes a cell of it."""


class ArrayLab(Lab):
    """One machine."""

    hosts = (TARGET, "controller01", "localhost")
    machines = (TARGET,)
