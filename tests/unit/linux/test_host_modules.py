# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of a host: what is loaded, what can be, and what goes; modprobe and rmmod are those of a kernel made of words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import host


class Kernel:
    """uses: {module: how many use it}; needs: {module: the one below it}; busy: what rmmod refuses."""

    def __init__(self, monkeypatch, uses: dict, needs: dict, busy: tuple = (), known: tuple = ()) -> None:
        self.uses, self.needs, self.busy, self.known, self.done = uses, needs, busy, known, []
        monkeypatch.setattr(host, "loaded_modules", lambda: set(self.uses))
        monkeypatch.setattr(host, "read_text", self.read)
        monkeypatch.setattr(host, "run", self.run)
        folders = {
            "isdir": lambda path: path.rpartition("/")[2] in self.uses,
            "exists": lambda path: path == "/dev/there",
        }
        monkeypatch.setattr(host, "os", SimpleNamespace(path=SimpleNamespace(**folders)))

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
        elif "--dry-run" in argv:
            code = 0 if name in self.known else 1
            if name == "broken":
                raise Failure("command_missing", "The command modprobe is not on this host.", "Install it.")
        if code not in ok:
            raise Failure("command_failed", "refused", "Look.")
        return SimpleNamespace(returncode=code)


def test_modules_go_from_the_top_and_what_others_use_stays(monkeypatch):
    kernel = Kernel(monkeypatch, {"base": 1, "top": 0, "shared": 2, "theirs": 0, "busy": 0}, {"top": "base"}, ("busy",))
    assert host.unload_modules(["base", "top", "shared", "busy", "never-loaded"]) == ["top", "base"]
    assert set(kernel.uses) == {"shared", "theirs", "busy"}
    kernel.done.clear()
    assert host.unload_modules(["never-loaded"]) == [] and kernel.done == []


def test_a_module_is_loaded_unless_it_or_what_it_provides_is_there(monkeypatch):
    kernel = Kernel(monkeypatch, {"loop": 0}, {})
    host.load_module("loop", "max_loop=3")
    host.load_module("zram", provides="/dev/there")
    assert kernel.done == []
    host.load_module("zram", "num_devices=0", provides="/dev/missing")
    host.load_module("brd")
    assert kernel.done == ["modprobe zram num_devices=0", "modprobe brd"]


@pytest.mark.parametrize(("name", "available"), [("loop", True), ("zram", True), ("brd", False), ("broken", False)])
def test_whether_a_module_could_be_loaded(monkeypatch, name, available):
    kernel = Kernel(monkeypatch, {"loop": 0}, {}, known=("zram",))
    assert host.module_available(name) is available
    assert kernel.done == ([] if name == "loop" else [f"modprobe --dry-run --quiet {name}"])
