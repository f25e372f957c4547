# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a secret is remembered: as a salted digest, which proves later that it is still the same one and does not reveal it."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any


def digest(secret: str, salt: str) -> str:
    return hashlib.scrypt(secret.encode(), salt=bytes.fromhex(salt), n=1 << 12, r=8, p=1).hex()


def same_secret(secret: str, kept: dict[str, Any] | None) -> bool:
    return hmac.compare_digest(digest(secret, kept["salt"]), kept["digest"]) if kept else False


def keep_secret(secret: str) -> dict[str, str]:
    salt = os.urandom(16).hex()
    return {"salt": salt, "digest": digest(secret, salt)}
