# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what Python compiled from zip archives, in the machines of the embedded lab.

Ansible sends each module as an archive of source, and Python compiles it again for each task. An emulated processor needs two seconds for
that; read back from memory it is half of one. The code that is kept is found by the hash of its source, so it is never the wrong one.
"""

from __future__ import annotations

import zipimport

FOLDER = "/run/python-archives"
compile_source = zipimport._compile_source


def compile_once(pathname, source):
    import hashlib
    import marshal
    import os

    path = os.path.join(FOLDER, hashlib.sha256(source).hexdigest())
    try:
        with open(path, "rb") as stream:
            return marshal.load(stream)  # noqa: S302 - root wrote it, and only root can
    except (OSError, EOFError, TypeError, ValueError):
        pass  # not compiled yet since the machine started, or damaged
    code = compile_source(pathname, source)
    if os.geteuid() == 0:
        part = f"{path}.{os.getpid()}"
        try:
            os.makedirs(FOLDER, mode=0o700, exist_ok=True)
            with open(part, "wb") as stream:
                marshal.dump(code, stream)
            os.replace(part, path)
        except OSError:
            # A full file system: the module runs all the same, and is compiled again the next time.
            if os.path.exists(part):
                os.unlink(part)
    return code


zipimport._compile_source = compile_once
