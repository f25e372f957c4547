#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded labs of this checkout, for the Makefile: no Ansible, no virtual environment and no file of a lab is needed to end one.

Usage: labs.py whole TESTBED_ID     whether its playbooks can take it down (exit 0); else says why not (exit 1)
       labs.py unproven TESTBED_ID  whether this computer was not yet proven to be as it was before the lab (exit 0)
       labs.py end [TESTBED_ID]     end what is left of it, or of all labs of this checkout
in the folder of the checkout.
"""

from __future__ import annotations

import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from plugins.module_utils.core.failure import Failure  # noqa: E402
from plugins.module_utils.lab import leftovers  # noqa: E402


def folders() -> list:
    """Of this checkout, by the path that it was called by and by the real one: labs are named after either."""
    return list(dict.fromkeys([os.environ.get("PWD", os.getcwd()), os.getcwd()]))


def whole(testbed_id: str) -> int:
    for folder in folders():
        name = leftovers.labs_of(f"{folder}/.cache/lab").get(testbed_id)
        if name:
            lab, state = f"{folder}/.cache/lab/{testbed_id}", f"{folder}/.cache/testbeds/{testbed_id}"
            why = leftovers.broken(lab, state, name)
            if why:
                print(
                    f"Testbed {testbed_id} is not taken down host by host, because {why}: its machines end, and what is in them goes with them."
                )
            return 1 if why else 0
    print(f"Testbed {testbed_id} has no machines: there is nothing to take down.")
    return 1


def unproven(testbed_id: str) -> int:
    kept = [
        path
        for folder in folders()
        for path in glob.glob(f"{glob.escape(folder)}/.cache/testbeds/{testbed_id}/lab/before/*.json")
    ]
    return 0 if any(not leftovers.verified(path) for path in kept) else 1


def end(wanted: list) -> int:
    for folder in folders():
        for testbed_id, name in leftovers.labs_of(f"{folder}/.cache/lab").items():
            if not wanted or testbed_id in wanted:
                for line in leftovers.end(f"{folder}/.cache/lab/{testbed_id}", name):
                    print(f"Ended: {line}")
    return 0


def main() -> int:
    try:
        if len(sys.argv) == 3 and sys.argv[1] == "whole":
            return whole(sys.argv[2])
        if len(sys.argv) == 3 and sys.argv[1] == "unproven":
            return unproven(sys.argv[2])
        if len(sys.argv) in (2, 3) and sys.argv[1] == "end":
            return end(sys.argv[2:])
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 2
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
