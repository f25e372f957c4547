# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts pip into an empty virtual environment, in the place of the script that ansible-test would download: from Python itself and the package index."""

from __future__ import annotations

import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
wanted = [argument for argument in sys.argv[1:] if not argument.startswith("--no-")]
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=True)
