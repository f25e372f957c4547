# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lint of this project finds what it is said to keep out of the code (docs/security.md)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from places import ROOT

HEAD = "from __future__ import annotations\n\n"
FORBIDDEN = {
    "S602": "import subprocess\n\nsubprocess.run('ls', shell=True, check=True)\n",
    "S307": "print(eval(input()))\n",
    "S301": "import pickle\n\nprint(pickle.loads(b''))\n",
    "S506": "import yaml\n\nprint(yaml.load('', Loader=yaml.Loader))\n",
    "S323": "import ssl\n\nprint(ssl._create_unverified_context())\n",
    "S306": "import tempfile\n\nprint(tempfile.mktemp())\n",
    "S108": "with open('/tmp/storlab') as handle:\n    print(handle.read())\n",
}
PLACES = [
    "plugins/module_utils/linux/x.py",
    "plugins/plugin_utils/store/x.py",
    "plugins/modules/x.py",
    "plugins/action/x.py",
]


def findings(text: str, place: str) -> set:
    """Codes of what ruff finds in a text that would lie there."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json", f"--stdin-filename={place}", "-"],
        input=HEAD + text,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {finding["code"] for finding in json.loads(done.stdout)}


@pytest.mark.parametrize("code", FORBIDDEN)
def test_what_is_kept_out_is_found_wherever_code_is_shipped(code):
    for place in PLACES:
        assert code in findings(FORBIDDEN[code], place)


def test_what_is_harmless_is_let_through():
    for place in PLACES:
        assert findings("import subprocess\n\nsubprocess.run(['/bin/ls'], check=True)\n", place) == set()
