# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Jinja2 filter out of a reader of text. On the controller only: it knows Ansible's errors, which module_utils must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ...module_utils.core.failure import Failure, bad_value
from .import_files import decode


def text_filter(read: Callable[..., object], name: str, what: str) -> Callable[..., object]:
    """The filter ``name`` that hands text (or bytes) to ``read`` and turns its Failure into a filter error."""

    def apply(text: bytes | str, **options: Any) -> Any:
        try:
            if isinstance(text, bytes):
                text = decode(text)
            elif isinstance(text, str) and "\0" in text[:8]:
                # A lookup read a file of Windows' shells, which is UTF-16, byte by byte.
                text = decode(text.encode("utf-8", "surrogateescape"))
            if not isinstance(text, str):
                # Not Ansible's own kind of it.
                kind = next(kind for kind in type(text).__mro__ if kind.__module__ == "builtins")
                raise bad_value(f"the input of {name}", kind.__name__, f"Give it the text of {what}.")
            # Editors on Windows begin a file with a mark, which lookups keep.
            return read(text.lstrip("\ufeff"), **options)
        except Failure as failure:
            raise AnsibleFilterError(str(failure)) from failure

    return apply
