# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the system refuses reaches the user as a failure with a code and a remedy, from every module; and no umask decides about modes."""

from __future__ import annotations

import errno
import importlib
import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import answer
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from places import ROOT

# Those of actions are documentation alone.
MODULES = sorted(
    path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if "def main" in path.read_text(encoding="utf-8")
)
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS), "/mnt/seven/ds1")


class Ended(Exception):
    """A module has given its answer."""


class Unreadable(dict):
    """Arguments with which every call fails that gets one of them."""

    def _fail(self, *_arguments):
        raise READ_ONLY

    __getitem__ = __iter__ = __contains__ = get = keys = items = values = _fail


class Module:
    """An AnsibleModule whose task is of no matter."""

    check_mode = False

    def __init__(self, **_options):
        self.params, self.umask = Unreadable(), None

    def get_bin_path(self, _name):
        return None

    def exit_json(self, **result):
        raise Ended(result)

    def fail_json(self, **result):
        raise Ended({**result, "failed": True})


@pytest.mark.parametrize("name", MODULES)
def test_no_module_ends_with_a_bare_refusal_of_the_system(name, monkeypatch):
    module = importlib.import_module(f"ansible_collections.storlab.testbed.plugins.modules.{name}")
    monkeypatch.setattr(module, "AnsibleModule", Module)
    with pytest.raises(Ended) as ended:
        module.main()
    [result] = ended.value.args
    assert result["failed"] and result["failure"]["code"] == "system_refused"
    assert result["failure"]["details"] == {"errno": "EROFS", "path": "/mnt/seven/ds1"}
    assert (
        "/mnt/seven/ds1 failed: Read-only file system." in result["msg"] and "Mount that file system" in result["msg"]
    )


def test_all_modules_are_tried():
    assert len(MODULES) > 30


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/run/a"),
            "/run/a failed: No space left on device. Make room",
        ),
        (OSError(errno.EXDEV, "Invalid cross-device link", "/a", None, b"/b"), "/a to /b failed: Invalid cross"),
        (
            PermissionError(errno.EPERM, "Operation not permitted"),
            "A call of the system failed: Operation not permitted",
        ),
        (TimeoutError("timed out"), "A call of the system failed: timed out."),
        (OSError(), "A call of the system failed: OSError."),
        (
            OSError(errno.EIO, "Input/output error", 7),
            "A call of the system failed: Input/output error. Look at the kernel",
        ),
        # As of a LUN whose target was cut off for longer than its initiator waits.
        (
            OSError(errno.ENXIO, "No such device or address", "/dev/sda"),
            "/dev/sda failed: No such device or address. Nothing answers at that device any more: bring back the disk",
        ),
        (
            OSError(errno.ENODEV, "No such device", "/dev/sdb"),
            "/dev/sdb failed: No such device. Nothing answers at that device any more: bring back the disk",
        ),
    ],
)
def test_each_refusal_says_what_and_what_to_do(error, words):
    failure = answer.refused_by_system(error)
    there = answer.refused_by_system(error, on_controller=True)
    assert there.code == failure.code and there.what == failure.what.replace(" failed:", " failed on the controller:")
    # No ansible_become gives a right on the controller.
    assert "ansible_become" not in there.remedy and "of the host" not in there.remedy
    assert str(failure).startswith(words) and failure.remedy


def test_what_brings_back_a_target_of_the_testbed_is_named():
    # Its teardown may have gone through while the client was cut off.
    failure = answer.refused_by_system(OSError(errno.ENXIO, "No such device or address", "/dev/sda"))
    assert "`build`" in failure.remedy


def test_other_failures_stay_what_they_are():
    with pytest.raises(Ended) as ended, answer.failures_of(Module()):
        raise Failure("seven", "It is seven.", "Take eight.", number=7)
    assert ended.value.args[0] == {
        "failed": True,
        "msg": "It is seven. Take eight.",
        "failure": {"code": "seven", "what": "It is seven.", "remedy": "Take eight.", "details": {"number": 7}},
    }
    with pytest.raises(KeyError), answer.failures_of(Module()):
        raise KeyError("seven")


@pytest.mark.parametrize("before", [0, 0o077])
def test_what_a_module_makes_has_the_same_mode_for_everybody(before, tmp_path):
    outside = os.umask(before)
    try:
        with answer.failures_of(Module()):
            os.makedirs(tmp_path / "above" / "below")
            (tmp_path / "file").write_text("7", encoding="utf-8")
        assert os.umask(before) == before
    finally:
        os.umask(outside)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("above", "above/below", "file")]
    assert modes == [0o755, 0o755, 0o644]
