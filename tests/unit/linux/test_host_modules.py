# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of a host: what is loaded, what can be, and what goes; modprobe and rmmod are those of a kernel made of words."""

from __future__ import annotations

import fnmatch
import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import host

# kmod 30: --show-depends lists what would be loaded, dependencies first, and also what is loaded already.
DEPENDS = {
    "raid456": "builtin md_mod\n"
    "insmod /lib/modules/6.1.0/kernel/drivers/block/loop.ko.xz max_loop=8 \n"
    "insmod /lib/modules/6.1.0/kernel/crypto/async_tx/async-raid6-recov.ko \n"
    "insmod /lib/modules/6.1.0/kernel/drivers/md/raid456.ko.zst \n",
    "zram": "insmod /lib/modules/6.1.0/kernel/drivers/block/zram/zram.ko \n",
    "loop": "insmod /lib/modules/6.1.0/kernel/drivers/block/loop.ko \n",
}


class Kernel:
    """uses: {module: how many use it}; needs: {module: the one below it}; busy: what rmmod refuses."""

    def __init__(self, monkeypatch, uses: dict, needs: dict, busy: tuple = (), known: tuple = ()) -> None:
        self.uses, self.needs, self.busy, self.known, self.done = uses, needs, busy, known, []
        self.disks: set = set()
        monkeypatch.setattr(host, "glob", SimpleNamespace(glob=self.glob))
        monkeypatch.setattr(host, "loaded_modules", lambda: set(self.uses))
        monkeypatch.setattr(host, "read_text", self.read)
        monkeypatch.setattr(host, "run", self.run)
        folders = {
            "isdir": lambda path: path.rpartition("/")[2] in self.uses,
            "exists": lambda path: path == "/dev/there",
            "basename": os.path.basename,
        }
        monkeypatch.setattr(host, "os", SimpleNamespace(path=SimpleNamespace(**folders)))

    def glob(self, pattern: str) -> list:
        return [name for name in self.disks if fnmatch.fnmatch(f"/sys/block/{name}", pattern)]

    def read(self, path: str, default=None) -> str:
        name = path.split("/")[3]
        return str(self.uses[name]) if name in self.uses else default

    def run(self, argv, ok=(0,), **_rest):
        self.done.append(" ".join(argv))
        name = argv[-1]
        code = 0
        if argv[0] == "rmmod" and name in self.busy:
            code = 1
        elif argv[0] == "rmmod":
            del self.uses[name]
            if self.needs.get(name) in self.uses:
                self.uses[self.needs[name]] -= 1
        elif "--show-depends" in argv and name == "broken":
            raise Failure("command_missing", "The command modprobe is not on this host.", "Install it.")
        elif "--dry-run" in argv:
            code = 0 if name in self.known else 1
            if name == "broken":
                raise Failure("command_missing", "The command modprobe is not on this host.", "Install it.")
        if code not in ok:
            raise Failure("command_failed", "refused", "Look.")
        return SimpleNamespace(returncode=code, stdout=DEPENDS.get(name, ""))


def test_modules_go_from_the_top_and_what_others_use_stays(monkeypatch):
    kernel = Kernel(monkeypatch, {"base": 1, "top": 0, "shared": 2, "theirs": 0, "busy": 0}, {"top": "base"}, ("busy",))
    assert host.unload_modules(["base", "top", "shared", "busy", "never-loaded"]) == ["top", "base"]
    assert set(kernel.uses) == {"shared", "theirs", "busy"}
    kernel.done.clear()
    assert host.unload_modules(["never-loaded"]) == [] and kernel.done == []


@pytest.mark.parametrize(("module", "disk"), [("brd", "ram"), ("zram", "zram")])
def test_a_module_with_an_idle_disk_of_somebody_stays(monkeypatch, module, disk):
    """No process has it open, so the kernel would let the module go, and the contents of the disk with it."""
    kernel = Kernel(monkeypatch, {module: 0, "loop": 0}, {})
    kernel.disks = {f"{disk}3"}
    assert host.unload_modules([module, "loop"]) == ["loop"] and kernel.done == ["rmmod loop"]
    kernel.disks = {"md3", "loop4", f"not{disk}5"}
    assert host.unload_modules([module]) == [module]


def test_the_module_of_connections_stays_with_those_of_others(monkeypatch):
    """The kernel counts no use of it, and ends the connections with it."""
    kernel = Kernel(monkeypatch, {"nvme_tcp": 0, "nvme_fabrics": 1}, {"nvme_tcp": "nvme_fabrics"})
    monkeypatch.setattr(host, "nvme_connections", lambda: ["/sys/class/nvme/nvme3"])
    assert host.unload_modules(["nvme_fabrics", "nvme_tcp"]) == [] and kernel.done == []
    monkeypatch.setattr(host, "nvme_connections", list)
    assert host.unload_modules(["nvme_fabrics", "nvme_tcp"]) == ["nvme_tcp", "nvme_fabrics"]


def test_a_module_is_loaded_unless_it_or_what_it_provides_is_there(monkeypatch):
    kernel = Kernel(monkeypatch, {"loop": 0}, {})
    intended: list = []
    host.load_module("loop", "max_loop=3", intend=intended.append)
    host.load_module("zram", provides="/dev/there", intend=intended.append)
    assert (kernel.done, intended) == ([], [])
    host.load_module("zram", "num_devices=0", provides="/dev/missing", intend=intended.append)
    host.load_module("raid456", intend=lambda names: kernel.done.append(f"noted {sorted(names)}"))
    assert intended == [{"zram"}]
    # A module that is built in or loaded is not among what is ours from now on.
    assert kernel.done == [
        "modprobe --show-depends zram",
        "modprobe zram num_devices=0",
        "modprobe --show-depends raid456",
        "noted ['async_raid6_recov', 'raid456']",
        "modprobe raid456",
    ]


def test_modules_that_cannot_be_known_are_not_claimed(monkeypatch):
    Kernel(monkeypatch, {"loop": 0}, {})
    assert host.missing_modules("loop") == host.missing_modules("ext4") == host.missing_modules("broken") == set()


@pytest.mark.parametrize(("name", "available"), [("loop", True), ("zram", True), ("brd", False), ("broken", False)])
def test_whether_a_module_could_be_loaded(monkeypatch, name, available):
    kernel = Kernel(monkeypatch, {"loop": 0}, {}, known=("zram",))
    assert host.module_available(name) is available
    assert kernel.done == ([] if name == "loop" else [f"modprobe --dry-run --quiet {name}"])
